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


def test_a_link_carried_what_all_interfaces_that_lead_to_the_spine_have_sent() -> None:
    ports: dict[str, dict[str, str]] = {"Ethernet112": {"bytes": "7", "dropped-packets": "2"}, "Ethernet0": {}}
    ports["Ethernet120"] = {"bytes": str(2**60)}
    states = [{"name": name, "status": "applied", **counts} for name, counts in ports.items()]
    told = tree({**UP, "interfaces": ["Ethernet112", "Ethernet120", "Ethernet200"]}, DOWN)
    told["ports"] = {"port": [{"name": each["name"], "state": each} for each in states]}
    validate_gnmi(told, state=True)
    found = SwitchState.from_gnmi(told).spines
    assert (found["s1"].link_bytes, found["s1"].link_dropped_packets) == (2**60 + 7, 2)
    assert (found["s2"].link_bytes, found["s2"].link_dropped_packets) == (None, None)


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
