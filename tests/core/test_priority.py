"""Algorithm 1 in C against the paper's text in Python, and what must hold of it whatever the numbers."""

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.core.core import UNKNOWN, Core
from tests.tiers import examples

BYTES = st.integers(0, 60)
HUGE = st.one_of(st.integers(0, UNKNOWN), st.integers(UNKNOWN - 70, UNKNOWN), BYTES)
THRESHOLDS = st.sets(st.integers(1, 40), max_size=7).map(lambda found: (0, *sorted(found)))
FLOWS = st.tuples(BYTES, st.one_of(BYTES, st.just(UNKNOWN)), st.one_of(st.just(0), BYTES))

Bounds = tuple[int, int, int]


def as_in_the_paper(thresholds: tuple[int, ...], bounds: Bounds, sent: int, demotion: int) -> int:
    """Algorithm 1, with the scan from the last priority up that it prints."""
    lower, upper, slack = bounds

    def queue_of(size: int) -> int:
        return next(p for p in reversed(range(len(thresholds))) if thresholds[p] <= size)

    if sent < lower:
        return queue_of(lower - sent)
    if sent < lower + slack:
        return 0
    if sent < upper:
        return queue_of(demotion)
    return len(thresholds) - 1


@given(THRESHOLDS, FLOWS, BYTES, BYTES)
def test_priority_is_algorithm_1(
    core: Core, thresholds: tuple[int, ...], bounds: Bounds, sent: int, footprint: int
) -> None:
    demotion = max(sent, footprint)
    assert core.priority(thresholds, bounds, sent, demotion) == as_in_the_paper(thresholds, bounds, sent, demotion)


@given(st.sets(st.integers(1, UNKNOWN - 1), max_size=63), st.tuples(HUGE, HUGE, HUGE), HUGE, HUGE)
def test_priority_is_algorithm_1_up_to_the_largest_numbers(
    core: Core, found: set[int], bounds: Bounds, sent: int, demotion: int
) -> None:
    thresholds = (0, *sorted(found))
    lower, upper, slack = bounds
    saturated = (lower, upper, min(slack, UNKNOWN - lower))  # offsets end at 2^64 - 1
    assert core.priority(thresholds, bounds, sent, demotion) == as_in_the_paper(thresholds, saturated, sent, demotion)


@example((0, 3, 6), (7, 7, 0), 0)
@example((0,), (7, 9, 3), 5)
@example((0, 1), (1, UNKNOWN, 0), 0)  # a threshold of one byte: the climb ends without a change
@given(THRESHOLDS, FLOWS, BYTES)
@settings(max_examples=examples(100))
def test_next_change_is_what_a_search_byte_by_byte_finds(
    core: Core, thresholds: tuple[int, ...], bounds: Bounds, footprint: int
) -> None:
    last = 190  # past every bound, slack and threshold here
    served = [core.priority(thresholds, bounds, sent, max(sent, footprint)) for sent in range(last + 1)]
    for sent in range(0, last, 7):
        later = (at for at in range(sent + 1, last + 1) if served[at] != served[sent])
        assert core.next_change(thresholds, bounds, sent, footprint) == next(later, UNKNOWN)


@given(st.sets(st.integers(1, UNKNOWN - 1), max_size=63), st.tuples(HUGE, HUGE, HUGE), HUGE, HUGE)
def test_next_change_is_a_change_and_nothing_changes_before(
    core: Core, found: set[int], bounds: Bounds, sent: int, footprint: int
) -> None:
    thresholds = (0, *sorted(found))

    def served(at: int) -> int:
        return core.priority(thresholds, bounds, at, max(at, footprint))

    change = core.next_change(thresholds, bounds, sent, footprint)
    assert change > sent or change == UNKNOWN
    if change < UNKNOWN:
        assert served(change) != served(sent)
    lower, upper, slack = bounds
    edges = (lower, lower + slack, upper, *thresholds, *(lower - t + 1 for t in thresholds))
    for at in {edge + off for edge in edges for off in (-1, 0, 1)}:
        if sent < at < change:
            assert served(at) == served(sent)


@given(THRESHOLDS, BYTES)
def test_pias_is_a_setting(core: Core, thresholds: tuple[int, ...], sent: int) -> None:
    by_bytes_sent = max(p for p, begin in enumerate(thresholds) if begin <= sent)
    assert core.priority(thresholds, (0, UNKNOWN, 0), sent) == by_bytes_sent


@given(THRESHOLDS, st.integers(1, 60), st.data())
def test_qclimb_ps_is_a_setting(core: Core, thresholds: tuple[int, ...], size: int, data: st.DataObject) -> None:
    sent = data.draw(st.integers(0, size - 1))
    by_bytes_left = max(p for p, begin in enumerate(thresholds) if begin <= size - sent)
    assert core.priority(thresholds, (size, size, 0), sent) == by_bytes_left


@given(THRESHOLDS, FLOWS, BYTES)
def test_priority_moves_only_earlier_below_the_lower_bound_and_only_later_past_the_slack(
    core: Core, thresholds: tuple[int, ...], bounds: Bounds, footprint: int
) -> None:
    lower, _, slack = bounds
    served = [core.priority(thresholds, bounds, sent, max(sent, footprint)) for sent in range(200)]
    climb, after = served[:lower], served[lower + slack :]
    assert climb == sorted(climb, reverse=True)
    assert after == sorted(after)
    assert set(served[lower : lower + slack]) <= {0}


def mean_fct_of_two(core: Core, first: Bounds, second: Bounds) -> float:
    """QCLIMB's Fig. 26: a port that sends one unit at a time from three queues (up to 2, 3 to 5, from 6 units on), and
    two flows of 6 and 3 units, both there at the start."""
    size, bounds, sent, fct = (6, 3), (first, second), [0, 0], [0, 0]
    for now in range(1, sum(size) + 1):
        waiting = [flow for flow in (0, 1) if sent[flow] < size[flow]]
        served = min(waiting, key=lambda flow: core.priority((0, 3, 6), bounds[flow], sent[flow]))
        sent[served] += 1
        fct[served] = now
    return sum(fct) / 2


def test_the_papers_worked_example_of_errors_comes_to_its_mean_fct(core: Core) -> None:
    """Fig. 26 and appendix C: by sizes foretold, the larger flow's too small, the mean is 7.5; by lower bounds 6."""
    for foretold in (1, 2, 3, 4, 5):  # climbs by the size foretold and stays up
        assert mean_fct_of_two(core, (foretold, UNKNOWN, 10), (foretold + 3, UNKNOWN, 10)) == 7.5
    for lower in (1, 2, 3):  # the text has it promoted at 2 units left, and its bound used up before its last
        assert mean_fct_of_two(core, (6, UNKNOWN, 0), (lower, UNKNOWN, 0)) == 6
    assert [core.priority((0, 3, 6), (3, UNKNOWN, 0), sent) for sent in range(4)] == [1, 0, 0, 1], "up, and back down"
