"""A flow that is told its deadline: its priority is that of the time it has left, where the policy honours that."""

import json
import re
import socket
import subprocess
import time
from itertools import count, pairwise

import pytest
from qclimb.policy import Mode
from qclimb.record import HAD_DEADLINE, HAD_SIZE_HINT
from stand import DSCP, LIBRARY, PYTHON, ROOT, B, hostd, policy, put_policy, records_of, segments, stream, wait_until

PORTS = count(7600)
LAST = len(DSCP) - 1

# Writes on loopback, with pauses; says for each write how much time was left before and after it.
PAUSING = """
import json, socket, sys, time
sys.path.insert(0, sys.argv[1])
from hostlib import hint
port, deadline_us, size, pauses, piece = json.loads(sys.argv[2])
s = socket.create_connection(("127.0.0.1", port))
told = [hint.flow_size(s, size)] if size else []
before = time.monotonic_ns()
told.append(hint.flow_deadline(s, deadline_us))
after = time.monotonic_ns()
lefts = []
for pause in pauses:
    time.sleep(pause)
    early = time.monotonic_ns()
    s.sendall(bytes(piece))
    lefts.append((deadline_us - (early - after) // 1000, deadline_us - (time.monotonic_ns() - before) // 1000))
s.shutdown(1); s.recv(1)
print(json.dumps([told, lefts]))
"""

# One message by blocking sends or by an event loop that believes nothing but events.
SENDING = """
import json, select, socket, sys
sys.path.insert(0, sys.argv[1])
from hostlib import hint
address, port, deadline_us, size, how = json.loads(sys.argv[2])
s = socket.create_connection((address, port))
assert hint.flow_deadline(s, deadline_us)
data = memoryview(bytes(size))
if how == "block":
    s.sendall(data)
else:
    s.setblocking(False)
    poll = select.epoll(); poll.register(s, select.EPOLLOUT)
    while data:
        assert poll.poll(30), "no event within 30 s: an EAGAIN that nothing ended"
        try:
            data = data[s.send(data[:50_000]):]
        except BlockingIOError:
            pass
s.setblocking(True)
s.shutdown(1); s.recv(1)
"""

SINK = """
import socket, sys
s = socket.create_server(("", int(sys.argv[1]))); print(s.getsockname()[1], flush=True)
c, _ = s.accept()
got = 0
while data := c.recv(1 << 18): got += len(data)
print(got)
"""


def pausing(run_dir, *, wanted, deadline_us=1_600_000, size=0, pauses=(0, 0.5, 0.4, 0.4, 0.5), piece=3000):
    """What the program said, and the library's log."""
    put_policy(run_dir, wanted)
    sink = subprocess.Popen([PYTHON, "-c", SINK, "0"], stdout=subprocess.PIPE, text=True)
    try:
        port = int(sink.stdout.readline())
        argv = [PYTHON, "-c", PAUSING, str(ROOT), json.dumps([port, deadline_us, size, pauses, piece])]
        env = {"LD_PRELOAD": str(LIBRARY), "QCLIMB_RUN": str(run_dir), "QCLIMB_LOG": "stderr"}
        done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        assert sink.communicate(timeout=60)[0] == f"{piece * len(pauses)}\n"
    finally:
        sink.kill()
    return json.loads(done.stdout), done.stderr


def priorities(log):
    """{offset: priority} of each mark on a connection once it has begun a flow."""
    flow = log[log.index("flow starts") :]
    return {int(at): int(priority) for priority, at in re.findall(r"priority=(\d+) dscp=\d+ at=(\d+)", flow)}


def priority_of(step_us, left_us):
    """The rule of deadline.h, said otherwise."""
    return LAST if left_us <= 0 else next((p for p in range(LAST) if left_us <= step_us << p), LAST)


def test_the_priority_is_that_of_the_time_left_and_the_last_one_afterwards(run_dir):
    step_us = 250_000
    wanted = policy(Mode.QCLIMB, deadline_step_us=step_us, flow_gap_us=10_000_000)
    (told, lefts), log = pausing(run_dir, wanted=wanted)
    assert told == [True]
    marks = priorities(log)
    now = 0  # where a connection rests
    for at, (most_us, least_us) in zip(range(0, 15_000, 3000), lefts, strict=True):
        now = marks.get(at, now)
        between = [us for us in (0, *(step_us << p for p in range(LAST))) if least_us <= us <= most_us]
        possible = {priority_of(step_us, us) for us in (most_us, *between, least_us)}
        assert now in possible, (at, most_us, least_us)
    assert now == LAST


def test_deadlines_count_only_where_the_policy_says_so(run_dir):
    unwilling = policy(Mode.QCLIMB, flow_gap_us=10_000_000)
    told_nothing = policy(Mode.PIAS, deadline_step_us=250_000, flow_gap_us=10_000_000)
    for wanted in (unwilling, told_nothing):
        (told, _), log = pausing(run_dir, wanted=wanted, pauses=(0, 0.1, 0))
        assert told == [True]
        assert set(priorities(log).values()) <= {0}


def test_a_deadline_and_a_size_are_told_together_and_recorded(run_dir):
    with hostd(run_dir) as got:
        pausing(run_dir, wanted=policy(Mode.QCLIMB), size=6000, pauses=(0, 0))
        wait_until(lambda: records_of(got))
    (record,) = records_of(got)
    assert record.size_bytes == 6000
    assert record.flags & (HAD_SIZE_HINT | HAD_DEADLINE) == HAD_SIZE_HINT | HAD_DEADLINE


@pytest.mark.fabric
@pytest.mark.parametrize("how", ["block", "epoll"])
def test_a_flow_under_way_climbs_as_its_deadline_nears_and_never_overtakes_itself(link, run_dir, how):
    put_policy(run_dir, policy(Mode.QCLIMB, deadline_step_us=100_000))
    port, size = next(PORTS), 3_000_000  # half a second at the link's rate
    with link.capture() as pcap:
        sink = link.start(link.b, [PYTHON, "-c", SINK, str(port)], run_dir)
        try:
            assert int(sink.stdout.readline()) == port
            said = json.dumps([B, port, 400_000, size, how])
            source = link.start(link.a, [PYTHON, "-c", SENDING, str(ROOT), said], run_dir)
            assert source.wait(60) == 0, source.stderr.read()
            assert sink.communicate(timeout=60)[0] == f"{size}\n"
        finally:
            sink.kill()
    seen = stream(segments(pcap), to_port=port)
    order = [DSCP.index(dscp) for _, dscp in seen.edges()]
    climbed = order[:-1] if order[-1] == LAST else order  # once the deadline has passed
    assert len(climbed) >= 2, order
    assert all(later < earlier for earlier, later in pairwise(climbed)), order
    assert seen.bytes == size
    assert seen.repeated <= link.probes
    top = 0
    for first, end, _ in seen.spans:
        assert first <= top, "a byte came before one that was sent before it"
        top = max(top, end)


def test_a_word_about_something_else_is_not_taken_and_leaves_errno_alone(run_dir):
    put_policy(run_dir, policy(Mode.QCLIMB))
    code = """
import ctypes, os, socket
libc = ctypes.CDLL(None, use_errno=True)
deadline = libc.qclimb_flow_deadline
deadline.argtypes = (ctypes.c_int, ctypes.c_uint32)
ctypes.set_errno(77)
udp, listener = socket.socket(type=socket.SOCK_DGRAM), socket.create_server(("127.0.0.1", 0))
for fd in (-1, 2**30, 2**31 - 1, -2**31, 0, 999, udp.fileno(), listener.fileno(), os.open("/dev/null", os.O_WRONLY)):
    assert deadline(fd, 1000) == 0, fd
client = socket.create_connection(listener.getsockname())
assert [deadline(client.fileno(), us) for us in (0, 1, 300_000_000, 300_000_001)] == [0, 1, 1, 0]
assert ctypes.get_errno() == 77
"""
    env = {"LD_PRELOAD": str(LIBRARY), "QCLIMB_RUN": str(run_dir)}
    subprocess.run([PYTHON, "-c", code], env=env, check=True)


@pytest.mark.parametrize("word", ["hinted", "unhinted"])
def test_the_c_example_runs_with_the_library_and_without(run_dir, tmp_path, word):
    put_policy(run_dir, policy(Mode.QCLIMB, deadline_step_us=1000))
    program = tmp_path / "deadline_hint"
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    source = ROOT / "hostlib" / "examples" / "deadline_hint.c"
    warn = ["-std=gnu11", "-Wall", "-Wextra", "-Werror"]
    subprocess.run(["cc", *warn, f"-I{ROOT}/hostlib/include", "-o", program, source], check=True)
    env = {"LD_PRELOAD": str(LIBRARY), "QCLIMB_RUN": str(run_dir)} if word == "hinted" else {}
    server = subprocess.Popen([program, str(port), "20000"], env=env, stdout=subprocess.PIPE, text=True)
    try:
        end = time.monotonic() + 60
        while True:
            try:
                client = socket.create_connection(("127.0.0.1", port))
                break
            except ConnectionRefusedError:
                assert time.monotonic() < end
                time.sleep(0.01)
        with client:
            got = 0
            while data := client.recv(1 << 16):
                got += len(data)
        assert server.communicate(timeout=60)[0] == f"{word}\n"
    finally:
        server.kill()
    assert got == 100_000
