"""What a connection costs under libqclimb.so: CPU time on one processor beside bare libc, and resident memory.

accept    a server accepts and closes, a bare client connects; CPU time of both, so the inverse of the rate that one
          processor carries (goal: rate >= 0.97 of bare, time <= 1.031)
connect   both ends under the library in one process: connect, accept, close, close
exchange  the same with 64 bytes each way: two flows, two records
memory    resident bytes that a connection takes, of 10,000 in one process with a flow each (goal: <= 256)
"""

import subprocess
import tempfile
from pathlib import Path
from typing import Any

from qclimb.policy import Mode

from .beside import built, environments, in_turns, last_cpu, row_ns

MODES = (Mode.OBSERVE, Mode.PIAS, Mode.QCLIMB)
COUNT = 4000
HELD = 5000
REPEATS = 15
GOALS = {"accept": "<= 1.031"}
MEMORY_GOAL_BYTES = 256


def accept_ns(program: str, bare: dict[str, str], environment: dict[str, str]) -> float:
    """CPU time that a server and its client spend on a connection; only the server is under the library."""
    pin = ["taskset", "-c", last_cpu(), program]
    with subprocess.Popen([*pin, "serve", str(COUNT)], env=environment, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout
        port = server.stdout.readline().strip()
        client = subprocess.run([*pin, "visit", port, str(COUNT)], env=bare, check=True, capture_output=True, text=True)
        return float(server.stdout.readline()) + float(client.stdout)


def run() -> list[dict[str, Any]]:
    """Rows of the benchmark."""
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as place, environments(MODES) as environment:
        program = str(built(Path(place), "shim_connections.c"))

        def said(mode: Mode | None, *arguments: str) -> float:
            command = ["taskset", "-c", last_cpu(), program, *arguments]
            done = subprocess.run(command, env=environment[mode], check=True, capture_output=True, text=True)
            return float(done.stdout)

        kinds = {
            "accept": lambda mode: accept_ns(program, environment[None], environment[mode]),
            "connect": lambda mode: said(mode, "both", "0", str(COUNT)),
            "exchange": lambda mode: said(mode, "both", "64", str(COUNT)),
        }
        for kind, measure in kinds.items():
            times = in_turns(MODES, REPEATS, measure)
            rows += [{"connections": kind, **row_ns(times, mode, GOALS.get(kind, ""))} for mode in MODES]
        bare = said(None, "hold", str(HELD))
        rows += [
            {
                "connections": "memory",
                "mode": str(mode),
                "bare_bytes": bare,
                "bytes": said(mode, "hold", str(HELD)) - bare,
                "goal": f"<= {MEMORY_GOAL_BYTES}",
            }
            for mode in MODES
        ]
    return rows
