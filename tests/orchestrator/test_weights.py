"""Shares of the balanced class: the paper's numbers, and what they do to spines."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.errors import ThresholdError
from orchestrator.plan.sizes import SizeDistribution
from orchestrator.plan.weights import fault, mended, spread
from tests.tiers import examples

LOW, HIGH, ALPHA = 3.0, 29_200.0, 0.125  # KB: the bounded Pareto of MP-MLFQ's repository
FOUR = {f"s{n}": 1.0 for n in (1, 2, 3, 4)}
PUBLISHED = (34_960, 355_910, 1_308_250, 3_115_890)


@pytest.fixture(scope="module")
def pareto() -> SizeDistribution:
    at = np.geomspace(LOW, HIGH, 2000)
    share = (1 - (LOW / at) ** ALPHA) / (1 - (LOW / HIGH) ** ALPHA)
    return SizeDistribution.from_cdf(zip((at * 1000).tolist(), share.tolist(), strict=True), cells=4000)


def test_the_shares_are_the_papers(pareto):
    found = spread(pareto, PUBLISHED, FOUR)
    assert tuple(found.share.values()) == pytest.approx((0.3827, 0.2912, 0.1926, 0.1335), abs=1e-4)
    assert sum(found.share.values()) == pytest.approx(1)
    assert sum(found.carried) == pytest.approx(1)


@settings(max_examples=examples(20), deadline=None)
@given(
    sizes=st.lists(st.integers(1, 10**6), min_size=3, max_size=30),
    rates=st.lists(st.floats(1, 100), min_size=2, max_size=5),
    rows=st.integers(1, 2),
    data=st.data(),
)
def test_every_spine_carries_its_part_or_the_threshold_at_fault_is_named(sizes, rates, rows, data):
    count = rows * len(rates)
    thresholds = sorted(data.draw(st.sets(st.integers(1, 10**6), min_size=count, max_size=count)))
    distribution = SizeDistribution.from_sizes(sizes)
    spines = {f"s{n}": rate for n, rate in enumerate(rates)}
    wrong = fault(distribution, thresholds, spines)
    if wrong is None:
        found = spread(distribution, thresholds, spines)
        for place, (name, rate) in enumerate(spines.items()):
            load = sum(found.carried[:-1][place :: len(rates)]) + found.share[name] * found.carried[-1]
            assert load == pytest.approx(rate / sum(rates), abs=1e-5)
        assert min(found.share.values()) >= 0
    else:
        with pytest.raises(
            ThresholdError, match=re.escape(f"threshold_bytes[{wrong.index}] is {wrong.threshold_bytes}")
        ):
            spread(distribution, thresholds, spines)
        try:
            moved = mended(distribution, thresholds, spines)
        except ThresholdError as error:
            assert "no smaller one would do" in str(error)
        else:
            assert fault(distribution, moved, spines) is None
            assert all(new <= old for new, old in zip(moved, thresholds, strict=True))


def test_a_spine_that_is_full_is_named_with_what_would_fit(pareto):
    with pytest.raises(ThresholdError) as refused:
        spread(pareto, (34_960, 355_910, 3_000_000, 4_000_000), FOUR)
    said = re.fullmatch(
        r"threshold_bytes\[2\] is 3000000: spine 's3' would carry 0\.\d+ of all bytes before the last priority, "
        r"expected at most 0\.2500; (\d+) fits",
        str(refused.value),
    )
    assert said is not None
    fits = int(said[1])
    assert fault(pareto, (34_960, 355_910, fits, 4_000_000), FOUR) is None
    assert fault(pareto, (34_960, 355_910, fits + 5000, 4_000_000), FOUR) is not None
    assert mended(pareto, (34_960, 355_910, 3_000_000, 4_000_000), FOUR, 1448)[2] == fits // 1448 * 1448


def test_unequal_links_get_shares_by_their_rates(pareto):
    found = spread(pareto, PUBLISHED, {"s1": 100, "s2": 100, "s3": 100, "s4": 70})
    equal = spread(pareto, PUBLISHED, FOUR)
    assert found.share["s4"] < equal.share["s4"]
    own = found.carried[3] + found.share["s4"] * found.carried[4]
    assert own == pytest.approx(70 / 370)


@pytest.mark.parametrize(
    ("thresholds", "rates", "said"),
    [
        ((1, 2, 3), {"s1": 1, "s2": 1}, "3 thresholds on 2 spines, expected whole rows"),
        ((2, 1), {"s1": 1, "s2": 1}, "thresholds are [2, 1], expected ascending"),
        ((1, 2), {"s1": 1, "s2": 0}, "rate of spine 's2' is 0, expected more than 0"),
        ((1, 2), {"s1": 1, "s2": float("nan")}, "rate of spine 's2' is nan"),
    ],
)
def test_what_cannot_be_shared_is_refused(thresholds, rates, said):
    with pytest.raises(ThresholdError, match=re.escape(said)):
        spread(SizeDistribution.from_sizes([5, 10]), thresholds, rates)
