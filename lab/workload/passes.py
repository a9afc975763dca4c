"""A pass: one trace once over the fabric under one scheme, and everything that was seen.

FCT is measured where the papers measure it: from the first write at the sender to the last byte read at the receiver,
by the applications, on one clock. Queries (nginx and curl) are measured by curl: from its request to the last byte.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lab.experiment.terminal import Progress
from lab.fabric.machine import cpu_now
from lab.workload import programs, steps
from lab.workload.ground import TCP_COUNTERS, Ground
from lab.workload.services import SERVICES, Endpoint
from lab.workload.trace import Trace

DRAIN_S = 30
"""A flow may end this long after the last arrival; what is then under way counts as unfinished."""
LEAD_S = 1.0
"""From starting the drivers to the trace's time 0."""
LATE_US = 5_000
"""A driver that begins a flow later than this after its time is not open loop any more; the share is reported."""

Beside = Callable[[int], Sequence[subprocess.Popen[bytes]]]
"""Told a trace's time 0 (CLOCK_MONOTONIC ns), gives programs of the caller's own that a pass waits for."""


def no_programs(start_ns: int) -> Sequence[subprocess.Popen[bytes]]:
    """Nothing runs beside."""
    return ()


@dataclass(frozen=True)
class PassResult:
    """What one pass gave. Columns are lists of equal length, one entry per flow of the trace, in order of id."""

    scheme: str
    load: float
    seed: int
    trace_digest: str
    seconds: float
    id: list[int]
    service: list[str]
    client: list[str]
    server: list[str]
    bytes: list[int]
    due_us: list[int]
    late_us: list[int]
    fct_us: list[float]
    """NaN (null in JSON): unfinished or failed."""
    alone_us: list[float]
    """FCT of the same flow alone on the idle fabric (alone.py)."""
    failures: dict[str, int] = field(default_factory=dict)
    """Flows that did not end well, by reason."""
    tcp: dict[str, int] = field(default_factory=dict)
    """Sum over hosts of the increments of TCP_COUNTERS."""
    queue_drops: dict[str, int] = field(default_factory=dict)
    """Packets that switches dropped, by queue."""
    waited_ms: list[int] = field(default_factory=list)
    """When what waited was read, from the trace's time 0 on."""
    waited_bytes: dict[str, list[int]] = field(default_factory=dict)
    """What waited then at all switch ports, by queue."""
    idle_share: float = 0.0
    """Share of the machine's CPU time that was idle during the pass."""
    steps_us: dict[str, list[float]] = field(default_factory=dict)
    """Of a pass that was watched, a column a step (steps.py)."""
    settings: dict[str, Any] = field(default_factory=dict)
    """What was in force: policy, thresholds, generation; free of secrets."""

    def to_json(self) -> dict[str, Any]:
        """Plain values; NaN becomes null."""
        values = asdict(self)
        values["fct_us"] = [None if value != value else value for value in self.fct_us]
        return values

    @staticmethod
    def from_json(values: Mapping[str, Any]) -> PassResult:
        """The reverse of to_json; TypeError names a key that is unknown or missing."""
        fct = [float("nan") if value is None else float(value) for value in values["fct_us"]]
        return PassResult(**{**values, "fct_us": fct})

    def save(self, path: Path) -> None:
        """As JSON."""
        path.write_text(json.dumps(self.to_json()), encoding="utf-8")

    @staticmethod
    def load_file(path: Path) -> PassResult:
        """Reads what `save` wrote."""
        return PassResult.from_json(json.loads(path.read_text(encoding="utf-8")))

    @property
    def late_share(self) -> float:
        """Share of flows that the drivers began more than LATE_US after their time."""
        return sum(late > LATE_US for late in self.late_us) / len(self.late_us)


@dataclass(frozen=True)
class Word:
    """What a flow's sender says of it."""

    told_bytes: int = 0
    """To libqclimb.so, as the flow's size; 0: nothing."""
    dscp: int = -1
    """Set by the application for the whole flow; -1: none."""


def run_pass(
    ground: Ground,
    trace: Trace,
    scheme: str,
    folder: Path,
    settings: Mapping[str, Any] | None = None,
    services: Sequence[Endpoint] = SERVICES,
    progress: Progress | None = None,
    words: Mapping[int, Word] | None = None,
    beside: Beside = no_programs,
    is_watched: bool = False,
) -> PassResult:
    """Runs every flow of a trace; `folder` gets the programs' output, `words` are told of flows by id; watched programs
    leave there what steps.py reads. All programs but those of `beside` are ended when it returns or fails."""
    unknown = {flow.service for flow in trace.flows} - {service.name for service in services}
    if unknown:
        raise programs.WorkloadError(f"the trace has flows of unknown services: {', '.join(sorted(unknown))}")
    missing = {host for flow in trace.flows for host in (flow.client, flow.server)} - set(ground.hosts)
    if missing:
        raise programs.WorkloadError(f"the trace names hosts that the fabric lacks: {', '.join(sorted(missing))}")
    folder = folder.absolute()  # nginx takes a relative name from its own place
    folder.mkdir(parents=True, exist_ok=True)
    steps.forget(folder)
    trace_file = folder / "trace.txt"
    trace_file.write_text(trace.to_text(), encoding="utf-8")
    words_file = folder / "words.txt"
    words_file.write_text("".join(f"{id} {word.told_bytes} {word.dscp}\n" for id, word in (words or {}).items()))
    scripted = words or any(flow.first_write_bytes for flow in trace.flows)
    scripts = ["--trace", str(trace_file), "--words", str(words_file)] if scripted else []
    clients = sorted({flow.client for flow in trace.flows})
    logs = {host: folder / f"flows-{host}.tsv" for host in clients}
    with programs.servers(ground, folder, services, scripts, is_watched):
        before = _counters(ground)
        start_ns = time.monotonic_ns() + int(LEAD_S * 1e9)
        drivers = []
        try:
            for host in clients:
                log = logs[host]
                drivers.append(
                    programs.start_driver(
                        ground, host, trace_file, log, start_ns, DRAIN_S, services, words_file, is_watched
                    )
                )
            before_traffic = cpu_now()
            waited_ms, waited_bytes = _wait(ground, [*drivers, *beside(start_ns)], start_ns, trace.seconds, progress)
            idle_share = before_traffic.idle_share(cpu_now())
        finally:
            programs.end(drivers)
        after = _counters(ground)
    columns = _join(ground, trace, services, logs)
    return PassResult(
        scheme=scheme,
        load=float(trace.settings.get("load", 0)),
        seed=int(trace.settings.get("seed", 0)),
        trace_digest=trace.digest,
        seconds=trace.seconds,
        tcp={key: after[0][key] - before[0][key] for key in TCP_COUNTERS},
        queue_drops={queue: drops - before[1].get(queue, 0) for queue, drops in after[1].items()},
        waited_ms=waited_ms,
        waited_bytes=waited_bytes,
        idle_share=idle_share,
        settings=dict(settings or {}),
        **columns,
    )


def _counters(ground: Ground) -> tuple[dict[str, int], dict[str, int]]:
    total = dict.fromkeys(TCP_COUNTERS, 0)
    for host in ground.hosts:
        for key, value in ground.tcp_counters(host).items():
            total[key] += value
    return total, ground.queue_drops()


def _wait(
    ground: Ground, drivers: Sequence[Any], start_ns: int, seconds: float, progress: Progress | None
) -> tuple[list[int], dict[str, list[int]]]:
    """Until all drivers ended; they end by themselves DRAIN_S after their last arrival. Returns what waited meanwhile
    at switch ports: when it was read, in ms, and bytes by queue."""
    waited_ms: list[int] = []
    waited_bytes: dict[str, list[int]] = {}
    while any(driver.poll() is None for driver in drivers):
        now_s = time.monotonic() - start_ns / 1e9
        if now_s > seconds + DRAIN_S + 10:
            raise programs.WorkloadError(f"a driver has not ended {DRAIN_S + 10} s after the trace")
        if progress:
            progress(min(1.0, max(0.0, now_s / seconds)))
        if 0 <= now_s <= seconds:
            waited_ms.append(round(1000 * now_s))
            for queue, count in ground.queued_bytes().items():
                waited_bytes.setdefault(queue, []).append(count)
        time.sleep(0.1)
    failed = [driver for driver in drivers if driver.returncode not in (0, 3)]
    if failed:
        raise programs.WorkloadError(f"{failed[0].args[:4]!r} ended with {failed[0].returncode}")
    return waited_ms, waited_bytes


def _join(ground: Ground, trace: Trace, services: Sequence[Endpoint], logs: Mapping[str, Path]) -> dict[str, Any]:
    """The trace's flows beside what the drivers logged of them."""
    seen: dict[int, tuple[int, int, int, int, str]] = {}
    for log in logs.values():
        for line in log.read_text(encoding="ascii").splitlines():
            flow_id, _, due_ns, begin_ns, start_ns, end_ns, reason = line.split("\t")
            seen[int(flow_id)] = (int(due_ns), int(begin_ns), int(start_ns), int(end_ns), reason)
    how = {service.name: service.how for service in services}
    failures: dict[str, int] = {}
    fct, late, alone = [], [], []
    flows = sorted(trace.flows, key=lambda flow: flow.id)
    for flow in flows:
        due, begin, first, last, status = seen.get(flow.id, (0, 0, 0, 0, "not logged"))
        if status != "ok":
            failures[status] = failures.get(status, 0) + 1
        fct.append((last - first) / 1000 if status == "ok" else float("nan"))
        late.append(max(0, begin - due) // 1000)
        sender, receiver = (flow.client, flow.server) if how[flow.service] == "push" else (flow.server, flow.client)
        alone.append(round(ground.alone.fct_us(flow.bytes, ground.path_rates_bps(sender, receiver)), 3))
    return {
        "id": [flow.id for flow in flows],
        "service": [flow.service for flow in flows],
        "client": [flow.client for flow in flows],
        "server": [flow.server for flow in flows],
        "bytes": [flow.bytes for flow in flows],
        "due_us": [flow.time_us for flow in flows],
        "late_us": late,
        "fct_us": fct,
        "alone_us": alone,
        "failures": failures,
    }


def column(result: PassResult, name: str) -> NDArray[Any]:
    """One column as an array."""
    return np.asarray(getattr(result, name))
