"""From passes to numbers: FCT and slowdown by size class, and intervals that know that flows of one moment share
their fate.

Slowdown is FCT divided by the FCT of the same flow alone on the idle fabric, by formula (`ideal_fct_us`: store and
forward, no processing), which the demo checks against flows measured on the idle fabric. The formula is a lower bound
but for what a shaper's burst credit gives back, so a slowdown may read a little below 1; none is clipped.

Intervals are by block bootstrap: flows are drawn again in blocks of BLOCK_S of arrival time, since flows that arrive
together meet the same queues; a bootstrap over single flows would be too sure. Schemes replay the same trace, so a
ratio draws the same blocks for both (paired). Over several seeds, blocks of all seeds are drawn from one urn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lab.workload.passes import PassResult
from lab.workload.services import SCALED, Limits, is_query

CLASSES = ("small", "medium", "large", "all")
STATISTICS = ("mean", "p99")
BLOCK_S = 1.0
RESAMPLES = 2000
CONFIDENCE = 0.95

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Interval:
    """An estimate and its bootstrap interval (CONFIDENCE, percentile); NaN where there are no flows."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Sample:
    """Flows of one scheme over one or several passes, in an order that is the same for every scheme."""

    fct_ms: Array
    slowdown: Array
    bytes: NDArray[np.int64]
    block: NDArray[np.int64]
    """Number of the block of arrival time that a flow belongs to."""
    service: NDArray[np.str_]
    limits: Limits = SCALED

    @property
    def finished(self) -> NDArray[np.bool_]:
        """Flows with an FCT."""
        return np.isfinite(self.fct_ms)

    def of_class(self, name: str) -> NDArray[np.bool_]:
        """Flows of a size class, queries (curl) aside: they are reported on a line of their own."""
        inside = ~np.isin(self.service, [found for found in np.unique(self.service) if is_query(str(found))])
        if name == "small":
            return inside & (self.bytes <= self.limits.small_bytes)
        if name == "medium":
            return inside & (self.bytes > self.limits.small_bytes) & (self.bytes <= self.limits.medium_bytes)
        if name == "large":
            return inside & (self.bytes > self.limits.medium_bytes)
        if name == "all":
            return inside
        raise ValueError(f"no size class {name!r}; known: {', '.join(CLASSES)}")


def sample_of(results: Sequence[PassResult], limits: Limits = SCALED) -> Sample:
    """Several passes of one scheme (one per seed, in a fixed order) as one sample."""
    fct = [np.array(result.fct_us, float) for result in results]
    blocks, first = [], 0
    for result in results:
        block = (np.array(result.due_us) / (BLOCK_S * 1e6)).astype(np.int64)
        blocks.append(first + block)
        first += int(block.max()) + 1
    return Sample(
        fct_ms=np.concatenate(fct) / 1000,
        slowdown=np.concatenate([f / np.array(r.ideal_us, float) for f, r in zip(fct, results, strict=True)]),
        bytes=np.concatenate([np.array(result.bytes, np.int64) for result in results]),
        block=np.concatenate(blocks),
        service=np.concatenate([np.array(result.service) for result in results]),
        limits=limits,
    )


def statistic(values: Array, name: str) -> float:
    """`mean` or `p99` (linear interpolation); NaN of nothing."""
    if not values.size:
        return float("nan")
    return float(np.mean(values) if name == "mean" else np.quantile(values, 0.99))


def _resampled(values: Array, block: NDArray[np.int64], draws: Array, name: str) -> Array:
    """The statistic under each resample; `draws` (resamples x blocks) says how often each block was drawn."""
    blocks = draws.shape[1]
    total = draws @ np.bincount(block, minlength=blocks).astype(float)
    total[total == 0] = np.nan
    if name == "mean":
        return np.asarray(draws @ np.bincount(block, values, minlength=blocks) / total)
    # Only the largest values can be the 99th percentile: count down from the top until 1 % is passed.
    order = np.argsort(values)[::-1]
    top = min(values.size, max(20, values.size // 16))
    while True:
        passed = np.cumsum(draws[:, block[order[:top]]], axis=1) > 0.01 * total[:, None]
        if top == values.size or passed[:, -1].all():
            return np.where(passed[:, -1], values[order[np.argmax(passed, axis=1)]], np.nan)
        top = min(values.size, 2 * top)


def _draws(blocks: int, random: np.random.Generator) -> Array:
    """How often each block is drawn in each resample (RESAMPLES x blocks)."""
    return random.multinomial(blocks, np.full(blocks, 1 / blocks), size=RESAMPLES).astype(float)


def _interval(value: float, draws: Array) -> Interval:
    tail = 100 * (1 - CONFIDENCE) / 2
    draws = draws[np.isfinite(draws)]
    if not draws.size:
        return Interval(value, float("nan"), float("nan"))
    low, high = np.percentile(draws, [tail, 100 - tail])
    return Interval(value, float(low), float(high))


def estimate(sample: Sample, size_class: str, name: str, of: str = "fct_ms") -> Interval:
    """Mean or p99 of `fct_ms` or `slowdown` of a class, with its interval."""
    chosen = sample.of_class(size_class) & sample.finished
    values = getattr(sample, of)[chosen]
    if not values.size:
        return Interval(*[float("nan")] * 3)
    draws = _draws(int(sample.block.max()) + 1, np.random.default_rng(0))
    return _interval(statistic(values, name), _resampled(values, sample.block[chosen], draws, name))


def ratio(sample: Sample, base: Sample, size_class: str, name: str, of: str = "fct_ms") -> Interval:
    """A scheme's statistic divided by another's over the flows that finished in both, paired by block."""
    if not np.array_equal(sample.bytes, base.bytes):
        raise ValueError("a ratio needs two samples of the same flows in the same order")
    chosen = sample.of_class(size_class) & sample.finished & base.finished
    if not chosen.any():
        return Interval(*[float("nan")] * 3)
    ours, theirs = getattr(sample, of)[chosen], getattr(base, of)[chosen]
    blocks = _draws(int(sample.block.max()) + 1, np.random.default_rng(0))
    drawn = [_resampled(values, sample.block[chosen], blocks, name) for values in (ours, theirs)]
    return _interval(statistic(ours, name) / statistic(theirs, name), drawn[0] / drawn[1])


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


def rows(samples: dict[str, Sample], base: str) -> list[SchemeRow]:
    """The table: each size class, each scheme, against `base`."""
    return [
        SchemeRow(
            scheme,
            size_class,
            int((sample.of_class(size_class) & sample.finished).sum()),
            estimate(sample, size_class, "mean"),
            estimate(sample, size_class, "p99"),
            estimate(sample, size_class, "mean", "slowdown"),
            estimate(sample, size_class, "p99", "slowdown"),
            ratio(sample, samples[base], size_class, "mean"),
            ratio(sample, samples[base], size_class, "p99"),
        )
        for size_class in CLASSES
        for scheme, sample in samples.items()
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


def service_rows(samples: dict[str, Sample]) -> list[ServiceRow]:
    """The per-service table, queries included."""
    found = []
    names = sorted({str(name) for sample in samples.values() for name in np.unique(sample.service)})
    for name in names:
        for scheme, sample in samples.items():
            chosen = (sample.service == name) & sample.finished
            found.append(
                ServiceRow(
                    scheme,
                    name,
                    int(chosen.sum()),
                    statistic(sample.bytes[chosen].astype(float), "mean"),
                    statistic(sample.fct_ms[chosen], "mean"),
                    statistic(sample.fct_ms[chosen], "p99"),
                    statistic(sample.slowdown[chosen], "mean"),
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


def packets(scheme: str, results: Sequence[PassResult]) -> Packets:
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
