"""Flows whose beginning is assumed: a record each where a connection takes turns, and no boundary that rests on it."""

import json
import re
from itertools import accumulate, count

import pytest
from qclimb.policy import Mode
from stand import DSCP, PYTHON, B, assert_demoted, climbed, hostd, policy, put_policy, records_of, segments, stream

PORTS = count(9500)
PROOFS, MOST = 4, 63
"""ASSUMED_PROOFS and ASSUMED_MOST of hostlib/shim/life/assumed.h."""
THRESHOLDS = (10_000, 40_000, 100_000)

pytestmark = pytest.mark.fabric

# Answers each message of those lengths with a byte, then sends tokens and answers no more. Bare: its ACKs are late.
SINK = """
import json, socket, sys
port, messages, tokens = json.loads(sys.argv[1])
s = socket.create_server(("", port)); print("ready", flush=True)
c, _ = s.accept()
for size in messages:
    while size: size -= len(c.recv(size))
    c.sendall(b".")
c.sendall(bytes(tokens))
while c.recv(65536): pass
"""

# Messages are lists of writes, and each is answered; then a write of 500 bytes for each token, which all come at once.
SOURCE = """
import json, os, socket, sys, tempfile
address, port, messages, tokens, way = json.loads(sys.argv[1])
s = socket.create_connection((address, port))
s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
for message in messages:
    for size in message:
        if way == "sendfile":
            with tempfile.TemporaryFile() as file:
                file.write(bytes(size)); file.flush()
                assert os.sendfile(s.fileno(), file.fileno(), 0, size + 3000) == size
        else:
            s.sendall(bytes(size))
        if way == "fork" and message is messages[0] and os.fork() == 0: os._exit(0)
    assert s.recv(1) == b"."
if way == "behind": s.sendall(bytes(200_000))
for _ in range(tokens):
    assert len(s.recv(1)) == 1
    s.sendall(bytes(500))
s.shutdown(1); s.recv(1)
"""


def talk(link, run_dir, messages, tokens=0, way="send"):
    """The stream as captured, the records, and the log."""
    port = next(PORTS)
    log = run_dir / "log"
    with hostd(run_dir) as datagrams, link.capture() as pcap:
        sink_argv = [PYTHON, "-c", SINK, json.dumps([port, [sum(message) for message in messages], tokens])]
        sink = link.start(link.b, sink_argv, run_dir, LD_PRELOAD="")
        try:
            assert sink.stdout.readline() == "ready\n"
            source_argv = [PYTHON, "-c", SOURCE, json.dumps([B, port, messages, tokens, way])]
            source = link.start(link.a, source_argv, run_dir, QCLIMB_LOG=str(log))
            _, error = source.communicate(timeout=60)
            assert source.returncode == 0, error
            sink.communicate(timeout=60)
        finally:
            sink.kill()
    return stream(segments(pcap), to_port=port), records_of(datagrams), log.read_text()


def edges_of(log):
    """Where the DSCP must change, counted from the beginnings that were proven, by the log."""
    edges, at, proven = [(0, DSCP[0])], 0, 0

    def until(end):
        edges.extend((proven + t, dscp) for t, dscp in zip(THRESHOLDS, DSCP[1:], strict=True) if proven + t < end)

    for line in log.splitlines():
        if found := re.search(r"flow ends size=(\d+)", line):
            at += int(found[1])
        elif found := re.search(r"began at its assumed beginning, (\d+) bytes later", line):
            proven += int(found[1])
        elif "flow starts" in line and "assumed" not in line:
            until(at)
            if edges[-1][1] != DSCP[0]:
                edges.append((at, DSCP[0]))
            proven = at
    until(at)
    return edges


@pytest.mark.parametrize("mode", [Mode.PIAS, Mode.QCLIMB])
def test_a_connection_that_takes_turns_has_a_record_for_each_message(link, run_dir, mode):
    put_policy(run_dir, policy(mode, threshold_bytes=THRESHOLDS))
    messages = [[100 + n, 200] for n in range(60)]
    seen, records, log = talk(link, run_dir, messages)
    assert [record.size_bytes for record in records] == [300 + n for n in range(60)]
    assert [record.first_write_bytes for record in records] == [100 + n for n in range(60)]
    assert [record.flow_index for record in records] == list(range(60))
    assert log.count("assumed=") >= 10  # else this test is about nothing
    assert seen.edges() == [(0, DSCP[0])]
    last = records[-1].last_size_bytes
    assert list(last) == [358, 357, 356, 355, 354]


@pytest.mark.parametrize("writes", [[60_000], [300, 60_000], [300] * 20 + [54_000]], ids=["one", "two", "many"])
def test_a_boundary_after_assumed_flows_counts_from_its_flow(link, run_dir, writes):
    put_policy(run_dir, policy(threshold_bytes=THRESHOLDS))
    messages = [[500]] * 9 + [writes] + [[500]] * 3
    seen, records, log = talk(link, run_dir, messages)
    start = 9 * 500
    assert "assumed=" in log
    end = start + sum(writes)
    found = seen.edges()
    assert (found[0], found[-1]) == ((0, DSCP[0]), (end, DSCP[0]))
    assert_demoted([(start, DSCP[0]), *found[1:-1]], start=start)
    assert len(found) > 2
    assert [record.size_bytes for record in records] == [sum(message) for message in messages]
    assert seen.repeated <= link.probes


@pytest.mark.parametrize("mode", [Mode.PIAS, Mode.QCLIMB])
def test_messages_beyond_a_burst_are_assumed_up_to_the_first_threshold(link, run_dir, mode):
    put_policy(run_dir, policy(mode, threshold_bytes=(40_000, 80_000, 160_000)))
    seen, records, log = talk(link, run_dir, [[500]] * 6 + [[20_000]] * 5 + [[20_000] * 3] + [[500]] * 3)
    start = 6 * 500 + 5 * 20_000
    found = [int(n) for n in re.findall(r"call=(\d+) assumed=", log)]
    assert 20_000 in found
    assert [record.size_bytes for record in records] == [500] * 6 + [20_000] * 5 + [60_000] + [500] * 3
    if mode is Mode.PIAS:
        assert_demoted(
            [(start, DSCP[0]), *[one for one in seen.edges()[1:] if one[0] < start + 60_000]], (40_000,), start
        )
    else:  # what is asked for before the first ACK is certain, and how much that is the network says
        assert [dscp for at, dscp in seen.edges() if at <= start] == [DSCP[0]]


def test_a_message_climbs_after_assumed_flows_as_it_does_alone(link, run_dir):
    put_policy(run_dir, policy(Mode.QCLIMB, threshold_bytes=THRESHOLDS))
    seen, records, log = talk(link, run_dir, [[500]] * 9 + [[250_000]])
    start = 9 * 500
    assert "assumed=" in log
    steps = [(250_000 - edge + 1, dscp) for edge, dscp in ((100_000, DSCP[2]), (40_000, DSCP[1]))]
    expected = [(start + at, dscp) for at, dscp in climbed(log, steps)]
    assert expected
    assert seen.edges() == [(0, DSCP[0]), (start, DSCP[3]), *expected]
    assert records[-1].footprint_lower_bytes == records[-1].size_bytes == 250_000


@pytest.mark.parametrize("mode", [Mode.PIAS, Mode.QCLIMB])
def test_where_turns_end_boundaries_count_from_the_last_proven_beginning(link, run_dir, mode):
    """From a message on the application no longer waits for its peer: what was assumed then is found wrong, once."""
    put_policy(run_dir, policy(mode, threshold_bytes=THRESHOLDS))
    tokens = 300
    seen, records, log = talk(link, run_dir, [[500]] * 6, tokens)
    assert seen.bytes == 500 * (6 + tokens) == sum(record.size_bytes for record in records)
    if mode is Mode.PIAS:
        expected = edges_of(log)
        assert [dscp for _, dscp in seen.edges()] == [dscp for _, dscp in expected]
        assert all(0 <= at - edge <= 16_384 for (at, _), (edge, _) in zip(seen.edges(), expected, strict=True))
        assert len(seen.edges()) > 3
    doubted = log.index("a turn without an end")
    assert "assumed=" in log[:doubted]
    assert "assumed=" not in log[doubted:]
    assert len(records) < 6 + MOST + tokens // 10


def test_the_first_turns_of_a_connection_are_proven(link, run_dir):
    """One that never takes turns has not a flow more than it had."""
    put_policy(run_dir, policy(threshold_bytes=THRESHOLDS))
    _, records, log = talk(link, run_dir, [], 50, way="behind")
    assert "a turn without an end" in log
    assert "assumed=" not in log
    assert len(records) < 5


def test_nothing_is_assumed_of_a_connection_that_a_fork_shares(link, run_dir):
    put_policy(run_dir, policy(threshold_bytes=THRESHOLDS))
    _, records, log = talk(link, run_dir, [[500]] * 20, way="fork")
    assert "assumed=" not in log
    assert [record.size_bytes for record in records] == [500] * 20


def test_a_sendfile_that_asks_for_more_than_the_file_holds_ends_its_flow(link, run_dir):
    put_policy(run_dir, policy(threshold_bytes=THRESHOLDS))
    _, records, log = talk(link, run_dir, [[300], [200, 400]] * 10, way="sendfile")
    assert "assumed=" in log
    assert [record.size_bytes for record in records] == [300, 600] * 10
    assert [record.first_write_bytes for record in records] == [300, 200] * 10


def test_at_most_so_many_flows_in_a_row_are_assumed(link, run_dir):
    put_policy(run_dir, policy(threshold_bytes=THRESHOLDS))
    _, _, log = talk(link, run_dir, [[10]] * 200)
    found = [int(n) for n in re.findall(r"assumed=(\d+)", log)]
    assert max(found) <= MOST
    # Proven ones in between: the first of the connection, those it is trusted by, and one after each row.
    starts = ["assumed" in line for line in log.splitlines() if "flow starts" in line]
    assert starts[: 1 + PROOFS] == [False] * (1 + PROOFS)
    rows = accumulate(starts, lambda row, assumed: row + 1 if assumed else 0)
    assert max(rows) <= MOST
