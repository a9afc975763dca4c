"""Where a flow's time goes, as QCLIMB's Fig. 16 breaks it down: inference, climbing up, slack, climbing down.

Two files of each program that is watched tell it. The library's log (QCLIMB_LOG) says when a flow began, what the
forest said of it, and after how long. The receiver's marks (app/marks.h) say when how much of it had been read. A step
ends when the receiver has read its last byte, by Algorithm 1 with the forest's L and the slack S: the L-th byte ends
the climb, the (L+S)-th the slack.

What comes before bounds are there, or all of a flow that the forest was never asked about, is PIAS's: `unbounded`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.workload.services import Endpoint
from lab.workload.trace import Flow, Trace

STEPS = ("unbounded", "inference", "climbing", "slack", "down")
ASKED = "asked"
"""Beside the steps: 1 where the forest was asked."""
LATEST_NS = 100_000_000
"""From an application's clock reading before its first write to the library's line of it, at most."""
LINE = re.compile(
    r"\[qclimb\] (?P<ns>\d+) pid=\d+ fd=(?P<fd>\d+) (?:flow starts call=(?P<call>\d+)|forecast lower=(?P<lower>\d+) "
    r"upper=\d+ at=\d+ took_ns=(?P<took>\d+))"
)


@dataclass
class Begun:
    """What the library's log says of a flow: of its first call, and of its forecast (-1: none)."""

    ns: int
    call_bytes: int
    lower_bytes: int = -1
    forecast_ns: int = 0
    took_ns: int = 0


def watched(argv: Sequence[str], folder: Path, name: str) -> list[str]:
    """A program's command line, with the files that this module reads."""
    log, marks = _files(folder, name)
    return ["env", f"QCLIMB_LOG={log}", *argv, "--marks", str(marks)]


def forget(folder: Path) -> None:
    """Removes what earlier programs wrote: they append."""
    for pattern in map(str, _files(Path(), "*")):
        for path in folder.glob(pattern):
            path.unlink()


def server_name(service: str, host: str) -> str:
    """Of the server's files."""
    return f"{service}-{host}"


def driver_name(host: str) -> str:
    """Of the driver's files."""
    return f"driver-{host}"


def _files(folder: Path, name: str) -> tuple[Path, Path]:
    return folder / f"decisions-{name}.txt", folder / f"marks-{name}.tsv"


def begun(lines: Iterable[str]) -> list[Begun]:
    """The flows of a log, in the order of their lines."""
    found: list[Begun] = []
    at_fd: dict[str, Begun] = {}
    for line in lines:
        said = LINE.match(line)
        if said is None:
            continue
        if said["call"]:
            at_fd[said["fd"]] = Begun(int(said["ns"]), int(said["call"]))
            found.append(at_fd[said["fd"]])
        elif flow := at_fd.get(said["fd"]):
            flow.lower_bytes, flow.forecast_ns = int(said["lower"]), int(said["ns"])
            flow.took_ns = int(said["took"])
    return found


def matched(starts: Iterable[tuple[int, int, int]], log: Iterable[Begun]) -> dict[int, Begun]:
    """By flow's id, from (id, ns before the first write, bytes of that call): the next of that many bytes in the
    log."""
    of_call: dict[int, list[Begun]] = {}
    for each in sorted(log, key=lambda each: -each.ns):
        of_call.setdefault(each.call_bytes, []).append(each)
    found = {}
    for flow_id, ns, call_bytes in sorted(starts, key=lambda start: start[1]):
        left = of_call.get(call_bytes, [])
        while left and left[-1].ns < ns:
            left.pop()
        if left and left[-1].ns <= ns + LATEST_NS:
            found[flow_id] = left.pop()
    return found


def split(size_bytes: int, marks_us: Sequence[float], start_ns: int, fct_us: float, of: Begun, slack_bytes: int
          ) -> dict[str, float]:  # fmt: skip
    """A flow's FCT by step, in us; `marks_us`: when each further part, all of one size, had been read."""

    def read_us(position: int) -> float:
        part = math.ceil(min(position, size_bytes) * len(marks_us) / size_bytes)
        return marks_us[part - 1] if part else 0.0

    if of.lower_bytes < 0:
        return dict.fromkeys(STEPS, 0.0) | {"unbounded": fct_us}
    told_us = min(fct_us, (of.forecast_ns - start_ns) / 1e3)
    ends = {"unbounded": max(0.0, told_us - of.took_ns / 1e3), "inference": told_us}
    ends["climbing"] = min(fct_us, max(told_us, read_us(of.lower_bytes)))
    ends["slack"] = min(fct_us, max(ends["climbing"], read_us(of.lower_bytes + slack_bytes)))
    ends["down"] = fct_us
    before = [0.0, *ends.values()]
    return {name: end - begin for (name, end), begin in zip(ends.items(), before, strict=False)}


def steps_of(folder: Path, trace: Trace, services: Sequence[Endpoint], slack_bytes: int) -> Mapping[str, list[float]]:
    """Of each flow of a pass that was watched, in order of id: us a step, and ASKED; NaN: not told.

    A replay's flows only: the first write's bytes tell flows of one moment apart.
    """
    how = {service.name: service.how for service in services}
    flows = sorted(trace.flows, key=lambda flow: flow.id)
    times = {}
    for log in folder.glob("flows-*.tsv"):
        for row in map(str.split, log.read_text(encoding="ascii").splitlines()):
            if row[-1] == "ok":
                times[int(row[0])] = int(row[4]), int(row[5])
    of_sender: dict[str, list[tuple[int, int, int]]] = {}
    for flow in flows:
        if flow.id in times:
            of_sender.setdefault(_sender(flow, how), []).append((flow.id, times[flow.id][0], flow.first_write_bytes))
    logged: dict[int, Begun] = {}
    for name, starts in of_sender.items():
        log = _files(folder, name)[0]
        if log.exists():
            logged |= matched(starts, begun(log.read_text(encoding="ascii").splitlines()))
    marks = {}
    for path in folder.glob(_files(Path(), "*")[1].name):
        for row in map(str.split, path.read_text(encoding="ascii").splitlines()):
            marks[int(row[0])] = [float(text) for text in row[1:]]
    columns: dict[str, list[float]] = {name: [] for name in (*STEPS, ASKED)}
    for flow in flows:
        found = dict.fromkeys(columns, math.nan)
        if flow.id in logged and flow.id in marks:
            start_ns, end_ns = times[flow.id]
            of = logged[flow.id]
            found |= split(flow.bytes, marks[flow.id], start_ns, (end_ns - start_ns) / 1e3, of, slack_bytes)
            found[ASKED] = float(of.lower_bytes >= 0)
        for name, value in found.items():
            columns[name].append(value)
    return columns


def _sender(flow: Flow, how: Mapping[str, str]) -> str:
    """The name of the files of the program that sends a flow's bytes."""
    return driver_name(flow.client) if how[flow.service] == "push" else server_name(flow.service, flow.server)
