"""From an experiment to its results: `run` gathers arrays, `stream` hands records on as flows end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from lab.sim.engine import Process, Records
from lab.sim.experiment import Experiment
from lab.sim.results import Counters, Results
from lab.sim.wired import Wired

Progress = Callable[[int], None]
"""Told the number of flows that are over."""

_COLUMNS = ("received_ps", "acked_ps", "sent", "drops", "timeouts", "duplicates")


def flows_of(experiment: Experiment) -> Iterator[Records]:
    """The experiment's flows, as records of wire.FLOW, chunk by chunk; the same ones every time."""
    return experiment.workload.chunks(
        experiment.topology,
        experiment.load,
        experiment.count,
        experiment.seed,
        experiment.payload_bytes,
        experiment.header_bytes,
    )


def wiring_of(experiment: Experiment) -> bytes:
    """What the engine is to read ahead of flows: of a wired fabric its links, and the paths of all pairs that send."""
    if not isinstance(experiment.topology, Wired):
        return b""
    pairs: set[tuple[int, int]] = set()
    for chunk in flows_of(experiment):
        pairs.update(zip(chunk["source"].tolist(), chunk["target"].tolist(), strict=True))
    return experiment.topology.wiring(sorted(pairs))


def stream(experiment: Experiment, checked: bool = False) -> Iterator[Records | Counters]:
    """Records of wire.RESULT in the order in which flows end, then the counters; nothing is kept. Raises:
    SimulationError."""
    process = Process(experiment.settings(), flows_of(experiment), checked, wiring_of(experiment))
    yield from process
    yield Counters.of(process.counters)


def run(experiment: Experiment, progress: Progress | None = None, checked: bool = False) -> Results:
    """Runs it. `checked`: with the engine's invariants tested at every event. Raises: SimulationError."""
    n = experiment.count
    given: list[Records] = []

    def kept() -> Iterator[Records]:
        for chunk in flows_of(experiment):
            given.append(chunk[["start_ps", "size_bytes", "source", "target"]].copy())
            yield chunk

    columns: dict[str, Any] = {name: np.full(n, -1, np.int64) for name in _COLUMNS}
    process = Process(experiment.settings(), kept(), checked, wiring_of(experiment))
    over = 0
    for records in process:
        index = records["index"].astype(np.int64)
        for name in _COLUMNS:
            columns[name][index] = records[name]
        over += len(records)
        if progress:
            progress(over)
    flows = np.concatenate(given)
    source, target = (flows[name].astype(np.int64) for name in ("source", "target"))
    size = flows["size_bytes"].astype(np.int64)
    packets = -(-size // experiment.payload_bytes)
    ideal = experiment.topology.ideal_between(source, target, size, experiment.payload_bytes, experiment.header_bytes)
    return Results(
        start_ps=flows["start_ps"].astype(np.int64),
        size_bytes=size,
        source=source,
        target=target,
        ideal_ps=ideal,
        retransmissions=np.maximum(0, columns["sent"] - packets),
        counters=Counters.of(process.counters),
        **columns,
    )
