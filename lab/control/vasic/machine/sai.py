"""The ASIC as SAI has it: objects with attributes, both as ASIC_DB spells them. It knows nothing of rows.

Like SAI's own checks (sonic-sairedis `Meta`) it refuses to remove an object that another one names.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

NULL = "oid:0x0"
TYPES = {
    **{"PORT": 1, "LAG": 2, "VIRTUAL_ROUTER": 3, "NEXT_HOP": 4, "NEXT_HOP_GROUP": 5, "ROUTER_INTERFACE": 6},
    **{"ACL_TABLE": 7, "ACL_ENTRY": 8, "ACL_COUNTER": 9, "ACL_RANGE": 10, "ACL_TABLE_GROUP": 11},
    **{"ACL_TABLE_GROUP_MEMBER": 12, "WRED": 19, "QOS_MAP": 20, "QUEUE": 21, "SCHEDULER": 22, "SCHEDULER_GROUP": 23},
    **{"BUFFER_POOL": 24, "BUFFER_PROFILE": 25, "INGRESS_PRIORITY_GROUP": 26, "LAG_MEMBER": 27, "SWITCH": 33},
    "NEXT_HOP_GROUP_MEMBER": 45,
}
"""SAI's object types by number, the first octet of an object's id"""

QUEUES = 8
SWITCH, ROUTER = "oid:0x21000000000000", "oid:0x3000000000001"
NAMES = re.compile("oid:0x[0-9a-f]+")


class InUse(Exception):
    """An object is not removed: another names it (SAI_STATUS_OBJECT_IN_USE)."""


@dataclass(frozen=True)
class Port:
    """Ids of what a port has from the start; by queue index."""

    oid: str
    queues: tuple[str, ...]
    groups: tuple[str, ...]
    priority_groups: tuple[str, ...]


class Sai:
    """Objects by type and id, and the calls in their order.

    changed  (type, id) of what differs since somebody emptied it
    """

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, dict[str, str]]] = {kind: {} for kind in TYPES}
        self.objects |= {"NEIGHBOR_ENTRY": {}, "ROUTE_ENTRY": {}}
        self.calls: list[str] = []
        self.changed: set[tuple[str, str]] = set()
        self._named: Counter[str] = Counter()
        self._next: Counter[str] = Counter()
        self._given("SWITCH", SWITCH)
        self._given("VIRTUAL_ROUTER", ROUTER)

    def _given(self, kind: str, oid: str) -> str:
        self.objects[kind][oid] = {}
        self.changed.add((kind, oid))
        return oid

    def _fresh(self, kind: str) -> str:
        self._next[kind] += 1
        return f"oid:0x{TYPES[kind]:x}{self._next[kind]:012x}"

    def add_port(self) -> Port:
        """A port with its queues, scheduler groups and priority groups."""
        return Port(
            self._given("PORT", self._fresh("PORT")),
            *(
                tuple(self._given(kind, self._fresh(kind)) for _ in range(QUEUES))
                for kind in ("QUEUE", "SCHEDULER_GROUP", "INGRESS_PRIORITY_GROUP")
            ),
        )

    def remove_port(self, port: Port) -> None:
        """The port with all that it had."""
        for kind, oids in (
            ("PORT", (port.oid,)),
            ("QUEUE", port.queues),
            ("SCHEDULER_GROUP", port.groups),
            ("INGRESS_PRIORITY_GROUP", port.priority_groups),
        ):
            for oid in oids:
                self._forget(kind, oid)

    def create(self, kind: str, attributes: Mapping[str, str], entry: str = "", bulk: bool = False) -> str:
        """A new object; `entry`: the key of one that has no id. Answers its id."""
        oid = entry or self._fresh(kind)
        self.objects[kind][oid] = dict(attributes)
        self._named.update(_names(attributes.values()))
        self._called(bulk, f"create {kind}", (kind, oid))
        return oid

    def set(self, kind: str, oid: str, attribute: str, value: str, bulk: bool = False) -> None:
        """One attribute of a standing object."""
        row = self.objects[kind][oid]
        self._named.subtract(_names([row.get(attribute, "")]))
        row[attribute] = value
        self._named.update(_names([value]))
        self._called(bulk, f"set {kind}" + (" null" if value == NULL else ""), (kind, oid))

    def remove(self, kind: str, oid: str, bulk: bool = False) -> None:
        """A standing object.

        Raises:
            InUse: another one names it.
        """
        if self._named[oid] > 0:
            raise InUse(f"{kind} {oid} is named by another object")
        self._forget(kind, oid)
        self._called(bulk, f"remove {kind}", (kind, oid))

    def _forget(self, kind: str, oid: str) -> None:
        self._named.subtract(_names(self.objects[kind].pop(oid).values()))
        self.changed.add((kind, oid))

    def _called(self, bulk: bool, call: str, changed: tuple[str, str]) -> None:
        self.calls.append(f"bulk-{call}" if bulk else call)
        self.changed.add(changed)


def _names(values: Iterable[str]) -> list[str]:
    return [oid for value in values for oid in NAMES.findall(value) if oid != NULL]
