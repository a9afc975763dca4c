"""The engine: time, order, work and memory, on small fabrics with every invariant switched on."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.sim import (
    Experiment,
    FlowList,
    Incast,
    Pfabric,
    SimulationError,
    Topology,
    Workload,
    run,
    single_rooted_tree,
    star,
)

SMALL = Topology(leaves=3, spines=2, hosts_per_leaf=4)
WIDE = Pfabric(initial_window=100_000, max_window=100_000, buffer_bytes=10**9, timeout_us=10**6)


def flow_list(*rows):
    """Flows of (start_ps, size, source, target)."""
    return FlowList(*(np.array(column, np.int64) for column in zip(*rows, strict=True)))


def ideal_by_hand(size, path, payload=1460, header=40):
    """Every packet through every hop of a path of (ps per byte, delay in ps), one by one."""
    packets = [payload] * (size // payload) + ([size % payload] if size % payload else [])
    free = [0] * len(path)
    for packet in packets:
        at = 0
        for hop, (rate, delay) in enumerate(path):
            gone = max(at, free[hop]) + (packet + header) * rate
            free[hop], at = gone, gone + delay
    return at


@given(
    size=st.integers(1, 200_000),
    rates=st.sampled_from([(10, 40), (40, 100), (40, 10), (1, 1), (25, 400)]),
    delays=st.tuples(st.integers(0, 5000), st.integers(0, 5000)),
    far=st.booleans(),
)
@settings(max_examples=settings.default.max_examples // 4)
def test_one_flow_alone_takes_its_ideal_fct_to_the_picosecond(size, rates, delays, far):
    topology = Topology(2, 2, 2, rates[0] * 10**9, rates[1] * 10**9, *delays)
    slow, fast = 8000 // rates[0], 8000 // rates[1]
    edge, core = delays[0] * 1000, delays[1] * 1000
    path = [(slow, edge), (fast, core), (fast, core), (slow, edge)] if far else [(slow, edge), (slow, edge)]
    found = run(Experiment(topology, WIDE, flow_list((7, size, 0, 3 if far else 1)), flows=1))
    assert found.received_ps[0] - 7 == ideal_by_hand(size, path)
    assert found.ideal_ps[0] == ideal_by_hand(size, path)


def test_equal_seeds_give_equal_bytes_and_others_do_not():
    experiment = Experiment(SMALL, load=0.8, flows=80)
    first, again = run(experiment), run(experiment)
    other = run(dataclasses.replace(experiment, seed=2))
    for column in dataclasses.fields(first):
        if column.name != "counters":
            assert getattr(first, column.name).tobytes() == getattr(again, column.name).tobytes()
    assert first.counters.events == again.counters.events
    assert first.received_ps.tobytes() != other.received_ps.tobytes()


@pytest.mark.parametrize("routing", ["ecmp", "spray"])
def test_invariants_hold_at_every_event_under_overload(routing):
    experiment = Experiment(SMALL, load=1.3, flows=50, routing=routing)
    found = run(experiment, checked=True)
    assert (found.received_ps > 0).all()
    assert found.counters.delivered_packets + sum(found.counters.drops_at.values()) == found.counters.data_packets
    assert found.drops.sum() == sum(found.counters.drops_at.values()) > 0


def test_the_checked_engine_and_the_fast_one_give_the_same():
    experiment = Experiment(SMALL, load=0.9, flows=40)
    assert run(experiment).acked_ps.tobytes() == run(experiment, checked=True).acked_ps.tobytes()


def test_a_bottleneck_is_never_idle_while_flows_wait():
    # Five senders of 1 MB each into one host, all at once: the last byte comes when the link has carried them all.
    packets = -(-1_000_000 // 1460)
    flows = flow_list(*[(0, 1_000_000, sender, 5) for sender in range(5)])
    found = run(Experiment(star(6), WIDE, flows, flows=5))
    wire = 5 * (1_000_000 + 40 * packets) * 800
    first = 1500 * 800 + 2 * 1_450_000
    assert found.received_ps.max() == wire + first


def test_the_flow_with_the_fewest_bytes_left_goes_first():
    flows = flow_list((0, 3_000_000, 0, 3), (0, 2_000_000, 1, 3), (0, 1_000_000, 2, 3))
    found = run(Experiment(star(4), WIDE, flows, flows=3), checked=True)
    assert found.received_ps[2] < found.received_ps[1] < found.received_ps[0]
    # The shortest one loses at most what was on the wire before its first packets came.
    assert found.slowdown[2] < 1.01


def test_memory_holds_flows_under_way_and_not_all_of_them():
    tiny = Workload("homa_w1_fbkv_bytes")
    found = run(Experiment(SMALL, workload=tiny, load=0.5, flows=200_000))
    assert (found.received_ps > 0).all()
    assert found.counters.peak_flows < 2_000
    assert found.counters.peak_rss_kib < 32 * 1024


def test_a_run_can_end_before_its_flows():
    found = run(Experiment(SMALL, load=0.8, flows=300, end_s=0.002))
    unfinished = found.received_ps < 0
    assert unfinished.any() and not unfinished.all()
    assert np.isnan(found.fct_us[unfinished]).all()
    assert found.received_ps.max() <= 2_000_000_000


def test_trees_and_incasts_run():
    found = run(Experiment(single_rooted_tree(), workload=Workload(matrix=Incast(2)), load=0.5, flows=20), checked=True)
    assert (found.target == 2).all() and (found.received_ps > 0).all()


def test_spray_uses_all_spines_and_shares_are_kept():
    fast = Topology(leaves=2, spines=4, hosts_per_leaf=2, uplink_rate_bps=10 * 10**9)
    flows = flow_list(*[(0, 3_000_000, sender, 2 + sender) for sender in range(2)])
    sprayed = run(Experiment(fast, WIDE, flows, flows=2, routing="spray"))
    one = run(Experiment(fast, WIDE, flows, flows=2, spine_shares=(0, 1, 0, 0)))
    assert sprayed.slowdown.max() < 1.01
    assert one.slowdown.max() > 1.9


def test_a_list_that_goes_back_in_time_is_refused_by_the_engine_too():
    from lab.sim.engine import Process
    from lab.sim.wire import FLOW

    flows = np.zeros(2, FLOW)
    flows["size_bytes"], flows["target"], flows["start_ps"] = 1, 1, [5, 4]
    with pytest.raises(SimulationError, match="flow 1: start_ps is 4, expected at least the start ahead"):
        list(Process(Experiment(SMALL, flows=2).settings(), [flows]))


@pytest.mark.parametrize("topology", [Topology(), star(12, 10**9, 25_100)])
def test_a_flow_that_starts_late_takes_what_it_takes_at_once(topology):
    late, now = (
        run(Experiment(topology, Pfabric(), FlowList(*(np.array([x]) for x in (start, 100_000, 1, 0)))), checked=True)
        for start in (2**61, 0)
    )
    assert late.fct_us[0] == now.fct_us[0]
