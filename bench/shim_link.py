"""nginx under libqclimb.so over a link of LINK_GBIT between two network namespaces, beside the same server bare.

Over a loopback an extra packet costs its receiver's work and wake-up too, at a rate that no network has; this is what a
network's user sees. Server on one processor, bare load on another, each side's received packets on its own.
Rate: requests a second, which the link bounds. CPU: what the server's processor did (all of it, interrupts too), a
request. Needs root; without it, or without nginx, wrk and tc, the benchmark says so and is skipped.
"""

import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from qclimb.policy import Mode

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
from beside import HOSTLIB, compared, environments, in_turns, last_cpu  # noqa: E402
from shim_programs import CONNECTIONS, nginx_argv  # noqa: E402

MODES = (Mode.PIAS, Mode.QCLIMB)
REPEATS = 9
SECONDS = 2
LINK_GBIT = 5
SERVER, PORTS = "198.19.249.1", (8080, 8081, 8082)
LOADS = (("large", "100 KB by sendfile"), ("small", "1 KB, kept connections"))
GOAL = ">= 0.98"
TICK_NS = 1e9 / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Seen:
    """What one load of the server saw."""

    per_s: float
    cpu_ns: float


def run_in(namespace: str, *argv: str) -> list[str]:
    """A command of that host."""
    return ["ip", "netns", "exec", namespace, *argv]


@contextmanager
def link() -> Iterator[tuple[str, str]]:
    """Two namespaces, server's and client's; what the server sends is bounded by the link's rate."""
    names = (f"qcbench{os.getpid()}a", f"qcbench{os.getpid()}b")

    def do(*argv: str) -> None:
        subprocess.run(argv, check=True, capture_output=True)

    try:
        for name in names:
            do("ip", "netns", "add", name)
        do("ip", "link", "add", "e0", "netns", names[0], "type", "veth", "peer", "name", "e0", "netns", names[1])
        for host, (name, processor) in enumerate(zip(names, (int(last_cpu()), 0), strict=True)):
            do("ip", "-n", name, "addr", "add", f"198.19.249.{host + 1}/24", "dev", "e0")
            do("ip", "-n", name, "link", "set", "e0", "up")
            steer = f"echo {1 << processor:x} > /sys/class/net/e0/queues/rx-0/rps_cpus"
            do(*run_in(name, "sh", "-c", steer))
        do("tc", "-n", names[0], "qdisc", "add", "dev", "e0", "root", "handle", "1:", "htb", "default", "1")
        class_of = (
            f"class add dev e0 parent 1: classid 1:1 htb rate {LINK_GBIT}gbit burst 256k cburst 256k quantum 65536"
        )
        do("tc", "-n", names[0], *class_of.split())
        yield names
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


def busy_ticks() -> int:
    """What the server's processor did, of /proc/stat: all but idle and waiting."""
    line = next(one for one in Path("/proc/stat").read_text().splitlines() if one.startswith(f"cpu{last_cpu()} "))
    user, nice, system, _, _, irq, softirq, *_ = map(int, line.split()[1:])
    return user + nice + system + irq + softirq


def load(client: str, port: int, path: str) -> Seen:
    """wrk from the other host."""
    before = busy_ticks()
    argv = ["taskset", "-c", "0", "wrk", "-t1", f"-c{CONNECTIONS}", f"-d{SECONDS}s", f"http://{SERVER}:{port}/{path}"]
    text = subprocess.run(run_in(client, *argv), check=True, capture_output=True, text=True, timeout=60).stdout
    requests = re.search(r"(\d+) requests in", text)
    rate = re.search(r"Requests/sec:\s+([\d.]+)", text)
    assert requests and rate, text
    return Seen(float(rate[1]), (busy_ticks() - before) * TICK_NS / int(requests[1]))


def run() -> list[dict[str, Any]]:
    """Rows of the benchmark."""
    missing = [program for program in ("nginx", "wrk", "ip", "tc") if not shutil.which(program)]
    if missing or os.geteuid():
        why = f"{', '.join(missing)} not installed" if missing else "needs root: makes network namespaces"
        click.echo(f"[bench] link skipped: {why}", err=True)
        return []
    subprocess.run(["make", "-s", "-C", str(HOSTLIB), "lib"], check=True)
    rows: list[dict[str, Any]] = []
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="qclimb-bench-")))
        place.chmod(0o755)
        environment = stack.enter_context(environments(MODES))
        server, client = stack.enter_context(link())
        ports: dict[Mode | None, int] = dict(zip((None, *MODES), PORTS, strict=True))
        for mode, port in ports.items():
            argv = run_in(server, "taskset", "-c", last_cpu(), *nginx_argv(port, place, SERVER))
            program = subprocess.Popen(argv, env=environment[mode], stdout=subprocess.DEVNULL)
            stack.callback(program.wait)
            stack.callback(program.terminate)
        time.sleep(1)  # nginx listens, or the first load fails
        for path, about in LOADS:
            seen: dict[Any, list[Seen]] = {mode: [] for mode in ports}

            def measure(mode: Mode | None, path: str = path, seen: dict[Any, list[Seen]] = seen) -> float:
                seen[mode].append(load(client, ports[mode], path))
                return seen[mode][-1].per_s

            rates = in_turns(MODES, REPEATS, measure)
            cpu = {mode: [one.cpu_ns for one in found] for mode, found in seen.items()}
            rows += [
                {
                    "load": about,
                    "mode": str(mode),
                    "bare_per_s": statistics.median(rates[None]),
                    "per_s": statistics.median(rates[mode]),
                    **compared(rates, mode),
                    "goal": GOAL,
                    "bare_cpu_us": statistics.median(cpu[None]) / 1000,
                    "cpu_us": statistics.median(cpu[mode]) / 1000,
                    **{f"cpu {name}": value for name, value in compared(cpu, mode).items()},
                }
                for mode in MODES
            ]
    return rows


if __name__ == "__main__":
    for row in run():
        print(row)
