"""What stands in the ASIC, told as the recorded cases tell it: by effect, without ids."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from lab.control.vasic.machine.buffers import OF_QUEUE
from lab.control.vasic.machine.machine import Machine
from lab.control.vasic.machine.qos import MAP_LIST, PFC, PORT_ATTRIBUTE, SCHEDULER_OF_GROUP, SWITCH_MAP, WRED_OF_QUEUE
from lab.control.vasic.machine.sai import NULL, SWITCH, Port

Told = dict[str, Any]
MAPS_TOLD = {"dscp_to_tc": ("QOS_DSCP_TO_TC_MAP", "dscp", "tc"), "tc_to_queue": ("QOS_TC_TO_QUEUE_MAP", "tc", "qidx")}
SCHEDULER_TOLD: dict[str, tuple[str, Callable[[str], Any]]] = {
    "type": ("SCHEDULING_TYPE", lambda text: text.removeprefix("SAI_SCHEDULING_TYPE_")),
    "weight": ("SCHEDULING_WEIGHT", int),
    "pir_bytes_per_s": ("MAX_BANDWIDTH_RATE", int),
}
COLOURS = ("green", "yellow", "red")


class Seen:
    """Reads a machine."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._objects = machine.sai.objects
        self._names = {link.oid: name for name, link in machine.ports.links.items()}

    def all(self) -> Told:
        """Everything that a step of a case tells, but the calls; what is empty is left out."""
        told = {
            "ports": self.ports(),
            "switch": self.map_at("dscp_to_tc", self._objects["SWITCH"][SWITCH].get(SWITCH_MAP)),
            "acl": self.acl(),
            "routes": self.routes(),
            "groups": sorted(self.group(oid) for oid in self._objects["NEXT_HOP_GROUP"]),
            "pending": sorted(self._machine.pending()),
            "state_db": dict(self._machine.state_db),
        }
        return {name: value for name, value in told.items() if value}

    def ports(self) -> Told:
        """Per port what is bound."""
        found = {name: self.port(link.parts) for name, link in self._machine.ports.links.items() if link.parts}
        return {name: told for name, told in found.items() if told}

    def port(self, port: Port) -> Told:
        """One port."""
        row = self._objects["PORT"][port.oid]
        told: Told = {}
        for name, (attribute, _, _) in MAPS_TOLD.items():
            told |= self.map_at(name, row.get(PORT_ATTRIBUTE + attribute))
        if mask := int(row.get(PFC, "0")):
            told["pfc_mask"] = mask
        queues = {str(index): self.queue(port, index) for index in range(len(port.queues))}
        if queues := {index: queue for index, queue in queues.items() if queue}:
            told["queues"] = queues
        return told

    def map_at(self, name: str, oid: str | None) -> Told:
        """The map that is bound, under its name."""
        if oid in (None, NULL):
            return {}
        return {name: dict(_map(self._objects["QOS_MAP"][str(oid)][MAP_LIST], name))}

    def queue(self, port: Port, index: int) -> Told:
        """One queue."""
        told: Told = {}
        scheduler = self._objects["SCHEDULER_GROUP"][port.groups[index]].get(SCHEDULER_OF_GROUP, NULL)
        row = self._objects["QUEUE"][port.queues[index]]
        if scheduler != NULL:
            attributes = self._objects["SCHEDULER"][scheduler]
            told["scheduler"] = {
                name: read(attributes[f"SAI_SCHEDULER_ATTR_{attribute}"])
                for name, (attribute, read) in SCHEDULER_TOLD.items()
                if f"SAI_SCHEDULER_ATTR_{attribute}" in attributes
            }
        if (wred := row.get(WRED_OF_QUEUE, NULL)) != NULL:
            told["wred"] = _wred(self._objects["WRED"][wred])
        if OF_QUEUE in row:
            told["buffer"] = None if row[OF_QUEUE] == NULL else _buffer(self._objects["BUFFER_PROFILE"][row[OF_QUEUE]])
        return told

    def target(self, oid: str) -> str:
        """A port, LAG, next hop or group by what it is."""
        if oid in self._objects["LAG"]:
            return "LAG"
        if oid in self._objects["NEXT_HOP_GROUP"]:
            return self.group(oid)
        return self._names.get(oid) or self._machine.next_hops.name_of(oid) or oid

    def group(self, oid: str) -> str:
        """A next-hop group by its members, and the weights that were given."""
        members = []
        for row in self._objects["NEXT_HOP_GROUP_MEMBER"].values():
            if row["SAI_NEXT_HOP_GROUP_MEMBER_ATTR_NEXT_HOP_GROUP_ID"] == oid:
                weight = row.get("SAI_NEXT_HOP_GROUP_MEMBER_ATTR_WEIGHT")
                name = self.target(row["SAI_NEXT_HOP_GROUP_MEMBER_ATTR_NEXT_HOP_ID"])
                members.append(name + (f" x{weight}" if weight else ""))
        return "group:" + ",".join(sorted(members))

    def routes(self) -> Told:
        """Prefix -> target, without those that drop from the start."""
        return dict(sorted(self._routes()))

    def _routes(self) -> Iterator[tuple[str, str]]:
        for key, row in self._objects["ROUTE_ENTRY"].items():
            prefix = json.loads(key)["dest"]
            drops = row.get("SAI_ROUTE_ENTRY_ATTR_PACKET_ACTION") == "SAI_PACKET_ACTION_DROP"
            if not (drops and prefix in ("0.0.0.0/0", "::/0")):
                yield prefix, "drop" if drops else self.target(row["SAI_ROUTE_ENTRY_ATTR_NEXT_HOP_ID"])

    def acl(self) -> list[Told]:
        """ACL entries, largest priority first."""
        rows = self._objects["ACL_ENTRY"].values()
        return sorted((self.entry(row) for row in rows), key=lambda told: -int(told["priority"]))

    def entry(self, row: Mapping[str, str]) -> Told:
        """One ACL entry."""
        told: Told = {"priority": int(row["SAI_ACL_ENTRY_ATTR_PRIORITY"])}
        for attribute, value in row.items():
            name = attribute.removeprefix("SAI_ACL_ENTRY_ATTR_")
            if name == "ACTION_COUNTER":
                told["counter"] = True
            elif name == "ACTION_REDIRECT":
                told["redirect"] = self.target(value)
            elif name == "ACTION_PACKET_ACTION":
                told["packet_action"] = value.removeprefix("SAI_PACKET_ACTION_")
            elif name.startswith("ACTION_"):
                told[name.removeprefix("ACTION_").lower()] = value
            elif name in ("FIELD_IN_PORTS", "FIELD_OUT_PORTS"):
                oids = value.partition(":")[2].split(",")
                told[name.removeprefix("FIELD_")] = [self._names.get(oid, oid) for oid in oids]
            elif name.startswith("FIELD_"):
                told[name.removeprefix("FIELD_")] = value.replace("&mask:", "/")
        return told


@lru_cache(maxsize=256)
def _map(listed: str, name: str) -> Told:
    _, key, value = MAPS_TOLD[name]
    return {str(entry["key"][key]): entry["value"][value] for entry in json.loads(listed)["list"]}


def _wred(row: Mapping[str, str]) -> Told:
    told: Told = {}
    if mode := row.get("SAI_WRED_ATTR_ECN_MARK_MODE"):
        told["ecn"] = mode.removeprefix("SAI_ECN_MARK_MODE_")
    for colour in COLOURS:
        of = f"SAI_WRED_ATTR_{colour.upper()}_"
        if row.get(of + "ENABLE") == "true":
            ends = [int(row.get(of + name, "0")) for name in ("MIN_THRESHOLD", "MAX_THRESHOLD")]
            told[colour] = [*ends, int(row.get(of + "DROP_PROBABILITY", "100"))]
    return told


def _buffer(row: Mapping[str, str]) -> Told:
    of = "SAI_BUFFER_PROFILE_ATTR_"
    return {
        "mode": row[of + "THRESHOLD_MODE"].removeprefix("SAI_BUFFER_PROFILE_THRESHOLD_MODE_"),
        "dynamic_th": int(row.get(of + "SHARED_DYNAMIC_TH", "0")),
        "reserved_bytes": int(row[of + "RESERVED_BUFFER_SIZE"]),
    }
