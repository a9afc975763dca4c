"""The switch's redis as qclimb uses it: one interface, two backends.

`db_swsscommon` speaks through SONiC's own library on a switch, `db_redis` through redis-py elsewhere. A backend runs
scripts and watches; what the scripts are is the same for both (`scripts`). Database numbers and separators are SONiC's.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from qclimb.errors import QclimbError

from switchd import scripts
from switchd.rows import EMPTY, Change, Delete, Drop, Merge, Put, Row, Rows

APPL, ASIC, COUNTERS, CONFIG, STATE = 0, 1, 2, 4, 6
"""SONiC's database_config.json"""
NAMES = {APPL: "APPL_DB", ASIC: "ASIC_DB", COUNTERS: "COUNTERS_DB", CONFIG: "CONFIG_DB", STATE: "STATE_DB"}
HOLDER = "QCLIMB_HOLDER"
"""key of STATE_DB: who writes; expires when he no longer says so"""
HALF = "redis: CONFIG_DB is not initialised yet (no CONFIG_DB_INITIALIZED)"
READ_AT_ONCE = 200
"""hashes read in one step: redis serves others between"""


class DatabaseLost(QclimbError):
    """Redis can't be reached, or went away in the middle; the caller tries again later."""


class NotHolder(DatabaseLost):
    """Another daemon writes here, or this one lost its lock: nothing was written; the caller tries again later."""


class RowsChanged(QclimbError):
    """A row is no longer what it was when it was read, so nothing was written; the caller reads again."""


@dataclass(frozen=True)
class Event:
    """A row as it is now: `row` is None when it was deleted."""

    table: str
    key: str
    row: Row | None


class Watch(ABC):
    """A subscription to CONFIG_DB tables. The first `poll` gives the rows that were there, as events."""

    has_others: bool = False
    """whether the last `poll` saw a change in a table that is not subscribed to"""

    @abstractmethod
    def poll(self, timeout_s: float) -> list[Event]:
        """Wait at most `timeout_s` for changes; several changes of one row may come as one event.

        Raises DatabaseLost.
        """

    @abstractmethod
    def close(self) -> None:
        """End the subscription."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Notices(ABC):
    """Which keys of other databases change, by redis' keyspace notifications; it stands once it is made."""

    @abstractmethod
    def take(self) -> set[tuple[int, str]]:
        """The keys, with their database's number, that were written or deleted since the last call; waits for nothing.

        Raises DatabaseLost: what came meanwhile is not known.
        """

    @abstractmethod
    def close(self) -> None:
        """End it."""


class Database(ABC):
    """CONFIG_DB to read, write and watch, STATE_DB to show, APPL_DB to produce into, the others to read.

    Every method may raise DatabaseLost. A connection that broke is opened anew by the next call.
    """

    @abstractmethod
    def command(self, number: int, words: Sequence[str]) -> str:
        """One command of redis in the database of this number; answers its text."""

    @abstractmethod
    def watch(self, tables: Iterable[str]) -> Watch:
        """Subscribe to CONFIG_DB tables."""

    @abstractmethod
    def notices(self, patterns: Mapping[int, str]) -> Notices:
        """Be told of the keys that match a glob pattern, by the number of their database."""

    @abstractmethod
    def close(self) -> None:
        """Give the connections back."""

    def run(self, number: int, script: str, keys: Sequence[str], args: Sequence[str]) -> str:
        """Run a script in the database of this number; answers its text."""
        return self.command(number, ["EVAL", script, str(len(keys)), *keys, *args])

    def client_list(self) -> str:
        """Who is connected to redis, one a line (CLIENT LIST)."""
        return self.command(CONFIG, ["CLIENT", "LIST"])

    def get_tables(self, tables: Iterable[str]) -> Rows:
        """The rows of these CONFIG_DB tables, all of one moment; a table without rows is an empty dict."""
        return self._tables(CONFIG, tables)

    def get_whole_tables(self, tables: Iterable[str]) -> Rows:
        """The same of a whole configuration: acting on half of one gives references back.

        Raises DatabaseLost where there is no key CONFIG_DB_INITIALIZED in that moment.
        """
        return self._tables(CONFIG, tables, must_be_whole=True)

    def check_whole(self) -> None:
        """Raises DatabaseLost where CONFIG_DB is not whole, as after FLUSHDB, of which redis tells no key."""
        if self.command(CONFIG, ["GET", "CONFIG_DB_INITIALIZED"]) != "1":
            raise DatabaseLost(HALF)

    def get_table(self, table: str) -> dict[str, Row]:
        """The rows of one CONFIG_DB table by key."""
        return self.get_tables((table,))[table]

    def get_entry(self, table: str, key: str) -> Row:
        """One CONFIG_DB row, {} when there is none."""
        return self.hashes(CONFIG, [f"{table}|{key}"])[0]

    def get_whole_entry(self, table: str, key: str) -> Row:
        """The same; raises DatabaseLost where it may be missing because CONFIG_DB is not whole."""
        answer = self.run(CONFIG, scripts.READ_ENTRY, (), [f"{table}|{key}"])
        if not answer:
            raise DatabaseLost(HALF)
        return _paired(json.loads(answer))

    def write(
        self, changes: Sequence[Change], owner: str = "", expected: Mapping[tuple[str, str], Row] | None = None
    ) -> None:
        """Apply the changes to CONFIG_DB in order, in one transaction.

        With an `owner`, only while he holds the lock; raises NotHolder otherwise. With `expected`, rows by table and
        key ({}: none), only while CONFIG_DB is whole and has them; raises RowsChanged otherwise.
        """
        self._write(CONFIG, changes, owner, expected)

    def mod_entry(self, table: str, key: str, fields: Mapping[str, str]) -> None:
        """Set fields of a CONFIG_DB row, leave its others alone."""
        self.write((Merge(table, key, fields),))

    def delete_fields(self, table: str, key: str, fields: Iterable[str]) -> None:
        """Remove fields of a CONFIG_DB row."""
        self.write((Drop(table, key, tuple(fields)),))

    def set_entry(self, table: str, key: str, row: Mapping[str, str]) -> None:
        """Make a CONFIG_DB row exactly this."""
        self.write((Put(table, key, row),))

    def delete(self, table: str, key: str) -> None:
        """Remove a CONFIG_DB row."""
        self.write((Delete(table, key),))

    def get_state(self, table: str) -> dict[str, Row]:
        """The rows of a STATE_DB table by key."""
        return self._tables(STATE, (table,))[table]

    def set_state(self, table: str, key: str, row: Mapping[str, str]) -> None:
        """Make a STATE_DB row exactly this."""
        self.write_state((Put(table, key, row),))

    def delete_state(self, table: str, key: str) -> None:
        """Remove a STATE_DB row."""
        self.write_state((Delete(table, key),))

    def write_state(self, changes: Sequence[Change], owner: str = "") -> None:
        """Apply the changes to STATE_DB as `write` does to CONFIG_DB."""
        self._write(STATE, changes, owner)

    def hold(self, owner: str, milliseconds: int, instead_of: str = "") -> str:
        """Take the lock of who writes, or keep it, for so long; answers who has it.

        `instead_of`: a holder who is known to be gone.
        """
        return self.run(STATE, scripts.HOLD, (HOLDER,), (owner, str(milliseconds), instead_of))

    def release(self, owner: str) -> None:
        """Give the lock back if it is the owner's."""
        self.run(STATE, scripts.RELEASE, (HOLDER,), (owner,))

    def produce(self, table: str, key: str, fields: Mapping[str, str]) -> None:
        """Hand a row to the consumer of an APPL_DB table, as ProducerStateTable.set does."""
        self._produce(scripts.PRODUCE, table, key, scripts.flat(fields or EMPTY))

    def produce_delete(self, table: str, key: str) -> None:
        """Hand a deletion to the consumer of an APPL_DB table, as ProducerStateTable.del does."""
        self._produce(scripts.PRODUCE_DELETE, table, key, [])

    def produce_all(self, changes: Sequence[Put | Delete], owner: str) -> None:
        """Hand rows and deletions to the consumers of APPL_DB tables, in one step; NotHolder if it is not his to do."""
        if not changes:
            return
        rows = [[one.table, one.key, *(scripts.flat(one.row) if isinstance(one, Put) else ())] for one in changes]
        args = (owner, str(STATE), str(APPL), *scripts.counted(rows))
        _, _, holder = self.run(APPL, scripts.PRODUCE_ALL, (HOLDER,), args).partition(" ")
        if holder:
            raise NotHolder(f"another switchd writes here: {holder}; nothing was written")

    def produced(self, tables: Sequence[str]) -> list[Change]:
        """What the consumers of APPL_DB tables have not taken yet, as changes of those tables."""
        found: list[Change] = []
        for table, key, is_gone, row in json.loads(self.run(APPL, scripts.PRODUCED, (), tables)):
            found += [Delete(table, key)] if int(is_gone) else []
            found += [Merge(table, key, _paired(row))] if row else []
        return found

    def counters(self, key: str) -> Row:
        """One hash of COUNTERS_DB by its whole key (`COUNTERS_QUEUE_NAME_MAP`, `COUNTERS:oid:0x15`); {} when absent."""
        return self.many_counters([key])[0]

    def many_counters(self, keys: Sequence[str]) -> list[Row]:
        """Several hashes of COUNTERS_DB, in order."""
        return self.hashes(COUNTERS, keys)

    def hashes(self, number: int, keys: Sequence[str]) -> list[Row]:
        """Hashes of one database by their whole keys, in order; {} for one that is not there."""
        found: list[Row] = []
        for at in range(0, len(keys), READ_AT_ONCE):
            some = keys[at : at + READ_AT_ONCE]
            answer = json.loads(self.run(number, scripts.READ_HASHES, (), some))
            found += [_paired(one) for one in answer]
        return found

    def scan(self, number: int, pattern: str) -> Iterator[str]:
        """Keys of one database that match a glob pattern, step by step."""
        cursor = "0"
        while True:
            cursor, keys = json.loads(self.run(number, scripts.SCAN, (), (cursor, pattern)))
            yield from keys
            if cursor == "0":
                return

    def _tables(self, number: int, tables: Iterable[str], must_be_whole: bool = False) -> Rows:
        rows: Rows = {table: {} for table in tables}
        args = ("1" if must_be_whole else "", scripts.glob_over(rows), *rows)
        answer = self.run(number, scripts.READ_TABLES, (), args)
        if not answer:
            raise DatabaseLost(HALF)
        for whole, found in sorted(json.loads(answer)):
            table, _, key = whole.partition("|")
            rows[table][key] = _paired(found)
        return rows

    def _write(
        self,
        number: int,
        changes: Sequence[Change],
        owner: str,
        expected: Mapping[tuple[str, str], Row] | None = None,
    ) -> None:
        if not changes:
            return
        commands = [*scripts.conditions(expected), *map(scripts.words_of, changes)]
        args = (owner, str(STATE), str(number), scripts.packed(commands))
        refusal, _, what = self.run(number, scripts.WRITE, (HOLDER,), args).partition(" ")
        if refusal == "holder":
            raise NotHolder(f"another switchd writes here: {what}; nothing was written")
        if refusal == "odd":
            raise DatabaseLost(f"redis: {what} is no hash, expected a row or nothing; nothing was written")
        if refusal:
            raise RowsChanged(f"redis: {what} changed after it was read")

    def _produce(self, script: str, table: str, key: str, row: list[str]) -> None:
        keys = (f"{table}_KEY_SET", f"{table}_DEL_SET", f"_{table}:{key}")
        self.run(APPL, script, keys, (f"{table}_CHANNEL@{APPL}", key, *row))


def _paired(flat: Any) -> Row:
    """[field, value, ...] as a row; Lua's empty list arrives as an empty object."""
    words = list(flat)
    return dict(zip(words[::2], words[1::2], strict=True))
