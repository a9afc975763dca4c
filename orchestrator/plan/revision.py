"""A revision: what the fabric is to do, whole and for good. Pure: values in, values out.

Its policy and intent carry generation 0; the rollout that brings it into force gives both the same new generation, so
that going back to an old revision is a step forward in generations too.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, Self

from qclimb.bigspine import classes_of, priorities_of
from qclimb.errors import PolicyError
from qclimb.histogram import SizeHistogram
from qclimb.intent import PathWeights, SwitchIntent
from qclimb.policy import Mode, Policy
from qclimb.schema import validate_gnmi

from ..errors import ForecastError
from . import shares
from .foretold import foretold_shares
from .paths import QUEUES, Decided, Wish, decide
from .sizes import SizeDistribution
from .thresholds import Objective, last_share_of, optimise

Json = dict[str, Any]

MAX_QUEUES = PRIORITIES = 8
UNMARKED = (Mode.OFF, Mode.OBSERVE)
"""Modes in which hosts mark nothing: no flow sizes are needed for them, and none are used."""


@dataclass(frozen=True)
class Revision:
    """What hosts (policy) and switches (intent) get."""

    policy: Policy
    intent: SwitchIntent

    def at(self, generation: int) -> "Revision":
        """The same, as the given generation."""
        return Revision(replace(self.policy, generation=generation), replace(self.intent, generation=generation))

    def intent_of(self, role: str) -> SwitchIntent:
        """What a switch of that role gets: a spine sends nothing to spines, but needs the queues."""
        if role == "leaf" or not self.intent.spines:
            return self.intent
        return replace(self.intent, tier="spine", path_weights=None)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON."""
        return {"policy": self.policy.to_json(), "intent": self.intent.to_gnmi()}

    @classmethod
    def from_json(cls, found: dict[str, Any]) -> Self:
        """The revision of `to_json`."""
        return cls(Policy.from_json(found["policy"]), SwitchIntent.from_stored(found["intent"]))


def compose(
    mode: Mode,
    threshold_bytes: tuple[int, ...],
    priorities: int,
    queues: tuple[int, ...] | None = None,
    ports: tuple[str, ...] = (),
    ecn_bytes: tuple[int, int] | None = None,
    dscp: tuple[int, ...] | None = None,
    dynamic_th: Sequence[int | None] | None = None,
    max_share: Sequence[float | None] | None = None,
    foretold_share: Sequence[float] | None = None,
    **policy: Any,
) -> Revision:
    """One path (K = 1): each priority has its own queue, `queues` in served-first order, by default P-1 down to 0.

    `policy` are Policy's other fields. Raises PolicyError and IntentError.
    """
    if not 1 <= priorities <= MAX_QUEUES:
        raise PolicyError(f"priorities is {priorities}, expected 1..{MAX_QUEUES}: a queue each on one path")
    queues = tuple(range(priorities - 1, -1, -1)) if queues is None else queues
    if len(queues) != priorities:
        raise PolicyError(f"queues has {len(queues)} entries, expected {priorities}, one a priority")
    classes = classes_of((), queues, dscp, threshold_bytes, dynamic_th, max_share, foretold_share)
    told = Policy(0, mode, threshold_bytes, tuple(each.dscp for each in classes), **policy)
    least, most = ecn_bytes or (None, None)
    return Revision(told, SwitchIntent(0, "enabled", classes, ports, least, most))


def compose_spines(
    mode: Mode,
    decided: Decided,
    ports: tuple[str, ...] = (),
    ecn_bytes: tuple[int, int] | None = None,
    dynamic_th: Sequence[int | None] | None = None,
    max_share: Sequence[float | None] | None = None,
    foretold_share: Sequence[float] | None = None,
    **policy: Any,
) -> Revision:
    """Several paths, or what is left of them; `policy` are Policy's other fields. Raises PolicyError, IntentError."""
    told_of = dynamic_th, max_share, foretold_share
    classes = classes_of(decided.names, decided.queues, decided.dscp, decided.threshold_bytes, *told_of)
    width, unpinned = len(decided.names) if len(decided.names) > 1 else 0, decided.unpinned_dscp
    told = Policy(0, mode, decided.threshold_bytes, decided.dscp, **policy, spines=width, unpinned_dscp=unpinned or 0)
    weights = None if decided.share is None else PathWeights(decided.share)
    least, most = ecn_bytes or (None, None)
    return Revision(told, SwitchIntent(0, "enabled", classes, ports, least, most, weights, unpinned))


def propose(
    sizes: SizeHistogram,
    weight_of: Mapping[str, float],
    *,
    thresholds: Literal["optimise"] | Sequence[int],
    objective: Objective,
    load: float,
    last_share: float,
    known_share: float = 0.0,
    segment_bytes: int,
    label: str | None,
    slack_bytes: int | None,
    model: int | None,
    queues: Sequence[int] | None,
    ports: Sequence[str] | None,
    priorities: int | None = None,
    spines: Sequence[str] | None = None,
    spine_gbps: Sequence[float] | None = None,
    weights: Literal["level", "equal"] | Mapping[str, float] = "level",
    dscp: Sequence[int] | None = None,
    unpinned_dscp: int | None = None,
    dynamic_th: Literal["choose"] | Sequence[int | None] | None = None,
    port: shares.Port | None = None,
    ask: Callable[[Json], list[Json]] | None = None,
    **others: Any,
) -> Json:
    """The revision of these wishes, as it is stored: thresholds computed from `sizes` where asked for, all checked.

    `label`: whose sizes they are; `weight_of`: what flows of hosts weigh in them that are not whole.
    `dynamic_th`: of each queue; "choose" lets `ask`, the simulator, foretell what sets of them do to these sizes.
    `others`: mode, ecn_bytes, max_share (of each queue), and Policy's other fields.
    Raises ThresholdError, PolicyError, IntentError, SchemaError.
    """
    last_share = last_share_of(known_share, last_share)
    if others["mode"] in UNMARKED:
        sizes = SizeHistogram()
        weights = "equal" if weights == "level" else weights
        if thresholds == "optimise":
            thresholds = _placeholders(spines, queues, priorities, segment_bytes)
    if spines is not None and len(spines) > 1:
        asked = {"objective": objective, "load": load, "last_share": last_share, "segment_bytes": segment_bytes}
        asked |= {"weights": weights, "label": label}
        wish = Wish.of(spines, spine_gbps, queues, dscp, unpinned_dscp, thresholds, **asked)
        if priorities not in (None, len(wish.dscp)):
            raise PolicyError(
                f"priorities is {priorities}, expected {len(wish.dscp)} for {len(spines)} spines with "
                f"{len(wish.queues)} queues"
            )
        decided = _decided(wish, wish.names, sizes)
        of_queues = _as_asked(dynamic_th) or shares.Shares(None, "the platform's: several spines are not foretold")
        others["dynamic_th"] = of_queues.dynamic_th
        slack_bytes = decided.threshold_bytes[0] if slack_bytes is None else slack_bytes
        others["foretold_share"] = foretold_shares(sizes, decided.threshold_bytes, others["mode"], slack_bytes)
        others |= {"slack_bytes": slack_bytes, "model_generation": model or 0}
        made = compose_spines(decided=decided, ports=tuple(ports or ()), **others)
        return {**_stored(wish, decided, weight_of, made), "shares": of_queues.to_json()}
    chosen: Json | None = None
    priorities = PRIORITIES if priorities is None else priorities
    if thresholds == "optimise":
        distribution = SizeDistribution.from_histogram(sizes)
        found = optimise(distribution, priorities, load, objective, last_share, segment_bytes)
        threshold_bytes = found.threshold_bytes
        chosen = {"objective": objective, "load": load, "label": label}
        chosen |= {"last_share": last_share, "segment_bytes": segment_bytes}
        chosen |= {"cost": found.cost, "thresholds_needed": found.used}
        if weight_of:
            chosen["flow_weights"] = dict(weight_of)
    else:
        threshold_bytes = tuple(thresholds)
    if slack_bytes is None:
        # As many as PIAS's first threshold: a forest that knows nothing is then PIAS, neither better nor worse.
        slack_bytes = threshold_bytes[0] if threshold_bytes else 0
    of_queues = _as_asked(dynamic_th) or _chosen(
        port, ask, sizes, threshold_bytes, others["mode"], slack_bytes, load, others.get("ecn_bytes")
    )
    made = compose(
        threshold_bytes=threshold_bytes,
        priorities=priorities,
        dynamic_th=of_queues.dynamic_th,
        dscp=None if dscp is None else tuple(dscp),
        queues=None if queues is None else tuple(queues),
        ports=tuple(ports or ()),
        slack_bytes=slack_bytes,
        model_generation=model or 0,
        foretold_share=foretold_shares(sizes, threshold_bytes, others["mode"], slack_bytes),
        **others,
    )
    validate_gnmi(made.intent.to_gnmi())
    told = {"threshold_bytes": list(threshold_bytes), "optimised": chosen, "shares": of_queues.to_json()}
    return {**told, **made.to_json()}


def _placeholders(
    spines: Sequence[str] | None, queues: Sequence[int] | None, priorities: int | None, segment_bytes: int
) -> list[int]:
    """Thresholds that no flow meets, as many as the priorities need: a segment, two, three and so on."""
    if spines is not None and len(spines) > 1:
        count = priorities_of(len(spines), len(QUEUES if queues is None else queues))
    else:
        count = PRIORITIES if priorities is None else priorities
    return [segment_bytes * number for number in range(1, count)]


def warnings_of(policy: Policy) -> list[str]:
    """What an operator may not have meant by a policy that is valid, a sentence each."""
    found = []
    if policy.mode is Mode.QCLIMB and not policy.model_generation:
        found.append(
            "model is null with mode qclimb: no forest foretells sizes, so flows climb by what programs hand over or "
            "announce alone"
            if policy.use_footprint or not policy.without_lengths
            else "model is null with mode qclimb, and neither footprint nor lengths count: hosts do what mode pias does"
        )
    if policy.mode is not Mode.QCLIMB and policy.model_generation:
        found.append(f"model is {policy.model_generation} with mode {policy.mode}: only mode qclimb uses one")
    return found


def _as_asked(dynamic_th: Literal["choose"] | Sequence[int | None] | None) -> shares.Shares | None:
    """Of who does not leave it to us."""
    if dynamic_th == "choose":
        return None
    if dynamic_th is None:
        return shares.Shares(None, "the platform's, as asked")
    return shares.Shares(tuple(dynamic_th), "as asked")


def _chosen(
    port: shares.Port | None,
    ask: Callable[[Json], list[Json]] | None,
    sizes: SizeHistogram,
    threshold_bytes: tuple[int, ...],
    mode: Mode,
    slack_bytes: int,
    load: float,
    ecn_bytes: tuple[int, int] | None,
) -> shares.Shares:
    """What the simulator foretells is best; the platform's where it can't be asked."""
    if port is None or ask is None:
        return shares.Shares(None, "the platform's: `port` is not told, so nothing is foretold")
    if not threshold_bytes:
        return shares.Shares(None, "the platform's: one priority has the whole buffer")
    if not sizes.counts:
        return shares.Shares(None, "the platform's: no flows are recorded")
    distribution = SizeDistribution.from_histogram(sizes)
    mark_bytes = None if ecn_bytes is None else ecn_bytes[0]
    is_qclimb = mode is Mode.QCLIMB
    asked = shares.question(port, distribution, threshold_bytes, is_qclimb, slack_bytes, load, mark_bytes)
    try:
        return shares.choose(ask(asked))
    except ForecastError as error:
        return shares.Shares(None, f"the platform's: {error}")


def adapted(document: Json, names: Sequence[str], sizes: SizeHistogram, weight_of: Mapping[str, float]) -> Json:
    """A revision with several spines as it is where only `names` of them are up: the same in all else.

    `sizes`: of the label that its wish names. Raises ThresholdError, IntentError.
    """
    old, wish = Revision.from_json(document), Wish.from_json(document["spines"]["wish"])
    decided = _decided(wish, names, sizes)
    kept = {field.name: getattr(old.policy, field.name) for field in fields(Policy) if field.name not in DECIDED}
    ecn = None
    if old.intent.ecn_min_bytes is not None and old.intent.ecn_max_bytes is not None:
        ecn = old.intent.ecn_min_bytes, old.intent.ecn_max_bytes
    of_queue = {one.queue: one for one in old.intent.classes}
    policy = old.policy
    made = compose_spines(
        decided=decided,
        ports=old.intent.ports,
        ecn_bytes=ecn,
        dynamic_th=[of_queue[queue].dynamic_th for queue in decided.queues],
        max_share=[of_queue[queue].max_share for queue in decided.queues],
        foretold_share=foretold_shares(sizes, decided.threshold_bytes, policy.mode, policy.slack_bytes),
        **kept,
    )
    return {**document, **_stored(wish, decided, weight_of, made)}


DECIDED = ("generation", "threshold_bytes", "dscp", "spines", "unpinned_dscp")
"""Fields of a policy that a wish decides, or a rollout."""


def _decided(wish: Wish, names: Sequence[str], sizes: SizeHistogram) -> Decided:
    return decide(wish, names, SizeDistribution.from_histogram(sizes) if wish.needs_sizes else None)


def _stored(wish: Wish, decided: Decided, weight_of: Mapping[str, float], made: Revision) -> Json:
    """As a revision with several spines is kept, checked."""
    validate_gnmi(made.intent.to_gnmi())
    chosen: Json | None = None
    if decided.chosen is not None:
        chosen = {"objective": wish.objective, "load": wish.load, "label": wish.label}
        chosen |= {"last_share": wish.last_share, "segment_bytes": wish.segment_bytes}
        chosen |= {"cost": decided.chosen.cost, "thresholds_needed": decided.chosen.used}
        if weight_of:
            chosen["flow_weights"] = dict(weight_of)
    spines = {"wish": wish.to_json(), **decided.told()}
    return {
        "threshold_bytes": list(decided.threshold_bytes),
        "optimised": chosen,
        "spines": spines,
        **made.to_json(),
    }
