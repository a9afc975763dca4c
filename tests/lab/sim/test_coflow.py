"""Coflows rate by rate: schedules small enough to work out by hand, optima, refusals, and the trace's format."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.sim import ExperimentError
from lab.sim.coflow import NAMED, Aalo, CoflowExperiment, Coflows, Policy, read_trace, run_coflows
from lab.sim.coflow.experiment import policy_named
from lab.sim.optimum import fair_sharing, shortest_first

U = 125_000_000
"""Bytes that a port of 1 Gb/s carries in a second."""
ZERO = np.zeros(1, np.int64)
FB2010 = Path(os.environ.get("QCLIMB_FB2010", Path(__file__).parents[4] / "shared/data/FB2010-1Hr-150-0.txt"))


def coflows(*stages, hosts=4, deadlines=None):
    """Stages of (start in s, (source, target, size in U), ...)."""
    flows = [(at, *flow) for at, (_, *flows) in enumerate(stages) for flow in flows]
    of, source, target, size = zip(*flows, strict=True)
    return Coflows(
        hosts,
        np.array([round(stage[0] * 1e12) for stage in stages], np.int64),
        np.array(of),
        np.array([round(units * U) for units in size], np.int64),
        np.array(source),
        np.array(target),
        deadline_ps=None if deadlines is None else np.array([round(due * 1e12) for due in deadlines], np.int64),
    )


def over(policy, found, **more):
    policy = NAMED[policy] if isinstance(policy, str) else policy
    return run_coflows(CoflowExperiment(found, policy, **more))


def test_madd_lets_all_flows_of_a_coflow_end_with_its_fullest_port():
    found = over("varys", coflows((0, (0, 0, 1), (1, 0, 2), (2, 1, 3))))
    assert found.flow_end_s == pytest.approx([3, 3, 3]) and found.cct_s == pytest.approx([3])
    assert found.slowdown == pytest.approx([1])


def test_what_madd_leaves_idle_goes_to_who_can_use_it():
    found = over("varys", coflows((0, (0, 0, 1), (1, 0, 2), (2, 1, 1))))
    assert found.flow_end_s == pytest.approx([3, 3, 1])


def test_sebf_serves_the_smallest_bottleneck_first_and_not_the_fewest_bytes():
    """A: 2 units out of one port, two seconds' work; B: 4 units over four ports, a second's."""
    wide = (0, (0, 0, 1), (1, 1, 1), (2, 2, 1), (3, 3, 1))
    narrow = (0, (0, 1, 1), (0, 2, 1))
    by_bottleneck = over("varys", coflows(narrow, wide))
    by_bytes = over("shortest", coflows(narrow, wide))
    assert by_bottleneck.cct_s == pytest.approx([3, 1])
    assert by_bytes.cct_s == pytest.approx([2, 3])


def test_a_coflow_that_finds_a_port_taken_gets_what_is_left_elsewhere():
    """B (2 s) has port 1's sender to itself; A's other flow goes meanwhile, its second one after B."""
    found = over("varys", coflows((0, (0, 0, 1), (1, 0, 2)), (0, (1, 1, 2))))
    assert found.flow_end_s == pytest.approx([1, 4, 2]) and found.cct_s == pytest.approx([4, 2])


def test_one_that_comes_with_less_left_goes_first_from_then_on():
    """A has 2 of 3 s left when B (1 s) comes; when C (1.5 s) comes, A has 1 s left."""
    found = over("varys", coflows((0, (0, 0, 3)), (1, (1, 0, 1)), (3, (2, 0, 1.5))))
    assert found.cct_s == pytest.approx([4, 1, 2.5])


def test_deadlines_are_guaranteed_to_whom_they_can_be_and_others_are_dropped():
    """Two guarantees of half a port each leave a third nothing; one that comes when there is room is let in."""
    stages = [(0, (0, 0, 1)), (0, (1, 0, 1)), (0, (2, 0, 0.5)), (2, (3, 0, 0.5)), (2, (0, 0, 0.25))]
    found = over("varys-deadlines", coflows(*stages, deadlines=[2, 2, 2, 2.5, 2.6]))
    assert found.in_time.tolist() == [True, True, False, True, False]
    assert np.isnan(found.cct_s).tolist() == [False, False, True, False, True]
    assert found.cct_s[:2].max() == pytest.approx(2) and found.counters["refused"] == 2


def test_what_guarantees_leave_goes_to_the_earliest_deadline():
    found = over("varys-deadlines", coflows((0, (0, 0, 1)), (0, (1, 0, 1)), deadlines=[10, 4]))
    assert found.cct_s == pytest.approx([2, 1 / 0.9])  # 0.1 is guaranteed to the later one
    assert found.in_time.all()


def test_aalo_parts_a_port_by_its_queues_weights():
    """A has sent its first unit at 1 s and is in the second queue when B comes: shares of 2/3 and 1/3."""
    found, two = coflows((0, (0, 0, 2)), (1, (1, 0, 0.5))), Aalo(queues=2, first_bytes=U)
    assert over(Policy("aalo", aalo=two), found).cct_s == pytest.approx([2.5, 0.75])
    assert over(Policy("aalo", aalo=replace(two, weights="strict")), found).cct_s == pytest.approx([2.5, 0.5])


def test_aalos_coordinator_moves_coflows_at_its_intervals_alone():
    """A has sent its first unit at 1 s, the coordinator says so at 1.2 s; until then B waits behind A."""
    found, two = coflows((0, (0, 0, 2)), (1, (1, 0, 0.5))), Aalo(2, U, interval_ms=400)
    assert over(Policy("aalo", aalo=two), found).cct_s == pytest.approx([2.5, 0.95])
    assert over(Policy("aalo", aalo=replace(two, interval_ms=0)), found).cct_s == pytest.approx([2.5, 0.75])
    assert over(Policy("aalo", aalo=replace(two, interval_ms=1000)), found).cct_s == pytest.approx([2.5, 0.75])


def test_a_coflow_that_ends_before_aalos_coordinator_speaks_keeps_its_queue():
    found, two = coflows((0, (0, 0, 1.1)), (1, (1, 0, 0.5))), Aalo(2, U, interval_ms=400)
    assert over(Policy("aalo", aalo=two), found).cct_s == pytest.approx([1.1, 0.6])
    assert over(Policy("aalo", aalo=replace(two, interval_ms=0)), found).cct_s == pytest.approx([1.3, 0.6])


def test_aalo_moves_a_coflow_that_sends_nothing_when_the_coordinator_speaks():
    """A's short flow ends at 0.99 s, its long one waits for small coflow S, until 1.8 s. At 1 s A comes into the second
    queue, so C has two thirds of the port from 1.8 s on."""
    stages = [(0, (0, 0, 0.99), (2, 1, 4)), (0, (1, 1, 0.9), (3, 1, 0.9)), (1.5, (3, 1, 1.1))]
    wanted = Policy("aalo", "fifo", small_bytes=U, aalo=Aalo(2, round(0.9 * U), interval_ms=1000))
    assert over(wanted, coflows(*stages)).cct_s[1:] == pytest.approx([1.8, 1.95])


def test_aalo_counts_what_a_coflow_has_sent_in_all():
    """Ten flows of a tenth: the first queue's unit is sent at 0.1 s. First in, first out within a queue."""
    wide = (0, *((host, host, 0.5) for host in range(10)))
    found = over(
        Policy("aalo", aalo=Aalo(2, U, 10, "strict")), coflows(wide, (0, (0, 0, 1)), (0, (0, 0, 0.5)), hosts=10)
    )
    assert found.cct_s == pytest.approx([2.0, 1.1, 1.6])


def test_aalos_share_that_nobody_wants_is_given_away():
    found = over(Policy("aalo", aalo=Aalo(queues=2, first_bytes=U)), coflows((0, (0, 0, 2)), (1, (1, 1, 0.5))))
    assert found.cct_s == pytest.approx([2, 0.5])


def test_shares_are_max_min_fair():
    """Three flows from one host have a third each; a fourth has the two thirds that one of them leaves it."""
    found = over("fair", coflows((0, (0, 0, 1)), (0, (0, 1, 1)), (0, (0, 2, 1)), (0, (1, 2, 1))))
    assert found.cct_s == pytest.approx([3, 3, 3, 1.5])


@pytest.mark.parametrize("small", ["fair", "fifo", "shortest"])
def test_small_coflows_go_before_large_ones_in_their_own_order(small):
    stages = [(0, (0, 0, 2)), (1, (1, 0, 0.2), (2, 0, 0.2)), (1, (3, 0, 0.2)), (1, (2, 0, 0.1))]
    found = over(Policy("varys", small, small_bytes=U // 5), coflows(*stages))
    expected = {"fair": [0.7, 0.7, 0.4], "fifo": [0.4, 0.6, 0.7], "shortest": [0.7, 0.3, 0.1]}[small]
    assert found.cct_s == pytest.approx([2.7, *expected])


def test_a_coflow_with_one_large_flow_is_not_small():
    found = over(Policy("fair", "fifo", small_bytes=U), coflows((0, (0, 0, 1)), (0, (1, 0, 1), (2, 1, 1.1))))
    assert found.cct_s == pytest.approx([1, 2])


sizes = st.lists(st.integers(1, 10**9), min_size=1, max_size=12)


@given(sizes)
@settings(max_examples=settings.default.max_examples // 7)
def test_one_port_is_shared_as_fair_sharing_and_shortest_first_have_it(sizes):
    n = len(sizes)
    one_each = Coflows(n, np.zeros(n, np.int64), np.arange(n), np.array(sizes), np.arange(n), np.zeros(n, np.int64))
    assert over("fair", one_each).cct_s == pytest.approx(fair_sharing(sizes, 1e9), rel=1e-9, abs=1e-11)
    for policy in ("shortest", "varys"):
        assert over(policy, one_each).cct_s == pytest.approx(shortest_first(sizes, 1e9), rel=1e-9, abs=1e-11)


def drawn(seed, count=40, hosts=6):
    random = np.random.default_rng(seed)
    width = random.integers(1, 12, count)
    flows = int(width.sum())
    size = np.rint(random.lognormal(14, 2, flows)).astype(np.int64) + 1
    start = np.sort(random.integers(0, 10**12, count))
    ends = random.integers(0, hosts, (2, flows))
    return Coflows(hosts, start, np.repeat(np.arange(count), width), size, *ends)


@pytest.mark.parametrize("policy", [name for name in NAMED if "deadlines" not in name])
@pytest.mark.parametrize("flow_ends_ms", [0.0, 5.0, None])
def test_no_port_carries_more_than_it_can_and_everybody_ends(policy, flow_ends_ms):
    wanted = drawn(3)
    found = over(policy, wanted, flow_ends_ms=flow_ends_ms)
    assert (found.slowdown >= 1 - 1e-6).all()
    begun_s, ends_s = wanted.start_ps[wanted.coflow] / 1e12, found.flow_end_s
    for end in (wanted.source, wanted.target):
        for port in range(wanted.hosts):
            at = end == port
            for since in begun_s[at]:  # what began since and is over by some moment fitted into the time between
                chosen = at & (begun_s >= since)
                order = np.argsort(ends_s[chosen])
                carried_s = np.cumsum(wanted.size_bytes[chosen][order]) * 8 / 1e9
                assert (carried_s <= (ends_s[chosen][order] - since) * (1 + 1e-9) + 1e-9).all()


def test_rates_between_flows_ends_hardly_matter_but_never_setting_them_anew_wastes_capacity():
    wanted = drawn(4, 200)
    exact, coarse = (over("fair", wanted, flow_ends_ms=gap).cct_s.mean() for gap in (0.0, 1.0))
    never = over("fair", wanted, flow_ends_ms=None)
    assert coarse == pytest.approx(exact, rel=0.02)
    assert never.cct_s.mean() > exact


@pytest.mark.parametrize(
    ("field", "make"),
    [
        (r"width\[1\] is 0", lambda: Coflows(2, np.zeros(2, np.int64), *(np.array([n]) for n in (0, 5, 0, 1)))),
        (r"size_bytes\[0\] is 0", lambda: coflows((0, (0, 0, 0)))),
        (r"target\[0\] is 9, expected a host", lambda: coflows((0, (0, 9, 1)))),
        (r"deadline_ps\[0\] is", lambda: coflows((2, (0, 0, 1)), deadlines=[1])),
        (
            r"start_ps\[1\] is 1000000000000, expected 0 to 4611686018427387904, and no less",
            lambda: coflows((2, (0, 0, 1)), (1, (0, 0, 1))),
        ),
        (
            "size_bytes is 1-D of float64",
            lambda: Coflows(2, *(np.zeros(1, kind) for kind in (int, int, float, int, int))),
        ),
        ("coflows.hosts is 1.5, expected a whole", lambda: Coflows(1.5, *(np.zeros(1, int),) * 5)),
        (
            r"coflows.coflow\[0\] is 1, expected 0 to 0, and no less",
            lambda: Coflows(2, ZERO, ZERO + 1, ZERO + 1, ZERO, ZERO),
        ),
        ("start_ps is empty", lambda: Coflows(2, *(np.zeros(0, np.int64),) * 5)),
        ("policy.large is 'sebf'", lambda: Policy("sebf")),
        ("policy.small is 'some'", lambda: Policy(small="some")),
        ("policy is 'optas', expected one of", lambda: policy_named("optas")),
        ("policy.aalo.queues is 0", lambda: Aalo(queues=0)),
        ("policy.aalo.interval_ms is nan", lambda: Aalo(interval_ms=float("nan"))),
        ("policy.aalo.weights is 'even'", lambda: Aalo(weights="even")),
        ("rate_bps is 7", lambda: CoflowExperiment(drawn(1), rate_bps=7_000_000_001)),
        ("busiest port is 2000000", lambda: CoflowExperiment(coflows((0, (0, 0, 10**6), (1, 0, 10**6))))),
        ("flow_ends_ms is -1", lambda: CoflowExperiment(drawn(1), flow_ends_ms=-1.0)),
    ],
)
def test_what_cannot_be_is_refused_by_its_field(field, make):
    with pytest.raises(ExperimentError, match=field):
        make()


def test_a_trace_is_read_as_its_format_says(tmp_path):
    path = tmp_path / "trace.txt"
    path.write_text("3 2\n1 0 2 0 1 1 2:3.0\n2 1500 1 2 2 0:1.0 2:0.5\n")
    found = read_trace(path)
    assert found.hosts == 3 and found.start_ps.tolist() == [0, 1500 * 10**9]
    assert found.coflow.tolist() == [0, 0, 1, 1] and found.source.tolist() == [0, 1, 2, 2]
    assert found.target.tolist() == [2, 2, 0, 2] and (found.size_bytes / 2**20).tolist() == [1.5, 1.5, 1, 0.5]
    ends_s = over("varys", found).flow_end_s  # the last flow is within rack 2, on both its ports
    assert ends_s[2:] - 1.5 == pytest.approx([1.5 * 2**20 / U] * 2)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "line 1: it ends before its racks"),
        ("3 2\n1 0 1 0 1 1:1\n", "line 1: 2 coflows, expected 1"),
        ("3 1\n1 0 1 7 1 1:1\n", "line 2: mapper's rack is 7, expected a whole number, 0 to 2"),
        ("3 1\n1 0 1 0 1 1:x\n", "line 2: reducer is 1:x, expected rack:MB"),
        ("3 1\n1 0 1 0 1 1:nan\n", "line 2: reducer is 1:nan, expected rack:MB"),
        ("3 1\n1 0 0 1 1:1\n", "line 2: mappers is 0, expected"),
        ("3 1\n1 0 1 0 0\n", "line 2: reducers is 0, expected"),
        ("3 1\n1 0 1 0 2 1:1\n", "line 2: it ends before its reducer"),
        ("3 1\n1 0 1 0 1 1:1 2:1\n", "line 2: word 7 is 2:1, expected the line's end"),
        ("3 2\n1 5 1 0 1 1:1\n2 4 1 0 1 1:1\n", "line 3: arrival in ms is 4, expected a whole number, 5 to"),
    ],
)
def test_a_bad_trace_is_refused_by_its_place(tmp_path, text, said):
    path = tmp_path / "trace.txt"
    path.write_text(text)
    with pytest.raises(ExperimentError, match=said):
        read_trace(path)


def test_a_trace_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(ExperimentError, match="can't be read: No such file"):
        read_trace(tmp_path / "none")


@pytest.mark.system
@pytest.mark.skipif(not FB2010.exists(), reason=f"the Facebook trace is not at {FB2010} (QCLIMB_FB2010 names it)")
def test_the_facebook_trace_is_read_and_finished():
    found = read_trace(FB2010)
    assert (len(found.start_ps), len(found.coflow), found.hosts) == (526, 706_397, 150)
    small = found.largest_bytes <= 1 << 20
    assert small.sum() == 294
    varys = over("varys", found, flow_ends_ms=None)
    assert np.isfinite(varys.cct_s).all() and (varys.slowdown >= 1 - 1e-9).all()
