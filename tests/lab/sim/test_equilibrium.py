"""What PDQ promises of a stable workload (SIGCOMM'12, section 4): it settles within P_max + 1 round trips.

A flow precedes another if they share a link and it is the more critical. Drivers are flows that no driver precedes. In
equilibrium drivers are accepted and all others paused. P_max is the most that precede any one flow.
"""

import numpy as np
import pytest

from lab.sim import Experiment, FlowList, Pdq, Watch, run, star

FABRIC = star(16, 10**9, 25_100)
DATA = 1516
"""Bytes of a packet with data; a paused flow sends headers alone."""
ROUND_TRIP_US = 2 * 2 * 25.1 + 2 * (DATA + 56) * 0.008
SEEN = 80
"""Round trips."""


def preceding(pairs, n):
    return {m for m in range(n) if pairs[m][0] == pairs[n][0] or pairs[m][1] == pairs[n][1]}


def drivers_of(pairs):
    found = set()
    for n in range(len(pairs)):
        if not preceding(pairs, n) & found:
            found.add(n)
    return found


def sent_by(scheme, pairs):
    """Bytes by flow and round trip. Sizes are so far apart that who is more critical stays so."""
    sizes = 20_000_000 + 3_000_000 * np.arange(len(pairs))
    found = FlowList(np.zeros(len(pairs), np.int64), sizes, *np.array(pairs).T)
    sent = np.zeros((len(pairs), SEEN))
    for host in {source for source, _ in pairs}:
        watch = Watch(host, ROUND_TRIP_US)
        seen = run(
            Experiment(FABRIC, scheme, found, header_bytes=56, end_s=SEEN * ROUND_TRIP_US * 1e-6, watch=watch)
        ).counters.watched
        assert seen is not None
        for n, steps in enumerate(seen["of_flow"]):
            if pairs[n][0] == host:
                sent[n, : min(SEEN, len(steps))] = steps[:SEEN]
    return sent[:, :-1]  # the last one is cut short


def settled_after(scheme, pairs):
    """Round trips until drivers send data, all others none, and nothing of it changes any more."""
    is_driver = np.isin(np.arange(len(pairs)), list(drivers_of(pairs)))
    wrong = (sent_by(scheme, pairs) >= DATA) != is_driver[:, None]
    return int(np.flatnonzero(wrong.any(axis=0)).max(initial=-1)) + 1


def most_preceding(pairs):
    return max(len(preceding(pairs, n)) for n in range(len(pairs)))


def sink(count):
    return [(1 + n, 0) for n in range(count)]


def chain(count):
    """Each flow shares its sender with one neighbour and its receiver with the other."""
    return [(n // 2, 8 + (n + 1) // 2) for n in range(count)]


def anywhere(seed):
    random = np.random.default_rng(seed)
    return [tuple(pair) for pair in np.c_[random.integers(0, 4, 8), random.integers(8, 12, 8)].tolist()]


@pytest.mark.parametrize("pairs", [*map(sink, (1, 2, 4, 8)), *map(chain, (2, 3, 5, 8))])
def test_sinks_and_chains_of_bottlenecks_settle_within_the_papers_bound(pairs):
    assert settled_after(Pdq(), pairs) <= most_preceding(pairs) + 1


@pytest.mark.parametrize("seed", range(12))
def test_flows_between_any_hosts_settle_within_it_too(seed):
    """While a sender had several questions on their way, two of twenty sets took 4 and 6 round trips more: answers told
    what had been."""
    pairs = anywhere(seed)
    assert settled_after(Pdq(), pairs) <= most_preceding(pairs) + 1


def test_without_dampening_flows_that_begin_at_once_take_longer_than_the_bound():
    """The proof leaves out queues, which form here while all begin."""
    undamped = Pdq(dampening_rtts=0)
    assert most_preceding(sink(4)) + 1 < settled_after(undamped, sink(4)) < 40


@pytest.mark.parametrize("pairs", [sink(8), chain(8), anywhere(0), anywhere(5)])
def test_once_settled_no_link_is_given_more_than_it_has(pairs):
    sent, carries = sent_by(Pdq(), pairs), 125 * ROUND_TRIP_US
    ends = np.array(pairs)
    for end in range(2):
        for host in set(ends[:, end].tolist()):
            given = sent[ends[:, end] == host].sum(axis=0)[most_preceding(pairs) + 1 :]
            paused = (ends[:, end] == host).sum() * 56  # they ask
            assert given.max() <= carries + DATA + paused


@pytest.mark.parametrize("early_start_rtts", [1, 2])
@pytest.mark.parametrize("seed", range(4))
def test_what_is_given_beyond_capacity_is_early_starts(early_start_rtts, seed):
    """Flows come the most critical first, so that none preempts another: what queues is what early start let in."""
    sizes = np.sort(np.random.default_rng(seed).integers(10_000, 300_000, 12))
    starts = (np.arange(12) * 2 * ROUND_TRIP_US * 1e6).astype(np.int64)
    found = FlowList(starts, sizes, np.arange(1, 13), np.zeros(12, np.int64))
    scheme, watch = Pdq(early_start_rtts=early_start_rtts), Watch(FABRIC.hosts, ROUND_TRIP_US)
    seen = run(Experiment(FABRIC, scheme, found, header_bytes=56, watch=watch)).counters.watched
    assert seen is not None
    most = 1.25 * early_start_rtts * 125 * ROUND_TRIP_US  # 1.15 seen: one more is let in before the queue is gone
    assert DATA <= max(seen["queue_bytes"]) <= most
