"""From a recording's rows to a checked model; runs in the training process."""

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from qclimb.features import FEATURES
from qclimb.forest import Forest
from qclimb.hostfile import decode_forest, encode_forest
from qclimb.record import PARTLY_UNOBSERVED

from . import bounds, onnx_export
from .errors import TrainingError
from .flows import Rows


@dataclass(frozen=True)
class Trained:
    """A checked model: how good it is, and its two files."""

    report: dict[str, Any]
    onnx: bytes
    forest: bytes


def train(
    rows: Rows,
    hosts: list[str],
    generation: int,
    *,
    trees: int = 100,
    depth: int = 10,
    features: list[str] | None = None,
    seed: int = 0,
    small_bytes: int = 100_000,
    medium_bytes: int = 10_000_000,
) -> Trained:
    """Grows, calibrates, tests and checks a model; the same arguments give the same bytes.

    Flows that the library saw only in part teach nothing.
    `small_bytes`, `medium_bytes`: the classes of the report. Raises TrainingError.
    """
    begun = time.perf_counter()
    ids = bounds.feature_ids(features)
    whole = (rows["flags"] & PARTLY_UNOBSERVED) == 0
    rows, hosts = rows[whole], [host for host, is_whole in zip(hosts, whole, strict=True) if is_whole]
    if len(rows) < bounds.LEAST_ROWS:
        raise TrainingError(
            f"label: {len(rows)} flows were recorded, expected at least {bounds.LEAST_ROWS} to train on"
        )
    matrix, sizes = bounds.select(rows, ids)
    parts = bounds.split(rows["start_ns"], hosts)
    if not (len(parts.grow) and len(parts.calibrate) and len(parts.test)):
        raise TrainingError(
            f"label: {len(rows)} flows of {len(set(hosts))} hosts, expected some for each of three parts"
        )
    grown, importance = bounds.grow(matrix[parts.grow], sizes[parts.grow], trees, depth, seed)
    held = matrix[parts.calibrate], sizes[parts.calibrate]
    stretch = bounds.calibrated(grown, *held, depth, bounds.TARGET_COVERAGE)
    for tree in grown:
        tree.learn(*held, depth)
    forest = bounds.flat_forest(grown, stretch, generation, ids, depth)
    file = encode_forest(forest)
    if decode_forest(file) != forest:
        raise TrainingError("models: the host file does not read back as the forest that it was made of")
    report: dict[str, Any] = {
        "rows": {
            "total": len(rows),
            "grow": len(parts.grow),
            "calibrate": len(parts.calibrate),
            "test": len(parts.test),
        },
        "trees": trees,
        "depth": depth,
        "nodes": forest.nodes,
        "seed": seed,
        "beta": 1,
        "leaf_extremes": "all rows learned from",
        "split_by": "log(size)",
        "min_samples_leaf": bounds.MIN_SAMPLES_LEAF,
        "stretch": {"lower": stretch.lower, "upper": stretch.upper},
        "target_coverage": bounds.TARGET_COVERAGE,
        "importance": {FEATURES[i]: round(float(share), 6) for i, share in zip(ids, importance, strict=True)},
    }
    report |= tested(forest, matrix[parts.test], sizes[parts.test], small_bytes, medium_bytes)
    told = {"beta": "1", "leaf_extremes": "all rows learned from", "coverage": f"{report['coverage']:.6f}"}
    onnx = onnx_export.to_onnx(forest, told)
    report["checked_rows"] = onnx_export.check(forest, onnx, matrix[parts.test], seed)
    report["seconds"] = round(time.perf_counter() - begun, 3)
    return Trained(report, onnx, file)


def tested(
    forest: Forest, matrix: bounds.Float32s, sizes: bounds.Floats, small_bytes: int, medium_bytes: int
) -> dict[str, Any]:
    """How well a forest bounds flows that it was not shown: as hosts decode the bounds, in bytes."""
    lower, upper = (bound.astype(np.float64) for bound in forest.predict_bytes(matrix))
    within = (lower <= sizes) & (sizes <= upper)
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
                "mean_lower_bytes": float(lower[mine].mean()),
                "mean_gap_to_lower_bytes": float((sizes - lower)[mine].mean()),
                "mean_lower_share": float((lower / sizes)[mine].mean()),
                "median_upper_ratio": float(np.median((upper / sizes)[mine])),
            }
    return {
        "coverage": float(within.mean()),
        "below_lower": float((sizes < lower).mean()),
        "above_upper": float((sizes > upper).mean()),
        "class_limits_bytes": {"small": small_bytes, "medium": medium_bytes},
        "classes": by_class,
    }
