"""Tasks packet by packet: OPTAX's line, ICTCP's windows, and both against the rates that they come to."""

from dataclasses import replace

import numpy as np
import pytest

from lab.sim import NAMED, Experiment, ExperimentError, FlowList, Incast, Tcp, Workload, run, star
from lab.sim.coflow import CoflowExperiment, Coflows, Policy, run_coflows
from lab.sim.tasks import Ictcp, Optax

RATE_BPS = 10**10
SWITCH = star(13, RATE_BPS, 20_000)
KIB = 1 << 10


def tasks(*each, width=4):
    """Tasks of one receiver, from other servers each: (start in us, bytes of a flow), or with a width of its own."""
    starts, sizes, widths = zip(*((*task, width)[:3] for task in each), strict=True)
    source = np.concatenate([1 + (np.arange(n) + 5 * at) % 12 for at, n in enumerate(widths)])
    of = np.repeat(np.arange(len(each)), widths)
    start = np.array(starts, np.int64) * 10**6
    return Coflows(13, start, of, np.array(sizes)[of], source, np.zeros(len(of), np.int64))


def over(scheme, found, checked=True):
    results = run(Experiment(SWITCH, scheme, found.flows()), checked=checked)
    return (found.last_of(results.received_ps) - found.start_ps) / 1e9, results


FOUR = tasks(*((10 * at, 256 * KIB, 8) for at in range(4)))


def test_optax_serves_tasks_by_arrival_and_ictcp_serves_all_at_once():
    (ours, optax), (fair, ictcp) = over(Optax(), FOUR), over(Ictcp(), FOUR)
    assert (np.diff(ours) > 0.6 * ours[0]).all()  # one after another
    assert fair.min() > 0.9 * fair.max()
    assert fair.mean() > 1.3 * ours.mean()
    assert sum(optax.counters.drops_at.values()) == sum(ictcp.counters.drops_at.values()) == 0


def test_the_packets_come_to_the_rates_that_they_should():
    """Rate by rate, on the bytes of the wire: fair sharing and first come first served, with neither delay nor loss."""
    wire = replace(FOUR, size_bytes=FOUR.size_bytes + 40 * -(-FOUR.size_bytes // 1460))
    for scheme, policy in ((Ictcp(), Policy("fair")), (Optax(), Policy("fair", "fifo"))):
        took_ms = 1000 * run_coflows(CoflowExperiment(wire, policy, RATE_BPS)).cct_s
        seen_ms, _ = over(scheme, FOUR)
        assert (seen_ms > 0.95 * took_ms).all()
        assert seen_ms.mean() < 1.35 * took_ms.mean()


def test_a_task_alone_fills_the_link_under_either():
    alone = tasks((0, 8_000_000))
    wire_ms = 4 * 8_000_000 * 1500 / 1460 * 8 / 1e7
    for scheme in (Optax(), Ictcp()):
        seen_ms, _ = over(scheme, alone, checked=False)
        assert wire_ms < seen_ms[0] < 1.15 * wire_ms


def test_small_tasks_go_before_a_large_one_which_then_goes_on():
    mixed = tasks((0, 8_000_000), (1_000, 256 * KIB), (1_010, 256 * KIB))
    fair, ours = (over(scheme, mixed, checked=False)[0] for scheme in (Ictcp(), Optax()))
    first = over(NAMED["ictcp-priority"], mixed, checked=False)[0]
    assert ours[1] < first[1] < fair[1]
    assert ours[0] < 1.03 * fair[0]


def test_a_task_with_one_large_flow_is_large():
    odd = tasks((0, 256 * KIB, 3), (0, 256 * KIB, 3))
    size = odd.size_bytes.copy()
    size[5] = 2 << 20
    mixed = replace(odd, size_bytes=size)
    _, results = over(Optax(), mixed)
    wanted = -(-size // 1460)
    sent = results.counters.priority_packets
    assert sent[1] == wanted[3:].sum()  # its other two flows, too
    assert sent[0] == wanted.sum() + wanted[:3].sum()  # the small one's, and all ACKs


def test_nobody_is_forgotten_when_tasks_come_as_they_like():
    random = np.random.default_rng(5)
    start = np.cumsum(random.exponential(300, 90)).astype(int)
    size, widths = random.lognormal(11, 2, 90).astype(int) + 1, np.tile([1, 3, 9], 30)
    each = np.stack([start, size, widths], 1).tolist()
    for scheme in (Optax(), Ictcp(), replace(Optax(), buffer_bytes=60_000)):
        took, results = over(scheme, tasks(*each))
        assert (results.received_ps > 0).all() and (took > 0).all()


def test_more_tasks_than_a_line_has_places_are_not_held_back():
    took, results = over(Optax(), tasks(*((at, 20_000, 2) for at in range(80))), checked=False)
    assert (results.received_ps > 0).all() and took.max() < 200


def test_an_ack_is_held_for_no_longer_than_the_longest_delay():
    """Held for less time, those behind take more of the link, and the order blurs."""
    strict, loose = (over(replace(Optax(), delay_most_us=most), FOUR)[0] for most in (10_000.0, 1.0))
    assert strict[0] < loose[0]


def test_flows_without_a_task_are_each_their_own():
    n = 6
    found = FlowList(np.arange(n) * 10**6, np.full(n, 256 * KIB), 1 + np.arange(n), np.zeros(n, np.int64))
    ours = run(Experiment(SWITCH, Optax(), found), checked=True)
    assert (np.diff(ours.received_ps) > 0).all()


def test_a_drawn_flow_is_a_task_of_its_own_and_small_by_its_own_size():
    wanted = Experiment(SWITCH, NAMED["ictcp-priority"], Workload("websearch_bytes", Incast(0)), load=0.3, flows=60)
    found = run(wanted, checked=True)
    packets, is_small = -(-found.size_bytes // 1460), found.size_bytes <= 1 << 20
    assert is_small.any() and not is_small.all()
    assert found.counters.priority_packets[1] == packets[~is_small].sum() + found.retransmissions[~is_small].sum()


def test_a_receiver_that_adds_nothing_is_plain_tcp():
    same = Tcp("plain", dctcp=False, initial_window=2, least_timeout_us=200_000.0)
    windows = over(replace(same, max_window=2), FOUR)[1]  # a sender's bound does what a receiver's window does
    assert windows.counters.delivered_packets == over(same, FOUR)[1].counters.delivered_packets


@pytest.mark.parametrize(
    ("field", "make"),
    [
        ("scheme.least_window is 0", lambda: Optax(least_window=0)),
        ("scheme.most_window is 1", lambda: Optax(most_window=1)),
        ("scheme.first_window is 99", lambda: Optax(first_window=99)),
        ("scheme.delay_most_us is 300000", lambda: Optax(delay_most_us=300_000.0)),
        ("scheme.base_rtt_us is 0", lambda: Ictcp(base_rtt_us=0.0)),
        (
            r"workload.task\[0\] is -1",
            lambda: FlowList(*(np.array([n]) for n in (0, 1, 0, 1)), task=np.array([-1])),
        ),
        (
            "workload.task has 2 values for 1 flows",
            lambda: FlowList(*(np.array([n]) for n in (0, 1, 0, 1)), task=np.array([1, 2])),
        ),
    ],
)
def test_what_cannot_be_is_refused_by_its_field(field, make):
    with pytest.raises(ExperimentError, match=field):
        make()
