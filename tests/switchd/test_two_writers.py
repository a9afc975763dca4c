"""SONiC's patcher and this daemon write one CONFIG_DB: no patch fails of us, and no half intent is taken."""

import json
import random
from typing import Any

import pytest
from qclimb.config_db import TABLES, with_digest
from qclimb.intent import QueueClass, SwitchIntent

from switchd import asic, quiet
from switchd.apply import Switch
from switchd.patch import intent_alone, intent_of_file, json_patch, with_what_follows
from switchd.patchers import OURS, PATCH_S, patchers
from switchd.previous import is_own
from switchd.rows import Delete, Merge, Put, Row, Rows, applied
from tests.switchd.gcu import Gcu, NotUpdated, NotValid
from tests.switchd.test_histories import BEFORE, PORTS
from tests.switchd.world import World

QUIET_S = 10.0
Patch = dict[tuple[str, str], Row | None]


class Box:
    """A switch, SONiC's patcher, and a clock that only goes when somebody waits."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, quiet_s: float = QUIET_S, patch_s: float = PATCH_S) -> None:
        self.now_s = 1000.0
        clock = type("Clock", (), {"monotonic": lambda _: self.now_s})()
        for module in (asic, quiet):
            monkeypatch.setattr(module, "time", clock)
        self.world = World(BEFORE, random.Random(1))
        self.switch = Switch(self.world, quiet_s=quiet_s, patch_s=patch_s)
        self.gcu = Gcu(
            lambda: self.world.rows, lambda change: self.world.change(change), self.passes, self.world.clients
        )
        self.said: list[str] = []
        self.passes(2 * QUIET_S)

    def passes(self, seconds: float) -> None:
        """What the daemon's loop does: follow what changed, then look, ten times a second."""
        known = None
        for _ in range(round(10 * seconds)):
            self.now_s += 0.1
            if known != self.world.rows:
                self.switch.follow()
                known = self.world.rows
            self.switch.look()
            status = self.switch.snapshot.status
            self.said.append(f"{status.applied_generation} {status.verified} {status.last_error}")

    @property
    def has_ours(self) -> bool:
        return any(is_own(name) for name in self.world.rows.get("DSCP_TO_TC_MAP", {}))

    def settled(self, generation: int | None) -> None:
        self.passes(2 * QUIET_S)
        status = self.switch.snapshot.status
        assert (status.applied_generation, status.verified, status.last_error) == (generation, "seen", "")
        assert status.outcome == "applied"


def intent(generation: int, *queues: int, state: str = "enabled") -> SwitchIntent:
    classes = tuple(QueueClass(p, 47 - 4 * p, q) for p, q in enumerate(queues))
    return SwitchIntent(generation, state, classes)  # type: ignore[arg-type]


def patch(wanted: SwitchIntent | None, now: Rows, marked: bool = True) -> Patch:
    """An operator's patch that makes the intent this one."""
    rows = {} if wanted is None else wanted.to_config_db()
    rows = with_digest(rows) if rows and marked else rows
    keys = {(table, key) for one in (rows, now) for table in TABLES for key in one.get(table, {})}
    return {key: rows.get(key[0], {}).get(key[1]) for key in sorted(keys)}


@pytest.fixture(params=[True, False], ids=["with a digest", "without"])
def marked(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def test_the_patcher_finds_what_it_wrote(monkeypatch: pytest.MonkeyPatch, marked: bool) -> None:
    box = Box(monkeypatch)
    for generation, queues in ((1, (7, 5, 2)), (2, (7, 2)), (3, (5, 2, 1, 0))):
        box.gcu.apply(patch(intent(generation, *queues), box.world.rows, marked))
        assert not any(line.startswith(f"{generation} ") for line in box.said), "acknowledged within the patch"
        assert any("waiting for a whole intent" in line for line in box.said)
        box.settled(generation)
        box.said.clear()
    box.gcu.apply(patch(None, box.world.rows))
    assert box.has_ours
    box.settled(None)
    assert not box.has_ours


def test_rows_whose_rest_a_patch_takes_away_are_no_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    box = Box(monkeypatch)
    box.gcu.apply(patch(intent(1, 7, 5), box.world.rows))
    box.settled(1)
    box.said.clear()
    box.world.change(Delete("QCLIMB", "global"))
    box.passes(1.0)
    assert all(" waiting " in line for line in box.said), box.said
    box.passes(2 * QUIET_S)
    assert box.said[-1].endswith(" QCLIMB lacks 'global', expected a value for it"), "what stays is what somebody wants"
    assert box.switch.snapshot.status.outcome == "refused"
    box.gcu.apply({("QCLIMB_CLASS", key): None for key in "01"})
    box.settled(None)


def test_without_a_pause_the_patch_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """So the stand-in sees what operators saw."""
    box = Box(monkeypatch, quiet_s=0.0)
    with pytest.raises(NotUpdated):
        box.gcu.apply(patch(intent(1, 7, 5), box.world.rows, marked=False))


SOMEBODY: dict[str, Patch] = {
    "a new port": {("PORT", "Ethernet16"): {"speed": "25000"}},
    "a port goes": {
        ("PORT", PORTS[2]): None,
        ("PORT_QOS_MAP", PORTS[2]): None,
        **{("QUEUE", f"{PORTS[2]}|{q}"): None for q in (0, 1, 2, 5, 7)},
    },
    "a breakout": {
        ("PORT", "Ethernet1"): {"speed": "10000"},
        ("PORT", "Ethernet2"): {"speed": "10000"},
        ("PORT_QOS_MAP", "Ethernet1"): {"dscp_to_tc_map": "AZURE", "tc_to_queue_map": "AZURE"},
    },
    "an edited map": {("DSCP_TO_TC_MAP", "AZURE"): {**BEFORE["DSCP_TO_TC_MAP"]["AZURE"], "10": "0"}},
    "a scheduler of the platform's": {("SCHEDULER", "scheduler.0"): {"type": "DWRR", "weight": "20"}},
    "a table that is no matter of ours": {("VLAN", "Vlan100"): {"vlanid": "100"}},
}


APART = [(0.5, 0.0, False), (3.0, 0.0, False), (8.0, 0.0, True), (12.0, 0.0, False)]
APART += [(0.5, 30.0, True), (3.0, 30.0, True), (8.0, 30.0, True), (12.0, 30.0, False), (8.0, 500.0, True)]
"""seconds between two patches, those that the second takes to sort its moves, whether switchd has to wait for it"""


@pytest.mark.parametrize(("apart_s", "sorting_s", "waits"), APART)
def test_a_second_patch_right_after_one_that_concerns_us_passes(
    monkeypatch: pytest.MonkeyPatch, apart_s: float, sorting_s: float, waits: bool
) -> None:
    """It has read CONFIG_DB, and not written yet, when the first one is long enough ago to be answered."""
    box = Box(monkeypatch)
    before = two_patches(box, apart_s, sorting_s)
    assert any("is connected to CONFIG_DB as a patch of it would be" in line for line in box.said) == waits
    box.settled(1)
    assert box.world.rows["PORT_QOS_MAP"] != before, "the edited map was followed"


def test_a_second_patch_whose_client_is_not_looked_for_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """So the stand-in sees what operators saw."""
    with pytest.raises(NotUpdated):
        two_patches(Box(monkeypatch, patch_s=0.0), 8.0, 0.0)


def two_patches(box: Box, apart_s: float, sorting_s: float) -> dict[str, Row]:
    """Of others, of which the first concerns us; answers our rows of before."""
    wanted = intent(1, 7, 5, 2)
    box.switch.edit(lambda _: wanted)
    box.settled(1)
    before = box.world.rows["PORT_QOS_MAP"]
    box.gcu.apply(SOMEBODY["an edited map"])
    box.passes(apart_s)
    box.said.clear()
    box.gcu.apply(SOMEBODY["a table that is no matter of ours"], sorting_s)
    return before


def test_a_client_that_never_goes_is_not_waited_for_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    box = Box(monkeypatch)
    wanted = intent(1, 7, 5)
    box.gcu.apply(patch(wanted, box.world.rows))
    box.world.clients[7] = "id=7 name= age=1 db=4 sub=0 psub=0 cmd=get"
    box.passes(QUIET_S + PATCH_S - 2)
    assert not box.has_ours
    assert "client 7 of redis is connected" in box.switch.snapshot.status.last_error
    box.settled(1)


@pytest.mark.parametrize(
    ("words", "may_patch"),
    [
        ({}, True),
        ({"cmd": "hset"}, True),
        ({"cmd": "hgetall"}, False),  # it reads rows
        ({"cmd": "psubscribe", "psub": "1"}, False),
        ({"psub": "1"}, False),
        ({"db": "6"}, False),
        ({"name": OURS}, False),
        ({"name": "orchagent"}, True),
        ({"age": "60"}, False),  # a service of SONiC's
        ({"age": "59"}, True),
    ],
)
def test_a_client_of_redis_may_be_a_patch_by_what_it_did_last(words: dict[str, str], may_patch: bool) -> None:
    assert patchers(OTHER + listed({**LISTED, **words}), PATCH_S) == (["66"] if may_patch else [])


LISTED = {"id": "66", "addr": "/run/redis/redis.sock:0", "name": "", "age": "2", "db": "4", "sub": "0", "psub": "0"}
LISTED = {**LISTED, "cmd": "get", "user": "default"}
OTHER = "id=3 addr=/a b:0 fd=8 name=x age=9 db=0 sub=0 psub=0 cmd=client|list\n"


def listed(line: dict[str, str]) -> str:
    return " ".join(f"{name}={said}" for name, said in line.items()) + "\n"


@pytest.mark.parametrize(
    ("neighbours", "age_s", "may_patch"),
    [
        ({}, 599, True),
        ({}, 600, False),
        ({"cmd": "config"}, 599, True),  # redis 6 tells no sub-command
        ({"cmd": "hgetall"}, 60, False),
        ({"age": "90"}, 60, False),  # they came earlier
        ({"id": "9"}, 60, False),
        ({"db": "6"}, 60, False),
    ],
)
def test_a_client_with_neighbours_as_config_has_them_may_sort_for_long(
    neighbours: dict[str, str], age_s: int, may_patch: bool
) -> None:
    text = listed({**LISTED, "age": f"{age_s}"})
    for n, number in enumerate((0, 1, 2, 6)):
        line = {"id": f"{68 + n}", "age": f"{age_s - 1}", "db": f"{number}", "cmd": "config|set"}
        text += listed({**LISTED, **line, **neighbours})
    assert patchers(text, PATCH_S) == (["66"] if may_patch else [])


@pytest.mark.parametrize("what", SOMEBODY)
def test_somebody_elses_patch_passes(monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    box = Box(monkeypatch)
    box.world.port_comes(PORTS[3])
    wanted = intent(1, 7, 5, 2)
    box.switch.edit(lambda _: wanted)
    box.settled(1)
    box.gcu.apply(SOMEBODY[what])
    for port in {key for table, key in SOMEBODY[what] if table == "PORT" and SOMEBODY[what][table, key]}:
        box.world.port_comes(port)
    box.settled(1)


def test_a_rollback_finds_its_checkpoint_and_the_intent_of_then(monkeypatch: pytest.MonkeyPatch, marked: bool) -> None:
    box = Box(monkeypatch)
    empty = box.gcu.checkpoint()
    box.gcu.apply(patch(intent(1, 7, 5, 2), box.world.rows, marked))
    box.settled(1)
    then = box.gcu.checkpoint()
    box.gcu.apply(patch(intent(2, 7, 0), box.world.rows, marked))
    box.settled(2)
    box.gcu.rollback(then)
    box.settled(1)
    assert box.gcu.checkpoint()["QCLIMB"] == then["QCLIMB"]
    box.gcu.rollback(empty)
    box.settled(None)
    assert not box.has_ours


@pytest.mark.parametrize("by", ["its intent", "rollback", "rollback, maps as an earlier qclimb named them"])
def test_back_to_a_checkpoint_moves_nobody_elses_packets(by: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It did: SONiC's patcher emptied our maps while ports still referred to them."""
    box, tc_of_48, is_earlier = Box(monkeypatch), set[int | None](), "earlier" in by
    if is_earlier:
        monkeypatch.setattr("switchd.plan.WHOLE", "")
        monkeypatch.setattr("switchd.plan.may_be_emptied", lambda _: False)
    for wanted in (intent(1, 7, 5), intent(2, 7, 5, 2)):
        box.gcu.apply(patch(wanted, box.world.rows))
        box.settled(wanted.generation)
        if wanted.generation == 1:
            then = box.gcu.checkpoint()
    passes = box.gcu.passes

    def watched(seconds: float) -> None:
        passes(seconds)
        tc_of_48.add(box.world.in_asic(PORTS[0])["dscp_to_tc"].get("48"))

    box.gcu.passes = watched
    if "rollback" in by:
        box.gcu.rollback(then)
    else:
        box.gcu.apply(intent_alone(intent_of_file(json.dumps(then), "one.cp.json"), box.world.rows))
    watched(2 * QUIET_S)
    box.settled(1)
    assert tc_of_48 == ({6, None} if is_earlier else {6})


def test_a_rollback_to_a_checkpoint_of_another_shape_is_refused_by_yang_and_changes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A leaf and a leaf-list can't have one name; rows of that shape that stand are rewritten, see test_migrations."""
    box = Box(monkeypatch)
    box.switch.edit(lambda _: SwitchIntent(1, "enabled", (QueueClass(0, 47, 7),), ports=(PORTS[0],)))
    box.settled(1)
    of_today = box.world.rows["QCLIMB"]["global"]
    of_yesterday = {name: text for name, text in of_today.items() if name not in ("ports", "version", "digest")}
    then = applied(box.gcu.checkpoint(), [Put("QCLIMB", "global", {**of_yesterday, "ports@": PORTS[0]})])
    box.gcu.apply(patch(intent(2, 7, 5), box.world.rows))
    box.settled(2)
    before = box.world.rows
    with pytest.raises(NotValid, match="ports"):
        box.gcu.rollback(then)
    assert box.world.rows == before
    box.settled(2)


def test_an_intent_with_its_rows_in_one_patch_leaves_nothing_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    box = Box(monkeypatch)
    for generation, queues in ((1, (7, 5)), (2, (7, 5, 2)), (3, (7, 5, 2))):
        wanted = intent(generation, *queues, state="disabled" if generation == 3 else "enabled")
        changed = with_what_follows(wanted, box.world.rows)
        assert of_patch(json_patch(changed, box.world.rows), box.world.rows) == changed
        box.world.writes_left = 0  # none of ours
        box.gcu.apply(changed)
        assert any(f"{generation} seen " in line for line in box.said[-30:]), "at once, not when it is quiet"
        box.world.writes_left = 10**9  # what nothing refers to goes later
        box.settled(generation)
    assert not box.has_ours


@pytest.mark.parametrize("with_rows", [False, True], ids=["the intent alone", "with its rows"])
def test_the_patcher_takes_ports_down_for_the_rows_and_not_for_the_intent(
    monkeypatch: pytest.MonkeyPatch, with_rows: bool
) -> None:
    """So `config qclimb apply` patches in the intent, and switchd writes what follows."""
    box = Box(monkeypatch)
    for port in PORTS[:3]:
        box.world.change(Merge("PORT", port, {"admin_status": "up"}))
    box.passes(2 * QUIET_S)
    wanted = intent(1, 7, 5)
    box.gcu.apply(with_what_follows(wanted, box.world.rows) if with_rows else patch(wanted, box.world.rows))
    box.settled(1)
    assert box.has_ours
    assert box.gcu.taken_down == (set(PORTS[:3]) if with_rows else set())
    assert all(box.world.rows["PORT"][port]["admin_status"] == "up" for port in PORTS[:3])


def of_patch(operations: list[dict[str, Any]], rows: Rows) -> Patch:
    """Rows that an RFC 6902 patch changes, as ConfigDBConnector writes them."""
    found: Patch = {}
    for one in operations:
        _, table, *rest = one["path"].split("/")
        entries = one.get("value") if not rest else {rest[0].replace("~1", "/").replace("~0", "~"): one.get("value")}
        for key, row in (entries or dict.fromkeys(rows[table])).items():
            raw = {
                f"{f}@" if isinstance(v, list) else f: ",".join(v) if isinstance(v, list) else v
                for f, v in (row or {}).items()
            }
            found[table, key] = None if row is None else raw or {"NULL": "NULL"}
    return found


def test_our_own_door_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    box = Box(monkeypatch)
    box.gcu.apply({("PORT", "Ethernet16"): {"speed": "25000"}})
    wanted = intent(1, 7, 5)
    box.switch.edit(lambda _: wanted)
    assert box.has_ours


def test_an_edit_by_hand_of_a_marked_intent_waits_and_says_what_for(monkeypatch: pytest.MonkeyPatch) -> None:
    box = Box(monkeypatch)
    wanted = intent(1, 7, 5)
    box.switch.edit(lambda _: wanted)
    box.settled(1)
    row = {**box.world.rows["QCLIMB_CLASS"]["1"], "queue": "2"}
    box.gcu.apply({("QCLIMB_CLASS", "1"): row})
    box.passes(2 * QUIET_S)
    status = box.switch.snapshot.status
    assert status.last_error.startswith("waiting for a whole intent: QCLIMB|global digest is ")
    assert "take the digest away" in status.last_error
    assert status.outcome == "waiting"
    first = {name: text for name, text in box.world.rows["QCLIMB"]["global"].items() if name != "digest"}
    box.gcu.apply({("QCLIMB", "global"): {**first, "generation": "2"}})
    box.settled(2)
