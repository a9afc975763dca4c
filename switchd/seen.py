"""What the ASIC has of what we refer to, by effect and not by name; purely.

orchagent tells nobody which rows it took. ASIC_DB holds what syncd was told: ports and queues by object id (COUNTERS_DB
names them), the maps and profiles that they are bound to, and their content. Schedulers are another matter
(`schedulers`): which queue a scheduler group serves stands nowhere.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from qclimb import orchagent

from switchd.ports import RowsNow, numbers_in
from switchd.previous import FIELDS, is_own
from switchd.references import name_in
from switchd.rows import Row

SEEN, PENDING, UNVERIFIED = "seen", "pending", "unverified"
ATTRIBUTE = {
    "dscp_to_tc_map": "SAI_PORT_ATTR_QOS_DSCP_TO_TC_MAP",
    "tc_to_queue_map": "SAI_PORT_ATTR_QOS_TC_TO_QUEUE_MAP",
    "wred_profile": "SAI_QUEUE_ATTR_WRED_PROFILE_ID",
    "profile": "SAI_QUEUE_ATTR_BUFFER_PROFILE_ID",
}
GROUP_ATTRIBUTE = "SAI_SCHEDULER_GROUP_ATTR_SCHEDULER_PROFILE_ID"
MAP_ATTRIBUTE = "SAI_QOS_MAP_ATTR_MAP_TO_VALUE_LIST"
KIND = {
    "DSCP_TO_TC_MAP": "QOS_MAP",
    "TC_TO_QUEUE_MAP": "QOS_MAP",
    "SCHEDULER": "SCHEDULER",
    "WRED_PROFILE": "WRED",
    "BUFFER_PROFILE": "BUFFER_PROFILE",
}
"""SAI's type of a table's objects"""
NO_OBJECT = "oid:0x0"

Place = tuple[str, str, str]
"""table, key, field of a reference"""


@dataclass(frozen=True)
class Asic:
    """What was read.

    ports, queues  object ids by name (`Ethernet0`, `Ethernet0:3`)
    objects        attributes by object id; {} for one that ASIC_DB does not have
    groups         attributes of all scheduler groups by object id; None where they were not read
    """

    ports: Row
    queues: Row
    objects: Mapping[str, Row]
    groups: Mapping[str, Row] | None = None

    @property
    def why_unreadable(self) -> str:
        """Why nothing can be told of any port; empty where something can."""
        if not self.ports:
            return "COUNTERS_DB has no COUNTERS_PORT_NAME_MAP"
        read = [self.objects[oid] for oid in self.ports.values() if oid in self.objects]
        return "ASIC_DB has none of the ports that COUNTERS_DB names" if read and not any(read) else ""

    @cached_property
    def shared(self) -> frozenset[str]:
        """Object ids that have two names of one kind."""
        counts = [Counter(names.values()) for names in (self.ports, self.queues)]
        return frozenset(oid for one in counts for oid, count in one.items() if count > 1)


@dataclass(frozen=True)
class Verdict:
    """What became of one reference.

    oids           what the ASIC refers to there
    wanted, found  for whoever looks
    is_foreign     it waits for something that is not ours to do
    """

    state: str
    reason: str = ""
    oids: frozenset[str] = field(default_factory=frozenset)
    wanted: str = ""
    found: str = ""
    is_foreign: bool = False


class Unreadable(Exception):
    """Something of ASIC_DB or of a name map that can't be believed."""


class Absent(Exception):
    """A port that orchagent has not created."""


def compared(
    rows: RowsNow, asic: Asic, ports: Iterable[str], known: Mapping[str, str], scheduled: Verdict | None = None
) -> dict[Place, Verdict]:
    """The verdict on each reference of ours in rows of these ports.

    known      names of ours by the object id that they were seen to have: a place that still has another name's object
               is not there yet, though its content be the same
    scheduled  on references to schedulers (`schedulers`); None: nothing was looked at
    """
    found = {}
    wanted_ports, memo = set(ports), dict[tuple[str, str], str]()
    for table, fields in FIELDS.items():
        for key, row in rows.get(table, {}).items():
            if key.partition("|")[0] not in wanted_ports:
                continue
            for name, target in fields.items():
                value = row.get(name, "")
                place = (table, key, name)
                if not is_own(value) or value not in rows.get(target, {}):
                    continue
                if name != "scheduler":
                    found[place] = _bound(place, value, rows, asic, known, memo)
                elif scheduled is not None:
                    found[place] = scheduled
    return found


def _bound(
    place: Place, name: str, rows: RowsNow, asic: Asic, known: Mapping[str, str], memo: dict[tuple[str, str], str]
) -> Verdict:
    """One reference; `memo`: by name and object id how they differ, as many places share both."""
    table, key, field_name = place
    target = FIELDS[table][field_name]
    content = rows[target][name]
    oids = set()
    try:
        for what, oid in _owners(table, key, asic, rows):
            attributes = asic.objects.get(oid)
            if not attributes:
                raise Unreadable(f"ASIC_DB has no object {oid}, which COUNTERS_DB names {what}")
            have = attributes.get(ATTRIBUTE[field_name], NO_OBJECT)
            if have == NO_OBJECT:
                return Verdict(PENDING, f"{what} has no {field_name} in the ASIC", wanted=shown(content), found="none")
            oids.add(have)
            if _is_still(have, name, rows[target], target, asic, known):
                return Verdict(PENDING, f"{what} still has {known[have]} in the ASIC", frozenset(oids), shown(content))
            if (name, have) not in memo:
                memo[name, have] = differs(target, content, asic.objects.get(have) or {})
            if difference := memo[name, have]:
                return Verdict(
                    PENDING, f"{what} {field_name}: {difference}", frozenset(oids), shown(content), difference
                )
    except Unreadable as error:
        return Verdict(UNVERIFIED, str(error))
    except Absent as error:
        return Verdict(PENDING, str(error), wanted=shown(content), found="no such port", is_foreign=True)
    return Verdict(SEEN, oids=frozenset(oids))


def _is_still(oid: str, name: str, rows: Mapping[str, Row], table: str, asic: Asic, known: Mapping[str, str]) -> bool:
    """Whether an object is that of another name than `name`: as it was known, and has that one's content still.

    An orchagent that restarted gives its object ids to others. Raises Unreadable.
    """
    other = known.get(oid, name)
    return other != name and other in rows and not differs(table, rows[other], asic.objects.get(oid) or {})


def _owners(table: str, key: str, asic: Asic, rows: RowsNow) -> Iterator[tuple[str, str]]:
    """What has the attribute: a port, or the queues of a row, but those over whose buffer another row was written."""
    port, _, span = key.partition("|")
    if asic.ports and port not in asic.ports:
        raise Absent(f"orchagent has not created the port: COUNTERS_PORT_NAME_MAP does not name {port}")
    if table == "PORT_QOS_MAP":
        names, oids, where = [port], asic.ports, "PORT"
    else:
        queues = sorted(numbers_in(span) or ())
        if table == "BUFFER_QUEUE" and len(queues) > 1:
            queues = [queue for queue in queues if f"{port}|{queue}" not in rows[table]]
        names, oids, where = [f"{port}:{queue}" for queue in queues], asic.queues, "QUEUE"
    for name in names:
        oid = oids.get(name)
        if oid is None:
            raise Unreadable(f"COUNTERS_{where}_NAME_MAP of COUNTERS_DB does not name {name}")
        if oid in asic.shared:
            raise Unreadable(f"COUNTERS_DB names one object {oid} for {name} and another")
        yield name, oid


def differs(table: str, row: Row, attributes: Mapping[str, str]) -> str:
    """What an object in the ASIC has otherwise than the row; empty where nothing. Raises Unreadable."""
    if not attributes:
        raise Unreadable("ASIC_DB refers to an object that it does not have")
    try:
        if table in orchagent.MAPS:
            return _map_differs(table, row, attributes)
        if table == "SCHEDULER":
            wanted = dict(orchagent.scheduler(row))
        elif table == "WRED_PROFILE":
            wanted = dict(orchagent.wred(row))
        else:
            wanted = {name: text for name, text in orchagent.buffer_profile(row) if not name.endswith("POOL_ID")}
    except orchagent.Malformed as wrong:
        return f"orchagent does not take {table}: {wrong}"
    for name, text in wanted.items():
        if attributes.get(name) != text:
            return f"{name} is {attributes.get(name, 'not there')}, expected {text}"
    for name, text in attributes.items():
        if name not in wanted and _counts(name) and text not in ("0", "false"):
            return f"{name} is {text}, expected none"
    return ""


def _counts(name: str) -> bool:
    """Whether an attribute that nobody asked for changes what happens to packets."""
    return name.endswith(("BANDWIDTH_RATE", "_ENABLE"))


def _map_differs(table: str, row: Row, attributes: Mapping[str, str]) -> str:
    rule = orchagent.MAPS[table]
    try:
        entries = json.loads(attributes[MAP_ATTRIBUTE])["list"]
        have = {int(one["key"][rule.key]): int(one["value"][rule.value]) for one in entries}
    except (KeyError, ValueError, TypeError) as error:
        raise Unreadable(f"{MAP_ATTRIBUTE} can't be read: {error!r}") from error
    wanted = dict(orchagent.map_entries(table, row))
    for number in sorted(wanted.keys() | have.keys()):
        if wanted.get(number) != have.get(number):
            return f"{rule.key} {number} goes to {rule.value} {have.get(number)}, expected {wanted.get(number)}"
    return ""


@dataclass(frozen=True)
class Cause:
    """Why a row does not arrive, whether somebody else's row is to blame, and which row of ours, if one is."""

    reason: str
    is_foreign: bool
    blocker: str = ""


class Causes:
    """What in CONFIG_DB stands in the way of references; each table is searched once for rows that block."""

    def __init__(self, rows: RowsNow) -> None:
        self._rows = rows
        self._blocking: dict[str, dict[str, str]] = {}

    def of(self, place: Place, name: str) -> Cause | None:
        """What holds up a reference to `name`; None where nothing is to be seen."""
        table, key, field_name = place
        for where, own in ((FIELDS[table][field_name], name), (table, key)):
            for blocker, why in self._blockers(where).items():
                if orchagent.waits_behind(where, blocker, own):
                    told = f"{where}|{blocker} blocks {where}|{own}: {why}"
                    return Cause(told, not is_own(blocker), blocker if is_own(blocker) else "")
        row = self._rows.get(table, {}).get(key, {})
        for other, target in orchagent.REFERENCES[table].items():
            value = row.get(other)
            if value and target in self._rows and value not in self._rows[target]:
                if (name := name_in(value, target)) != value:
                    told = f"{table}|{key} {other} is {value!r}: orchagent takes {name!r} alone, without brackets"
                else:
                    told = f"{table}|{key} waits for {target}|{value}, which is not there"
                return Cause(told, other not in FIELDS[table])
        try:
            orchagent.check(table, key, row)
        except orchagent.Malformed as wrong:
            return Cause(f"{table}|{key}: orchagent does not take it: {wrong}", True)
        return None

    def _blockers(self, table: str) -> Mapping[str, str]:
        if table not in self._blocking:
            self._blocking[table] = orchagent.blocking(table, self._rows.get(table, {}))
        return self._blocking[table]


def shown(row: Mapping[str, str]) -> str:
    """A row for people: a map of 64 entries is only counted."""
    return " ".join(f"{f}={v}" for f, v in row.items()) if len(row) <= 4 else f"{len(row)} fields"
