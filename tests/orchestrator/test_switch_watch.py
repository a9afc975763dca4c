"""What `/metrics` tells of switches between rollouts, read from a real switchd."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from qclimb.intent import QueueClass, SwitchIntent
from qclimb.policy import Mode

from orchestrator.errors import FleetError
from orchestrator.fabric.door import Told
from orchestrator.fabric.rollout import Pace
from orchestrator.fabric.runner import Runner
from orchestrator.fabric.switches import Fleet
from orchestrator.metrics import Metrics
from orchestrator.plan.revision import compose
from orchestrator.store.store import Store
from orchestrator.watch import switches
from orchestrator.watch.switches import REPAIR_S, SwitchWatch, drift
from tests.switchd.stand import CONFIG, PLATFORM, Pki, running_daemon, running_redis
from tests.waiting import wait_until


@pytest.mark.skipif(shutil.which("redis-server") is None, reason="redis-server is not installed")
def test_metrics_tell_whether_what_switches_applied_is_seen(store: Store, pki: Path, tmp_path: Path) -> None:
    fleet = Fleet(pki / "orchestrator.pem", pki / "orchestrator.key", pki / "ca.pem", connect_timeout_s=60)
    metrics = Metrics(store)
    watch = SwitchWatch(store, Runner(store, fleet), metrics, round_s=0)
    with running_redis() as server:
        server.load(PLATFORM)
        server.db(CONFIG).hset("PORT_QOS_MAP|Ethernet4", "pfc_enable", "7")
        with running_daemon(server.url, Pki(pki), tmp_path / "log") as daemon:
            store.put_switch("l1", f"127.0.0.1:{daemon.port}", "leaf", None)
            store.put_switch("l2", "127.0.0.1:1", "leaf", None)
            with fleet.at(store.switches()["l1"]) as door:
                door.apply(SwitchIntent(3, "enabled", (QueueClass(0, 47, 7),)), 60)
            watch.look()
            text = metrics.render().decode()
    assert 'qclimb_switch_seen{switch="l1"} 0.0' in text  # there is no ASIC_DB: written, not verified
    for status, count in (("unverified", 3), ("refused", 1), ("pending", 0), ("applied", 0)):
        assert f'qclimb_switch_ports{{status="{status}",switch="l1"}} {count}.0' in text
    assert 'qclimb_switch_seen{switch="l2"}' not in text
    watch.start()
    watch.close()


OTHER = SwitchIntent(9, "enabled", (QueueClass(0, 43, 7),))


def test_drift_names_what_differs_and_no_generation() -> None:
    wanted = SwitchIntent(3, "enabled", (QueueClass(0, 47, 7),))
    assert drift(wanted, replace(wanted, generation=8)) is None
    assert drift(wanted, None) == "it holds nothing of qclimb"
    assert drift(wanted, OTHER) == "it differs in classes"
    assert drift(wanted, replace(OTHER, admin_state="disabled")) == "it differs in admin_state, classes"


class Switches:
    """What each holds; some may be away."""

    def __init__(self) -> None:
        self.holds: dict[str, SwitchIntent | None] = {}
        self.away: set[str] = set()

    def longest_push_s(self, name: str, deadline_s: float) -> float:
        return deadline_s

    def certificate_ends(self, switch: Any) -> float:
        return 2e9

    @contextmanager
    def at(self, switch: Any) -> Iterator[Any]:
        if switch.name in self.away:
            raise FleetError(f"switch {switch.name}: no route", changed=False, absent=True)

        def apply(intent: SwitchIntent | None, deadline_s: float) -> int:
            self.holds[switch.name] = intent
            return 0 if intent is None else intent.generation

        yield SimpleNamespace(
            apply=apply,
            commit=lambda intent, token, rollback_s, deadline_s: not apply(intent, deadline_s),
            give_back=lambda intent, token, deadline_s: apply(intent, deadline_s),
            intent=lambda: self.holds.get(switch.name),
            told=lambda: Told("seen", {}),
            unwell=lambda _: None,
        )


@dataclass
class Fabric:
    store: Store
    fleet: Switches
    runner: Runner
    now_s: float = 0.0

    def watch(self, repairs: bool) -> SwitchWatch:
        metrics = Metrics(self.store)
        return SwitchWatch(self.store, self.runner, metrics, repairs, round_s=0, clock=lambda: self.now_s)

    def settle(self) -> None:
        wait_until(lambda: not self.runner.running, "the rollout ends")

    def rollouts(self) -> list[str]:
        return [row.created_by for row in self.store.rollouts()]


@pytest.fixture
def fabric(store: Store, monkeypatch: pytest.MonkeyPatch) -> Iterator[Fabric]:
    """l1 and l2; one rollout found l2 away."""
    monkeypatch.setattr(switches, "GAP_S", 0)
    fleet = Switches()
    for name in ("l1", "l2"):
        store.put_switch(name, "192.0.2.1:9339", "leaf", None)
    made = Fabric(store, fleet, Runner(store, fleet))  # type: ignore[arg-type]
    fleet.away.add("l2")
    revision = store.add_revision("root", compose(Mode.PIAS, (5000,), 2, slack_bytes=0).to_json())
    made.runner.start(revision, "root", pace=Pace(absent_most=1))
    made.settle()
    assert store.steps(1)["switches"]["l2"]["phase"] == "absent"
    yield made
    made.runner.close()


@pytest.mark.parametrize("repairs", [False, True])
def test_a_switch_that_was_away_is_told_when_it_is_back(fabric: Fabric, repairs: bool) -> None:
    watch = fabric.watch(repairs)
    watch.look()
    assert (watch.drifts, fabric.rollouts()) == ({}, ["root"])
    fabric.fleet.away.clear()
    watch.look()
    assert watch.drifts == {"l2": "it holds nothing of qclimb"}
    fabric.settle()
    assert fabric.rollouts() == ["root", "switches"]
    assert {held.generation for held in fabric.fleet.holds.values() if held} == {2}
    watch.look()
    assert (watch.drifts, fabric.rollouts()) == ({}, ["root", "switches"])
    assert fabric.store.notes(1)[0].subject == "l2 rollout 2"


@pytest.mark.parametrize(("repairs", "rolled_out"), [(False, ["root"]), (True, ["root", "switches"])])
def test_what_somebody_else_changed_is_shown_and_repaired_where_that_is_allowed(
    fabric: Fabric, repairs: bool, rolled_out: list[str]
) -> None:
    fabric.fleet.holds["l1"] = OTHER
    watch = fabric.watch(repairs)
    watch.look()
    fabric.settle()
    assert "classes" in watch.drifts["l1"]
    assert fabric.rollouts() == rolled_out


def test_what_drifts_again_and_again_is_repaired_ever_more_slowly(fabric: Fabric) -> None:
    watch, seen = fabric.watch(repairs=True), 0
    for _ in range(100):
        fabric.fleet.holds["l1"] = OTHER
        watch.look()
        fabric.settle()
        fabric.now_s += REPAIR_S / 2
        seen = len(fabric.rollouts())
    assert 5 <= seen <= 8


def test_a_switch_that_answers_no_more_keeps_its_drift_and_starts_nothing(fabric: Fabric) -> None:
    fabric.fleet.holds["l1"] = OTHER
    watch = fabric.watch(repairs=False)
    watch.look()
    before = dict(watch.drifts)
    fabric.fleet.away.add("l1")
    watch.look()
    assert watch.drifts == before and fabric.rollouts() == ["root"]
