"""Nanoseconds per inference of forest.h beside onnxruntime on the same forest, in the same run.

One forest is of 100 trees x depth 10 (11 features, about 70,000 nodes), the other of the orchestrator's default size;
both are grown by its own code on made-up flows; both sides are first checked to answer alike. Short rounds of the two
take turns and the median round counts, so that a busy machine is unfair to neither. QCLIMB's own inference takes about
3.1 us a flow (NSDI'24, Fig. 16).

  warm   another flow each time, the forest in the cache: from features in integers to bounds in bytes
  cold   64 MB were written before each inference: an application that has just used the cache for itself
  load   checks the model file and unpacks it, as a shim does for each generation; beside it, making an InferenceSession

onnxruntime is called as flows arrive: a row at a time, on one thread, from Python (from C it is no faster, its
own overhead dominates).
"""

import ctypes
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from qclimb.features import FEATURES
from qclimb.forest import Forest
from qclimb.hostfile import encode_forest

from orchestrator.models import forest_size
from orchestrator.models.bounds import flat_forest, grow
from orchestrator.models.onnx_export import to_onnx
from orchestrator.models.trees import Stretch

from .beside import LIBRARY_FLAGS, ROOT, built

TREES, DEPTH, IDS = 100, 10, tuple(range(11))
DEFAULT = forest_size.TREES, forest_size.DEPTH
FLOWS = 1500  # as many as give about 70,000 nodes
ROUNDS, WARM_ROWS, ORT_ROWS, COLD_ROWS = 25, 500, 30, 3
EVICT_BYTES = 64 << 20
PAPER_NS = 3100.0

Values = NDArray[np.uint64]


def made_up_flows(count: int, seed: int = 0) -> tuple[Values, NDArray[np.float64]]:
    """(features [count, 12], sizes in bytes [count]): sizes are log-normal about what service and last size say."""
    rng = np.random.default_rng(seed)
    service = rng.integers(0, 5, count)
    recent = np.exp(rng.normal(9, 2.5, (count, 5)))
    columns = [
        rng.uniform(0, 6e7, count),  # start_us
        rng.exponential(1e5, count),  # gap_us
        *recent.T,
        np.array([80, 443, 8080, 9000, 6379])[service],
        rng.integers(0, 2, count),  # role
        rng.integers(0, 8, count) + 0x130100,  # low 24 bits of 198.19.1.0 and on
        rng.integers(0, 8, count) + 0x130200,
        recent[:, 1],  # first_write_bytes
    ]
    sizes = np.ceil(np.exp(rng.normal(5, 2, count) + service + 0.3 * np.log1p(recent[:, 0])))
    return np.stack(columns, axis=1).astype(np.uint64), sizes


def made_up_forest(trees: int = TREES, depth: int = DEPTH, flows: int = FLOWS, seed: int = 0) -> Forest:
    """A forest grown on made-up flows, to single flows where the depth allows."""
    values, sizes = made_up_flows(flows, seed)
    grown, _ = grow(as_rows(values), sizes, trees, depth, seed, min_samples_leaf=1)
    return flat_forest(grown, Stretch(), 1, IDS, depth)


def as_rows(values: Values) -> NDArray[np.float32]:
    """The columns that the forest looks at, as float32."""
    return np.ascontiguousarray(values[:, IDS].astype(np.float32))


@cache
def evicting() -> NDArray[np.uint8]:
    """What is written so that nothing else stays in the cache; one for all."""
    return np.ones(EVICT_BYTES, np.uint8)


class Core:
    """programs/forest.c, built as libqclimb.so is; one that lies in the folder already is taken. A folder a model."""

    def __init__(self, folder: Path, model: bytes) -> None:
        library = folder / "forest.so"
        if not library.exists():
            built(folder, "forest.c", *LIBRARY_FLAGS, f"-I{ROOT / 'hostlib/core/include'}", name="forest.so")
        self._c = ctypes.CDLL(str(library))
        self._c.bench_warm_ns.restype = self._c.bench_load_ns.restype = ctypes.c_double
        self._model = model
        error = self._c.bench_load(model, ctypes.c_size_t(len(model)))
        if error:
            raise OSError(-error, "the model does not load")
        self._evict = evicting()

    def bounds(self, values: Values) -> NDArray[np.uint64]:
        found = np.zeros((len(values), 2), np.uint64)
        self._c.bench_predict(_pointer(values), ctypes.c_size_t(len(values)), _pointer(found))
        return found

    def warm_ns(self, values: Values) -> float:
        self.bounds(values)
        return float(self._c.bench_warm_ns(_pointer(values), ctypes.c_size_t(len(values))))

    def cold_ns(self, values: Values) -> float:
        ns = np.zeros(len(values))
        evict = self._evict
        self._c.bench_cold_ns(
            _pointer(values), ctypes.c_size_t(len(values)), _pointer(evict), ctypes.c_size_t(len(evict)), _pointer(ns)
        )
        return float(np.median(ns))

    def load_ns(self) -> float:
        return float(self._c.bench_load_ns(self._model, ctypes.c_size_t(len(self._model))))


class Ort:
    """onnxruntime on the same forest, one thread."""

    def __init__(self, model: bytes) -> None:
        self._model = model
        self._session = self._open()
        self._evict = evicting()

    def _open(self) -> onnxruntime.InferenceSession:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        return onnxruntime.InferenceSession(self._model, options, providers=["CPUExecutionProvider"])

    def bounds(self, rows: NDArray[np.float32]) -> NDArray[np.float32]:
        return np.asarray(self._session.run(["bounds"], {"features": rows})[0])

    def warm_ns(self, rows: NDArray[np.float32]) -> float:
        self.bounds(rows)
        run, fed = self._session.run, [{"features": rows[i : i + 1]} for i in range(len(rows))]
        start = time.perf_counter_ns()
        for feed in fed:
            run(["bounds"], feed)
        return (time.perf_counter_ns() - start) / len(rows)

    def cold_ns(self, rows: NDArray[np.float32]) -> float:
        run, ns = self._session.run, []
        for i in range(len(rows)):
            feed = {"features": rows[i : i + 1]}
            self._evict += 1
            start = time.perf_counter_ns()
            run(["bounds"], feed)
            ns.append(time.perf_counter_ns() - start)
        return statistics.median(ns)

    def load_ns(self) -> float:
        start = time.perf_counter_ns()
        self._open()
        return float(time.perf_counter_ns() - start)


def _pointer(array: NDArray[Any]) -> ctypes.c_void_p:
    assert array.flags.c_contiguous
    return array.ctypes.data_as(ctypes.c_void_p)


def run() -> list[dict[str, Any]]:
    """The rows of the table; raises AssertionError if the two do not answer alike."""
    return [row for trees, depth in ((TREES, DEPTH), DEFAULT) for row in compared(made_up_forest(trees, depth))]


def compared(forest: Forest) -> list[dict[str, Any]]:
    """The rows of one forest."""
    values, _ = made_up_flows(WARM_ROWS, seed=1)
    rows = as_rows(values)
    with tempfile.TemporaryDirectory() as folder:
        core, ort = Core(Path(folder), encode_forest(forest)), Ort(to_onnx(forest, {}))
        assert values.shape[1] == len(FEATURES)
        assert np.array_equal(core.bounds(values), ort.bounds(rows).astype(np.uint64)), "the two differ"
        measures: dict[str, tuple[Callable[[], float], Callable[[], float]]] = {
            "warm": (lambda: core.warm_ns(values), lambda: ort.warm_ns(rows[:ORT_ROWS])),
            "cold": (lambda: core.cold_ns(values[:COLD_ROWS]), lambda: ort.cold_ns(rows[:COLD_ROWS])),
            "load": (core.load_ns, ort.load_ns),
        }
        rounds = [{name: (ours(), theirs()) for name, (ours, theirs) in measures.items()} for _ in range(ROUNDS)]
    table = []
    for name in measures:
        ours, theirs = (statistics.median(each[name][side] for each in rounds) for side in (0, 1))
        table.append(
            {
                "forest": f"{forest.trees} x {forest.depth}, {forest.nodes} nodes",
                "case": name,
                "forest.h ns": round(ours),
                "onnxruntime ns": round(theirs),
                "times faster": round(theirs / ours, 1),
                "paper ns": PAPER_NS if name != "load" else "",
            }
        )
    return table
