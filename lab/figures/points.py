"""A point: one run's numbers, and the name that its content gives it.

The name is the hash of the experiment and of the engine's sources (of the program, where it was installed without
them): a store keeps points by it, lab.figures.sweep runs those that are not there.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lab.experiment.store import Store
from lab.sim import FlowList, SimulationError, Workload, run
from lab.sim import engine as engine_package
from lab.sim.coflow import CoflowExperiment, run_coflows
from lab.sim.experiment import Experiment
from lab.sim.fluid import FluidExperiment, run_fluid
from lab.sim.results import MEDIUM_BYTES, SMALL_BYTES
from lab.sim.sizes import size_table

AnyExperiment = Experiment | FluidExperiment | CoflowExperiment


@dataclass(frozen=True)
class Point:
    """One run's numbers: flows that finished by the run's end have an FCT, the others NaN. Of a CoflowExperiment rows
    are coflows."""

    size_bytes: NDArray[np.int64]
    fct_us: NDArray[np.float64]
    slowdown: NDArray[np.float64]
    """Of the fluid model: nFCT."""
    counters: Mapping[str, Any]

    def of_class(self, name: str) -> NDArray[np.bool_]:
        """Flows of a size class, as in lab.sim.results."""
        size = self.size_bytes
        classes = {
            "small": size <= SMALL_BYTES,
            "medium": (size > SMALL_BYTES) & (size <= MEDIUM_BYTES),
            "large": size > MEDIUM_BYTES,
        }
        return np.isfinite(self.fct_us) & classes.get(name, np.ones(size.shape, bool))

    def statistic(self, name: str, size_class: str = "all", of: str = "fct_us") -> float:
        """`mean` or `p99`."""
        values = getattr(self, of)[self.of_class(size_class)]
        if not values.size:
            return float("nan")
        return float(values.mean() if name == "mean" else np.quantile(values, 0.99))


@cache
def _engine_digest() -> bytes:
    folder = Path(engine_package.__file__).parent
    rules = folder.parents[2] / "hostlib/core/include/qclimb"  # the hosts' rules are the engine's
    own = [rules / f"{name}.h" for name in ("coflow", "priority", "deadline")]
    sources = [*sorted(folder.glob("*/*.h")), folder / "main.cpp", *own]
    if not all(path.exists() for path in sources):
        sources = [engine_package.program()]
    return hashlib.sha256(b"".join(path.read_bytes() for path in sources)).digest()


def name_of(experiment: AnyExperiment) -> str:
    """Equal for equal experiments on equal engines only."""
    digest = hashlib.sha256(_engine_digest() + repr(experiment).encode())
    workload = getattr(experiment, "workload", None)
    if isinstance(workload, Workload):
        table = size_table(workload.sizes)
        digest.update(table.size_bytes.tobytes() + table.share.tobytes())
    listed = getattr(experiment, "coflows", workload if isinstance(workload, FlowList) else None)
    if listed is not None:  # whose repr leaves most numbers out
        for value in vars(listed).values():
            digest.update(b"-" if value is None else np.ascontiguousarray(value).tobytes())
    return digest.hexdigest()[:32]


def compute(experiment: AnyExperiment) -> Point:
    """Runs it. Raises: SimulationError."""
    if isinstance(experiment, FluidExperiment):
        fluid = run_fluid(experiment)
        counters: dict[str, Any] = {"cpu_seconds": fluid.cpu_seconds, "peak_flows": fluid.peak_flows}
        return Point(fluid.size_kb * 1000, fluid.fct_s * 1e6, fluid.nfct, counters)
    if isinstance(experiment, CoflowExperiment):
        whole = run_coflows(experiment)
        counters = dict(whole.counters) | {"in_time": float(whole.in_time.mean())}
        return Point(experiment.coflows.bytes, whole.cct_s * 1e6, whole.slowdown, counters)
    found = run(experiment)
    names = [
        "data_packets",
        "delivered_packets",
        "marks",
        "waiting_sum",
        "losses_told",
        "events",
        "cpu_seconds",
        "peak_flows",
        "peak_packets",
        "peak_rss_kib",
    ]
    counters = {name: getattr(found.counters, name) for name in names}
    counters["drops"] = sum(found.counters.drops_at.values())
    counters["timeouts"] = int(found.timeouts[found.timeouts > 0].sum())
    counters["retransmissions"] = int(found.retransmissions.sum())
    for size_class in ("small", "medium", "large"):
        counters[f"drops_{size_class}"] = int(found.drops[found.of_class(size_class)].sum())
    due_ps = getattr(experiment.workload, "deadline_ps", None)
    if due_ps is not None:
        is_in_time = (found.received_ps >= 0) & ((found.received_ps <= due_ps) | (due_ps == 0))
        counters["in_time"] = float(is_in_time.mean())
        counters["in_time_of_due"] = float(is_in_time[due_ps != 0].mean()) if due_ps.any() else 1.0
    if found.counters.watched is not None:
        counters["watched"] = found.counters.watched
    return Point(found.size_bytes, found.fct_us, found.slowdown, counters)


def store(folder: Path) -> Store[Point]:
    """The points of a folder, NAME.npz each. Raises: SimulationError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SimulationError(f"cache is {folder}, where no folder can be made: {error.strerror}") from None
    return Store(folder, _read, _write, room="", suffix=".npz")


def _read(path: Path) -> Point:
    with np.load(path) as stored:
        counters = json.loads(str(stored["counters"]))
        return Point(stored["size_bytes"], stored["fct_us"], stored["slowdown"], counters)


def _write(point: Point, path: Path) -> None:
    arrays = {name: getattr(point, name) for name in ("size_bytes", "fct_us", "slowdown")}
    with path.open("wb") as file:
        np.savez_compressed(file, **arrays, counters=np.array(json.dumps(dict(point.counters))))
