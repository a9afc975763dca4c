"""Small forests spelt out as trees, for the tests of their layout."""

from dataclasses import dataclass

import numpy as np
from qclimb.forest import Forest, float_key, lower_key, round_down, upper_key

KEY_MAX = 2**31 - 1


@dataclass(frozen=True)
class Tree:
    """A leaf with its bounds in bytes, or a split of column `feature` at `threshold`."""

    bounds: tuple[int, int] | None = None
    feature: int = 0
    threshold: float = 0.0
    below: "Tree | None" = None
    above: "Tree | None" = None

    def answer(self, row: list[float]) -> tuple[int, int]:
        """The bounds for a row, by plain recursion: the truth that the flat walk must tell."""
        if self.bounds is not None:
            return self.bounds
        tree = self.below if row[self.feature] <= self.threshold else self.above
        assert tree
        return tree.answer(row)


def leaf(lower_bytes: int, upper_bytes: int) -> Tree:
    return Tree(bounds=(lower_bytes, upper_bytes))


def split(feature: int, threshold: float, below: Tree, above: Tree) -> Tree:
    return Tree(None, feature, threshold, below, above)


def forest_of(*trees: Tree, depth: int, feature_ids: tuple[int, ...] = (0,), generation: int = 1) -> Forest:
    """The trees in the flat layout: roots first, then pairs of children as they come."""
    nodes = list(trees)
    table = []
    for at, tree in enumerate(nodes):  # grows while it runs
        if tree.bounds is not None:
            lower, upper = tree.bounds
            table.append((0, KEY_MAX, at, int(lower_key(lower)), int(upper_key(upper))))
            continue
        assert tree.below and tree.above
        table.append((tree.feature, int(float_key(round_down(tree.threshold))), len(nodes), 0, 0))
        nodes += [tree.below, tree.above]
    feature, threshold, child, lower, upper = (np.array(column, np.int32) for column in zip(*table, strict=True))
    roots = np.arange(len(trees), dtype=np.int32)
    return Forest(generation, feature_ids, len(trees), depth, feature, threshold, child, lower, upper, roots)
