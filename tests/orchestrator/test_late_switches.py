"""Rollouts whose switches take their time, hang, or answer when nobody waits any more."""

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from qclimb.intent import SwitchIntent

from orchestrator.errors import ConflictError, FleetError
from orchestrator.fabric import pushes
from orchestrator.fabric.runner import Runner
from tests.orchestrator.fleet import OLD, Switches, ended, kept
from tests.waiting import wait_until


class OneHeldUp(Switches):
    """l1 can't be reached; l2 takes its time to tell what it has."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.goes_on, self.told = threading.Event(), threading.Event(), threading.Event()

    def intent(self, switch: Any) -> SwitchIntent | None:
        if switch.name == "l1":
            assert self.asked.wait(120)
            raise FleetError("switch l1: away", changed=False)
        self.asked.set()
        assert self.goes_on.wait(120)
        self.told.set()
        return super().intent(switch)


@pytest.fixture
def held_up(store) -> Iterator[OneHeldUp]:
    for name in ("l1", "l2"):
        store.put_switch(name, "192.0.2.1:9339", "leaf", None)
    made = OneHeldUp()
    yield made
    made.goes_on.set()


def let_go(switches: OneHeldUp, carried: Runner) -> None:
    """l2 answers, and whatever comes of it has come."""
    switches.goes_on.set()
    assert switches.told.wait(120)
    carried.close()
    carried._pool.shutdown(wait=True)


def test_a_switch_that_answers_after_the_roll_back_is_given_nothing_any_more(store, revision, held_up):
    carried = Runner(store, held_up)
    row = ended(store, carried.start(revision, "test"))
    assert row.phase == "rolled-back"
    let_go(held_up, carried)
    assert held_up.given == []


def test_a_switch_that_answers_late_has_no_part_in_the_next_rollout(store, revision, held_up):
    carried = Runner(store, held_up)
    ended(store, carried.start(revision, "test"))
    wait_until(lambda: not carried.running)
    store.remove_device("switches", "l1")
    store.put_host("h1")  # the next one waits for it
    number = carried.start(revision, "test")
    held_up.goes_on.set()
    wait_until(lambda: (store.setting("policy") or {}).get("generation") == number)
    let_go(held_up, carried)
    assert held_up.given == [("l2", number)]
    assert kept(store, number).document["switches"]["l2"]["applied_generation"] == number


def test_a_switch_that_answers_while_others_are_given_back_is_given_nothing(store, revision, held_up, monkeypatch):
    """l0 took its intent, and is slow to take back what it had: the rollout still runs when l2 answers."""
    store.put_switch("l0", "192.0.2.1:9339", "leaf", None)
    took, back = threading.Event(), threading.Event()
    apply, intent = held_up.apply, held_up.intent

    def slow_back(switch: Any, wanted: SwitchIntent | None, deadline_s: float) -> int:
        if switch.name == "l0" and took.is_set():
            back.set()
            held_up.goes_on.set()
            assert held_up.told.wait(120)
            time.sleep(0.2)  # l2's thread goes on meanwhile
        found = apply(switch, wanted, deadline_s)
        took.set()
        return found

    def told(switch: Any) -> SwitchIntent | None:
        if switch.name == "l0":
            return Switches.intent(held_up, switch)
        assert took.wait(120)
        return intent(switch)

    monkeypatch.setattr(held_up, "apply", slow_back)
    monkeypatch.setattr(held_up, "intent", told)
    carried = Runner(store, held_up)
    number = carried.start(revision, "test")
    assert ended(store, number).phase == "rolled-back"
    let_go(held_up, carried)
    assert held_up.given == [("l0", number), ("l0", 3)]


def test_at_the_end_of_the_process_nothing_is_pushed_that_the_store_does_not_know_of(store, revision, held_up):
    store.remove_device("switches", "l1")
    carried = Runner(store, held_up)
    number = carried.start(revision, "test")
    assert held_up.asked.wait(120)
    carried.close()
    let_go(held_up, carried)
    assert kept(store, number).document["switches"]["l2"]["phase"] == "pending"
    assert held_up.given == []


class Hung(Switches):
    """Takes what is pushed without ever confirming it, and answers again after some tries to give it back."""

    def __init__(self, tries: int) -> None:
        super().__init__()
        self.tries = tries

    def apply(self, switch: Any, intent: SwitchIntent | None, deadline_s: float) -> int:
        generation = super().apply(switch, intent, deadline_s)
        if len(self.given) <= self.tries:
            raise FleetError(f"switch {switch.name}: Set: DEADLINE_EXCEEDED", changed=True)
        return generation


def test_a_switch_that_hangs_in_a_set_gets_back_what_it_had_once_it_answers(store, revision, monkeypatch):
    monkeypatch.setattr(pushes, "RESTORE_RETRY_S", 0.01)
    store.put_switch("l1", "192.0.2.1:9339", "leaf", None)
    switches = Hung(tries=4)
    carried = Runner(store, switches)
    row = ended(store, carried.start(revision, "test"))
    step = row.document["switches"]["l1"]
    assert (row.phase, step["phase"], step["applied_generation"]) == ("rolled-back", "restored", 3)
    assert step["error"].count("DEADLINE_EXCEEDED") == 2, "why it was given back, and what came of the last try"
    assert [generation for _, generation in switches.given[1:]] == [3] * 4
    carried.close()


@pytest.mark.parametrize(("restore_for_s", "refused"), [(0.05, False), (1e6, True)])
def test_a_switch_that_never_answers_or_says_no_is_left_to_a_person(
    store, revision, monkeypatch, restore_for_s, refused
):
    monkeypatch.setattr(pushes, "RESTORE_RETRY_S", 0.01)
    store.put_switch("l1", "192.0.2.1:9339", "leaf", None)
    switches = Hung(tries=10**9)
    if refused:
        say_no = FleetError("switch l1: Set: INVALID_ARGUMENT", changed=False, refused=True)
        apply = switches.apply

        def once(switch: Any, intent: SwitchIntent | None, deadline_s: float) -> int:
            if intent is not None and intent.generation == 3:
                raise say_no
            return apply(switch, intent, deadline_s)

        monkeypatch.setattr(switches, "apply", once)
    carried = Runner(store, switches, restore_for_s=restore_for_s)
    row = ended(store, carried.start(revision, "test"))
    assert (row.phase, row.document["switches"]["l1"]["phase"]) == ("failed", "stranded")
    carried.close()


def test_killed_while_a_switch_is_given_back_the_next_start_gives_it_back(store, revision, monkeypatch):
    store.put_switch("l1", "192.0.2.1:9339", "leaf", None)
    switches = Hung(tries=2)
    killed = Runner(store, switches)
    number = killed.start(revision, "test")
    wait_until(
        lambda: kept(store, number).document["switches"]["l1"]["phase"] == "restoring" and len(switches.given) >= 2
    )
    killed.close()  # it waits for its next try then; what it would have kept is not kept
    killed._pool.shutdown(wait=True)
    assert (store.rollout(number).phase, len(switches.given)) == ("running", 2)
    carried = Runner(store, switches)
    carried.recover()
    row = ended(store, number)
    assert (row.phase, row.document["switches"]["l1"]["phase"]) == ("rolled-back", "restored")
    assert switches.given[2:] == [("l1", 3)]
    carried.close()


def test_paused_it_begins_no_switch_and_resumed_it_goes_on(store, revision, held_up):
    store.remove_device("switches", "l1")
    carried = Runner(store, held_up)
    number = carried.start(revision, "test")
    assert held_up.asked.wait(120)
    carried.pause(number)
    with pytest.raises(ConflictError, match="rollout 1: it is paused, expected one that pushes to switches"):
        carried.pause(number)
    held_up.goes_on.set()
    assert held_up.told.wait(120)
    wait_until(lambda: not carried._under_way)
    assert held_up.given == []
    carried.close()
    again = Runner(store, held_up)  # a restart leaves it paused
    again.recover()
    assert kept(store, number).phase == "paused"
    again.resume(number)
    assert ended(store, number).phase == "done"
    assert held_up.given == [("l2", number)]
    with pytest.raises(ConflictError, match="rollout 1: it is done, expected one that pushes"):
        again.abort(number, "root")
    again.close()


def test_aborted_switches_get_back_what_they_had(store, revision, held_up, monkeypatch):
    store.remove_device("switches", "l1")
    store.put_switch("l0", "192.0.2.1:9339", "leaf", None)
    intent = held_up.intent
    monkeypatch.setattr(held_up, "intent", lambda switch: OLD if switch.name == "l0" else intent(switch))
    carried = Runner(store, held_up)
    number = carried.start(revision, "test")
    wait_until(lambda: kept(store, number).document["switches"]["l0"]["phase"] == "committed")
    carried.abort(number, "root")
    row = ended(store, number)
    assert (row.phase, row.document["error"]) == ("rolled-back", "aborted by root")
    let_go(held_up, carried)
    assert held_up.given == [("l0", number), ("l0", 3)]
