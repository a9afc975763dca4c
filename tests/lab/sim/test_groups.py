"""pFabric's section 7: groups of flows that share by weights; a row of links, where small flows first is not stable."""

import numpy as np
import pytest

from lab.sim import Experiment, ExperimentError, FlowList, Linear, Pfabric, Watch, run, star

STAR = star(6, 10**10, 500)
TO_FIRST = 6
"""The switch's port towards host 0."""
MB = 1_000_000


def flows(sizes, groups, starts=None):
    n = len(sizes)
    start = np.zeros(n, np.int64) if starts is None else np.array(starts, np.int64)
    return FlowList(start, np.array(sizes), np.arange(1, n + 1), np.zeros(n, np.int64), group=np.array(groups))


def sent(weights, found, **more):
    """Bytes of each flow over the shared link, by steps of 100 us."""
    watched = run(
        Experiment(STAR, Pfabric(group_weights=weights), found, watch=Watch(TO_FIRST, 100.0), **more), checked=True
    ).counters.watched
    assert watched is not None
    return [np.array(flow) for flow in watched["of_flow"]]


@pytest.mark.parametrize("weights", [(1, 1), (3, 1), (1, 7)])
def test_busy_groups_share_a_link_by_their_weights(weights):
    first, second = sent(weights, flows([3 * MB, 3 * MB], [0, 1]))
    share = first[2:15].sum() / (first[2:15].sum() + second[2:15].sum())
    assert share == pytest.approx(weights[0] / sum(weights), abs=0.02)


def test_within_a_group_the_shortest_flow_goes_first_and_a_share_is_kept_from_it():
    one, two, other = sent((1, 1), flows([MB, 2 * MB, 4 * MB], [0, 0, 1]))
    until = int(np.flatnonzero(one)[-1])
    assert two[2 : until - 1].sum() < 0.15 * one[2 : until - 1].sum()  # one packet a timeout finds its way
    assert other[2 : until - 1].sum() == pytest.approx(one[2 : until - 1].sum(), rel=0.2)


def test_without_weights_the_shortest_flow_of_all_goes_first():
    one, other = sent((), flows([2 * MB, 4 * MB], [0, 1]))
    until = int(np.flatnonzero(one)[-1])
    assert other[2 : until - 1].sum() < 0.15 * one[2 : until - 1].sum()


def test_a_group_that_is_idle_leaves_its_share_to_the_others():
    found = flows([2 * MB], [1])
    alone = run(Experiment(STAR, Pfabric(group_weights=(9, 1)), found)).fct_us
    assert alone == pytest.approx(run(Experiment(STAR, Pfabric(), found)).fct_us, rel=1e-9)


def test_one_group_is_pfabric_itself():
    random = np.random.default_rng(3)
    start = np.sort(random.integers(0, 3 * 10**8, 60))
    ends = random.integers(0, 3, 60), random.integers(3, 6, 60)
    found = FlowList(start, random.integers(1, 200_000, 60), *ends, group=np.zeros(60, np.int64))
    # a buffer that is never full: ACKs are outside of a group's buffer, and inside of a plain one's
    plain, grouped = (
        run(Experiment(STAR, Pfabric(group_weights=w, buffer_bytes=10**8), found), checked=True) for w in ((), (1,))
    )
    assert (plain.fct_us == grouped.fct_us).all()


def linear_run(scheme, long_load, cross_load=0.5, links=3, ms=40):
    """Long flows over all links, ten times the size of those over one link: how many of their bytes have arrived."""
    fabric = Linear(switches=links + 1, hosts_per_switch=8, rate_bps=10**10, delay_ns=500)
    random = np.random.default_rng(1)
    parts = []
    for size, load, at in [(200_000, long_load, None), *((20_000, cross_load, link) for link in range(links))]:
        count = int(load * 1.25e9 * ms / 1000 / size)
        start = np.sort(random.integers(0, ms * 10**9, count))
        source = random.integers(0, 8, count) + 8 * (at or 0)
        target = random.integers(0, 8, count) + 8 * (links if at is None else at + 1)
        parts.append(np.stack([start, np.full(count, size), source, target]))
    rows = np.concatenate(parts, axis=1)
    rows = rows[:, np.argsort(rows[0], kind="stable")]
    found = run(Experiment(fabric, scheme, FlowList(*rows), end_s=ms / 1000))
    long = found.size_bytes == 200_000
    return (found.received_ps[long] >= 0).mean(), (found.received_ps[~long] >= 0).mean()


def test_over_a_row_of_links_small_flows_starve_long_ones_that_fair_shares_would_carry():
    from lab.sim import FlowLevel

    carried = {rule: linear_run(FlowLevel(f"flow-{rule}", rule), 0.35) for rule in ("pdq", "rcp")}
    assert carried["rcp"][0] > 0.85 and carried["pdq"][0] < 0.7
    assert carried["pdq"][1] > 0.98


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Pfabric(group_weights=(1, 0)), r"scheme.group_weights\[1\] is 0, expected 1 to 1000"),
        (lambda: Pfabric(group_weights=(1,) * 65), "scheme.group_weights has 65 weights, expected at most 64"),
        (lambda: flows([1, 1], [0, -1]), r"workload.group\[1\] is -1, expected 0 or more"),
        (
            lambda: Experiment(STAR, Pfabric(group_weights=(1, 1)), flows([1, 1], [0, 2])),
            r"workload.group\[1\] is 2, expected below 2, the number of scheme.group_weights",
        ),
        (lambda: Linear(switches=1), "topology.switches is 1, expected 2 to 11"),
        (lambda: Linear(hosts_per_switch=0), "topology.hosts_per_switch is 0, expected 1 to 65536"),
    ],
)
def test_groups_and_rows_that_can_not_be_are_refused(make, sentence):
    with pytest.raises(ExperimentError, match=sentence):
        make()
