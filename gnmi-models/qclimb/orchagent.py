"""What SONiC's orchagent makes of one row of the QoS and buffer tables: the SAI attributes it asks for, or why not.

Pure rules for one row alone, as `qosorch.cpp`, `bufferorch.cpp` and `orch.cpp` of sonic-swss have them (e6b0c5b5), with
what SAI's own checks add at a creation (sonic-sairedis, `meta/Meta.cpp`). Numbers are read as C++ reads them: leading
blanks and a sign are taken, what follows the digits is ignored. Fields count in the order in which the row has them:
the first one that is wrong decides.

    Malformed
    |-- Refused    orchagent drops the row, an object that stands keeps its values, the table's next row follows
    |   `-- Failed   the same, and the table's other rows wait for orchagent's next event
    `-- Blocking   an exception leaves the row where it is: rows that sort after it in its table wait for as long as it
        |          is there, and a key that can't be read blocks even when the row is deleted
        `-- NoNumber
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from .checks import shown

Row = Mapping[str, str]
Attributes = Iterator[tuple[str, str]]
"""SAI attribute and its value as ASIC_DB spells them, in the order of the row's fields"""


class Malformed(ValueError):
    """A row that orchagent does not take."""


class Refused(Malformed):
    """Dropped (`task_invalid_entry`)."""


class Failed(Refused):
    """Dropped, and ends its table's pass (`task_failed`)."""


class Blocking(Malformed):
    """Kept at the head of its table's rows (an exception)."""


class NoNumber(Blocking):
    """A text that begins with no number (`std::invalid_argument`, which some tables catch)."""


@dataclass(frozen=True)
class MapRule:
    """A table of QoS maps: members of SAI's `sai_qos_map_params_t` that its fields and values fill, and SAI's type.

    bad_number  what a field or value that is no number does: block, refuse the row, or be skipped
    """

    key: str
    value: str
    sai_type: str
    bad_number: Literal["blocks", "refused", "skipped"] = "blocks"


MAPS: Mapping[str, MapRule] = {
    "DSCP_TO_TC_MAP": MapRule("dscp", "tc", "DSCP_TO_TC"),
    "MPLS_TC_TO_TC_MAP": MapRule("mpls_exp", "tc", "MPLS_EXP_TO_TC"),
    "DOT1P_TO_TC_MAP": MapRule("dot1p", "tc", "DOT1P_TO_TC", "skipped"),
    "TC_TO_QUEUE_MAP": MapRule("tc", "qidx", "TC_TO_QUEUE"),
    "TC_TO_DOT1P_MAP": MapRule("tc", "dot1p", "TC_AND_COLOR_TO_DOT1P"),
    "TC_TO_DSCP_MAP": MapRule("tc", "dscp", "TC_AND_COLOR_TO_DSCP", "refused"),
    "TC_TO_PRIORITY_GROUP_MAP": MapRule("tc", "pg", "TC_TO_PRIORITY_GROUP"),
    "PFC_PRIORITY_TO_PRIORITY_GROUP_MAP": MapRule("prio", "pg", "PFC_PRIORITY_TO_PRIORITY_GROUP"),
    "MAP_PFC_PRIORITY_TO_QUEUE": MapRule("prio", "qidx", "PFC_PRIORITY_TO_QUEUE"),
    "DSCP_TO_FC_MAP": MapRule("dscp", "fc", "DSCP_TO_FORWARDING_CLASS", "refused"),
    "EXP_TO_FC_MAP": MapRule("mpls_exp", "fc", "MPLS_EXP_TO_FORWARDING_CLASS", "refused"),
}
MOST_OF_MEMBER = {"DSCP_TO_FC_MAP": ("dscp", 63), "EXP_TO_FC_MAP": ("mpls_exp", 7), "TC_TO_DSCP_MAP": ("dscp", 63)}

PORT_MAPS: Mapping[str, tuple[str, str]] = {
    "dot1p_to_tc_map": ("DOT1P_TO_TC_MAP", "QOS_DOT1P_TO_TC_MAP"),
    "dscp_to_fc_map": ("DSCP_TO_FC_MAP", "QOS_DSCP_TO_FORWARDING_CLASS_MAP"),
    "dscp_to_tc_map": ("DSCP_TO_TC_MAP", "QOS_DSCP_TO_TC_MAP"),
    "exp_to_fc_map": ("EXP_TO_FC_MAP", "QOS_MPLS_EXP_TO_FORWARDING_CLASS_MAP"),
    "mpls_tc_to_tc_map": ("MPLS_TC_TO_TC_MAP", "QOS_MPLS_EXP_TO_TC_MAP"),
    "pfc_to_pg_map": ("PFC_PRIORITY_TO_PRIORITY_GROUP_MAP", "QOS_PFC_PRIORITY_TO_PRIORITY_GROUP_MAP"),
    "pfc_to_queue_map": ("MAP_PFC_PRIORITY_TO_QUEUE", "QOS_PFC_PRIORITY_TO_QUEUE_MAP"),
    "scheduler": ("SCHEDULER", "QOS_SCHEDULER_PROFILE_ID"),
    "tc_to_dot1p_map": ("TC_TO_DOT1P_MAP", "QOS_TC_AND_COLOR_TO_DOT1P_MAP"),
    "tc_to_dscp_map": ("TC_TO_DSCP_MAP", "QOS_TC_AND_COLOR_TO_DSCP_MAP"),
    "tc_to_pg_map": ("TC_TO_PRIORITY_GROUP_MAP", "QOS_TC_TO_PRIORITY_GROUP_MAP"),
    "tc_to_queue_map": ("TC_TO_QUEUE_MAP", "QOS_TC_TO_QUEUE_MAP"),
}
"""field of PORT_QOS_MAP -> table it refers to, attribute of the port (after SAI_PORT_ATTR_)"""

REFERENCES: Mapping[str, Mapping[str, str]] = {
    "PORT_QOS_MAP": {field: table for field, (table, _) in PORT_MAPS.items()},
    "QUEUE": {"scheduler": "SCHEDULER", "wred_profile": "WRED_PROFILE"},
    "BUFFER_PROFILE": {"pool": "BUFFER_POOL"},
    "BUFFER_QUEUE": {"profile": "BUFFER_PROFILE"},
}
"""table -> field -> table of the row that it names; a row waits as a whole until all that it names are there"""

COLOURS = ("green", "yellow", "red")
ECN_MODES = {"ecn_none", *(f"ecn_{c}" for c in COLOURS), "ecn_green_yellow", "ecn_green_red", "ecn_yellow_red"} | {
    "ecn_all"
}
SCHEDULER_RATES = {
    "cir": "MIN_BANDWIDTH_RATE",
    "cbs": "MIN_BANDWIDTH_BURST_RATE",
    "pir": "MAX_BANDWIDTH_RATE",
    "pbs": "MAX_BANDWIDTH_BURST_RATE",
}


def tokens(text: str, separator: str) -> list[str]:
    """`tokenize` of swss-common: an empty last part is none."""
    parts = text.split(separator)
    return parts[:-1] if not parts[-1] else parts


def number(text: str, place: str, lowest: int = -(2**31), highest: int = 2**31 - 1) -> int:
    """`std::stoi`, `stol` by its range.

    Raises:
        Blocking: the text begins with no number, or with one out of range.
    """
    found = re.match(r"[ \t\n\v\f\r]*([+-]?)0*([0-9]+)", text)
    if found is None:
        raise NoNumber(f"{place} is {shown(text)}, expected a number")
    value = int(found[1] + found[2][:30])  # beyond every range already; Python refuses thousands of digits
    if not lowest <= value <= highest:
        raise Blocking(f"{place} is {shown(text)}, expected a number in {lowest}..{highest}")
    return value


def unsigned(text: str, place: str) -> int:
    """`std::stoul` and `stoull`: 64 bits, a minus wraps round."""
    return number(text, place, -(2**64) + 1, 2**64 - 1) % 2**64


def index_range(text: str) -> tuple[int, int]:
    """`3` or `0-2` as (least, largest).

    Raises:
        Refused: it is no range, or does not ascend.
        Blocking: it has no numbers.
    """
    if "-" not in text:
        least = unsigned(text, "index") % 2**32
        return least, least
    parts = tokens(text, "-")
    if len(parts) != 2:
        raise Refused(f"index range is {shown(text)}, expected two numbers")
    least, largest = (unsigned(part, "index") % 2**32 for part in parts)
    if least >= largest:
        raise Refused(f"index range is {shown(text)}, expected the first to be less than the second")
    return least, largest


def queue_key(key: str, separator: str = "|") -> tuple[list[str], int, int]:
    """Ports, least and largest queue of a key of QUEUE or BUFFER_QUEUE (`Ethernet0,Ethernet4|0-2`)."""
    parts = tokens(key, separator)
    if len(parts) != 2:
        raise Refused(f"key has {len(parts)} parts, expected ports{separator}queues")
    return tokens(parts[0], ","), *index_range(parts[1])


def map_entries(table: str, row: Row) -> list[tuple[int, int]]:
    """The entries of a row of a table of MAPS, both as octets."""
    rule, entries = MAPS[table], []
    for field, text in row.items():
        try:
            pair = {rule.key: number(field, "field"), rule.value: number(text, f"field {field}")}
        except Blocking as wrong:
            if rule.bad_number == "skipped":
                continue
            if rule.bad_number == "refused" and isinstance(wrong, NoNumber):
                raise Refused(str(wrong)) from None
            raise
        _check_member(table, pair)
        entries.append((pair[rule.key] % 256, pair[rule.value] % 256))
    if not entries:
        raise Failed("no entry is a pair of numbers")
    return entries


def _check_member(table: str, pair: Mapping[str, int]) -> None:
    member, most = MOST_OF_MEMBER.get(table, ("", 0))
    if member and not 0 <= pair[member] <= most:
        raise Refused(f"{member} is {pair[member]}, expected 0..{most}")
    if "fc" in pair:
        raise Refused("expected no forwarding class: this ASIC has none")


def scheduler(row: Row) -> Attributes:
    """Attributes of SCHEDULER."""
    for field, text in row.items():
        if field == "type":
            if text not in ("DWRR", "WRR", "STRICT"):
                raise Refused(f"type is {shown(text)}, expected DWRR, WRR or STRICT")
            yield "SAI_SCHEDULER_ATTR_SCHEDULING_TYPE", f"SAI_SCHEDULING_TYPE_{text}"
        elif field == "weight":
            yield "SAI_SCHEDULER_ATTR_SCHEDULING_WEIGHT", str(number(text, "weight") % 256)
        elif field == "meter_type":
            if text not in ("bytes", "packets"):
                raise Blocking(f"meter_type is {shown(text)}, expected bytes or packets")
            yield "SAI_SCHEDULER_ATTR_METER_TYPE", f"SAI_METER_TYPE_{text.upper()}"
        elif field in SCHEDULER_RATES:
            yield f"SAI_SCHEDULER_ATTR_{SCHEDULER_RATES[field]}", str(unsigned(text, field))
        else:
            raise Refused(f"unknown field {shown(field)}")


def wred(row: Row) -> Attributes:
    """Attributes of WRED_PROFILE; whether least and largest cross is for `wred_crosses`."""
    for field, text in row.items():
        colour, _, rest = field.partition("_")
        enabled = re.fullmatch("wred_(green|yellow|red)_enable", field)
        if colour in COLOURS and rest in ("min_threshold", "max_threshold"):
            yield f"SAI_WRED_ATTR_{field.upper()}", str(number(text, field) % 2**32)
        elif colour in COLOURS and rest == "drop_probability":
            yield f"SAI_WRED_ATTR_{field.upper()}", str(number(text, field))
        elif enabled:
            if text not in ("true", "false"):
                raise Refused(f"{field} is {shown(text)}, expected true or false")
            yield f"SAI_WRED_ATTR_{enabled[1].upper()}_ENABLE", text
        elif field == "ecn":
            if text not in ECN_MODES:
                raise Blocking(f"ecn is {shown(text)}, expected one of {', '.join(sorted(ECN_MODES))}")
            yield "SAI_WRED_ATTR_ECN_MARK_MODE", f"SAI_ECN_MARK_MODE_{text.removeprefix('ecn_').upper()}"
        else:
            raise Refused(f"unknown field {shown(field)}")


def wred_crosses(attributes: Mapping[str, str]) -> str | None:
    """The colour whose least threshold is above its largest; one that is not there counts as 0."""
    for colour in COLOURS:
        least, largest = (
            int(attributes.get(f"SAI_WRED_ATTR_{colour.upper()}_{which}_THRESHOLD", "0")) for which in ("MIN", "MAX")
        )
        if least > largest:
            return colour
    return None


def port_mask(text: str, place: str) -> int:
    """`pfc_enable` and its like: priorities as eight bits."""
    mask = 0
    for part in tokens(text, ","):
        mask |= 1 << number(part, place) % 256 & 31
    return mask % 256


def buffer_pool(row: Row) -> Attributes:
    """Attributes of BUFFER_POOL."""
    for field, text in row.items():
        if field in ("size", "xoff"):
            attribute = "SIZE" if field == "size" else "XOFF_SIZE"
            yield f"SAI_BUFFER_POOL_ATTR_{attribute}", str(unsigned(text, field))
        elif field == "type":
            if text not in ("ingress", "egress", "both"):
                raise Refused(f"type is {shown(text)}, expected ingress, egress or both")
            yield "SAI_BUFFER_POOL_ATTR_TYPE", f"SAI_BUFFER_POOL_TYPE_{text.upper()}"
        elif field == "mode":
            if text not in ("dynamic", "static"):
                raise Refused(f"mode is {shown(text)}, expected dynamic or static")
            yield "SAI_BUFFER_POOL_ATTR_THRESHOLD_MODE", f"SAI_BUFFER_POOL_THRESHOLD_MODE_{text.upper()}"


def buffer_profile(row: Row) -> Attributes:
    """Attributes of BUFFER_PROFILE, the pool by its name; a row without a reservation or a threshold lacks them."""
    sizes = {"xon": "XON_TH", "xon_offset": "XON_OFFSET_TH", "xoff": "XOFF_TH", "size": "RESERVED_BUFFER_SIZE"}
    actions = {"drop": "DROP", "trim": "DROP_AND_TRIM"}
    for field, text in row.items():
        if field == "pool":
            if not text:
                raise Failed("pool is empty, expected a name")
            yield "SAI_BUFFER_PROFILE_ATTR_POOL_ID", text
        elif field in sizes:
            yield f"SAI_BUFFER_PROFILE_ATTR_{sizes[field]}", str(unsigned(text, field))
        elif field == "dynamic_th":
            least = number(text, field, -(2**63), 2**63 - 1)
            yield "SAI_BUFFER_PROFILE_ATTR_THRESHOLD_MODE", "SAI_BUFFER_PROFILE_THRESHOLD_MODE_DYNAMIC"
            yield "SAI_BUFFER_PROFILE_ATTR_SHARED_DYNAMIC_TH", str((least + 128) % 256 - 128)
        elif field == "static_th":
            yield "SAI_BUFFER_PROFILE_ATTR_THRESHOLD_MODE", "SAI_BUFFER_PROFILE_THRESHOLD_MODE_STATIC"
            yield "SAI_BUFFER_PROFILE_ATTR_SHARED_STATIC_TH", str(unsigned(text, field))
        elif field == "packet_discard_action":
            if text not in actions:
                raise Failed(f"{field} is {shown(text)}, expected drop or trim")
            attribute, prefix = "PACKET_ADMISSION_FAIL_ACTION", "SAI_BUFFER_PROFILE_PACKET_ADMISSION_FAIL_ACTION"
            yield f"SAI_BUFFER_PROFILE_ATTR_{attribute}", f"{prefix}_{actions[text]}"


MANDATORY = {
    "BUFFER_POOL": ("TYPE", "SIZE"),
    "BUFFER_PROFILE": ("POOL_ID", "RESERVED_BUFFER_SIZE", "THRESHOLD_MODE"),
}
"""Attributes (after SAI_<TABLE>_ATTR_) without which SAI creates no such object."""


def creation(table: str, pairs: Attributes) -> dict[str, str]:
    """The attributes of an object to be created.

    Raises:
        Failed: SAI does not create it: an attribute lacks, or is there twice.
    """
    found: dict[str, str] = {}
    for attribute, value in pairs:
        if attribute in found:
            raise Failed("dynamic_th and static_th, expected one of them")
        found[attribute] = value
    for name in MANDATORY.get(table, ()):
        if f"SAI_{table}_ATTR_{name}" not in found:
            words = {"RESERVED_BUFFER_SIZE": "size", "THRESHOLD_MODE": "dynamic_th or static_th", "POOL_ID": "pool"}
            raise Failed(f"lacks {words.get(name, name.lower())}")
    return found


def _check_port(row: Row) -> None:
    for field, text in row.items():
        if field in ("pfc_enable", "pfcwd_sw_enable"):
            port_mask(text, field)


def _check_references(table: str, row: Row) -> None:
    for field in REFERENCES[table]:
        if row.get(field) == "" or (table == "BUFFER_QUEUE" and field not in row):
            raise Failed(f"{field} is {'empty' if field in row else 'missing'}, expected a name")


def _check_wred(row: Row) -> None:
    if colour := wred_crosses(dict(wred(row))):
        raise Refused(f"{colour}_min_threshold is above {colour}_max_threshold")


ATTRIBUTES: Mapping[str, Callable[[Row], Attributes]] = {
    "SCHEDULER": scheduler,
    "WRED_PROFILE": wred,
    "BUFFER_POOL": buffer_pool,
    "BUFFER_PROFILE": buffer_profile,
}


def check(table: str, key: str, row: Row) -> None:
    """Whether orchagent would take this row of CONFIG_DB if nothing stood under its key and all that it names did.

    Raises:
        Malformed: it would not; the message tells the field, the value and what orchagent expects.
    """
    if table in MAPS:
        map_entries(table, row)
    elif table in ("QUEUE", "BUFFER_QUEUE"):
        queue_key(key)
        _check_references(table, row)
    elif table == "PORT_QOS_MAP" and key != "global":
        _check_port(row)
    elif table in ATTRIBUTES:
        creation(table, ATTRIBUTES[table](row))
        if table == "WRED_PROFILE":
            _check_wred(row)


def blocking(table: str, rows: Mapping[str, Row]) -> dict[str, str]:
    """Keys of a CONFIG_DB table whose rows block others, in orchagent's order, each with what is wrong with it."""
    found = {}
    for key in sorted(rows, key=_bytes):
        try:
            check(table, key, rows[key])
        except Blocking as wrong:
            found[key] = str(wrong)
        except Malformed:
            pass
    return found


def waits_behind(table: str, blocker: str, key: str) -> bool:
    """Whether a changed row waits behind a row that blocks: all of BUFFER_QUEUE, which is written at a pass's end, else
    those whose key sorts after it."""
    return key != blocker and (table == "BUFFER_QUEUE" or _bytes(key) > _bytes(blocker))


def _bytes(key: str) -> bytes:
    """A key as redis has it, which need not be UTF-8."""
    return key.encode(errors="surrogateescape")
