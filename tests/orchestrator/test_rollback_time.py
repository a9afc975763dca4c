"""A switch waits for its confirmation for longer than all pushes of its wave can take, the slow servers' too."""

import pytest
from qclimb.gnmi_ext import ROLLBACK_MOST_S
from qclimb.policy import Mode

from orchestrator.fabric.rollout import Pace
from orchestrator.fabric.runner import Runner
from orchestrator.plan.revision import compose
from tests.orchestrator.fleet import Switches, ended

FAST_S, SLOW_S = 40.0, 660.0


class Mixed(Switches):
    """Switches whose names begin by `s` are slow to push to."""

    def __init__(self, slow_s: float = SLOW_S) -> None:
        super().__init__()
        self.slow_s = slow_s
        self.rollback_s: dict[str, float] = {}

    def longest_push_s(self, name, deadline_s):
        return self.slow_s if name.startswith("s") else FAST_S

    def commit(self, switch, intent, token, rollback_s, deadline_s):
        self.rollback_s[switch.name] = rollback_s
        return super().commit(switch, intent, token, rollback_s, deadline_s)


def rolled_out(store, fleet: Mixed, fast: int, slow: int, at_once: int, **pace) -> Mixed:
    for number in range(fast):
        store.put_switch(f"a{number}", "192.0.2.1:9339", "leaf", None)
    for number in range(slow):
        store.put_switch(f"s{number}", "192.0.2.1:9339", "leaf", None)
    revision = store.add_revision("test", compose(Mode.PIAS, (5000,), 2, slack_bytes=0).to_json())
    runner = Runner(store, fleet, switches_at_once=at_once, switch_deadline_s=30)
    assert ended(store, runner.start(revision, "test", pace=Pace(**pace))).phase == "done"
    runner.close()
    return fleet


def test_the_first_switch_outwaits_all_slow_ones_of_its_wave(store):
    found = rolled_out(store, Mixed(), fast=1, slow=5, at_once=1).rollback_s
    assert found["a0"] > 5 * SLOW_S
    assert found["s4"] > SLOW_S and found["s4"] < found["a0"]


def test_where_all_are_fast_nothing_waits_for_slow_ones(store):
    found = rolled_out(store, Mixed(), fast=6, slow=0, at_once=3).rollback_s
    assert max(found.values()) < 600 + 30 + SLOW_S


def test_switches_of_a_later_wave_are_not_waited_for(store):
    found = rolled_out(store, Mixed(), fast=2, slow=6, at_once=1, waves=(0.25,), absent_most=0).rollback_s
    assert found["a0"] <= 600 + 30 + 3 * SLOW_S < 600 + 6 * SLOW_S < found["s0"]


@pytest.mark.parametrize("slow_s", [1e7, 1e300])
def test_a_switch_waits_no_longer_than_the_contract_allows(store, slow_s):
    assert rolled_out(store, Mixed(slow_s), fast=1, slow=2, at_once=1).rollback_s["a0"] == ROLLBACK_MOST_S
