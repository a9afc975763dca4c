"""What packets carry: each change of the DSCP at its byte, no flow overtakes itself, the application sees nothing."""

import json
import subprocess
from itertools import count, pairwise
from pathlib import Path

import pytest
from qclimb.policy import Mode
from stand import (
    B6,
    DSCP,
    LIBRARY,
    PYTHON,
    TALK,
    THRESHOLDS,
    B,
    assert_demoted,
    assert_late,
    climbed,
    conversation,
    policy,
    put_policy,
    segments,
    stream,
)

from tests.tiers import quick_first

PORTS = count(5000)
SIZE = 250_000
CLIMBED = [(0, 35), (SIZE - THRESHOLDS[2] + 1, 39), (SIZE - THRESHOLDS[1] + 1, 43)]

pytestmark = pytest.mark.fabric


def talk(link, run_dir, *, to=B, sink_env=None, source_env=None, capture_at="b", python=(PYTHON,), **source):
    """One conversation from a to b: the stream as captured and what the source said."""
    return conversation(
        link.capture(capture_at),
        next(PORTS),
        lambda words: link.start(link.b, [PYTHON, TALK, *words], run_dir, **(sink_env or {})),
        lambda words: link.start(link.a, [*python, TALK, *words], run_dir, **(source_env or {})),
        {"address": to, **source},
        heard_by=capture_at,
    )


@pytest.mark.parametrize("how", ["send", "write", "writev", "sendmsg", "sendmmsg", "sendfile"])
@pytest.mark.parametrize("chunk", quick_first([1 << 30, 7001, 65536], 2))
def test_blocking_writes_are_demoted_soon_after_each_threshold_and_never_before(link, run_dir, how, chunk):
    put_policy(run_dir, policy())
    seen, _ = talk(link, run_dir, size=SIZE, how=how, chunk=chunk)
    assert_demoted(seen.edges())
    assert seen.edges()[-1][1] == DSCP[-1]
    assert seen.bytes == SIZE
    assert seen.repeated <= link.probes


@pytest.mark.parametrize("how", ["epoll-lt", "epoll-et"])
def test_an_event_loop_is_demoted_late_and_never_left_without_an_event(link, run_dir, how):
    put_policy(run_dir, policy())
    seen, said = talk(link, run_dir, size=SIZE, how=how)
    assert_demoted(seen.edges())
    assert len(seen.edges()) > 1  # the last ones may go whole, where the kernel has room for all that is left
    assert seen.repeated <= link.probes
    assert said["calls"]["writes"] < 200  # no spinning on a socket that is said to be writable


def test_one_large_write_climbs_by_draining_and_nothing_overtakes(link, run_dir):
    put_policy(run_dir, policy(Mode.QCLIMB))
    log = run_dir / "log"
    seen, _ = talk(link, run_dir, size=SIZE, source_env={"QCLIMB_LOG": str(log)})
    expected = climbed(log.read_text(), CLIMBED)
    assert len(expected) > 1
    # The last 10,000 bytes are less than a drain costs four times over: they stay.
    assert seen.edges()[: len(expected)] == expected
    assert seen.repeated <= link.probes
    assert [span for span in seen.spans if span[0] != span[1]] == sorted(seen.spans)


@pytest.mark.parametrize("how", ["epoll-lt", "epoll-et"])
def test_an_event_loop_climbs_perhaps_late_and_nothing_overtakes(link, run_dir, how):
    put_policy(run_dir, policy(Mode.QCLIMB))
    log = run_dir / "log"
    seen, said = talk(link, run_dir, size=SIZE, how=how, source_env={"QCLIMB_LOG": str(log)})
    assert_late(seen.edges(), CLIMBED)
    assert len(seen.edges()) > 1 or "no promotion" in log.read_text()
    assert seen.repeated <= link.probes
    assert [span[0] for span in seen.spans] == sorted(span[0] for span in seen.spans)
    assert said["calls"]["writes"] < 200


def test_a_kept_connection_carries_a_flow_for_each_turn(link, run_dir):
    put_policy(run_dir, policy())
    seen, _ = talk(link, run_dir, size=60_000, flows=3)
    for start in (0, 60_000, 120_000):
        found = [(at, dscp) for at, dscp in seen.edges() if start <= at < start + 60_000]
        assert_demoted(found, start=start)
        assert len(found) > 1
    assert seen.repeated <= link.probes


# Three writes, the third once the second is ACKed and a second is over; says how long the first two were apart.
PAUSING = """
import fcntl, socket, sys, time
s = socket.create_connection((sys.argv[1], int(sys.argv[2])))
start = time.monotonic(); s.sendall(bytes(15000)); time.sleep(0.02)
s.sendall(bytes(15000)); print(time.monotonic() - start, flush=True)
while any(fcntl.ioctl(s, 0x5411, bytes(4))): time.sleep(0.01)  # SIOCOUTQ
time.sleep(1); s.sendall(bytes(15000))
s.shutdown(1); s.recv(1)
"""
SINK = """
import socket, sys
s = socket.create_server(("", int(sys.argv[1]))); print(1, flush=True)
c, _ = s.accept()
while c.recv(65536): pass
"""


def test_a_pause_longer_than_the_gap_starts_a_flow_and_a_shorter_one_does_not(link, run_dir):
    put_policy(run_dir, policy(flow_gap_us=500_000))
    for _ in range(5):  # until no longer pause came between than was meant
        port = next(PORTS)
        with link.capture() as pcap:
            server = link.start(link.b, [PYTHON, "-c", SINK, str(port)], run_dir)
            server.stdout.readline()
            client = link.start(link.a, [PYTHON, "-c", PAUSING, B, str(port)], run_dir)
            said, error = client.communicate(timeout=60)
            assert client.returncode == 0, error
            server.wait(60)
        if float(said) < 0.5:
            break
    seen = stream(segments(pcap), to_port=port)
    # What ends within 10,000 bytes of the threshold is not cut: the third write is all there is of its flow.
    assert seen.edges() == [(0, 47), (15_000, 43), (30_000, 47)]


@pytest.mark.parametrize("capture_at", ["a", "b"])
def test_syn_and_acks_go_first(link, run_dir, capture_at):
    put_policy(run_dir, policy())
    seen, _ = talk(link, run_dir, size=SIZE, capture_at=capture_at)
    assert seen.syn_dscp == DSCP[0]
    if capture_at == "a":
        assert seen.pure_ack_dscps == {DSCP[0]}


SPINES = {"spines": 3, "unpinned_dscp": 51}  # of stand.py's four priorities the first three are pinned to one each


@pytest.mark.parametrize("capture_at", ["a", "b"])
def test_where_priorities_are_pinned_to_spines_syns_and_acks_take_any(link, run_dir, capture_at):
    put_policy(run_dir, policy(**SPINES))
    seen, said = talk(link, run_dir, size=SIZE, capture_at=capture_at)
    assert seen.syn_dscp == 51
    assert said["shown"] == [[0, 0]]
    if capture_at == "a":
        assert seen.pure_ack_dscps == {51}
    else:
        assert_demoted(seen.edges())
        assert seen.repeated <= link.probes


def test_there_a_socket_that_has_answered_comes_to_rest_when_bulk_comes_in(link, run_dir):
    """The flow is the answer's, at the first spine; the ACKs of what comes after it are not."""
    put_policy(run_dir, policy(**SPINES))
    with link.capture("a") as pcap:
        port = next(PORTS)
        sink = link.start(link.b, [PYTHON, TALK, "sink", json.dumps({"address": B, "port": port, "flows": 3})], run_dir)
        assert sink.stdout.readline()
        words = json.dumps({"address": B, "port": port, "flows": 3, "size": SIZE})
        source = link.start(link.a, [PYTHON, TALK, "source", words], run_dir)
        assert source.wait(60) == 0
        assert sink.wait(60) == 0
    found = [s for s in segments(pcap) if s.sport == port and not s.flags & 3]
    assert {s.dscp for s in found if s.payload} == {DSCP[0]}
    answers = [at for at, s in enumerate(found) if s.payload]
    for after, before in pairwise(answers):
        acks = [s.dscp for s in found[after + 1 : before]]
        assert set(acks) <= {DSCP[0], 51}
        assert acks[-1] == 51
        assert acks.count(51) > acks.count(DSCP[0])


def test_ipv6_carries_the_same_changes(link, run_dir):
    put_policy(run_dir, policy())
    seen, _ = talk(link, run_dir, to=B6, size=SIZE)
    assert_demoted(seen.edges())
    assert seen.edges()[-1][1] == DSCP[-1]
    assert seen.syn_dscp == DSCP[0]


@pytest.mark.parametrize("mode", [Mode.OFF, Mode.OBSERVE])
@pytest.mark.parametrize("how", ["send", "epoll-et"])
def test_off_and_observe_change_no_dscp(link, run_dir, mode, how):
    put_policy(run_dir, policy(mode))
    seen, _ = talk(link, run_dir, size=SIZE, how=how)
    assert seen.edges() == [(0, 0)]
    assert seen.syn_dscp == 0
    assert seen.pure_ack_dscps <= {0}


def test_an_application_keeps_the_dscp_that_it_chose(link, run_dir):
    put_policy(run_dir, policy())
    seen, said = talk(link, run_dir, size=SIZE, tos=0x28)
    assert seen.edges() == [(0, 10)]
    assert said["shown"] == [[0x28, 2]]  # 2 is what the kernel makes of it: no trace of ours


def test_an_application_does_not_see_our_options(link, run_dir):
    put_policy(run_dir, policy())
    _, said = talk(link, run_dir, size=SIZE)
    assert said["shown"] == [[0, 0]]


def test_a_setuid_program_ignores_the_environment(link, run_dir, tmp_path):
    """LD_PRELOAD is the loader's to ignore; a program that is linked with the library must not read QCLIMB_* either."""
    log = tmp_path / "log"
    source = tmp_path / "setuid.c"
    program = tmp_path / "setuid"
    source.write_text("#include <sys/auxv.h>\nint main(void) { return getauxval(AT_SECURE) ? 7 : 8; }")
    link_with = ["-Wl,--no-as-needed", str(LIBRARY), f"-Wl,-rpath,{LIBRARY.parent}"]
    subprocess.run(["cc", "-o", program, source, *link_with], check=True)
    for path in [tmp_path, *tmp_path.parents]:
        if path.is_relative_to("/tmp") and path != Path("/tmp"):
            path.chmod(path.stat().st_mode | 0o011)

    def exit_code(mode):
        program.chmod(mode)
        log.unlink(missing_ok=True)
        drop = ["setpriv", "--reuid=65534", "--clear-groups"] if mode & 0o4000 else []
        return subprocess.run([*drop, program], env={"QCLIMB_RUN": str(run_dir), "QCLIMB_LOG": str(log)}).returncode

    assert exit_code(0o755) == 8
    assert log.exists()
    if exit_code(0o4755) != 7:
        pytest.skip("a setuid copy does not run with more rights here")
    assert not log.exists()


@pytest.mark.parametrize("how", ["write", "epoll-et"])
def test_a_demotion_to_another_spine_waits_for_acks_where_the_policy_says_so(link, run_dir, how):
    """Three priorities on two spines; the last one is on both. One path's priorities are demoted without a wait."""
    log = run_dir / "log"
    for spines, drains, waits in ((2, True, True), (2, False, False), (0, True, False)):
        log.unlink(missing_ok=True)
        put_policy(run_dir, policy(dscp=DSCP[:3], threshold_bytes=THRESHOLDS[:2], spines=spines, drain_paths=drains))
        seen, _ = talk(link, run_dir, size=SIZE, how=how, source_env={"QCLIMB_LOG": str(log)})
        assert_demoted(seen.edges())
        if how == "write":  # an event loop does not wait inside a call
            assert ("for=ack" in log.read_text()) == waits
        assert seen.bytes == SIZE and seen.repeated <= link.probes
