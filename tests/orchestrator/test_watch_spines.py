"""A spine dies and comes back: the watch decides anew and rolls out; and what the fabric forbids is refused."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient
from hypothesis import given
from hypothesis import strategies as st
from qclimb.histogram import SizeHistogram
from qclimb.intent import SwitchIntent
from qclimb.switch_state import SpineState, SwitchState

from orchestrator.errors import FleetError
from orchestrator.plan.health import Health, reached
from orchestrator.rest.service import Service
from orchestrator.store.store import Switch
from orchestrator.watch import spines
from orchestrator.watch.spines import SpineWatch
from tests.waiting import wait_until

SIZES = SizeHistogram.of([int(3000 * (1 - u) ** -0.9) for u in np.linspace(0, 0.9999, 400)])
FOUR = ("s1", "s2", "s3", "s4")


class Fabric:
    """Switches as the fleet meets them: `down` of spines by leaf, and who is away; what each was given last."""

    def __init__(self) -> None:
        self.names: dict[str, tuple[str, ...]] = {"l1": FOUR, "l2": FOUR}
        self.down: dict[str, set[str]] = {"l1": set(), "l2": set()}
        self.away: set[str] = set()
        self.most: int | None = 16
        self.backend = "acl"
        self.given: dict[str, SwitchIntent | None] = {}
        self.sessions: set[str] = set()

    def state(self, switch: Switch) -> SwitchState:
        self._meet(switch)
        down = self.down[switch.name]
        told = {
            name: SpineState(name, "down", "no link") if name in down else SpineState(name, "up", bytes=7)
            for name in self.names[switch.name]
        }
        return SwitchState(self.backend, self.most, told)

    def longest_push_s(self, name: str, deadline_s: float) -> float:
        return deadline_s

    def keep_sessions(self, switches: Iterable[Switch]) -> None:
        self.sessions = {switch.name for switch in switches}

    @contextmanager
    def at(self, switch: Switch) -> Iterator[Any]:
        self._meet(switch)

        def commit(intent: SwitchIntent | None, token: str, rollback_s: float, deadline_s: float) -> bool:
            self.apply(switch, intent, deadline_s)
            return False

        def give_back(intent: SwitchIntent | None, token: str, deadline_s: float) -> int:
            return self.apply(switch, intent, deadline_s)

        yield SimpleNamespace(intent=partial(self.intent, switch), commit=commit, give_back=give_back)

    def intent(self, switch: Switch) -> SwitchIntent | None:
        return self.given.get(switch.name)

    def apply(self, switch: Switch, intent: SwitchIntent | None, deadline_s: float) -> int:
        self.given[switch.name] = intent
        return 0 if intent is None else intent.generation

    def _meet(self, switch: Switch) -> None:
        if switch.name in self.away:
            raise FleetError(f"switch {switch.name}: away", changed=False)


@pytest.fixture
def fabric(service: Service) -> Fabric:
    found: Any = Fabric()
    service.runner.pushes.fleet = service.spines.fleet = found
    for number, name in enumerate(("l1", "l2", *FOUR)):
        service.store.put_switch(name, f"192.0.2.{number + 1}:9339", "leaf" if name[0] == "l" else "spine", None)
    made: Fabric = found
    return made


@pytest.fixture
def clock(service: Service) -> list[float]:
    now = [0.0]
    service.spines._clock = lambda: now[0]
    service.spines.down_after_s, service.spines.up_after_s = 2, 30
    return now


@pytest.fixture
def in_force(admin: TestClient, service: Service, fabric: Fabric, clock: list[float]) -> int:
    """A revision with four spines."""
    assert admin.post("/v1/hosts/h1/records", json={"histogram": SIZES.to_json()}).status_code < 300
    service.spines.look()
    made = admin.post("/v1/revisions", json={"spines": FOUR, "queues": [3, 2]})
    assert made.status_code == 201, made.text
    number = int(admin.post("/v1/rollouts", json={"revision": made.json()["id"]}).json()["id"])
    await_end(admin, number)
    return number


def await_end(admin: TestClient, number: int, phase: str = "done") -> None:
    def ended() -> dict[str, object] | None:
        admin.post("/v1/hosts/h1/records", json={"policy_generation": number})
        found = dict(admin.get(f"/v1/rollouts/{number}").json())
        is_over = found["phase"] != "running" and admin.get("/v1/state").json()["running_rollout"] is None
        return found if is_over else None

    found = wait_until(ended, f"rollout {number} ends")
    assert found["phase"] == phase, found


def look(service: Service, clock: list[float], *at: float) -> None:
    for now in at:
        clock[0] = now
        service.spines.look()


def test_leaves_get_paths_and_weights_and_spines_get_queues(in_force, fabric):
    leaf, spine = fabric.given["l1"], fabric.given["s1"]
    assert leaf.spines == FOUR and leaf.path_weights is not None and leaf.unpinned_dscp == 51
    assert (spine.tier, spine.path_weights, spine.classes) == ("spine", None, leaf.classes)
    assert fabric.given["l2"] == leaf


def test_a_spine_that_died_is_left_out_and_taken_in_again(in_force, admin, service, fabric, clock):
    before = admin.get("/v1/hosts/h1/policy").json()
    fabric.down["l2"], fabric.away = {"s3"}, {"s3"}
    look(service, clock, 1, 2)
    assert admin.get("/v1/state").json()["running_rollout"] is None, "not at once"
    look(service, clock, 3.5)
    await_end(admin, in_force + 1)
    assert fabric.given["l1"].spines == ("s1", "s2", "s4")
    assert set(fabric.given["l1"].path_weights.share) == {"s1", "s2", "s4"}
    assert fabric.given["s1"].spines == ("s1", "s2", "s4")
    policy = admin.get("/v1/hosts/h1/policy").json()
    assert (policy["spines"], len(policy["threshold_bytes"])) == (3, 3)
    told = admin.get("/v1/spines").json()
    assert (told["wished"], told["used"], told["waits"]) == (list(FOUR), ["s1", "s2", "s4"], None)
    assert told["spines"]["s3"]["down"] and told["spines"]["s3"]["priorities"] == []
    assert told["spines"]["s3"]["leaves"]["l2"]["reason"] == "no link"
    assert told["spines"]["s4"]["priorities"] == [2] and told["spines"]["s4"]["share"] > 0
    metrics = admin.get("/metrics").text
    assert 'qclimb_spine_up{spine="s3",switch="l2"} 0.0' in metrics
    assert 'qclimb_spine_left_out{spine="s3"} 1.0' in metrics
    assert 'qclimb_spine_pinned_bytes{spine="s1",switch="l1"} 7.0' in metrics

    look(service, clock, 10)
    assert len(admin.get("/v1/rollouts").json()) == 2, "once"
    fabric.down["l2"], fabric.away = set(), set()
    look(service, clock, 20, 40)
    assert admin.get("/v1/state").json()["running_rollout"] is None, "a link that comes and goes is left alone"
    look(service, clock, 51)
    await_end(admin, in_force + 2)
    assert fabric.given["l1"].spines == fabric.given["s3"].spines == FOUR
    after = admin.get("/v1/hosts/h1/policy").json()
    assert {**after, "generation": 0} == {**before, "generation": 0}
    assert admin.get("/v1/spines").json()["used"] == list(FOUR)
    assert [note["action"] for note in admin.get("/v1/audit").json()].count("use-spines") == 2


def test_a_leaf_that_does_not_answer_has_no_say(in_force, admin, service, fabric, clock):
    fabric.away = {"l1", "l2"}
    look(service, clock, 1, 10, 20)
    assert len(admin.get("/v1/rollouts").json()) == 1
    told = admin.get("/v1/spines").json()
    assert told["leaves"]["l1"]["error"] == "switch l1: away" and not told["spines"]["s1"]["down"]


def test_where_no_spine_is_left_nothing_is_changed(in_force, admin, service, fabric, clock):
    fabric.down["l1"] = set(FOUR)
    look(service, clock, 1, 10)
    assert admin.get("/v1/spines").json()["waits"] == "all spines are down"
    assert len(admin.get("/v1/rollouts").json()) == 1


def test_what_could_not_be_rolled_out_is_tried_again_later(in_force, admin, service, fabric, clock):
    fabric.down["l2"], fabric.away = {"s3"}, {"s1"}  # another switch is away: all get back what they had
    look(service, clock, 1, 4)
    await_end(admin, in_force + 1, "rolled-back")
    look(service, clock, 10)
    assert "ended as rolled-back" in admin.get("/v1/spines").json()["waits"]
    fabric.away = set()
    look(service, clock, 4 + spines.RETRY_S)
    await_end(admin, in_force + 2)
    assert admin.get("/v1/spines").json()["used"] == ["s1", "s2", "s4"]


def test_a_restarted_orchestrator_goes_on_from_the_revision_in_force(in_force, admin, service, fabric, clock):
    fabric.down["l1"] = {"s2"}
    look(service, clock, 1, 4)
    await_end(admin, in_force + 1)
    parts = service.store, service.recordings, service.runner, service.spines.fleet
    new = SpineWatch(*parts, down_after_s=2, up_after_s=30, clock=lambda: clock[0])
    for now in (100.0, 103.0):
        clock[0] = now
        new.look()
    assert len(admin.get("/v1/rollouts").json()) == 2, "it finds what it had decided"
    new.close()


def test_after_a_restart_a_spine_is_not_taken_in_before_it_was_up_for_long(in_force, admin, service, fabric, clock):
    fabric.down["l1"] = {"s2"}
    look(service, clock, 1, 4)
    await_end(admin, in_force + 1)
    parts = service.store, service.recordings, service.runner, service.spines.fleet
    new = SpineWatch(*parts, down_after_s=2, up_after_s=30, clock=lambda: clock[0])
    clock[0] = 100.0
    new.look()
    fabric.down["l1"] = set()
    clock[0] = 102.5
    new.look()
    assert len(admin.get("/v1/rollouts").json()) == 2
    new.close()


@pytest.mark.parametrize(
    ("change", "body", "said"),
    [
        ({}, {"spines": ["s1", "s9"]}, "spines[1] is 's9': no uplink of switch l1 leads there, expected one of s1, s2"),
        (
            {"names": {"l1": FOUR, "l2": ("s1", "x2")}},
            {"spines": ["s1", "s2"]},
            "switches l1 and l2 disagree on spines: s1, s2, s3, s4 and s1, x2, expected the same names",
        ),
        ({"most": 1}, {"spines": ["s1", "s2"]}, "2 classes are pinned to spines, switch l1 has entries for 1"),
        ({"backend": "none"}, {"spines": ["s1", "s2"]}, "switch l1 pins no classes to spines"),
    ],
)
def test_a_revision_that_the_fabric_cannot_have_is_refused(admin, service, fabric, clock, change, body, said):
    for name, value in change.items():
        setattr(fabric, name, value)
    service.spines.look()
    refused = admin.post("/v1/revisions", json={**body, "thresholds": [5000, 50_000], "weights": "equal"})
    assert refused.status_code == 409 and said in refused.json()["detail"], refused.text
    assert admin.get("/v1/revisions").json() == []


@pytest.mark.parametrize(
    ("weights", "said"),
    [
        ({"s1": 0.75, "s2": 0.25}, "spine 's2' has the weight 0.2500 and is down at switch l1 (no link), expected"),
        ("equal", "spine 's2' has classes and is down at switch l1 (no link), expected a spine that is up"),
    ],
)
def test_weights_for_a_spine_that_is_down_are_not_rolled_out(admin, service, fabric, clock, weights, said):
    fabric.down["l1"] = {"s2"}
    service.spines.look()
    body = {"spines": ["s1", "s2"], "thresholds": [5000, 50_000], "weights": weights}
    made = admin.post("/v1/revisions", json=body)
    assert made.status_code == 201, made.text
    refused = admin.post("/v1/rollouts", json={"revision": made.json()["id"]})
    assert refused.status_code == 409 and said in refused.json()["detail"], refused.text
    assert admin.get("/v1/rollouts").json() == [] and fabric.given == {}


def test_a_revision_of_one_path_asks_nothing_of_leaves(admin, service, fabric, clock):
    fabric.backend = "none"
    fabric.down["l1"] = set(FOUR)
    service.spines.look()
    made = admin.post("/v1/revisions", json={"priorities": 2, "thresholds": [5000]})
    assert admin.post("/v1/rollouts", json={"revision": made.json()["id"]}).status_code == 202


NAMES = st.sampled_from(FOUR)


@given(st.lists(st.tuples(st.floats(0, 5), st.frozensets(NAMES)), max_size=30))
def test_a_spine_changes_sides_only_after_it_was_otherwise_for_long_enough(looks: list[tuple[float, Any]]) -> None:
    now, health = 0.0, Health()
    since: dict[str, tuple[bool, float]] = dict.fromkeys(FOUR, (True, 0.0))
    for pause, up in looks:
        now += pause
        before = health
        health = health.after(FOUR, up, now, 2, 8)
        for name in FOUR:
            if since[name][0] != (name in up):
                since[name] = (name in up, now)
            if (name in health.down) != (name in before.down):
                is_up, begun = since[name]
                assert (name in health.down) != is_up
                assert now - begun >= (8 if is_up else 2) - 1e-9


def test_one_leaf_is_enough_to_miss_a_spine() -> None:
    up, down = SwitchState(spines={"s1": SpineState("s1", "up")}), SwitchState(spines={"s1": SpineState("s1", "down")})
    waits = SwitchState(spines={"s1": SpineState("s1", "unresolved")})
    assert reached(["s1"], {"l1": up, "l2": SwitchState()}) == {"s1"}
    assert reached(["s1"], {"l1": up, "l2": down}) == reached(["s1"], {"l1": waits}) == frozenset()
