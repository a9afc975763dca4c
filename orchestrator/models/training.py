"""From a recording's rows to a checked model; runs in the training process."""

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from qclimb.features import FEATURES
from qclimb.hostfile import decode_forest, encode_forest
from qclimb.record import PARTLY_UNOBSERVED
from qclimb.record_rows import Rows

from ..errors import TrainingError
from . import bounds, calibration, drift, novelty, onnx_export, onnx_quantile, quantiles, report
from .forest_size import DEPTH, trees_for
from .trees import Float32s, Floats, Stretch

SPLIT = "each host's flows by time: 64 % grow, 16 % calibrate, 20 % test"


@dataclass(frozen=True)
class Trained:
    """A checked model: how good it is, and its two files."""

    report: dict[str, Any]
    onnx: bytes
    forest: bytes
    quantile_onnx: bytes | None = None


def train(
    rows: Rows,
    hosts: list[str],
    generation: int,
    *,
    trees: int | None = None,
    depth: int = DEPTH,
    features: list[str] | None = None,
    seed: int = 0,
    small_bytes: int = report.SMALL_BYTES,
    medium_bytes: int = report.MEDIUM_BYTES,
    beta: float = 1.0,
    full: bool = False,
    rival: bytes | None = None,
    rival_in_use: bool = True,
    say: Callable[[str], None] = lambda text: None,
) -> Trained:
    """Grows, calibrates, tests and checks a model; the same arguments give the same bytes.

    `trees`: None takes as many as forest_size.py says for so many flows.
    Flows that the library saw only in part teach nothing. `small_bytes`, `medium_bytes`: the classes of the report.
    `beta` < 1 adds to the report how the quantile regression forest's interval of that level does, and gives its ONNX
    file beside the two, which hold beta = 1. `rival`: host file of the model in force; the report tells whether the new
    one beats it on the newest of the flows that it was not shown, or, where its bounds are off (not `rival_in_use`),
    whether the new one holds on them (drift.py). `full` adds depths and a learning curve,
    which take as long again.
    Raises TrainingError.
    """
    begun = time.perf_counter()
    ids = bounds.feature_ids(features)
    whole = (rows["flags"] & PARTLY_UNOBSERVED) == 0
    rows, hosts = rows[whole], [host for host, is_whole in zip(hosts, whole, strict=True) if is_whole]
    if len(rows) < bounds.LEAST_ROWS:
        raise TrainingError(
            f"label: {len(rows)} flows were recorded, expected at least {bounds.LEAST_ROWS} to train on and "
            f"{bounds.rows_needed(calibration.needed(bounds.TARGET_COVERAGE)):,} to calibrate, too"
        )
    matrix, sizes = bounds.select(rows, ids)
    parts = bounds.split(rows["start_ns"], hosts)
    if not (len(parts.grow) and len(parts.calibrate) and len(parts.test)):
        raise TrainingError(
            f"label: {len(rows)} flows of {len(set(hosts))} hosts, expected some for each of three parts"
        )
    if trees is None:
        trees = trees_for(len(parts.calibrate), calibration.needed(bounds.TARGET_COVERAGE))
    say(f"{len(parts.grow)} flows: growing {trees} trees")
    watch = novelty.guard(matrix[parts.grow], sizes[parts.grow], ids, depth, seed, matrix[parts.calibrate])
    if trees == 1:
        watch = None
    plain = trees - (watch is not None)
    grown, importance = bounds.grow(matrix[parts.grow], sizes[parts.grow], plain, depth, seed)
    held = matrix[parts.calibrate], sizes[parts.calibrate]
    test = matrix[parts.test], sizes[parts.test]
    if beta < 1:
        say(f"quantile regression forest, beta = {beta}")
        remembered = quantiles.remember(grown, matrix[parts.grow], sizes[parts.grow], depth)
    grown = [*grown, watch] if watch is not None else grown  # `remembered` keeps its own
    say(f"calibrating on {len(parts.calibrate)}")
    stretch = calibration.calibrated(grown, *held, depth, bounds.TARGET_COVERAGE)
    for tree in grown:
        tree.learn(*held, depth)
    forest = bounds.flat_forest(grown, stretch, generation, ids, depth)
    file = encode_forest(forest)
    if decode_forest(file) != forest:
        raise TrainingError("models: the host file does not read back as the forest that it was made of")
    digest = hashlib.sha256(matrix.tobytes() + sizes.tobytes() + rows["start_ns"].tobytes()).hexdigest()
    found: dict[str, Any] = {
        "rows": {
            "total": len(rows),
            "grow": len(parts.grow),
            "calibrate": len(parts.calibrate),
            "test": len(parts.test),
        },
        "left_out": {"partly unobserved": int((~whole).sum())},
        "trees": trees,
        "depth": depth,
        "nodes": forest.nodes,
        "seed": seed,
        "beta": 1,
        "split": SPLIT,
        "leaf_extremes": "all rows learned from",
        "split_by": "log(size)",
        "min_samples_leaf": bounds.MIN_SAMPLES_LEAF,
        "stretch": {"lower": stretch.lower, "upper": stretch.upper},
        "never_seen": "fall back to PIAS" if watch is not None else "not recognised",
        "calibration": _calibration(stretch, len(parts.calibrate)),
        "target_coverage": bounds.TARGET_COVERAGE,
        "training_sha256": digest,
        "importance": {FEATURES[i]: round(float(share), 6) for i, share in zip(ids, importance, strict=True)},
    }
    lower, upper = bounds.predict(forest, test[0])
    found |= report.measured(lower, upper, test[1], small_bytes, medium_bytes)
    found["fallback_share"] = float(novelty.is_fallback(upper).mean())
    found["windows"] = report.windows(lower, upper, test[1], rows["start_ns"][parts.test])
    if rival is not None:
        # Rows are in the order of arrival: hosts' clocks can't be compared.
        newest = rows[np.sort(parts.test)[-drift.WINDOW_FLOWS :]]
        better, why = drift.offered(decode_forest(rival), forest, newest, rival_in_use)
        found["offer"] = {"offered": better, "why": why}
    if beta < 1:
        found["quantile"] = _quantile(remembered, test, beta, small_bytes, medium_bytes)
    if full:
        say("depths and learning curve")
        shown = np.concatenate([parts.grow, parts.calibrate])
        shown = shown[np.argsort(rows["start_ns"][shown], kind="stable")]
        learned = matrix[shown], sizes[shown]
        deep, _ = bounds.grow(*learned, trees, max(report.DEPTHS), seed)
        found["by_depth"] = report.by_depth(deep, learned, test)
        found["learning_curve"] = report.learning_curve(learned, test, trees, depth, seed)
    say("ONNX, checked by onnxruntime")
    onnx = onnx_export.to_onnx(forest, _metadata(found, file))
    found["checked_rows"] = onnx_export.check(forest, onnx, test[0], seed)
    onnx_export.validated(onnx, file)
    found["seconds"] = round(time.perf_counter() - begun, 3)
    other = None
    if beta < 1:
        other = onnx_quantile.to_onnx(remembered, beta, ids, {**_metadata(found, file), "generation": str(generation)})
    return Trained(found, onnx, file, other)


def _calibration(stretch: Stretch, flows: int) -> dict[str, Any]:
    """What may be said of the coverage, and why."""
    needed = calibration.needed(bounds.TARGET_COVERAGE)
    if flows < needed:
        said = f"too few flows to calibrate: {flows}, needs {needed} for {100 * bounds.TARGET_COVERAGE:g} %"
    elif not all(stretch.reached):
        said = "calibration can't reach the target: too many flows lie beyond what their leaves know exactly"
    else:
        share = 100 * bounds.TARGET_COVERAGE
        said = f"calibrated on {flows} flows: {share:g} % of further ones, if they are exchangeable with these"
    return {"flows": flows, "needed": needed, "reached": list(stretch.reached), "said": said}


def _quantile(
    forest: quantiles.QuantileForest,
    test: tuple[Float32s, Floats],
    beta: float,
    small_bytes: int,
    medium_bytes: int,
) -> dict[str, Any]:
    made = report.measured(*forest.interval(test[0], beta), test[1], small_bytes, medium_bytes)
    return {"beta": beta, **made}


def _metadata(found: dict[str, Any], file: bytes) -> dict[str, str]:
    """What the ONNX file tells of itself."""
    told = {name: str(found[name]) for name in ("beta", "split", "leaf_extremes", "seed", "target_coverage")}
    return {
        **told,
        "coverage": f"{found['coverage']:.6f}",
        "training_sha256": found["training_sha256"],
        "forest_sha256": hashlib.sha256(file).hexdigest(),
        "version": str(onnx_export.VERSION),
    }
