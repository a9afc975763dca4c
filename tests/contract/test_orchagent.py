"""What orchagent takes of a row alone; the recorded histories are in tests/lab/vasic."""

import pytest
from qclimb.orchagent import Blocking, Failed, Refused, blocking, check, index_range, number, tokens, waits_behind

TAKEN = [
    ("DSCP_TO_TC_MAP", "M", {"64": "1", "5": "9"}),
    ("DSCP_TO_TC_MAP", "M", {" 8x": "+1"}),
    ("DOT1P_TO_TC_MAP", "M", {"a": "1", "2": "3"}),
    ("SCHEDULER", "S", {"type": "DWRR", "weight": "0"}),
    ("SCHEDULER", "S", {"type": "DWRR", "weight": "101", "meter_type": "packets", "pir": "-1"}),
    ("WRED_PROFILE", "W", {"ecn": "ecn_all"}),
    ("WRED_PROFILE", "W", {"wred_green_enable": "true", "green_max_threshold": "1"}),
    ("QUEUE", "Ethernet0|0-2", {"scheduler": "[SCHEDULER|S]", "colour": "red"}),
    ("QUEUE", "Ethernet0,Ethernet4|3", {}),
    ("PORT_QOS_MAP", "Ethernet0", {"pfc_enable": "", "colour": "red"}),
    ("PORT_QOS_MAP", "global", {"pfc_enable": "x"}),
    ("BUFFER_POOL", "P", {"type": "egress", "size": "1"}),
    ("BUFFER_PROFILE", "B", {"pool": "P", "size": "0", "dynamic_th": "-8", "colour": "red"}),
    ("BUFFER_QUEUE", "Ethernet0|3", {"profile": "B"}),
    ("PORT", "Ethernet0", {"speed": "x"}),
]
REFUSED = [
    ("SCHEDULER", "S", {"type": "STRICT", "colour": "red"}),
    ("SCHEDULER", "S", {"NULL": "NULL"}),
    ("SCHEDULER", "S", {"colour": "red", "weight": "x"}),
    ("SCHEDULER", "S", {"type": "strict"}),
    ("WRED_PROFILE", "W", {"wred_green_enable": "yes"}),
    ("WRED_PROFILE", "W", {"green_min_threshold": "2", "green_max_threshold": "1"}),
    ("WRED_PROFILE", "W", {"blue_min_threshold": "2"}),
    ("DSCP_TO_FC_MAP", "M", {"8": "0"}),
    ("TC_TO_DSCP_MAP", "M", {"a": "1"}),
    ("QUEUE", "Ethernet0", {"scheduler": "S"}),
    ("QUEUE", "Ethernet0|", {"scheduler": "S"}),
    ("QUEUE", "Ethernet0|2-1", {"scheduler": "S"}),
    ("QUEUE", "Ethernet0|2-", {"scheduler": "S"}),
    ("BUFFER_POOL", "P", {"type": "inside", "size": "1"}),
]
FAILED = [
    ("DOT1P_TO_TC_MAP", "M", {"a": "1"}),
    ("QUEUE", "Ethernet0|3", {"scheduler": ""}),
    ("BUFFER_QUEUE", "Ethernet0|3", {"NULL": "NULL"}),
    ("BUFFER_POOL", "P", {"type": "egress"}),
    ("BUFFER_PROFILE", "B", {"pool": "P", "dynamic_th": "1"}),
    ("BUFFER_PROFILE", "B", {"pool": "P", "size": "0"}),
    ("BUFFER_PROFILE", "B", {"pool": "P", "size": "0", "dynamic_th": "1", "static_th": "1"}),
]
BLOCKING = [
    ("DSCP_TO_TC_MAP", "M", {"NULL": "NULL"}),
    ("TC_TO_QUEUE_MAP", "M", {"1": "2147483648"}),
    ("TC_TO_DSCP_MAP", "M", {"1": "99999999999"}),
    ("SCHEDULER", "S", {"weight": "x", "colour": "red"}),
    ("SCHEDULER", "S", {"meter_type": "words"}),
    ("WRED_PROFILE", "W", {"ecn": "foo"}),
    ("QUEUE", "Ethernet0|x", {"scheduler": "S"}),
    ("QUEUE", "Ethernet0|-1", {"scheduler": "S"}),
    ("PORT_QOS_MAP", "Ethernet0", {"pfc_enable": "3,x"}),
    ("BUFFER_PROFILE", "B", {"dynamic_th": "x"}),
    ("BUFFER_QUEUE", "Ethernet0|x", {"profile": "B"}),
]


@pytest.mark.parametrize(("table", "key", "row"), TAKEN)
def test_orchagent_takes(table, key, row):
    check(table, key, row)


@pytest.mark.parametrize(
    ("kind", "table", "key", "row"),
    [(kind, *case) for kind, cases in ((Refused, REFUSED), (Failed, FAILED), (Blocking, BLOCKING)) for case in cases],
)
def test_orchagent_does_not_take(kind, table, key, row):
    with pytest.raises(kind) as caught:
        check(table, key, row)
    assert type(caught.value) is kind or kind is Blocking


def test_the_rows_that_block_a_table_are_named_in_the_order_of_its_keys():
    rows = {"Z": {"NULL": "NULL"}, "M": {"8": "1"}, "A": {"a": "1"}}
    assert blocking("DSCP_TO_TC_MAP", rows) == {
        "A": "field is 'a', expected a number",
        "Z": "field is 'NULL', expected a number",
    }


def test_rows_behind_one_that_blocks_wait_and_all_of_buffer_queue():
    assert waits_behind("QUEUE", "Ethernet0|x", "Ethernet4|0")
    assert not waits_behind("QUEUE", "Ethernet0|x", "Ethernet0|3")
    assert waits_behind("BUFFER_QUEUE", "Ethernet0|x", "Ethernet0|3")


def test_texts_are_read_as_in_cpp():
    assert tokens("a|b|", "|") == ["a", "b"]
    assert tokens("", ",") == []
    assert tokens("|b", "|") == ["", "b"]
    assert number("\t-12abc", "x") == -12
    assert index_range("0-2") == (0, 2)
    assert index_range("4294967299") == (3, 3)
