"""What an application may tell of its flows: used where the library is, without effect where it is not."""

import hashlib
import json
import os
import socket
import subprocess
import threading
from itertools import count

import pytest
from qclimb.policy import Mode
from stand import (
    DSCP,
    LIBRARY,
    PYTHON,
    ROOT,
    THRESHOLDS,
    B,
    assert_demoted,
    assert_late,
    policy,
    put_policy,
    records_of,
    segments,
    stream,
)

PORTS = count(7000)
SIZE = 250_000
CLIMBED = [(0, 35), (SIZE - THRESHOLDS[2] + 1, 39), (SIZE - THRESHOLDS[1] + 1, 43)]
HINT = 8

SINK = """
import hashlib, socket, sys
s = socket.create_server(("", int(sys.argv[1]))); print("ready", flush=True)
c, _ = s.accept()
got = bytearray()
while data := c.recv(1 << 18): got += data
print(hashlib.sha256(got).hexdigest())
"""

# Sends messages in pieces, one after another without an answer; each comes with the word that is told before it.
SOURCE = """
import json, select, socket, sys
sys.path.insert(0, sys.argv[1])
from hostlib import hint
address, port, messages, piece, how = json.loads(sys.argv[2])
s = socket.create_connection((address, port))
s.setblocking(how == "block")
poll = select.epoll(); poll.register(s, select.EPOLLOUT)
told = []
for size, word in messages:
    told.append({"size": lambda: hint.flow_size(s, size), "end": lambda: hint.flow_end(s), None: bool}[word]())
    data = memoryview(bytes(at * 7 % 251 for at in range(size)))
    while data:
        try:
            data = data[s.send(data[:piece]):]
        except BlockingIOError:
            assert poll.poll(30), "no event within 30 s: an EAGAIN that nothing ended"
s.setblocking(True)
s.shutdown(1); s.recv(1)
print(json.dumps(told))
"""


def content(*sizes):
    return b"".join(bytes(at * 7 % 251 for at in range(size)) for size in sizes)


def source_argv(address, port, messages, piece, how="block"):
    return [PYTHON, "-c", SOURCE, str(ROOT), json.dumps([address, port, messages, piece, how])]


def talk(link, run_dir, messages, piece, how="block"):
    """The stream as captured at the receiver; every byte is compared."""
    port = next(PORTS)
    with link.capture() as pcap:
        sink = link.start(link.b, [PYTHON, "-c", SINK, str(port)], run_dir)  # whose ACKs come quickly
        try:
            assert sink.stdout.readline() == "ready\n"
            log = str(run_dir / "log")
            source = link.start(link.a, source_argv(B, port, messages, piece, how), run_dir, QCLIMB_LOG=log)
            said, error = source.communicate(timeout=60)
            assert source.returncode == 0, error
            got, _ = sink.communicate(timeout=60)
        finally:
            sink.kill()
    assert got.strip() == hashlib.sha256(content(*(size for size, _ in messages))).hexdigest()
    assert said == json.dumps([word is not None for _, word in messages]) + "\n"
    return stream(segments(pcap), to_port=port)


@pytest.mark.fabric
@pytest.mark.parametrize(("how", "piece"), [("block", 1000), ("block", 7001), ("epoll", 7001)])
def test_a_flow_in_small_pieces_starts_at_the_priority_of_its_size_and_climbs(link, run_dir, how, piece):
    put_policy(run_dir, policy(Mode.QCLIMB, slack_bytes=50_000))  # of which a hint has none
    seen = talk(link, run_dir, [(SIZE, "size")], piece, how)
    assert_late(seen.edges(), CLIMBED)  # late where, by the kernel's estimates, a drain did not pay before
    assert len(seen.edges()) > 1 or how == "epoll" or "no promotion" in (run_dir / "log").read_text()
    assert seen.repeated <= link.probes


@pytest.mark.fabric
def test_an_event_loop_that_writes_tiny_pieces_climbs_only_where_nothing_is_under_way(link, run_dir):
    """Nothing that its writes hold could be held back for the event that tells of the last ACK (drain.h)."""
    put_policy(run_dir, policy(Mode.QCLIMB))
    seen = talk(link, run_dir, [(SIZE, "size")], 1000, "epoll")
    assert seen.edges()[0] == (0, DSCP[-1])
    assert all(at >= wanted for (at, _), (wanted, _) in zip(seen.edges()[1:], CLIMBED[1:], strict=False))
    assert [span[0] for span in seen.spans] == sorted(span[0] for span in seen.spans)


@pytest.mark.fabric
def test_without_its_size_such_a_flow_starts_first_served_and_sinks(link, run_dir):
    put_policy(run_dir, policy(Mode.QCLIMB))
    seen = talk(link, run_dir, [(SIZE, None)], 1000)
    assert [seen.edges()[0][1], seen.edges()[-1][1]] == [DSCP[0], DSCP[-1]]


@pytest.mark.fabric
def test_a_size_means_nothing_in_mode_pias(link, run_dir):
    put_policy(run_dir, policy(Mode.PIAS))
    seen = talk(link, run_dir, [(SIZE, "size")], 7001)
    assert_demoted(seen.edges())
    assert seen.edges()[-1][1] == DSCP[-1]


@pytest.mark.fabric
@pytest.mark.parametrize("how", ["block", "epoll"])
@pytest.mark.parametrize("word", ["size", "end"])
def test_a_flow_that_is_told_to_begin_never_overtakes_the_one_before(link, run_dir, how, word):
    put_policy(run_dir, policy(Mode.QCLIMB, flow_gap_us=5_000_000))
    sizes = [SIZE, 60_000, 1000, SIZE, 9000]
    seen = talk(link, run_dir, [(size, word) for size in sizes], 5000, how)
    assert seen.bytes == sum(sizes)
    assert seen.repeated <= link.probes
    assert [span[0] for span in seen.spans] == sorted(span[0] for span in seen.spans)


@pytest.mark.fabric
@pytest.mark.parametrize("how", ["block", "epoll"])
def test_a_large_flow_that_is_told_to_begin_is_served_last_from_its_first_byte(link, run_dir, how):
    put_policy(run_dir, policy(Mode.QCLIMB, flow_gap_us=5_000_000))
    seen = talk(link, run_dir, [(9000, "size"), (SIZE, "size")], 3000, how)
    assert_late(seen.edges()[1:], [(9000 + at, dscp) for at, dscp in CLIMBED])
    assert seen.edges()[0] == (0, DSCP[0])
    assert seen.repeated <= link.probes


@pytest.fixture
def sink():
    """A sink on loopback, not under the library: its port, and what it has received once the peer has closed."""
    got = bytearray()

    def take():
        connection, _ = server.accept()
        with connection:
            while data := connection.recv(1 << 18):
                got.extend(data)

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=take)
        thread.start()
        yield server.getsockname()[1], lambda: (thread.join(60), bytes(got))[1]
        thread.join(60)


def run(argv, run_dir=None, **env):
    preload = {"LD_PRELOAD": str(LIBRARY), "QCLIMB_RUN": str(run_dir)} if run_dir else {}
    done = subprocess.run(argv, env={**preload, **env}, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture
def inbox(run_dir):
    """The records socket: all records there, oldest first."""

    def records():
        found = []
        while True:
            try:
                found += records_of([place.recv(65536)])
            except BlockingIOError:
                return found

    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as place:
        place.bind(str(run_dir / "records"))
        place.setblocking(False)
        yield records


@pytest.mark.parametrize("mode", [Mode.OBSERVE, Mode.PIAS, Mode.QCLIMB])
def test_records_tell_flows_where_the_application_says_they_begin(run_dir, inbox, sink, mode):
    port, received = sink
    put_policy(run_dir, policy(mode, flow_gap_us=5_000_000))
    messages = [(30_000, "size"), (200, "end"), (500, None), (700, "end"), (20_000, "size")]
    run(source_argv("127.0.0.1", port, messages, 4000), run_dir)
    assert received() == content(*(size for size, _ in messages))
    assert [(r.size_bytes, r.flags & HINT) for r in inbox()] == [(30_000, HINT), (700, 0), (700, 0), (20_000, HINT)]


def test_a_flow_that_outgrows_its_size_goes_on_by_what_it_asks_for(run_dir, inbox, sink):
    port, _ = sink
    put_policy(run_dir, policy(Mode.QCLIMB, flow_gap_us=5_000_000))
    done = run(source_argv("127.0.0.1", port, [(30_000, "size"), (3000, None)], 3000), run_dir, QCLIMB_LOG="stderr")
    assert f"dscp={DSCP[-1]}" not in done.stderr
    (record,) = inbox()
    assert (record.size_bytes, record.last_priority, record.flags & HINT) == (33_000, 1, HINT)


@pytest.mark.parametrize("how", ["connect", "sendto"])
def test_a_size_that_is_told_before_a_fast_open_write_is_that_flows(run_dir, inbox, sink, how):
    port, received = sink
    put_policy(run_dir, policy(Mode.QCLIMB, flow_gap_us=5_000_000))
    code = f"""
import socket, sys
sys.path.insert(0, {str(ROOT)!r})
from hostlib import hint
s = socket.socket()
if {how!r} == "connect":
    s.setsockopt(socket.IPPROTO_TCP, 30, 1)  # TCP_FASTOPEN_CONNECT
    s.connect(("127.0.0.1", {port}))
hint.flow_size(s, 30_000)
if {how!r} == "connect":
    s.sendall(bytes(1000))
else:
    s.sendto(bytes(1000), socket.MSG_FASTOPEN, ("127.0.0.1", {port}))
s.sendall(bytes(29_000))
s.close()
"""
    run([PYTHON, "-c", code], run_dir)
    assert received() == bytes(30_000)
    assert [(r.size_bytes, r.flags & HINT) for r in inbox()] == [(30_000, HINT)]


def test_without_the_library_nothing_happens(sink):
    port, received = sink
    done = run(source_argv("127.0.0.1", port, [(30_000, "size"), (200, "end")], 4000, "epoll"))
    assert received() == content(30_000, 200)
    assert done.stdout == "[false, false]\n"


def test_a_word_about_something_else_is_not_taken_and_leaves_errno_alone(run_dir):
    put_policy(run_dir, policy(Mode.QCLIMB))
    code = """
import ctypes, os, socket
libc = ctypes.CDLL(None, use_errno=True)
size, end = libc.qclimb_flow_size, libc.qclimb_flow_end
size.argtypes = (ctypes.c_int, ctypes.c_uint64)
ctypes.set_errno(77)
udp, listener = socket.socket(type=socket.SOCK_DGRAM), socket.create_server(("127.0.0.1", 0))
for fd in (-1, 2**30, 2**31 - 1, -2**31, 0, 999, udp.fileno(), listener.fileno(), os.open("/dev/null", os.O_WRONLY)):
    assert size(fd, 1000) == end(fd) == 0, fd
client = socket.create_connection(listener.getsockname())
assert (size(client.fileno(), 0), size(client.fileno(), 1), end(client.fileno())) == (0, 1, 1)
assert ctypes.get_errno() == 77
"""
    run([PYTHON, "-c", code], run_dir)


# --- the C header

WAYS = {
    "pie": ["cc"],
    "pie-O2": ["cc", "-O2"],
    "hidden": ["cc", "-fvisibility=hidden"],
    "no-plt": ["cc", "-fno-plt"],
    "clang": ["clang", "-O2"],
}


@pytest.fixture(params=WAYS)
def example(request, tmp_path):
    program = tmp_path / "size_hint"
    source, include = ROOT / "hostlib" / "examples" / "size_hint.c", ROOT / "hostlib" / "include"
    argv = [*WAYS[request.param], "-std=gnu11", "-Wall", "-Wextra", "-Werror", f"-I{include}", "-o", program, source]
    try:
        subprocess.run(argv, check=True, capture_output=True, text=True)
    except FileNotFoundError:
        pytest.skip(f"needs {argv[0]}")
    return program


def test_the_c_example_is_hinted_under_the_library_and_runs_without(example, run_dir, inbox, sink):
    port, received = sink
    put_policy(run_dir, policy(Mode.QCLIMB))
    done = run([example, "127.0.0.1", str(port), "150000"], run_dir, QCLIMB_LOG="stderr")
    assert done.stdout == "hinted\n"
    assert received() == b"q" * 150_000
    assert f"dscp={DSCP[-1]} at=0" in done.stderr
    (record,) = inbox()
    assert (record.size_bytes, record.flags & HINT) == (150_000, HINT)


def test_the_c_example_runs_without_the_library(example, sink):
    port, received = sink
    assert run([example, "127.0.0.1", str(port), "150000"]).stdout == "unhinted\n"
    assert received() == b"q" * 150_000


def test_the_header_is_cplusplus_too(tmp_path):
    source = tmp_path / "hint.cpp"
    source.write_text("#include <qclimb.h>\nint main() { return qclimb_flow_size(1, 2) + qclimb_flow_end(1); }\n")
    argv = [
        "c++",
        "-std=c++17",
        "-Wall",
        "-Wextra",
        "-Werror",
        f"-I{ROOT}/hostlib/include",
        "-o",
        tmp_path / "x",
        source,
    ]
    subprocess.run(argv, check=True)
    for preload in ({}, {"LD_PRELOAD": str(LIBRARY)}):
        assert subprocess.run([tmp_path / "x"], env={**os.environ, **preload}).returncode == 0
