"""A map of ours has all its fields at each step of somebody else's patch, or is not there: by sonic-qclimb.yang."""

import random

import pytest
from qclimb.intent import QueueClass, SwitchIntent

from switchd.apply import Switch
from switchd.plan import plan
from switchd.previous import is_own, may_be_emptied
from switchd.rows import Delete, Drop, Put, Row, Rows, applied
from tests.switchd.test_histories import BEFORE, PORTS
from tests.switchd.test_two_writers import QUIET_S, Box, intent
from tests.switchd.whole_maps import MAPS, refusal

FIELDS = {"DSCP_TO_TC_MAP": 64, "TC_TO_QUEUE_MAP": 8}
EARLIER = {"DSCP_TO_TC_MAP": "QCLIMB_D_1f00ba5e_mwsze2m7", "TC_TO_QUEUE_MAP": "QCLIMB_Q_1f00ba5e"}


def row(fields: int) -> Row:
    return {str(n): "1" for n in range(fields)}


@pytest.mark.parametrize("table", FIELDS)
def test_what_qclimb_wrote_before_is_taken_as_it_stands(table: str) -> None:
    letter = EARLIER[table][7]
    for name in (EARLIER[table], f"QCLIMB_{letter}_1f00ba5e_0z", "AZURE", f"MY_QCLIMB_{letter}_1f00ba5e_z0"):
        for fields in (0, 1, FIELDS[table] - 1):
            assert refusal({table: {name: row(fields)}}) == ""


@pytest.mark.parametrize("table", FIELDS)
def test_of_what_it_writes_now_no_field_can_be_taken_away(table: str) -> None:
    name = f"QCLIMB_{EARLIER[table][7]}_1f00ba5e_zmwsze2m7"
    assert refusal({table: {name: row(FIELDS[table])}}) == ""
    for fields in (0, 1, FIELDS[table] - 1):
        assert "it goes as a whole" in refusal({table: {"AZURE": row(3), name: row(fields)}})


@pytest.mark.parametrize("seed", range(20))
def test_every_map_that_is_planned_is_whole_and_guarded(seed: int) -> None:
    chance = random.Random(seed)
    queues = chance.sample((7, 5, 2, 1, 0), chance.randint(1, 4))
    sparse = {
        table: {name: dict(chance.sample(sorted(of.items()), 5)) for name, of in BEFORE[table].items()}
        for table in MAPS
    }
    rows = chance.choice([BEFORE, {**BEFORE, **sparse}, {t: r for t, r in BEFORE.items() if t not in MAPS}])
    dscps = chance.sample([dscp for dscp in range(64) if dscp not in (3, 4, 46, 48)], len(queues))
    classes = tuple(QueueClass(p, dscps[p], queue) for p, queue in enumerate(sorted(queues, reverse=True)))
    after = applied(rows, plan(SwitchIntent(1, "enabled", classes), rows, tag="mwsze2m7").changes)
    assert refusal(after) == ""
    for table in MAPS:
        (name,) = (name for name in after[table] if is_own(name))
        for field in after[table][name]:
            assert refusal(applied(after, [Drop(table, name, (field,))])) or len(after[table][name]) > FIELDS[table]


def earlier(rows: Rows) -> Rows:
    """The rows as a version before wrote them: maps of ours under names that YANG does not guard."""
    name_of = {name: name.replace("_z", "_") for table in MAPS for name in rows[table] if is_own(name)}
    assert name_of
    return {
        table: {name_of.get(key, key): {f: name_of.get(v, v) for f, v in row.items()} for key, row in entries.items()}
        for table, entries in rows.items()
    }


def test_an_upgraded_daemon_moves_ports_to_maps_that_are_guarded_once_nobody_patches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    box = Box(monkeypatch)
    box.switch.edit(lambda _: intent(1, 7, 5))
    box.settled(1)
    stood = earlier(box.world.rows)
    of_then = {(table, name) for table in MAPS for name in stood[table] if is_own(name)}
    box.world.change(*(Put(t, k, row) for t, rows in stood.items() for k, row in rows.items()))
    box.world.change(*(Delete(t, k) for t in MAPS for k in box.world.rows[t] if k not in stood[t]))
    asic, box.switch = box.world.in_asic(PORTS[0]), Switch(box.world, quiet_s=QUIET_S)
    box.passes(5.0)
    assert box.switch.snapshot.status.outcome == "waiting"
    assert box.switch.snapshot.intent == intent(1, 7, 5), "whoever reads by gNMI meanwhile sees no empty configuration"
    assert of_then <= {(table, name) for table in MAPS for name in box.world.rows[table]}
    box.settled(1)
    assert not any(may_be_emptied(name) for table in MAPS for name in box.world.rows[table])
    assert {f: box.world.in_asic(PORTS[0])[f] for f in ("dscp_to_tc", "tc_to_queue")} == {
        f: asic[f] for f in ("dscp_to_tc", "tc_to_queue")
    }
