"""The histogram and the sample, as values."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from qclimb.histogram import SizeHistogram
from qclimb.record import PARTLY_UNOBSERVED

from hostlib.hostd.collected import Collected
from tests.hostd.bench import record


def test_what_was_not_wholly_observed_is_in_no_histogram_but_counted() -> None:
    collected = Collected(10)
    collected.add([record(100), record(5_000, flags=PARTLY_UNOBSERVED)])
    unsent = collected.take()
    collected.give_back(unsent)
    collected.add([record(6_000, flags=PARTLY_UNOBSERVED)])
    taken = collected.take()
    assert taken.histogram == SizeHistogram.of([100])
    assert (taken.unobserved, taken.offered, taken.dropped) == (2, 3, 0)
    assert sorted(found.size_bytes for found in taken.records) == [100, 5_000, 6_000]


def sizes(collected: Collected) -> list[int]:
    return [found.size_bytes for found in collected.waiting.records]


@given(st.lists(st.integers(1, 2**63), max_size=60), st.integers(1, 20))
def test_every_size_is_in_the_histogram_and_every_record_sampled_or_counted(found: list[int], capacity: int) -> None:
    collected = Collected(capacity)
    collected.add(map(record, found), dropped_by_shims=2)
    taken = collected.take()
    assert taken.histogram == SizeHistogram.of(found)
    assert len(taken.records) == min(len(found), capacity)
    assert taken.dropped == 2 + len(found) - len(taken.records)
    assert not Counter(kept.size_bytes for kept in taken.records) - Counter(found)
    assert collected.waiting.offered == 0


@given(st.lists(st.integers(1, 100), max_size=40), st.lists(st.integers(1, 100), max_size=40), st.integers(1, 20))
def test_giving_back_is_as_if_it_had_never_been_taken(before: list[int], after: list[int], capacity: int) -> None:
    collected = Collected(capacity)
    collected.add(map(record, before), dropped_by_shims=1)
    taken = collected.take()
    collected.add(map(record, after), dropped_by_shims=2)
    collected.give_back(taken)
    waiting = collected.waiting
    assert waiting.histogram == SizeHistogram.of(before + after)
    assert (waiting.offered, waiting.dropped_by_shims) == (len(before + after), 3)
    assert len(waiting.records) == min(len(before + after), capacity)
    assert not Counter(sizes(collected)) - Counter(before + after)
    if len(before + after) <= capacity:
        assert sizes(collected) == before + after


@pytest.mark.parametrize("outages", [0, 1, 3])
def test_each_flow_has_the_same_chance_to_be_sampled_however_often_it_was_given_back(outages: int) -> None:
    flows, capacity, runs = 40, 10, 2000
    chosen: Counter[int] = Counter()
    for seed in range(runs):
        collected = Collected(capacity, seed)
        for index in range(flows):
            if outages and index % (flows // outages) == 5:
                taken = collected.take()
                collected.add([record(index + 1)])
                collected.give_back(taken)
            else:
                collected.add([record(index + 1)])
        chosen.update(sizes(collected))
    expected = runs * capacity / flows
    # Chi-square with 39 degrees of freedom: 99.9 % lie below 72; the seeds are fixed.
    assert sum((chosen[index + 1] - expected) ** 2 / expected for index in range(flows)) < 72


def test_a_sample_without_room_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1 record"):
        Collected(0)
