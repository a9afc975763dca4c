"""QoS maps, schedulers, ECN profiles, and the ports and queues that name them (`qosorch`)."""

from __future__ import annotations

import json

from qclimb.orchagent import (
    MAPS,
    PORT_MAPS,
    REFERENCES,
    Failed,
    Refused,
    map_entries,
    port_mask,
    queue_key,
    scheduler,
    tokens,
    wred,
    wred_crosses,
)

from lab.control.vasic.machine.ports import PortsOrch
from lab.control.vasic.machine.sai import NULL, QUEUES, SWITCH, InUse, Port, Sai
from lab.control.vasic.machine.waiting import Orch, References, Retry, Task

PORT_ATTRIBUTE = "SAI_PORT_ATTR_"
PFC = "SAI_PORT_ATTR_PRIORITY_FLOW_CONTROL"
SWITCH_MAP = "SAI_SWITCH_ATTR_QOS_DSCP_TO_TC_MAP"
SCHEDULER_OF_GROUP = "SAI_SCHEDULER_GROUP_ATTR_SCHEDULER_PROFILE_ID"
WRED_OF_QUEUE = "SAI_QUEUE_ATTR_WRED_PROFILE_ID"
MAP_LIST = "SAI_QOS_MAP_ATTR_MAP_TO_VALUE_LIST"
MEMBERS = ("dot1p", "dscp", "fc", "mpls_exp", "pg", "prio", "qidx", "tc")


def map_list(table: str, entries: list[tuple[int, int]]) -> str:
    """The entries of a QoS map as ASIC_DB has them."""
    rule = MAPS[table]
    blank: dict[str, int | str] = {"color": "SAI_PACKET_COLOR_GREEN", **dict.fromkeys(MEMBERS, 0)}
    listed = [{"key": {**blank, rule.key: key}, "value": {**blank, rule.value: value}} for key, value in entries]
    return json.dumps({"count": len(listed), "list": listed}, separators=(",", ":"))


class QosOrch(Orch):
    """CONFIG_DB's QoS tables."""

    tables = (*sorted([*MAPS, "SCHEDULER", "WRED_PROFILE"]), "PORT_QOS_MAP", "QUEUE")
    config_tables = frozenset(tables)

    def __init__(self, sai: Sai, ports: PortsOrch) -> None:
        super().__init__(sai)
        self._ports = ports
        self.references = References()
        self._thresholds: dict[str, dict[str, str]] = {}
        """of each ECN profile that ever was, by its name"""

    def ready(self) -> bool:
        """Not before the first ports."""
        return self._ports.is_ready

    def take(self, table: str, task: Task) -> None:
        """A row."""
        if table == "PORT_QOS_MAP":
            self._global_map(task) if task.key == "global" else self._port_maps(task)
        elif table == "QUEUE":
            self._queues(task)
        else:
            self._object(table, task)

    def _object(self, table: str, task: Task) -> None:
        standing = self.references.find(table, task.key)
        if standing is not None and standing.is_parked and task.op == "SET":
            raise Retry
        kind = "QOS_MAP" if table in MAPS else table.removesuffix("_PROFILE")
        if task.op == "DEL":
            if standing is None:
                raise Refused(f"{table}|{task.key} has no object")
            self.references.park_if_named(table, task.key)
            try:
                self.sai.remove(kind, standing.oid)
            except InUse as used:
                raise (Retry if table == "SCHEDULER" else Failed)(str(used)) from None
            self.references.drop(table, task.key)
            return
        attributes = self._attributes(table, task)
        if standing is None:
            self.references.add(table, task.key, self.sai.create(kind, _created(table, attributes)))
            return
        for attribute, value in attributes.items():
            self.sai.set(kind, standing.oid, attribute, value)

    def _attributes(self, table: str, task: Task) -> dict[str, str]:
        if table in MAPS:
            return {MAP_LIST: map_list(table, map_entries(table, task.row))}
        if table == "SCHEDULER":
            return dict(scheduler(task.row))
        attributes = dict(wred(task.row))
        thresholds = {
            **self._thresholds.get(task.key, {}),
            **{name: value for name, value in attributes.items() if name.endswith("_THRESHOLD")},
        }
        if wred_crosses(thresholds):
            raise Refused("a least threshold is above its largest")
        self._thresholds[task.key] = thresholds
        return attributes

    def _global_map(self, task: Task) -> None:
        field, at = "dscp_to_tc_map", ("PORT_QOS_MAP", "global")
        if task.op == "DEL":
            if self.references.has(*at, field):
                self.sai.set("SWITCH", SWITCH, SWITCH_MAP, NULL)
                self.references.drop(*at)
        elif field in task.row:
            oid = self.references.resolve("DSCP_TO_TC_MAP", task.row[field])
            if not oid:
                raise Retry
            self.sai.set("SWITCH", SWITCH, SWITCH_MAP, oid)
            self.references.refer(*at, field, ("DSCP_TO_TC_MAP", task.row[field]))

    def _port_maps(self, task: Task) -> None:
        at = ("PORT_QOS_MAP", task.key)
        if task.op == "DEL":
            gone = [attribute for field, (_, attribute) in PORT_MAPS.items() if self.references.has(*at, field)]
            for port in self._ports_of(task.key):
                for attribute in gone:
                    self.sai.set("PORT", port.oid, PORT_ATTRIBUTE + attribute, NULL)
                self.sai.set("PORT", port.oid, PFC, "0")
            self.references.drop(*at)
            return
        bound, mask = {}, 0
        for field, text in task.row.items():
            if field in PORT_MAPS:
                table, attribute = PORT_MAPS[field]
                oid = self.references.resolve(table, text)
                if not oid:
                    raise Retry
                bound[attribute] = oid
                self.references.refer(*at, field, (table, text))
            elif field in ("pfc_enable", "pfcwd_sw_enable"):
                found = port_mask(text, field)
                mask = found if field == "pfc_enable" else mask
        for field, (_, attribute) in PORT_MAPS.items():
            if attribute not in bound and self.references.has(*at, field):
                self.references.unrefer(*at, field)
                bound[attribute] = NULL
        for port in self._ports_of(task.key):
            for attribute, oid in bound.items():
                self.sai.set("PORT", port.oid, PORT_ATTRIBUTE + attribute, oid)
            if mask or self.sai.objects["PORT"][port.oid].get(PFC, "0") != "0":
                self.sai.set("PORT", port.oid, PFC, str(mask))

    def _ports_of(self, names: str) -> list[Port]:
        """Those of a list that are there."""
        found = (self._ports.port(name) for name in tokens(names, ","))
        return [port for port in found if port is not None]

    def _queues(self, task: Task) -> None:
        names, least, largest = queue_key(task.key)
        bound: dict[str, str] = {}
        at = ("QUEUE", task.key)
        if task.op == "DEL":
            self.references.drop(*at)
            bound = dict.fromkeys(REFERENCES["QUEUE"], NULL)
        else:
            for field, table in REFERENCES["QUEUE"].items():
                if field in task.row:
                    oid = self.references.resolve(table, task.row[field])
                    if not oid:
                        raise Failed(f"{field} is empty")
                    self.references.refer(*at, field, (table, task.row[field]))
                    bound[field] = oid
                elif self.references.has(*at, field):
                    self.references.unrefer(*at, field)
                    bound[field] = NULL
        for name in names:
            port = self._ports.port(name)
            if port is None:
                raise Refused(f"no port {name}")
            for queue in range(least, largest + 1) if bound else ():
                if queue >= QUEUES:
                    raise Failed(f"{name} has no queue {queue}")
                if "scheduler" in bound:
                    self.sai.set("SCHEDULER_GROUP", port.groups[queue], SCHEDULER_OF_GROUP, bound["scheduler"])
                if "wred_profile" in bound:
                    self.sai.set("QUEUE", port.queues[queue], WRED_OF_QUEUE, bound["wred_profile"])


def _created(table: str, attributes: dict[str, str]) -> dict[str, str]:
    if table in MAPS:
        return {"SAI_QOS_MAP_ATTR_TYPE": f"SAI_QOS_MAP_TYPE_{MAPS[table].sai_type}", **attributes}
    if table == "SCHEDULER":
        return attributes
    created = {"SAI_WRED_ATTR_WEIGHT": "0", **attributes}
    for colour in ("GREEN", "YELLOW", "RED"):
        if attributes.get(f"SAI_WRED_ATTR_{colour}_ENABLE") == "true":
            created.setdefault(f"SAI_WRED_ATTR_{colour}_DROP_PROBABILITY", "100")
    return created
