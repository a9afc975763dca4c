"""Any history of intents, edits, faults and restarts: what is told as applied is what the ASIC has."""

import random
from collections.abc import Iterable
from typing import Any

import pytest
from qclimb.intent import QueueClass, SwitchIntent

from switchd import asic
from switchd.apply import Switch
from switchd.db import ASIC
from switchd.plan import OBJECT_TABLES
from switchd.previous import is_own
from switchd.progress import NAMES_TRIED
from switchd.rows import Change, Delete, Drop, Merge, Put, Rows
from tests.switchd.world import Killed, World, replaced
from tests.tiers import quick_first

PORTS = [f"Ethernet{4 * n}" for n in range(4)]
LATE = PORTS[3]
AZURE = {str(d): {3: "3", 4: "4", 48: "6"}.get(d, "1") for d in range(64)}


def azure(ports: Iterable[str]) -> Rows:
    """What `config qos reload` leaves, of these ports."""
    names = tuple(ports)
    return {
        "DSCP_TO_TC_MAP": {"AZURE": AZURE},
        "TC_TO_QUEUE_MAP": {"AZURE": {str(n): str(n) for n in range(8)}},
        "SCHEDULER": {"scheduler.0": {"type": "DWRR", "weight": "14"}},
        "PORT_QOS_MAP": {port: {"dscp_to_tc_map": "AZURE", "tc_to_queue_map": "AZURE"} for port in names},
        "QUEUE": {f"{port}|{queue}": {"scheduler": "scheduler.0"} for port in names for queue in (0, 1, 2)},
    }


BEFORE: Rows = {"PORT": {port: {"speed": "25000"} for port in PORTS}} | azure(PORTS)
QOS = ("PORT_QOS_MAP", "QUEUE", "SCHEDULER", "WRED_PROFILE", "DSCP_TO_TC_MAP", "TC_TO_QUEUE_MAP")
JUNK: tuple[Change, ...] = (
    Merge("DSCP_TO_TC_MAP", "AAA", {"x": "y"}),
    Merge("TC_TO_QUEUE_MAP", "AAA", {"NULL": "NULL"}),
    Merge("SCHEDULER", "AAA", {"type": "WRR", "weight": "x"}),
    Merge("WRED_PROFILE", "AAA", {"ecn": "foo"}),
    Merge("PORT_QOS_MAP", "Ethernet4", {"pfc_to_pg_map": "MISSING"}),
)
UNDO: tuple[Change, ...] = (
    *(Delete(one.table, one.key) for one in JUNK[:4]),
    Put("PFC_PRIORITY_TO_PRIORITY_GROUP_MAP", "MISSING", {"1": "1"}),
)


CANCELLED = (3174, 3582)
"""histories in which a scheduler that was not given up somewhere hides that another one is missing"""


class Story:
    """One switch, its daemon, and a clock that only goes when told."""

    def __init__(self, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.chance, self.now_s = random.Random(seed), 1000.0
        clock = type("Clock", (), {"monotonic": lambda _: self.now_s})()
        monkeypatch.setattr(asic, "time", clock)
        self.world = World(BEFORE, self.chance)
        self.world.late.add(LATE)
        self.world.restart()
        self.intent: SwitchIntent | None = None
        self.generation = 0
        self.start()

    def start(self) -> None:
        self.world.writes_left = 10**9
        self.switch = Switch(self.world)

    def follow(self) -> None:
        """What the loop does when rows changed, and for some looks afterwards."""
        try:
            self.switch.follow()
            for _ in range(self.chance.choice((0, 1, 8))):
                self.now_s += 0.3
                self.switch.look()
        except Killed:
            self.start()
            self.follow()

    def settle(self) -> None:
        for _ in range(30):
            self.now_s += 5.0
            self.switch.follow()
            self.switch.look()

    # what happens

    def new_intent(self) -> None:
        self.generation += 1
        queues = sorted(self.chance.sample((0, 1, 2, 5, 7), self.chance.randint(1, 5)), reverse=True)
        ecn = self.chance.choice(({}, {"ecn_min_bytes": 1000, "ecn_max_bytes": self.chance.choice((2000, 3000))}))
        limits = [0.5 if (self.generation + p) % 3 == 0 else None for p in range(len(queues))]
        classes = tuple(QueueClass(p, 47 - 4 * p, q, max_share=limits[p]) for p, q in enumerate(queues))
        self.intent = SwitchIntent(self.generation, "enabled", classes, **ecn)
        intent = self.intent
        try:
            self.switch.edit(lambda _: intent)
        except Killed:
            self.start()
            self.world.change(*_intent_rows(intent, self.world.rows))

    def _ours(self) -> list[tuple[str, str]]:
        return [(t, name) for t in OBJECT_TABLES for name in self.world.rows.get(t, {}) if is_own(name)]

    def edit_ours(self) -> None:
        if ours := self._ours():
            table, name = self.chance.choice(ours)
            field = {"SCHEDULER": {"pir": "5"}, "WRED_PROFILE": {"green_drop_probability": "5"}}
            self.world.change(Merge(table, name, self.chance.choice((field.get(table, {"7": "0"}), {"weight": "x"}))))

    def replace_ours(self) -> None:
        if ours := self._ours():
            table, name = self.chance.choice(ours)
            self.world.change(*replaced(table, name, self.world.rows[table][name]))

    def delete_ours(self) -> None:
        if ours := self._ours():
            self.world.change(Delete(*self.chance.choice(ours)))

    def junk(self) -> None:
        self.world.change(self.chance.choice(JUNK))

    def no_junk(self) -> None:
        self.world.change(*UNDO)

    def clear(self) -> None:
        for table in QOS:
            for key in list(self.world.rows.get(table, {})):
                self.world.change(Delete(table, key))

    def late_port(self) -> None:
        self.world.port_comes(LATE)

    def restart(self) -> None:
        self.world.restart()

    def kill(self) -> None:
        self.world.writes_left = self.chance.choice((0, 1, 2))


def _intent_rows(intent: SwitchIntent, rows: Rows) -> list[Change]:
    wanted = intent.to_config_db()
    puts = [Put(table, key, row) for table, entries in wanted.items() for key, row in entries.items()]
    return [
        *puts,
        *(Delete("QCLIMB_CLASS", k) for k in rows.get("QCLIMB_CLASS", {}) if k not in wanted["QCLIMB_CLASS"]),
    ]


def watched(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails at a write of ours after which a port has lost a map, or a queue that the intent wants its scheduler."""
    write = story.world.write

    def checked(*what: Any, **more: Any) -> None:
        before = {port: story.world.in_asic(port) for port in PORTS}
        write(*what, **more)
        for port, had in before.items():
            has = story.world.in_asic(port)
            for name in ("dscp_to_tc", "tc_to_queue"):
                assert not had.get(name) or has.get(name), (port, name, what[0])
            for one in story.intent.classes if story.intent else ():
                queue = str(one.queue)
                was = had.get("queues", {}).get(queue, {}).get("scheduler")
                assert not was or has["queues"].get(queue, {}).get("scheduler"), (port, queue, what[0])

    monkeypatch.setattr(story.world, "write", checked)


def is_right(story: Story, port: str) -> bool:
    """Whether the ASIC does at this port what the intent says; read without anything of ours."""
    intent, told = story.intent, story.world.in_asic(port)
    assert intent is not None
    tc, queue = told.get("dscp_to_tc", {}), told.get("tc_to_queue", {})
    for one in intent.classes:
        if queue.get(str(tc.get(str(one.dscp), 0)), 0) != one.queue:
            return False
        there: dict[str, Any] = told.get("queues", {}).get(str(one.queue), {})
        limit = {"pir_bytes_per_s": round(one.max_share * 25e9 / 8)} if one.max_share else {}
        if there.get("scheduler") != {"type": "STRICT", **limit}:
            return False
        if intent.ecn_max_bytes and there.get("wred", {}).get("green") != [1000, intent.ecn_max_bytes, 100]:
            return False
    return True


ACTIONS = ["new_intent"] * 4 + ["edit_ours", "replace_ours", "delete_ours", "junk", "no_junk"] * 2 + [
    *("clear", "late_port", "restart", "kill", "kill")
]  # fmt: skip


@pytest.mark.parametrize("seed", quick_first([*CANCELLED, *range(30)], 15))
def test_after_any_history_the_asic_is_right_or_the_status_says_why(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    story = Story(seed, monkeypatch)
    watched(story, monkeypatch)
    story.new_intent()
    for _ in range(story.chance.randint(3, 14)):
        action = story.chance.choice(ACTIONS)
        getattr(story, action)()
        if story.chance.random() < 0.8:
            story.follow()
    story.start()  # a daemon that knows nothing of before
    story.settle()
    ports = story.switch.snapshot.ports
    assert set(ports) == set(PORTS)
    for port, row in ports.items():
        if row["status"] == "applied":
            assert is_right(story, port), port
        else:
            assert row["reason"], port
    is_hindered = any(one.key in story.world.rows.get(one.table, {}) for one in JUNK[:4])
    is_hindered |= "MISSING" in str(story.world.rows.get("PORT_QOS_MAP")) and not story.world.rows.get(
        "PFC_PRIORITY_TO_PRIORITY_GROUP_MAP"
    )
    if not is_hindered and not story.world.late:
        assert all(row["status"] == "applied" for row in ports.values()), ports
        assert story.switch.snapshot.status.verified == "seen"
        used = {
            value for t in ("PORT_QOS_MAP", "QUEUE") for row in story.world.rows[t].values() for value in row.values()
        }
        assert {name for _, name in story._ours()} <= used


def test_a_row_that_waits_for_a_field_that_was_taken_from_it_arrives(monkeypatch: pytest.MonkeyPatch) -> None:
    """orchagent merges what is written to a row that waits: it waits on for an ECN profile that nobody names."""
    story = Story(1, monkeypatch)
    story.late_port()
    story.world.change(Merge("QUEUE", "Ethernet0|2", {"wred_profile": "GONE"}))
    story.world.change(Drop("QUEUE", "Ethernet0|2", ("wred_profile",)))
    story.intent = SwitchIntent(1, "enabled", (QueueClass(0, 47, 7), QueueClass(1, 43, 2)))
    story.switch.edit(lambda _: story.intent)
    story.settle()
    assert {row["status"] for row in story.switch.snapshot.ports.values()} == {"applied"}
    assert all(is_right(story, port) for port in PORTS)
    assert not any("wred_profile" in row for row in story.world.rows["QUEUE"].values())


def test_each_try_to_heal_takes_a_name_that_was_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    story = Story(1, monkeypatch)
    story.late_port()
    monkeypatch.setattr(story.world.machine, "event", lambda table, tasks: None)  # an orchagent that hangs
    story.intent = SwitchIntent(1, "enabled", (QueueClass(0, 47, 7),))
    story.switch.edit(lambda _: story.intent)
    names = []
    for _ in range(100):
        story.now_s += 5.0
        story.switch.look()
        name = story.world.rows["PORT_QOS_MAP"]["Ethernet0"]["dscp_to_tc_map"]
        names += [name] if name not in names[-1:] else []
    assert NAMES_TRIED < len(set(names)) == len(names) <= 3 * NAMES_TRIED
    assert len(story.world.rows["DSCP_TO_TC_MAP"]) <= 3 * NAMES_TRIED + 1
    assert story.switch.snapshot.ports["Ethernet0"]["status"] == "pending"


def settled(monkeypatch: pytest.MonkeyPatch) -> Story:
    story = Story(1, monkeypatch)
    story.late_port()
    story.new_intent()
    story.settle()
    assert all(row["status"] == "applied" for row in story.switch.snapshot.ports.values())
    return story


def test_a_row_that_somebody_deleted_and_orchagent_does_not_take_again_is_not_called_applied(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is restored under the name that was seen there before; that is not to have seen it now."""
    story = settled(monkeypatch)
    port = ("PORT_QOS_MAP", "Ethernet4")
    story.world.change(Delete(*port))
    story.world.change(Merge(*port, {"pfc_to_pg_map": "MISSING"}))
    story.settle()
    told = story.switch.snapshot.ports
    assert not is_right(story, "Ethernet4")
    assert (told["Ethernet4"]["status"], told["Ethernet0"]["status"]) == ("refused", "applied")
    assert "MISSING" in told["Ethernet4"]["reason"]
    story.world.change(UNDO[-1])
    story.settle()
    assert story.switch.snapshot.ports["Ethernet4"]["status"] == "applied" and is_right(story, "Ethernet4")


def test_a_row_that_was_deleted_and_set_again_is_looked_at_though_it_reads_as_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    story = settled(monkeypatch)
    port, foreign = ("PORT_QOS_MAP", "Ethernet4"), ("PORT_QOS_MAP", "AAA")
    row = dict(story.world.rows[port[0]][port[1]])
    story.world.change(Delete(*port))
    story.world.rows["PORT_QOS_MAP"][port[1]] = row  # what orchagent was told of it got lost
    assert not story.switch.follow() and not is_right(story, "Ethernet4")
    story.switch.touched({port, foreign})
    story.now_s += 0.1
    story.switch.look()
    told = story.switch.snapshot.ports
    assert (told["Ethernet4"]["status"], told["Ethernet0"]["status"]) == ("pending", "applied")
    story.settle()
    assert is_right(story, "Ethernet4") and story.switch.snapshot.ports["Ethernet4"]["status"] == "applied"


def test_a_change_of_one_port_reads_the_objects_of_that_port(monkeypatch: pytest.MonkeyPatch) -> None:
    story = settled(monkeypatch)
    port, reads = story.world.machine.ports.links["Ethernet4"].oid, list[str]()
    hashes = story.world.hashes

    def counted(number: int, keys: Any) -> Any:
        if number == ASIC:
            reads.extend(key.removeprefix("ASIC_STATE:SAI_OBJECT_TYPE_") for key in keys)
        return hashes(number, keys)

    monkeypatch.setattr(story.world, "hashes", counted)
    story.world.change(Drop("PORT_QOS_MAP", "Ethernet4", ["dscp_to_tc_map"]))
    for _ in range(4):
        story.now_s += 1.0
        story.switch.follow()
        story.switch.look()
    assert is_right(story, "Ethernet4")
    assert {key for key in reads if key.startswith("PORT:")} == {f"PORT:{port}"}
    assert not any(key.startswith("SCHEDULER") for key in reads)
    assert 3 <= len(reads) < 3 + len(story.intent.classes) + 10
