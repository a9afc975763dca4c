"""The ladder of bounds: each rung measured against the one before, on flows that come later than all that was learned.

    a  the paper's features: start time, gap, five last sizes, five-tuple; 80 % of each host's flows by time learned
    b  + the length of the first write as a feature
    c  + what system calls prove: L = max(L, F), U = max(U, F), F being what the application had asked to send when the
       first ACK was seen (DESIGN.md 3.1); F can't be wrong, the size is at least F
    d  + calibration (calibration.py): 64 % grow the trees, 16 % calibrate, then count for the extremes, too; never-seen
       flows fall back to PIAS (novelty.py)
    e  + what flows' own bytes announced (sources.py): L = max(L, p), and U = p where that was exact often enough

Means over seeds of the forests, the learning curve of the first one; the flows are the same ones.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from qclimb.features import DEFAULT_FEATURE_IDS, FEATURES

from lab.models import sources
from lab.models.flows import Flows
from orchestrator.errors import TrainingError
from orchestrator.models import bounds, calibration, novelty, report
from orchestrator.models.forest_size import DEPTH, TREES
from orchestrator.models.trees import Floats

JOBS = -1
"""All processors: a ladder is made by hand."""

FIRST_WRITE = FEATURES.index("first_write_bytes")
COLUMNS = {"a": list(DEFAULT_FEATURE_IDS), "b": [*DEFAULT_FEATURE_IDS, FIRST_WRITE]}
BRIEFLY = ("coverage", "small_mean_gap_to_lower_bytes", "mean_log10_ratio")
RUNGS = {
    "a": "paper's features",
    "b": "+ first write",
    "c": "+ proven lower bound",
    "d": "+ calibration",
    "e": "+ lengths",
}


def climb(
    flows: Flows,
    trees: int = TREES,
    depth: int = DEPTH,
    seeds: Sequence[int] = (0, 1, 2),
    target: float = bounds.TARGET_COVERAGE,
    say: Callable[[str], None] = lambda text: None,
) -> dict[str, Any]:
    """All rungs of one traffic: JSON. Raises TrainingError where there are too few flows."""
    if len(flows.size_bytes) < 5 * bounds.LEAST_ROWS:
        raise TrainingError(
            f"{flows.name}: {len(flows.size_bytes)} flows, expected at least {5 * bounds.LEAST_ROWS} for a ladder"
        )
    parts = bounds.split(flows.start_ns, flows.hosts)
    by_seed = []
    for seed in seeds:
        say(f"{flows.name}: seed {seed}")
        by_seed.append(_rungs(flows, parts, trees, depth, seed, target))
    say(f"{flows.name}: learning curve")
    needed = calibration.needed(target)
    enough = len(parts.calibrate) >= needed
    shown = np.concatenate([parts.grow, parts.calibrate])
    return {
        "name": flows.name,
        "sources": sources.told(flows),
        "flows": {name: len(getattr(parts, name)) for name in ("grow", "calibrate", "test")},
        "trees": trees,
        "depth": depth,
        "seeds": list(seeds),
        "target": target,
        "calibration": {
            "flows": len(parts.calibrate),
            "needed": needed,
            "enough": enough,
            "reached": [bool(np.mean([run["d"]["reached"][end] for run in by_seed]) == 1) for end in (0, 1)],
        },
        "by_depth": _mean([run["by_depth"] for run in by_seed]),
        "learning_curve": _curve(flows, parts, by_seed[0]["b"], trees, depth, seeds[0]),
        "threshold_bytes": list(report.thresholds_of(flows.size_bytes[shown])),
        "rungs": {rung: _interval(_mean([run[rung] for run in by_seed]), len(parts.test)) for rung in RUNGS},
    }


def _curve(flows: Flows, parts: bounds.Parts, whole: dict[str, Any], trees: int, depth: int, seed: int) -> list[Any]:
    """A learning curve of rung (b), which is its last point."""
    shown = np.concatenate([parts.grow, parts.calibrate])
    shown = shown[np.argsort(flows.start_ns[shown], kind="stable")]
    learned, later = ((flows.features[part][:, COLUMNS["b"]], flows.size_bytes[part]) for part in (shown, parts.test))
    found = report.learning_curve(learned, later, trees, depth, seed, JOBS, report.PARTS[:-1])
    return [*found, {"share": 1.0, "flows": len(shown), **{key: whole[key] for key in BRIEFLY}}]


def _rungs(
    flows: Flows, parts: bounds.Parts, trees: int, depth: int, seed: int, target: float
) -> dict[str, dict[str, Any]]:
    shown = np.concatenate([parts.grow, parts.calibrate])
    test = parts.test
    sizes, proven = flows.size_bytes, flows.footprint_bytes.astype(np.float64)
    edges = report.thresholds_of(sizes[shown])

    def judged(lower: Floats, upper: Floats) -> dict[str, Any]:
        by_time = report.windows(lower, upper, sizes[test], flows.start_ns[test])
        return {
            **report.measured(lower, upper, sizes[test]),
            **report.briefly(lower, upper, sizes[test]),
            **report.tightness(lower, upper, edges),
            "windows": by_time,
        }

    found = {}
    for rung, ids in COLUMNS.items():
        grown, _ = bounds.grow(flows.features[shown][:, ids], sizes[shown], trees, depth, seed, jobs=JOBS)
        lower, upper = report.predicted(grown, flows.features[test][:, ids], depth)
        found[rung] = judged(lower, upper)
        if rung == "a":
            whole, later = ((flows.features[part][:, ids], sizes[part]) for part in (shown, test))
            found["by_depth"] = report.by_depth(grown, whole, later, [d for d in report.DEPTHS if d <= depth])
    found["c"] = judged(np.maximum(lower, proven[test]), np.maximum(upper, proven[test]))

    ids = COLUMNS["b"]
    matrix = np.ascontiguousarray(flows.features[:, ids])
    watch = novelty.guard(matrix[parts.grow], sizes[parts.grow], ids, depth, seed, matrix[parts.calibrate])
    grown, _ = bounds.grow(
        matrix[parts.grow], sizes[parts.grow], max(trees - (watch is not None), 1), depth, seed, jobs=JOBS
    )
    grown += [watch] if watch is not None else []
    held = matrix[parts.calibrate], sizes[parts.calibrate]
    stretch = calibration.calibrated(grown, *held, depth, target, flows.footprint_bytes[parts.calibrate])
    for tree in grown:
        tree.learn(*held, depth)
    forest = bounds.flat_forest(grown, stretch, 1, tuple(ids), depth)
    lower, upper = bounds.predict(forest, matrix[test])
    found["d"] = judged(np.maximum(lower, proven[test]), np.maximum(upper, proven[test]))
    found["d"] |= {
        "fallback_share": float(novelty.is_fallback(upper).mean()),
        "stretch": [stretch.lower, stretch.upper],
        "reached": list(stretch.reached),
    }
    low, high = np.maximum(lower, proven[test]), np.maximum(upper, proven[test])
    found["e"] = judged(*sources.joined(flows, shown, test, low, high))
    return found


def _interval(rung: dict[str, Any], flows: int) -> dict[str, Any]:
    """A rung, and the coverage that its misses leave possible at 95 %."""
    return {**rung, "coverage_interval": list(report.exact_interval((1 - rung["coverage"]) * flows, flows))}


def _mean(runs: Sequence[Any]) -> Any:
    """Runs of one shape as their mean: numbers averaged, what is no number from the first."""
    first = runs[0]
    if isinstance(first, dict):
        return {key: _mean([run[key] for run in runs]) for key in first}
    if isinstance(first, list):
        return [_mean([run[place] for run in runs]) for place in range(len(first))]
    if isinstance(first, bool) or not isinstance(first, int | float):
        return first
    return float(np.mean(runs)) if isinstance(first, float) else first
