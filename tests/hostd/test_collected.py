"""The histogram and the sample, as values."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from qclimb.histogram import SizeHistogram
from qclimb.record import PARTLY_UNOBSERVED
from qclimb.record_rows import from_records

from hostlib.hostd.collected import Collected
from tests.hostd.bench import record


def test_what_was_not_wholly_observed_is_in_no_histogram_but_counted() -> None:
    collected = Collected(10)
    collected.add(from_records([record(100), record(5_000, flags=PARTLY_UNOBSERVED)]))
    collected.add(from_records([record(6_000, flags=PARTLY_UNOBSERVED)]))
    taken = collected.take()
    assert taken.histogram == SizeHistogram.of([100])
    assert (taken.unobserved, taken.offered, taken.dropped) == (2, 3, 0)
    assert sorted(found.size_bytes for found in taken.records) == [100, 5_000, 6_000]


@given(st.lists(st.integers(1, 2**63), max_size=60), st.integers(1, 20), st.integers(1, 30))
def test_every_size_is_in_the_histogram_and_every_record_sampled_or_counted(
    found: list[int], capacity: int, limit: int
) -> None:
    collected = Collected(capacity)
    collected.limit = limit
    cut = len(found) // 3
    collected.add(from_records(map(record, found[:cut])), dropped_by_shims=2)
    collected.add(from_records(map(record, found[cut:])))
    taken = collected.take()
    assert taken.histogram == SizeHistogram.of(found)
    assert len(taken.records) == min(len(found), capacity, limit)
    assert taken.dropped == 2 + len(found) - len(taken.records)
    assert not Counter(kept.size_bytes for kept in taken.records) - Counter(found)
    assert collected.waiting.offered == 0


@pytest.mark.parametrize("capacity", [10, 22, 40])
def test_each_flow_has_the_same_chance_to_be_sampled(capacity: int) -> None:
    flows, limit, runs = 40, 10, 1000
    chosen: Counter[int] = Counter()
    some = from_records(record(index + 1) for index in range(flows))
    for seed in range(runs):
        collected = Collected(capacity, seed)
        collected.limit = limit
        collected.add(some[:25])
        collected.add(some[25:])
        chosen.update(kept.size_bytes for kept in collected.take().records)
    expected = runs * limit / flows
    # Chi-square with 39 degrees of freedom: 99.9 % lie below 72; the seeds are fixed.
    assert sum((chosen[index + 1] - expected) ** 2 / expected for index in range(flows)) < 72


def test_a_record_that_stands_for_many_flows_counts_as_many() -> None:
    collected = Collected(10)
    rows = from_records([record(100), record(2**63), record(5_000, flags=PARTLY_UNOBSERVED)])
    collected.add(rows, flows=np.array([7, 2, 3], np.uint64))
    taken = collected.take()
    assert taken.histogram == SizeHistogram.of([100] * 7 + [2**63] * 2)
    assert (taken.offered, taken.dropped, len(taken.records)) == (12, 9, 3)


@pytest.mark.parametrize("batch", [16, 100])
def test_it_is_as_likely_to_be_sampled_as_one_of_them(batch: int) -> None:
    """One record of ten stands for nine flows, as many as the others together."""
    runs, chosen = 1500, 0
    some = from_records(record(index + 1) for index in range(100))
    flows = np.where(np.arange(100) % 10, 1, 9).astype(np.uint64)
    for seed in range(runs):
        collected = Collected(20, seed)
        collected.limit = 1
        for at in range(0, 100, batch):
            collected.add(some[at : at + batch], flows=flows[at : at + batch])
        chosen += collected.take().records[0].size_bytes % 10 == 1
    # Half of the flows are in such records; 0.052 is four standard deviations.
    assert chosen / runs == pytest.approx(0.5, abs=0.052)


def test_a_sample_without_room_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1 record"):
        Collected(0)
