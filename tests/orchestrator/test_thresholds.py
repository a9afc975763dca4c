"""Thresholds against the definition, brute force and random search."""

import math
import re
from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from qclimb.histogram import SizeHistogram
from qclimb.policy import check_thresholds

from orchestrator.errors import ThresholdError
from orchestrator.plan.revision import PRIORITIES
from orchestrator.plan.sizes import SizeDistribution
from orchestrator.plan.thresholds import Objective, choose, cost, optimise
from orchestrator.rest.bodies import RevisionBody
from tests.tiers import examples

HEAVY = [int(100 * (1 - u) ** -0.9) for u in np.linspace(0, 0.9999, 400)]
SIZE_LISTS = st.lists(st.integers(1, 10**6), min_size=1, max_size=9)


def pias_by_recursion(sizes: list[int], load: float, thresholds: tuple[int, ...]) -> float:
    """PIAS's text (section 4.1), word by word: mu_l, lambda_l, rho_l queue after queue, one flow at a time."""
    edges = [0, *thresholds, max(sizes) + 1]
    mean = np.mean(sizes)
    mu, total = 1.0, 0.0
    for begin, end in pairwise(edges):
        carried = np.mean([min(s, end) - min(s, begin) for s in sizes])
        arriving = load / mean * carried
        rest = np.mean([s > begin for s in sizes])
        total += 1 / (mu - arriving) * rest
        mu *= 1 - arriving / mu
    return total


def slowdown_flow_by_flow(sizes: list[int], load: float, thresholds: tuple[int, ...]) -> float:
    edges = [0, *thresholds, max(sizes) + 1]
    total = np.sum(sizes)
    time = [1 / (1 - load * sum(min(s, end) for s in sizes) / total) for end in edges[1:]]
    parts = zip(edges, edges[1:], time, strict=False)
    return sum(np.mean([(min(s, b) - min(s, a)) / s for s in sizes]) * t for a, b, t in parts)


DEFINITION = {Objective.PIAS: pias_by_recursion, Objective.SLOWDOWN: slowdown_flow_by_flow}


@pytest.mark.parametrize("objective", Objective)
@settings(max_examples=examples(20), deadline=None)
@given(sizes=SIZE_LISTS, priorities=st.integers(1, 4), load=st.floats(0.05, 0.97))
def test_no_choice_of_sizes_as_thresholds_costs_less(objective, sizes, priorities, load):
    found = optimise(SizeDistribution.from_sizes(sizes), priorities, load, objective)
    assert DEFINITION[objective](sizes, load, found.threshold_bytes) == pytest.approx(found.cost)
    every = sorted(set(sizes))
    least = min(
        DEFINITION[objective](sizes, load, chosen)
        for count in range(priorities)
        for chosen in combinations(every, count)
    )
    assert found.cost == pytest.approx(least)


@pytest.mark.parametrize("objective", Objective)
def test_random_search_finds_nothing_better(objective):
    sizes = SizeDistribution.from_sizes(HEAVY)
    found = optimise(sizes, 8, 0.6, objective)
    random = np.random.default_rng(7)
    for _ in range(2000):
        chosen = np.unique(np.exp(random.uniform(np.log(min(HEAVY)), np.log(max(HEAVY)), 7)).astype(int))
        assert cost(sizes, 0.6, chosen, objective) >= found.cost - 1e-12
    for step in (0.97, 1.03):  # nor does a look around
        for place in range(7):
            moved = list(found.threshold_bytes)
            moved[place] = int(moved[place] * step)
            if moved == sorted(set(moved)):
                assert cost(sizes, 0.6, moved, objective) >= found.cost - 1e-12


@pytest.mark.parametrize("objective", Objective)
@settings(max_examples=examples(33), deadline=None)
@given(sizes=SIZE_LISTS, priorities=st.integers(1, 64))
def test_thresholds_fit_a_policy_however_few_sizes_there_are(objective, sizes, priorities):
    found = optimise(SizeDistribution.from_histogram(SizeHistogram.of(sizes)), priorities, 0.6, objective)
    check_thresholds(found.threshold_bytes, priorities)
    assert len(found.threshold_bytes) == priorities - 1
    assert found.used <= len(set(sizes))


def test_equal_questions_get_equal_answers():
    sizes = SizeDistribution.from_sizes(HEAVY)
    assert optimise(sizes, 8, 0.6) == optimise(sizes, 8, 0.6)


def test_a_histogram_gives_nearly_the_thresholds_of_the_flows_themselves():
    exact = optimise(SizeDistribution.from_sizes(HEAVY), 8, 0.6, Objective.SLOWDOWN)
    sketched = SizeDistribution.from_histogram(SizeHistogram.of(HEAVY))
    found = optimise(sketched, 8, 0.6, Objective.SLOWDOWN)
    assert cost(SizeDistribution.from_sizes(HEAVY), 0.6, found.threshold_bytes, Objective.SLOWDOWN) == pytest.approx(
        exact.cost, rel=0.005
    )


def test_more_priorities_never_make_slowdown_worse():
    sizes = SizeDistribution.from_sizes(HEAVY)
    costs = [optimise(sizes, priorities, 0.8, Objective.SLOWDOWN).cost for priorities in range(1, 9)]
    assert costs == sorted(costs, reverse=True)
    assert costs[0] == pytest.approx(1 / (1 - 0.8))  # one priority is processor sharing


def test_pias_cost_wants_few_thresholds_where_slowdown_uses_all():
    """Why the default is slowdown: PIAS's cost charges a full delay for each queue, however few bytes pass it."""
    sizes = SizeDistribution.from_sizes(HEAVY)
    pias, slowdown = (optimise(sizes, 8, 0.6, objective) for objective in Objective)
    assert pias.used < slowdown.used == 7
    assert cost(sizes, 0.6, pias.threshold_bytes[: pias.used], Objective.SLOWDOWN) > slowdown.cost


def test_a_cdf_table_keeps_its_mean():
    sizes = SizeDistribution.from_cdf([(0, 0.0), (1000, 0.5), (10_000, 1.0)])
    assert float((sizes.share * sizes.mean_bytes).sum()) == pytest.approx(0.5 * 500 + 0.5 * 5500, rel=0.01)


def test_many_distinct_sizes_are_merged_and_keep_their_bytes():
    sizes = SizeDistribution.from_sizes(range(1, 50_000))
    assert len(sizes.share) <= 1024
    assert float((sizes.share * sizes.mean_bytes).sum()) == pytest.approx(25_000)


@pytest.mark.parametrize("load", [0, 1, 1.2, float("nan"), -1])
def test_a_load_that_no_queue_survives_is_refused(load):
    with pytest.raises(ThresholdError, match="load"):
        optimise(SizeDistribution.from_sizes([1, 2]), 2, load)


@pytest.mark.parametrize("priorities", [0, 65])
def test_an_impossible_number_of_priorities_is_refused(priorities):
    with pytest.raises(ThresholdError, match="priorities"):
        optimise(SizeDistribution.from_sizes([1, 2]), priorities, 0.5)


def test_even_the_largest_flow_that_a_record_can_tell_of_leaves_room_for_64_priorities():
    sizes = SizeDistribution.from_histogram(SizeHistogram.of([1, 2**64 - 1]))
    check_thresholds(optimise(sizes, 64, 0.6).threshold_bytes, 64)


def test_no_flows_give_no_thresholds():
    with pytest.raises(ThresholdError, match="no flows"):
        SizeDistribution.from_histogram(SizeHistogram())


@pytest.mark.parametrize("last_share", [0.3, 0.6, 0.9])
def test_the_last_priority_keeps_its_share_of_the_bytes(last_share: float) -> None:
    sizes = SizeDistribution.from_sizes(HEAVY)
    last = optimise(sizes, 8, 0.6, Objective.SLOWDOWN, last_share).threshold_bytes[-1]
    free = optimise(sizes, 8, 0.6, Objective.SLOWDOWN).threshold_bytes[-1]
    kept = 1 - np.minimum(np.array(HEAVY), last).sum() / np.sum(HEAVY)
    assert kept >= last_share - 1e-9
    assert last <= free


def test_thresholds_lie_on_whole_segments() -> None:
    sizes = SizeDistribution.from_sizes(HEAVY)
    exact = optimise(sizes, 8, 0.6, Objective.SLOWDOWN)
    found = optimise(sizes, 8, 0.6, Objective.SLOWDOWN, segment_bytes=1448)
    assert all(threshold % 1448 == 0 for threshold in found.threshold_bytes[: found.used])
    check_thresholds(found.threshold_bytes, 8)
    assert found.threshold_bytes[found.used - 1] >= exact.threshold_bytes[exact.used - 1]


@pytest.mark.parametrize(("last_share", "segment_bytes"), [(1.0, 1), (-0.1, 1), (math.nan, 1), (0.0, 0)])
def test_an_impossible_share_or_segment_is_refused(last_share: float, segment_bytes: int) -> None:
    with pytest.raises(ThresholdError, match="must"):
        optimise(SizeDistribution.from_sizes([1, 2]), 2, 0.5, Objective.SLOWDOWN, last_share, segment_bytes)


def test_what_is_chosen_unless_told_serves_medium_flows_before_the_largest() -> None:
    """With 0.7 of the bytes in the last priority, a web server's flows of 16 KB shared it with those of megabytes."""
    sizes = SizeDistribution.from_sizes([3_000] * 50 + [12_000] * 25 + [40_000] * 20 + [400_000] * 5)
    chosen, before = choose(sizes), optimise(sizes, 8, 0.6, Objective.SLOWDOWN, 0.7, 1448)
    assert before.threshold_bytes[before.used - 1] < 40_000 < chosen.threshold_bytes[chosen.used - 1]
    assert all(threshold % 1448 == 0 for threshold in chosen.threshold_bytes[: chosen.used])


def test_the_interface_chooses_as_everybody_does() -> None:
    body = RevisionBody()
    sizes = SizeDistribution.from_sizes(HEAVY)
    asked = optimise(sizes, PRIORITIES, body.load, body.objective, body.last_share, body.segment_bytes)
    assert asked == choose(sizes)


def test_what_hosts_know_needs_no_protection_in_the_last_priority() -> None:
    sizes = SizeDistribution.from_sizes(size for step in range(40) for size in [int(1000 * 1.3**step)] * (41 - step))
    assert choose(sizes, known_share=0.0) == choose(sizes)
    assert choose(sizes, known_share=1.0) == optimise(sizes, 8, 0.6, Objective.SLOWDOWN, 0.0, 1448)
    thresholds = [choose(sizes, known_share=share) for share in (0.0, 0.5, 1.0)]
    deepest = [found.threshold_bytes[found.used - 1] for found in thresholds]
    assert deepest == sorted(deepest)
    assert deepest[0] < deepest[-1]
    for share in (-0.1, 1.1, math.nan):
        with pytest.raises(ThresholdError, match="known_share"):
            choose(sizes, known_share=share)


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("points", "said"),
    [
        ([(1, 0.1), (2, 0.5)], "the last point, 2 bytes, has 0.5 of flows, expected 1"),
        ([(1, 0.5), (2, 0.4), (3, 1)], "point 2, 2 bytes: 0.4 of flows, expected 0.5 to 1"),
        ([(1, 0.5), (2, 1.5), (3, 1)], "point 2, 2 bytes: 1.5 of flows, expected 0.5 to 1"),
        ([(1, -0.5), (3, 1)], "point 1, 1 bytes: -0.5 of flows"),
        ([(2, 0.5), (1, 0.7), (3, 1)], "point 2 is at 1 bytes, expected at least 2"),
        ([(-1, 0.5), (3, 1)], "point 1 is at -1 bytes"),
        ([(1, NAN), (3, 1)], "point 1, 1 bytes: nan of flows"),
        ([(NAN, 0.5), (3, 1)], "point 1 is at nan bytes"),
        ([(1, 0.5), (INF, 1)], "point 2 is at inf bytes"),
        ([(0, 1)], "the largest is 0 bytes"),
        ([], "the table is empty"),
    ],
)
def test_a_table_that_is_no_distribution_is_refused_by_its_point(points, said):
    with pytest.raises(ThresholdError, match=re.escape(said)):
        SizeDistribution.from_cdf(points)


@pytest.mark.parametrize("row", [(1, 1, -1), (1, 1, NAN), (INF, 1, 1), (1, NAN, 1)])
def test_counts_that_can_not_be_are_refused_and_not_left_out(row):
    with pytest.raises(ThresholdError, match="expected >= 0"):
        SizeDistribution.from_counts([(10, 5, 3), row])
