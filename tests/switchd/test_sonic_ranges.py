"""Whatever an intent asks for, SONiC's own models and orchagent take the rows that come of it."""

import random
from typing import Any

import pytest
from qclimb import orchagent
from qclimb.intent import QueueClass, SwitchIntent
from qclimb.leaves import LARGEST_ECN, LARGEST_TH, LEAST_ECN, LEAST_TH, NOT_OURS
from qclimb.sonic_ranges import FIELDS, INT32_MAX

from switchd.apply import Switch
from switchd.intents import intent_of
from switchd.plan import OBJECT_TABLES, plan
from switchd.previous import is_own
from switchd.rows import Rows, applied
from tests.switchd.platforms import BUFFERED, LOSSY, intent, narrow
from tests.switchd.sonic_fields import FIELDS as FIELD_NAMES
from tests.switchd.sonic_fields import complaint, models, of_models
from tests.switchd.test_histories import BEFORE
from tests.switchd.world import World
from tests.tiers import quick_first

LANES = {"Ethernet0": "0", "Ethernet4": "4"}
SWITCH: Rows = {
    **BUFFERED,
    "PORT": {port: {**row, "lanes": LANES[port]} for port, row in BUFFERED["PORT"].items()},
    "PORT_QOS_MAP": {
        port: {name: row[name] for name in ("dscp_to_tc_map", "tc_to_queue_map", "pfc_enable")}
        for port, row in BUFFERED["PORT_QOS_MAP"].items()
    },
    "BUFFER_POOL": {
        name: {"type": "egress", "mode": "dynamic", "size": "9000000"}
        for name in ("egress_lossy_pool", "egress_lossless_pool")
    },
}
FREE = (7, 5, 2, 1, 0)
DSCPS = [dscp for dscp in range(64) if dscp not in NOT_OURS]


def any_intent(chance: random.Random) -> SwitchIntent:
    """The ends of each range often."""
    queues = sorted(chance.sample(FREE, chance.randint(1, len(FREE))), reverse=True)
    ecn = sorted(chance.choice([LEAST_ECN, LARGEST_ECN, chance.randint(1, 10**7)]) for _ in range(2))
    more: dict[str, Any] = {"ecn_min_bytes": ecn[0], "ecn_max_bytes": ecn[1]} if chance.random() < 0.7 else {}
    classes = (
        QueueClass(
            priority,
            dscp,
            queue,
            dynamic_th=chance.choice([None, LEAST_TH, LARGEST_TH, chance.randint(LEAST_TH, LARGEST_TH)]),
            max_share=chance.choice([None, 1e-9, 1.0, chance.uniform(0.01, 1.0)]),
        )
        for priority, (queue, dscp) in enumerate(zip(queues, chance.sample(DSCPS, len(queues)), strict=True))
    )
    return SwitchIntent(chance.getrandbits(64), "enabled", tuple(classes), **more)


@pytest.mark.parametrize("seed", quick_first(range(40), 4))
def test_sonic_takes_each_state_that_an_intent_plans(seed: int) -> None:
    """A hundred intents a seed, one after the other on one switch; each transaction's state is loaded."""
    chance, context, rows = random.Random(seed), models(), SWITCH
    assert complaint(rows, context) == ""
    for number in range(100):
        for one in plan(any_intent(chance), rows, tag=f"{number:x}").transactions:
            rows = applied(rows, one)
            assert complaint(rows, context) == ""
    assert not plan(any_intent(chance), rows).refused


@pytest.mark.parametrize(
    ("table", "row"),
    [
        ("BUFFER_PROFILE", {**LOSSY, "dynamic_th": "8"}),
        ("WRED_PROFILE", {"green_max_threshold": str(INT32_MAX + 1)}),
        ("SCHEDULER", {"type": "STRICT", "cir": "1", "pir": str(2**64)}),
        ("DSCP_TO_TC_MAP", {"64": "0"}),
        ("TC_TO_QUEUE_MAP", {"0": "10"}),
    ],
)
def test_a_row_out_of_range_is_complained_of(table: str, row: dict[str, str]) -> None:
    assert complaint({**SWITCH, table: {**SWITCH.get(table, {}), "X": row}}, models())


def test_orchagents_rules_keep_both_ends_of_each_range_and_no_more() -> None:
    """Beyond them a number is an exception, or another one by its low bits."""

    def kept(table: str, field: str, value: int) -> bool:
        try:
            return str(value) in dict(orchagent.ATTRIBUTES[table]({field: str(value)})).values()
        except orchagent.Blocking:
            return False

    for (table, field), found in FIELDS.items():
        assert kept(table, field, found.lowest) and kept(table, field, found.highest)
        assert not kept(table, field, found.orchagent[1] + 1), (table, field)


def test_where_sonics_models_are_the_lists_of_fields_and_ranges_are_theirs() -> None:
    context = models()
    if context is None:
        pytest.skip("SONiC's YANG models are not here (QCLIMB_SONIC_YANG)")
    for table, found in of_models(context).items():
        assert found.keys() <= set(FIELD_NAMES.get(table, "").split()) or table not in FIELD_NAMES
        for field, text in found.items():
            if text and ".." in text and (table, field) in FIELDS:
                assert tuple(map(int, text.split(".."))) == FIELDS[table, field].yang


def test_a_profile_of_an_earlier_version_that_blocks_all_patches_goes_without_one() -> None:
    """It is out of the range of SONiC's models: so is each target of a patch, also of the one that takes it away."""
    wanted = narrow(intent(7, 5))
    old = {**wanted.to_config_db(), **applied(BUFFERED, plan(wanted, BUFFERED).changes)}
    ours = [name for name in old["BUFFER_PROFILE"] if is_own(name)]
    assert ours
    for name in ours:
        old["BUFFER_PROFILE"][name] = {**old["BUFFER_PROFILE"][name], "dynamic_th": "8"}
    old["QCLIMB_CLASS"]["0"]["dynamic_th"] = "8"
    assert "dynamic_th is 8" in complaint(old, None)
    planned = plan(intent_of(old), old)
    after = applied(old, planned.changes)
    assert complaint(after, None) == ""
    assert {row["dynamic_th"] for name, row in after["BUFFER_PROFILE"].items() if is_own(name)} == {"7"}
    assert "QCLIMB_CLASS|0 dynamic_th" in planned.warning


def stored(**fields: str) -> Rows:
    """What an earlier version took: a class and the switch with numbers that SONiC does not take."""
    rows = intent(7, 5, ecn_min_bytes=1000, ecn_max_bytes=2000).to_config_db()
    rows["QCLIMB"]["global"]["ecn_max_bytes"] = fields.get("ecn_max_bytes", "2000")
    for row in rows["QCLIMB_CLASS"].values():
        row |= {"dynamic_th": fields.get("dynamic_th", "0")}
    return rows


@pytest.mark.parametrize(
    "fields", [{"dynamic_th": "8"}, {"ecn_max_bytes": str(2**31)}, {"ecn_max_bytes": str(2**64 - 1)}]
)
def test_a_stored_number_that_sonic_does_not_take_is_read_named_and_leaves_the_rows(fields: dict[str, str]) -> None:
    world = World({**BEFORE, **stored(**fields)}, random.Random(1))
    switch = Switch(world)
    for _ in range(3):
        switch.follow()
        switch.look()
    assert world.rows["QCLIMB_CLASS"] == stored(**fields)["QCLIMB_CLASS"], "the operator's rows stay as they are"
    assert next(iter(fields.values())) in switch.snapshot.status.warning
    ours = {table: world.rows.get(table, {}) for table in OBJECT_TABLES}
    assert complaint(ours, None) == ""
    switch.edit(lambda now: now)
    switch.edit(lambda _: intent(7, 5, generation=2))
    switch.follow()
    assert not switch.snapshot.status.warning or "expected" not in switch.snapshot.status.warning
    switch.edit(lambda _: None)
    assert "QCLIMB" not in world.rows or not world.rows["QCLIMB"]
