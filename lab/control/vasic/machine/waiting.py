"""Rows that wait in front of one table, and the pass over them: `Consumer` and `Orch` of sonic-swss, without its SAI.

A row is taken, or raises: `Retry` leaves it for the next pass, `Refused` drops it, `Failed` drops it and ends the pass,
`Blocking` (an exception in orchagent) leaves it and ends the pass.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from qclimb.orchagent import Blocking, Failed, Refused

from lab.control.vasic.machine.sai import Sai


class Retry(Exception):
    """Something that the row needs is not there, or in the way."""


class Ended(Exception):
    """orchagent ends by a signal: nothing is taken any more."""


@dataclass(frozen=True)
class Task:
    """One change of a row: all its fields (CONFIG_DB), or those that were written (APPL_DB)."""

    op: Literal["SET", "DEL"]
    key: str
    row: Mapping[str, str] = field(default_factory=dict)


class Waiting:
    """Tasks of one table by key: at most a DEL and then a SET; a SET is merged into the SET that waits."""

    def __init__(self) -> None:
        self._tasks: dict[str, list[Task]] = {}

    def __bool__(self) -> bool:
        return bool(self._tasks)

    def add(self, task: Task) -> None:
        """A DEL replaces all that waits; a SET is merged: fields that are written again go to the end."""
        held = self._tasks.get(task.key, [])
        if task.op == "DEL":
            self._tasks[task.key] = [task]
            return
        before = next((old for old in held if old.op == "SET"), None)
        if before is not None:
            kept = {name: text for name, text in before.row.items() if name not in task.row}
            task = Task("SET", task.key, {**kept, **task.row})
        self._tasks[task.key] = [*(old for old in held if old.op == "DEL"), task]

    def in_order(self) -> list[Task]:
        """By the bytes of the keys."""
        return [task for key in sorted(self._tasks, key=str.encode) for task in self._tasks[key]]

    def of_key(self, key: str) -> list[Task]:
        """What waits under one key."""
        return list(self._tasks.get(key, []))

    def remove(self, task: Task) -> None:
        """It was taken, or is dropped."""
        left = [old for old in self._tasks.get(task.key, []) if old is not task]
        if left:
            self._tasks[task.key] = left
        else:
            self._tasks.pop(task.key, None)


class Orch:
    """A family of tables.

    tables  in the order of the pass after each event; those whose names are CONFIG_DB's in `config_tables`
    """

    tables: Sequence[str] = ()
    config_tables: frozenset[str] = frozenset()

    def __init__(self, sai: Sai) -> None:
        self.sai = sai
        self.waiting = {table: Waiting() for table in self.tables}

    def ready(self) -> bool:
        """Whether rows are looked at yet."""
        return True

    def take(self, table: str, task: Task) -> None:
        """One row.

        Raises:
            Retry, Refused, Failed, Blocking: it was not taken (see the module).
        """
        raise NotImplementedError

    def finish(self, table: str) -> None:
        """After a pass over a table that nothing ended."""

    def event(self, table: str, tasks: Iterable[Task]) -> None:
        """Rows of one table changed."""
        for task in tasks:
            self.waiting[table].add(task)
        self.drain(table)

    def drain(self, table: str) -> None:
        """A pass over the rows of one table."""
        waiting = self.waiting[table]
        if not waiting or not self.ready():
            return
        for task in waiting.in_order():
            try:
                self.take(table, task)
            except Retry:
                continue
            except Blocking:
                return
            except Failed:
                waiting.remove(task)
                return
            except Refused:
                pass
            waiting.remove(task)
        self.finish(table)

    def retry(self) -> None:
        """The pass over all tables that follows each event."""
        for table in self.tables:
            self.drain(table)

    def pending(self) -> Iterator[str]:
        """Names of the rows that wait, as redis has them, `|DEL` after a deletion."""
        for table, waiting in self.waiting.items():
            separator = "|" if table in self.config_tables else ":"
            for task in waiting.in_order():
                yield f"{table}{separator}{task.key}" + ("|DEL" if task.op == "DEL" else "")


@dataclass
class Named:
    """A row that others may name, or that names others (`referenced_object`)."""

    oid: str = ""
    is_parked: bool = False
    named_by: set[str] = field(default_factory=set)
    names: dict[str, tuple[str, str] | None] = field(default_factory=dict)
    """field -> table and key of the row it names"""


class References:
    """Which row names which."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, str], Named] = {}

    def find(self, table: str, key: str) -> Named | None:
        """What is known of a row."""
        return self._rows.get((table, key))

    def add(self, table: str, key: str, oid: str) -> None:
        """The row has an object."""
        self._rows.setdefault((table, key), Named()).oid = oid

    def resolve(self, table: str, key: str) -> str:
        """The object of a row that another one names; "" for the name "".

        Raises:
            Retry: it is not there, or waits for its removal.
        """
        if not key:
            return ""
        row = self._rows.get((table, key))
        if row is None or row.is_parked or key[0] == "[" or key[-1] == "]":
            raise Retry
        return row.oid

    def refer(self, table: str, key: str, name: str, target: tuple[str, str] | None) -> None:
        """The row's field `name` names `target` from now on, and no longer what it named."""
        row = self._rows.setdefault((table, key), Named())
        self._leave(key, row.names.get(name))
        row.names[name] = target
        if target is not None:
            self._rows[target].named_by.add(key)

    def has(self, table: str, key: str, name: str) -> bool:
        """Whether the row's field names one."""
        row = self._rows.get((table, key))
        return row is not None and name in row.names

    def named(self, table: str, key: str, name: str) -> tuple[str, str] | None:
        """What the row's field names."""
        row = self._rows.get((table, key))
        return None if row is None else row.names.get(name)

    def unrefer(self, table: str, key: str, name: str) -> None:
        """The row's field names nothing from now on."""
        self._leave(key, self._rows[table, key].names.pop(name))

    def park_if_named(self, table: str, key: str) -> None:
        """Before the row's removal.

        Raises:
            Retry: others name it; it is parked until none does.
        """
        row = self._rows.get((table, key))
        if row is not None and row.named_by:
            row.is_parked = True
            raise Retry

    def drop(self, table: str, key: str) -> None:
        """The row is gone, with what it names."""
        row = self._rows.pop((table, key), None)
        for target in row.names.values() if row else ():
            self._leave(key, target)

    def _leave(self, key: str, target: tuple[str, str] | None) -> None:
        if target is not None and target in self._rows:
            self._rows[target].named_by.discard(key)
