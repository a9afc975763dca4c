"""The one decision of this daemon, purely: an intent and the rows now -> the ordered changes.

Planning again after them gives none.

Order: remember previous references; create maps, SCHEDULER, WRED_PROFILE, BUFFER_PROFILE; refer from PORT_QOS_MAP,
then BUFFER_QUEUE, then QUEUE. Then in reverse: give references back; delete objects of ours that nothing refers to;
forget. Only fields of ours are touched in rows that are not ours (deleting a PORT_QOS_MAP row, say, would
clear the port's PFC).
"""

from collections.abc import Iterator, Mapping

from qclimb.intent import SwitchIntent

from switchd.qosmap import Refused
from switchd.rows import EMPTY, Change, Delete, Drop, Merge, Put, Row, applied
from switchd.wanted import FIELDS, OBJECT_TABLES, PREVIOUS, READ_TABLES, Wanted, is_own, reference_without_us, wanted_of

__all__ = ["READ_TABLES", "Refused", "plan"]

RowsNow = Mapping[str, Mapping[str, Row]]


def plan(intent: SwitchIntent | None, rows: RowsNow, narrow_buffers: bool = False) -> tuple[Change, ...]:
    """The changes that bring the QoS tables from `rows` (READ_TABLES of CONFIG_DB) to the intent.

    `narrow_buffers`: those of BUFFER_QUEUE, too. Raises Refused, with the reason.
    """
    wanted = wanted_of(intent, rows, narrow_buffers)
    changes = [*_remember(wanted, rows), *_create(wanted, rows), *_refer(wanted, rows), *_give_back(wanted, rows)]
    after = applied(rows, changes)
    return (*changes, *_sweep(wanted, after), *_forget(wanted, rows))


def _remember(wanted: Wanted, rows: RowsNow) -> Iterator[Change]:
    records: dict[str, Row] = {}
    for (table, key), row in wanted.references.items():  # a key may be one of QUEUE and one of BUFFER_QUEUE
        before = {name: reference_without_us(table, key, name, rows) for name in row}
        records.setdefault(key, {}).update({name: value for name, value in before.items() if value})
    for key, record in records.items():
        if rows.get(PREVIOUS, {}).get(key) != (record or EMPTY):
            yield Put(PREVIOUS, key, record or EMPTY)


def _create(wanted: Wanted, rows: RowsNow) -> Iterator[Change]:
    for table in OBJECT_TABLES:
        for name, row in wanted.objects[table].items():
            if rows.get(table, {}).get(name) != row:
                yield Put(table, name, row)


def _refer(wanted: Wanted, rows: RowsNow) -> Iterator[Change]:
    for table in FIELDS:
        for (of_table, key), row in wanted.references.items():
            now = rows.get(table, {}).get(key, {})
            missing = {name: value for name, value in row.items() if now.get(name) != value}
            if of_table == table and missing:
                yield Merge(table, key, missing)


def _give_back(wanted: Wanted, rows: RowsNow) -> Iterator[Change]:
    """References of ours that the intent no longer wants.

    A previous one that is gone meanwhile is not restored: it would dangle.
    """
    for table in reversed(FIELDS):
        for key, row in rows.get(table, {}).items():
            keep = wanted.references.get((table, key), {})
            ours = [name for name in FIELDS[table] if is_own(row.get(name, "")) and name not in keep]
            before = {name: rows.get(PREVIOUS, {}).get(key, {}).get(name) for name in ours}
            restored = {name: old for name, old in before.items() if old and old in rows.get(FIELDS[table][name], {})}
            if restored:
                yield Merge(table, key, restored)
            if dropped := tuple(name for name in ours if name not in restored):
                yield Drop(table, key, dropped)


def _sweep(wanted: Wanted, rows: RowsNow) -> Iterator[Change]:
    used = {value for table in FIELDS for row in rows.get(table, {}).values() for value in row.values()}
    for table in reversed(OBJECT_TABLES):
        for name in rows.get(table, {}):
            if is_own(name) and name not in used and name not in wanted.objects[table]:
                yield Delete(table, name)


def _forget(wanted: Wanted, rows: RowsNow) -> Iterator[Change]:
    kept = {key for _, key in wanted.references}
    for key in rows.get(PREVIOUS, {}):
        if key not in kept:
            yield Delete(PREVIOUS, key)
