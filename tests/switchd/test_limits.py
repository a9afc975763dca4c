"""Limits of served-first queues, the warning where there are none, and the alarm where a class takes too much."""

import random
from dataclasses import replace

import pytest
from qclimb.intent import QueueClass, SwitchIntent

from switchd import asic, guard
from switchd.apply import Switch
from switchd.plan import plan as whole_plan
from switchd.rows import Delete, Merge, Rows, applied
from tests.switchd.platforms import AZURE, BARE, intent, plan
from tests.switchd.test_histories import BEFORE
from tests.switchd.world import World


def limited(*parts: tuple[int, float | None], foretold: tuple[float | None, ...] = (), state: str = "") -> SwitchIntent:
    """Queues in served-first order, each with its limit."""
    told = foretold or (None,) * len(parts)
    classes = tuple(
        QueueClass(p, 47 - 4 * p, queue, max_share=share, foretold_share=told[p])
        for p, (queue, share) in enumerate(parts)
    )
    return SwitchIntent(1, state or "enabled", classes)  # type: ignore[arg-type]


def scheduler(rows: Rows, key: str) -> dict[str, str]:
    return rows["SCHEDULER"][rows["QUEUE"][key]["scheduler"]]


def test_a_limit_is_a_share_of_the_ports_speed() -> None:
    rows = applied(BARE, [Merge("PORT", "Ethernet4", {"speed": "100000"})])
    after = applied(rows, plan(limited((7, 0.5), (6, None)), rows))
    assert scheduler(after, "Ethernet0|7") == {"type": "STRICT", "meter_type": "bytes", "cir": "1", "pir": "1562500000"}
    assert scheduler(after, "Ethernet4|7")["pir"] == "6250000000"
    assert scheduler(after, "Ethernet0|6") == {"type": "STRICT"}
    faster = applied(after, [Merge("PORT", "Ethernet0", {"speed": "100000"})])
    again = applied(faster, plan(limited((7, 0.5), (6, None)), faster))
    assert scheduler(again, "Ethernet0|7")["pir"] == "6250000000"
    assert applied(again, plan(None, again))["QUEUE" if "QUEUE" in rows else "PORT"] == faster["PORT"]


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        ({"PORT": {"Ethernet0": {}}}, "PORT|Ethernet0 has no speed"),
        ({"PORT": {"Ethernet0": {"speed": "fast"}}}, "PORT|Ethernet0 has no speed"),
        (
            {"PORT": {"Ethernet0": {"speed": "25000"}}, "QUEUE": {"Ethernet0|6-7": {"scheduler": "x"}}},
            "QUEUE|Ethernet0|6-7 covers queues with different limits",
        ),
    ],
)
def test_a_limit_that_can_not_be_had_is_told_and_holds_up_nothing(rows: Rows, reason: str) -> None:
    found = whole_plan(limited((7, 0.5), (6, None)), rows)
    assert found.unlimited["Ethernet0"].startswith(reason)
    after = applied(rows, found.changes)
    assert {row["type"] for key, row in after["SCHEDULER"].items()} == {"STRICT"}


def test_whoever_may_starve_routing_or_lossless_queues_is_named() -> None:
    for wanted, word in (
        (limited((7, None), (5, None)), "queue 7 may take all of a port, and leave nothing to queue 6 (DSCP 48"),
        (limited((7, 0.5), (5, 0.5)), "queue 7, 5 may take all of a port, and leave nothing to queue 6 (DSCP 48"),
        (limited((7, 0.5), (5, 0.4)), ""),
        (limited((2, None), (1, None)), "queue 2 may take all of a port, and leave nothing to queue 6 (DSCP 48"),
        (limited((2, 0.5), (1, 0.4)), ""),
    ):
        warning = whole_plan(wanted, AZURE).warning
        assert (word in warning) if word else not warning, warning
    assert not whole_plan(intent(7, 6), BARE).warning, "nothing there is told to need protection"
    assert not whole_plan(replace(limited((7, None)), admin_state="disabled"), AZURE).warning


def test_strict_queues_are_served_by_their_numbers_and_before_all_others() -> None:
    strict = applied(AZURE, [Merge("SCHEDULER", "scheduler.1", {"type": "STRICT"})])
    for keys, wanted, warned in (
        (("6", "4", "3"), limited((2, None), (1, None)), ""),
        (("6", "3"), limited((2, None)), "queue 2 may take all of a port, and leave nothing to queue 4 (lossless)"),
        (("3-4", "6"), limited((2, None)), ""),
        (("6",), limited((5, None)), "queue 5 may take all of a port, and leave nothing to queue 4 (lossless)"),
        (("6", "4", "3"), limited((7, None)), "queue 7 may take all of a port, and leave nothing to queue 6"),
    ):
        of = (["3", "4"] if "3-4" in keys else [], [(port, key) for port in AZURE["PORT"] for key in keys])
        rows = applied(strict, [Delete("QUEUE", f"{port}|{key}") for port in AZURE["PORT"] for key in of[0]])
        rows = applied(rows, [Merge("QUEUE", f"{port}|{key}", {"scheduler": "scheduler.1"}) for port, key in of[1]])
        warning = whole_plan(wanted, rows).warning
        assert (warned in warning) if warned else not warning, warning


def test_the_status_warns_and_the_alarm_comes_and_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = type("Clock", (), {"now_s": 1000.0, "monotonic": lambda self: self.now_s})()
    for module in (asic, guard):
        monkeypatch.setattr(module, "time", clock)
    world = World(BEFORE, random.Random(1))
    switch = Switch(world)
    counted: dict[str, int] = {}
    monkeypatch.setattr(guard, "queue_bytes", lambda db, queues, ports: dict(counted))

    def minute(**carried: float) -> list[str | None]:
        """A minute in which queues of Ethernet0 carry these shares of 25 Gb/s; the alarm of each class."""
        for queue, share in carried.items():
            name = f"Ethernet0:{queue[1:]}"
            counted[name] = counted.get(name, 0) + round(share * 25e9 / 8 * 60)
        clock.now_s += 60.0
        switch.look()
        return [switch.snapshot.classes[str(priority)].get("alarm") for priority in range(2)]

    wanted = limited((7, None), (5, 0.5), foretold=(0.05, 0.95))
    switch.edit(lambda _: wanted)
    switch.look()
    assert switch.snapshot.status.warning.startswith("Ethernet0: queue 7 may take all of a port")
    assert minute(q7=0.0, q5=0.0) == [None, None]
    assert minute(q7=0.19, q5=0.8) == [None, None]
    first, second = minute(q7=0.3, q5=0.7)
    assert second is None
    assert first is not None and first.startswith("takes 0.30 of Ethernet0 over 60 s, expected at most 0.20")
    counted.clear()  # the counters were reset
    assert minute(q7=0.01, q5=0.5) == [None, None]
    assert minute(q7=0.9, q5=0.0)[0]
    switch.edit(lambda _: replace(wanted, generation=2, admin_state="disabled"))
    clock.now_s += 60.0
    switch.look()
    assert not switch.snapshot.classes
    assert not switch.snapshot.status.warning


def test_a_link_to_a_spine_may_carry_all_that_its_class_has() -> None:
    classes = (
        QueueClass(0, 47, 6, "s1", foretold_share=0.1),
        QueueClass(1, 43, 6, "s2", foretold_share=0.2),
        QueueClass(2, 39, 1, foretold_share=0.7),
    )
    most = guard.most_of(SwitchIntent(1, "enabled", classes))
    assert most[6] == pytest.approx(2 * 0.4 + 0.1)
    assert most[1] == pytest.approx(2 * 0.7 + 0.1)
    untold = SwitchIntent(1, "enabled", (replace(classes[0], foretold_share=None), *classes[1:]))
    assert set(guard.most_of(untold)) == {1}
