"""One switch whose answers are malformed keeps nobody from the others, wherever several are asked."""

from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace

import pytest
from qclimb.policy import Mode
from qclimb.switch_state import SpineState, SwitchState

from orchestrator.errors import FleetError
from orchestrator.fabric.attempts import attempt, attempt_each
from orchestrator.fabric.difference import would_change
from orchestrator.fabric.door import ClassCount, Told
from orchestrator.fabric.felt import Felt
from orchestrator.fabric.gates import Gates, Wave
from orchestrator.fabric.rollout import Plan
from orchestrator.fabric.runner import Runner
from orchestrator.ingest.recordings import Recordings
from orchestrator.metrics import Metrics
from orchestrator.plan.revision import compose
from orchestrator.store.store import Switch
from orchestrator.watch.spines import SpineWatch
from orchestrator.watch.switches import SwitchWatch

NAMES = ("l1", "l2", "l3")
WRONG = [ValueError("invalid literal"), KeyError("val"), RecursionError("too deep"), TypeError("unhashable")]
made = compose(Mode.PIAS, (5000,), 2, slack_bytes=0)


class Malformed:
    """Three switches: l2's answers raise what no one expects, l3 has dropped a lot since it was first counted."""

    def __init__(self, error):
        self.error, self.counts = error, 0

    def keep_sessions(self, switches):
        pass

    def state(self, switch):
        self.check(switch)
        return SwitchState("acl", 16, {"s1": SpineState("s1", "up")})

    def certificate_ends(self, switch):
        self.check(switch)
        return 2e9

    def check(self, switch):
        if switch.name == "l2":
            raise self.error

    @contextmanager
    def at(self, switch):
        self.check(switch)

        def told():
            self.counts += switch.name == "l3"
            count = ClassCount(0, 10_000, 10_000 * self.counts) if switch.name == "l3" else ClassCount(0, 0, 0)
            return Told("seen", {}, {0: count})

        yield SimpleNamespace(told=told, intent=lambda: made.intent, unwell=lambda generation: None)


@pytest.fixture(params=WRONG, ids=lambda error: type(error).__name__)
def fleet(request, store):
    for name in NAMES:
        store.put_switch(name, "192.0.2.1:9339", "leaf", None)
    return Malformed(request.param)


def test_the_switch_watch_looks_at_all_others(store, fleet):
    runner = Runner(store, fleet)
    watch = SwitchWatch(store, runner, Metrics(store), round_s=0, clock=lambda: 0.0)
    watch.look()
    assert [watch.looks[name].told is not None for name in NAMES] == [True, False, True]
    assert "l2" in str(watch.looks["l2"].error)
    assert watch.certificate_ends.keys() == {"l1", "l3"}
    store.remove_device("switches", "l1")
    watch.look()
    assert watch.certificate_ends.keys() == {"l3"} and watch.looks.keys() == {"l2", "l3"}
    runner.close()


def test_the_spine_watch_hears_all_others(store, fleet):
    runner = Runner(store, fleet)
    watch = SpineWatch(store, Recordings(store), runner, fleet)
    watch.look()
    assert watch.leaves.keys() == {"l1", "l3"} and "l2" in str(watch.seen["l2"].error)
    runner.close()


def test_a_dry_run_tells_of_all_others(store, fleet):
    number = store.add_revision("me", made.to_json())
    found = would_change(store, fleet, number).switches
    assert [found[name].error is None for name in NAMES] == [True, False, True]


def test_a_gate_names_the_switch_and_counts_all_others(fleet):
    wave = Wave(0, 1, [Switch(name, "192.0.2.1:9339") for name in NAMES], 0.0)
    gates = Gates(fleet, Felt())
    gates.begin(wave)
    assert "l2" in str(gates.reason(wave, Plan(drops_most=0.01), {}))
    others = replace(wave, switches=[each for each in wave.switches if each.name != "l2"])
    assert "switch l3: dropped" in str(gates.reason(others, Plan(drops_most=0.01), {}))


def test_an_attempt_keeps_a_fleet_error_as_it_is_and_names_the_switch_of_any_other():
    switch = Switch("l1", "192.0.2.1:9339")
    away = FleetError("switch l1: no route", changed=False, absent=True)

    def fail(error):
        raise error

    assert attempt(switch, lambda _: fail(away)) is away
    found = attempt(switch, lambda _: fail(ZeroDivisionError("by zero")))
    assert isinstance(found, FleetError) and not found.changed and str(found).startswith("switch l1: ")
    assert attempt_each({}, lambda _: 1) == {}
    assert attempt_each({"l1": switch}, lambda each: each.name) == {"l1": "l1"}
