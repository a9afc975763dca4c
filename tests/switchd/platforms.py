"""Switches as rows: what SONiC's templates leave, and the intents that are laid over them."""

from dataclasses import replace
from typing import Any

from qclimb.intent import QueueClass, SwitchIntent

from switchd.plan import plan as whole_plan
from switchd.previous import BUFFER_FIELDS, PORT_FIELDS, QUEUE_FIELDS, is_own
from switchd.rows import Change, Merge, Rows, applied


def plan(wanted: SwitchIntent | None, rows: Rows, **more: Any) -> tuple[Change, ...]:
    """All transactions in one: what is in the end."""
    return whole_plan(wanted, rows, **more).changes


def narrow(wanted: SwitchIntent) -> SwitchIntent:
    """The same, with what is free of the buffer at most for each queue but the last."""
    return replace(wanted, classes=(*(replace(one, dynamic_th=0) for one in wanted.classes[:-1]), wanted.classes[-1]))


def classes(*queues: int) -> tuple[QueueClass, ...]:
    return tuple(QueueClass(p, 47 - 4 * p, queue) for p, queue in enumerate(queues))


def intent(*queues: int, generation: int = 1, **more: Any) -> SwitchIntent:
    return SwitchIntent(generation, "enabled", classes(*queues), **more)


BARE: Rows = {"PORT": {"Ethernet0": {"speed": "25000"}, "Ethernet4": {"speed": "25000"}}}
AZURE_TC = {str(d): {3: "3", 4: "4", 5: "2", 8: "0", 46: "5", 48: "6"}.get(d, "1") for d in range(64)}
AZURE: Rows = {
    **BARE,
    "DSCP_TO_TC_MAP": {"AZURE": AZURE_TC},
    "TC_TO_QUEUE_MAP": {"AZURE": {str(n): str(n) for n in range(8)}},
    "SCHEDULER": {"scheduler.0": {"type": "DWRR", "weight": "14"}},
    "WRED_PROFILE": {"AZURE_LOSSLESS": {"ecn": "ecn_all"}},
    "MAP_PFC_PRIORITY_TO_QUEUE": {"AZURE": {str(n): str(n) for n in range(8)}},
    "PORT_QOS_MAP": {
        port: {
            "dscp_to_tc_map": "AZURE",
            "tc_to_queue_map": "AZURE",
            "tc_to_pg_map": "AZURE",
            "pfc_to_queue_map": "AZURE",
            "pfc_enable": "3,4",
        }
        for port in BARE["PORT"]
    },
    "QUEUE": {
        f"{port}|{queue}": {
            "scheduler": "scheduler.0",
            **({"wred_profile": "AZURE_LOSSLESS"} if queue in (3, 4) else {}),
        }
        for port in BARE["PORT"]
        for queue in range(7)
    },
}
FREE = (7, 5, 2, 1, 0)
"""queues of AZURE without PFC and without DSCP 48"""


def queue_of(rows: Rows, port: str, dscp: int) -> str:
    """Where a packet goes, read as orchagent would; TC 0 and queue 0 without a map."""
    refs = rows.get("PORT_QOS_MAP", {}).get(port, {})
    tc = rows.get("DSCP_TO_TC_MAP", {}).get(refs.get("dscp_to_tc_map", ""), {}).get(str(dscp), "0")
    return rows.get("TC_TO_QUEUE_MAP", {}).get(refs.get("tc_to_queue_map", ""), {}).get(tc, "0")


LOSSY = {"pool": "egress_lossy_pool", "size": "1518", "dynamic_th": "3"}
BUFFERED: Rows = {
    **AZURE,
    "BUFFER_PROFILE": {"lossy": LOSSY, "lossless": {"pool": "egress_lossless_pool", "size": "0", "static_th": "9000"}},
    "BUFFER_QUEUE": {
        f"{port}|{queue}": {"profile": "lossless" if queue in (3, 4) else "lossy"}
        for port in BARE["PORT"]
        for queue in range(8)
    },
}


def with_(rows: Rows, table: str, key: str, **fields: str) -> Rows:
    return applied(rows, [Merge(table, key, fields)])


TARGET = {**PORT_FIELDS, **QUEUE_FIELDS, **BUFFER_FIELDS}
REFERRING = ("QUEUE", "BUFFER_QUEUE", "PORT_QOS_MAP")


def dangling(rows: Rows) -> set[str]:
    """References of ours to objects that are not there."""
    return {
        row[field]
        for table in REFERRING
        for row in rows.get(table, {}).values()
        for field, target in TARGET.items()
        if is_own(row.get(field, "")) and row[field] not in rows.get(target, {})
    }
