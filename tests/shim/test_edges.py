"""Flows of 1 KB to 10 MB with edges inside, however they are written: no change of the DSCP comes before its byte."""

import json
import subprocess
from itertools import count
from pathlib import Path

import pytest
from stand import DSCP, LATE_MOST, PYTHON, B, assert_demoted, hostd, policy, put_policy, records_of, segments, stream
from test_wire import talk

PORTS = count(9000)
SIZES = (1_100, 20_000, 300_000, 10_000_100)
WAYS = ("send", "epoll-lt", "epoll-et", "threads")
THREADS = 4

pytestmark = pytest.mark.fabric


def edges_of(size):
    """At odd bytes, a tenth, a third and two thirds of the way."""
    return (size // 10 + 1, size // 3, size * 2 // 3 + 1)


@pytest.mark.parametrize("how", WAYS)
@pytest.mark.parametrize("size", SIZES)
def test_each_change_comes_soon_after_its_byte_and_never_before(link, run_dir, size, how):
    edges = edges_of(size)
    put_policy(run_dir, policy(threshold_bytes=edges))
    seen, _ = talk(link, run_dir, size=size, how=how, chunk=size // 7 + 1)
    assert seen.bytes == size
    assert_demoted(seen.edges(), edges)
    assert seen.edges()[-1][1] == DSCP[-1] or size - edges[-1] < 2 * LATE_MOST
    assert seen.repeated <= link.probes


SINK = """
import socket, sys
s = socket.create_server(("", int(sys.argv[1]))); print("ready", flush=True)
c, _ = s.accept()
got = 0
while data := c.recv(1 << 18): got += len(data)
print(got)
"""

# Threads that do not wait for each other, as no protocol's would: whose bytes come first is nobody's to say.
SOURCE = """
import json, socket, sys, threading
address, port, threads, pieces, chunk = json.loads(sys.argv[1])
s = socket.create_connection((address, port))
def write():
    for _ in range(pieces): s.sendall(bytes(chunk))
all = [threading.Thread(target=write) for _ in range(threads)]
for thread in all: thread.start()
for thread in all: thread.join()
s.shutdown(1); s.recv(1)
"""


@pytest.mark.parametrize(
    ("pieces", "chunk"), [(100, 3_000), (5, 300_000)], ids=["short writes", "always somebody in one"]
)
def test_where_threads_write_at_once_a_change_comes_late_perhaps_never_early_and_none_goes_back(
    link, run_dir, pieces, chunk
):
    """Such writes are not split: the first that is alone marks at its byte, another what has left by then."""
    size = THREADS * pieces * chunk
    edges = edges_of(size)
    put_policy(run_dir, policy(threshold_bytes=edges, flow_gap_us=5_000_000))
    port = next(PORTS)
    with link.capture() as pcap:
        sink = link.start(link.b, [PYTHON, "-c", SINK, str(port)], run_dir)
        try:
            assert sink.stdout.readline() == "ready\n"
            argv = [PYTHON, "-c", SOURCE, json.dumps([B, port, THREADS, pieces, chunk])]
            source = link.start(link.a, argv, run_dir)
            _, error = source.communicate(timeout=60)
            assert source.returncode == 0, error
            got, _ = sink.communicate(timeout=60)
        finally:
            sink.kill()
    assert int(got) == size
    seen = stream(segments(pcap), to_port=port)
    found = {dscp: at for at, dscp in seen.edges()}
    assert len(found) > 1  # whether or not some write was alone
    assert list(found) == [dscp for dscp in DSCP if dscp in found]  # never back
    assert all(found[dscp] >= at for at, dscp in zip(edges, DSCP[1:], strict=True) if dscp in found)
    assert len(seen.edges()) == len(found)


def test_threads_that_begin_a_connection_at_one_moment_begin_one_flow(libc, run_dir, tmp_path):
    """Whoever comes first begins it, though somebody always is in a write."""
    program = libc.compiled(tmp_path / "together", Path(__file__).with_name("together.c"))
    put_policy(run_dir, policy(flow_gap_us=5_000_000))
    with hostd(run_dir) as got:
        subprocess.run([program, "30"], env=libc.environment(run_dir), check=True, timeout=100)
    assert [record.size_bytes for record in records_of(got)] == [4 * 3 * 200_000] * 30
