"""What is compared: PIAS, QCLIMB and the paper's QCLIMB-PS, -PP and -FP, each on the library as it is shipped.

The definitions are the simulator's (lab/sim/engine/schemes/tagging.h). Algorithm 1 takes PS and PP as settings: the
sender tells a size before its flow (qclimb_flow_size: L = U = that, no slack), the true one or the one foretold; past
it the flow is served last. FP is no setting of it: there the application sets its own DSCP for the whole flow, that of
the size foretold, and the library leaves such a socket alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from qclimb.policy import default_dscp

from lab.scheduler import Scheduler
from lab.sim.tcp import PIAS_2015_WEB_SEARCH
from lab.workload.mixture import part_of
from lab.workload.passes import Word
from lab.workload.schemes import SCHEMES as SERVED
from lab.workload.schemes import Scheme, by_of, name_by
from lab.workload.trace import Trace

PUBLISHED_SLACK_BYTES = 100_000
"""QCLIMB's S."""
PUBLISHED_THRESHOLDS: Mapping[int, tuple[int, ...]] = {8: PIAS_2015_WEB_SEARCH, 2: (100_000,)}
"""By the number of queues. QCLIMB takes "the same thresholds as the PIAS paper" for every workload; for two queues
the module that PIAS's authors published has 100 KB."""


@dataclass(frozen=True)
class Variant:
    """A scheme, with what is told of flows and which forest is used."""

    scheme: Scheme
    told: Literal["nothing", "size", "point", "priority", "announced"] = "nothing"
    """`announced`: of each recorded flow what its own bytes had said; the sender tells it, as the library would."""
    depth: int = 10
    foreign: bool = False
    """The forest of the other trace."""
    share: float = 1.0
    """Of the flows, those that anything is told of; the others are PIAS's."""
    told_part: str = ""
    """Of a mixture, the part whose flows anything is told of; "": all."""

    @property
    def name(self) -> str:
        """Unique."""
        return self.scheme.name

    def scheme_by(self, optimised: bool) -> Scheme:
        """With the slack that goes with the thresholds: the paper's, or the orchestrator's choice."""
        if optimised or not self.scheme.use_forest or self.scheme.slack_bytes is not None:
            return self.scheme
        return replace(self.scheme, slack_bytes=PUBLISHED_SLACK_BYTES)

    @property
    def by(self) -> Scheduler:
        """What schedules its programs."""
        return by_of(self.name)

    @property
    def title(self) -> str:
        """For people."""
        return self.scheme.title


def _qclimb(name: str, title: str, priorities: int = 8, slack_bytes: int | None = None) -> Scheme:
    return Scheme(
        name, title, "qclimb", use_forest=True, use_footprint=True, slack_bytes=slack_bytes, priorities=priorities
    )


SLACKS_BYTES = (0, 20_000, 50_000)
PRODUCT_SLACKS_BYTES = (0, PIAS_2015_WEB_SEARCH[0])
"""None, and what the product takes: the first threshold."""
SHARES_PERCENT = (20, 40, 60, 80, 100)
"""Of the flows, those under QCLIMB (Fig. 20)."""
BY_LIBRARY: Mapping[str, Variant] = {
    variant.name: variant
    for variant in (
        Variant(SERVED["tcp"]),
        Variant(SERVED["pias"]),
        Variant(SERVED["qclimb"]),
        Variant(Scheme("qclimb-forest", "QCLIMB, forest alone", "qclimb", use_forest=True)),
        Variant(Scheme("qclimb-fp", "QCLIMB-FP", "pias"), told="priority"),
        Variant(Scheme("qclimb-pp", "QCLIMB-PP", "qclimb"), told="point"),
        Variant(Scheme("qclimb-ps", "QCLIMB-PS", "qclimb"), told="size"),
        Variant(Scheme("pias-2q", "PIAS, 2 queues", "pias", priorities=2)),
        Variant(Scheme("qclimb-footprint", "QCLIMB, footprint alone", "qclimb", use_footprint=True)),
        Variant(_qclimb("qclimb-lengths", "QCLIMB, lengths too"), told="announced"),
        Variant(
            Scheme("qclimb-no-forest", "QCLIMB, footprint and lengths", "qclimb", use_footprint=True), told="announced"
        ),
        *(
            Variant(Scheme(f"told-{n}", f"{n} % by QCLIMB", "qclimb"), told="size", share=n / 100)
            for n in SHARES_PERCENT
        ),
        Variant(Scheme("told-spark", "Spark by QCLIMB, web by PIAS", "qclimb"), told="size", told_part="spark"),
        Variant(_qclimb("qclimb-2q", "QCLIMB, 2 queues", priorities=2)),
        Variant(Scheme("forest-d5", "forest alone, depth 5", "qclimb", use_forest=True), depth=5),
        Variant(Scheme("forest-d1", "forest alone, depth 1", "qclimb", use_forest=True), depth=1),
        Variant(Scheme("forest-wrong", "forest alone, of the other trace", "qclimb", use_forest=True), foreign=True),
        *(
            Variant(Scheme(f"forest-s{n}", f"forest alone, S = {n // 1000} KB", "qclimb", True, slack_bytes=n))
            for n in SLACKS_BYTES
        ),
        *(
            Variant(_qclimb(f"qclimb-s{n}", f"QCLIMB, S = {n / 1000:g} KB", slack_bytes=n))
            for n in PRODUCT_SLACKS_BYTES
        ),
    )
}


def _by_kernel(variant: Variant) -> Variant:
    name, title = name_by(variant.name, "kernel"), f"{variant.title}, by the kernel"
    announces = variant.told in ANNOUNCES
    return replace(variant, scheme=replace(variant.scheme, name=name, title=title, use_lengths=announces))


ANNOUNCES = ("size", "announced")
"""What senders tell that no library hears: in their messages' first bytes (announce.py)."""
NO_LIBRARY = ("nothing", "priority", *ANNOUNCES)
"""What can be told of flows without a library. Not a size that may be too small (PP): of a message that turns out
longer than it announced the kernel mode believes nothing."""
VARIANTS: Mapping[str, Variant] = {
    **BY_LIBRARY,
    **{each.name: each for each in map(_by_kernel, BY_LIBRARY.values()) if each.told in NO_LIBRARY},
}
"""All: those of the library, and those that hostd's kernel mode can serve as well."""


def is_told(variant: Variant, flow_id: int, service: str = "") -> bool:
    """Whether a flow is in the part and in the share that is told of; a larger share has all flows of a smaller one."""
    if variant.told_part and part_of(service) != variant.told_part:
        return False
    return (flow_id * 2_654_435_761) % 2**32 < variant.share * 2**32  # Knuth's multiplicative hash


def words_of(
    variant: Variant, trace: Trace, points_bytes: Sequence[float], thresholds: Sequence[int]
) -> dict[int, Word]:
    """What is told of each flow, by id; `points_bytes`: the sizes foretold, in the trace's order."""
    if variant.told == "nothing":
        return {}
    if variant.told == "announced":
        return {flow.id: Word(told_bytes=flow.announced_bytes) for flow in trace.flows if flow.announced_bytes}
    if variant.told == "size":
        return {flow.id: Word(told_bytes=flow.bytes) for flow in trace.flows if is_told(variant, flow.id, flow.service)}
    points = [max(1, round(point)) for point in points_bytes]
    if variant.told == "point":
        return {flow.id: Word(told_bytes=point) for flow, point in zip(trace.flows, points, strict=True)}
    dscp = default_dscp(variant.scheme.priorities)
    return {
        flow.id: Word(dscp=dscp[sum(point >= threshold for threshold in thresholds)])
        for flow, point in zip(trace.flows, points, strict=True)
    }
