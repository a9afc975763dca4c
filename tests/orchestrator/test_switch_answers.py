"""Whatever a switch answers, what is kept and shown of it is bounded, and no other switch's numbers are lost by it."""

from typing import Any

import pytest
from qclimb.checks import UINT64_MAX

from orchestrator.fabric.door import OTHER_STATUS, PORT_STATUSES, Door
from orchestrator.fabric.session import SAID_MOST
from orchestrator.fabric.sonic_door import SonicDoor
from orchestrator.store.store import Switch
from orchestrator.watch.traffic import Looks

LONG = "x" * 1_000_000
SWITCH = Switch("l1", "192.0.2.1:9339")


class Answers:
    """A session that gives what it is told to, by the end of the path."""

    def __init__(self, **answers: Any) -> None:
        self._answers = answers

    def get(self, path: Any, *_: Any, **__: Any) -> Any:
        return self._answers.get(path[-1].replace("-", "_").replace(":", "_"))


def door(**answers: Any) -> Door:
    return Door(SWITCH, Answers(**answers))  # type: ignore[arg-type]


def classes(count: object) -> dict[str, Any]:
    return {"class": [{"priority": 0, "state": {"bytes": count, "packets": count, "dropped-packets": count}}]}


@pytest.mark.parametrize("count", ["9" * 400, "9" * 5000, 10**400, str(UINT64_MAX + 1), -1, 1e400, "\u00b2", None, [1]])
def test_what_is_no_counter_is_not_counted_and_makes_no_rate_impossible(count):
    before, now = (door(classes=classes(each)).told() for each in (0, count))
    assert now.classes[0].bytes is None
    assert Looks().and_then(1.0, 1.0, before).and_then(2.0, 2.0, now).rates()[0].bytes_per_s is None


def test_counters_reach_as_far_as_64_bits():
    assert door(classes=classes(str(UINT64_MAX))).told().classes[0].packets == UINT64_MAX


def test_a_switch_chooses_no_label_and_no_priority():
    ports = {"port": [{"name": str(each), "state": {"status": f"s{each}"}} for each in range(1000)]}
    told = door(
        ports=ports, classes={"class": [{"priority": each, "state": {}} for each in ("64", 10**30, "x")]}
    ).told()
    assert told.ports == {OTHER_STATUS: 1000} and not told.classes
    assert door(ports={"port": [{"state": {"status": PORT_STATUSES[0]}}]}).told().ports == {PORT_STATUSES[0]: 1}


def test_what_a_switch_says_is_kept_in_part_where_it_is_long():
    state = {"verification": LONG, "warning": LONG}
    told = door(state=state, classes={"class": [{"priority": 1, "state": {"alarm": LONG}}]}).told()
    of_sonic = SonicDoor(SWITCH, Answers(**{"global": {"verified": LONG, "warning": LONG}}))  # type: ignore[arg-type]
    for text in (told.verification, told.warning, told.alarms[1], of_sonic.told().verification):
        assert len(text) <= SAID_MOST + 3
    reasons = (
        door(applied_generation=LONG, last_error=LONG).unwell(7),
        SonicDoor(SWITCH, Answers(**{"global": {"applied_generation": LONG, "last_error": LONG}})).unwell(7),  # type: ignore[arg-type]
    )
    assert all(reason is not None and len(reason) < 3 * SAID_MOST for reason in reasons)
