"""How good bounds are, on flows that were not shown: coverage, tightness, windows of time, the paper's tables."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ..plan.sizes import SizeDistribution
from ..plan.thresholds import choose
from . import bounds
from .trees import Float32s, Floats, Stretch, Tree

SMALL_BYTES, MEDIUM_BYTES = 100_000, 10_000_000
"""The paper's classes of flows (QCLIMB section 2)."""

WINDOWS = 4
DEPTHS = (1, 5, 10)
"""Of QCLIMB's Table 2, and 1."""

PARTS = (32, 16, 8, 4, 2, 1)
"""Of a learning curve: one part in so many is learned from."""


def measured(
    lower: npt.ArrayLike,
    upper: npt.ArrayLike,
    sizes: Floats,
    small_bytes: int = SMALL_BYTES,
    medium_bytes: int = MEDIUM_BYTES,
) -> dict[str, Any]:
    """Coverage and closeness of bounds, as hosts decode them, in bytes; by class of size too."""
    low, high = np.asarray(lower, np.float64), np.asarray(upper, np.float64)
    within = (low <= sizes) & (sizes <= high)
    classes = {
        "small": sizes <= small_bytes,
        "medium": (sizes > small_bytes) & (sizes <= medium_bytes),
        "large": sizes > medium_bytes,
    }
    by_class = {}
    for name, mine in classes.items():
        if mine.any():
            by_class[name] = {
                "flows": int(mine.sum()),
                "coverage": float(within[mine].mean()),
                "mean_lower_bytes": float(low[mine].mean()),
                "mean_gap_to_lower_bytes": float((sizes - low)[mine].mean()),
                "mean_lower_share": float((low / sizes)[mine].mean()),
                "median_upper_ratio": float(np.median((high / sizes)[mine])),
            }
    return {
        "coverage": float(within.mean()),
        "below_lower": float((sizes < low).mean()),
        "above_upper": float((sizes > high).mean()),
        "class_limits_bytes": {"small": small_bytes, "medium": medium_bytes},
        "classes": by_class,
    }


def exact_interval(misses: float, flows: int, confidence: float = 0.95) -> tuple[float, float]:
    """The coverage that so many misses leave possible, by Clopper and Pearson (1934); misses may be a mean of seeds.

    Without any miss it takes 3,688 flows to show 99.9 % at 95 %: fewer flows can't tell, whatever the bounds.
    """
    from scipy.stats import beta  # 60 MB, only where it is asked for

    tail = (1 - confidence) / 2
    low = float(beta.ppf(tail, flows - misses, misses + 1)) if misses < flows else 0.0
    high = float(beta.ppf(1 - tail, flows - misses + 1, misses)) if misses > 0 else 1.0
    return low, high


def windows(lower: npt.ArrayLike, upper: npt.ArrayLike, sizes: Floats, start_ns: npt.NDArray[np.uint64]) -> list[float]:
    """Coverage in each quarter of the flows, by time."""
    within = (np.asarray(lower, np.float64) <= sizes) & (sizes <= np.asarray(upper, np.float64))
    order = np.argsort(start_ns, kind="stable")
    return [float(part.mean()) for part in np.array_split(within[order], WINDOWS) if len(part)]


def tightness(lower: npt.ArrayLike, upper: npt.ArrayLike, threshold_bytes: Sequence[int]) -> dict[str, float]:
    """U/L, and the share of flows whose two bounds fall into one priority."""
    low, high = np.maximum(np.asarray(lower, np.float64), 1), np.asarray(upper, np.float64)
    ratio = np.maximum(high, 1) / low
    edges = np.asarray(threshold_bytes, np.float64)
    one = np.searchsorted(edges, low, side="right") == np.searchsorted(edges, high, side="right")
    return {
        "median_ratio": float(np.median(ratio)),
        "mean_log10_ratio": float(np.log10(ratio).mean()),
        "one_priority_share": float(one.mean()),
    }


def thresholds_of(sizes: Floats, priorities: int = 8, load: float = 0.6) -> tuple[int, ...]:
    """The thresholds that the orchestrator would choose for such sizes."""
    from qclimb.histogram import SizeHistogram

    distribution = SizeDistribution.from_histogram(SizeHistogram.of(int(size) for size in sizes))
    return choose(distribution, priorities, load).threshold_bytes


def predicted(trees: Sequence[Tree], rows: Float32s, depth: int) -> tuple[Floats, Floats]:
    """Bounds as hosts see them, of trees without a stretch."""
    ids = tuple(range(rows.shape[1]))  # which columns they are does not matter here
    forest = bounds.flat_forest(trees, Stretch(), 1, ids, depth)
    return bounds.predict(forest, rows)


def briefly(lower: npt.ArrayLike, upper: npt.ArrayLike, sizes: Floats) -> dict[str, Any]:
    """Coverage, closeness, width."""
    made = measured(lower, upper, sizes)
    return {
        "coverage": made["coverage"],
        "small_mean_gap_to_lower_bytes": made["classes"].get("small", {}).get("mean_gap_to_lower_bytes"),
        "mean_log10_ratio": tightness(lower, upper, [1])["mean_log10_ratio"],
    }


def by_depth(
    grown: Sequence[Tree],
    shown: tuple[Float32s, Floats],
    test: tuple[Float32s, Floats],
    depths: Sequence[int] = DEPTHS,
) -> dict[str, dict[str, Any]]:
    """QCLIMB's Table 2: coverage by depth, of trees grown at least as deep and not calibrated, cut."""
    found = {}
    for depth in depths:
        trees = [tree.cut(depth) for tree in grown]
        for tree in trees:
            tree.learn(*shown, depth)
        nodes = sum(len(tree.child) for tree in trees)
        found[str(depth)] = {**briefly(*predicted(trees, test[0], depth), test[1]), "nodes": nodes}
    return found


def learning_curve(
    shown: tuple[Float32s, Floats],
    test: tuple[Float32s, Floats],
    trees: int,
    depth: int,
    seed: int,
    jobs: int = 1,
    parts: Sequence[int] = PARTS,
) -> list[dict[str, Any]]:
    """By the share of the flows learned from: always the latest ones; `shown` is in the order of time."""
    found = []
    for part in parts:
        count = len(shown[1]) // part
        if count >= 4 * bounds.MIN_SAMPLES_LEAF:
            grown, _ = bounds.grow(shown[0][-count:], shown[1][-count:], trees, depth, seed, jobs=jobs)
            made = briefly(*predicted(grown, test[0], depth), test[1])
            found.append({"share": 1 / part, "flows": count, **made})
    return found
