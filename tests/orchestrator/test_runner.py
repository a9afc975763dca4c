"""Rollouts whose store fails, or whose switches do what nobody foresaw: nothing is half done, and none hangs."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from qclimb.intent import QueueClass, SwitchIntent
from qclimb.policy import Mode

from orchestrator.errors import ConflictError, FleetError, StoreError
from orchestrator.fabric import door, ledger, pushes, runner
from orchestrator.fabric.door import Told
from orchestrator.fabric.rollout import Pace
from orchestrator.fabric.runner import Runner
from orchestrator.plan.revision import compose
from orchestrator.store import tables
from orchestrator.store.store import Store, Switch

FULL = StoreError("database a.db: database or disk is full")


class Switches:
    """A fleet of switches that take all: what each was given, in order."""

    def __init__(self, broken: Exception | None = None) -> None:
        self.given: list[tuple[str, int | None]] = []
        self.confirmed: list[str] = []
        self.broken = broken

    @contextmanager
    def at(self, switch: Any) -> Iterator[Any]:
        names = ("intent", "apply", "unwell", "commit", "confirm", "give_back")
        own = {name: partial(getattr(self, name), switch) for name in names}
        yield SimpleNamespace(**own, told=partial(self.counts, switch))

    def unwell(self, switch: Any, generation: int) -> str | None:
        return None

    def commit(self, switch: Any, intent: SwitchIntent, token: str, rollback_s: float, deadline_s: float) -> bool:
        self.apply(switch, intent, deadline_s)
        return True

    def confirm(self, switch: Any, token: str) -> None:
        self.confirmed.append(switch.name)

    def give_back(self, switch: Any, intent: SwitchIntent | None, token: str, deadline_s: float) -> int:
        return self.apply(switch, intent, deadline_s)

    def counts(self, switch: Any) -> Told:
        return Told("", {})

    def intent(self, switch: Any) -> SwitchIntent | None:
        if self.broken:
            raise self.broken
        return SwitchIntent(3, "enabled", (QueueClass(0, dscp=47, queue=7),))

    def apply(self, switch: Any, intent: SwitchIntent | None, deadline_s: float) -> int:
        generation = None if intent is None else intent.generation
        self.given.append((switch.name, generation))
        return generation or 0


@pytest.fixture
def revision(store, monkeypatch):
    monkeypatch.setattr(runner, "UNSTORED_RETRY_S", 0.01)
    made = compose(Mode.PIAS, (5000,), 2, slack_bytes=0)
    return store.add_revision("test", made.to_json())


@dataclass(frozen=True)
class Kept:
    """What the store has of a rollout."""

    phase: str
    document: dict[str, Any]


def kept(store, number: int) -> Kept:
    row = store.rollout(number)
    return Kept(row.phase, {**row.document, **store.steps(number)})


def ended(store, number: int) -> Kept:
    end = time.monotonic() + 120
    while time.monotonic() < end:
        row = kept(store, number)
        if row.phase != "running":
            return row
        time.sleep(0.01)
    pytest.fail("the rollout did not end")


def failing(store, monkeypatch, when) -> list[str]:
    """Has the store refuse to keep a rollout's documents for which `when` holds; the phases of those that it kept."""
    keep, kept = store.save_rollout, []

    def save(number: int, phase: str, document: dict[str, Any]) -> None:
        if when(document):
            raise FULL
        keep(number, phase, document)
        kept.append(phase)

    monkeypatch.setattr(store, "save_rollout", save)
    return kept


def test_a_rollout_waits_until_the_store_can_keep_it_again_and_then_goes_on(store, revision, monkeypatch):
    store.put_switch("l1", "192.0.2.1:9339", "leaf", None)
    store.put_host("h1")
    left = {"applied": 3, "host": 3}

    def full(document: dict[str, Any]) -> bool:
        what = "host" if document["active"] else document["switches"].get("l1", {}).get("phase")
        left[what] = left.get(what, 0) - 1
        return left[what] >= 0

    failing(store, monkeypatch, full)
    switches = Switches()
    carried = Runner(store, switches)
    number = carried.start(revision, "test")
    while (store.setting("policy") or {}).get("generation") != number:
        time.sleep(0.01)
    carried.host_reported("h1", number)
    assert ended(store, number).phase == "done"
    assert switches.given == [("l1", number)]
    assert kept(store, number).document["hosts"]["h1"]["phase"] == "applied"
    carried.close()


def test_nothing_is_pushed_before_what_the_switch_had_is_kept(store, revision, monkeypatch):
    store.put_switch("l1", "192.0.2.1:9339", "leaf", None)
    failing(store, monkeypatch, lambda document: document["switches"].get("l1", {}).get("phase") == "pushing")
    switches = Switches()
    carried = Runner(store, switches)
    row = ended(store, carried.start(revision, "test"))
    assert (row.phase, row.document["error"]) == ("rolled-back", str(FULL))
    assert switches.given == []
    assert store.setting("policy") is None
    carried.close()


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
    while carried.running:
        time.sleep(0.01)
    store.remove_device("switches", "l1")
    store.put_host("h1")  # the next one waits for it
    number = carried.start(revision, "test")
    held_up.goes_on.set()
    while (store.setting("policy") or {}).get("generation") != number:
        time.sleep(0.01)
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


def test_an_error_that_nobody_foresaw_before_the_push_takes_nothing_from_the_switch(store, revision):
    store.put_switch("l1", "192.0.2.1:9339", "leaf", None)
    switches = Switches(broken=RuntimeError("surprise"))
    carried = Runner(store, switches)
    row = ended(store, carried.start(revision, "test"))
    assert row.phase == "rolled-back"
    assert "surprise" in row.document["error"]
    assert switches.given == []  # in particular no None, which would remove what it has
    carried.close()


def test_a_policy_and_its_rollout_come_into_force_together_or_not_at_all(store):
    number = store.add_rollout(1, "test", {"active": False})
    with pytest.raises((StoreError, TypeError)):  # whoever finds that it is no JSON: SQLAlchemy, or PostgreSQL's driver
        store.activate({"generation": number}, number, "running", {"active": object()})
    assert store.setting("policy") is None
    store.activate({"generation": number}, number, "running", {"active": True})
    assert store.setting("policy") == {"generation": number}
    assert store.rollout(number).document == {"active": True}


def test_an_intent_that_could_not_be_given_back_is_not_replaced():
    found: dict[str, Any] = {"qclimb:config": {"generation": "3", "colour": "red"}}
    at = door.Door(Switch("l1", "192.0.2.1:9339"), SimpleNamespace(get=lambda *_: found))
    with pytest.raises(FleetError, match=r"unknown key 'colour'.*could not be given back") as caught:
        at.intent()
    assert not caught.value.changed
    found = {"qclimb:config": {"admin-state": "disabled"}}
    assert at.intent() is None


def test_a_models_number_is_nobody_elses_even_before_it_is_made(store):
    assert [store.reserve_model(), store.reserve_model()] == [1, 2]


def test_a_damaged_rollout_is_said_and_keeps_nobody_from_starting(store):
    number = store.add_rollout(1, "test", {"colour": "red"})
    carried = Runner(store, Switches())
    carried.recover()
    row = kept(store, number)
    assert (row.phase, carried.running) == ("failed", None)
    assert "can't be read (TypeError(" in row.document["error"] and "; nothing was given back" in row.document["error"]
    carried.close()


@pytest.mark.sqlite_only("asks for SQLite's own setting")
def test_a_commit_is_on_disk_before_anybody_hears_of_it(store):
    with store.reading() as connection:
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2  # FULL: each commit syncs the log
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"


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
    while kept(store, number).document["switches"]["l1"]["phase"] != "restoring" or len(switches.given) < 2:
        time.sleep(0.01)
    killed.close()  # it waits for its next try then; what it would have kept is not kept
    killed._pool.shutdown(wait=True)
    assert (store.rollout(number).phase, len(switches.given)) == ("running", 2)
    carried = Runner(store, switches)
    carried.recover()
    row = ended(store, number)
    assert (row.phase, row.document["switches"]["l1"]["phase"]) == ("rolled-back", "restored")
    assert switches.given[2:] == [("l1", 3)]
    carried.close()


OLD = SwitchIntent(3, "enabled", (QueueClass(0, dscp=47, queue=7),))


class Holding(Switches):
    """Each holds what it was given last; at first generation 3."""

    def __init__(self) -> None:
        super().__init__()
        self.holds: dict[str, SwitchIntent | None] = {}

    def intent(self, switch: Any) -> SwitchIntent | None:
        return self.holds.setdefault(switch.name, OLD)

    def apply(self, switch: Any, intent: SwitchIntent | None, deadline_s: float) -> int:
        self.holds[switch.name] = intent
        return super().apply(switch, intent, deadline_s)


def generation(intent: SwitchIntent | None) -> int | None:
    return None if intent is None else intent.generation


@pytest.mark.parametrize("pace", [Pace(), Pace(waves=(0.3,))])
def test_killed_after_whatever_it_has_kept_the_next_start_brings_it_to_the_end(store, revision, monkeypatch, pace):
    """As kill -9 after the n-th thing kept: a switch may still take what was on its way, and nobody keeps that."""
    names = ("l1", "l2", "l3")
    for name in names:
        store.put_switch(name, "192.0.2.1:9339", "leaf", None)
    keep, kills = store.save_rollout, 0
    while True:
        switches, dead, left = Holding(), threading.Event(), [kills]

        def save(*what: Any, dead: threading.Event = dead, left: list[int] = left) -> None:
            if threading.current_thread() is not threading.main_thread():
                left[0] -= 1
                if left[0] < 0:
                    dead.set()
                    raise FULL
            keep(*what)

        with monkeypatch.context() as patched:
            patched.setattr(store, "save_rollout", save)
            killed = Runner(store, switches)
            number = killed.start(revision, "test", pace=pace)
            while not dead.is_set() and killed.running:
                time.sleep(0.002)
            killed.close()
            killed._pool.shutdown(wait=True)
        if not dead.is_set():
            break
        carried = Runner(store, switches)
        carried.recover()
        found = ended(store, number)
        assert (found.phase, [generation(switches.holds[name]) for name in names]) == ("done", [number] * 3), kills
        before = {str(step["previous"]) for step in found.document["switches"].values()}
        assert before == {str(OLD.to_gnmi())}, kills
        carried.close()
        kills += 1
    assert kills > 6


def test_a_canary_that_does_not_stay_well_has_all_undone(store, revision, monkeypatch):
    for name in ("l1", "l2"):
        store.put_switch(name, "192.0.2.1:9339", "leaf", None)
    switches = Holding()
    monkeypatch.setattr(switches, "unwell", lambda switch, generation: f"switch {switch.name}: forgot {generation}")
    carried = Runner(store, switches)
    row = ended(store, carried.start(revision, "test", pace=Pace(waves=(0.5,), soak_s=0.05)))
    assert (row.phase, row.document["error"]) == ("rolled-back", "after wave 1: switch l1: forgot 1")
    assert switches.given == [("l1", 1), ("l1", 3)]
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
    while carried._under_way:
        time.sleep(0.01)
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
    while kept(store, number).document["switches"]["l0"]["phase"] != "committed":
        time.sleep(0.01)
    carried.abort(number, "root")
    row = ended(store, number)
    assert (row.phase, row.document["error"]) == ("rolled-back", "aborted by root")
    let_go(held_up, carried)
    assert held_up.given == [("l0", number), ("l0", 3)]


def test_a_switch_that_is_away_is_left_out_and_told(store, revision):
    for name in ("l1", "l2"):
        store.put_switch(name, "192.0.2.1:9339", "leaf", None)
    switches = Holding()

    @contextmanager
    def at(switch: Any) -> Iterator[Any]:
        if switch.name == "l1":
            raise FleetError("switch l1: no route", changed=False, absent=True)
        with Holding.at(switches, switch) as door:
            yield door

    switches.at = at  # type: ignore[method-assign]
    carried = Runner(store, switches)
    row = ended(store, carried.start(revision, "test", pace=Pace(absent_most=1)))
    assert (row.phase, row.document["switches"]["l1"]["phase"]) == ("done", "absent")
    assert (row.document["switches"]["l1"]["error"], switches.given) == ("switch l1: no route", [("l2", 1)])
    carried.close()


def test_hosts_reports_are_kept_together_and_all_of_them_at_the_end(store, revision, monkeypatch):
    monkeypatch.setattr(ledger, "REPORTS_KEPT_S", 1e6)
    for number in range(50):
        store.put_host(f"h{number}")
    written = []
    keep = store.save_rollout
    monkeypatch.setattr(store, "save_rollout", lambda *what: (written.append(len(what[2]["hosts"])), keep(*what)))
    carried = Runner(store, Switches())
    number = carried.start(revision, "test")
    while not store.setting("policy"):
        time.sleep(0.01)
    for host in range(50):
        carried.host_reported(f"h{host}", number)
    assert ended(store, number).phase == "done"
    assert {step["phase"] for step in kept(store, number).document["hosts"].values()} == {"applied"}
    assert [rows for rows in written if rows] == [50, 50, 50], "at the start, when they are awaited, at the end"
    carried.close()


def test_what_an_older_version_kept_of_a_rollout_is_still_there(tmp_path):
    url = f"sqlite:///{tmp_path / 'old.db'}"
    old = Store(url)
    number = old.add_rollout(1, "test", {})
    document = {"generation": 7, "error": None, "active": True, "turned_back": False}
    steps = {"switches": {"l1": {"phase": "applied"}}, "hosts": {"h1": {"phase": "waiting"}}}
    with old.writing() as connection:
        connection.exec_driver_sql("DROP TABLE rollout_steps")
        connection.exec_driver_sql("DROP TABLE alembic_version")
        connection.exec_driver_sql("ALTER TABLE tokens DROP COLUMN expires_at")
        connection.execute(tables.rollouts.update().values(document=document | steps))
    old.set_setting("schema_version", 1)
    old.close()
    new = Store(url)
    assert (new.rollout(number).document, new.steps(number)) == (document, steps)
    new.close()
