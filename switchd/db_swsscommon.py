"""The database through SONiC's own library, on a switch (python3-swsscommon).

Not run by our tests where swsscommon is not installed; the tests over both backends then say so. Rows stay strings: a
leaf-list that ConfigDBConnector hands out as a list goes back to the field `name@`. CONFIG_DB changes of several rows
are one transaction only where no field is removed; the daemon plans again after any change, so a half-seen sequence
is repaired by the next plan.
"""

# ruff: noqa: D102 - db.Database has the docstrings
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from switchd.db import Database, DatabaseLost, Event, Watch
from switchd.rows import EMPTY, Change, Delete, Drop, Merge, Put, Row, Rows

try:
    from swsscommon import swsscommon
except ImportError:  # not a switch
    swsscommon = None

CONNECT_TIMEOUT_MS = 0  # 0: wait for ever, as SONiC's own daemons do


def available() -> bool:
    """Whether swsscommon can be imported here."""
    return swsscommon is not None


@contextmanager
def lost() -> Iterator[None]:
    """Turn the library's errors (C++ exceptions arrive as RuntimeError) into DatabaseLost."""
    try:
        yield
    except (RuntimeError, OSError) as error:
        raise DatabaseLost(f"redis: {error}") from error


def to_strings(entry: Mapping[str, Any]) -> Row:
    """A row as redis holds it: a list is the field `name@` with commas; an empty row is NULL."""
    row = {
        f"{f}@" if isinstance(v, list) else f: ",".join(v) if isinstance(v, list) else str(v) for f, v in entry.items()
    }
    return row or dict(EMPTY)


def to_typed(row: Mapping[str, str]) -> dict[str, Any]:
    """The reverse of to_strings, for ConfigDBConnector's setters."""
    return {f.removesuffix("@"): v.split(",") if f.endswith("@") else v for f, v in row.items() if f != "NULL"}


def joined(key: str | tuple[str, ...]) -> str:
    """ConfigDBConnector gives a key of several parts as a tuple."""
    return key if isinstance(key, str) else "|".join(key)


class SwsscommonDatabase(Database):
    """A connector is not shared between threads: every thread has its own connections."""

    def __init__(self) -> None:
        self._local = threading.local()

    def _config(self) -> Any:
        if not hasattr(self._local, "config"):
            with lost():
                self._local.config = swsscommon.ConfigDBConnector(use_unix_socket_path=True)
                self._local.config.connect(wait_for_init=False)
        return self._local.config

    def _raw(self, name: str) -> Any:
        """A DBConnector: redis commands, no conventions."""
        if not hasattr(self._local, f"raw_{name}"):
            setattr(self._local, f"raw_{name}", swsscommon.DBConnector(name, CONNECT_TIMEOUT_MS, False))
        return getattr(self._local, f"raw_{name}")

    def _connector(self, name: str) -> Any:
        """A SonicV2Connector connected to one database."""
        if not hasattr(self._local, name):
            with lost():
                connector = swsscommon.SonicV2Connector(use_unix_socket_path=True)
                connector.connect(name)
                setattr(self._local, name, connector)
        return getattr(self._local, name)

    def _state_table(self, table: str) -> Any:
        return swsscommon.Table(self._raw("STATE_DB"), table)

    def ready(self) -> bool:
        with lost():
            return bool(self._raw("CONFIG_DB").get("CONFIG_DB_INITIALIZED") == "1")

    def get_tables(self, tables: Iterable[str]) -> Rows:
        with lost():
            return {
                table: {joined(key): to_strings(row) for key, row in self._config().get_table(table).items()}
                for table in tables
            }

    def get_entry(self, table: str, key: str) -> Row:
        with lost():
            entry = self._config().get_entry(table, tuple(key.split("|")))
            return to_strings(entry) if entry else {}

    def write(self, changes: Sequence[Change]) -> None:
        with lost():
            for change in changes:
                key = tuple(change.key.split("|"))
                match change:
                    case Merge():
                        self._config().mod_entry(change.table, key, to_typed(change.fields) or dict(EMPTY))
                    case Put():
                        self._config().set_entry(change.table, key, to_typed(change.row) or dict(EMPTY))
                    case Drop():
                        self._drop(change, key)
                    case Delete():
                        self._config().set_entry(change.table, key, None)

    def _drop(self, change: Drop, key: tuple[str, ...]) -> None:
        """Remove fields one by one; set_entry would write the row's other fields as they were when they were read."""
        for field in change.fields:
            self._raw("CONFIG_DB").hdel("|".join((change.table, *key)), field)

    def watch(self, tables: Iterable[str]) -> "SwsscommonWatch":
        return SwsscommonWatch(tuple(tables))

    def get_state(self, table: str) -> dict[str, Row]:
        with lost():
            handle = self._state_table(table)
            return {key: dict(handle.get(key)[1]) for key in handle.getKeys()}

    def set_state(self, table: str, key: str, row: Mapping[str, str]) -> None:
        with lost():
            handle = self._state_table(table)
            handle._del(key)
            handle.set(key, swsscommon.FieldValuePairs(list((row or EMPTY).items())))

    def delete_state(self, table: str, key: str) -> None:
        with lost():
            self._state_table(table)._del(key)

    def _producer(self, table: str) -> Any:
        return swsscommon.ProducerStateTable(self._raw("APPL_DB"), table)

    def produce(self, table: str, key: str, fields: Mapping[str, str]) -> None:
        with lost():
            self._producer(table).set(key, swsscommon.FieldValuePairs(list((fields or EMPTY).items())))

    def produce_delete(self, table: str, key: str) -> None:
        with lost():
            self._producer(table)._del(key)

    def counters(self, key: str) -> Row:
        with lost():
            connector = self._connector("COUNTERS_DB")
            return dict(connector.get_all(connector.COUNTERS_DB, key) or {})

    def close(self) -> None:
        self._local = threading.local()


class SwsscommonWatch(Watch):
    """SubscriberStateTable for each table and one Select; the library gives existing rows first."""

    def __init__(self, tables: Sequence[str]) -> None:
        with lost():
            self._select = swsscommon.Select()
            self._db = swsscommon.DBConnector("CONFIG_DB", CONNECT_TIMEOUT_MS, False)
            self._subscribers = {table: swsscommon.SubscriberStateTable(self._db, table) for table in tables}
            for subscriber in self._subscribers.values():
                self._select.addSelectable(subscriber)

    def poll(self, timeout_s: float) -> list[Event]:
        with lost():
            state, _ = self._select.select(int(timeout_s * 1000))
            if state == swsscommon.Select.ERROR:
                raise DatabaseLost("redis: select failed")
            return [event for table, sub in self._subscribers.items() for event in _drained(table, sub)]

    def close(self) -> None:
        for subscriber in self._subscribers.values():
            self._select.removeSelectable(subscriber)


def _drained(table: str, subscriber: Any) -> Iterator[Event]:
    while True:
        key, op, fields = subscriber.pop()
        if not key:
            return
        yield Event(table, key, dict(fields) if op == "SET" else None)
