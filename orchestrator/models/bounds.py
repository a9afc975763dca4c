"""Bounds on flow sizes by a random forest: grown on log(size), leaves keep the extremes of the rows that fall in them.

The interval of level beta = 1 (QCLIMB, NSDI'24, section 4): a row's lower bound is the least over trees of its leaves'
least size, the upper bound the largest of their largest. So every row that a leaf has seen lies in its interval.

Decided here, and written into each model's report:
- *all rows* that were learned from count for a tree's extremes, not only its bootstrap sample: wider by a little, and
  no flow that was seen is ever outside.
- The time-ordered parts are each host's: 64 % grow the trees, 16 % are held back to calibrate, 20 % test.
- Calibration (conformal.py) stretches each leaf's interval in proportion to its width in log(size), so that a size that
  is exactly known stays so; the lower end, which is dear (a flow climbs by it), and the upper one each as far as it
  needs. Then these rows count for the extremes, too, which only widens.
- A tree is grown on at most `GROW_ROWS` rows, chosen by lot for each; all rows count for its extremes all the same.
- Trees split by log(size), not size: sizes span six decades, and squared bytes see only the largest flows. On the lab's
  services the lower bounds came out alike, the upper ones at 5,000 flows half as far away.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from qclimb.features import DEFAULT_FEATURE_IDS, FEATURES
from qclimb.forest import KEY_MAX, Forest, float_key, lower_key, round_down, upper_key
from qclimb.record_rows import Rows

from ..errors import TrainingError
from .trees import Float32s, Floats, Stretch, Tree

LEAST_ROWS = 50
"""Fewer flows than this make no model: there would be ten to test with."""

TARGET_COVERAGE = 0.999
MIN_SAMPLES_LEAF = 5
"""1 gave the same tightness at 2.3 times the nodes, 20 five per cent looser lower bounds."""
GROW_ROWS = 100_000
"""Time is linear in them: 100 trees of a million rows each took a quarter of an hour."""


GROW, CALIBRATE = 0.64, 0.16
"""Shares of each host's flows, in the order of time; the rest tests."""


def rows_needed(calibrate: int) -> int:
    """Of how many flows so many are held back to calibrate, those of several hosts rounded down at each aside."""
    return math.ceil(round(calibrate / CALIBRATE, 6))


@dataclass(frozen=True)
class Parts:
    """Row numbers of the parts, each in the order of time within each host."""

    grow: npt.NDArray[np.intp]
    calibrate: npt.NDArray[np.intp]
    test: npt.NDArray[np.intp]


def split(start_ns: npt.NDArray[np.uint64], hosts: Sequence[str]) -> Parts:
    """Each host's flows by its own clock: the first 64 % grow, the next 16 % calibrate, the last 20 % test."""
    names = np.asarray(hosts)
    parts: tuple[list[Any], list[Any], list[Any]] = ([], [], [])
    for host in sorted(set(hosts)):
        mine = np.flatnonzero(names == host)
        mine = mine[np.argsort(start_ns[mine], kind="stable")]
        first, second = int(len(mine) * GROW), int(len(mine) * (GROW + CALIBRATE))
        for part, rows in zip(parts, np.split(mine, [first, second]), strict=True):
            part.append(rows)
    grow, calibrate, test = (np.concatenate(part) for part in parts)
    return Parts(grow, calibrate, test)


def feature_ids(names: Sequence[str] | None) -> tuple[int, ...]:
    """Ids of features by name; None: the paper's."""
    if names is None:
        return DEFAULT_FEATURE_IDS
    for name in names:
        if name not in FEATURES:
            raise TrainingError(f"features: {name!r} is unknown, expected names of {', '.join(FEATURES)}")
    if len(set(names)) != len(names):
        raise TrainingError(f"features: {', '.join(names)}: expected each once")
    return tuple(FEATURES.index(name) for name in names)


def grow(
    rows: Float32s,
    size_bytes: Floats,
    trees: int,
    depth: int,
    seed: int,
    min_samples_leaf: int = MIN_SAMPLES_LEAF,
    jobs: int = 1,
) -> tuple[list[Tree], Floats]:
    """Grown trees whose leaves know `rows`, and the importance of each feature; `jobs` processors change no answer."""
    from sklearn.ensemble import RandomForestRegressor  # 100 MB, only where a model is made

    forest = RandomForestRegressor(
        n_estimators=trees,
        max_depth=depth,
        min_samples_leaf=min_samples_leaf,
        bootstrap=True,
        max_samples=min(len(rows), GROW_ROWS),
        random_state=seed,
        n_jobs=jobs,
    )
    forest.fit(rows, np.log(size_bytes))
    grown = [_flat(each.tree_) for each in forest.estimators_]
    for tree in grown:
        tree.learn(rows, size_bytes, depth)
    return grown, np.asarray(forest.feature_importances_)


def plain(rows: Float32s, size_bytes: Floats, depth: int, seed: int, min_samples_leaf: int) -> Tree:
    """One tree, grown on all rows; its leaves know nothing yet."""
    from sklearn.tree import DecisionTreeRegressor

    tree = DecisionTreeRegressor(max_depth=depth, min_samples_leaf=min_samples_leaf, random_state=seed)
    return _flat(tree.fit(rows, np.log(size_bytes)).tree_)


def _flat(tree: Any) -> Tree:
    """scikit-learn's tree with each pair of children side by side; a leaf is its own child."""
    order, place = [0], np.zeros(tree.node_count, dtype=np.int32)
    for node in order:
        place[node] = len(order) if tree.children_left[node] >= 0 else place[node]
        if tree.children_left[node] >= 0:
            order += [tree.children_left[node], tree.children_right[node]]
    nodes = np.array(order)
    leaf = tree.children_left[nodes] < 0
    return Tree(
        feature=np.where(leaf, 0, tree.feature[nodes]).astype(np.int32),
        # A float32 x is <= t exactly when it is <= t rounded down to float32.
        threshold=np.where(leaf, np.float32(np.inf), round_down(np.where(leaf, 0, tree.threshold[nodes]))),
        child=np.where(leaf, np.arange(len(nodes)), place[nodes]).astype(np.int32),
        lower=np.full(len(nodes), np.inf),
        upper=np.zeros(len(nodes)),
    )


def flat_forest(trees: Sequence[Tree], stretch: Stretch, generation: int, ids: tuple[int, ...], depth: int) -> Forest:
    """The trees as hosts walk them; lower bounds rounded down to float32, upper bounds up."""
    begin = np.cumsum([0, *(len(tree.child) for tree in trees)])
    leaf = np.concatenate([tree.child == np.arange(len(tree.child)) for tree in trees])
    bounds = [tree.stretched(stretch) for tree in trees]
    lower = np.where(leaf, np.concatenate([each[0] for each in bounds]), 0.0)
    upper = np.where(leaf, np.concatenate([each[1] for each in bounds]), 0.0)
    return Forest(
        generation=generation,
        feature_ids=ids,
        trees=len(trees),
        depth=depth,
        node_feature=np.concatenate([tree.feature for tree in trees]),
        node_threshold=np.where(leaf, KEY_MAX, float_key(np.concatenate([t.threshold for t in trees]))).astype(
            np.int32
        ),
        node_child=np.concatenate([tree.child + at for tree, at in zip(trees, begin, strict=False)]).astype(np.int32),
        leaf_lower=np.where(leaf, lower_key(lower), 0).astype(np.int32),
        leaf_upper=np.where(leaf, upper_key(upper), 0).astype(np.int32),
        roots=begin[:-1].astype(np.int32),
    )


def coverage(lower: npt.ArrayLike, upper: npt.ArrayLike, size_bytes: npt.ArrayLike) -> float:
    """The share of flows within their bounds."""
    size = np.asarray(size_bytes, dtype=np.float64)
    return float(np.mean((np.asarray(lower, np.float64) <= size) & (size <= np.asarray(upper, np.float64))))


def select(rows: Rows, ids: Sequence[int]) -> tuple[Float32s, Floats]:
    """The chosen feature columns, and the sizes."""
    return np.ascontiguousarray(rows["features"][:, list(ids)]), rows["size_bytes"].astype(np.float64)


PIECE_ROWS = 8192
"""A row takes a kilobyte and more while 100 trees are walked at once."""


def predict(forest: Forest, rows: Float32s) -> tuple[Floats, Floats]:
    """Bounds in bytes as hosts see them, in pieces that bound memory."""
    pieces = [forest.predict_bytes(rows[at : at + PIECE_ROWS]) for at in range(0, max(len(rows), 1), PIECE_ROWS)]
    lower, upper = (np.concatenate([piece[end] for piece in pieces]).astype(np.float64) for end in (0, 1))
    return lower, upper
