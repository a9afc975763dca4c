"""The one decision of this daemon, purely: an intent, the rows now and what the ASIC may refer to -> transactions.

orchagent takes rows as a history: a deletion of a row that is referenced is parked and everything written to that name
afterwards waits; a field that is gone from a scheduler keeps its old value (docs/design/switch.md). So no object of
ours is ever repaired in place: its references move to a fresh name with the wanted content, and the old name is deleted
in a later transaction, once the ASIC does not refer to it any more. Any object of ours with the wanted content will do,
so that a restart keeps what it finds. Only fields of ours are touched in rows that are not ours (deleting a
PORT_QOS_MAP row, say, would clear the port's PFC).

First transaction: remember previous references; create objects; refer from PORT_QOS_MAP, then BUFFER_QUEUE, then
QUEUE; give references back; forget. Second: give references back that dangled before us; delete objects of ours that
nothing refers to. Planning again after both gives none; after the first alone, the second.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from qclimb.intent import SwitchIntent

from switchd import fields
from switchd.ports import RowsNow, range_over
from switchd.previous import FIELDS, PORT_FIELDS, PREVIOUS, WHOLE, before_us, is_own, may_be_emptied, remembered
from switchd.qosmap import Refused
from switchd.references import DANGLING, as_it_was
from switchd.rows import EMPTY, Change, Delete, Drop, Merge, Put, Row, Rows, applied
from switchd.uplinks import UPLINK_TABLES
from switchd.wanted import PathBackend, Thing, Wanted, ours, thing, wanted_of

__all__ = ["READ_TABLES", "Bound", "Plan", "Refused", "plan"]

LETTER = {"DSCP_TO_TC_MAP": "D", "TC_TO_QUEUE_MAP": "Q", "SCHEDULER": "S", "WRED_PROFILE": "W", "BUFFER_PROFILE": "B"}
OBJECT_TABLES = tuple(LETTER)
"""in the order of creation"""
READ_TABLES = (
    *("PORT", "PORT_QOS_MAP", "QUEUE", "BUFFER_QUEUE", "BUFFER_PG", PREVIOUS, *OBJECT_TABLES),
    *("TC_TO_PRIORITY_GROUP_MAP", "MAP_PFC_PRIORITY_TO_QUEUE", "DOT1P_TO_TC_MAP", "MPLS_TC_TO_TC_MAP"),
    *("PFC_PRIORITY_TO_PRIORITY_GROUP_MAP", "TC_TO_DOT1P_MAP", "TC_TO_DSCP_MAP", "BUFFER_POOL"),
    *fields.READ_TABLES,
    *UPLINK_TABLES,
)
"""the line before those of others only because a row of ours waits for all that it refers to"""


IDLE_PROFILE: Row = {"ecn": "ecn_none"}
"""a WRED_PROFILE that marks and drops nothing"""


@dataclass(frozen=True)
class Bound:
    """What is known of the ASIC; by default nothing that stands in the way.

    held     names that it may refer to though no row does, or whose deletion was not seen: not deleted, not written
    spoiled  names whose object there is not what their row says: not referred to
    again    rows that came before their port, (table, key): written again
    filled   keys of QUEUE whose rows wait, in orchagent, for a profile that was taken from them: it merges what is
             written to a row that waits, and forgets no field; they get a profile that does nothing until they arrive
    leavers  keys of QUEUE that were given back and may not have arrived: remembered
    """

    held: Collection[str] = frozenset()
    spoiled: Collection[str] = frozenset()
    again: Collection[tuple[str, str]] = frozenset()
    filled: Collection[str] = frozenset()
    leavers: Collection[str] = frozenset()


NOTHING_KNOWN = Bound()


@dataclass(frozen=True)
class Plan:
    """What to write, one transaction after the other; `refused`: ports that are left as they are, `unshared`, where
    some queue keeps the platform's share of the buffer, `unlimited`, where some has no limit, each with the reason;
    whom the intent may starve."""

    transactions: tuple[tuple[Change, ...], ...] = ()
    refused: dict[str, str] = field(default_factory=dict)
    unshared: dict[str, str] = field(default_factory=dict)
    unlimited: dict[str, str] = field(default_factory=dict)
    warning: str = ""
    is_partial: bool = False
    """Planning again, once this is in the ASIC, gives the rest."""

    @property
    def changes(self) -> tuple[Change, ...]:
        """All of them."""
        return tuple(change for one in self.transactions for change in one)


def plan(
    intent: SwitchIntent | None,
    rows: RowsNow,
    bound: Bound = NOTHING_KNOWN,
    tag: str = "0",
    backend: PathBackend = "none",
) -> Plan:
    """The transactions that bring the QoS tables from `rows` (READ_TABLES of CONFIG_DB) to the intent.

    tag      what makes a fresh name differ from earlier ones of the same content: [0-9a-z]+, at most 11
    backend  what pins classes to spines (`paths`)

    Raises Refused, with the reason, when nothing of the intent can be laid over any port.
    """
    wanted = wanted_of(intent, rows, backend)
    for key in bound.filled:
        row = wanted.references.get(("QUEUE", key), {})
        if (row or key in bound.leavers) and not before_us("QUEUE", key, "wred_profile", rows):
            wanted.back.pop(("QUEUE", key), None)
            wanted.references["QUEUE", key] = {"wred_profile": thing("WRED_PROFILE", IDLE_PROFILE), **row}
    names, fresh = _named(wanted, rows, bound, tag)
    changes = (*_remember(wanted, rows), *fresh, *_refer(names, rows, bound), *_give_back(wanted))
    after = applied(rows, changes)
    first = (*changes, *_forget(after, bound))
    after = applied(after, first[len(changes) :])
    late = tuple(_dangling_again(after, bound.held))
    end = applied(after, late)
    second = (*late, *_sweep(end, bound), *_forget(end, bound))
    written = tuple(one for one in (first, second) if one)
    told = wanted.refused, wanted.unshared, wanted.unlimited, wanted.warning
    return Plan(written, *told, wanted.is_partial)


def _named(wanted: Wanted, rows: RowsNow, bound: Bound, tag: str) -> tuple[dict[tuple[str, str], Row], list[Change]]:
    """The references by name, and the objects that have to be created for them.

    An object that stands with the wanted content will do: the one that the row refers to, else the most referred one;
    but for a map that SONiC's patcher may empty.
    """
    used = Counter(value for table in FIELDS for row in rows.get(table, {}).values() for value in row.values())
    given_up = {*bound.spoiled, *_left(wanted, rows), *(name for name in rows.get("SCHEDULER", {}) if not used[name])}
    good: dict[Thing, list[str]] = {}
    for table in OBJECT_TABLES:
        for name, row in rows.get(table, {}).items():
            if is_own(name) and name not in given_up and not may_be_emptied(name):
                good.setdefault(Thing(table, tuple(sorted(row.items()))), []).append(name)
    chosen: dict[Thing, str] = {}
    created: dict[str, Change] = {}
    names: dict[tuple[str, str], Row] = {}
    for (table, key), things in wanted.references.items():
        names[table, key] = {}
        for name, one in things.items():
            now = rows.get(table, {}).get(key, {}).get(name, "")
            if now in good.get(one, ()):
                names[table, key][name] = now
                continue
            if one not in chosen:
                best = min(good.get(one, ()), key=lambda name: (-used[name], name), default=None)
                chosen[one] = best or _fresh(one, {*rows.get(one.table, {}), *bound.held}, tag)
                if best is None:
                    created[chosen[one]] = Put(one.table, chosen[one], one.row)
            names[table, key][name] = chosen[one]
    created |= _taken_along(wanted, names, rows, {*bound.held, *created}, tag)
    return names, sorted(created.values(), key=lambda change: OBJECT_TABLES.index(change.table))


def _taken_along(
    wanted: Wanted, names: dict[tuple[str, str], Row], rows: RowsNow, taken: Collection[str], tag: str
) -> dict[str, Change]:
    """Single BUFFER_QUEUE rows over a range that changes are overwritten by it, and only what changes is applied again:
    they refer to fresh names, whose objects are answered."""
    entries, fresh = rows.get("BUFFER_QUEUE", {}), dict[Thing, str]()
    profiles = {key: row for (table, key), row in names.items() if table == "BUFFER_QUEUE"}
    moved = {key for key, row in profiles.items() if entries.get(key, {}).get("profile") != row["profile"]}
    for key in profiles.keys() - moved:
        if range_over(key, entries) in moved:
            one = wanted.references["BUFFER_QUEUE", key]["profile"]
            if one not in fresh:
                fresh[one] = _fresh(one, {*rows.get(one.table, {}), *taken}, tag)
            names["BUFFER_QUEUE", key]["profile"] = fresh[one]
    return {name: Put(one.table, name, one.row) for one, name in fresh.items()}


def _left(wanted: Wanted, rows: RowsNow) -> set[str]:
    """Schedulers that some queue leaves: the others move to a fresh one (`schedulers`)."""
    found = set()
    for key, row in rows.get("QUEUE", {}).items():
        now, things = row.get("scheduler", ""), wanted.references.get(("QUEUE", key), {})
        one, stands = things.get("scheduler"), rows.get("SCHEDULER", {}).get(now)
        is_other = one is not None and stands is not None and one.row != stands
        if is_own(now) and (is_other or "scheduler" in wanted.back.get(("QUEUE", key), {})):
            found.add(now)
    return found


def _fresh(one: Thing, taken: Collection[str], tag: str) -> str:
    """A name for an object: its content, and what differs from every name that is there or may be in the ASIC."""
    text = json.dumps([one.table, one.row], sort_keys=True).encode()
    mark = WHOLE if one.table in PORT_FIELDS.values() else ""
    stem = f"QCLIMB_{LETTER[one.table]}_{hashlib.sha256(text).hexdigest()[:8]}_{mark}{tag}"
    return next(name for count in range(len(taken) + 1) if (name := f"{stem}{count or ''}") not in taken)


def _remember(wanted: Wanted, rows: RowsNow) -> Iterator[Change]:
    records: dict[str, Row] = {}
    for (table, key), row in wanted.references.items():  # a key may be one of QUEUE and one of BUFFER_QUEUE
        before = {name: remembered(table, key, name, rows) for name in row}
        records.setdefault(key, {}).update({name: value for name, value in before.items() if value})
    for key, record in records.items():
        if rows.get(PREVIOUS, {}).get(key) != (record or EMPTY):
            yield Put(PREVIOUS, key, record or EMPTY)


def _refer(names: dict[tuple[str, str], Row], rows: RowsNow, bound: Bound) -> Iterator[Change]:
    for table in FIELDS:
        entries = rows.get(table, {})
        for (of_table, key), row in names.items():
            if of_table != table:
                continue
            now = entries.get(key, {})
            missing = {name: value for name, value in row.items() if now.get(name) != value}
            if missing or (table, key) in bound.again:
                yield Merge(table, key, missing or row)
    for table, key in sorted(bound.again):
        standing = rows.get(table, {}).get(key, EMPTY)
        if (table, key) not in names and standing != EMPTY:
            yield Merge(table, key, standing)  # given back: as it stands


def _give_back(wanted: Wanted) -> Iterator[Change]:
    for table in reversed(FIELDS):
        for (of_table, key), back in wanted.back.items():
            if of_table != table:
                continue
            if restored := {name: old for name, old in back.items() if old}:
                yield Merge(table, key, restored)
            if dropped := tuple(name for name, old in back.items() if not old):
                yield Drop(table, key, dropped)


def _sweep(rows: Rows, bound: Bound) -> Iterator[Change]:
    used = {value for table in FIELDS for row in rows.get(table, {}).values() for value in row.values()}
    for table in reversed(OBJECT_TABLES):
        for name in rows.get(table, {}):
            if is_own(name) and name not in used and name not in bound.held:
                yield Delete(table, name)


def _dangling_again(rows: Rows, held: Collection[str] = ()) -> Iterator[Merge]:
    """References that dangled before us, once the ASIC refers to nothing of ours there: orchagent lets a row wait as a
    whole for what it names, and would keep ours."""
    for table, targets in FIELDS.items():
        for key, record in rows.get(PREVIOUS, {}).items():
            row = rows.get(table, {}).get(key, {})
            old = {f: as_it_was(record[f]) for f in targets if record.get(f, "").startswith(DANGLING) and f not in row}
            is_there = key.partition("|")[0] in rows.get("PORT", {})
            if old and is_there and not any(name in held for of in old for name in rows.get(targets[of], {})):
                yield Merge(table, key, old)


def _forget(rows: Rows, bound: Bound) -> Iterator[Change]:
    """Memories of rows that refer to nothing of ours, and to which nothing is to be given back."""
    kept = {*bound.leavers, *(key for _, key in ours(rows)), *(one.key for one in _dangling_again(rows))}
    for key in rows.get(PREVIOUS, {}):
        if key not in kept:
            yield Delete(PREVIOUS, key)
