"""What an operator wishes of several spines, and what is decided of it for those that are up. Pure.

The wish is kept with the revision, so that the same can be decided anew when a spine goes down, or comes back.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, Self

from qclimb.bigspine import UNPINNED_DSCP, check_free, check_spines, dscp_list, priorities_of
from qclimb.errors import IntentError, PolicyError

from ..errors import ThresholdError
from .sizes import SizeDistribution
from .spines import BigSpine, optimise_spines
from .thresholds import Objective, Thresholds, optimise
from .weights import Spread, mended, parts_of, spread

Json = dict[str, Any]
QUEUES = (1, 0)
"""Of a revision with several spines that names none."""


@dataclass(frozen=True)
class Wish:
    """Of several spines; the fields of rest.bodies.RevisionBody that they concern.

    names            all of them, in the order of the table's first row
    gbps             the rate of each one's links; None: alike
    queues           SONiC's numbers, served-first order
    dscp             of each priority; unpinned_dscp: of what is pinned to no spine; both as decided
    thresholds       None: computed, from the sizes of `label` (None: all)
    weights          "level", "equal" (none are told), or the share of each spine
    """

    names: tuple[str, ...]
    gbps: tuple[float, ...] | None
    queues: tuple[int, ...]
    dscp: tuple[int, ...]
    unpinned_dscp: int
    thresholds: tuple[int, ...] | None
    weights: Literal["level", "equal"] | Mapping[str, float]
    objective: Objective
    load: float
    last_share: float
    segment_bytes: int
    label: str | None

    @classmethod
    def of(
        cls,
        spines: Sequence[str],
        gbps: Sequence[float] | None,
        queues: Sequence[int] | None,
        dscp: Sequence[int] | None,
        unpinned_dscp: int | None,
        thresholds: Sequence[int] | Literal["optimise"],
        **others: Any,
    ) -> Self:
        """Checked, and what was left open decided. Raises PolicyError, IntentError, ThresholdError."""
        check_spines(spines)
        queues = QUEUES if queues is None else queues
        if len(queues) < 2:
            raise PolicyError(f"queues has {len(queues)} entries, expected at least 2 on several spines")
        chosen = dscp_list(priorities_of(len(spines), len(queues)), dscp, pinned=True)
        unpinned_dscp = UNPINNED_DSCP if unpinned_dscp is None else unpinned_dscp
        check_free(unpinned_dscp, "unpinned_dscp", chosen)
        if unpinned_dscp == 0:
            raise PolicyError("unpinned_dscp is 0, expected another: packets that nobody marked carry it")
        if gbps is not None and len(gbps) != len(spines):
            raise PolicyError(f"spine_gbps has {len(gbps)} values, expected {len(spines)}, one a spine")
        told = None if thresholds == "optimise" else tuple(thresholds)
        rates = None if gbps is None else tuple(gbps)
        found = cls(tuple(spines), rates, tuple(queues), chosen, unpinned_dscp, told, **others)
        found._check_weights()
        return found

    def _check_weights(self) -> None:
        if isinstance(self.weights, str):
            return
        for name in self.weights:
            if name not in self.names:
                raise IntentError(f"weights has the spine {name!r}, expected one of {', '.join(self.names)}")
        for name in self.names:
            if name not in self.weights:
                raise IntentError(f"weights lacks the spine {name!r}, expected a share for each; 0 is one")

    @property
    def needs_sizes(self) -> bool:
        """Whether flow sizes decide anything."""
        return self.thresholds is None or self.weights == "level"

    def to_json(self) -> Json:
        """Plain JSON."""
        return asdict(self)

    @classmethod
    def from_json(cls, found: Json) -> Self:
        """The wish of `to_json`."""
        lists = {name: None if found[name] is None else tuple(found[name]) for name in ("gbps", "thresholds")}
        lists |= {name: tuple(found[name]) for name in ("names", "queues", "dscp")}
        return cls(**{**found, **lists, "objective": Objective(found["objective"])})


@dataclass(frozen=True)
class Decided:
    """Of a wish, for the spines `names`: one or none of them is one path, with a queue a priority.

    share    of the balanced class by spine; None: none is told
    carried  share of all bytes by class; None: not known
    chosen   how thresholds were computed; None where they were told
    """

    names: tuple[str, ...]
    queues: tuple[int, ...]
    dscp: tuple[int, ...]
    unpinned_dscp: int | None
    threshold_bytes: tuple[int, ...]
    share: Mapping[str, float] | None
    carried: tuple[float, ...] | None
    chosen: Thresholds | None

    def told(self) -> Json:
        """What a revision tells of it beside policy and intent."""
        share = None if self.share is None else dict(self.share)
        carried = None if self.carried is None else list(self.carried)
        return {"names": list(self.names), "share": share, "carried": carried}


def decide(wish: Wish, names: Sequence[str], sizes: SizeDistribution | None) -> Decided:
    """What spines `names`, some or all of the wish's in its order, are to do.

    `sizes` may be None where the wish needs none. Thresholds that were told lose those of spines that are not in
    `names`; then they are mended where a spine would be full, while at the whole wish such a one is refused.
    Raises ThresholdError, IntentError.
    """
    if not names:
        raise ThresholdError(f"spines {', '.join(wish.names)}: none is up, expected at least one")
    if sizes is None and wish.needs_sizes:
        raise ThresholdError("flow sizes: no flows recorded, at least one is needed")
    priorities = priorities_of(len(names), len(wish.queues))
    dscp = (*wish.dscp[: priorities - 1], wish.dscp[-1])
    rates = {name: 1.0 if wish.gbps is None else wish.gbps[wish.names.index(name)] for name in names}
    several = len(names) > 1
    chosen = _computed(wish, tuple(parts_of(rates).values()), sizes) if wish.thresholds is None else None
    threshold_bytes = chosen.threshold_bytes if chosen is not None else _left(wish, names)
    share: Mapping[str, float] | None = None
    carried: Spread | None = None
    if several and wish.weights == "level" and sizes is not None:
        if wish.thresholds is not None and len(names) < len(wish.names):
            threshold_bytes = mended(sizes, threshold_bytes, rates, wish.segment_bytes)
        carried = spread(sizes, threshold_bytes, rates)
        share = carried.share
    elif several and isinstance(wish.weights, Mapping):
        share = _of(wish.weights, names)
    unpinned = wish.unpinned_dscp if several else None
    bytes_of = None if carried is None else carried.carried
    return Decided(tuple(names), wish.queues, dscp, unpinned, threshold_bytes, share, bytes_of, chosen)


def _computed(wish: Wish, capacity: tuple[float, ...], sizes: SizeDistribution | None) -> Thresholds:
    assert sizes is not None
    wanted = (wish.load, wish.objective, wish.last_share, wish.segment_bytes)
    if len(capacity) == 1:
        return optimise(sizes, len(wish.queues), *wanted)
    return optimise_spines(sizes, BigSpine(capacity, len(wish.queues)), *wanted)


def _left(wish: Wish, names: Sequence[str]) -> tuple[int, ...]:
    """The told thresholds of classes at these spines; what came before the first of them begins with it."""
    assert wish.thresholds is not None
    if len(wish.thresholds) != len(wish.dscp) - 1:
        raise PolicyError(
            f"threshold_bytes has {len(wish.thresholds)} values, expected {len(wish.dscp) - 1} for "
            f"{len(wish.dscp)} priorities"
        )
    *pinned, last = (0, *wish.thresholds)
    if len(names) > 1:
        begins = [begin for k, begin in enumerate(pinned) if wish.names[k % len(wish.names)] in names]
    else:
        begins = pinned[:: len(wish.names)]
    return (*begins[1:], last)


def _of(weights: Mapping[str, float], names: Sequence[str]) -> dict[str, float]:
    """The told shares, as they are for all spines; in the same ratios for some."""
    if len(names) == len(weights):
        return dict(weights)
    total = sum(weights[name] for name in names)
    return {name: weights[name] / total if total else 1 / len(names) for name in names}
