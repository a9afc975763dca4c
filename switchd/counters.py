"""Queue counters of COUNTERS_DB, added up over ports, and over queues: what gNMI tells of a class and of a port."""

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from switchd.db import Database
from switchd.rows import Row
from switchd.status import is_number


@dataclass(frozen=True)
class Total:
    """Of several queues; None where the platform does not count it."""

    packets: int | None
    bytes: int | None
    dropped_packets: int | None


@dataclass(frozen=True)
class Totals:
    """Of some queues of some ports: by queue number over all ports, and by port over all queues."""

    queues: Mapping[int, Total]
    ports: Mapping[str, Total]


def totals(db: Database, queues: Collection[int], ports: Collection[str]) -> Totals:
    """Over `ports` (all that have queue counters when empty). Raises DatabaseLost."""
    of_queue: dict[int, list[Row]] = {queue: [] for queue in queues}
    of_port = defaultdict[str, list[Row]](list)
    for name, row in _rows(db, queues, ports).items():
        of_queue[_queue_of(name)].append(row)
        of_port[name.rpartition(":")[0]].append(row)
    return Totals(
        {queue: _total(rows) for queue, rows in of_queue.items()},
        {port: _total(rows) for port, rows in of_port.items()},
    )


def queue_bytes(db: Database, queues: Collection[int], ports: Collection[str]) -> dict[str, int]:
    """Bytes by `<port>:<queue>`, of those that the platform counts. Raises DatabaseLost."""
    found = {name: _sum([row], "SAI_QUEUE_STAT_BYTES") for name, row in _rows(db, queues, ports).items()}
    return {name: count for name, count in found.items() if count is not None}


def _rows(db: Database, queues: Collection[int], ports: Collection[str]) -> dict[str, Row]:
    """The counters of these queues by `<port>:<queue>`."""
    wanted = set(ports)
    oids = {
        name: f"COUNTERS:{oid}"
        for name, oid in db.counters("COUNTERS_QUEUE_NAME_MAP").items()
        if _queue_of(name) in queues and (not wanted or name.rpartition(":")[0] in wanted)
    }
    return dict(zip(oids, db.many_counters(list(oids.values())), strict=True))


def _queue_of(name: str) -> int:
    """The queue of `<port>:<queue>`; -1 where it names none."""
    number = name.rpartition(":")[2]
    return int(number) if is_number(number) else -1


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
