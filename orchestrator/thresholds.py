"""Demotion thresholds: the exact minimum of PIAS's cost over a flow-size distribution, as a shortest path.

PIAS (NSDI'15) minimises sum_l T_l * sum_{m>=l} theta_m with theta_m = F(a_m) - F(a_{m-1}), T_l = 1 / (mu_l - lambda_l)
and mu_{l+1} = mu_l (1 - rho_l) = mu_l - lambda_l. The recursion telescopes: with G(a) = E[min(X, a)] / E[X], the share
of all bytes that is sent before a flow's byte a,

    T_l = 1 / (1 - load * G(a_l)),        sum_{m>=l} theta_m = 1 - F(a_{l-1}),

so the cost is a sum over *neighbouring* thresholds only. Choosing them is then a shortest path with P edges, which
dynamic programming solves exactly on the sizes that occur: no swarm, no start value, no local minimum. Between two
sizes that occur F stands still while T grows, so an optimal threshold is always such a size.

The same holds for the mean slowdown of processor sharing inside each priority (MP-MLFQ, HPSR'24), whose edge is
(H(a_l) - H(a_{l-1})) * T_l with H(a) = E[min(X, a) / X]. QCLIMB takes PIAS's thresholds as they are.

`choose` is what the product does. Its settings come from simulations of real queues, for both costs are blind to one
thing: a queue of TCP flows is a FIFO of their windows, and who shares it with larger flows waits for theirs.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
import numpy.typing as npt
from qclimb.histogram import GAMMA, SizeHistogram, middle_of

from .errors import ThresholdError

Floats = npt.NDArray[np.float64]
Bytes = npt.NDArray[np.int64]

MAX_CELLS = 1024
"""More cells than this are merged; 1,046 DDSketch buckets of gamma 1.02 reach from 1 byte to 1 GB."""

LARGEST_BYTES = 1 << 62
"""Larger flows count as this large; thresholds then fit a policy's 64 bits however many there are."""


class Objective(StrEnum):
    """What the thresholds make small."""

    PIAS = "pias"
    SLOWDOWN = "slowdown"


OBJECTIVE = Objective.SLOWDOWN
LAST_SHARE = 0.5
"""More protects large flows, less the medium ones, which else share the last priority with them: with 0.7 all of a web
server's flows above 16 KB did. With 0.4, at load 0.8, the queues that it opens to larger flows fill a port's shared
buffer, and small flows lose packets. docs/figures/thresholds.md has nine workloads under several."""
SEGMENT_BYTES = 1448
LOAD = 0.6


@dataclass(frozen=True)
class SizeDistribution:
    """Flow sizes as cells: the share of flows in (previous upper, upper] bytes, and their mean size.

    Arrays of one length, `upper_bytes` strictly ascending and > 0, `share` > 0 and summing to 1.
    """

    upper_bytes: Bytes
    share: Floats
    mean_bytes: Floats

    def __post_init__(self) -> None:
        if not len(self.upper_bytes):
            raise ThresholdError("flow sizes: no flows recorded, at least one is needed")
        if not (np.all(np.diff(self.upper_bytes) > 0) and self.upper_bytes[0] > 0):
            raise ThresholdError("flow sizes: must be > 0 and strictly ascending")
        if not (np.all(self.share > 0) and abs(float(self.share.sum()) - 1) < 1e-6):  # refuses NaN too
            raise ThresholdError(f"flow sizes: shares must be > 0 and sum to 1, they sum to {self.share.sum()}")
        if not np.all((self.mean_bytes > 0) & (self.mean_bytes <= self.upper_bytes * (1 + 1e-9))):
            raise ThresholdError("flow sizes: a cell's mean must lie within the cell")

    @classmethod
    def from_counts(cls, counts: Iterable[tuple[float, float, float]]) -> "SizeDistribution":
        """From (upper bytes, mean bytes, flows); equal upper bytes are joined, empty cells dropped."""
        rows = np.array([row for row in counts if row[2] > 0], dtype=np.float64).reshape(-1, 3)
        upper = np.clip(np.floor(rows[:, 0]), 1, LARGEST_BYTES).astype(np.int64)
        joined, place = np.unique(upper, return_inverse=True)
        if len(joined) > MAX_CELLS:
            joined, place = _merge(upper)
        flows: Floats = np.bincount(place, weights=rows[:, 2]).astype(np.float64)
        mean = np.bincount(place, weights=rows[:, 1] * rows[:, 2]) / flows if len(rows) else rows[:, 1]
        return cls(joined, flows / flows.sum() if len(rows) else flows, np.minimum(mean, joined))

    @classmethod
    def from_sizes(cls, size_bytes: Iterable[int]) -> "SizeDistribution":
        """The empirical distribution of single flows."""
        sizes, flows = np.unique(np.fromiter(size_bytes, dtype=np.int64), return_counts=True)
        return cls.from_counts(zip(sizes.tolist(), sizes.tolist(), flows.tolist(), strict=True))

    @classmethod
    def from_histogram(cls, histogram: SizeHistogram) -> "SizeDistribution":
        """From DDSketch buckets: a bucket's upper end is where a threshold may lie, its middle is its mean."""
        return cls.from_counts((GAMMA**bucket, middle_of(bucket), flows) for bucket, flows in histogram.counts.items())

    @classmethod
    def from_cdf(cls, points: Iterable[tuple[float, float]], cells: int = MAX_CELLS) -> "SizeDistribution":
        """From a table of (bytes, P(size <= bytes)), linear between its points, cut into log-spaced cells."""
        size, cumulative = np.array(sorted(points), dtype=np.float64).T
        edge = np.unique(
            np.concatenate([np.geomspace(max(size[0], 1.0), size[-1], cells - len(size)), size[size >= 1]])
        )
        upto = np.interp(edge, size, cumulative)
        share = np.diff(np.concatenate([[0.0], upto]))
        mean = np.concatenate([[edge[0]], (edge[1:] + edge[:-1]) / 2])
        return cls.from_counts(zip(np.ceil(edge), mean, share, strict=True))

    @property
    def upto(self) -> Floats:
        """F at each cell's upper edge; the last is 1."""
        return np.minimum(np.cumsum(self.share), 1.0)

    def bytes_before(self) -> Floats:
        """G: the share of all bytes that lie before byte `upper_bytes` of their flow."""
        whole = np.cumsum(self.share * self.mean_bytes)
        cut = self.upper_bytes * (1 - np.cumsum(self.share))
        return np.asarray(np.clip((whole + cut) / whole[-1], 0.0, 1.0))

    def part_before(self) -> Floats:
        """H: the mean share of a flow that lies before byte `upper_bytes`."""
        inverse = self.share / self.mean_bytes
        return np.asarray(
            np.clip(np.cumsum(self.share) + self.upper_bytes * (inverse.sum() - np.cumsum(inverse)), 0, 1)
        )


def _merge(upper: Bytes) -> tuple[Bytes, npt.NDArray[np.intp]]:
    """At most MAX_CELLS log-spaced cells over `upper`; returns their upper edges and each row's cell."""
    edges = np.geomspace(upper.min(), upper.max(), MAX_CELLS)
    bucket = np.minimum(np.searchsorted(edges, upper * (1 - 1e-12)), MAX_CELLS - 1)
    used, place = np.unique(bucket, return_inverse=True)
    top = np.zeros(len(used), dtype=np.int64)
    np.maximum.at(top, place, upper)
    return top, place


@dataclass(frozen=True)
class Thresholds:
    """P - 1 demotion thresholds and what they cost."""

    threshold_bytes: tuple[int, ...]
    used: int
    """How many of them the optimum needs; the rest lie beyond the largest size seen."""
    cost: float


def cost(sizes: SizeDistribution, load: float, threshold_bytes: Iterable[int], objective: Objective) -> float:
    """The cost of any ascending thresholds: the definition, evaluated term by term."""
    upper = sizes.upper_bytes
    place = np.searchsorted(upper, list(threshold_bytes), side="right") - 1
    if objective is Objective.PIAS:
        weight_from = np.concatenate([[1.0], 1 - sizes.upto])
    else:
        weight_from = 1 - np.concatenate([[0.0], sizes.part_before()])
    before = np.concatenate([[0.0], sizes.bytes_before()])
    total, last = 0.0, 0
    for here in [*(place + 1), len(upper)]:
        weight = weight_from[last] - (0.0 if objective is Objective.PIAS else weight_from[here])
        total += weight / (1 - load * before[here])
        last = here
    return total


def optimise(
    sizes: SizeDistribution,
    priorities: int,
    load: float,
    objective: Objective = Objective.PIAS,
    last_share: float = 0.0,
    segment_bytes: int = 1,
) -> Thresholds:
    """The thresholds of least cost for `priorities` priorities at `load` (offered bytes over capacity, in (0, 1)).

    `last_share`: at least this share of all bytes is left to the last priority, whose flows share it fairly. Without it
    the optimum serves the largest flows after all others, as LAS does; what they lose by that grows with the last
    threshold alone, and what small flows gain hardly depends on it.

    `segment_bytes`: thresholds are rounded up to multiples of it: one inside a segment costs each flow one packet more.

    Deterministic; among equal costs the one with the fewest thresholds. When the sizes do not fill every priority, the
    remaining thresholds are doublings beyond the largest size seen, so that a flow larger than any before still sinks.
    """
    if not 0 <= last_share < 1:
        raise ThresholdError(f"last_share: {last_share}, must lie in [0, 1)")
    if not segment_bytes >= 1:
        raise ThresholdError(f"segment_bytes: {segment_bytes}, must be at least 1")
    if not 0 < load < 1:
        raise ThresholdError(f"load: {load}, must lie strictly between 0 and 1, else no queue is stable")
    if not 1 <= priorities <= 64:
        raise ThresholdError(f"priorities: {priorities}, must lie in 1..64")
    # The edge from threshold i (0: none yet) to j costs start[i] * time[j] + end[j].
    before = sizes.bytes_before()
    time = 1 / (1 - load * before)
    allowed = before <= 1 - last_share
    allowed[-1] = True  # the end of the way, no threshold
    if objective is Objective.PIAS:
        start, end = np.concatenate([[1.0], 1 - sizes.upto[:-1]]), np.zeros_like(time)
    else:
        part = sizes.part_before()
        start, end = -np.concatenate([[0.0], part[:-1]]), part * time
    chosen, least = _shortest_path(start, time, end, allowed, priorities)
    thresholds = _rounded_up([int(sizes.upper_bytes[i]) for i in chosen], segment_bytes)
    beyond = max([int(sizes.upper_bytes[-1]), *(threshold + 1 for threshold in thresholds)])
    while len(thresholds) < priorities - 1:
        thresholds.append(beyond)
        beyond = beyond * 2 if beyond < LARGEST_BYTES else beyond + 1
    return Thresholds(tuple(thresholds), len(chosen), least)


def choose(sizes: SizeDistribution, priorities: int = 8, load: float = LOAD) -> Thresholds:
    """What the orchestrator chooses unless told otherwise."""
    return optimise(sizes, priorities, load, OBJECTIVE, LAST_SHARE, SEGMENT_BYTES)


def _rounded_up(thresholds: Iterable[int], segment_bytes: int) -> list[int]:
    """Each rounded up to a multiple of `segment_bytes`, and to the next free one where two would meet."""
    rounded: list[int] = []
    for threshold in thresholds:
        up = -(-threshold // segment_bytes) * segment_bytes
        rounded.append(max(up, rounded[-1] + segment_bytes) if rounded else up)
    return rounded


def _shortest_path(
    start: Floats, time: Floats, end: Floats, allowed: npt.NDArray[np.bool_], edges: int
) -> tuple[list[int], float]:
    """The cheapest way from nothing to the last cell by at most `edges` edges; returns the cells passed on the way."""
    cells = len(time)
    edge = start[:, None] * time[None, :] + end[None, :]
    edge[:, ~allowed] = np.inf
    edge[np.tri(cells, cells, -1, dtype=bool)] = np.inf  # from cell i - 1 only to a later one
    reach, came_from = [edge[0]], []
    through = np.empty((cells - 1, cells))
    for _ in range(min(edges, cells) - 1):
        np.add(reach[-1][:-1, None], edge[1:], out=through)
        best = through.argmin(axis=0)
        came_from.append(best)
        reach.append(through[best, np.arange(cells)])
    goal = [float(row[-1]) for row in reach]
    count = next(k for k, value in enumerate(goal) if value <= min(goal) * (1 + 1e-12))
    passed: list[int] = []
    here: Any = cells - 1
    for k in range(count - 1, -1, -1):
        here = int(came_from[k][here])
        passed.append(here)
    return passed[::-1], goal[count]
