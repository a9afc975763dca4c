"""Ours beside MP-MLFQ's published thresholds, by the cost that its repository computes, on every row that it has."""

import numpy as np
import pytest

from bench.published import cost_queues, cost_spines
from bench.spines import PUBLISHED_KB, ours, polished, web_search
from lab.sim.fluid import MLFQ_KB
from orchestrator.plan.spines import BigSpine, cost
from orchestrator.plan.thresholds import Objective, optimise

ROUNDED = 1e-6
"""Published thresholds have two digits after the point."""


@pytest.fixture(scope="module")
def sizes():
    return web_search()


def test_the_cost_is_the_repositorys() -> None:
    """What its own `total_cost` said of these, run on today's numpy."""
    assert cost_spines((34.96, 355.91, 1308.25, 3115.8917344692445), 4, 0.8) == pytest.approx(1.6432523574631352)


@pytest.mark.parametrize(("spines", "load"), PUBLISHED_KB)
def test_by_their_cost_none_is_worse_and_by_the_flows_ours_are_better(sizes, spines, load):
    theirs, found = PUBLISHED_KB[spines, load], ours(sizes, spines, load)

    def by_them(place):
        return cost_spines(place, spines, load)

    assert by_them(polished(by_them, found)) <= by_them(theirs) * (1 + ROUNDED)
    assert by_them(found) <= by_them(theirs) * 1.025, "also where the flows' slowdown was looked for"
    by_flow = [
        cost(sizes, BigSpine.equal(spines), load, [round(1000 * kb) for kb in place], Objective.SLOWDOWN)
        for place in (found, theirs)
    ]
    assert by_flow[0] <= by_flow[1]


@pytest.mark.parametrize(("queues", "load"), MLFQ_KB)
def test_on_one_path_by_their_cost_none_is_worse(sizes, queues, load):
    theirs = MLFQ_KB[queues, load]
    found = np.array(optimise(sizes, queues, load, Objective.SLOWDOWN).threshold_bytes) / 1000

    def by_them(place):
        return cost_queues(place, load)

    assert by_them(polished(by_them, found)) <= by_them(theirs) * (1 + ROUNDED)
