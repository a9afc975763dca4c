"""From a recording's file to what training and measuring take."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from qclimb import recording
from qclimb.lengths import PortRange
from qclimb.record_rows import KEPT, Rows

from lab.models.flows import Flows

KERNELS_PORTS = PortRange(10_240)
"""Of a lab's hosts (lab/fabric/plan.py), where recordings are made."""


def rows_of(found: recording.Recording) -> tuple[Rows, list[str]]:
    """The flows as rows of KEPT, and each one's host."""
    rows = np.zeros(found.flows, dtype=KEPT)
    for name in ("start_ns", "size_bytes", "flags"):
        rows[name] = found.numbers[name]
    rows["upper_bytes"] = np.iinfo(np.uint64).max
    rows["features"] = found.features
    return rows, [str(host) for host in found.texts["host"]]


def flows_of(found: recording.Recording, name: str, task: str | None = None) -> Flows:
    """The flows as a ladder takes them; `task`: of that one only."""
    mine = np.ones(found.flows, dtype=np.bool_) if task is None else found.texts["task"] == task
    numbers: dict[str, Any] = {key: values[mine] for key, values in found.numbers.items()}
    return Flows(
        name,
        found.features[mine],
        numbers["size_bytes"].astype(np.float64),
        numbers["footprint_bytes"],
        numbers["start_ns"],
        [str(host) for host in found.texts["host"][mine]],
        numbers["first_write_bytes"],
        numbers["announced_bytes"],
        numbers["announced_by"],
        numbers["flags"],
        _services(numbers, found.texts["process"][mine]),
    )


def _services(numbers: dict[str, Any], process: np.ndarray[Any, Any]) -> np.ndarray[Any, np.dtype[np.int64]]:
    """A number for each program, role and service port (qclimb.lengths.Service)."""
    port = np.where(numbers["role"] == 1, numbers["local_port"], numbers["peer_port"])
    port[(port >= KERNELS_PORTS.first) & (port <= KERNELS_PORTS.last)] = 0
    _, program = np.unique(process.astype(str), return_inverse=True)
    key = np.stack([program, numbers["role"], port]).astype(np.int64)
    return np.asarray(np.unique(key, axis=1, return_inverse=True)[1], np.int64)


def left_out(path: Path, found: recording.Recording) -> list[str]:
    """What was refused of a recording, a sentence a reason."""
    return [f"{path.name}: {count} flows left out: {reason}" for reason, count in found.refused.items()]


def traffics(paths: Sequence[Path]) -> tuple[list[Flows], list[str]]:
    """Every traffic in some recordings, Spark's jobs each by itself; and what was refused, a sentence each."""
    flows, told = [], []
    for path in paths:
        found = recording.read(path)
        told += left_out(path, found)
        tasks = sorted({str(task) for task in found.texts["task"]} - {"", "start"})
        if len(tasks) > 1 and path.stem.startswith("spark"):
            flows += [flows_of(found, f"{path.stem} {task}", task) for task in tasks]
        else:
            flows.append(flows_of(found, path.stem))
    return flows, told
