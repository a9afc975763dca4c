"""Every way to the socket: what arrives, what is split and marked, what the records say. `ways.c` is the program."""

import re
import socket
import subprocess
import threading
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import pytest
from qclimb.policy import Mode
from qclimb.record import ENDED_BY_CLOSE, PARTLY_UNOBSERVED
from stand import (
    DSCP,
    PYTHON,
    ROOT,
    B,
    Libc,
    assert_demoted,
    hostd,
    policy,
    put_policy,
    records_of,
    segments,
    stream,
    wait_until,
)

SOURCES = sorted((ROOT / "tests" / "shim").glob("ways*.c"))
TOTAL, CALL = 150_000, 25_000
STREAM = bytes((i * 131 + (i >> 8) * 29) & 255 for i in range(TOTAL))
THRESHOLDS = (9_000, 40_000, 100_000)
FIRST_EDGE = f"dscp={DSCP[1]} at=9000"
"""Of a call of 20,000 bytes, which goes on beyond twice that."""
PORTS = count(7000)


@dataclass(frozen=True)
class Ways:
    """The program, and the libc that it runs on."""

    program: Path
    libc: Libc


@pytest.fixture(scope="session")
def ways(tmp_path_factory, libc):
    program = tmp_path_factory.mktemp("ways") / "ways"
    fortify = ["-O2", "-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2"] if libc.name == "glibc" else ["-O2"]
    return Ways(libc.compiled(program, *fortify, *SOURCES), libc)


@dataclass
class Said:
    """What became of one run: the bytes that arrived, the records, the changes of the DSCP by the log."""

    arrived: bytes = b""
    records: list = field(default_factory=list)
    log: str = ""

    @property
    def changes(self) -> list[str]:
        """DSCP and byte of each change, those to rest at priority 0 left out."""
        found = [line.split("priority=")[1].split(" ", 1)[1] for line in self.log.splitlines() if " dscp=" in line]
        return [change for change in found if not change.startswith(f"dscp={DSCP[0]} ")]

    @property
    def sizes(self) -> list[tuple[int, bool]]:
        """Size and whether a part of it was not observed, of what this program sent."""
        return [(r.size_bytes, bool(r.flags & PARTLY_UNOBSERVED)) for r in self.records]


def take_all(connection: socket.socket) -> bytes:
    got = bytearray()
    while data := connection.recv(65536):
        got += data
    connection.sendall(b".")
    return bytes(got)


def take_to_end(connection: socket.socket) -> bytes:
    return b"".join(iter(lambda: connection.recv(65536), b""))


def take_in_turns(connection: socket.socket) -> bytes:
    got = connection.recv(3000, socket.MSG_WAITALL)
    connection.sendall(b".")
    return got + take_all(connection)


def run(
    ways: Ways,
    run_dir: Path,
    kind: str,
    way: str,
    *,
    wanted=None,
    take: Callable[[socket.socket], bytes] = take_all,
    address: str = "127.0.0.1",
    expected_records: int = 1,
) -> Said:
    """The application under the library, against a peer without it."""
    put_policy(run_dir, wanted or policy(threshold_bytes=THRESHOLDS, flow_gap_us=10_000_000))
    said = Said()
    with hostd(run_dir) as datagrams, socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(60)
        server.setsockopt(socket.SOL_SOCKET, socket.SO_OOBINLINE, 1)

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                said.arrived = take(connection)

        thread = threading.Thread(target=serve)
        thread.start()
        done = subprocess.run(
            [ways.program, kind, way, address, str(server.getsockname()[1])],
            env=ways.libc.environment(run_dir, QCLIMB_LOG="stderr"),
            capture_output=True,
            text=True,
            timeout=60,
        )
        thread.join()
        if done.returncode == 77:
            pytest.skip(f"this kernel or libc lacks it: {done.stderr.splitlines()[-1]}")
        assert done.returncode == 0, done.stderr
        wait_until(lambda: len(records_of(datagrams)) >= expected_records)
    said.records, said.log = records_of(datagrams), done.stderr
    return said


def marks_of(said):
    """Offsets and DSCPs, the resting priority's before them."""
    found = [re.fullmatch(r"dscp=(\d+) at=(\d+)", change) for change in said.changes]
    return [(0, DSCP[0]), *((int(mark[2]), int(mark[1])) for mark in found)]


SPLIT = ["send", "sendto", "write", "writev", "sendmsg", "sendmmsg", "sendfile", "sendfile64", "splice", "vmsplice"]


@pytest.mark.parametrize("way", SPLIT)
def test_each_way_to_write_is_split_at_the_thresholds_and_counted(ways, run_dir, way):
    said = run(ways, run_dir, "write", way)
    assert said.arrived == STREAM
    assert_demoted(marks_of(said), THRESHOLDS)
    assert len(said.changes) == 3
    assert said.sizes == [(TOTAL, False)]


@pytest.mark.parametrize("way", ["sendto-address", "zerocopy"])
def test_a_call_that_must_stay_whole_is_counted_and_marked_before_its_first_byte(ways, run_dir, way):
    said = run(ways, run_dir, "write", way)
    assert said.arrived == STREAM
    assert_demoted(marks_of(said), THRESHOLDS)
    assert said.changes
    assert all(at % 25_000 == 0 for at, _ in marks_of(said))
    assert said.sizes == [(TOTAL, False)]


@pytest.mark.parametrize("way", ["zerocopy", "splice", "vmsplice", "fastopen", "sendto-address"])
def test_they_arrive_unchanged_in_mode_qclimb_too(ways, run_dir, way):
    said = run(ways, run_dir, "write", way, wanted=policy(Mode.QCLIMB, flow_gap_us=10_000_000))
    assert said.arrived == STREAM
    assert said.sizes == [(TOTAL, False)]


@pytest.mark.parametrize("way", ["fastopen", "fastopen-connect"])
def test_a_connection_that_its_first_write_makes_is_one_flow(ways, run_dir, way):
    said = run(ways, run_dir, "write", way)
    assert said.arrived == STREAM
    assert said.sizes == [(TOTAL, False)]
    assert (said.records[0].peer_addr, said.records[0].role) == ("127.0.0.1", 0)
    assert said.records[0].peer_port != 0
    assert f"priority=0 dscp={DSCP[0]} at=0" in said.log
    assert_demoted(marks_of(said), THRESHOLDS)
    assert said.changes[-1].startswith("dscp=35 ")


@pytest.mark.parametrize("way", ["io_uring", "stdio", "syscall", "pwritev2"])
def test_what_bypasses_the_library_arrives_and_is_reported_as_unobserved(ways, run_dir, way):
    said = run(ways, run_dir, "write", way)
    assert said.arrived == STREAM
    assert said.changes == []
    assert said.sizes == [(TOTAL, True)]
    assert said.records[0].peer_addr == "127.0.0.1"


@pytest.mark.parametrize("mode", [Mode.OBSERVE, Mode.OFF])
def test_what_bypasses_the_library_is_reported_by_an_observer_and_not_where_it_is_off(ways, run_dir, mode):
    said = run(ways, run_dir, "write", "syscall", wanted=policy(mode), expected_records=mode is Mode.OBSERVE)
    assert said.arrived == STREAM
    assert said.sizes == [(TOTAL, True)] * (mode is Mode.OBSERVE)


READS = ["recv", "recvfrom", "read", "readv", "recvmsg", "recvmmsg", "splice"]
FORTIFIED = ["__recv_chk", "__recvfrom_chk", "__read_chk"]


@pytest.mark.parametrize("way", READS + FORTIFIED)
def test_each_way_to_read_is_a_turn(ways, run_dir, way):
    if way in FORTIFIED:
        if ways.libc.name != "glibc":
            pytest.skip("musl has no FORTIFY variants")
        symbols = subprocess.run(["nm", "-D", ways.program], capture_output=True, text=True, check=True).stdout
        assert way in symbols
    said = run(ways, run_dir, "read", way, take=take_in_turns, expected_records=2)
    assert said.arrived == STREAM[:5000]
    assert said.sizes == [(3000, False), (2000, False)]


def test_a_peek_is_no_turn(ways, run_dir):
    said = run(ways, run_dir, "read", "peek", take=take_in_turns)
    assert said.sizes == [(5000, False)]


@pytest.mark.parametrize("way", ["dup", "dup2", "dup3", "fcntl", "fcntl64"])
def test_a_flow_goes_on_by_another_descriptor(ways, run_dir, way):
    said = run(ways, run_dir, "another", way)
    assert said.arrived == STREAM[:20_000]
    assert said.changes == [FIRST_EDGE]
    assert said.sizes == [(20_000, False)]


@pytest.mark.parametrize("way", ["closefrom", "close_range"])
def test_closing_many_ends_the_flow_and_the_number_is_a_files(ways, run_dir, way):
    said = run(ways, run_dir, "close", way, take=lambda connection: connection.recv(5000, socket.MSG_WAITALL))
    assert said.arrived == STREAM[:5000]
    assert said.sizes == [(5000, False)]
    assert said.records[0].flags & ENDED_BY_CLOSE


def test_a_flow_that_stdio_closes_is_reported_as_unobserved(ways, run_dir):
    """How much stdio wrote after the last call that was seen, nobody can say any more."""
    said = run(ways, run_dir, "other", "fclose", take=take_to_end)
    assert said.arrived == STREAM[:20_000]
    assert said.sizes == [(5000, True)]


def test_addresses_that_are_no_memory_are_the_kernels_to_refuse(ways, run_dir):
    said = run(ways, run_dir, "other", "bad-address")
    assert said.arrived == STREAM[:20_000]
    assert said.changes == [FIRST_EDGE]
    assert said.sizes == [(20_000, False)]


def test_marking_many_for_exec_closes_none(ways, run_dir):
    said = run(ways, run_dir, "close", "close_range-cloexec")
    assert said.arrived == STREAM[:20_000]
    assert said.sizes == [(20_000, False)]


@pytest.mark.parametrize("way", ["vfork", "posix_spawn"])
def test_what_a_child_closes_stays_its_parents(ways, run_dir, way):
    said = run(ways, run_dir, "child", way)
    assert said.arrived == STREAM[:20_000]
    assert said.changes == [FIRST_EDGE]
    assert said.sizes == [(20_000, False)]


def test_what_a_spawned_child_writes_is_reported_as_unobserved(ways, run_dir):
    said = run(ways, run_dir, "child", "posix_spawn-writes")
    assert said.arrived == STREAM[:20_000]
    assert said.sizes == [(20_000, True)]


@pytest.mark.parametrize("way", ["rights-recvmsg", "rights-recvmmsg"])
def test_a_descriptor_that_was_passed_is_nothing_of_ours_whatever_had_its_number(ways, run_dir, way):
    said = run(ways, run_dir, "other", way)
    assert said.arrived == STREAM[:20_000]
    assert said.changes == []
    assert said.sizes == [(20_000, True)]  # one flow by the first descriptor, the rest by the passed one


def test_half_a_connection_closes_and_the_other_half_goes_on(ways, run_dir):
    def take(connection: socket.socket) -> bytes:
        got = take_all(connection)
        connection.sendall(bytes(100_000))
        return got

    said = run(ways, run_dir, "other", "half-close", take=take)
    assert said.arrived == STREAM[:20_000]
    assert said.sizes == [(20_000, False)]
    assert said.records[0].flags & ENDED_BY_CLOSE


def test_closing_the_half_that_reads_ends_no_flow(ways, run_dir):
    said = run(ways, run_dir, "other", "read-half", take=take_to_end)
    assert said.arrived == STREAM[:20_000]
    assert said.sizes == [(20_000, False)]


def test_urgent_data_is_counted_and_lies_where_it_was_sent(ways, run_dir):
    said = run(ways, run_dir, "other", "urgent")
    assert said.arrived == STREAM[:20_000]
    assert said.changes == [FIRST_EDGE]
    assert said.sizes == [(20_000, False)]


def test_multipath_tcp_passes_through(ways, run_dir):
    said = run(ways, run_dir, "other", "mptcp", expected_records=0)
    assert said.arrived == STREAM
    assert (said.changes, said.records) == ([], [])


def test_a_v4_mapped_connection_is_ipv4s(ways, run_dir):
    said = run(ways, run_dir, "write", "send", address="::ffff:127.0.0.1")
    assert said.arrived == STREAM
    assert_demoted(marks_of(said), THRESHOLDS)
    assert len(said.changes) == 3
    assert (said.records[0].peer_addr, said.records[0].local_addr) == ("127.0.0.1", "127.0.0.1")


@pytest.mark.parametrize("way", ["accept", "accept4"])
def test_an_accepted_connection_has_what_the_listener_was_given_and_no_more(ways, run_dir, way):
    put_policy(run_dir, policy(threshold_bytes=THRESHOLDS))
    with hostd(run_dir) as datagrams:
        program = subprocess.Popen(
            [ways.program, "accept", way, "127.0.0.1", "0"],
            env=ways.libc.environment(run_dir, QCLIMB_LOG="stderr"),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        with socket.create_connection(("127.0.0.1", int(program.stdout.readline()))) as connection:
            assert take_all(connection) == STREAM[:20_000]
        _, error = program.communicate(timeout=60)
        assert program.returncode == 0, error
        wait_until(lambda: records_of(datagrams))
    assert FIRST_EDGE in error
    assert [(r.role, r.size_bytes, r.flags & PARTLY_UNOBSERVED) for r in records_of(datagrams)] == [(1, 20_000, 0)]


# --- on the wire

SINK = """
import hashlib, socket, sys
server = socket.socket(); server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
server.setsockopt(socket.IPPROTO_TCP, socket.TCP_FASTOPEN, 16)
server.bind(("", int(sys.argv[1]))); server.listen(); print(1, flush=True)
for _ in range(int(sys.argv[2])):
    peer, _ = server.accept()
    digest = hashlib.sha256()
    while data := peer.recv(65536):
        digest.update(data)
    peer.sendall(b"."); peer.close()
    print(digest.hexdigest(), flush=True)
"""


@contextmanager
def sink(link, run_dir, connections=1):
    port = next(PORTS)
    process = link.start(link.b, [PYTHON, "-c", SINK, str(port), str(connections)], run_dir)
    try:
        process.stdout.readline()
        yield port, process
    finally:
        process.kill()
        process.communicate()


def send_on(link, run_dir, ways, way, port, address=B):
    command = [str(ways.program), "write", way, address, str(port)]
    program = link.start(link.a, command, run_dir, **ways.libc.environment(run_dir))
    _, error = program.communicate(timeout=60)
    if program.returncode == 77:
        pytest.skip(f"this kernel or libc lacks it: {error}")
    assert program.returncode == 0, error


def to(port, datagrams):
    """The records of what was sent to a sink, without the sink's own answers."""
    return [record for record in records_of(datagrams) if record.peer_port == port]


@pytest.mark.fabric
@pytest.mark.parametrize(
    ("way", "address"),
    [("splice", B), ("send", f"::ffff:{B}"), ("zerocopy", B)],
    ids=["splice", "v4-mapped", "zerocopy"],
)
def test_packets_change_their_dscp_where_the_way_allows_it(link, run_dir, ways, way, address):
    put_policy(run_dir, policy(threshold_bytes=THRESHOLDS, flow_gap_us=1_000_000))
    with link.capture("b") as pcap, sink(link, run_dir) as (port, process):
        send_on(link, run_dir, ways, way, port, address)
        assert process.stdout.readline().strip()
    seen = stream(segments(pcap), to_port=port)
    assert_demoted(seen.edges(), THRESHOLDS)
    assert len(seen.edges()) > 2
    assert seen.bytes == TOTAL
    assert seen.repeated <= link.probes


@pytest.mark.fabric
def test_fast_open_carries_its_bytes_in_a_syn_at_priority_0(link, run_dir, ways):
    for host in (link.a, link.b):
        done = subprocess.run(
            ["ip", "netns", "exec", host, "sysctl", "-qw", "net.ipv4.tcp_fastopen=3"], capture_output=True
        )
        if done.returncode:
            pytest.skip("net.ipv4.tcp_fastopen can't be set here")
    put_policy(run_dir, policy(flow_gap_us=1_000_000))
    with sink(link, run_dir, 2) as (port, process):
        send_on(link, run_dir, ways, "fastopen", port)  # gets the cookie
        first = process.stdout.readline()
        with link.capture("b") as pcap, hostd(run_dir) as datagrams:
            send_on(link, run_dir, ways, "fastopen", port)
            wait_until(lambda: to(port, datagrams))
        assert process.stdout.readline() == first
    found = [s for s in segments(pcap) if s.dport == port]
    (syn,) = [s for s in found if s.flags & 2]
    assert syn.payload > 0
    assert syn.dscp == DSCP[0]
    assert [(r.size_bytes, r.peer_addr) for r in to(port, datagrams)] == [(TOTAL, B)]
