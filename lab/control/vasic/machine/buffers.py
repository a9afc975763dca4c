"""Buffer pools, profiles, and the queues and priority groups that name them (`bufferorch`, `buffermgr`'s static model).

Queues and priority groups are set in bulk when a pass over their table ends, deletions first: a row that ends the pass
holds all of them back.
"""

from __future__ import annotations

from collections.abc import Iterable

from qclimb.orchagent import Failed, Refused, buffer_pool, buffer_profile, creation, queue_key

from lab.control.vasic.machine.ports import PortsOrch
from lab.control.vasic.machine.sai import NULL, QUEUES, InUse, Sai
from lab.control.vasic.machine.waiting import Orch, References, Retry, Task, Waiting

COPIED = ("BUFFER_POOL", "BUFFER_PROFILE", "BUFFER_PG", "BUFFER_QUEUE")
"""Tables of CONFIG_DB that buffermgr copies to APPL_DB, where each is `<name>_TABLE`."""
OF_QUEUE = "SAI_QUEUE_ATTR_BUFFER_PROFILE_ID"
BOUND = {
    "BUFFER_PG_TABLE": ("INGRESS_PRIORITY_GROUP", "SAI_INGRESS_PRIORITY_GROUP_ATTR_BUFFER_PROFILE"),
    "BUFFER_QUEUE_TABLE": ("QUEUE", OF_QUEUE),
}
POOL_OF_PROFILE = "SAI_BUFFER_PROFILE_ATTR_POOL_ID"
MODE_OF_PROFILE = "SAI_BUFFER_PROFILE_ATTR_THRESHOLD_MODE"
CREATE_ONLY = {"SAI_BUFFER_POOL_ATTR_TYPE", "SAI_BUFFER_POOL_ATTR_THRESHOLD_MODE", POOL_OF_PROFILE, MODE_OF_PROFILE}


def copied(tasks: Iterable[Task]) -> list[Task]:
    """What orchagent pops of APPL_DB when buffermgr has copied these rows: a deletion and a row are one clean row."""
    waiting = Waiting()
    for task in tasks:
        waiting.add(task)
    last = {task.key: task for task in waiting.in_order()}
    return [Task(task.op, key.replace("|", ":"), task.row) for key, task in last.items()]


class BufferOrch(Orch):
    """APPL_DB's buffer tables."""

    tables = ("BUFFER_POOL_TABLE", "BUFFER_PROFILE_TABLE", "BUFFER_PG_TABLE", "BUFFER_QUEUE_TABLE")

    def __init__(self, sai: Sai, ports: PortsOrch) -> None:
        super().__init__(sai)
        self._ports = ports
        self.references = References()
        self._bulk: dict[str, list[tuple[str, str, str]]] = {"DEL": [], "SET": []}

    def ready(self) -> bool:
        """Not before the first ports."""
        return self._ports.is_ready

    def take(self, table: str, task: Task) -> None:
        """A row."""
        if table in BOUND:
            self._bound(table, task)
        else:
            self._object(table, task)

    def _object(self, table: str, task: Task) -> None:
        kind = table.removesuffix("_TABLE")
        standing = self.references.find(table, task.key)
        if task.op == "DEL":
            self.references.park_if_named(table, task.key)
            if standing is not None:
                try:
                    self.sai.remove(kind, standing.oid)
                except InUse:
                    raise Retry from None
                self.references.drop(table, task.key)
            return
        if standing is not None and standing.is_parked:
            raise Retry
        found = []
        for attribute, value in (buffer_pool if kind == "BUFFER_POOL" else buffer_profile)(task.row):
            if attribute == POOL_OF_PROFILE:
                value = self.references.resolve("BUFFER_POOL_TABLE", value)
            if standing is None or attribute not in CREATE_ONLY:
                found.append((attribute, value))
        if standing is None:
            self.references.add(table, task.key, self.sai.create(kind, creation(kind, iter(found))))
        else:
            for attribute, value in found:
                self.sai.set(kind, standing.oid, attribute, value)
        if kind == "BUFFER_PROFILE":
            pool = task.row.get("pool")
            self.references.refer(table, task.key, "pool", ("BUFFER_POOL_TABLE", pool) if pool else None)

    def _bound(self, table: str, task: Task) -> None:
        kind, _ = BOUND[table]
        names, least, largest = queue_key(task.key, ":")
        oid, is_named = NULL, self.references.has(table, task.key, "profile")
        if task.op == "DEL":
            self.references.drop(table, task.key)
        else:
            profile = task.row.get("profile", "")
            oid = self.references.resolve("BUFFER_PROFILE_TABLE", profile)
            if not oid:
                raise Failed("profile is missing or empty")
            target = ("BUFFER_PROFILE_TABLE", profile)
            if is_named and self.references.named(table, task.key, "profile") == target:
                return
            self.references.refer(table, task.key, "profile", target)
        bulk = []
        for name in names:
            port = self._ports.port(name)
            if port is None:
                raise Refused(f"no port {name}")
            if largest >= QUEUES:
                raise Refused(f"{name} has no queue or priority group {largest}")
            oids = port.queues if kind == "QUEUE" else port.priority_groups
            bulk += [(kind, each, oid) for each in oids[least : largest + 1]]
        if task.op == "SET" or is_named:
            self._bulk[task.op] += bulk

    def finish(self, table: str) -> None:
        """What the pass bound, deletions first."""
        if table not in BOUND:
            return
        kind, attribute = BOUND[table]
        for op in ("DEL", "SET"):
            for each, oid, value in self._bulk[op]:
                if each == kind:
                    self.sai.set(kind, oid, attribute, value, bulk=True)
            self._bulk[op] = [entry for entry in self._bulk[op] if entry[0] != kind]
