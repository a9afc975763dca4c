"""What a record tells of a flow's footprint where the library only observes: what recordings of it rest on."""

import pytest
from qclimb.policy import Mode
from stand import PYTHON, B, hostd, policy, put_policy, records_of

SINK = """
import socket, sys
s = socket.create_server(("", int(sys.argv[1]))); print("ready", flush=True)
for _ in range(10):
    c, _ = s.accept()
    while c.recv(1 << 18): pass
"""
# Most times no ACK comes between the first two writes; before the third all is ACKed.
SOURCE = """
import fcntl, socket, sys, time
for _ in range(10):
    s = socket.create_connection((sys.argv[1], int(sys.argv[2])))
    s.sendall(bytes(9000)); s.sendall(bytes(6000))
    while any(fcntl.ioctl(s, 0x5411, bytes(4))): time.sleep(0.01)  # SIOCOUTQ
    s.sendall(bytes(40000)); s.sendall(bytes(1000))
    s.close()
"""


@pytest.mark.fabric
@pytest.mark.parametrize("mode", [Mode.OBSERVE, Mode.QCLIMB])
def test_a_record_tells_what_was_asked_for_before_the_first_ack(link, run_dir, mode):
    put_policy(run_dir, policy(mode, flow_gap_us=2_000_000, threshold_bytes=(10**6, 2 * 10**6, 3 * 10**6)))
    with hostd(run_dir) as datagrams:
        sink = link.start(link.b, [PYTHON, "-c", SINK, "7990"], run_dir)
        try:
            assert sink.stdout.readline() == "ready\n"
            source = link.start(link.a, [PYTHON, "-c", SOURCE, B, "7990"], run_dir)
            _, error = source.communicate(timeout=60)
            assert source.returncode == 0, error
            sink.communicate(timeout=60)
        finally:
            sink.kill()
    told = [(r.first_write_bytes, r.footprint_lower_bytes, r.size_bytes) for r in records_of(datagrams)]
    assert len(told) == 10
    assert set(told) <= {(9000, 9000, 56_000), (9000, 15_000, 56_000)}
    assert (9000, 15_000, 56_000) in told


SHORT = """
import select, socket, sys, time
s = socket.create_connection((sys.argv[1], int(sys.argv[2])))
s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 16384)
s.setblocking(False)
left = memoryview(bytes(200_000))
sent = s.send(left)
assert sent < len(left), "the kernel took all of it: no short write"
while sent < len(left):
    time.sleep(0.25)  # all is ACKed and flow_gap_us long over, as where an event loop is busy elsewhere
    select.select([], [s], [])
    sent += s.send(left[sent:])
s.close()
"""


@pytest.mark.fabric
@pytest.mark.parametrize("mode", [Mode.OBSERVE, Mode.PIAS, Mode.QCLIMB])
def test_the_rest_of_a_short_write_belongs_to_its_flow_however_late_it_comes(link, run_dir, mode):
    put_policy(run_dir, policy(mode, flow_gap_us=5000))
    port = str(7991 + list(Mode).index(mode))
    with hostd(run_dir) as datagrams:
        sink = link.start(link.b, [PYTHON, "-c", SINK.replace("range(10)", "range(1)"), port], run_dir)
        try:
            assert sink.stdout.readline() == "ready\n"
            source = link.start(link.a, [PYTHON, "-c", SHORT, B, port], run_dir)
            _, error = source.communicate(timeout=60)
            assert source.returncode == 0, error
            sink.communicate(timeout=60)
        finally:
            sink.kill()
    assert [record.size_bytes for record in records_of(datagrams)] == [200_000]
