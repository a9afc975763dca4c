"""How long a request of a real server is inside libqclimb.so, by the processor's own counter around it.

Tells nanoseconds apart where rates beside each other scatter by percents, for nothing else of the machine counts: not
what a slower answer does to the load, nor what a DSCP does to packets. Two more libraries stand around it
(shim_inside.c); what they see without it between them is taken off. x86-64 only.
"""

import platform
import statistics
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

import click
from qclimb.policy import Mode

from .beside import LIBRARY_FLAGS, built, environments
from .shim_programs import MODES, Server, installed, running

STARTS = 5
LOADS = ("GET, kept connections", "get, kept connections", "1 KB, kept connections")


def around(place: Path) -> tuple[str, str]:
    """Builds the libraries before and behind ours."""
    inner = built(place, "shim_inside.c", *LIBRARY_FLAGS, name="inner.so")
    return str(built(place, "shim_inside.c", *LIBRARY_FLAGS, "-DOUTER", inner, name="outer.so")), str(inner)


def inside_ns(place: Path, how: Server, load: str, environment: dict[str, str], outer: str, inner: str) -> float:
    """Nanoseconds between the two libraries, a request, in one start of the server."""
    told = place / "told" / "around"
    between = environment.get("LD_PRELOAD")
    preload = ":".join([outer, *([between] if between else []), inner])
    with running(place, how, {None: {**environment, "LD_PRELOAD": preload, "AROUND": str(told)}}) as started:
        port, _ = started[None]
        requests = sum(how.loads[load].ask(port).requests for _ in range(2))
    lines = [line.split() for line in told.read_text().splitlines()]  # a process each
    told.unlink()
    return sum(int(ticks) * float(ns_a_tick) for ticks, _, ns_a_tick in lines) / requests


def measured(place: Path, name: str, how: Server) -> list[dict[str, Any]]:
    """The rows of one server: a start of each mode in turn, what is seen without the library taken off."""
    (load,) = set(how.loads) & set(LOADS)
    libraries = around(place)
    found: dict[Mode, list[float]] = defaultdict(list)
    with environments(MODES) as environment:
        for _ in range(STARTS):
            without = inside_ns(place, how, load, environment[None], *libraries)
            for mode in MODES:
                found[mode].append(inside_ns(place, how, load, environment[mode], *libraries) - without)
    return [
        {
            "server": name,
            "load": load,
            "mode": str(mode),
            "ns_a_request": statistics.median(values),
            "least": min(values),
            "most": max(values),
        }
        for mode, values in found.items()
    ]


def run() -> list[dict[str, Any]]:
    """Rows of the benchmark; none on other processors."""
    if platform.machine() != "x86_64":
        click.echo("[bench] shim_inside skipped: it reads the counter of x86-64", err=True)
        return []
    with tempfile.TemporaryDirectory(prefix="qclimb-bench-") as folder:
        place = Path(folder)
        place.chmod(0o755)
        (place / "told").mkdir()
        (place / "told").chmod(0o777)  # nginx's worker is somebody else
        return [row for name, how in installed(place) for row in measured(place, name, how)]
