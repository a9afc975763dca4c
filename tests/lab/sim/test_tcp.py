"""TCP over priority queues: the rule that tags is the hosts', losses are found, nothing overtakes where it must not."""

from dataclasses import replace

import numpy as np
import pytest

from lab.sim import NAMED, Exact, Experiment, FlowList, Leaves, Tcp, Topology, Workload, run, star

SMALL = Topology(leaves=3, spines=2, hosts_per_leaf=4)
THRESHOLDS = (20_000, 50_000, 200_000)
PIAS = replace(NAMED["pias"], thresholds_bytes=THRESHOLDS)
QCLIMB = replace(NAMED["qclimb"], thresholds_bytes=THRESHOLDS, slack_bytes=10_000)


def one(size, lower=0, upper=2**64 - 1):
    flow = [np.array([value]) for value in (0, size, 0, 1)]
    return FlowList(*flow, *(np.array([value], np.uint64) for value in (lower, upper, size)))


def test_one_flow_alone_takes_its_ideal_fct_to_the_picosecond():
    wide = Tcp(initial_window=10_000, max_window=10_000, buffer_bytes=10**9, host_buffer_bytes=10**9, dctcp=False)
    for scheme in (wide, replace(wide, tagging="pias"), replace(wide, tagging="qclimb-ps", reordering="receiver")):
        # One window and no marks. Under -ps the flow would overtake itself on the way, were its path not one.
        found = run(Experiment(SMALL, scheme, one(30_000), flows=1), checked=True)
        assert found.received_ps[0] == found.ideal_ps[0]


def tagged_by_the_paper(size, lower, upper, slack):
    """Packets of each priority, by the scan that QCLIMB's Algorithm 1 prints."""
    begin = (0, *THRESHOLDS)

    def queue_of(number):
        return next(p for p in range(len(begin) - 1, -1, -1) if begin[p] <= number)

    counts = [0] * len(begin)
    for sent in range(0, size, 1460):
        if sent < lower:
            p = queue_of(lower - sent)
        elif sent < lower + slack:
            p = 0
        elif sent < upper:
            p = queue_of(sent)
        else:
            p = len(begin) - 1
        counts[p] += 1
    return counts


@pytest.mark.parametrize(
    ("size", "lower", "upper"),
    [(500_000, 0, 2**64 - 1), (500_000, 300_000, 400_000), (500_000, 500_000, 500_000), (30_000, 25_000, 60_000)],
)
def test_packets_have_the_priorities_of_algorithm_1(size, lower, upper):
    found = run(Experiment(SMALL, QCLIMB, one(size, lower, upper), flows=1))
    packets = found.counters.priority_packets
    expected = tagged_by_the_paper(size, lower, upper, 10_000)
    acks = -(-size // 1460)
    assert packets[:4].tolist() == [expected[0] + acks, *expected[1:]]


def test_pias_and_perfect_sizes_are_settings_of_qclimb():
    workload = Workload(forecast=Exact())
    experiment = Experiment(SMALL, workload=workload, load=0.7, flows=80)
    bare = replace(QCLIMB, slack_bytes=0)
    perfect = run(replace(experiment, scheme=replace(bare, tagging="qclimb-ps")))
    assert perfect.received_ps.tobytes() == run(replace(experiment, scheme=bare)).received_ps.tobytes()
    unknown = replace(experiment, workload=Workload())
    pias = run(replace(unknown, scheme=replace(bare, tagging="pias")))
    assert pias.received_ps.tobytes() == run(replace(unknown, scheme=bare)).received_ps.tobytes()
    assert pias.received_ps.tobytes() != perfect.received_ps.tobytes()


@pytest.mark.parametrize("name", sorted(name for name, scheme in NAMED.items() if isinstance(scheme, Tcp)))
def test_every_scheme_finishes_all_flows_with_small_buffers_and_keeps_the_invariants(name):
    tight = replace(NAMED[name], buffer_bytes=30_000, host_buffer_bytes=60_000, mark_bytes=0, uplink_mark_bytes=0)
    experiment = Experiment(SMALL, tight, Workload(forecast=Leaves()), load=0.9, flows=40)
    found = run(experiment, checked=True)
    assert (found.received_ps > 0).all()
    assert sum(found.counters.drops_at.values()) > 100
    assert found.slowdown.min() >= 1


def test_losses_are_found_by_priority_without_waiting_for_the_timeout():
    tight = replace(QCLIMB, buffer_bytes=30_000, mark_bytes=0, uplink_mark_bytes=0, least_timeout_us=5_000)
    experiment = Experiment(SMALL, tight, Workload(forecast=Leaves()), load=0.8, flows=300)
    told = run(experiment)
    blind = run(replace(experiment, scheme=replace(tight, reordering="tcp", duplicate_acks=0)))
    assert told.timeouts.sum() < 0.5 * blind.timeouts.sum()
    assert np.nanmean(told.fct_us) < np.nanmean(blind.fct_us)


def test_no_flow_overtakes_itself_after_a_drain_and_by_default_tcp_takes_overtaking_for_loss():
    patient = {"least_timeout_us": 10**6, "first_timeout_us": 10**6, "thresholds_bytes": THRESHOLDS}
    experiment = Experiment(SMALL, workload=Workload(forecast=Leaves()), load=0.8, flows=300)
    drained, default, receiver = (
        run(replace(experiment, scheme=replace(NAMED[name], **patient, promote_wait_us=10**6)))
        for name in ("qclimb-drain", "qclimb-tcp", "qclimb")
    )
    for found in (drained, default, receiver):
        assert sum(found.counters.drops_at.values()) == 0
    assert drained.retransmissions.sum() == 0
    assert receiver.retransmissions.sum() == 0
    assert default.retransmissions.sum() > 0


def test_a_wait_for_a_promotion_is_bounded():
    # Packets that must wait behind an elephant: the promotion is given up, not waited for.
    flows = FlowList(
        np.array([0, 1_000_000]),
        np.array([20_000_000, 400_000]),
        np.array([0, 1]),
        np.array([2, 2]),
        lower_bytes=np.array([0, 400_000], np.uint64),
    )
    scheme = replace(NAMED["qclimb-drain"], thresholds_bytes=THRESHOLDS, least_timeout_us=10**6, first_timeout_us=10**6)
    quick = run(Experiment(star(3), replace(scheme, promote_wait_us=1), flows, flows=2), checked=True)
    patient = run(Experiment(star(3), replace(scheme, promote_wait_us=10**6), flows, flows=2), checked=True)
    assert quick.counters.priority_packets[2] < patient.counters.priority_packets[2]
    assert quick.received_ps[1] != patient.received_ps[1]


def test_dctcp_keeps_the_queue_at_its_marks_where_plain_tcp_fills_the_buffer():
    flows = FlowList(*(np.array(column) for column in ([0, 0], [20_000_000] * 2, [0, 1], [2, 2])))
    dctcp = run(Experiment(star(3), NAMED["dctcp"], flows, flows=2))
    plain = run(Experiment(star(3), NAMED["tcp"], flows, flows=2))
    assert sum(dctcp.counters.drops_at.values()) == 0 < sum(plain.counters.drops_at.values())
    assert dctcp.counters.marks > 0 == plain.counters.marks
    # Both carry 40 MB over one link: neither leaves it idle for more than a few per cent.
    assert dctcp.received_ps.max() < 1.03 * 40e6 * 1500 / 1460 * 800


def test_reserved_bytes_keep_a_place_for_every_priority():
    thresholds = (30_000,)
    base = replace(PIAS, thresholds_bytes=thresholds, buffer_bytes=60_000, mark_bytes=0, uplink_mark_bytes=0)
    elephants = [(0, 3_000_000, sender, 9) for sender in range(8)]
    mice = [(2_000_000_000 + n * 200_000_000, 14_600, 8, 9) for n in range(30)]
    flows = FlowList(*(np.array(column) for column in zip(*elephants, *mice, strict=True)))
    shared = run(Experiment(star(10), base, flows, flows=38), checked=True)
    reserved = run(Experiment(star(10), replace(base, reserved_bytes=20_000), flows, flows=38), checked=True)
    assert shared.drops[8:].sum() > 0 == reserved.drops[8:].sum()


def test_shares_of_the_buffer_belong_to_their_queues():
    base = replace(PIAS, thresholds_bytes=(30_000,), buffer_bytes=90_000, mark_bytes=0, uplink_mark_bytes=0)
    elephants = [(0, 3_000_000, sender, 9) for sender in range(8)]
    mice = [(2_000_000_000 + n * 500_000_000, 2_920, sender, 9) for n in range(12) for sender in range(8)]
    flows = FlowList(*(np.array(column) for column in zip(*elephants, *mice, strict=True)))

    def lost(shares: float | tuple[float, ...]) -> int:
        found = run(Experiment(star(10), replace(base, dynamic_alpha=shares), flows, flows=104), checked=True)
        return int(found.drops[8:].sum())

    assert (
        lost((8.0, 8.0)) == lost(8.0) > 0
    )  # the elephants' queue holds 8/9 of the port: no room for 16 packets at once
    assert lost((8.0, 1.0)) == 0 < lost((0.25, 1.0))  # half of it is free; a quarter of that is too little


def test_a_port_has_a_share_for_each_queue_of_a_big_spine():
    topology = Topology(leaves=2, spines=2, hosts_per_leaf=4)
    scheme = replace(NAMED["pias"], thresholds_bytes=(50_000, 90_000, 200_000), dynamic_alpha=(1.0, 8.0))
    assert run(Experiment(topology, scheme, flows=20, routing="priority"), checked=True).received_ps.all()


def test_a_big_spine_gives_each_priority_but_the_last_a_spine_of_its_own():
    # Uplinks as slow as hosts: priority 0's spine carries four flows' beginnings, priority 1's the rest of them.
    topology = Topology(leaves=2, spines=2, hosts_per_leaf=4, uplink_rate_bps=10 * 10**9)
    senders = np.arange(4)
    flows = FlowList(senders * 0, senders * 0 + 100_000, senders, senders + 4)
    quiet = {"dctcp": False, "duplicate_acks": 0, "buffer_bytes": 10**7, "host_buffer_bytes": 10**7}
    scheme = replace(NAMED["pias"], thresholds_bytes=(50_000, 90_000), initial_window=100, **quiet)
    experiment = Experiment(topology, scheme, flows, routing="priority", spine_shares=(1, 0))
    found = run(experiment, checked=True)
    packets = found.counters.priority_packets
    assert packets[1] == 4 * 27 and packets[2] == 4 * 7  # packets that begin in [50,000, 90,000) and from there on
    # Spine 0 carries priorities 0 and 2, spine 1 priority 1 alone: what is left is the longer of the two.
    on_spine_0 = 4 * (100_000 - 27 * 1460 + 42 * 40) * 800
    assert on_spine_0 < found.received_ps.max() < 1.1 * on_spine_0


def test_a_port_of_a_host_marks_only_where_it_is_told_to():
    # Ten flows of one host to ten others: what waits, waits in the host's own port.
    each = np.arange(10)
    flows = FlowList(each * 0, each * 0 + 300_000, each * 0, each + 1)
    told_to, not_told = (
        run(Experiment(star(11), replace(NAMED["dctcp"], hosts_mark=hosts_mark), flows)) for hosts_mark in (True, False)
    )
    assert told_to.counters.marks > 0 == not_told.counters.marks


def test_acks_take_all_spines_of_a_big_spine():
    # Rack 1 fills spine 0's link with priority 0; on the other spine ACKs towards rack 0 meet nobody.
    topology = Topology(leaves=2, spines=2, hosts_per_leaf=4, uplink_rate_bps=10 * 10**9)
    large = [(0, 60_000, 4 + n, n) for n in range(4)]
    small = [(60_000_000 + 5_000_000 * n, 1_460, n % 4, 4 + n % 4) for n in range(20)]
    flows = FlowList(*(np.array(column) for column in zip(*large, *small, strict=True)))
    scheme = replace(NAMED["pias"], dctcp=False, thresholds_bytes=(10**6, 2 * 10**6), initial_window=100)
    found = run(Experiment(topology, scheme, flows, routing="priority"), checked=True)
    back_us = (found.acked_ps - found.received_ps)[4:] / 1e6
    assert 5 <= (back_us < 7).sum() <= 15  # alone: four hops of 1.48 us


def test_a_flow_without_bounds_goes_by_what_it_has_sent_where_others_have_bounds():
    mixed = replace(QCLIMB, tagging="qclimb-mixed")
    counts = {
        name: run(Experiment(SMALL, scheme, flow), checked=True).counters.priority_packets[:4].tolist()
        for name, scheme, flow in (
            ("mixed, nothing known", mixed, one(300_000)),
            ("pias", replace(QCLIMB, tagging="pias"), one(300_000)),
            ("mixed, known", mixed, one(300_000, 100_000, 310_000)),
            ("qclimb", QCLIMB, one(300_000, 100_000, 310_000)),
        )
    }
    assert counts["mixed, nothing known"] == counts["pias"] != counts["qclimb"] == counts["mixed, known"]
