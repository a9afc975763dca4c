"""A grown tree as trained, and how far its leaves' intervals are stretched: what growing and calibrating share."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Float32s = npt.NDArray[np.float32]
Floats = npt.NDArray[np.float64]

LARGEST = float(1 << 63)
"""Bytes; no upper bound is larger."""


@dataclass(frozen=True)
class Stretch:
    """How much wider than their rows' extremes the leaves' intervals are, as shares of their width in log(size).

    reached     whether, at each end, the target is guaranteed for exchangeable flows
    """

    lower: float = 0.0
    upper: float = 0.0
    reached: tuple[bool, bool] = (True, True)


@dataclass
class Tree:
    """A grown tree, pairs of children side by side, and the extremes of its leaves (bytes; inf, 0 where none fell)."""

    feature: npt.NDArray[np.int32]
    threshold: Float32s
    child: npt.NDArray[np.int32]
    lower: Floats
    upper: Floats

    def leaves(self, rows: Float32s, depth: int) -> npt.NDArray[np.intp]:
        """The leaf of each row."""
        at: npt.NDArray[Any] = np.zeros(len(rows), dtype=np.intp)
        here = np.arange(len(rows))
        for _ in range(depth):
            at = self.child[at] + (rows[here, self.feature[at]] > self.threshold[at])
        return at

    def cut(self, depth: int) -> "Tree":
        """The tree down to a depth, its leaves knowing nothing: what would be grown there, but for how ties break.

        Of a tree whose nodes stand by level, as they are grown: what is left is the beginning.
        """
        level = np.zeros(1, np.int32)
        for _ in range(depth):
            inner = level[self.child[level] != level]
            if not len(inner):
                break
            level = np.concatenate([self.child[inner], self.child[inner] + 1])
        child, feature, threshold = self.child.copy(), self.feature.copy(), self.threshold.copy()
        child[level], feature[level], threshold[level] = level, 0, np.inf
        nodes = int(level.max()) + 1
        return Tree(feature[:nodes], threshold[:nodes], child[:nodes], np.full(nodes, np.inf), np.zeros(nodes))

    def learn(self, rows: Float32s, size_bytes: Floats, depth: int) -> None:
        """Takes rows into the extremes."""
        leaf = self.leaves(rows, depth)
        np.minimum.at(self.lower, leaf, size_bytes)
        np.maximum.at(self.upper, leaf, size_bytes)

    def stretched(self, stretch: Stretch) -> tuple[Floats, Floats]:
        """The leaves' intervals, wider by `stretch` of their width in log(size); a lower end is at least a byte."""
        width = np.where(self.lower <= self.upper, np.maximum(self.upper, 1) / np.maximum(self.lower, 1), 1.0)
        lower = np.maximum(np.floor(self.lower / width**stretch.lower), 1.0)
        return lower, np.minimum(np.ceil(self.upper * width**stretch.upper), LARGEST)
