"""The ASIC's objects -> what each port's queues do. Pure.

A DSCP without an entry has traffic class 0; a traffic class without one, and every one of a port without maps, goes to
queue 0. STRICT queues are served before all others, the larger index first; the others (DWRR, WRR, no scheduler) share
what is left by weight. What orchagent takes and these queues can't do (weight 0, a static threshold) is left out, and
said.

This ASIC has no buffer common to its ports: a BUFFER_POOL's size is what each port has.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from lab.control.vasic.machine.buffers import OF_QUEUE, POOL_OF_PROFILE
from lab.control.vasic.machine.machine import Machine
from lab.control.vasic.machine.qos import (
    MAP_LIST,
    PORT_ATTRIBUTE,
    SCHEDULER_OF_GROUP,
    SWITCH_MAP,
    WRED_OF_QUEUE,
)
from lab.control.vasic.machine.sai import NULL, SWITCH, Port
from lab.fabric.queues import DSCPS, FULL_PACKET_BYTES, Buffer, Ecn, QueueProgram, Service
from lab.fabric.topology import QUEUES

T = TypeVar("T")
Objects = Mapping[str, Mapping[str, Mapping[str, str]]]

DEFAULT_BUFFER = Buffer(64 * FULL_PACKET_BYTES)
"""Of a port that no BUFFER_QUEUE row speaks of."""
GREEN_ECN = {f"SAI_ECN_MARK_MODE_{name}" for name in ("GREEN", "GREEN_YELLOW", "GREEN_RED", "ALL")}


@dataclass(frozen=True)
class PortProgram:
    """All that the ASIC does at one port; `speed_bps` from PORT, in wire bits."""

    speed_bps: int
    queues: QueueProgram
    buffer: Buffer


@dataclass
class Programs:
    """Programs by port, and a sentence for each thing that the queues can't do."""

    ports: dict[str, PortProgram] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def programs(machine: Machine, port_rows: Mapping[str, Mapping[str, str]]) -> Programs:
    """Every port; `port_rows`: the table PORT."""
    out = Programs()
    for name, link in machine.ports.links.items():
        if link.parts is None or name not in port_rows:
            continue
        speed = port_rows[name].get("speed", "")
        if not speed.isdigit() or int(speed) == 0:
            out.problems.append(f"PORT|{name}: speed is {speed!r}, expected Mb/s")
            continue
        out.ports[name] = _Reader(name, machine.sai.objects, link.parts, out.problems).program(int(speed) * 1_000_000)
    return out


@dataclass(frozen=True)
class _Reader:
    """Reads one port's objects."""

    name: str
    objects: Objects
    port: Port
    problems: list[str]

    def program(self, speed_bps: int) -> PortProgram:
        """What the port does."""
        services = tuple(self.tried(queue, self.service, Service()) for queue in range(QUEUES))
        marked = {queue: self.tried(queue, self.ecn, None) for queue in range(QUEUES)}
        ecn = {queue: found for queue, found in marked.items() if found is not None}
        return PortProgram(speed_bps, QueueProgram(self.classified(), services, ecn), self.buffer())

    def tried(self, queue: int, read: Callable[[int], T], otherwise: T) -> T:
        """What is read, or `otherwise` where these queues can't do it."""
        try:
            return read(queue)
        except ValueError as wrong:
            self.problems.append(f"{self.name} queue {queue}: not programmed: {wrong}")
            return otherwise

    def entries(self, oid: str, key: str, value: str) -> dict[int, int]:
        """A bound map; none: empty."""
        if oid == NULL:
            return {}
        listed = json.loads(self.objects["QOS_MAP"][oid][MAP_LIST])["list"]
        return {entry["key"][key]: entry["value"][value] for entry in listed}

    def classified(self) -> tuple[int, ...]:
        """Queue of each DSCP."""
        row = self.objects["PORT"][self.port.oid]
        own, everywhere = row.get(PORT_ATTRIBUTE + "QOS_DSCP_TO_TC_MAP", NULL), self.objects["SWITCH"][SWITCH]
        tc_of = self.entries(own if own != NULL else everywhere.get(SWITCH_MAP, NULL), "dscp", "tc")
        queue_of = self.entries(row.get(PORT_ATTRIBUTE + "QOS_TC_TO_QUEUE_MAP", NULL), "tc", "qidx")
        for tc, queue in queue_of.items():
            if queue >= QUEUES:
                self.problems.append(f"{self.name}: traffic class {tc} -> queue {queue}, expected 0..{QUEUES - 1}")
        found = (queue_of.get(tc_of.get(dscp, 0), 0) for dscp in range(DSCPS))
        return tuple(queue if queue < QUEUES else 0 for queue in found)

    def service(self, queue: int) -> Service:
        """How a queue is served."""
        oid = self.objects["SCHEDULER_GROUP"][self.port.groups[queue]].get(SCHEDULER_OF_GROUP, NULL)
        row = self.objects["SCHEDULER"].get(oid, {})
        rate = int(row.get("SAI_SCHEDULER_ATTR_MAX_BANDWIDTH_RATE", "0"))
        if row.get("SAI_SCHEDULER_ATTR_SCHEDULING_TYPE") == "SAI_SCHEDULING_TYPE_STRICT":
            return Service(strict=True, pir_bytes_per_s=rate)
        return Service(weight=int(row.get("SAI_SCHEDULER_ATTR_SCHEDULING_WEIGHT", "1")), pir_bytes_per_s=rate)

    def ecn(self, queue: int) -> Ecn | None:
        """Green only: every packet of the fabric is green, for nothing polices it."""
        oid = self.objects["QUEUE"][self.port.queues[queue]].get(WRED_OF_QUEUE, NULL)
        row = self.objects["WRED"].get(oid, {})
        is_on = row.get("SAI_WRED_ATTR_GREEN_ENABLE") == "true"
        if not is_on or row.get("SAI_WRED_ATTR_ECN_MARK_MODE") not in GREEN_ECN:
            return None
        of = "SAI_WRED_ATTR_GREEN_"
        least, most = int(row.get(of + "MIN_THRESHOLD", "0")), int(row.get(of + "MAX_THRESHOLD", "0"))
        return Ecn(least, most, int(row.get(of + "DROP_PROBABILITY", "100")))

    def buffer(self) -> Buffer:
        """The port's buffer and its queues' shares."""
        total = 0
        reserved, thresholds = [0] * QUEUES, [DEFAULT_BUFFER.dynamic_th[0]] * QUEUES
        for queue in range(QUEUES):
            oid = self.objects["QUEUE"][self.port.queues[queue]].get(OF_QUEUE, NULL)
            if oid == NULL:
                continue
            row = self.objects["BUFFER_PROFILE"][oid]
            total = max(total, int(self.objects["BUFFER_POOL"][row[POOL_OF_PROFILE]]["SAI_BUFFER_POOL_ATTR_SIZE"]))
            reserved[queue] = int(row["SAI_BUFFER_PROFILE_ATTR_RESERVED_BUFFER_SIZE"])
            thresholds[queue] = self.tried(queue, lambda _, row=row: _threshold(row), thresholds[queue])  # type: ignore[misc]
        return Buffer(total, tuple(thresholds), tuple(reserved)) if total else DEFAULT_BUFFER


def _threshold(row: Mapping[str, str]) -> int:
    found = row.get("SAI_BUFFER_PROFILE_ATTR_SHARED_DYNAMIC_TH")
    if found is None or not -8 <= int(found) <= 8:
        raise ValueError(f"dynamic_th is {found}, expected -8..8")
    return int(found)
