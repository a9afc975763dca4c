"""The daemon is killed at each of its transactions: what stands is of before or after, and the next one ends there."""

import random
from dataclasses import replace

import pytest
from qclimb.intent import QueueClass, SwitchIntent

from switchd import asic
from switchd.apply import Switch
from switchd.rows import Rows
from tests.switchd.test_histories import BEFORE
from tests.switchd.world import Killed, World

FIRST = SwitchIntent(1, "enabled", (QueueClass(0, 47, 7), QueueClass(1, 43, 5)))
OTHER = SwitchIntent(
    2,
    "enabled",
    (QueueClass(0, 47, 7), QueueClass(1, 43, 2), QueueClass(2, 39, 0)),
    ecn_min_bytes=1000,
    ecn_max_bytes=2000,
)
CHANGES: dict[str, tuple[SwitchIntent | None, SwitchIntent | None]] = {
    "the first intent": (None, FIRST),
    "other queues and marks": (FIRST, OTHER),
    "disabled": (OTHER, replace(OTHER, generation=3, admin_state="disabled")),
    "deleted": (OTHER, None),
}
REFERENCES = {
    "scheduler": "SCHEDULER",
    "wred_profile": "WRED_PROFILE",
    "dscp_to_tc_map": "DSCP_TO_TC_MAP",
    "tc_to_queue_map": "TC_TO_QUEUE_MAP",
}


class Box:
    """A switch under an intent, and a clock that only goes when told."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, intent: SwitchIntent | None) -> None:
        self.now_s = 1000.0
        clock = type("Clock", (), {"monotonic": lambda _: self.now_s})()
        monkeypatch.setattr(asic, "time", clock)
        self.world = World(BEFORE, random.Random(1))
        self.switch = Switch(self.world)
        self.settle()
        if intent is not None:
            self.switch.edit(lambda _: intent)
            self.settle()

    def settle(self) -> None:
        for _ in range(30):
            self.now_s += 5.0
            self.switch.follow()
            self.switch.look()

    def restart(self) -> None:
        self.world.writes_left = 10**9
        self.switch = Switch(self.world)


def effect(rows: Rows) -> dict[tuple[str, str, str], object]:
    """What ports and queues refer to, by content: names differ between histories."""
    return {
        (table, key, field): rows.get(REFERENCES[field], {}).get(value, "nothing") if field in REFERENCES else value
        for table in ("PORT_QOS_MAP", "QUEUE")
        for key, row in rows.get(table, {}).items()
        for field, value in row.items()
        if field != "NULL"
    }


@pytest.mark.parametrize("what", CHANGES)
def test_a_daemon_killed_at_any_write_leaves_nothing_half_done(monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    old, new = CHANGES[what]
    whole = Box(monkeypatch, old)
    before = effect(whole.world.rows), whole.world.rows.get("QCLIMB")
    whole.world.writes_left = 1000
    whole.switch.edit(lambda _: new)
    whole.settle()
    writes, after = 1000 - whole.world.writes_left, (effect(whole.world.rows), whole.world.rows.get("QCLIMB"))
    assert writes >= 1
    for count in range(writes):
        box = Box(monkeypatch, old)
        box.world.writes_left = count
        with pytest.raises(Killed):
            box.switch.edit(lambda _: new)
            box.settle()
        assert (effect(box.world.rows), box.world.rows.get("QCLIMB")) == (after if count else before), count
        box.restart()
        if not count:
            box.switch.edit(lambda _: new)
        box.settle()
        assert (effect(box.world.rows), box.world.rows.get("QCLIMB")) == after, count
        assert box.switch.snapshot.status.verified == whole.switch.snapshot.status.verified
        objects = {table: len(box.world.rows.get(table, {})) for table in REFERENCES.values()}
        assert objects == {table: len(whole.world.rows.get(table, {})) for table in REFERENCES.values()}, (
            "none is left behind"
        )
