"""nginx's answers by sendfile under libqclimb.so: qclimb beside pias beside the same server bare, in turns.

Cells: 100 KB and 1 MB, `tcp_nopush` off and on (Debian's), cubic and bbr, a receiver without the library and with it.
Server and client are two network namespaces, a veth pair without a rate between them, each bound to a processor.
Goals: qclimb >= 0.95 of pias, pias >= 0.9 of bare; requests a second. `before`: another library, whose path
NGINX_BEFORE holds, in mode pias and qclimb too. NGINX_CELLS chooses cells by words of their names: "100KB bbr".
Needs root, nginx and wrk; without them the benchmark says so and is skipped.
"""

import os
import re
import statistics
import subprocess
import tempfile
import time
from contextlib import ExitStack
from itertools import product
from pathlib import Path
from typing import Any

import click
from qclimb.policy import Mode

from .beside import compared, environments, in_turns, is_skipped, last_cpu, run_in, two_hosts
from .shim_link import controlled_by
from .shim_programs import nginx_argv

MODES = (Mode.PIAS, Mode.QCLIMB)
NET, SERVER = "198.19.249", "198.19.249.1"
REPEATS = 5
SECONDS = 1
CONNECTIONS = 8
BYTES = {"100KB": 100_000, "1MB": 1_000_000}
FIRST_PORT = 8080
LIBRARIES = {"now": "", "before": os.environ.get("NGINX_BEFORE", "")}


def cells() -> list[tuple[str, str, str, str]]:
    """Those that were asked for."""
    words = os.environ.get("NGINX_CELLS", "").split()
    every = product(BYTES, ("nopush-off", "nopush-on"), ("bbr", "cubic"), ("bare", "library"))
    return [cell for cell in every if set(words) <= set(cell)]


def run() -> list[dict[str, Any]]:
    """Rows of the benchmark."""
    if is_skipped("nginx", "nginx", "wrk", "ip"):
        return []
    rows: list[dict[str, Any]] = []
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="qclimb-bench-")))
        place.chmod(0o755)
        environment = stack.enter_context(environments(MODES))
        names = stack.enter_context(two_hosts(NET))
        under: dict[str | None, dict[str, str]] = {None: environment[None]}
        for mode, (which, library) in product(MODES, LIBRARIES.items()):
            if which == "now" or library:
                mine = environment[mode]
                under[mode if which == "now" else f"{mode} {which}"] = {
                    **mine,
                    "LD_PRELOAD": library or mine["LD_PRELOAD"],
                }
        ports = started(stack, place, names[0], under)
        for size, nopush, algorithm, receiver in cells():
            if not controlled_by(names, algorithm):
                click.echo(f"[bench] {algorithm} skipped: the kernel has none", err=True)
                continue
            client = environment[Mode.PIAS] if receiver == "library" else environment[None]
            at = {mode: found[nopush] for mode, found in ports.items()}
            cell = {"answer": size, "nopush": nopush[7:], "control": algorithm, "receiver": receiver}
            rows += [cell | row for row in measured(names[1], client, at, size)]
    return rows


def started(
    stack: ExitStack, place: Path, host: str, under: dict[str | None, dict[str, str]]
) -> dict[str | None, dict[str, int]]:
    """A server for each environment and setting of `tcp_nopush`: their ports."""
    ports: dict[str | None, dict[str, int]] = {mode: {} for mode in under}
    for port, (mode, nopush) in enumerate(product(under, ("nopush-off", "nopush-on")), FIRST_PORT):
        argv = nginx_argv(port, place, SERVER, "tcp_nopush on;" if nopush == "nopush-on" else "")
        for name, size in BYTES.items():
            (place / f"nginx{port}" / name).write_bytes(bytes(size))
        command = run_in(host, "taskset", "-c", last_cpu(), *argv)
        program = subprocess.Popen(command, env=under[mode], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        stack.callback(program.wait)
        stack.callback(program.terminate)
        ports[mode][nopush] = port
    time.sleep(1)  # nginx listens, or the first load fails
    return ports


def load(client: str, environment: dict[str, str], port: int, path: str) -> float:
    """Requests a second that wrk was answered."""
    argv = run_in(client, "taskset", "-c", "0", "env", *(f"{k}={v}" for k, v in environment.items() if k in CHOSEN))
    argv += ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{SECONDS}s", f"http://{SERVER}:{port}/{path}"]
    text = subprocess.run(argv, check=True, capture_output=True, text=True, timeout=60).stdout
    rate = re.search(r"Requests/sec:\s+([\d.]+)", text)
    assert rate, text
    return float(rate[1])


CHOSEN = ("LD_PRELOAD", "QCLIMB_RUN")


def measured(client: str, environment: dict[str, str], ports: dict[str | None, int], path: str) -> list[dict[str, Any]]:
    """The rows of one cell: each mode beside bare, and each qclimb beside the pias of its library."""
    rates = in_turns(
        [mode for mode in ports if mode], REPEATS, lambda mode: load(client, environment, ports[mode], path)
    )
    rows = []
    for mode, other in product(ports, ports):
        if mode and (other is None or mode == other.replace(Mode.PIAS, Mode.QCLIMB) != other):
            against = {None: rates[other], mode: rates[mode]}
            rows.append(
                {
                    "mode": str(mode),
                    "beside": str(other or "bare"),
                    "beside_per_s": statistics.median(rates[other]),
                    "per_s": statistics.median(rates[mode]),
                    **compared(against, mode),
                    "goal": ">= 0.95" if other else ">= 0.9" if "pias" in mode else "",
                }
            )
    return rows
