"""The switch's redis as qclimb uses it: one interface, two backends.

`db_swsscommon` speaks through SONiC's own library on a switch, `db_redis` through redis-py elsewhere; both produce
the same keys and the same APPL_DB protocol (sonic-swss-common, ProducerStateTable). Database numbers and separators
are SONiC's.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from qclimb.errors import QclimbError

from switchd.rows import Change, Delete, Drop, Merge, Put, Row, Rows


class DatabaseLost(QclimbError):
    """Redis can't be reached, or went away in the middle; the caller tries again later."""


@dataclass(frozen=True)
class Event:
    """A row as it is now: `row` is None when it was deleted."""

    table: str
    key: str
    row: Row | None


class Watch(ABC):
    """A subscription to CONFIG_DB tables. The first `poll` gives the rows that were there, as events."""

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


class Database(ABC):
    """CONFIG_DB to read, write and watch, STATE_DB to show, APPL_DB to produce into, COUNTERS_DB to read.

    Every method may raise DatabaseLost.
    """

    @abstractmethod
    def ready(self) -> bool:
        """Whether CONFIG_DB holds a whole configuration (the key CONFIG_DB_INITIALIZED).

        Acting on half of one gives references back.
        """

    @abstractmethod
    def get_tables(self, tables: Iterable[str]) -> Rows:
        """The rows of these CONFIG_DB tables; a table without rows is an empty dict."""

    def get_table(self, table: str) -> dict[str, Row]:
        """The rows of one CONFIG_DB table by key."""
        return self.get_tables((table,))[table]

    @abstractmethod
    def get_entry(self, table: str, key: str) -> Row:
        """One CONFIG_DB row, {} when there is none."""

    @abstractmethod
    def write(self, changes: Sequence[Change]) -> None:
        """Apply the changes to CONFIG_DB in order; with the redis backend in one transaction."""

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

    @abstractmethod
    def watch(self, tables: Iterable[str]) -> Watch:
        """Subscribe to CONFIG_DB tables."""

    @abstractmethod
    def get_state(self, table: str) -> dict[str, Row]:
        """The rows of a STATE_DB table by key."""

    @abstractmethod
    def set_state(self, table: str, key: str, row: Mapping[str, str]) -> None:
        """Make a STATE_DB row exactly this."""

    @abstractmethod
    def delete_state(self, table: str, key: str) -> None:
        """Remove a STATE_DB row."""

    @abstractmethod
    def produce(self, table: str, key: str, fields: Mapping[str, str]) -> None:
        """Hand a row to the consumer of an APPL_DB table, as ProducerStateTable.set does."""

    @abstractmethod
    def produce_delete(self, table: str, key: str) -> None:
        """Hand a deletion to the consumer of an APPL_DB table, as ProducerStateTable.del does."""

    @abstractmethod
    def counters(self, key: str) -> Row:
        """One hash of COUNTERS_DB by its whole key (`COUNTERS_QUEUE_NAME_MAP`, `COUNTERS:oid:0x15`); {} when absent."""

    def many_counters(self, keys: Sequence[str]) -> list[Row]:
        """Several hashes of COUNTERS_DB, in order."""
        return [self.counters(key) for key in keys]

    @abstractmethod
    def close(self) -> None:
        """Give the connections back."""
