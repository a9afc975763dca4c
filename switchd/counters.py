"""Queue counters of COUNTERS_DB, added up over ports: what gNMI tells of a class."""

from collections.abc import Collection
from dataclasses import dataclass

from switchd.db import Database
from switchd.rows import Row
from switchd.status import is_number


@dataclass(frozen=True)
class Total:
    """Of one queue number over several ports; None where the platform does not count it."""

    packets: int | None
    bytes: int | None
    dropped_packets: int | None


def totals(db: Database, queues: Collection[int], ports: Collection[str]) -> dict[int, Total]:
    """By queue, over `ports` (all that have queue counters when empty). Raises DatabaseLost."""
    of_queue: dict[int, list[str]] = {queue: [] for queue in queues}
    for name, oid in db.counters("COUNTERS_QUEUE_NAME_MAP").items():
        port, _, number = name.rpartition(":")
        if is_number(number) and int(number) in of_queue and (not ports or port in ports):
            of_queue[int(number)].append(f"COUNTERS:{oid}")
    keys = [key for found in of_queue.values() for key in found]
    row_of = dict(zip(keys, db.many_counters(keys), strict=True))
    return {queue: _total([row_of[key] for key in found]) for queue, found in of_queue.items()}


def rule_totals(db: Database, rules: Collection[str]) -> dict[str, Total]:
    """By ACL rule (`<table>:<rule>`) that orchagent counts. Raises DatabaseLost."""
    oids = db.counters("ACL_COUNTER_RULE_MAP") if rules else {}
    known = [rule for rule in rules if rule in oids]
    rows = db.many_counters([f"COUNTERS:{oids[rule]}" for rule in known])
    of = "SAI_ACL_COUNTER_ATTR_"
    return {
        rule: Total(_sum([row], f"{of}PACKETS"), _sum([row], f"{of}BYTES"), None)
        for rule, row in zip(known, rows, strict=True)
    }


def added(totals_of: Collection[Total]) -> Total | None:
    """Several as one; None where there is none."""
    if not totals_of:
        return None
    return Total(sum(one.packets or 0 for one in totals_of), sum(one.bytes or 0 for one in totals_of), None)


def _total(rows: list[Row]) -> Total:
    return Total(
        _sum(rows, "SAI_QUEUE_STAT_PACKETS"),
        _sum(rows, "SAI_QUEUE_STAT_BYTES"),
        _sum(rows, "SAI_QUEUE_STAT_DROPPED_PACKETS"),
    )


def _sum(rows: list[Row], field: str) -> int | None:
    counted = [int(row[field]) for row in rows if is_number(row.get(field, ""))]  # some platforms say "N/A"
    return sum(counted) if counted else None
