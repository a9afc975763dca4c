"""Foretold slowdowns against the cost that thresholds are chosen by, and rates of what switches counted."""

import math

import numpy as np
import pytest

from orchestrator.fabric.door import ClassCount, Told
from orchestrator.plan.sizes import SizeDistribution
from orchestrator.plan.slowdowns import slowdown_of, slowdowns
from orchestrator.plan.thresholds import Objective, cost, optimise
from orchestrator.watch.traffic import Looks

SIZES = SizeDistribution.from_sizes((np.random.default_rng(0).pareto(1.1, 20_000) * 2000 + 200).astype(int))


def test_the_mean_of_all_foretold_slowdowns_is_the_cost_of_the_thresholds():
    for load in (0.3, 0.8):
        chosen = optimise(SIZES, 8, load, Objective.SLOWDOWN)
        mean = float((slowdown_of(SIZES, load, chosen.threshold_bytes) * SIZES.share).sum())
        assert math.isclose(mean, cost(SIZES, load, chosen.threshold_bytes, Objective.SLOWDOWN), rel_tol=1e-9)


def test_without_thresholds_all_flows_wait_alike_and_with_them_small_ones_less():
    before = slowdowns(SIZES, 0.6, ())
    assert before.small == pytest.approx(2.5) and before.medium == pytest.approx(2.5)
    after = slowdowns(SIZES, 0.6, optimise(SIZES, 8, 0.6, Objective.SLOWDOWN).threshold_bytes)
    assert 1 <= after.small < after.medium < 2.5
    assert slowdowns(SizeDistribution.from_sizes([1000]), 0.6, (500,)).large is None


def told(*counts: tuple[int | None, int | None, int | None]) -> Told:
    return Told("seen", {}, {priority: ClassCount(*each) for priority, each in enumerate(counts)})


def test_rates_come_from_two_looks():
    looks = Looks().and_then(1e9, 100.0, told((1000, 10, 0), (None, None, None)))
    assert looks.rates() == {}
    found = looks.and_then(1e9, 110.0, told((6000, 20, 5), (None, None, None))).rates()
    assert (found[0].bytes_per_s, found[0].packets_per_s, found[0].dropped_per_s) == (500, 1, 0.5)
    assert found[0].dropped_packets == 5 and found[1].bytes_per_s is None


def test_a_switch_that_counts_from_0_again_or_a_clock_that_jumps_back_tells_no_rate():
    first = Looks().and_then(1e9, 100.0, told((1000, 10, 3)))
    assert first.and_then(1e9, 110.0, told((10, 1, 0))).rates()[0].bytes_per_s is None
    assert first.and_then(1e9, 90.0, told((2000, 20, 3))).rates() == {}


def test_rates_do_not_depend_on_the_wall_clock():
    looks = Looks().and_then(1e9, 100.0, told((1000, 10, 3)))
    for wall_s in (5e8, 2e9):
        assert looks.and_then(wall_s, 110.0, told((2000, 20, 3))).rates()[0].bytes_per_s == 100


def test_what_a_switch_told_last_stays_where_it_does_not_answer():
    seen = Looks().and_then(1e9, 100.0, told((0, 0, 0))).and_then(1e9, 110.0, told((10, 1, 0)))
    missed = seen.missed("no answer")
    assert missed.error == "no answer" and missed.rates() == seen.rates()
    assert missed.and_then(1e9, 120.0, told((20, 2, 0))).error is None
