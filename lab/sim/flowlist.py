"""Flow lists as files: one flow a line, columns by white space, gzip by the name's end.

Two layouts are read, told apart by the number of columns:
  9   YAPS's: id, start in s, 0, 0, size in packets of `payload_bytes`, 0, 0, source, destination (start counted from
      the first whole second);
  4+  our own: start_us size_bytes source target [lower_bytes upper_bytes [forecast_bytes]].
"""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lab.sim.errors import ExperimentError
from lab.sim.workload import FlowList


def read_flow_list(path: Path, payload_bytes: int = 1460) -> FlowList:
    """Raises: ExperimentError, with the place of what can't be read."""
    try:
        raw = path.read_bytes()
        text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode()
        lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
        rows = np.array([[float(cell) for cell in line.split()] for line in lines])
    except (OSError, ValueError, EOFError) as error:
        raise ExperimentError(f"workload: {path} is no flow list: {error}") from None
    if rows.ndim != 2 or rows.shape[1] not in (4, 6, 7, 9):
        raise ExperimentError(
            f"workload: {path} has {rows.shape[-1] if rows.size else 0} columns, expected 4, 6, 7 or 9"
        )
    wrong = ~np.isfinite(rows) | (rows < 0)
    if wrong.any():
        flow, column = (int(place) for place in np.argwhere(wrong)[0])
        raise ExperimentError(
            f"workload: {path}, flow {flow}, column {column + 1} is {rows[flow, column]}, expected 0 or more"
        )
    if rows.shape[1] == 9:
        start_s = rows[:, 1] - np.floor(rows[0, 1])
        return FlowList(
            np.rint(start_s * 1e12).astype(np.int64),
            rows[:, 4].astype(np.int64) * payload_bytes,
            rows[:, 7].astype(np.int64),
            rows[:, 8].astype(np.int64),
        )
    bounds: list[NDArray[np.uint64] | None] = [rows[:, column].astype(np.uint64) for column in range(4, rows.shape[1])]
    lower, upper, forecast = bounds + [None] * (3 - len(bounds))
    size, source, target = (rows[:, column].astype(np.int64) for column in (1, 2, 3))
    return FlowList(np.rint(rows[:, 0] * 1e6).astype(np.int64), size, source, target, lower, upper, forecast)
