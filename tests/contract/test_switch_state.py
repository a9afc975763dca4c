"""What a switch tells of spines, read from its gNMI state."""

import re
from typing import Any

import pytest
from qclimb.errors import IntentError
from qclimb.schema import validate_gnmi
from qclimb.switch_state import SpineState, SwitchState

UP = {"name": "s1", "status": "up", "interfaces": ["Ethernet112"], "next-hops": ["10.0.0.1"], "bytes": "9"}
DOWN = {"name": "s2", "status": "down", "reason": "Ethernet116 is down"}


def tree(*states: dict[str, Any], **top: Any) -> dict[str, Any]:
    return {"state": top, "spines": {"spine": [{"name": each.get("name"), "state": each} for each in states]}}


def test_a_switch_tells_its_spines() -> None:
    told = tree(UP, DOWN, **{"path-backend": "acl", "pinned-classes-max": 16})
    validate_gnmi(told, state=True)
    found = SwitchState.from_gnmi({"qclimb:qclimb": told})
    assert (found.path_backend, found.pinned_classes_max) == ("acl", 16)
    assert found.spines == {
        "s1": SpineState("s1", "up", "", ("Ethernet112",), ("10.0.0.1",), None, 9),
        "s2": SpineState("s2", "down", "Ethernet116 is down"),
    }


def test_what_is_new_is_passed_over_and_what_lacks_is_none() -> None:
    told = tree({**UP, "qclimb:colour": "red"}, new=1)
    assert SwitchState.from_gnmi(told).spines["s1"].bytes == 9
    assert SwitchState.from_gnmi(None) == SwitchState.from_gnmi({"state": {}}) == SwitchState()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"name": "a b"}, "/qclimb/spines/spine/state/name is 'a b', expected text like"),
        ({"status": "so-so"}, "/qclimb/spines/spine[name='s1']/state/status is 'so-so', expected one of up, "),
        ({"bytes": -1}, "/qclimb/spines/spine[name='s1']/state/bytes is -1, expected an integer"),
        ({"interfaces": "x"}, "/qclimb/spines/spine[name='s1']/state/interfaces is 'x', expected a list"),
    ],
)
def test_what_cannot_be_is_refused(change: dict[str, Any], said: str) -> None:
    with pytest.raises(IntentError, match=re.escape(said)):
        SwitchState.from_gnmi(tree({**UP, **change}))
