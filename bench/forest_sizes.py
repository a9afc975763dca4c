"""How small a forest may be: coverage, closeness and nanoseconds by trees and depth, on the shipped recordings.

Each forest is grown and calibrated as `qclimb model train` does, with the first write as a feature, and tested on the
last 20 % of each recording's flows. Inference is forest.h's, warm, on the tested flows themselves; rounds of all sizes
take turns and the median counts. Bounds are the forest's own: what system calls prove comes on top of them.
"""

import importlib.util
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "gnmi-models")]

from qclimb import recording  # noqa: E402
from qclimb.hostfile import encode_forest  # noqa: E402

from orchestrator import bounds, conformal, report  # noqa: E402
from orchestrator.trees import Tree  # noqa: E402

RECORDINGS = sorted((ROOT / "lab" / "recordings").glob("*.parquet"))
TREES, DEPTHS = (10, 25, 50, 100), (5, 8, 10)
IDS = tuple(range(12))
ROUNDS, WARM_ROWS = 7, 400


def core_type() -> Any:
    """bench/forest.py's C side."""
    spec = importlib.util.spec_from_file_location("bench_forest", Path(__file__).parent / "forest.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module.Core


def run(seed: int = 0) -> list[dict[str, Any]]:
    """A row a size of forest and recording."""
    rows: list[dict[str, Any]] = []
    cores: list[tuple[dict[str, Any], Any, np.ndarray[Any, np.dtype[np.uint64]]]] = []
    make = core_type()
    with tempfile.TemporaryDirectory() as folder:
        for path in RECORDINGS:
            found = recording.read(path)
            sizes = found.numbers["size_bytes"].astype(np.float64)
            parts = bounds.split(found.numbers["start_ns"], [str(host) for host in found.texts["host"]])
            test = parts.test
            values = found.features[test].astype(np.uint64)
            for depth in DEPTHS:
                grown, _ = bounds.grow(found.features[parts.grow], sizes[parts.grow], max(TREES), depth, seed, jobs=-1)
                held = found.features[parts.calibrate], sizes[parts.calibrate]
                for trees in TREES:
                    # The first trees of a larger forest: it is grown tree by tree, each from a seed of its own.
                    some = [Tree(**{name: part.copy() for name, part in vars(t).items()}) for t in grown[:trees]]
                    stretch = conformal.calibrated(some, *held, depth, bounds.TARGET_COVERAGE)
                    for tree in some:
                        tree.learn(*held, depth)
                    forest = bounds.flat_forest(some, stretch, 1, IDS, depth)
                    lower, upper = forest.predict_bytes(found.features[test])
                    made = report.measured(lower, upper, sizes[test])
                    row = {
                        "recording": path.stem,
                        "trees": trees,
                        "depth": depth,
                        "nodes": forest.nodes,
                        "coverage %": 100 * made["coverage"],
                        "below %": 100 * made["below_lower"],
                        "U/L": report.tightness(lower, upper, [1])["median_ratio"],
                        "log10 U/L": report.tightness(lower, upper, [1])["mean_log10_ratio"],
                    }
                    place = Path(folder) / f"{path.stem}-{trees}-{depth}"
                    place.mkdir()
                    core = make(place, encode_forest(forest))
                    some_rows = np.ascontiguousarray(values[np.linspace(0, len(values) - 1, WARM_ROWS).astype(int)])
                    assert np.array_equal(
                        core.bounds(some_rows)[:, 0], forest.predict_bytes(some_rows.astype(np.float32))[0]
                    )
                    rows.append(row)
                    cores.append((row, core, some_rows))
        times: list[list[float]] = [[] for _ in cores]
        for _ in range(ROUNDS):
            for place_of, (_, core, some_rows) in enumerate(cores):
                times[place_of].append(core.warm_ns(some_rows))
        for row, found_ns in zip(rows, times, strict=True):
            row["ns"] = round(statistics.median(found_ns))
    return rows


if __name__ == "__main__":
    for each in run():
        print(
            "  ".join(
                f"{key}: {value:.4g}" if isinstance(value, float) else f"{key}: {value}" for key, value in each.items()
            )
        )
