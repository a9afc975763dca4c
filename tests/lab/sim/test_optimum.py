"""The bounds that PDQ's figures are drawn beside, against worked examples and against trying everything."""

from itertools import combinations, permutations

import numpy as np
import pytest

from lab.sim import ExperimentError
from lab.sim.optimum import fair_sharing, most_in_time, shortest_first


def test_the_papers_example_of_three_flows():
    sizes, unit = [1e6, 2e6, 3e6], 8e6  # a megabyte a second
    assert fair_sharing(sizes, unit).tolist() == pytest.approx([3, 5, 6])
    assert shortest_first(sizes, unit).tolist() == pytest.approx([1, 3, 6])
    assert shortest_first([3e6, 1e6, 2e6], unit).tolist() == pytest.approx([6, 1, 3])
    assert most_in_time(sizes, [1, 4, 6], unit).all()


def in_time(sizes, deadlines, chosen):
    now = 0.0
    for flow in sorted(chosen, key=lambda flow: deadlines[flow]):
        now += sizes[flow]
        if now > deadlines[flow]:
            return False
    return True


@pytest.mark.parametrize("seed", range(20))
def test_no_choice_of_flows_has_more_in_time(seed):
    random = np.random.default_rng(seed)
    sizes, deadlines = random.integers(1, 10, 8), random.integers(3, 30, 8)
    kept = most_in_time(sizes, deadlines, 8)
    assert in_time(sizes, deadlines, np.flatnonzero(kept))
    more = combinations(range(8), int(kept.sum()) + 1)
    assert not any(in_time(sizes, deadlines, chosen) for chosen in more)


def one_after_another(sizes, order):
    ends = np.empty(len(sizes))
    ends[list(order)] = np.cumsum([sizes[flow] for flow in order])
    return ends


@pytest.mark.parametrize("seed", range(5))
def test_of_all_orders_none_has_a_lower_mean_or_more_in_time(seed):
    random = np.random.default_rng(seed)
    sizes, deadlines = random.integers(1, 10, 6), random.integers(3, 30, 6)
    tried = [one_after_another(sizes, order) for order in permutations(range(6))]
    assert shortest_first(sizes, 8).mean() == min(ends.mean() for ends in tried)
    assert most_in_time(sizes, deadlines, 8).sum() == max((ends <= deadlines).sum() for ends in tried)


def shared_bit_by_bit(sizes):
    """A flow of so many units sends one a turn; turns go round those that are left."""
    left, ends, now = list(sizes), [0] * len(sizes), 0
    while any(left):
        for flow in [flow for flow, units in enumerate(left) if units]:
            now, left[flow] = now + 1, left[flow] - 1
            ends[flow] = ends[flow] if left[flow] else now
    return np.array(ends)


@pytest.mark.parametrize("seed", range(5))
def test_fair_sharing_is_what_turns_come_to(seed):
    sizes = np.random.default_rng(seed).integers(1, 1000, 30)
    first, shared = shortest_first(sizes, 8), fair_sharing(sizes, 8)
    assert np.abs(shared - shared_bit_by_bit(sizes)).max() < 30
    assert (first <= shared + 1e-9).all() and shared.max() == pytest.approx(sizes.sum())


@pytest.mark.parametrize(
    ("sizes", "deadlines", "rate", "sentence"),
    [
        ([1, -1], [1, 1], 8, r"size_bytes\[1\] is -1.0, expected 0 or more"),
        ([np.nan], [1], 8, r"size_bytes\[0\] is nan, expected 0 or more"),
        ([np.inf], [1], 8, r"size_bytes\[0\] is inf, expected 0 or more"),
        ("a", [1], 8, "size_bytes is 'a', expected a number for each flow"),
        ([1], [np.nan], 8, r"deadline_s\[0\] is nan, expected a time in seconds"),
        ([1, 2], [1], 8, "deadline_s has 1 values for 2 flows"),
        ([1], [1], 0, "rate_bps is 0, expected above 0"),
        ([1], [1], np.nan, "rate_bps is nan, expected above 0"),
    ],
)
def test_flows_that_cannot_be_have_no_optimum(sizes, deadlines, rate, sentence):
    with pytest.raises(ExperimentError, match=sentence):
        most_in_time(sizes, deadlines, rate)


def test_of_no_flows_none_is_in_time():
    assert most_in_time([], [], 8).size == shortest_first([], 8).size == fair_sharing([], 8).size == 0
