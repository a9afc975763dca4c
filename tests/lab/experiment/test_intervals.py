"""Intervals are as wide as what they rest on allows, and no interval of a ratio reaches 0."""

import numpy as np
import pytest

from lab.experiment.intervals import NOTHING, Interval, over_blocks, over_runs, proportion

CHANCE = np.random.default_rng(7)


def test_runs_have_students_interval():
    found = over_runs([1.0, 2.0, 3.0])
    assert found.value == 2.0
    assert found.high - 2.0 == pytest.approx(4.3027 / 3**0.5, rel=1e-4)
    assert 2.0 - found.low == pytest.approx(found.high - 2.0)


def test_ratios_of_runs_average_on_logarithms_and_never_reach_0():
    found = over_runs([0.5, 2.0], ratios=True)
    assert found.value == pytest.approx(1.0)
    assert found.low * found.high == pytest.approx(1.0)
    wide = over_runs([0.01, 3.0, 0.5], ratios=True)
    assert 0 < wide.low < wide.value < wide.high
    assert over_runs([0.01, 3.0, 0.5]).low < 0, "on the values themselves it would"


def test_a_ratio_and_its_reverse_say_the_same():
    each = [0.7, 0.8, 0.95]
    there, back = over_runs(each, ratios=True), over_runs([1 / one for one in each], ratios=True)
    assert (back.value, back.low, back.high) == pytest.approx((1 / there.value, 1 / there.high, 1 / there.low))


def test_one_run_has_a_value_and_no_interval():
    found = over_runs([0.8], ratios=True)
    assert found.value == pytest.approx(0.8) and found.is_measured and not found.is_bounded
    assert str(found) == "0.80" and found.change() == "-20 %"


def test_runs_without_such_flows_are_left_out():
    assert over_runs([float("nan"), 0.5, 0.5], ratios=True).is_bounded
    assert over_runs([float("nan")]) is NOTHING and over_runs([]) is NOTHING and not NOTHING.is_measured


def test_a_ratio_of_0_is_refused():
    with pytest.raises(ValueError, match="a ratio must be above 0"):
        over_runs([0.0, 1.0], ratios=True)


def test_blocks_are_wider_than_flows_where_neighbours_share_their_fate():
    fate = np.repeat(CHANCE.exponential(size=40), 50)
    values = fate + 0.01 * CHANCE.random(2000)
    blocks = over_blocks(values, np.repeat(np.arange(40), 50))
    single = over_blocks(values, np.arange(2000))
    assert blocks.value == single.value
    assert blocks.high - blocks.low > 3 * (single.high - single.low)


def test_what_two_schemes_share_cancels_in_their_ratio():
    fate = np.repeat(CHANCE.exponential(size=40), 50) + 0.1
    block = np.repeat(np.arange(40), 50)
    for name in ("mean", "p99"):
        found = over_blocks(0.8 * fate, block, name, base=fate)
        assert (found.value, found.low, found.high) == pytest.approx((0.8, 0.8, 0.8))


def test_the_p99_under_each_draw_is_that_of_the_drawn_flows():
    """A block that holds the whole tail is left out by some draws and counted twice by others."""
    values = np.concatenate([np.ones(990), np.full(10, 100.0)])
    found = over_blocks(values, np.repeat(np.arange(10), 100), "p99")
    assert found.low == 1.0 and found.high == 100.0


def test_one_block_has_no_interval_and_no_flows_have_no_value():
    assert not over_blocks(np.ones(5), np.zeros(5, np.int64)).is_bounded
    assert over_blocks(np.ones(0), np.zeros(0, np.int64), blocks=3) is NOTHING


def test_proportions_are_clopper_and_pearsons():
    from scipy.stats import binomtest  # takes a second: whoever only collects tests need not wait for it

    for successes, tries in ((0, 10), (10, 10), (7, 10), (9_990, 10_000)):
        exact = binomtest(successes, tries).proportion_ci(0.95, "exact")
        found = proportion(successes, tries)
        assert (found.low, found.high) == pytest.approx((exact.low, exact.high), abs=1e-9)
    assert proportion(0, 0) is NOTHING
    with pytest.raises(ValueError, match="11 successes of 10 tries"):
        proportion(11, 10)


def test_intervals_are_shown_as_in_tables():
    assert Interval(0.567, 0.5, 0.62).text() == "0.57 [0.50, 0.62]"
    assert Interval(1.234567, 1.2, 1.3).text(3) == "1.235 [1.200, 1.300]"
    assert Interval(0.57, 0.5, 0.62).change() == "-43 % [-50, -38]"
