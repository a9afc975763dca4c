"""What `plan` refuses, of a port or of the whole switch, each with the reason."""

import pytest
from qclimb.intent import PathWeights, QueueClass, SwitchIntent

from switchd.plan import Refused
from switchd.plan import plan as whole_plan
from switchd.previous import PREVIOUS, is_own
from switchd.rows import Delete, Put, Rows, applied
from tests.switchd.platforms import (
    AZURE,
    BARE,
    FREE,
    REFERRING,
    dangling,
    intent,
    plan,
    queue_of,
    with_,
)

EVERY_TC = {str(dscp): str(dscp % 8) for dscp in range(64)}
NONE_TO_SEVEN = {str(tc): str(min(tc, 6)) for tc in range(8)}
ALL_USED = applied(AZURE, [Put("DSCP_TO_TC_MAP", "AZURE", EVERY_TC), Put("TC_TO_QUEUE_MAP", "AZURE", NONE_TO_SEVEN)])

REFUSED: dict[str, tuple[SwitchIntent, Rows, str]] = {
    "a queue with PFC": (intent(7, 4), AZURE, "queue 4 has PFC"),
    "PFC by its own queue map": (
        intent(7, 2),
        with_(AZURE, "MAP_PFC_PRIORITY_TO_QUEUE", "AZURE", **{"3": "2"}),
        "queue 2 has PFC",
    ),
    "the queue of DSCP 48": (intent(7, 6), AZURE, "queue 6 carries DSCP 48"),
    "a lossless DSCP": (
        SwitchIntent(1, "enabled", (QueueClass(0, 47, 7), QueueClass(1, 26, 5))),
        with_(AZURE, "DSCP_TO_TC_MAP", "AZURE", **{"26": "3"}),
        "Ethernet0: DSCP 26 is lossless (PFC) by the port's present map, a class can't have it",
    ),
    "a path through a spine": (
        SwitchIntent(1, "enabled", (QueueClass(0, 47, 7, path="s1"),)),
        BARE,
        "class 0: path 's1' needs a path backend",
    ),
    "weights of paths": (intent(7, path_weights=PathWeights({"s1": 1.0})), BARE, "weights need a path backend"),
    "a port that is not there": (intent(7, ports=("Ethernet99",)), BARE, "port 'Ethernet99' is not in the table PORT"),
    "a row for several ports": (
        intent(7, 6),
        with_(BARE, "QUEUE", "Ethernet0,Ethernet4|7", scheduler="x"),
        "QUEUE|Ethernet0,Ethernet4|7 covers",
    ),
    "a map that is no map": (
        intent(7, 5),
        with_(AZURE, "DSCP_TO_TC_MAP", "AZURE", **{"9": "x"}),
        "DSCP_TO_TC_MAP|AZURE: a map row holds numbers only",
    ),
    "no traffic class left": (
        intent(7),
        ALL_USED,
        "no traffic class is left for queue 7",
    ),
}


PG = {"0": "0", "1": "0", "2": "0", "3": "3", "4": "4", "5": "0", "6": "0", "7": "7"}
PORT_REFUSED: dict[str, tuple[SwitchIntent, Rows, str]] = {
    "a queue with PFC": (intent(7, 5), with_(BARE, "PORT_QOS_MAP", "Ethernet0", pfc_enable="5"), "queue 5 has PFC"),
    "no PORT_QOS_MAP row beside the switch-level map": (
        intent(*FREE),
        with_(applied(AZURE, [Delete("PORT_QOS_MAP", "Ethernet0")]), "PORT_QOS_MAP", "global", dscp_to_tc_map="AZURE"),
        "queue 0 carries DSCP 48",
    ),
    "a PORT_QOS_MAP row for several ports": (
        intent(*FREE),
        applied(
            applied(AZURE, [Delete("PORT_QOS_MAP", "Ethernet0")]),
            [Put("PORT_QOS_MAP", "Ethernet0,Ethernet8", AZURE["PORT_QOS_MAP"]["Ethernet0"])],
        ),
        "PORT_QOS_MAP|Ethernet0,Ethernet8 names several ports; split it into a row for each first",
    ),
    "a port that is gone": (
        intent(7, 6, ports=("Ethernet0", "Ethernet4")),
        applied(BARE, [Delete("PORT", "Ethernet0")]),
        "port 'Ethernet0' is not in the table PORT",
    ),
    "a junk key": (intent(7, 6), with_(BARE, "QUEUE", "Ethernet0|x", scheduler="s"), "QUEUE|Ethernet0|x is no key"),
    "a key of a billion queues": (
        intent(7, 6),
        with_(BARE, "QUEUE", "Ethernet0|0-999999999", scheduler="s"),
        "QUEUE|Ethernet0|0-999999999 is no key",
    ),
    "a range across granted and other queues": (
        intent(7, 6),
        with_(BARE, "QUEUE", "Ethernet0|5-6", scheduler="x"),
        "QUEUE|Ethernet0|5-6 covers granted and other queues",
    ),
    "a queue without a buffer": (
        intent(7, 6),
        {**BARE, "BUFFER_QUEUE": {"Ethernet0|0-6": {"profile": "p"}, "Ethernet4|0-7": {"profile": "p"}}},
        "Ethernet0: queue 7 has no buffer (no BUFFER_QUEUE row covers it)",
    ),
    "priority groups without a buffer": (
        intent(7, 6),
        {
            **BARE,
            "TC_TO_PRIORITY_GROUP_MAP": {"ALL7": {str(tc): "7" for tc in range(8)}},
            "PORT_QOS_MAP": {"Ethernet0": {"tc_to_pg_map": "ALL7"}},
            "BUFFER_PG": {"Ethernet0|0": {"profile": "p"}, "Ethernet4|0": {"profile": "p"}},
        },
        "TC 7 goes to priority group 7, without a buffer (no BUFFER_PG row)",
    ),
}


@pytest.mark.parametrize("case", PORT_REFUSED)
def test_a_port_that_can_not_refuses_alone(case: str) -> None:
    wanted, rows, reason = PORT_REFUSED[case]
    planned = whole_plan(wanted, rows)
    assert list(planned.refused) == ["Ethernet0"]
    assert reason in planned.refused["Ethernet0"]
    after = applied(rows, planned.changes)
    assert [queue_of(after, "Ethernet4", one.dscp) for one in wanted.classes] == [str(q) for q in wanted.queues]
    for table in REFERRING:
        for key, row in after.get(table, {}).items():
            if key.partition("|")[0] == "Ethernet0":
                assert row == rows.get(table, {}).get(key)
    assert plan(wanted, after) == ()


def test_a_port_that_refuses_a_new_intent_keeps_the_old_one() -> None:
    on = applied(AZURE, plan(intent(*FREE), AZURE))
    on["PORT_QOS_MAP"]["Ethernet0"]["pfc_enable"] = "3,4,7"
    planned = whole_plan(intent(7, 5, 2), on)
    assert list(planned.refused) == ["Ethernet0"]
    after = applied(on, planned.changes)
    assert after["PORT_QOS_MAP"]["Ethernet0"] == on["PORT_QOS_MAP"]["Ethernet0"]
    assert not dangling(after)
    assert queue_of(after, "Ethernet4", 47 - 4 * 3) == "1"
    off = applied(after, plan(None, after))
    assert off["PORT_QOS_MAP"]["Ethernet0"] == {**AZURE["PORT_QOS_MAP"]["Ethernet0"], "pfc_enable": "3,4,7"}


def test_a_traffic_class_whose_priority_group_has_a_buffer_is_taken_instead() -> None:
    """SONiC's AZURE maps send traffic class 7 to priority group 7, and buffers are commonly given to 0 and 3-4 only."""
    rows = {
        **AZURE,
        "DSCP_TO_TC_MAP": {"AZURE": {str(d): {3: "3", 4: "4", 48: "6"}.get(d, "1") for d in range(64)}},
        "TC_TO_PRIORITY_GROUP_MAP": {"AZURE": PG},
        "BUFFER_PG": {f"{port}|{span}": {"profile": "p"} for port in BARE["PORT"] for span in ("0", "3-4")},
    }
    after = applied(rows, plan(intent(7, 5), rows))
    maps = after["PORT_QOS_MAP"]["Ethernet0"]
    tc = after["DSCP_TO_TC_MAP"][maps["dscp_to_tc_map"]]["47"]
    assert (queue_of(after, "Ethernet0", 47), PG[tc]) == ("7", "0")


@pytest.mark.parametrize(
    ("name", "row"), [("Ethernet-Rec0", {}), ("Ethernet-IB0", {})] + [(f"Ethernet{n}", {"role": role})
     for n, role in enumerate(("Rec", "Inb", "Dpc", "Int", "Inactive"), 100)]
)  # fmt: skip
def test_ports_inside_the_switch_are_not_every_port(name: str, row: dict[str, str]) -> None:
    rows = {**BARE, "PORT": {**BARE["PORT"], name: row, "Ethernet8": {"role": "Ext"}}}
    planned = whole_plan(intent(7, 6), rows)
    assert not planned.refused
    assert set(applied(rows, planned.changes)["PORT_QOS_MAP"]) == {"Ethernet0", "Ethernet4", "Ethernet8"}


def test_a_port_that_vanishes_takes_our_references_with_it() -> None:
    on = applied(AZURE, plan(intent(*FREE), AZURE))
    gone = applied(on, [Delete("PORT", "Ethernet0")])
    planned = whole_plan(intent(*FREE), gone)
    assert not planned.refused
    after = applied(gone, planned.changes)
    for table in REFERRING:
        for key, row in after.get(table, {}).items():
            assert not key.startswith("Ethernet0") or not any(is_own(value) for value in row.values())
    assert not any(key.partition("|")[0] == "Ethernet0" for key in after[PREVIOUS])


@pytest.mark.parametrize("case", REFUSED)
def test_refuses_with_the_reason(case: str) -> None:
    wanted, rows, reason = REFUSED[case]
    with pytest.raises(Refused) as error:
        plan(wanted, rows)
    assert reason in str(error.value)
