"""What drains before promotions cost a flow: completion times under `pias` and `qclimb` beside `observe`, interleaved.

Two namespaces, one link of RATE_MBIT in each direction, nothing else on it: a promotion can win nothing here, so that
what is measured is its price alone. A flow of SIZE_BYTES climbs by two drains. The time is the receiver's, from its
request (kept connection) or connect (one shot) to the last byte. The receiver is bare: it ACKs as Linux does, or
re-arms TCP_QUICKACK after each read as libqclimb.so does. Needs root.
"""

import json
import re
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any

from qclimb.policy import Mode, Policy

from .beside import do, environments, run_in, two_hosts

RATES_MBIT = (50, 100)
SIZE_BYTES = 250_000
FLOWS = 30
MODES = (Mode.OBSERVE, Mode.PIAS, Mode.QCLIMB)
APPLICATIONS = ("blocking", "event loop")
CONNECTIONS = ("kept", "one shot")
ACKS = ("delayed", "quick")
NET, ADDRESS = "198.19.251", "198.19.251.2"

SERVER = """
import json, select, socket, sys
size, how = json.loads(sys.argv[1])
body = bytes(size)
server = socket.create_server(("", 7100))
print("ready", flush=True)
while True:
    s, _ = server.accept()
    s.setblocking(how == "blocking")
    poll = select.epoll(); poll.register(s, select.EPOLLIN | select.EPOLLOUT | select.EPOLLET)
    rest = memoryview(b"")
    while True:
        if how != "blocking": poll.poll()
        try:
            while rest: rest = rest[s.send(rest):]
            if not s.recv(64): break
            rest = memoryview(body)
            while rest: rest = rest[s.send(rest):]
        except BlockingIOError:
            pass
    poll.close(); s.close()
"""

CLIENT = """
import json, socket, sys, time
address, size, flows, kept, quick = json.loads(sys.argv[1])
QUICKACK = (socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
times, s = [], None
for flow in range(flows):
    start = time.perf_counter()
    if s is None: s = socket.create_connection((address, 7100))
    s.sendall(b"?" * 16)
    left = size
    while left:
        left -= len(s.recv(1 << 18))
        if quick: s.setsockopt(*QUICKACK)
    times.append(time.perf_counter() - start)
    if not kept: s.close(); s = None
    time.sleep(0.01)
print(json.dumps(times))
"""


def policy(mode: Mode) -> Policy:
    """Thresholds by which a flow of SIZE_BYTES is promoted twice."""
    return Policy(
        generation=1, mode=mode, threshold_bytes=(10_000, 40_000, 100_000), dscp=(47, 43, 39, 35), slack_bytes=0
    )


@contextmanager
def link() -> Iterator[tuple[str, str]]:
    """Client's and server's namespace."""
    with two_hosts(NET) as names:
        for name in names:
            do("ip", "-n", name, "link", "set", "e0", "gso_max_segs", "1")
            do("ip", "-n", name, "route", "replace", f"{NET}.0/24", "dev", "e0", "congctl", "cubic")
        yield names


def shape(name: str, rate_mbit: int) -> None:
    """Both ways at this rate, with room for a whole flow."""
    tbf = f"rate {rate_mbit}mbit burst 3000 limit 400000".split()
    subprocess.run(["tc", "-n", name, "qdisc", "replace", "dev", "e0", "root", "tbf", *tbf], check=True)


def retransmitted(name: str) -> int:
    """Segments that this namespace sent again, ever."""
    told = subprocess.run(run_in(name, "nstat", "-asz", "TcpRetransSegs"), capture_output=True, text=True)
    return int(told.stdout.split()[-2])


def flows(
    names: tuple[str, str], library: dict[str, str], how: str, kept: bool, quick: bool
) -> tuple[list[float], int, str]:
    """Completion times in seconds, segments sent again, and the library's log."""
    log = Path(library["QCLIMB_RUN"]) / "log"
    log.unlink(missing_ok=True)
    under = [f"{name}={library[name]}" for name in ("LD_PRELOAD", "QCLIMB_RUN")]
    argv = run_in(names[1], "env", *under, f"QCLIMB_LOG={log}", sys.executable, "-c", SERVER)
    before = retransmitted(names[1])
    with subprocess.Popen([*argv, json.dumps([SIZE_BYTES, how])], stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout
            server.stdout.readline()
            asked = json.dumps([ADDRESS, SIZE_BYTES, FLOWS, kept, quick])
            argv = run_in(names[0], sys.executable, "-c", CLIENT, asked)
            told = subprocess.run(argv, check=True, capture_output=True, text=True, timeout=60).stdout
        finally:
            server.kill()
    return json.loads(told), retransmitted(names[1]) - before, log.read_text()


def row(what: dict[str, Any], found: dict[Mode, tuple[list[float], int, str]]) -> dict[str, Any]:
    """One line of the table."""
    median = {mode: statistics.median(times) for mode, (times, _, _) in found.items()}
    log = found[Mode.QCLIMB][2]
    waits = sorted(int(us) for us in re.findall(r"waited_us=(\d+) for=ack", log))
    promotions = sum(int(n) for n in re.findall(r"promotions=(\d+)", log))
    late = [statistics.quantiles(found[mode][0], n=20)[-1] for mode in (Mode.QCLIMB, Mode.OBSERVE)]
    return {
        **what,
        "observe_ms": 1000 * median[Mode.OBSERVE],
        "pias": median[Mode.PIAS] / median[Mode.OBSERVE],
        "qclimb": median[Mode.QCLIMB] / median[Mode.OBSERVE],
        "qclimb_p95": late[0] / late[1],
        "promotions": promotions / FLOWS,
        "wait_ms_p50": statistics.median(waits) / 1000 if waits else "",
        "wait_ms_p95": statistics.quantiles(waits, n=20)[-1] / 1000 if len(waits) > 1 else "",
        "sent_again": "/".join(str(found[mode][1]) for mode in MODES),
    }


def run() -> list[dict[str, Any]]:
    """Rows of the benchmark; times of `pias` and `qclimb` are ratios to `observe` in the same row."""
    rows = []
    with environments(MODES, policy) as environment, link() as names:
        for rate, how, connection, acks in product(RATES_MBIT, APPLICATIONS, CONNECTIONS, ACKS):
            for name in names:
                shape(name, rate)
            found = {
                mode: flows(names, environment[mode], how, connection == "kept", acks == "quick") for mode in MODES
            }
            rows.append(row({"mbit": rate, "application": how, "connection": connection, "acks": acks}, found))
    return rows
