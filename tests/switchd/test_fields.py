"""Each field of SONiC's rows is decided, and what changes a class's meaning is refused or named, port by port."""

import pytest
from qclimb.intent import SwitchIntent

from switchd.fields import JUDGES, USES, Use
from switchd.plan import READ_TABLES, Refused, plan
from switchd.previous import is_own
from switchd.rows import Rows, applied
from tests.switchd.platforms import AZURE, BARE, BUFFERED, LOSSY, intent, with_
from tests.switchd.sonic_fields import FIELDS, ORCHAGENT_ONLY
from tests.switchd.test_limits import limited, scheduler

WANTED = intent(7, 5)
DSCPS = [one.dscp for one in WANTED.classes]
ONE_MAP: Rows = {
    "PORT": BARE["PORT"],
    "DOT1P_TO_TC_MAP": {"AZURE": {str(n): str(n) for n in range(8)}},
    "TC_TO_QUEUE_MAP": {"AZURE": {str(n): str(n) for n in range(8)}},
    "PORT_QOS_MAP": {"Ethernet0": {"dot1p_to_tc_map": "AZURE", "tc_to_queue_map": "AZURE"}},
}
WITH_GLOBAL: Rows = {
    **AZURE,
    "DOT1P_TO_TC_MAP": ONE_MAP["DOT1P_TO_TC_MAP"],
    "PORT_QOS_MAP": {**AZURE["PORT_QOS_MAP"], **ONE_MAP["PORT_QOS_MAP"], "global": {"dscp_to_tc_map": "AZURE"}},
}
TRIMS: Rows = {
    **BUFFERED,
    "BUFFER_PROFILE": {**BUFFERED["BUFFER_PROFILE"], "trims": {**LOSSY, "packet_discard_action": "trim"}},
    "BUFFER_QUEUE": {**BUFFERED["BUFFER_QUEUE"], "Ethernet0|1": {"profile": "trims"}},
}


def trims(**fields: str) -> Rows:
    return {**TRIMS, "SWITCH_TRIMMING": {"GLOBAL": {"size": "128", **fields}}}


def to_map(field: str, table: str, row: dict[str, str]) -> Rows:
    return with_({**AZURE, table: {"M": row}}, "PORT_QOS_MAP", "Ethernet0", **{field: "M"})


REFUSED: list[tuple[str, str, Rows]] = [
    ("PORT_QOS_MAP", "dot1p_to_tc_map", ONE_MAP),
    ("PORT_QOS_MAP", "dot1p_to_tc_map", WITH_GLOBAL),
    ("PORT_QOS_MAP", "tc_to_dscp_map", to_map("tc_to_dscp_map", "TC_TO_DSCP_MAP", {str(n): "8" for n in range(8)})),
    ("PORT_QOS_MAP", "tc_to_dscp_map", to_map("tc_to_dscp_map", "TC_TO_DSCP_MAP", {"0": "0"})),
    ("SWITCH_TRIMMING", "queue_index", trims(queue_index="5", dscp_value="10")),
    ("SWITCH_TRIMMING", "queue_index", trims(queue_index="dynamic", dscp_value=str(DSCPS[0]))),
    ("SWITCH_TRIMMING", "queue_index", trims(queue_index="dynamic", dscp_value="from-tc", tc_value="5")),
    ("SWITCH_TRIMMING", "dscp_value", trims(queue_index="2", dscp_value=str(DSCPS[1]))),
]
WARNED: list[tuple[str, str, Rows, SwitchIntent]] = [
    ("PORT_QOS_MAP", "tc_to_dot1p_map", to_map("tc_to_dot1p_map", "TC_TO_DOT1P_MAP", {"7": "1"}), WANTED),
    ("PORT_QOS_MAP", "dscp_to_fc_map", to_map("dscp_to_fc_map", "DSCP_TO_FC_MAP", {str(DSCPS[0]): "1"}), WANTED),
    ("PORT_QOS_MAP", "anything_new", with_(AZURE, "PORT_QOS_MAP", "Ethernet0", anything_new="x"), WANTED),
    ("PORT", "autoneg", with_(BARE, "PORT", "Ethernet0", autoneg="on", adv_speeds="10000,25000"), limited((7, 0.5))),
    ("PORT", "pfc_asym", with_(BARE, "PORT", "Ethernet0", pfc_asym="on"), WANTED),
    ("PORT", "mux_cable", with_(BARE, "PORT", "Ethernet0", mux_cable="true"), WANTED),
    (
        "BUFFER_PROFILE",
        "packet_discard_action",
        {**TRIMS, "BUFFER_QUEUE": {**TRIMS["BUFFER_QUEUE"], "Ethernet0|7": {"profile": "trims"}}},
        WANTED,
    ),
]
HARMLESS: list[Rows] = [
    with_(WITH_GLOBAL, "PORT_QOS_MAP", "Ethernet0", dscp_to_tc_map="AZURE"),
    to_map("tc_to_dscp_map", "TC_TO_DSCP_MAP", {"7": str(DSCPS[0]), "5": str(DSCPS[1])}),
    with_(AZURE, "PORT_QOS_MAP", "Ethernet0", tc_to_dscp_map="not there"),
    to_map("tc_to_dot1p_map", "TC_TO_DOT1P_MAP", {"2": "1"}),
    trims(queue_index="2", dscp_value="10"),
    {**BUFFERED, "SWITCH_TRIMMING": {"GLOBAL": {"queue_index": "5", "dscp_value": str(DSCPS[0])}}},
    with_(BARE, "PORT", "Ethernet0", autoneg="on", adv_speeds="25000", pfc_asym="off", mux_cable="false"),
    {**AZURE, "DEVICE_METADATA": {"localhost": {"switch_type": "npu", "storage_device": "true"}}},
]


def test_each_field_of_sonics_models_is_decided_and_no_other() -> None:
    known = {(table, name) for table, names in FIELDS.items() for name in names.split()}
    assert USES.keys() == known | ORCHAGENT_ONLY


def test_each_field_that_is_judged_has_a_judge_and_a_case_here_and_its_table_is_read() -> None:
    judged = {place for place, use in USES.items() if use in (Use.WARNED, Use.REFUSED)}
    assert judged == JUDGES.keys() | {("DEVICE_METADATA", "switch_type")}
    cases = {(table, name) for table, name, _ in REFUSED} | {(table, name) for table, name, *_ in WARNED}
    assert judged == cases - {("PORT_QOS_MAP", "anything_new")} | {("DEVICE_METADATA", "switch_type")}
    assert {table for table, _ in judged} <= {*READ_TABLES}
    assert {table for _, _, rows in REFUSED for table in rows} <= {*READ_TABLES}


@pytest.mark.parametrize(("table", "field", "rows"), REFUSED, ids=[f"{one[1]}-{n}" for n, one in enumerate(REFUSED)])
def test_a_field_against_a_class_refuses_its_port_alone(table: str, field: str, rows: Rows) -> None:
    planned = plan(WANTED, rows)
    assert planned.refused.keys() == {"Ethernet0"}
    assert (field if table == "PORT_QOS_MAP" else "trims") in planned.refused["Ethernet0"]
    after = applied(rows, planned.changes)
    assert {key.partition("|")[0] for key, row in after["QUEUE"].items() if is_own(row["scheduler"])} == {"Ethernet4"}
    assert after["PORT_QOS_MAP"]["Ethernet0"] == rows["PORT_QOS_MAP"]["Ethernet0"]


@pytest.mark.parametrize(("table", "field", "rows", "wanted"), WARNED, ids=[one[1] for one in WARNED])
def test_a_field_that_changes_a_class_is_named_and_the_port_gets_it(
    table: str, field: str, rows: Rows, wanted: SwitchIntent
) -> None:
    planned = plan(wanted, rows)
    assert not planned.refused
    word = {"mux_cable": "tunnel", "packet_discard_action": "trimmed", "tc_to_dot1p_map": "802.1p"}.get(field, field)
    assert word in planned.warning


@pytest.mark.parametrize("rows", HARMLESS, ids=range(len(HARMLESS)))
def test_what_is_against_no_class_is_neither_refused_nor_named(rows: Rows) -> None:
    planned = plan(WANTED, rows)
    assert not planned.refused
    assert not any(word in planned.warning for word in ("DSCP 47", "DSCP 43", "trim", "autoneg", "tunnel", "pfc_asym"))


def test_a_limit_is_a_share_of_the_rate_that_the_port_is_shaped_to() -> None:
    shaped = with_({**BARE, "SCHEDULER": {"s": {"pir": "1250000000"}}}, "PORT_QOS_MAP", "Ethernet0", scheduler="s")
    after = applied(shaped, plan(limited((7, 0.5)), shaped).changes)
    assert [scheduler(after, f"{port}|7")["pir"] for port in ("Ethernet0", "Ethernet4")] == ["625000000", "1562500000"]
    for pir in ("0", "x", "9" * 12):  # no shaper, none that orchagent takes, one faster than the port
        odd = {**shaped, "SCHEDULER": {"s": {"pir": pir}}}
        assert scheduler(applied(odd, plan(limited((7, 0.5)), odd).changes), "Ethernet0|7")["pir"] == "1562500000"
    by_packets = {**shaped, "SCHEDULER": {"s": {"pir": "1000", "meter_type": "packets"}}}
    assert plan(limited((7, 0.5)), by_packets).unlimited.keys() == {"Ethernet0"}


VOQ: Rows = {**AZURE, "DEVICE_METADATA": {"localhost": {"switch_type": "voq"}}}


def test_a_voq_chassis_is_refused_by_name() -> None:
    with pytest.raises(Refused, match=r"switch_type is 'voq'.*VOQ"):
        plan(WANTED, VOQ)
    assert plan(None, VOQ).changes == ()


def test_what_an_earlier_version_wrote_on_a_voq_chassis_goes() -> None:
    """There it stands in the way of every patch, also of the one that takes the intent away."""
    before = {**applied(AZURE, plan(WANTED, AZURE).changes), "DEVICE_METADATA": VOQ["DEVICE_METADATA"]}
    planned = plan(WANTED, before)
    assert applied(before, planned.changes) == VOQ
    assert planned.refused.keys() == BARE["PORT"].keys()
