"""From passes to numbers: FCT and slowdown by size class, and intervals that know that flows of one moment share
their fate.

Slowdown is FCT divided by what the same flow, written at once, takes alone on the idle fabric, as measured there: the
same number for every scheme. Half of the flows alone are a little faster, so a slowdown may read a little below 1; none
is clipped.

Intervals are over blocks of BLOCK_S of arrival time, since flows that arrive together meet the same queues. Schemes
replay the same trace, so a ratio is paired by block. Over several seeds, blocks of all seeds are drawn from one urn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lab.experiment.intervals import Interval, over_blocks, statistic

CLASSES = ("small", "medium", "large", "all")
BLOCK_S = 1.0

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Limits:
    """Up to how many bytes a flow is small, and medium; services whose flows are reported on lines of their own."""

    small_bytes: int
    medium_bytes: int
    apart: tuple[str, ...] = ()


@dataclass(frozen=True)
class Flows:
    """Flows of one scheme over one or several passes, in an order that is the same for every scheme."""

    fct_ms: Array
    slowdown: Array
    bytes: NDArray[np.int64]
    block: NDArray[np.int64]
    """Number of the block of arrival time that a flow belongs to."""
    service: NDArray[np.str_]
    limits: Limits

    @property
    def blocks(self) -> int:
        """How many there are."""
        return int(self.block.max()) + 1 if self.block.size else 0

    @property
    def finished(self) -> NDArray[np.bool_]:
        """Flows with an FCT."""
        return np.isfinite(self.fct_ms)

    def of_class(self, name: str) -> NDArray[np.bool_]:
        """Flows of a size class, but for the services that are reported apart."""
        inside = ~np.isin(self.service, self.limits.apart)
        if name == "small":
            return inside & (self.bytes <= self.limits.small_bytes)
        if name == "medium":
            return inside & (self.bytes > self.limits.small_bytes) & (self.bytes <= self.limits.medium_bytes)
        if name == "large":
            return inside & (self.bytes > self.limits.medium_bytes)
        if name == "all":
            return inside
        raise ValueError(f"no size class {name!r}; known: {', '.join(CLASSES)}")


def flows_of(results: Sequence[Any], limits: Limits, base: Sequence[Any] = ()) -> Flows:
    """Several passes of one scheme (`PassResult`s, one per seed, in a fixed order) poured together. `base`: passes over
    the same traces, whose flows alone count: fabrics that were brought up one after the other differ a little."""
    fct = [np.array(result.fct_us, float) for result in results]
    blocks, first = [], 0
    for result in results:
        block = (np.array(result.due_us) / (BLOCK_S * 1e6)).astype(np.int64)
        blocks.append(first + block)
        first += int(block.max()) + 1
    return Flows(
        fct_ms=np.concatenate(fct) / 1000,
        slowdown=np.concatenate([f / np.array(r.alone_us, float) for f, r in zip(fct, base or results, strict=True)]),
        bytes=np.concatenate([np.array(result.bytes, np.int64) for result in results]),
        block=np.concatenate(blocks),
        service=np.concatenate([np.array(result.service) for result in results]),
        limits=limits,
    )


def estimate(flows: Flows, size_class: str, name: str, of: str = "fct_ms") -> Interval:
    """Mean or p99 of `fct_ms` or `slowdown` of a class, with its interval."""
    chosen = flows.of_class(size_class) & flows.finished
    return over_blocks(getattr(flows, of)[chosen], flows.block[chosen], name, blocks=flows.blocks)


def ratio(flows: Flows, base: Flows, size_class: str, name: str, of: str = "fct_ms") -> Interval:
    """A scheme's statistic divided by another's over the flows that finished in both, paired by block."""
    if not np.array_equal(flows.bytes, base.bytes):
        raise ValueError("a ratio needs two passes of the same flows in the same order")
    chosen = flows.of_class(size_class) & flows.finished & base.finished
    ours, theirs = getattr(flows, of)[chosen], getattr(base, of)[chosen]
    return over_blocks(ours, flows.block[chosen], name, theirs, flows.blocks)


@dataclass(frozen=True)
class SchemeRow:
    """One scheme's line for one size class."""

    scheme: str
    size_class: str
    flows: int
    fct_mean_ms: Interval
    fct_p99_ms: Interval
    slowdown_mean: Interval
    slowdown_p99: Interval
    mean_ratio: Interval
    p99_ratio: Interval
    """Against the base scheme (plain TCP); 1 for itself."""


def rows(by_scheme: dict[str, Flows], base: str) -> list[SchemeRow]:
    """The table: each size class, each scheme, against `base`."""
    return [
        SchemeRow(
            scheme,
            size_class,
            int((flows.of_class(size_class) & flows.finished).sum()),
            estimate(flows, size_class, "mean"),
            estimate(flows, size_class, "p99"),
            estimate(flows, size_class, "mean", "slowdown"),
            estimate(flows, size_class, "p99", "slowdown"),
            ratio(flows, by_scheme[base], size_class, "mean"),
            ratio(flows, by_scheme[base], size_class, "p99"),
        )
        for size_class in CLASSES
        for scheme, flows in by_scheme.items()
    ]


@dataclass(frozen=True)
class ServiceRow:
    """One scheme's line for one service."""

    scheme: str
    service: str
    flows: int
    mean_bytes: float
    fct_mean_ms: float
    fct_p99_ms: float
    slowdown_mean: float


def service_rows(by_scheme: dict[str, Flows]) -> list[ServiceRow]:
    """The per-service table, queries included."""
    found = []
    names = sorted({str(name) for flows in by_scheme.values() for name in np.unique(flows.service)})
    for name in names:
        for scheme, flows in by_scheme.items():
            chosen = (flows.service == name) & flows.finished
            found.append(
                ServiceRow(
                    scheme,
                    name,
                    int(chosen.sum()),
                    statistic(flows.bytes[chosen].astype(float), "mean"),
                    statistic(flows.fct_ms[chosen], "mean"),
                    statistic(flows.fct_ms[chosen], "p99"),
                    statistic(flows.slowdown[chosen], "mean"),
                )
            )
    return found


@dataclass(frozen=True)
class Packets:
    """What TCP and the switches counted in the passes of one scheme."""

    scheme: str
    segments: int
    retransmitted: int
    spurious: int
    """Retransmissions that the receiver already had, as DSACK told the sender."""
    timeouts: int
    probes: int
    """Tail loss probes sent."""
    reordered: int
    """Reorderings that SACK showed a sender: what drain before promote is there to avoid."""
    drops: int
    idle_share: float
    late_share: float
    unfinished: int

    @property
    def retransmitted_share(self) -> float:
        """Of the segments sent."""
        return self.retransmitted / max(1, self.segments)

    @property
    def spurious_share(self) -> float:
        """Of the segments sent."""
        return self.spurious / max(1, self.segments)


def packets(scheme: str, results: Sequence[Any]) -> Packets:
    """Sums over passes; the idle share is the least of them."""

    def total(*keys: str) -> int:
        return sum(result.tcp.get(key, 0) for result in results for key in keys)

    return Packets(
        scheme,
        segments=total("OutSegs"),
        retransmitted=total("RetransSegs"),
        spurious=total("TCPDSACKRecv", "TCPDSACKOfoRecv"),
        timeouts=total("TCPTimeouts"),
        probes=total("TCPLossProbes"),
        reordered=total("TCPSACKReorder"),
        drops=sum(sum(result.queue_drops.values()) for result in results),
        idle_share=min(result.idle_share for result in results),
        late_share=max(result.late_share for result in results),
        unfinished=sum(sum(result.failures.values()) for result in results),
    )
