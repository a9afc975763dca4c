"""Distributions of flow sizes, as thresholds are computed from them. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from qclimb.histogram import GAMMA, SizeHistogram, middle_of

from ..errors import ThresholdError

Floats = npt.NDArray[np.float64]
Bytes = npt.NDArray[np.int64]

MAX_CELLS = 1024
"""More cells than this are merged; 1,046 DDSketch buckets of gamma 1.02 reach from 1 byte to 1 GB."""

LARGEST_BYTES = 1 << 62
"""Larger flows count as this large; thresholds then fit a policy's 64 bits however many there are."""


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
        rows = np.array(list(counts), dtype=np.float64).reshape(-1, 3)
        wrong = rows[~(np.isfinite(rows).all(axis=1) & (rows[:, 2] >= 0))]
        if len(wrong):
            upper, mean, count = wrong[0]
            raise ThresholdError(
                f"flow sizes: {count:g} flows of {upper:g} bytes ({mean:g} in the mean), expected >= 0"
            )
        rows = rows[rows[:, 2] > 0]
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
        """From a table of (bytes, P(size <= bytes)), linear between its points, cut into log-spaced cells.

        Neither falls, and P ends at 1, or within 2e-3 of it, as published tables do. Raises ThresholdError.
        """
        size, cumulative = np.array(list(points), dtype=np.float64).reshape(-1, 2).T
        _check_cdf(size, cumulative)
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

    @cached_property
    def _below(self) -> tuple[Floats, Floats, Floats]:
        """Sums over the cells before each, and over all: of flows, of their bytes, of 1 / bytes."""
        each = (self.share, self.share * self.mean_bytes, self.share / self.mean_bytes)
        flows, carried, inverse = (np.concatenate([[0.0], np.cumsum(values)]) for values in each)
        return flows, carried, inverse

    def at(self, byte: npt.ArrayLike) -> tuple[Floats, Floats, Floats]:
        """F, G and H at any bytes, also between sizes: the shares of flows that are no larger, of all bytes that lie
        before such a byte of their flow, and of a flow that lies before it, in the mean. A cell's flows have its mean.
        """
        points = np.asarray(byte, dtype=np.float64)
        flows, carried, inverse = self._below
        below = np.searchsorted(self.mean_bytes, points, side="right")
        before = (carried[below] + points * (flows[-1] - flows[below])) / carried[-1]
        part = flows[below] + points * (inverse[-1] - inverse[below])
        return np.minimum(flows[below], 1.0), np.clip(before, 0, 1), np.clip(part, 0, 1)


def _check_cdf(size: Floats, cumulative: Floats) -> None:
    """Refuses what is no distribution, naming the first point that is wrong."""
    if not len(size):
        raise ThresholdError("flow sizes: the table is empty, expected points (bytes, share of flows up to these)")
    before, share_before = 0.0, 0.0
    for number, (here, share) in enumerate(zip(size.tolist(), cumulative.tolist(), strict=True), start=1):
        if not before <= here < np.inf:  # refuses NaN too
            raise ThresholdError(f"flow sizes: point {number} is at {here:g} bytes, expected at least {before:g}")
        if not share_before <= share <= 1 + 1e-9:
            raise ThresholdError(
                f"flow sizes: point {number}, {here:g} bytes: {share:g} of flows, expected {share_before:g} to 1"
            )
        before, share_before = here, share
    if not abs(share_before - 1) < 2e-3:
        raise ThresholdError(f"flow sizes: the last point, {before:g} bytes, has {share_before:g} of flows, expected 1")
    if not before >= 1:
        raise ThresholdError(f"flow sizes: the largest is {before:g} bytes, expected at least 1")


def _merge(upper: Bytes) -> tuple[Bytes, npt.NDArray[np.intp]]:
    """At most MAX_CELLS log-spaced cells over `upper`; returns their upper edges and each row's cell."""
    edges = np.geomspace(upper.min(), upper.max(), MAX_CELLS)
    bucket = np.minimum(np.searchsorted(edges, upper * (1 - 1e-12)), MAX_CELLS - 1)
    used, place = np.unique(bucket, return_inverse=True)
    top = np.zeros(len(used), dtype=np.int64)
    np.maximum.at(top, place, upper)
    return top, place
