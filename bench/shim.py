"""What libqclimb.so costs a call: 64-byte messages over loopback, bare libc against the library, interleaved, one CPU.

Both ends of the connection are one thread's, and CPU time is counted: no scheduler, no other process is in it.

inside  no call starts a flow (goal: at most 1.03 of bare)
flow    each message is a flow of its own: the most that an application can ask for; nobody takes the records
taken   the same, and somebody takes each record, woken by each datagram
hostd   the same, and qclimb-hostd takes the records
full    the same, and the socket that the records go to is full: they are counted as dropped, nobody waits
other   a descriptor that is none of ours, on the cheapest call there is: read the difference in ns
"""

import socket
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any

from qclimb.policy import Mode

from .beside import built, environments, in_turns, last_cpu, row_ns
from .hostd import hostds

KINDS = {"inside": 40_000, "flow": 20_000, "taken": 20_000, "hostd": 20_000, "full": 20_000, "other": 300_000}
MODES = (Mode.OBSERVE, Mode.PIAS, Mode.QCLIMB)
REPEATS = 15
GOALS = {"inside": "<= 1.03"}


def full_socket(run_dir: Path) -> socket.socket:
    """A hostd that never reads: its socket holds as many datagrams as the kernel lets wait."""
    inbox = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    inbox.bind(str(run_dir / "records"))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
        other.setblocking(False)
        try:
            while True:
                other.sendto(b"x", str(run_dir / "records"))
        except BlockingIOError:
            return inbox


@contextmanager
def taken_socket(run_dir: Path) -> Iterator[None]:
    """A hostd that takes whatever comes, and does nothing with it."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as inbox:
        inbox.bind(str(run_dir / "records"))

        def take() -> None:
            while inbox.recv(65536) != b"end":
                pass

        taker = threading.Thread(target=take)
        taker.start()
        try:
            yield
        finally:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
                other.sendto(b"end", str(run_dir / "records"))
            taker.join()


def real_hostd(run_dir: Path) -> AbstractContextManager[object]:
    """qclimb-hostd, with an orchestrator that takes what it delivers."""
    return hostds({None: run_dir})


HOSTDS: dict[str, Callable[[Path], AbstractContextManager[object]]] = {
    "full": full_socket,
    "taken": taken_socket,
    "hostd": real_hostd,
}


def run() -> list[dict[str, Any]]:
    """Rows of the benchmark: the median of the ratios to the bare run beside it, and its interval."""
    rows = []
    with tempfile.TemporaryDirectory() as place:
        program = built(Path(place), "shim_pingpong.c")
        for kind, rounds in KINDS.items():
            with environments(MODES) as environment, ExitStack() as stack:
                if hostd := HOSTDS.get(kind):
                    for mode in MODES:
                        stack.enter_context(hostd(Path(environment[mode]["QCLIMB_RUN"])))
                what = "flow" if hostd else kind
                command = ["taskset", "-c", last_cpu(), str(program), what, str(rounds)]

                def round_ns(mode: Mode | None, command: list[str] = command, environment: Any = environment) -> float:
                    done = subprocess.run(command, env=environment[mode], check=True, capture_output=True, text=True)
                    return float(done.stdout)

                times = in_turns(MODES, REPEATS, round_ns)
            rows += [{"calls": kind, **row_ns(times, mode, GOALS.get(kind, ""))} for mode in MODES]
    return rows
