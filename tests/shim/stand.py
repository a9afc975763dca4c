"""A bench: two namespaces and one shaped link, applications under the library on either side, what a capture saw."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count, takewhile
from pathlib import Path
from typing import Any

import pytest
from qclimb.hostfile import decode_records, encode_policy
from qclimb.lengthfile import is_proposal
from qclimb.policy import Mode, Policy
from qclimb.record import FlowRecord

from lab.build import make
from lab.fabric.netns import entered
from lab.fabric.segments import Segment
from lab.fabric.segments import segments as read_segments
from tests.waiting import wait_until as wait_until

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = ROOT / "hostlib" / "build" / "libqclimb.so"
A, B = "198.19.250.1", "198.19.250.2"
A6, B6 = "fd00:250::1", "fd00:250::2"
MARK_PORT = 9
"""Where nobody listens: a capture ends by what is sent there."""
THRESHOLDS = (10_000, 40_000, 100_000)
DSCP = (47, 43, 39, 35)
_numbers = count()


def policy(mode: Mode = Mode.PIAS, **changes: object) -> Policy:
    fields: dict[str, object] = {
        "generation": 1,
        "mode": mode,
        "threshold_bytes": THRESHOLDS,
        "dscp": DSCP,
        "slack_bytes": 0,
        "flow_gap_us": 1_000_000,  # a busy machine may keep a writer from its next write for long
        "promote_wait_us": 1_000_000,
    }
    return Policy(**{**fields, **changes})  # type: ignore[arg-type]


def put_policy(run_dir: Path, wanted: Policy | bytes) -> None:
    """Writes a policy as hostd does: aside, then renamed."""
    run_dir.mkdir(parents=True, exist_ok=True)
    new = run_dir / "policy.new"
    new.write_bytes(wanted if isinstance(wanted, bytes) else encode_policy(wanted))
    new.chmod(0o644)  # whatever the umask: what a group may write is not believed
    new.rename(run_dir / "policy")


def environment(run_dir: Path, **more: str) -> dict[str, str]:
    keep = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    preload = " ".join(filter(None, [os.environ.get("QCLIMB_TEST_PRELOAD_FIRST"), str(LIBRARY)]))
    return {**keep, "LD_PRELOAD": preload, "QCLIMB_RUN": str(run_dir), **more}


@dataclass(frozen=True)
class Libc:
    """A C library: how programs are compiled for it, and the build of libqclimb.so that goes under them."""

    name: str
    cc: tuple[str, ...]
    library: Path

    def compiled(self, program: Path, *words: str | Path) -> Path:
        subprocess.run([*self.cc, "-g", "-Wall", "-Wextra", "-o", program, *words, "-lpthread"], check=True)
        return program

    def environment(self, run_dir: Path, **more: str) -> dict[str, str]:
        if self.library != LIBRARY:
            more = {"LD_PRELOAD": str(self.library), **more}
        return environment(run_dir, **more)


def run(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def built(name: str) -> Path:
    """Another build of libqclimb.so; skips where the machine can't make it."""
    file = f"build/{name}/libqclimb.so"
    if failure := make(ROOT / "hostlib", file):
        pytest.skip(f"`make -C hostlib {file}` fails here: {failure[-300:]}")
    return ROOT / "hostlib" / file


@contextmanager
def hostd(run_dir: Path) -> Iterator[list[bytes]]:
    """Where records go: the datagrams so far; once the block is left, all that were sent in it."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as inbox:
        inbox.bind(str(run_dir / "records"))
        inbox.settimeout(0.2)
        got: list[bytes] = []
        stop = threading.Event()

        def take() -> None:
            while not stop.is_set():
                try:
                    got.append(inbox.recv(65536))
                except TimeoutError:
                    continue

        thread = threading.Thread(target=take)
        thread.start()
        try:
            yield got
        finally:
            stop.set()
            thread.join()
            inbox.setblocking(False)
            with suppress(BlockingIOError):
                while True:
                    got.append(inbox.recv(65536))


def records_of(got: Sequence[bytes]) -> list[FlowRecord]:
    """Of the datagrams that are records; libraries also propose what to learn."""
    return [record for datagram in got if not is_proposal(datagram) for record in decode_records(datagram).records]


def segments(pcap: Path) -> list[Segment]:
    return list(read_segments(pcap))


@dataclass
class Stream:
    """The data segments of one direction of one connection, offsets from its first byte."""

    spans: list[tuple[int, int, int]]  # first offset, end offset, DSCP; in order of arrival
    syn_dscp: int | None = None
    pure_ack_dscps: set[int] = field(default_factory=set)

    @property
    def bytes(self) -> int:
        return max((end for _, end, _ in self.spans), default=0)

    @property
    def repeated(self) -> int:
        """Segments whose bytes had been seen before: retransmissions that reached the receiver."""
        top = again = 0
        for first, end, _ in self.spans:
            again += first < top
            top = max(top, end)
        return again

    def edges(self) -> list[tuple[int, int]]:
        """(offset, DSCP) at each change of the DSCP, by offset, of what came first where bytes came twice."""
        came: dict[int, int] = {}
        for first, _end, dscp in self.spans:
            came.setdefault(first, dscp)
        out: list[tuple[int, int]] = []
        for first, dscp in sorted(came.items()):
            if not out or out[-1][1] != dscp:
                out.append((first, dscp))
        return out


def stream(found: Sequence[Segment], *, to_port: int | None = None, from_port: int | None = None) -> Stream:
    mine = [s for s in found if (to_port in (None, s.dport)) and (from_port in (None, s.sport))]
    syn = next(s for s in mine if s.flags & 2)
    start = syn.seq + 1
    spans = [((s.seq - start) % 2**32, (s.seq - start) % 2**32 + s.payload, s.dscp) for s in mine if s.payload > 0]
    # From its own FIN on no socket may be left to ask: TIME-WAIT answers without one. So do resets.
    whole = list(takewhile(lambda s: not s.flags & 1, mine))
    acks = {s.dscp for s in whole if s.payload == 0 and not s.flags & 6}
    return Stream(spans, syn.dscp, acks)


# A probe for a loss, a timeout, what is sent again after one, a probe of a window or of what TCP_CORK holds back.
BY_TIMERS = ("TCPLossProbes", "TCPTimeouts", "TCPSlowStartRetrans", "TCPWinProbe")


def climbed(log: str, steps: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """A climb, (offset, DSCP) of each step, but for those that the library left out of it.

    By the kernel's estimates of the path, which are a busy machine's too, their drain would not have paid.
    """
    return [(at, dscp) for at, dscp in steps if f"no promotion at={at}:" not in log]


def assert_late(edges: Sequence[tuple[int, int]], expected: Sequence[tuple[int, int]]) -> None:
    """An event loop's climb: a step comes late, or not at all where the kernel has room for the rest; never early."""
    at_of = {dscp: at for at, dscp in expected}
    assert edges[0] == expected[0]
    assert all(at >= at_of[dscp] for at, dscp in edges), edges
    assert [dscp for _, dscp in edges] == [dscp for _, dscp in expected if dscp in dict(map(reversed, edges))]


LATE_LEAST, LATE_MOST = 4_096, 65_536
"""Bytes by which a demotion comes late at most, as its boundary is far (look.c)."""


def assert_demoted(edges: Sequence[tuple[int, int]], thresholds: Sequence[int] = THRESHOLDS, start: int = 0) -> None:
    """A flow sinks with every threshold that it passes: never early, and never back.

    As late as L (look.c) where a call is cut; an event loop's by as much as a bare kernel takes whole besides.
    """
    floor = {DSCP[0]: 0} | dict(zip(DSCP[1:], thresholds, strict=False))
    assert edges[0] == (start, DSCP[0]), edges
    assert [dscp for _, dscp in edges] == [dscp for dscp in DSCP if dscp in dict(map(reversed, edges))], edges
    for at, dscp in edges:
        assert start + floor[dscp] <= at, edges
    for number, (threshold, dscp) in enumerate(zip(thresholds, DSCP[1:], strict=False), 1):
        late = min(max(threshold, LATE_LEAST), LATE_MOST)
        sunk = [at for at, mark in edges if DSCP.index(mark) >= number]
        assert not sunk or sunk[0] <= start + threshold + late + 2 * LATE_MOST, (edges, dscp)


@dataclass
class Bench:
    """Two hosts, `a` and `b`, joined by one link of `rate_mbit` in each direction with strict priorities by DSCP."""

    a: str
    b: str
    path: Path
    probes: int = 0
    """What timers of both hosts sent during the last capture: again, because an ACK was late, or corked bytes, because
    their writer was; on a busy machine both happen. What overtakes itself is sent again by the ACKs that it causes, and
    counts for none of these."""

    def _probes(self) -> int:
        total = 0
        for name in (self.a, self.b):
            lines = run("ip", "netns", "exec", name, "cat", "/proc/net/netstat").splitlines()
            names, values = (line.split()[1:] for line in lines if line.startswith("TcpExt:"))
            counts = dict(zip(names, map(int, values), strict=True))
            total += sum(counts[name] for name in BY_TIMERS)
        return total

    def start(self, host: str, argv: Sequence[str], run_dir: Path, **env: str) -> subprocess.Popen[str]:
        """An application of `host` under the library."""
        return subprocess.Popen(
            ["ip", "netns", "exec", host, "env", *(f"{k}={v}" for k, v in environment(run_dir, **env).items()), *argv],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    @contextmanager
    def capture(self, host: str = "b") -> Iterator[Path]:
        """Captures what `host`'s interface receives; the file is whole once the block is left."""
        pcap = self.path / f"capture{next(_numbers)}.pcap"
        name = getattr(self, host)
        options = "-i e0 -Q in -s 128 -B 16384 --immediate-mode -U -w"
        tcpdump = subprocess.Popen(
            ["ip", "netns", "exec", name, "tcpdump", *options.split(), str(pcap), "tcp"],
            stderr=subprocess.PIPE,
            text=True,
        )
        assert tcpdump.stderr
        while "listening" not in tcpdump.stderr.readline():
            assert tcpdump.poll() is None
        self._prime()
        before = self._probes()
        try:
            yield pcap
            self.probes = self._probes() - before
            self._mark_end(host, pcap)
        finally:
            tcpdump.send_signal(signal.SIGINT)
            tcpdump.wait(60)

    def _prime(self) -> None:
        """Takes each class's own 8 bit/s, which it may save up for a minute: for their sake HTB would let the first
        packet of a class that was idle for so long pass before its turn, and the flow would overtake itself."""
        for name, peer in ((self.a, B), (self.b, A)):
            with entered(name), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
                for dscp in DSCP:
                    sender.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, dscp << 2)
                    sender.sendto(bytes(1400), (peer, MARK_PORT))

    def _mark_end(self, host: str, pcap: Path) -> None:
        """Sends a last packet to `host` and waits until the file has it, and so all that came before."""
        with entered(self.a if host == "b" else self.b), suppress(ConnectionRefusedError):
            socket.create_connection(({"a": A, "b": B}[host], MARK_PORT), timeout=60).close()
        wait_until(lambda: any(segment.dport == MARK_PORT for segment in segments(pcap)))


def _shape(name: str, rate_mbit: int) -> None:
    ceil = f"ceil {rate_mbit}mbit cburst 1600"
    lines = [
        f"qdisc add dev e0 root handle 1: htb default {len(DSCP)}",
        f"class add dev e0 parent 1: classid 1:99 htb rate {rate_mbit}mbit burst 1600 {ceil} quantum 1514",
    ]
    for p, dscp in enumerate(DSCP):
        leaf, tos = f"1:{p + 1}", f"{dscp << 2:#x} 0xfc"
        lines += [
            f"class add dev e0 parent 1:99 classid {leaf} htb rate 8bit burst 1 {ceil} prio {p} quantum 1514",
            f"qdisc add dev e0 parent {leaf} bfifo limit 8000000",
            f"filter add dev e0 parent 1: protocol ip prio 1 u32 match ip tos {tos} flowid {leaf}",
            f"filter add dev e0 parent 1: protocol ipv6 prio 2 u32 match ip6 priority {tos} flowid {leaf}",
        ]
    subprocess.run(["ip", "netns", "exec", name, "tc", "-batch", "-"], input="\n".join(lines), text=True, check=True)


@contextmanager
def bench(path: Path, rate_mbit: int = 50) -> Iterator[Bench]:
    names = [f"qcshim{os.getpid()}-{next(_numbers)}{side}" for side in "ab"]
    try:
        for name in names:
            run("ip", "netns", "add", name)
        run("ip", "link", "add", "e0", "netns", names[0], "type", "veth", "peer", "name", "e0", "netns", names[1])
        for name, v4, v6 in zip(names, (A, B), (A6, B6), strict=True):
            run("ip", "-n", name, "addr", "add", f"{v4}/24", "dev", "e0")
            run("ip", "-n", name, "addr", "add", f"{v6}/64", "dev", "e0", "nodad")
            run("ip", "-n", name, "link", "set", "e0", "gso_max_segs", "1", "up")
            run("ip", "-n", name, "link", "set", "lo", "up")
            run("ip", "-n", name, "route", "replace", "198.19.250.0/24", "dev", "e0", "congctl", "cubic")
            run("ip", "netns", "exec", name, "sh", "-c", "echo 1 > /sys/class/net/e0/queues/rx-0/rps_cpus")
            _shape(name, rate_mbit)
        yield Bench(*names, path)
    finally:
        for name in names:
            with suppress(subprocess.CalledProcessError):
                run("ip", "netns", "del", name)


PYTHON = sys.executable
TALK = str(ROOT / "tests" / "shim" / "talk.py")


def conversation(
    capture: AbstractContextManager[Path],
    port: int,
    sink: Callable[[list[str]], subprocess.Popen[str]],
    source: Callable[[list[str]], subprocess.Popen[str]],
    said: dict[str, Any],
    *,
    heard_by: str = "b",
) -> tuple[Stream, dict[str, Any]]:
    """One conversation of talk.py, whose ends the callers start: the stream as captured, and what the source said."""
    common = {"port": port, "flows": said.get("flows", 1), **said}
    with capture as pcap:
        listener = sink(["sink", json.dumps({key: common[key] for key in ("address", "port", "flows")})])
        try:
            assert listener.stdout and json.loads(listener.stdout.readline())["ready"]
            app = source(["source", json.dumps(common)])
            told, error = app.communicate(timeout=60)
            assert app.returncode == 0, error
            heard, error = listener.communicate(timeout=60)
            assert listener.returncode == 0, error
        finally:
            listener.kill()
    answer = json.loads(told)
    assert answer["digests"] == json.loads(heard)["digests"]
    direction = {"to_port": port} if heard_by == "b" else {"from_port": port}
    return stream(segments(pcap), **direction), answer
