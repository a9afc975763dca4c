"""The table of priorities on K spines with N queues: against the paper's words, and what it refuses."""

import re
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from qclimb.bigspine import UNPINNED_DSCP, classes_of, priorities_of
from qclimb.errors import PolicyError, QclimbError
from qclimb.intent import BALANCED, SwitchIntent
from qclimb.leaves import NOT_OURS
from qclimb.policy import Mode, Policy, default_dscp
from qclimb.schema import validate_config_db, validate_gnmi

FREE = [dscp for dscp in range(1, 64) if dscp not in NOT_OURS]


def spines_of(count: int) -> list[str]:
    return [f"s{number + 1}" for number in range(count)]


def table(spines: int, queues: int) -> list[tuple[int, str]]:
    """(queue, path) by priority; queues are numbered from 7 down."""
    wanted = spines_of(spines)
    dscp = FREE[: priorities_of(spines, queues)]
    return [(one.queue, one.path) for one in classes_of(wanted, range(7, 7 - queues, -1), dscp)]


def test_two_spines_and_two_queues_are_the_papers_example() -> None:
    """Fig. 4: yellow at if-0's first queue, brown at if-1's, green in the second queue of both."""
    assert table(2, 2) == [(7, "s1"), (7, "s2"), (6, BALANCED)]


def test_four_spines_and_two_queues_are_the_papers_five_priorities() -> None:
    """Section V-B: four parallel uplink paths and two queues a port realise five priorities."""
    assert table(4, 2) == [(7, "s1"), (7, "s2"), (7, "s3"), (7, "s4"), (6, BALANCED)]


def test_a_third_queue_adds_a_row() -> None:
    assert table(2, 3) == [(7, "s1"), (7, "s2"), (6, "s1"), (6, "s2"), (5, BALANCED)]


@given(st.integers(2, 10), st.integers(2, 7))
def test_a_flow_sinks_by_cross_path_demotions_and_one_load_balance_demotion(spines: int, queues: int) -> None:
    """Section III-A: each demotion but the last leads to another spine, and is repeated until each first-served queue
    was used; the last one leads to the last queue of all spines. A row's end is the only place where the queue changes.
    """
    if spines * (queues - 1) + 1 > len(FREE):
        return
    found = table(spines, queues)
    assert len(found) == spines * (queues - 1) + 1
    for number, ((queue, path), (next_queue, next_path)) in enumerate(pairwise(found), start=1):
        is_last = number == len(found) - 1
        assert path != next_path, "a demotion is by path"
        assert (next_path == BALANCED) == is_last, "load-balance demotion: the last, and only that"
        assert next_queue == queue - (number % spines == 0)
    for row in range(queues - 1):
        assert {path for _, path in found[row * spines : (row + 1) * spines]} == set(spines_of(spines))


@pytest.mark.parametrize("spines", [[], ["s1"]])
def test_one_path_has_a_queue_a_priority_and_needs_no_path(spines: list[str]) -> None:
    found = classes_of(spines, (5, 4, 2), threshold_bytes=(10, 20))
    assert [(one.queue, one.path, one.threshold_bytes) for one in found] == [
        (5, BALANCED, 0),
        (4, BALANCED, 10),
        (2, BALANCED, 20),
    ]


@given(st.integers(0, 8), st.integers(1, 8), st.booleans())
def test_a_table_makes_an_intent_and_a_policy_that_agree_on_paths(spines: int, queues: int, told: bool) -> None:
    priorities = priorities_of(spines, queues)
    thresholds = tuple(range(100, 100 * priorities, 100)) if told else ()
    dscp = default_dscp(priorities) if priorities <= 8 else FREE[:priorities]
    if len(dscp) < priorities:
        return
    classes = classes_of(spines_of(spines), range(7, 7 - queues, -1), dscp, thresholds)
    free = next(each for each in (UNPINNED_DSCP, *FREE) if each not in dscp)
    pins = spines > 1 and queues > 1
    intent = SwitchIntent(1, "enabled", classes, unpinned_dscp=free if pins else None)
    validate_gnmi(intent.to_gnmi())
    validate_config_db(intent.to_config_db())
    assert SwitchIntent.from_gnmi(intent.to_gnmi()) == intent == SwitchIntent.from_config_db(intent.to_config_db())
    policy = Policy(1, Mode.PIAS, tuple(range(1, priorities)), tuple(dscp), 0, spines=spines if pins else 0)
    for one in classes:
        number = policy.path_of(one.priority)
        assert one.path == (BALANCED if number is None else spines_of(spines)[number])
    assert intent.spines == (tuple(spines_of(spines)) if pins else ())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((["s1", "s1"], (1, 0)), "spines[1] is 's1', expected each spine once"),
        ((["s1", BALANCED], (1, 0)), "spines[1] is 'balanced', expected a spine's name"),
        ((["s 1", "s2"], (1, 0)), "spines[0] is 's 1', expected text like"),
        ((["s1"], ()), "spines x queues is 1 x 0, which makes 0 priorities, expected 1..64"),
        ((spines_of(32), (2, 1, 0)), "spines x queues is 32 x 3, which makes 65 priorities, expected 1..64"),
        ((spines_of(4), (2, 1, 0)), "dscp is missing, expected a list of 9: the default list has 8"),
        ((spines_of(2), (1, 0), (1, 2)), "dscp has 2 values, expected 3, one a priority"),
        ((spines_of(2), (1, 0), (1, 2, 2)), "dscp[2] is 2, expected a DSCP that no priority before it has"),
        (
            (spines_of(2), (1, 0), (1, 46, 2)),
            "dscp[1] is 46, expected an integer in 0..2, 5..45, 47, 49..63: switches keep 46 for expedited",
        ),
        ((spines_of(2), (1, 0), (1, 64, 2)), "dscp[1] is 64, expected an integer in 0..63"),
        ((spines_of(2), (1, 0), (1, 0, 2)), "dscp[1] is 0, expected another: packets that nobody marked carry it"),
        ((spines_of(2), (1, 0), None, (1,)), "threshold_bytes has 1 values, expected 2 for 3 priorities"),
    ],
)
def test_what_makes_no_table_is_refused_in_one_sentence(words: Any, said: str) -> None:
    with pytest.raises(QclimbError, match=re.escape(said)):
        classes_of(*words)


def test_unmarked_packets_may_be_the_last_prioritys() -> None:
    assert classes_of(["s1", "s2"], (1, 0), (5, 6, 0))[-1].dscp == 0


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"spines": 2, "dscp": (1, 2), "threshold_bytes": (5,)}, "spines is 2 with 2 priorities, expected whole rows"),
        ({"spines": 3}, "spines is 3 with 3 priorities, expected whole rows"),
        ({"spines": 64}, "spines is 64, expected an integer in 0..63"),
        ({"unpinned_dscp": 2}, "unpinned_dscp is 2, expected a DSCP that no priority has"),
    ],
)
def test_a_policy_whose_spines_cannot_be_is_refused(change: dict[str, Any], said: str) -> None:
    good = {"generation": 1, "mode": Mode.PIAS, "threshold_bytes": (5, 6), "dscp": (1, 2, 3), "slack_bytes": 0}
    with pytest.raises(PolicyError, match=re.escape(said)):
        Policy(**{**good, **change})
