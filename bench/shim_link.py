"""nginx under libqclimb.so over a link of LINK_GBIT between two network namespaces, beside the same server bare.

Over a loopback an extra packet costs its receiver's work and wake-up too, at a rate that no network has; this is what a
network's user sees. Server on one processor, bare load on another, each side's received packets on its own.
Rate: requests a second, which the link bounds. CPU: what the server's processor was not idle (all of it, interrupts
too), a request: by the idle time, which the kernel takes at each entry and exit; the other columns of /proc/stat are
samples at its ticks, and those meet bursts of work too seldom (they said 71 us where this says 104).
Congestion control: cubic, and BBR for what pacing does. `split`: the server keeps the boundary itself (shim_split.c).
Needs root; without it, or without nginx, wrk and tc, the benchmark says so and is skipped.
"""

import os
import re
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from qclimb.policy import Mode

from .beside import (
    SPLIT,
    do,
    environments,
    in_turns,
    is_skipped,
    last_cpu,
    reference_environment,
    row_per_s,
    run_in,
    two_hosts,
)
from .shim_programs import CONNECTIONS, nginx_argv

MODES = (Mode.PIAS, Mode.QCLIMB)
REPEATS = 7
SECONDS = 2
LINK_GBIT = 5
NET, SERVER, PORTS = "198.19.249", "198.19.249.1", (8080, 8081, 8082, 8083)
LOADS = (
    ("large", "100 KB by sendfile", "cubic", (SPLIT, *MODES)),
    ("large", "100 KB by sendfile", "bbr", (SPLIT, *MODES)),
    ("small", "1 KB, kept connections", "cubic", MODES),
)
GOAL = ">= 0.98"
TICK_NS = 1e9 / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Seen:
    """What one load of the server saw."""

    per_s: float
    cpu_ns: float


@contextmanager
def link() -> Iterator[tuple[str, str]]:
    """Server's and client's namespace; what the server sends is bounded by the link's rate."""
    with two_hosts(NET) as names:
        for name, processor in zip(names, (int(last_cpu()), 0), strict=True):
            do(*run_in(name, "sh", "-c", f"echo {1 << processor:x} > /sys/class/net/e0/queues/rx-0/rps_cpus"))
        bound(names[0])
        yield names


def bound(name: str) -> None:
    """What this host sends has the link's rate at most."""
    do("tc", "-n", name, "qdisc", "replace", "dev", "e0", "root", "handle", "1:", "htb", "default", "1")
    htb = f"rate {LINK_GBIT}gbit burst 256k cburst 256k quantum 65536"
    do("tc", "-n", name, *f"class replace dev e0 parent 1: classid 1:1 htb {htb}".split())


def controlled_by(names: tuple[str, str], algorithm: str) -> bool:
    """From now on both hosts' connections have this congestion control; False: the kernel hasn't it."""
    available = Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text().split()
    for host, name in enumerate(names):
        route = f"{NET}.0/24 dev e0 proto kernel scope link src {NET}.{host + 1} congctl {algorithm}"
        if algorithm in available:
            subprocess.run(["ip", "-n", name, "route", "replace", *route.split()], check=True, capture_output=True)
    return algorithm in available


def idle_ticks() -> int:
    """Of the server's processor since it started: idle, waiting for a disk, taken away by the machine below."""
    line = next(one for one in Path("/proc/stat").read_text().splitlines() if one.startswith(f"cpu{last_cpu()} "))
    _, _, _, idle, waiting, _, _, stolen, *_ = map(int, line.split()[1:])
    return idle + waiting + stolen


def load(client: str, port: int, path: str) -> Seen:
    """wrk from the other host."""
    argv = ["taskset", "-c", "0", "wrk", "-t1", f"-c{CONNECTIONS}", f"-d{SECONDS}s", f"http://{SERVER}:{port}/{path}"]
    idle, start_ns = idle_ticks(), time.monotonic_ns()
    text = subprocess.run(run_in(client, *argv), check=True, capture_output=True, text=True, timeout=60).stdout
    busy_ns = time.monotonic_ns() - start_ns - (idle_ticks() - idle) * TICK_NS
    requests = re.search(r"(\d+) requests in", text)
    rate = re.search(r"Requests/sec:\s+([\d.]+)", text)
    assert requests and rate, text
    return Seen(float(rate[1]), busy_ns / int(requests[1]))


def run() -> list[dict[str, Any]]:
    """Rows of the benchmark."""
    if is_skipped("shim_link", "nginx", "wrk", "ip", "tc"):
        return []
    rows: list[dict[str, Any]] = []
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="qclimb-bench-")))
        place.chmod(0o755)
        environment = stack.enter_context(environments(MODES))
        under: dict[str | None, dict[str, str]] = {**environment, SPLIT: reference_environment(place, SPLIT)}
        names = stack.enter_context(link())
        ports = dict(zip(under, PORTS, strict=True))
        for mode, port in ports.items():
            argv = run_in(names[0], "taskset", "-c", last_cpu(), *nginx_argv(port, place, SERVER))
            program = subprocess.Popen(argv, env=under[mode], stdout=subprocess.DEVNULL)
            stack.callback(program.wait)
            stack.callback(program.terminate)
        time.sleep(1)  # nginx listens, or the first load fails
        for path, about, algorithm, modes in LOADS:
            if controlled_by(names, algorithm):
                rows += measured(names[1], ports, path, f"{about}, {algorithm}", modes)
            else:
                click.echo(f"[bench] {about} skipped: the kernel has no {algorithm}", err=True)
    return rows


def measured(
    client: str, ports: dict[str | None, int], path: str, about: str, modes: Sequence[str]
) -> list[dict[str, Any]]:
    """The rows of one load."""
    cpu: dict[str | None, list[float]] = {mode: [] for mode in ports}

    def per_s(mode: str | None) -> float:
        seen = load(client, ports[mode], path)
        cpu[mode].append(seen.cpu_ns)
        return seen.per_s

    rates = in_turns(modes, REPEATS, per_s)
    return [{"load": about, **row_per_s(rates, cpu, mode, GOAL)} for mode in modes]
