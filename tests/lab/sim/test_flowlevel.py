"""The flow level beside packets, and what PDQ promises (SIGCOMM'12, section 4)."""

from dataclasses import replace

import numpy as np
import pytest

from lab.sim import (
    NAMED,
    BCube,
    Experiment,
    ExperimentError,
    FatTree,
    FlowLevel,
    FlowList,
    Pdq,
    SimulationError,
    Watch,
    Workload,
    run,
    single_rooted_tree,
    star,
)

STAR = star(12, 10**9, 25_100)
TREE = single_rooted_tree()


def flows(sizes, deadlines_ms=None, targets=None):
    n = len(sizes)
    due = None if deadlines_ms is None else np.array(deadlines_ms, np.int64) * 10**9
    target = np.zeros(n, np.int64) if targets is None else np.array(targets)
    return FlowList(np.zeros(n, np.int64), np.array(sizes), np.arange(1, n + 1), target, deadline_ps=due)


def over(scheme, found, fabric=STAR, **more):
    return run(Experiment(fabric, scheme, found, header_bytes=56, **more))


@pytest.mark.parametrize("rule", ["pdq", "rcp", "d3"])
@pytest.mark.parametrize("fabric", [STAR, TREE, FatTree(k=4), BCube()], ids=["star", "tree", "fat-tree", "bcube"])
def test_flows_and_packets_agree_within_a_twentieth(rule, fabric):
    found = flows([2_000_000, 3_000_000, 1_000_000, 4_000_000, 2_500_000])
    level, packets = over(NAMED[f"flow-{rule}"], found, fabric), over(NAMED[rule], found, fabric)
    assert level.fct_us.mean() == pytest.approx(packets.fct_us.mean(), rel=0.05)


@pytest.mark.parametrize("rule", ["pdq", "rcp", "d3"])
@pytest.mark.parametrize("fabric", [STAR, TREE, FatTree(k=4), BCube()], ids=["star", "tree", "fat-tree", "bcube"])
def test_eleven_flows_to_one_host_take_as_long_with_packets_within_a_twentieth(rule, fabric):
    """Whoever waits begins in the order of what is left: links that let anybody begin were 7 to 9 % late here."""
    found = flows(np.random.default_rng(1).integers(2_000, 1_998_000, 11))
    level, packets = over(NAMED[f"flow-{rule}"], found, fabric), over(NAMED[rule], found, fabric)
    assert level.fct_us.mean() == pytest.approx(packets.fct_us.mean(), rel=0.05)


def pair(random, mean):
    return STAR, np.ones(10, np.int64), np.zeros(10, np.int64)


def incast(random, mean):
    return STAR, np.arange(1, 11), np.zeros(10, np.int64)


def permutation(random, mean):
    hosts = random.permutation(16)
    return FatTree(k=4), np.repeat(hosts, 10), np.repeat(np.roll(hosts, 1), 10)


def packets_over_level(rule, scene, mean, level=None):
    """Mean FCT of ten flows a sender that begin at once, with packets beside the flow level: the mean of three sets."""
    level = level or NAMED[f"flow-{rule}"]
    found = []
    for seed in (1, 2, 3):
        random = np.random.default_rng((seed, mean))
        fabric, source, target = scene(random, mean)
        size = random.integers(2_000, 2 * mean - 2_000, len(source), endpoint=True)
        of = FlowList(np.zeros(len(size), np.int64), size, source, target)
        found.append(over(NAMED[rule], of, fabric).fct_us.mean() / over(level, of, fabric).fct_us.mean())
    return np.mean(found)


@pytest.mark.parametrize("scene", [pair, incast])
def test_over_one_bottleneck_the_flow_level_of_pdq_takes_as_long_as_packets(scene):
    """Within 3 % for flows of 1 MB. Of 100 KB, a few round trips long, packets take up to a fifth longer."""
    assert packets_over_level("pdq", scene, 1_000_000) == pytest.approx(1, abs=0.03)
    assert 1 < packets_over_level("pdq", scene, 100_000) < 1.2


def test_over_several_bottlenecks_packets_of_pdq_take_longer_than_the_flow_level_says():
    """Links agree on who sends by round trips, behind queues; the flow level knows at once. The aim was 5 %: missed."""
    assert 1 < packets_over_level("pdq", permutation, 1_000_000) < 1.18
    assert 1 < packets_over_level("pdq", permutation, 100_000) < 1.45


def test_by_the_papers_steps_of_1_ms_the_flow_level_comes_near_to_packets_of_flows_that_take_several():
    """Links stand idle until the next step, as they do until flows have agreed. Flows of 100 KB take less than one."""
    steps = FlowLevel(step_ms=1)
    assert packets_over_level("pdq", permutation, 1_000_000, steps) == pytest.approx(1, abs=0.08)
    assert packets_over_level("pdq", permutation, 100_000, steps) < 0.85


def test_who_begins_and_for_whom_another_made_room_waits_for_the_next_step():
    found, alone = flows([100_000, 500_000]), flows([500_000])
    by_step, at_once = (over(FlowLevel(step_ms=step), found).received_ps / 1e9 for step in (1, 0))
    round_trip = 1 - (by_step[0] - at_once[0])
    assert 0 < round_trip < 0.2
    assert by_step[1] == pytest.approx(2 - round_trip + over(FlowLevel(), alone).received_ps[0] / 1e9, abs=1e-6)


@pytest.mark.parametrize("scene", [pair, incast, permutation])
def test_the_flow_level_of_rcp_takes_as_long_as_packets(scene):
    """Within 2 % for flows of 1 MB, where each link carries others' ACKs too: left out, they made 3 to 4 %."""
    assert packets_over_level("rcp", scene, 1_000_000) == pytest.approx(1, abs=0.02)


def test_over_a_fat_tree_packets_meet_nearly_the_deadlines_that_flows_meet_and_more_than_under_d3():
    """Two flows a server, 2 to 198 KB, at one moment. Were flows that come anew dampened, 3.0 % would be late, and
    of D3's 1.9 %: the most critical one would wait at one link after another."""
    random, fabric, rounds = np.random.default_rng(1), FatTree(k=4), 60
    hosts = [random.permutation(fabric.hosts) for _ in range(rounds)]
    source = np.concatenate([np.tile(order, 2) for order in hosts])
    target = np.concatenate([np.tile(np.roll(order, 1), 2) for order in hosts])
    start = np.repeat(np.arange(rounds) * 250 * 10**9, 32)
    due = start + np.rint(np.maximum(3, random.exponential(20, len(start))) * 1e9).astype(np.int64)
    found = FlowList(start, random.integers(2_000, 198_000, len(start)), source, target, deadline_ps=due)
    late = [1 - (over(s, found, fabric).received_ps > 0).mean() for s in (FlowLevel(), Pdq(), NAMED["d3"])]
    assert late[0] < late[1] < late[2] and late[1] < late[0] + 0.015


@pytest.mark.parametrize(("rule", "all_ms"), [("pdq", [6, 11, 16, 21]), ("d3", [20, 21, 22, 23])])
def test_deadlines_that_packets_meet_flows_meet(rule, all_ms):
    found = flows([500_000] * 4, all_ms)
    for scheme in (NAMED[f"flow-{rule}"], NAMED[rule]):
        assert (over(scheme, found).received_ps > 0).all()


def test_a_flow_alone_takes_as_long_as_its_packets():
    found = flows([100_000])
    assert over(FlowLevel(), found).fct_us == pytest.approx(over(Pdq(), found).fct_us, rel=0.01)


def test_thousands_of_flows_are_seconds_and_all_end():
    found = over(FlowLevel(), Workload("imc10_pkts"), FatTree(k=8), load=0.5, flows=3_000)
    assert (found.received_ps > 0).all() and found.counters.cpu_seconds < 60


def test_who_ages_starves_no_longer():
    sizes = [20_000_000, *[1_000_000] * 9]
    starts = np.r_[0, np.arange(9) * 7_000_000_000]
    found = FlowList(starts, np.array(sizes), np.arange(1, 11), np.zeros(10, np.int64))
    for young in (FlowLevel(), Pdq()):
        never, aged = over(young, found), over(replace(young, aging=100.0), found)
        assert aged.fct_us[0] < never.fct_us[0] and aged.fct_us.mean() > never.fct_us.mean()


def test_comparators_order_by_what_they_are_called():
    found = flows([1_000_000, 4_000_000], [200, 100])
    for young in (FlowLevel(), Pdq()):
        by = {word: over(replace(young, criticality=word), found).fct_us for word in ("size", "shortest", "earliest")}
        assert by["size"][1] < by["size"][0] and by["earliest"][1] < by["earliest"][0]
        assert by["shortest"][0] < by["shortest"][1]


@pytest.mark.parametrize("dampening", [0.0, 1.0])
@pytest.mark.parametrize("count", [2, 4, 8])
def test_a_stable_workload_converges_to_the_most_critical_flow_within_twenty_round_trips(count, dampening):
    """The paper proves P_max + 1, for links without queues, losses and dampening; here it was 15 at most."""
    found = flows([5_000_000 + 100 * n for n in range(count)])
    rtt_us = 2 * 2 * 25.1 + 2 * (1516 + 56) * 0.008
    seen = over(Pdq(dampening_rtts=dampening), found, STAR, end_s=0.02, watch=Watch(12, rtt_us))
    watched = seen.counters.watched
    assert watched is not None
    first, *others = [sum(flow[20:100]) for flow in watched["of_flow"]]
    assert first > 0.95 * (first + sum(others)) and first > 0.9 * 80 * rtt_us * 125
    assert max(watched["queue_bytes"][20:100]) < 10 * 1516  # no more is allocated than the link has


def test_flows_over_links_of_several_others_do_not_lock_each_other():
    """Each is paused by another link than it pauses others at: a ring over three racks."""
    fabric = single_rooted_tree(3, 2)
    start, size = np.zeros(6, np.int64), np.array([900_000, 800_000, 700_000, 600_000, 500_000, 400_000])
    ring = FlowList(start, size, np.array([0, 2, 4, 1, 3, 5]), np.array([2, 4, 0, 3, 5, 1]))
    for scheme in (Pdq(), Pdq(early_start_rtts=0), Pdq(list_flows=1), FlowLevel()):
        found = over(scheme, ring, fabric)
        assert (found.received_ps > 0).all() and found.fct_us.max() < 60_000


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: FlowLevel(rule="tcp"), "scheme.rule is 'tcp', expected one of pdq, rcp, d3"),
        (lambda: FlowLevel(criticality="age"), "scheme.criticality is 'age', expected one of size"),
        (lambda: FlowLevel(aging=-1), "scheme.aging is -1"),
        (lambda: FlowLevel(step_ms=-1), "scheme.step_ms is -1"),
        (lambda: Pdq(subflows=9), "scheme.subflows is 9"),
        (lambda: Experiment(STAR, FlowLevel(), watch=Watch(0)), "watch has a port, but scheme flow-pdq has no packets"),
        (lambda: Experiment(STAR, FlowLevel(), losses=((0, 0.1),)), "losses has a link, but scheme flow-pdq"),
        (lambda: Experiment(scheme=FlowLevel(), routing="spray"), "a flow of scheme flow-pdq keeps to one path"),
    ],
)
def test_what_can_not_be_is_said(make, sentence):
    with pytest.raises(ExperimentError, match=sentence):
        make()


def test_a_deadline_that_has_passed_and_a_size_of_nothing_are_refused():
    with pytest.raises(ExperimentError, match="deadline_ps"):
        FlowList(*(np.array([v]) for v in (5, 1, 0, 1)), deadline_ps=np.array([4]))
    with pytest.raises((ExperimentError, SimulationError), match=r"size_bytes\[0\] is 0"):
        FlowList(*(np.array([v]) for v in (0, 0, 0, 1)))
