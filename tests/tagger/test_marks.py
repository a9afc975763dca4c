"""What packets carry under the tagger: each change of the DSCP at its packet, and nothing else changed."""

import struct
import subprocess
from collections import defaultdict

import pytest
from hosts import Host, talk
from qclimb.policy import Mode
from stand import B6, DSCP, THRESHOLDS, B, policy, run, segments

from tests.tiers import quick_first

pytestmark = pytest.mark.fabric
SPINES = {"spines": 3, "unpinned_dscp": 51}


def fresh(seen):
    """(first, end, DSCP) of what came for the first time and in order: what a queue dropped comes later, sent again."""
    top, out = 0, []
    for first, end, dscp in seen.spans:
        if first >= top:
            out.append((first, end, dscp))
        top = max(top, end)
    return out


def edges(seen):
    """(offset of the packet, DSCP) at each change."""
    out = []
    for first, _, dscp in fresh(seen):
        if not out or out[-1][1] != dscp:
            out.append((first, dscp))
    return out


def at_packets(rule, seen):
    """Edges of a rule, in bytes, as the first packet that begins at or past each must show them."""
    firsts = [first for first, _, _ in fresh(seen)]
    return [(next(first for first in firsts if first >= at), dscp) for at, dscp in rule]


def late(threshold):
    """A flow that is over so soon after a threshold, for all that its program asked for, is not demoted there."""
    return min(max(threshold, 4_096), 65_536)


def demoted(size):
    """Of a flow that is one write."""
    edges = zip(THRESHOLDS, DSCP[1:], strict=True)
    return [(0, DSCP[0]), *((at, dscp) for at, dscp in edges if at + late(at) < size)]


def assert_demoted_late(seen, size):
    """Of a flow of several writes: by the packet at which its demotion must come at last."""
    rule = demoted(size)
    found = edges(seen)
    assert [dscp for _, dscp in found] == [dscp for _, dscp in rule]
    last = at_packets([(at and at + late(at), dscp) for at, dscp in rule], seen)
    for (at, _), (first, _), (end, _) in zip(found, at_packets(rule, seen), last, strict=True):
        assert first <= at <= end


@pytest.mark.parametrize("to", [B, B6])
@pytest.mark.parametrize("size", quick_first([250_000, 1_024, 12_000, 50_000, 2_500_000, 10_485_760], 2))
def test_a_flow_is_demoted_at_the_packet_of_each_threshold(pair, size, to):
    a, b = pair
    a.tagger(policy())
    seen, _ = talk(a, b, size=size, to=to)
    assert seen.bytes == size
    assert edges(seen) == at_packets(demoted(size), seen)


def check_climb(host, send, size):
    """Flows of known size, in the order of their streams, for their packets overtake each other: each packet has its
    priority, or a later one. Next to nothing is sent again without a loss; where something is, what follows goes later,
    too. A slow machine may do that to a flow, or miss its packets: one of six is seen to climb through all."""
    rule = [(0, DSCP[3]), *((size - THRESHOLDS[p] + 1, DSCP[p]) for p in (2, 1, 0))]
    for _ in range(6):
        before = host.counter("TcpRetransSegs")
        seen = send()
        again = host.counter("TcpRetransSegs") - before
        assert again <= seen.repeated + 2
        found = [
            {dscp for first, _, dscp in seen.spans if at <= first < end}
            for (at, _), (end, _) in zip(rule, [*rule[1:], (size, 0)], strict=True)
        ]
        assert again or all(
            dscps <= set(DSCP[DSCP.index(dscp) :]) for (_, dscp), dscps in zip(rule, found, strict=True)
        )
        if not again and all(dscp in dscps for (_, dscp), dscps in zip(rule, found, strict=True)):
            return seen
    pytest.fail(f"none of six flows climbed: the last sent {again} packets again and had the DSCPs {found}")


def test_one_write_climbs_at_its_packets_without_a_wait(pair):
    a, b = pair
    a.tagger(policy(Mode.QCLIMB))
    size = 250_000
    check_climb(a, lambda: talk(a, b, size=size)[0], size)


def test_a_kept_connection_carries_a_flow_for_each_turn(pair):
    a, b = pair
    a.tagger(policy())
    seen, _ = talk(a, b, size=60_000, flows=3)
    starts = [flow * 60_000 for flow in range(3)]
    assert edges(seen) == at_packets([(start + at, dscp) for start in starts for at, dscp in demoted(60_000)], seen)


def test_acks_and_the_handshake_go_first(pair):
    a, b = pair
    a.tagger(policy())
    b.tagger(policy())
    seen, _ = talk(a, b, size=250_000, flows=2)
    assert seen.syn_dscp == DSCP[0]
    answers, _ = talk(a, b, size=250_000, flows=2, capture_at="a")
    assert answers.pure_ack_dscps == {DSCP[0]}


@pytest.mark.parametrize("capture_at", ["a", "b"])
def test_they_take_any_spine_where_priorities_are_pinned_to_spines(pair, capture_at):
    a, b = pair
    for host in pair:
        host.tagger(policy(**SPINES))
    seen, _ = talk(a, b, size=250_000, flows=2, capture_at=capture_at)
    assert seen.syn_dscp == 51
    if capture_at == "a":
        assert seen.pure_ack_dscps == {51}
        assert {dscp for _, _, dscp in seen.spans} == {DSCP[0]}
    else:
        starts = (0, 250_000)
        assert edges(seen) == at_packets(
            [(start + at, dscp) for start in starts for at, dscp in demoted(250_000)], seen
        )


@pytest.mark.parametrize("spines", [{}, SPINES])
def test_what_is_sent_again_overtakes_nothing_on_its_path(pair, spines):
    a, b = pair
    told = policy(**spines)
    a.tagger(told)
    drop = "tcp dport 7000-9000 tcp flags & (syn | fin) == 0 numgen inc mod 30 == 7 drop"
    rules = f"table inet lossy {{ chain c {{ type filter hook input priority 0; {drop}; }}; }}"
    done = subprocess.run(["ip", "netns", "exec", b.netns, "nft", rules], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"this kernel drops no chosen packets: {done.stderr}")
    seen, _ = talk(a, b, size=250_000)
    first_at, latest, again = {}, defaultdict(int), 0
    for first, end, dscp in seen.spans:
        priority = DSCP.index(dscp)
        known = [first_at[at] for at in range(first // 100, end // 100) if at in first_at]
        for at in range(first // 100, end // 100):
            first_at.setdefault(at, priority)
        path = told.path_of(priority)
        if known and first > THRESHOLDS[0]:
            again += 1
            assert path in {told.path_of(before) for before in known}
            assert priority == latest[path]
        latest[path] = max(latest[path], priority)
    assert again


def test_what_the_library_is_not_under_keeps_its_dscp(pair):
    a, b = pair
    a.tagger(policy())
    seen, _ = talk(a, b, size=250_000, tos=0x28, env={"LD_PRELOAD": ""})
    assert edges(seen) == [(0, 10)]
    seen, _ = talk(a, b, size=250_000, env={"LD_PRELOAD": ""})
    assert edges(seen) == [(0, 0)]


def test_an_application_keeps_the_dscp_that_it_chose(pair):
    a, b = pair
    a.tagger(policy())
    seen, said = talk(a, b, size=250_000, tos=0x28)
    assert edges(seen) == [(0, 10)]
    assert said["shown"] == [[0x28, 2]]


def test_the_socket_itself_carries_no_priority(pair):
    """So that without the tagger its packets are served as any others are."""
    a, b = pair
    a.tagger(policy())
    _, said = talk(a, b, size=250_000)
    assert said["shown"] == [[0, 0]]


def header_is_valid(frame: bytes) -> bool:
    """RFC 1071 over the IPv4 header."""
    words = struct.unpack_from(f">{(frame[14] & 15) * 2}H", frame, 14)
    total = sum(words)
    return (total & 0xFFFF) + (total >> 16) in (0xFFFF, 0x1FFFE)


def frames(pcap):
    data, at = pcap.read_bytes(), 24
    while at + 16 <= len(data):
        captured = struct.unpack_from("<I", data, at + 8)[0]
        yield data[at + 16 : at + 16 + captured]
        at += 16 + captured


def without_offload(host: Host) -> None:
    """Checksums are then made in software, after the tagger, and looked at by the receiver."""
    for host_side in ("tx", "rx"):
        subprocess.run(["ip", "netns", "exec", host.netns, "ethtool", "-K", "e0", host_side, "off"], check=False)
    run("ip", "netns", "exec", host.netns, "sysctl", "-qw", "net.ipv4.tcp_ecn=1")


def first_sent(found):
    """Those with bytes that none before had: what is sent again is not ECT (RFC 3168, 6.1.5)."""
    ends: dict[int, int] = {}
    for segment in found:
        ahead = (segment.seq - ends.get(segment.sport, segment.seq)) % 2**32
        if segment.payload and not segment.flags & 2 and ahead < 2**31:
            ends[segment.sport] = (segment.seq + segment.payload) % 2**32
            yield segment


@pytest.mark.parametrize("to", [B, B6])
def test_ecn_and_checksums_stay_right_where_dscps_change_and_sacks_are_hidden(pair, to):
    a, b = pair
    tagger = a.tagger(policy(Mode.QCLIMB))
    for host in pair:
        without_offload(host)
    talk(a, b, size=250_000, to=to)
    pcap = max(a.bench.path.glob("*.pcap"), key=lambda path: path.stat().st_mtime)
    found = segments(pcap)
    assert {segment.ecn for segment in first_sent(found)} <= {2, 3}
    assert all(header_is_valid(frame) for frame in frames(pcap) if frame[12:14] == b"\x08\x00")
    assert tagger.counts()["tagged"] > 100
    assert tagger.counts()["hidden"] > 0
    for host in pair:
        assert host.counter("TcpInCsumErrors") == host.counter("IpExtInCsumErrors") == 0
