"""What an operator sees of a busy host: redis under the library, qclimb-hostd taking its records, beside bare redis.

Each answer of redis is a flow and a record. Rate, what the scheduler gave the server a request, and what the whole host
was busy a request (its idle time by /proc/stat, hostd, the load and everybody else included); then hostd's own CPU time
a record, and what found no room. hostd is the real process; an orchestrator that knows nothing (bare.py)
takes what it delivers. Server on the last processor, load and hostd on the others.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from qclimb.pki import Authority
from qclimb.policy import Mode

from .beside import compared, cpu_ns_of, environments, in_turns, row_per_s
from .hosts import Server as Orchestrator
from .hosts import bare_server
from .shim_programs import Server, redis_argv, redis_load, running

MODES = (Mode.PIAS, Mode.QCLIMB)
STARTS, TURNS = 6, 5
SETTLE_S = 2.5
"""hostd writes its status once a second."""


@dataclass(frozen=True)
class Hostd:
    """A running hostd."""

    pid: int
    run_dir: Path

    def told(self, name: str) -> int:
        """A count of its status."""
        return int(json.loads((self.run_dir / "status.json").read_bytes())[name])


@contextmanager
def hostd(run_dir: Path, orchestrator: Orchestrator, ca: Path) -> Iterator[Hostd]:
    """hostd for this run directory, once it has written its first status."""
    token = run_dir / "token"
    with os.fdopen(os.open(token, os.O_CREAT | os.O_WRONLY, 0o600), "w") as file:
        file.write("none")
    argv = [sys.executable, "-m", "hostlib.hostd.cli", "--name", "h0", "--run-dir", str(run_dir)]
    argv += ["--orchestrator", f"https://127.0.0.1:{orchestrator.port}", "--ca", str(ca), "--token-file", str(token)]
    with (run_dir / "log").open("wb") as log:
        process = subprocess.Popen(["taskset", "-c", "0", *argv], stdout=log, stderr=log)
    try:
        end = time.monotonic() + 20
        while not (run_dir / "status.json").exists():
            if process.poll() is not None or time.monotonic() > end:
                raise RuntimeError((run_dir / "log").read_text())
            time.sleep(0.05)
        yield Hostd(process.pid, run_dir)
    finally:
        process.terminate()
        process.wait()


@contextmanager
def hostds(run_dirs: dict[Any, Path]) -> Iterator[dict[Any, Hostd]]:
    """A hostd for each of these, and an orchestrator that takes what they deliver."""
    with tempfile.TemporaryDirectory(prefix="qclimb-bench-") as place, ExitStack() as stack:
        authority = Authority(Path(place) / "pki")
        orchestrator = stack.enter_context(bare_server(Path(place), authority, 1))
        ca = authority.certificate
        yield {name: stack.enter_context(hostd(run_dir, orchestrator, ca)) for name, run_dir in run_dirs.items()}


def host_busy_ns() -> float:
    """What all processors did so far but idle, ns: their time less their idle time."""
    idle = sum(int(line.split()[4]) + int(line.split()[5]) for line in lines_of_cpus())
    return time.monotonic_ns() * len(lines_of_cpus()) - idle * 1e9 / os.sysconf("SC_CLK_TCK")


def lines_of_cpus() -> list[str]:
    """The lines of /proc/stat that are a processor's."""
    return [line for line in Path("/proc/stat").read_text().splitlines() if line[:3] == "cpu" and line[3].isdigit()]


def run() -> list[dict[str, Any]]:
    """Rows of the benchmark."""
    rates: dict[Any, list[float]] = defaultdict(list)
    server_ns: dict[Any, list[float]] = defaultdict(list)
    host_ns: dict[Any, list[float]] = defaultdict(list)
    hostd_ns: dict[Any, int] = defaultdict(int)
    redis = Server(("redis-server",), redis_argv, {})
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="qclimb-bench-")))
        environment = stack.enter_context(environments(MODES))
        run_dirs = {mode: Path(environment[mode]["QCLIMB_RUN"]) for mode in MODES}
        theirs = stack.enter_context(hostds(run_dirs))
        time.sleep(SETTLE_S)
        for _ in range(STARTS):
            with running(place, redis, environment) as started:

                def per_s(mode: str | None, at: Any = started) -> float:
                    port, pid = at[mode]
                    its = theirs[mode].pid if mode else None
                    before = cpu_ns_of(pid), host_busy_ns(), cpu_ns_of(its) if its else 0
                    seen = redis_load(port)
                    server_ns[mode].append((cpu_ns_of(pid) - before[0]) / seen.requests)
                    host_ns[mode].append((host_busy_ns() - before[1]) / seen.requests)
                    hostd_ns[mode] += (cpu_ns_of(its) if its else 0) - before[2]
                    return seen.per_s

                for mode, values in in_turns(MODES, TURNS, per_s).items():
                    rates[mode] += values
        time.sleep(SETTLE_S)
        rows = []
        for mode in MODES:
            taken, dropped = theirs[mode].told("records"), theirs[mode].told("dropped_by_shims")
            of_host = {f"host {name}": value for name, value in compared(host_ns, mode, TURNS).items()}
            told = {"hostd_us_a_record": hostd_ns[mode] / taken / 1000, "records": taken, "dropped": dropped}
            rows.append({**row_per_s(rates, server_ns, mode, ">= 0.98", TURNS), **of_host, **told})
        return rows
