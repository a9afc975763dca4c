"""Reads from ASIC_DB and COUNTERS_DB what `seen` compares: the objects of some ports, by name maps and object ids.

A real ASIC_DB holds every route: it is searched for scheduler groups alone, in steps, and only once in a while.
"""

from collections.abc import Collection, Iterable

from switchd.db import ASIC, COUNTERS, Database
from switchd.ports import RowsNow, numbers_in
from switchd.previous import FIELDS, is_own
from switchd.rows import Row
from switchd.seen import ATTRIBUTE, GROUP_ATTRIBUTE, KIND, NO_OBJECT, Asic

PREFIX = "ASIC_STATE:SAI_OBJECT_TYPE_"


class Readback:
    """Remembers the scheduler groups: they come and go with ports."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._groups: list[str] = []
        self._grouped: Row = {}
        """the ports of that moment, by name"""

    def read(self, rows: RowsNow, ports: Collection[str], has_queues: bool, is_anew: bool = False) -> Asic:
        """What the ASIC has at these ports. Raises DatabaseLost.

        has_queues  QUEUE rows were changed: look at the schedulers, too
        is_anew     search for scheduler groups again, as where ports have changed
        """
        names = self._db.hashes(COUNTERS, ["COUNTERS_PORT_NAME_MAP", "COUNTERS_QUEUE_NAME_MAP"])
        port_oids, queue_oids = names
        if not port_oids:
            return Asic({}, {}, {})
        objects: dict[str, Row] = {}
        self._add(objects, "PORT", [port_oids[port] for port in ports if port in port_oids])
        queues = {name for name in _queues(rows, ports) if name in queue_oids}
        self._add(objects, "QUEUE", [queue_oids[name] for name in sorted(queues)])
        for fields in FIELDS.values():
            for field, target in fields.items():
                attribute = ATTRIBUTE.get(field, "")
                bound = {row[attribute] for row in objects.values() if attribute in row}
                self._add(objects, KIND[target], bound - {NO_OBJECT})
        if is_anew or port_oids != self._grouped:
            self._groups, self._grouped = [], port_oids
        groups = self._read_groups(objects) if has_queues or is_anew else None
        return Asic(port_oids, queue_oids, objects, groups)

    def _read_groups(self, objects: dict[str, Row]) -> dict[str, Row]:
        if not self._groups:
            self._groups = sorted(set(self._db.scan(ASIC, f"{PREFIX}SCHEDULER_GROUP:*")))
        groups = dict(zip(self._groups, self._db.hashes(ASIC, self._groups), strict=True))
        self._add(objects, "SCHEDULER", {row.get(GROUP_ATTRIBUTE, NO_OBJECT) for row in groups.values()} - {NO_OBJECT})
        return groups

    def _add(self, objects: dict[str, Row], kind: str, oids: Iterable[str]) -> None:
        missing = [oid for oid in oids if oid not in objects]
        found = self._db.hashes(ASIC, [f"{PREFIX}{kind}:{oid}" for oid in missing])
        objects.update(zip(missing, found, strict=True))


def _queues(rows: RowsNow, ports: Collection[str]) -> set[str]:
    """Names of the queues in whose rows we refer to something."""
    return {
        f"{port}:{queue}"
        for table in ("QUEUE", "BUFFER_QUEUE")
        for key, row in rows.get(table, {}).items()
        for port, _, span in (key.partition("|"),)
        if port in ports and any(is_own(row.get(field, "")) for field in FIELDS[table])
        for queue in numbers_in(span) or ()
    }
