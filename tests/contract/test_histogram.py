"""The size histogram against exact quantiles."""

import json
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from qclimb.errors import RecordError
from qclimb.histogram import GAMMA, SizeHistogram, bucket_of, middle_of

SIZES = st.lists(st.integers(1, 2**64 - 1) | st.integers(1, 2000), min_size=1, max_size=200)


@given(SIZES, st.floats(0, 1))
def test_quantiles_are_within_one_percent(sizes: list[int], share: float) -> None:
    exact = sorted(sizes)[int(share * (len(sizes) - 1))]
    assert abs(Fraction(SizeHistogram.of(sizes).quantile(share)) / exact - 1) <= Fraction(1, 100)


@given(st.integers(1, 2**64 - 1))
def test_a_bucket_holds_sizes_within_one_percent_of_its_middle(size: int) -> None:
    assert abs(Fraction(middle_of(bucket_of(size))) / size - 1) <= Fraction(1, 100)


@given(st.integers(0, 2239))
def test_a_bucket_ends_at_its_power_of_gamma(bucket: int) -> None:
    edge = GAMMA**bucket
    assert bucket_of(max(1, int(edge * 0.999999))) <= bucket <= bucket_of(int(edge * 1.000001) + 1)


@given(SIZES, SIZES)
def test_adding_is_counting_together(some: list[int], others: list[int]) -> None:
    assert SizeHistogram.of(some) + SizeHistogram.of(others) == SizeHistogram.of(some + others)
    assert sum((SizeHistogram.of([size]) for size in some), SizeHistogram()) == SizeHistogram.of(some)


@given(SIZES, st.integers(1, 2**64 - 1))
def test_the_cdf_is_exact_within_a_bucket(sizes: list[int], size: int) -> None:
    found = SizeHistogram.of(sizes).cdf(size)
    below, above = (
        sum(each <= size * factor for each in sizes) / len(sizes)
        for factor in (1, Fraction(GAMMA) * Fraction(1000001, 1000000))
    )
    assert below <= found <= above


@given(SIZES)
def test_a_histogram_comes_back_from_its_json(sizes: list[int]) -> None:
    histogram = SizeHistogram.of(sizes)
    assert SizeHistogram.from_json(json.loads(json.dumps(histogram.to_json()))) == histogram
    assert (histogram.flows, histogram.total_bytes) == (len(sizes), sum(sizes))
    assert [count for _, count in histogram] == [histogram.counts[bucket] for bucket in sorted(histogram.counts)]


def test_nothing_has_no_quantile_and_no_share() -> None:
    assert SizeHistogram().cdf(10) == 0
    assert SizeHistogram.of([5]).cdf(0) == 0
    with pytest.raises(RecordError, match="counts is empty, expected at least one flow"):
        SizeHistogram().quantile(0.5)


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan")])
def test_a_share_outside_0_to_1_is_refused(share: float) -> None:
    with pytest.raises(RecordError, match="expected a number in"):
        SizeHistogram.of([5]).quantile(share)


@pytest.mark.parametrize(
    ("obj", "said"),
    [
        ([], "histogram is [], expected an object"),
        ({"counts": {}, "total_bytes": 0}, "histogram lacks 'gamma', expected a value for it"),
        ({"gamma": 1.01, "counts": {}, "total_bytes": 0}, "gamma is 1.01, expected 1.02"),
        ({"gamma": 1.02, "counts": {"x": 1}, "total_bytes": 1}, "bucket is 'x', expected an integer in 0..2241"),
        ({"gamma": 1.02, "counts": {"-1": 1}, "total_bytes": 1}, "bucket is -1, expected an integer in 0..2241"),
        ({"gamma": 1.02, "counts": {"3": 0}, "total_bytes": 1}, "counts[3] is 0, expected an integer in 1..2^64-1"),
        (
            {"gamma": 1.02, "counts": {"3": 2}, "total_bytes": 1},
            "total_bytes is 1, expected at least a byte for each of 2 flows",
        ),
        ({"gamma": 1.02, "counts": {"3": 2}, "total": 1}, "histogram has the unknown key 'total', did you mean"),
    ],
)
def test_an_impossible_histogram_is_refused_in_one_sentence(obj: Any, said: str) -> None:
    with pytest.raises(RecordError) as refusal:
        SizeHistogram.from_json(obj)
    assert str(refusal.value).startswith(said)


def test_a_quantile_of_more_flows_than_a_float_counts_is_still_of_one_of_them() -> None:
    found = SizeHistogram({1: 10**18}, 10**18)
    assert found.quantile(1.0) == found.quantile(0.0) == found.quantile(0.999)
