"""Intervals of a level beta < 1: a quantile regression forest (Meinshausen, JMLR 7, 2006).

A flow's size is taken to be distributed as the grown rows are, each with the weight: mean over trees of 1 / (rows in
the leaf) where it shares the flow's leaf. The interval of level beta goes from the (1 - beta) / 2 quantile to the
(1 + beta) / 2 quantile of that; beta = 1 gives each tree's extremes, which is what hosts walk (`bounds`).

A tree's leaf holds, as the extremes do, all rows learned from; or, as Meinshausen's, those of its bootstrap sample,
each as often as it was drawn ("in-bag": `samples`). A quantile is the least size at which the summed weights reach it:
no interpolation, so it is a size that was seen.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..errors import TrainingError
from .trees import Float32s, Floats, Tree


@dataclass(frozen=True)
class QuantileForest:
    """Trees, and which of the sizes they were grown on lie in each leaf.

    sizes   the distinct sizes, ascending, bytes
    place   by tree: index into `sizes` of each row of its sample, ordered by leaf
    begin   by tree: where in `place` a node's rows begin; [node + 1] is where they end
    """

    trees: Sequence[Tree]
    depth: int
    sizes: Floats
    place: Sequence[npt.NDArray[np.int64]]
    begin: Sequence[npt.NDArray[np.int64]]

    def weights(self, row: Float32s) -> Floats:
        """Weight of each of `sizes` for one row [columns]; they sum to 1."""
        found = np.zeros(len(self.sizes))
        for tree, place, begin in zip(self.trees, self.place, self.begin, strict=True):
            leaf = int(tree.leaves(row[None, :], self.depth)[0])
            mine = place[begin[leaf] : begin[leaf + 1]]
            np.add.at(found, mine, 1 / (len(mine) * len(self.trees)))
        return found

    def predict(self, rows: Float32s, shares: Sequence[float]) -> Floats:
        """Quantiles in bytes, [rows, shares], for rows [n, columns]."""
        leaves = np.stack([tree.leaves(rows, self.depth) for tree in self.trees])
        found = np.empty((len(rows), len(shares)))
        # Rows that share every leaf have one answer.
        unique, back = np.unique(leaves, axis=1, return_inverse=True)
        answer = np.empty((unique.shape[1], len(shares)))
        for column in range(unique.shape[1]):
            parts = [
                place[begin[leaf] : begin[leaf + 1]]
                for place, begin, leaf in zip(self.place, self.begin, unique[:, column], strict=True)
            ]
            weight = np.repeat([1 / (len(part) * len(parts)) for part in parts], [len(part) for part in parts])
            summed = np.cumsum(np.bincount(np.concatenate(parts), weight, len(self.sizes)))
            # Sums of hundreds of floats: a quantile that is met but for rounding is met.
            answer[column] = self.sizes[np.minimum(np.searchsorted(summed, np.array(shares) - 1e-9), len(summed) - 1)]
        found[:] = answer[back.ravel()]
        return found

    def interval(self, rows: Float32s, beta: float) -> tuple[Floats, Floats]:
        """Bounds of level beta, bytes."""
        if not 0 < beta < 1:
            raise TrainingError(f"beta is {beta}, expected a share in (0, 1); 1 is the forest of the leaves' extremes")
        found = self.predict(rows, [(1 - beta) / 2, (1 + beta) / 2])
        return found[:, 0], found[:, 1]


def remember(
    trees: Sequence[Tree],
    rows: Float32s,
    size_bytes: Floats,
    depth: int,
    samples: Sequence[npt.NDArray[np.int64]] | None = None,
) -> QuantileForest:
    """What the leaves hold. `samples`: by tree, the rows of its bootstrap sample; None: every row once, in each."""
    sizes, place_of_row = np.unique(size_bytes, return_inverse=True)
    places, begins = [], []
    for number, tree in enumerate(trees):
        sample = np.arange(len(rows)) if samples is None else samples[number]
        leaf = tree.leaves(rows[sample], depth)
        order = np.argsort(leaf, kind="stable")
        places.append(place_of_row[sample][order])
        begins.append(np.concatenate([[0], np.cumsum(np.bincount(leaf, minlength=len(tree.child)))]))
    return QuantileForest(trees, depth, sizes, places, begins)
