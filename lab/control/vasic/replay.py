"""Replays files of cases (rows in, ASIC out) and says where this virtual ASIC differs from what they tell."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

from lab.control.vasic.machine.machine import Machine
from lab.control.vasic.machine.seen import Seen, Told
from lab.control.vasic.machine.waiting import Task

TOLD = ("ports", "switch", "acl", "routes", "groups", "pending", "state_db")
BED = {
    "INTF_TABLE": {name: {"NULL": "NULL"} for name in ("Ethernet16", "Ethernet20", "Ethernet24")},
    "LAG_TABLE": {"PortChannel1": {"oper_status": "up", "admin_status": "up", "mtu": "9100"}},
    "LAG_MEMBER_TABLE": {"PortChannel1:Ethernet28": {"status": "enabled"}},
    "NEIGH_TABLE": {
        "Ethernet16:10.0.0.1": {"neigh": "00:11:22:33:44:55", "family": "IPv4"},
        "Ethernet20:10.0.1.1": {"neigh": "00:11:22:33:44:66", "family": "IPv4"},
        "Ethernet16:fc00:1::1": {"neigh": "00:11:22:33:44:55", "family": "IPv6"},
    },
}
UP = ("Ethernet0", "Ethernet4", "Ethernet16", "Ethernet20", "Ethernet24")


class CasesError(Exception):
    """A file of cases that can't be read; names the place."""


@dataclass(frozen=True)
class Write:
    """One write of a step: HSET, HDEL and DEL in CONFIG_DB, SET and DEL in APPL_DB, LINK of a port.

    fields  with values for HSET and SET, names for HDEL
    """

    database: str
    op: str
    key: str
    fields: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Step:
    """What is written, and what then stands."""

    writes: tuple[Write, ...]
    then: Mapping[str, Any]


@dataclass(frozen=True)
class Case:
    """A history from a fresh start; `loose`: what depends on which table is read first."""

    name: str
    steps: tuple[Step, ...]
    bed: str = ""
    loose: tuple[str, ...] = ()


@dataclass(frozen=True)
class Difference:
    """A step that ends otherwise than told; `step` counts from 1."""

    case: str
    step: int
    what: str
    expected: Any
    found: Any


@dataclass
class Replay:
    """One case: the rows of CONFIG_DB, and the machine that follows them."""

    ports: Sequence[str]
    machine: Machine = field(init=False)
    rows: dict[str, dict[str, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.machine = Machine(self.ports)

    def set_bed(self) -> None:
        """The next hops of the bed `steer`."""
        for name in UP:
            self.machine.port_event(name, True)
        for table, rows in BED.items():
            for key, row in rows.items():
                self.machine.event(table, [Task("SET", key, row)])

    def write(self, writes: Sequence[Write]) -> None:
        """One step: CONFIG_DB's writes as one transaction, APPL_DB's and links one by one, in their order."""
        for database, group in groupby(writes, key=lambda write: write.database):
            if database == "CONFIG_DB":
                for table, tasks in self._transaction(list(group)).items():
                    self.machine.event(table, tasks)
                continue
            for write in group:
                if database == "LINK":
                    self.machine.port_event(write.op, write.key == "up")
                else:
                    table, _, key = write.key.partition(":")
                    self.machine.event(table, [_task(write, key)])

    def _transaction(self, writes: Sequence[Write]) -> dict[str, list[Task]]:
        """What subscribers read after it: a deletion where one was made, else the row as it is at the end."""
        told: dict[str, list[tuple[str, str, str]]] = {}
        for write in writes:
            table, _, key = write.key.partition("|")
            was = write.key in self.rows
            row = self.rows.setdefault(write.key, {})
            if write.op == "HSET":
                row |= dict(write.fields)
            elif write.op == "HDEL":
                for name in write.fields:
                    row.pop(name, None)
            is_gone = write.op == "DEL" or not row
            if is_gone:
                del self.rows[write.key]
            if was or not is_gone:
                told.setdefault(table, []).append(("DEL" if is_gone else "SET", key, write.key))
        found: dict[str, list[Task]] = {}
        for table, events in told.items():
            tasks = [Task("DEL", key) if op == "DEL" else self._now(key, name) for op, key, name in events]
            found[table] = [task for task in tasks if task is not None]
        return found

    def _now(self, key: str, name: str) -> Task | None:
        row = self.rows.get(name)
        return Task("SET", key, {field.removesuffix("@"): text for field, text in row.items()}) if row else None

    def seen(self) -> Told:
        """What stands now."""
        return Seen(self.machine).all()


def _task(write: Write, key: str) -> Task:
    return Task("DEL", key) if write.op == "DEL" else Task("SET", key, dict(write.fields))


def differences(case: Case, ports: Sequence[str]) -> Iterator[Difference]:
    """Every field of every step that is not as told."""
    replay = Replay(ports)
    if case.bed == "steer":
        replay.set_bed()
    for number, step in enumerate(case.steps, start=1):
        replay.write(step.writes)
        seen = replay.seen()
        for what in TOLD:
            expected, found = step.then.get(what), seen.get(what)
            if what not in case.loose and _comparable(what, expected) != _comparable(what, found):
                yield Difference(case.name, number, what, expected, found)


def _comparable(what: str, told: Any) -> Any:
    """Lists without their order, but for that of members in one text; nothing is nothing."""
    if isinstance(told, list):
        return sorted(json.dumps(each, sort_keys=True) for each in told)
    return told or None


def read(path: Path) -> tuple[list[str], list[Case]]:
    """Ports and cases of a file.

    Raises:
        CasesError: it can't be read, is no JSON, or is no file of cases.
    """
    try:
        found = json.loads(path.read_text())
    except OSError as wrong:
        raise CasesError(f"{path}: {wrong.strerror}") from None
    except ValueError as wrong:
        raise CasesError(f"{path}: expected JSON: {wrong}") from None
    if not isinstance(found, dict) or not isinstance(found.get("cases"), list):
        raise CasesError(f"{path}: expected an object with a list `cases`")
    ports = found.get("base", {}).get("ports", [f"Ethernet{4 * number}" for number in range(8)])
    return list(ports), [_case(f"{path}: cases[{index}]", each) for index, each in enumerate(found["cases"])]


def _case(place: str, told: Any) -> Case:
    if not isinstance(told, dict) or not isinstance(told.get("steps"), list):
        raise CasesError(f"{place}: expected an object with a list `steps`")
    if told.get("bed", "steer") != "steer":
        raise CasesError(f"{place}.bed is {told['bed']!r}, expected 'steer' or none")
    steps = [_step(f"{place}.steps[{index}]", each) for index, each in enumerate(told["steps"])]
    return Case(str(told.get("case", place)), tuple(steps), told.get("bed", ""), tuple(told.get("loose", ())))


def _step(place: str, told: Any) -> Step:
    if not isinstance(told, dict) or not isinstance(told.get("write"), list):
        raise CasesError(f"{place}: expected an object with a list `write`")
    if not isinstance(told.get("then", {}), dict):
        raise CasesError(f"{place}.then is {told['then']!r}, expected an object")
    writes = [_write(f"{place}.write[{index}]", each) for index, each in enumerate(told["write"])]
    return Step(tuple(writes), told.get("then", {}))


KNOWN = {"CONFIG_DB": ("HSET", "HDEL", "DEL"), "APPL_DB": ("SET", "DEL")}


def _write(place: str, told: Any) -> Write:
    expected = (
        f"{place} is {json.dumps(told)[:80]}, expected [database, operation, key, fields] or [LINK, port, up|down]"
    )
    if not isinstance(told, list) or not 3 <= len(told) <= 4 or not all(isinstance(each, str) for each in told[:3]):
        raise CasesError(expected)
    database, op, key = told[:3]
    fields = told[3] if len(told) == 4 else []
    if database == "LINK":
        if key not in ("up", "down"):
            raise CasesError(expected)
        return Write(database, op, key)
    if op not in KNOWN.get(database, ()) or not _names_row(database, key):
        raise CasesError(expected)
    if op in ("HSET", "SET") and not (isinstance(fields, dict) and fields and _are_texts(fields.values())):
        raise CasesError(f"{place}: fields are {json.dumps(fields)[:80]}, expected an object of strings")
    if op == "HDEL" and not (isinstance(fields, list) and _are_texts(fields)):
        raise CasesError(f"{place}: fields are {json.dumps(fields)[:80]}, expected a list of strings")
    return Write(database, op, key, fields if isinstance(fields, dict) else dict.fromkeys(fields, ""))


def _names_row(database: str, key: str) -> bool:
    """Whether the key names a table and a row."""
    table, _, row = key.partition("|" if database == "CONFIG_DB" else ":")
    return bool(table and row)


def _are_texts(values: Any) -> bool:
    return all(isinstance(each, str) for each in values)
