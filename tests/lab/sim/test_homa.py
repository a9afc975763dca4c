"""Homa: one message alone is ideal, receivers serve the shortest first and never idle, losses are asked for."""

from dataclasses import replace

import numpy as np
import pytest

from lab.sim import Experiment, FlowList, Homa, Leaves, Pfabric, Topology, Workload, homa_for, run, star
from lab.sim.sizes import size_table

SMALL = Topology(leaves=3, spines=2, hosts_per_leaf=4)


def flows(*rows):
    return FlowList(*(np.array(column, np.int64) for column in zip(*rows, strict=True)))


@pytest.mark.parametrize("size", [1, 1460, 14_600, 100_000, 3_000_000])
def test_one_message_alone_takes_its_ideal_time_to_the_picosecond(size):
    found = run(Experiment(SMALL, Homa(), flows((0, size, 0, 11)), flows=1), checked=True)
    assert found.received_ps[0] == found.ideal_ps[0]


def test_a_receiver_serves_the_shortest_message_first_and_never_idles():
    sizes = [3_000_000, 2_000_000, 1_000_000]
    found = run(Experiment(star(4), Homa(), flows(*[(0, s, n, 3) for n, s in enumerate(sizes)]), flows=3), checked=True)
    assert found.received_ps[2] < found.received_ps[1] < found.received_ps[0]
    wire = sum(size + 40 * -(-size // 1460) for size in sizes) * 800
    assert found.received_ps.max() < 1.01 * wire
    assert found.slowdown[2] < 1.1


@pytest.mark.parametrize("forecasts", [False, True])
def test_all_messages_end_with_small_buffers_and_the_invariants_hold(forecasts):
    tight = Homa(buffer_bytes=20_000, timeout_us=200, sizes_are_forecasts=forecasts)
    found = run(Experiment(SMALL, tight, Workload(forecast=Leaves()), load=0.8, flows=150), checked=True)
    assert (found.received_ps > 0).all()
    assert sum(found.counters.drops_at.values()) > 0


def test_grants_bound_the_queue_at_the_receiver():
    many = flows(*[(n * 100_000, 1_000_000, n, 20) for n in range(20)])
    found = run(Experiment(star(21), replace(Homa(), overcommitment=1), many, flows=20))
    # 20 unscheduled round trips, and no more than one granted one beside them.
    assert found.counters.peak_packets < 20 * 13 + 4 * 13
    assert sum(found.counters.drops_at.values()) == 0


def test_what_waits_in_its_senders_own_port_is_not_sent_again():
    # Nine long messages of one host: the port serves the shortest, the others wait far longer than the timeout.
    long = flows(*[(0, 3_000_000 + 100_000 * n, 0, 1 + n) for n in range(9)])
    found = run(Experiment(star(10), replace(Homa(), timeout_us=500), long, flows=9), checked=True)
    assert found.received_ps.max() > 20 * 500 * 10**6
    assert found.retransmissions.sum() == found.duplicates.sum() == 0


def test_priorities_follow_the_workload_as_homas_paper_has_them():
    short, long = homa_for("homa_w2_googlesearch_bytes", 13), homa_for("flux_pagerank_est_bytes", 50)
    assert short.unscheduled > long.unscheduled == 1
    for found in (short, long):
        assert found.overcommitment == found.priorities - found.unscheduled == 8 - found.unscheduled
    size = size_table("homa_w2_googlesearch_bytes").quantile((np.arange(100_000) + 0.5) / 100_000)
    sent = np.minimum(size, 13 * 1460)
    level = np.searchsorted(short.unscheduled_bytes, size, side="right")
    share = np.bincount(level, sent) / sent.sum()
    assert share == pytest.approx(1 / short.unscheduled, rel=0.25)


@pytest.mark.parametrize("scheme", [Homa(), Pfabric(buffer_bytes=10**9, timeout_us=10_000)], ids=["homa", "pfabric"])
def test_an_event_costs_hardly_more_where_sixteen_times_as_much_waits(scheme):
    def per_event(count):
        sizes = np.random.default_rng(1).integers(1, 15_000, count)
        at_once = flows(*[(0, size, 0, 1 + n % 143) for n, size in enumerate(sizes.tolist())])
        counters = run(Experiment(Topology(), scheme, at_once)).counters
        return counters.cpu_seconds / counters.events

    # Searched, it would be ten times as much and more. Others' work spoils the caches: the best of a few.
    few = min(per_event(1_000) for _ in range(3))
    assert any(per_event(16_000) < 5 * few for _ in range(3))
