"""Flow lists as files: one flow a line, columns by white space, gzip by the name's end, comments from a # on.

Two layouts are read, told apart by the number of columns:
  9   YAPS's: id, start in s, 0, 0, size in packets of `payload_bytes`, 0, 0, source, destination (start counted from
      the first whole second);
  4+  our own: start_us size_bytes source target [lower_bytes upper_bytes [forecast_bytes]].
Flows stand in order of their starts; those of one moment begin in the list's order.
"""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from lab.sim.errors import ExperimentError
from lab.sim.workload import FlowList

OURS = ("start_us", "size_bytes", "source", "target", "lower_bytes", "upper_bytes", "forecast_bytes")
YAPS = ("id", "start_s", "zero", "zero", "size_packets", "zero", "zero", "source", "destination")
LEAST = {"size_bytes": 1, "size_packets": 1}
MOST = {"start_us": 4e12, "start_s": 4e6, "size_bytes": 2.0**53, "size_packets": 2.0**31 - 1}
MOST |= {"source": 2.0**20 - 1, "target": 2.0**20 - 1, "destination": 2.0**20 - 1}
MOST_ELSE = 2.0**63
"""Starts fit into 63 bits of picoseconds; sizes into what a float64 counts exactly, and into the engine's packets;
hosts into the largest topology."""
Rows = NDArray[np.float64]


def read_flow_list(path: Path, payload_bytes: int = 1460) -> FlowList:
    """Raises: ExperimentError, with the place of what can't be read."""
    numbered = _lines(path)
    names, rows = _rows(path, numbered)
    for column, name in enumerate(names):
        values, least, most = rows[:, column], LEAST.get(name, 0), MOST.get(name, MOST_ELSE)
        wrong = ~((values >= least) & (values <= most))
        expected = f"{least} to {most:.10g}"
        if not name.startswith("start"):
            wrong |= values != np.floor(values)
            expected = f"a whole number, {expected}"
        if wrong.any():
            flow = int(np.argmax(wrong))
            cell = numbered[flow][1].split()[column]
            _refuse(path, numbered[flow][0], f"column {column + 1} ({name}) is {cell}, expected {expected}")
    column_of = {name: rows[:, column] for column, name in enumerate(names)}
    source, target = column_of["source"], column_of["destination" if "destination" in names else "target"]
    back = np.diff(column_of[names[1]] if names is YAPS else column_of["start_us"], prepend=-1) < 0
    if back.any():
        _refuse(path, numbered[int(np.argmax(back))][0], "this flow starts before the one ahead of it, expected after")
    if (source == target).any():
        flow = int(np.argmax(source == target))
        _refuse(path, numbered[flow][0], f"source and target are both {source[flow]:.0f}, expected two hosts")
    if "upper_bytes" in column_of and (crossed := column_of["lower_bytes"] > column_of["upper_bytes"]).any():
        lower, upper = numbered[flow := int(np.argmax(crossed))][1].split()[4:6]
        _refuse(path, numbered[flow][0], f"lower_bytes is {lower}, expected at most upper_bytes, {upper}")
    ends = source.astype(np.int64), target.astype(np.int64)
    if names is YAPS:
        start_s = column_of["start_s"] - np.floor(column_of["start_s"][0])
        size = column_of["size_packets"].astype(np.int64) * payload_bytes
        return FlowList(np.rint(start_s * 1e12).astype(np.int64), size, *ends)
    bounds: list[NDArray[np.uint64] | None] = [column_of[name].astype(np.uint64) for name in names[4:]]
    start = np.rint(column_of["start_us"] * 1e6).astype(np.int64)
    return FlowList(start, column_of["size_bytes"].astype(np.int64), *ends, *bounds)


def _lines(path: Path) -> list[tuple[int, str]]:
    """Lines with flows, and their numbers from 1."""
    try:
        raw = path.read_bytes()
        text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode()
    except UnicodeDecodeError as error:
        raise ExperimentError(f"workload: {path} is no flow list: byte {error.start} is no text") from None
    except (OSError, EOFError, zlib.error) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise ExperimentError(f"workload: {path} is no flow list: {reason}") from None
    bare = ((number, line.partition("#")[0]) for number, line in enumerate(text.splitlines(), 1))
    found = [(number, line) for number, line in bare if line.strip()]
    if not found:
        raise ExperimentError(f"workload: {path} has no flows")
    return found


def _rows(path: Path, numbered: list[tuple[int, str]]) -> tuple[tuple[str, ...], Rows]:
    """The columns' names and the cells as numbers."""
    cells = [line.split() for _, line in numbered]
    count = len(cells[0])
    if count not in (4, 6, 7, 9):
        _refuse(path, numbered[0][0], f"there are {count} columns, expected 4, 6, 7 or 9")
    for (number, _), row in zip(numbered, cells, strict=True):
        if len(row) != count:
            _refuse(path, number, f"there are {len(row)} columns, expected {count} as in the first line")
    names = YAPS if count == 9 else OURS[:count]
    try:
        return names, np.array(cells, np.float64)
    except ValueError:
        for (number, _), row in zip(numbered, cells, strict=True):
            for column, cell in enumerate(row):
                if not _is_number(cell):
                    _refuse(path, number, f"column {column + 1} ({names[column]}) is {cell[:40]!r}, expected a number")
        raise


def _is_number(cell: str) -> bool:
    try:
        np.array([cell], np.float64)
    except ValueError:
        return False
    return True


def _refuse(path: Path, number: int, sentence: Any) -> NoReturn:
    raise ExperimentError(f"workload: {path}, line {number}: {sentence}")
