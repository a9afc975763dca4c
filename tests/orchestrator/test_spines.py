"""Thresholds for K spines x N queues: against the definition, brute force and differential evolution."""

import re
from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.errors import ThresholdError
from orchestrator.plan.sizes import SizeDistribution
from orchestrator.plan.spines import BigSpine, Problem, _descend, _grid, _starts, cost, optimise_spines
from orchestrator.plan.thresholds import Objective
from tests.tiers import examples, quick_first

HEAVY = [int(100 * (1 - u) ** -0.9) for u in np.linspace(0, 0.9999, 400)]


def by_flow(sizes: list[int], shape: BigSpine, load: float, thresholds: tuple[int, ...]) -> float:
    """The model word by word, one flow at a time: rates of queues one after the other, times of each flow's bytes."""
    edges = [0, *thresholds, max(sizes) + 1]
    total = np.sum(sizes)
    carried = [sum(min(s, b) - min(s, a) for s in sizes) / total for a, b in pairwise(edges)]
    left = list(shape.capacity)  # of each spine, after the queues that are served before
    time_of = []
    for k in range(shape.pinned):
        spine = k % shape.spines
        left[spine] -= load * carried[k]
        time_of.append(1 / left[spine])
    pinned = [sum(carried[: shape.pinned][spine :: shape.spines]) for spine in range(shape.spines)]
    weights = [(part - own) / carried[-1] for part, own in zip(shape.capacity, pinned, strict=True)]
    if min(weights) < -1e-9:
        return float("inf")
    of_last = [1 / (left[spine] - load * weight * carried[-1]) for spine, weight in enumerate(weights)]
    assert of_last == pytest.approx([1 / part / (1 - load) for part in shape.capacity]), "the same at every spine"
    parts = [np.mean([(min(s, b) - min(s, a)) / s for s in sizes]) for a, b in pairwise(edges)]
    return sum(p * t for p, t in zip(parts, [*time_of, shape.spines / (1 - load)], strict=True)) / shape.spines


SHAPES = [
    BigSpine.equal(2),
    BigSpine.equal(3),
    BigSpine.equal(2, 3),
    BigSpine((0.5, 0.3, 0.2)),
    BigSpine((0.7, 0.3), 3),
]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@settings(max_examples=examples(13), deadline=None)
@given(
    sizes=st.lists(st.integers(1, 1000), min_size=2, max_size=9),
    load=st.floats(0.1, 0.95),
    data=st.data(),
)
def test_the_cost_is_the_models_flow_by_flow(shape, sizes, load, data):
    thresholds = st.sets(st.integers(1, max(sizes)), min_size=shape.pinned, max_size=shape.pinned)
    if max(sizes) <= shape.pinned:
        return
    chosen = tuple(sorted(data.draw(thresholds)))
    if chosen[-1] >= max(sizes):
        return
    found = cost(SizeDistribution.from_sizes(sizes), shape, load, chosen, Objective.SLOWDOWN)
    expected = by_flow(sizes, shape, load, chosen)
    assert found == pytest.approx(expected) or not np.isfinite([found, expected]).any()


@pytest.mark.parametrize("objective", Objective)
@pytest.mark.parametrize("shape", [BigSpine.equal(2), BigSpine.equal(3), BigSpine((0.5, 0.2, 0.3))], ids=str)
@settings(max_examples=examples(10), deadline=None)
@given(sizes=st.lists(st.integers(1, 10**5), min_size=2, max_size=8), load=st.floats(0.1, 0.95))
def test_with_two_queues_no_other_choice_on_the_grid_costs_less(objective, shape, sizes, load):
    problem = Problem(SizeDistribution.from_sizes(sizes), shape, load, objective)
    grid = _grid(problem.sizes, 12, 1)
    least = min((problem.cost(np.array(each)) for each in combinations(grid, shape.pinned)), default=np.inf)
    found = [problem.judged(_descend(problem, start, [grid] * shape.pinned)) for start in _starts(problem, grid)]
    assert min(found, default=np.inf) == pytest.approx(least)


@pytest.mark.parametrize(("spines", "queues", "cells"), [(2, 3, 22), (3, 3, 13), (2, 4, 13)])
@pytest.mark.parametrize("load", [0.4, 0.8])
def test_with_more_queues_brute_force_on_the_grid_finds_nothing_better(spines, queues, cells, load):
    shape = BigSpine.equal(spines, queues)
    problem = Problem(SizeDistribution.from_sizes(HEAVY), shape, load, Objective.SLOWDOWN)
    grid = _grid(problem.sizes, cells, 1)
    least = min(problem.cost(np.array(each)) for each in combinations(grid, shape.pinned))
    found = [problem.judged(_descend(problem, start, [grid] * shape.pinned)) for start in _starts(problem, grid)]
    assert min(found) == pytest.approx(least, rel=1e-9)


@pytest.mark.parametrize(("spines", "queues"), [(4, 2), (2, 3), (4, 3)])
def test_differential_evolution_finds_nothing_better(spines, queues):
    """It knows nothing of the grid, of segments or of windows."""
    from scipy.optimize import differential_evolution  # takes a second: only for who runs this

    shape = BigSpine.equal(spines, queues)
    problem = Problem(SizeDistribution.from_sizes(HEAVY), shape, 0.8, Objective.SLOWDOWN)
    found = optimise_spines(problem.sizes, shape, 0.8, Objective.SLOWDOWN, 0.0, 1)
    ends = np.log([min(HEAVY), max(HEAVY)])

    def wanted(logs):
        thresholds = np.exp(np.sort(logs))
        value = problem.cost(thresholds) if np.all(np.diff(thresholds) > 0) else np.inf
        return value if np.isfinite(value) else 1e3

    evolved = differential_evolution(wanted, [ends] * shape.pinned, maxiter=60, popsize=12, seed=1, polish=False)
    assert found.cost <= evolved.fun * (1 + 1e-4)


def test_more_spines_and_more_queues_cost_less() -> None:
    sizes = SizeDistribution.from_sizes(HEAVY)

    def least(spines: int, queues: int) -> float:
        return optimise_spines(sizes, BigSpine.equal(spines, queues), 0.8, last_share=0.0, segment_bytes=1).cost

    by_spines, by_queues = [least(k, 2) for k in (2, 3, 4, 6)], [least(2, n) for n in (2, 3, 4)]
    assert by_spines == sorted(by_spines, reverse=True)
    assert by_queues == sorted(by_queues, reverse=True)


@pytest.mark.parametrize(("spines", "queues"), quick_first([(62, 2), (31, 3), (9, 8)], 1))
def test_as_many_priorities_as_a_policy_holds_have_thresholds(spines, queues):
    sizes = SizeDistribution.from_sizes([10 * size for size in HEAVY])
    found = optimise_spines(sizes, BigSpine.equal(spines, queues), 0.8, segment_bytes=1)
    assert len(set(found.threshold_bytes)) == spines * (queues - 1)
    assert np.isfinite(found.cost)


@settings(max_examples=examples(13), deadline=None)
@given(
    sizes=st.lists(st.integers(1, 10**7), min_size=1, max_size=30),
    spines=st.integers(2, 5),
    queues=st.integers(2, 3),
    segment=st.sampled_from([1, 1448]),
)
def test_what_is_found_fits_a_policy_and_fills_no_spine(sizes, spines, queues, segment):
    shape = BigSpine.equal(spines, queues)
    distribution = SizeDistribution.from_sizes(sizes)
    try:
        found = optimise_spines(distribution, shape, 0.7, segment_bytes=segment)
    except ThresholdError as error:
        assert "none of whose classes fills its spine" in str(error)
        return
    assert len(found.threshold_bytes) == shape.pinned
    assert all(each > 0 and each % segment == 0 for each in found.threshold_bytes)
    assert all(a < b for a, b in pairwise(found.threshold_bytes))
    assert np.isfinite(found.cost)
    assert 1 - distribution.at([found.threshold_bytes[-1]])[1][0] >= 0.5 - 1e-9


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: BigSpine((0.5, 0.6)), "capacity: (0.5, 0.6), expected parts above 0 that sum to 1"),
        (lambda: BigSpine((1.5, -0.5)), "capacity: (1.5, -0.5), expected parts"),
        (lambda: BigSpine.equal(2, 1), "queues: 1, expected at least 2"),
        (
            lambda: optimise_spines(SizeDistribution.from_sizes([100]), BigSpine.equal(2)),
            "flow sizes: 2 spines with 2 queues need 2 thresholds in steps of 1448 bytes",
        ),
        (lambda: optimise_spines(SizeDistribution.from_sizes(HEAVY), BigSpine.equal(2), 1.0), "load: 1.0, must lie"),
    ],
)
def test_what_has_no_thresholds_is_refused(call, said):
    with pytest.raises(ThresholdError, match=re.escape(said)):
        call()


def test_equal_questions_get_equal_answers() -> None:
    sizes = SizeDistribution.from_sizes(HEAVY)
    assert optimise_spines(sizes, BigSpine.equal(4, 3)) == optimise_spines(sizes, BigSpine.equal(4, 3))
