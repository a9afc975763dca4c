"""SONiC rows -> what each port's queues do. Pure.

As orchagent and SAI do: a reference to an object that is not there (yet) has no effect; SCHEDULER and WRED_PROFILE rows
with an unknown field are refused whole; a DSCP without an entry has traffic class 0; a traffic class without one, and
every one of a port without maps, goes to queue 0. STRICT queues are served before all others, the larger index first;
the others (DWRR, WRR, no scheduler) share what is left by weight.

This ASIC has no buffer common to its ports: a BUFFER_POOL's size is what each port has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from lab.fabric.queues import DSCPS, FULL_PACKET_BYTES, Buffer, Ecn, QueueProgram, Service
from lab.fabric.topology import QUEUES

Row = Mapping[str, str]
AllRows = Mapping[str, Mapping[str, Row]]
T = TypeVar("T")

DEFAULT_BUFFER = Buffer(64 * FULL_PACKET_BYTES)
"""Of a port that no BUFFER_QUEUE row speaks of."""

SCHEDULER_FIELDS = {"type", "weight", "meter_type", "cir", "cbs", "pir", "pbs"}
COLOURS = ("green", "yellow", "red")
WRED_FIELDS = {"ecn"} | {
    name.format(colour)
    for colour in COLOURS
    for name in ("wred_{}_enable", "{}_min_threshold", "{}_max_threshold", "{}_drop_probability")
}


@dataclass(frozen=True)
class PortProgram:
    """All that the rows say of one port; `speed_bps` from PORT, in wire bits."""

    speed_bps: int
    queues: QueueProgram
    buffer: Buffer


@dataclass
class Translation:
    """Programs by port, and a sentence for each row that could not be followed."""

    ports: dict[str, PortProgram] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def translate(rows: AllRows) -> Translation:
    """Every port of the table PORT."""
    out = Translation()
    services = dict(_parsed(rows, "SCHEDULER", _service, out))
    wred = dict(_parsed(rows, "WRED_PROFILE", _ecn, out))
    buffers = dict(_parsed(rows, "BUFFER_PROFILE", lambda row: _profile(rows, row), out))
    for port, row in rows.get("PORT", {}).items():
        speed = row.get("speed", "")
        if not speed.isdigit() or int(speed) == 0:
            out.problems.append(f"PORT|{port}: speed is {speed!r}, expected Mb/s")
            continue
        out.ports[port] = PortProgram(
            int(speed) * 1_000_000,
            QueueProgram(_classified(rows, port, out), *_queues(rows, port, services, wred, out)),
            _buffer(rows, port, buffers, out),
        )
    return out


def _parsed(rows: AllRows, table: str, parse: Callable[[Row], T], out: Translation) -> Iterator[tuple[str, T]]:
    for name, row in rows.get(table, {}).items():
        try:
            yield name, parse(row)
        except ValueError as wrong:
            out.problems.append(f"{table}|{name}: {wrong}")


def _service(row: Row) -> Service:
    if unknown := set(row) - SCHEDULER_FIELDS:
        raise ValueError(f"unknown field {min(unknown)}: the scheduler is refused")
    kind = row.get("type", "WRR")
    if kind not in ("STRICT", "DWRR", "WRR"):
        raise ValueError(f"type is {kind!r}, expected STRICT, DWRR or WRR")
    return Service(kind == "STRICT", int(row.get("weight", "1")), int(row.get("pir", "0")))


def _ecn(row: Row) -> Ecn | None:
    """Green only: every packet of the fabric is green, for nothing polices it."""
    if unknown := set(row) - WRED_FIELDS:
        raise ValueError(f"unknown field {min(unknown)}: the profile is refused")
    if row.get("ecn", "ecn_none") not in ("ecn_green", "ecn_green_yellow", "ecn_green_red", "ecn_all"):
        return None
    if row.get("wred_green_enable") != "true":
        return None
    low, high = int(row.get("green_min_threshold", "0")), int(row.get("green_max_threshold", "0"))
    return Ecn(low, high, int(row.get("green_drop_probability", "100")))


def _profile(rows: AllRows, row: Row) -> tuple[int, int, int]:
    """(bytes of the pool, bytes reserved, dynamic_th) of a BUFFER_PROFILE row."""
    pool = rows.get("BUFFER_POOL", {}).get(row.get("pool", ""))
    if pool is None:
        raise ValueError(f"pool {row.get('pool')!r} is not in BUFFER_POOL")
    threshold = int(row.get("dynamic_th", "0"))
    if not -8 <= threshold <= 8:
        raise ValueError(f"dynamic_th is {threshold}, expected -8..8")
    return int(pool.get("size", "0")), int(row.get("size", "0")), threshold


def _map(rows: AllRows, table: str, name: str | None, keys: int, values: int, out: Translation) -> dict[int, int]:
    found = {}
    for text, value in rows.get(table, {}).get(name or "", {}).items():
        if text.isdigit() and value.isdigit() and int(text) < keys and int(value) < values:
            found[int(text)] = int(value)
        else:
            out.problems.append(f"{table}|{name}: {text} -> {value}, expected 0..{keys - 1} -> 0..{values - 1}")
    return found


def _classified(rows: AllRows, port: str, out: Translation) -> tuple[int, ...]:
    maps = rows.get("PORT_QOS_MAP", {})
    row, everywhere = maps.get(port, {}), maps.get("global", {})
    name = row.get("dscp_to_tc_map")
    if name not in rows.get("DSCP_TO_TC_MAP", {}):
        name = everywhere.get("dscp_to_tc_map")
    tc_of = _map(rows, "DSCP_TO_TC_MAP", name, DSCPS, 16, out)
    queue_of = _map(rows, "TC_TO_QUEUE_MAP", row.get("tc_to_queue_map"), 16, QUEUES, out)
    return tuple(queue_of.get(tc_of.get(dscp, 0), 0) for dscp in range(DSCPS))


def _rows_of_queues(rows: AllRows, table: str, port: str, out: Translation) -> Iterator[tuple[int, Row]]:
    """Rows `port|q` and `port|lo-hi` (also comma lists of ports), one answer a queue."""
    for key, row in rows.get(table, {}).items():
        ports, _, span = key.rpartition("|")
        if port not in ports.split(","):
            continue
        low, _, high = span.partition("-")
        high = high or low
        if not (low.isdigit() and high.isdigit() and int(low) <= int(high) < QUEUES):
            out.problems.append(f"{table}|{key}: expected port|queue or port|low-high with queues 0..{QUEUES - 1}")
            continue
        for queue in range(int(low), int(high) + 1):
            yield queue, row


def _queues(
    rows: AllRows, port: str, services: Mapping[str, Service], wred: Mapping[str, Ecn | None], out: Translation
) -> tuple[tuple[Service, ...], dict[int, Ecn]]:
    served = [Service()] * QUEUES
    ecn: dict[int, Ecn] = {}
    for queue, row in _rows_of_queues(rows, "QUEUE", port, out):
        served[queue] = services.get(row.get("scheduler", ""), Service())
        if marking := wred.get(row.get("wred_profile", "")):
            ecn[queue] = marking
    return tuple(served), ecn


def _buffer(rows: AllRows, port: str, profiles: Mapping[str, tuple[int, int, int]], out: Translation) -> Buffer:
    total = 0
    reserved, thresholds = [0] * QUEUES, [DEFAULT_BUFFER.dynamic_th[0]] * QUEUES
    for queue, row in _rows_of_queues(rows, "BUFFER_QUEUE", port, out):
        if profile := profiles.get(row.get("profile", "")):
            size, reserved[queue], thresholds[queue] = profile
            total = max(total, size)
    return Buffer(total, tuple(thresholds), tuple(reserved)) if total else DEFAULT_BUFFER
