"""PDQ, RCP and D3: one flow alone, orders and shares held to their optima, deadlines, and what ends a flow."""

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest

from lab.sim import (
    D3,
    NAMED,
    Experiment,
    ExperimentError,
    FlowList,
    Leaves,
    Pdq,
    Rcp,
    Tcp,
    Topology,
    Watch,
    Workload,
    run,
    single_rooted_tree,
    star,
)
from lab.sim.optimum import fair_sharing, shortest_first
from lab.sim.schemes import changed

HEADER = 56
STAR = star(12, 10**9, 25_100)
TREE = single_rooted_tree()
RATED = ("pdq", "pdq-basic", "pdq-es", "pdq-es-et", "rcp", "d3")


def flows(sizes, sources=None, starts=None, deadlines=None, target=0):
    n = len(sizes)
    return FlowList(
        np.zeros(n, np.int64) if starts is None else np.asarray(starts, np.int64),
        np.asarray(sizes, np.int64),
        np.arange(1, n + 1) if sources is None else np.asarray(sources, np.int64),
        np.full(n, target, np.int64),
        deadline_ps=None if deadlines is None else np.asarray(deadlines, np.int64),
    )


def over(scheme, found, topology=STAR, checked=True):
    scheme = NAMED[scheme] if isinstance(scheme, str) else scheme
    return run(Experiment(topology, scheme, found, header_bytes=HEADER), checked=checked)


@pytest.mark.parametrize("scheme", RATED)
@pytest.mark.parametrize("topology", [STAR, TREE])
@pytest.mark.parametrize("size", [1, 1460, 100_000, 1_000_000])
def test_one_flow_alone_takes_its_ideal_time_and_a_round_trip_of_headers(scheme, topology, size):
    found = over(scheme, flows([size]), topology)
    hops = 2 if topology is STAR else 2 + 2 * (1 // topology.hosts_per_leaf != 0)
    asked_ps = 2 * hops * (HEADER * 8_000 + 25_100_000)
    assert found.received_ps[0] == found.ideal_ps[0] + asked_ps
    assert found.sent[0] == -(-size // 1460) and sum(found.counters.drops_at.values()) == 0


def test_pdq_serves_the_shortest_first_and_rcp_shares():
    sizes = np.array([3_000_000, 1_000_000, 2_000_000])
    wire = sizes * 1516 / 1460
    pdq, rcp = over("pdq", flows(sizes)), over("rcp", flows(sizes))
    assert pdq.fct_us / 1e6 == pytest.approx(shortest_first(wire, 1e9), rel=0.08)
    assert rcp.fct_us / 1e6 == pytest.approx(fair_sharing(wire, 1e9), rel=0.04)
    assert over("d3", flows(sizes)).fct_us == pytest.approx(rcp.fct_us, rel=0.03)


def test_five_flows_of_a_megabyte_follow_each_other_without_a_gap_or_a_drop():
    found = over("pdq", flows([1_000_000 + 100 * n for n in range(5)]))
    assert found.fct_us.max() < 42_900  # Fig. 6: 40 ms of data, about 42
    assert sum(found.counters.drops_at.values()) == 0 and found.counters.peak_packets < 80
    basic = over("pdq-basic", flows([1_000_000 + 100 * n for n in range(5)]))
    assert basic.fct_us.max() > found.fct_us.max()


def test_a_burst_of_short_flows_preempts_a_long_one_which_then_goes_on():
    sizes = [10_000_000, *[20_000 + n for n in range(10)]]
    found = over("pdq", flows(sizes, starts=[0] + [10 * 10**9] * 10))
    assert found.received_ps[1:].max() < 15 * 10**9
    alone = over("pdq", flows(sizes[:1]))
    late_us = found.fct_us[0] - alone.fct_us[0]
    assert 1_600 < late_us < 6_000  # 1.7 ms of the others' bytes


def test_a_link_begins_more_short_flows_than_one_a_round_trip():
    n, round_trip_us, between_us = 300, 8 * 25.1, 150
    starts = np.cumsum(np.random.default_rng(3).exponential(between_us * 1e6, n))
    one_rack = FlowList(
        starts.astype(np.int64), np.full(n, 1460, np.int64), np.arange(n) % 3, 3 + np.arange(n) % 3
    )  # of a packet each, over one uplink that is busy 8 % of the time
    assert over("pdq", one_rack, TREE, checked=False).fct_us.max() < 10 * round_trip_us


@pytest.mark.parametrize("scheme", [*RATED, "mpdq", "flow-pdq"])
def test_where_a_round_trip_is_shorter_than_a_packet_flows_end(scheme):
    """Under PDQ none did: a rate below a packet a round trip is none, and here that was the whole link."""
    found = run(Experiment(star(12, 10**9, 1_000), NAMED[scheme], flows([100_000] * 6), header_bytes=HEADER, end_s=1.0))
    assert (found.received_ps > 0).all()


def test_a_host_whose_flows_take_turns_does_not_queue_behind_itself():
    """Without early start, which lets two overlap. Told by its ACKs alone that its own link paused it, a flow
    would go on for a round trip: 9 packets would wait."""
    found = flows([3_000_000, 500_000, 100_000], sources=[1, 1, 1], starts=[0, 5 * 10**9, 6 * 10**9], target=0)
    seen = run(Experiment(TREE, Pdq(early_start_rtts=0), found, header_bytes=HEADER, watch=Watch(1, 100.0)))
    assert max(seen.counters.watched["queue_bytes"]) < 4 * 1516
    assert seen.fct_us[2] < seen.fct_us[1] < seen.fct_us[0]


@pytest.mark.parametrize("scheme", RATED)
def test_nobody_is_forgotten(scheme):
    """No deadlock: whatever crosses whatever, all flows end. What no list remembers may wait beyond a timeout."""
    fabric = Topology(4, 1, 3, 10**9, 10**9, 25_100, 25_100)
    wanted = Experiment(fabric, NAMED[scheme], Workload("imc10_pkts"), load=0.9, flows=300, header_bytes=HEADER)
    found = run(wanted, checked=True)
    assert (found.received_ps > 0).all()
    assert found.duplicates.sum() == found.retransmissions.sum() <= len(found.received_ps) / 50


def test_a_link_remembers_at_most_twice_as_many_as_are_sending():
    """Whatever room it is given beyond that: M bounds 2 kappa, and does not replace it (PDQ, section 3.3.1)."""
    of = flows([100_000] * 11)
    wide, twice = over(Pdq(list_flows=10**6), of), over(Pdq(list_flows=0), of)
    assert (wide.received_ps == twice.received_ps).all()
    assert (over(Pdq(list_flows=1), of).received_ps != twice.received_ps).any()


def test_several_spines_lead_answers_back_the_same_way():
    fabric = Topology(3, 2, 4, 10**9, 10**9, 25_100, 25_100)
    wanted = Experiment(fabric, Pdq(), Workload("imc10_pkts"), load=0.7, flows=200, header_bytes=HEADER)
    assert (run(wanted, checked=True).received_ps > 0).all()


@pytest.mark.parametrize("scheme", [Pdq(), Rcp(), D3()])
def test_what_is_lost_goes_again(scheme):
    found = over(replace(scheme, buffer_bytes=3_000, timeout_us=500), flows([200_000] * 8))
    assert (found.received_ps > 0).all() and sum(found.counters.drops_at.values()) > 0


def met(found, deadlines):
    return (found.received_ps >= 0) & (found.received_ps <= np.asarray(deadlines))


def in_each_order(scheme):
    """Figure 1: sizes 1, 2, 3, deadlines 1, 4, 6 (with room for headers and two round trips); how many orders of
    arrival leave all in time."""
    sizes, deadlines = np.array([1, 2, 3]) * 1_000_000, np.array([1, 4, 6]) * 8.0e9 * 1.08 + 1e9
    good = 0
    for order in permutations(range(3)):
        order = list(order)
        due = deadlines[order].astype(np.int64)
        found = over(scheme, flows(sizes[order], starts=[0, 10**7, 2 * 10**7], deadlines=due))
        good += bool(met(found, due).all())
    return good


def test_earliest_deadline_first_meets_all_in_any_order_and_first_come_first_reserved_does_not():
    assert in_each_order("pdq") == 6
    assert in_each_order(D3(terminates=False)) <= 3


def test_who_cannot_be_in_time_ends_and_leaves_the_link_to_others():
    deadlines = [10 * 10**9, 12 * 10**9]  # 8.4 ms of data each
    found = over("pdq", flows([1_000_000, 1_000_000], deadlines=deadlines))
    assert met(found, deadlines).tolist() == [True, False]
    assert found.received_ps[1] == -1 and found.sent[1] < 300
    kept = over("pdq-es", flows([1_000_000, 1_000_000], deadlines=deadlines))
    assert (kept.received_ps > 0).all() and met(kept, deadlines).tolist() == [True, False]


@pytest.mark.parametrize("scheme, all_ms", [("pdq", [6, 11, 16, 21]), ("d3", [20, 21, 22, 23])])
def test_a_deadline_that_can_be_met_is(scheme, all_ms):
    sizes = [500_000] * 4
    deadlines = np.array(all_ms) * 10**9
    assert met(over(scheme, flows(sizes, deadlines=deadlines)), deadlines).all()


def test_a_deadline_goes_before_a_size():
    found = over("pdq", flows([1_000_000, 3_000_000], deadlines=[0, 30 * 10**9]))
    assert found.received_ps[1] < found.received_ps[0]


def test_criticality_may_be_drawn_or_go_by_what_was_sent():
    sizes = [300_000 * (n + 1) for n in range(6)]
    exact, sent, drawn = (over(Pdq(criticality=word), flows(sizes)) for word in ("size", "sent", "random"))
    for found in (sent, drawn):
        assert (found.received_ps > 0).all() and found.fct_us.mean() >= 0.99 * exact.fct_us.mean()
    assert sent.fct_us[0] < sent.fct_us[-1]


def test_a_short_list_leaves_the_rest_to_sharing():
    found = over(Pdq(list_flows=1), flows([100_000] * 8))
    assert (found.received_ps > 0).all()


def test_stock_switches_serve_the_nearest_deadline_first():
    tcp = replace(NAMED["deadline"], buffer_bytes=4 * 10**6, host_buffer_bytes=4 * 10**6)
    assert isinstance(tcp, Tcp)
    deadlines = [40 * 10**9, 12 * 10**9]
    both = flows([1_000_000, 1_000_000], deadlines=deadlines)
    plain = run(Experiment(STAR, replace(tcp, tagging="none"), both), checked=True)
    found = run(Experiment(STAR, tcp, both), checked=True)
    assert not met(plain, deadlines)[1] and met(found, deadlines).all()


@pytest.mark.parametrize(
    "words, named",
    [
        (["criticality=longest"], "scheme.criticality is 'longest', expected one of size, random, sent"),
        (["early_start_rtts=-1"], "scheme.early_start_rtts is -1"),
        (["list_flows=-1"], "scheme.list_flows is -1"),
        (["terminate=1"], "did you mean terminates"),
    ],
)
def test_settings_that_can_not_be_are_named(words, named):
    with pytest.raises(ExperimentError, match=named):
        changed(NAMED["pdq"], words)


def test_what_can_not_be_run_is_said():
    with pytest.raises(ExperimentError, match=r"workload.deadline_ps\[1\] is 5, expected 0 or more than start_ps\[1\]"):
        flows([1, 1], starts=[0, 5], deadlines=[0, 5])
    with pytest.raises(ExperimentError, match="a flow of scheme pdq keeps to one path"):
        Experiment(Topology(), Pdq(), Workload(forecast=Leaves()), routing="spray")
    with pytest.raises(ExperimentError, match="scheme rcp has no priorities"):
        Experiment(Topology(), Rcp(), routing="priority")


@pytest.mark.parametrize("scheme", ["pdq", "mpdq", "rcp", "d3"])
def test_a_lost_packet_goes_again_while_the_flow_still_sends(scheme):
    """Each packet has a timer of its own (PDQ, section 3.1): loss costs the bytes sent again, and a wait at the end."""
    timeout_us, loss = 600.0, 0.02
    lossy = replace(NAMED[scheme], timeout_us=timeout_us)
    whole, found = (
        run(Experiment(STAR, lossy, flows([10_000_000]), header_bytes=HEADER, losses=losses), checked=True)
        for losses in ((), ((12, loss),))
    )
    assert found.drops[0] > 50 and found.timeouts[0] == found.drops[0] and found.duplicates[0] == 0
    waited_us = found.fct_us[0] - whole.fct_us[0] * found.sent[0] / whole.sent[0]
    assert waited_us < 3 * timeout_us
