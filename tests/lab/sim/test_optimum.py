"""The bounds that PDQ's figures are drawn beside, against worked examples and against trying everything."""

from itertools import combinations

import numpy as np
import pytest

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


@pytest.mark.parametrize("seed", range(5))
def test_no_order_has_a_lower_mean_and_sharing_is_never_better(seed):
    sizes = np.random.default_rng(seed).integers(1, 1000, 30)
    first, shared = shortest_first(sizes, 8), fair_sharing(sizes, 8)
    for other in range(20):
        order = np.random.default_rng([seed, other]).permutation(30)
        assert first.mean() <= np.cumsum(sizes[order]).mean() + 1e-9
    assert (first <= shared + 1e-9).all() and shared.max() == pytest.approx(sizes.sum())
