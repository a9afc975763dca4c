"""Rollouts whose store fails, or whose process ends: nothing is half done, and none hangs."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from qclimb.intent import SwitchIntent

from orchestrator.errors import FleetError, StoreError
from orchestrator.fabric import door, ledger
from orchestrator.fabric.rollout import Pace
from orchestrator.fabric.runner import Runner
from orchestrator.store import tables
from orchestrator.store.store import Store, Switch
from tests.orchestrator.fleet import FULL, OLD, Switches, ended, failing, kept
from tests.waiting import wait_until


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
    wait_until(lambda: (store.setting("policy") or {}).get("generation") == number)
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
            wait_until(lambda dead=dead, killed=killed: dead.is_set() or not killed.running)
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
    wait_until(lambda: store.setting("policy"))
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
