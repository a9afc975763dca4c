"""Queue counters of COUNTERS_DB, added up over ports: what gNMI tells of a class."""

from collections.abc import Collection
from dataclasses import dataclass

from switchd.db import Database
from switchd.rows import Row


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
        if number.isdecimal() and int(number) in of_queue and (not ports or port in ports):
            of_queue[int(number)].append(f"COUNTERS:{oid}")
    keys = [key for found in of_queue.values() for key in found]
    row_of = dict(zip(keys, db.many_counters(keys), strict=True))
    return {queue: _total([row_of[key] for key in found]) for queue, found in of_queue.items()}


def _total(rows: list[Row]) -> Total:
    return Total(
        _sum(rows, "SAI_QUEUE_STAT_PACKETS"),
        _sum(rows, "SAI_QUEUE_STAT_BYTES"),
        _sum(rows, "SAI_QUEUE_STAT_DROPPED_PACKETS"),
    )


def _sum(rows: list[Row], field: str) -> int | None:
    counted = [int(row[field]) for row in rows if row.get(field, "").isdecimal()]  # some platforms say "N/A"
    return sum(counted) if counted else None
