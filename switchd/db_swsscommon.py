"""The database through SONiC's own library, on a switch (python3-swsscommon).

The library's connections never recover from a redis that went away, so one that failed is dropped and the next call
opens another; when to call again is the daemon's to decide, as with the other backend.
"""

# ruff: noqa: D102 - db.Database has the docstrings
import re
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from switchd.db import CONFIG, NAMES, Database, DatabaseLost, Event, Notices, Watch
from switchd.namespaces import unknown
from switchd.patchers import OURS

try:
    from swsscommon import swsscommon
except ImportError:  # not a switch
    swsscommon = None

CONNECT_TIMEOUT_MS = 5000


def available() -> bool:
    """Whether swsscommon can be imported here."""
    return swsscommon is not None


@contextmanager
def lost() -> Iterator[None]:
    """Turn the library's errors (C++ exceptions arrive as RuntimeError) into DatabaseLost."""
    try:
        yield
    except (RuntimeError, OSError) as error:
        why = re.split(r", reason: |, err=\d+: errstr=", str(error))[
            -1
        ]  # the command, a whole script, stands before it
        raise DatabaseLost(f"redis: {why}") from error


def connector(name: str, namespace: str) -> Any:
    """A connection of its own. Raises RuntimeError."""
    found = swsscommon.DBConnector(name, CONNECT_TIMEOUT_MS, False, *([namespace] if namespace else ()))
    found.setClientName(OURS)
    return found


class SwsscommonDatabase(Database):
    """A connector is not shared between threads: every thread has its own connections.

    `namespace`: of several ASICs; "" where there is one, or within an ASIC's own container. Raises QclimbError where
    SONiC knows none of that name.
    """

    def __init__(self, namespace: str = "") -> None:
        self._local = threading.local()
        self._namespace = namespace
        if namespace and not swsscommon.SonicDBConfig.isGlobalInit():
            with lost():
                swsscommon.SonicDBConfig.initializeGlobalConfig()
        known = swsscommon.SonicDBConfig.getNamespaces() if namespace else ()
        if namespace and namespace not in known:  # the library raises IndexError, later
            raise unknown("SONiC's description of its databases", namespace, filter(None, known))

    def command(self, number: int, words: Sequence[str]) -> str:
        command = swsscommon.RedisCommand()
        command.format([*words])
        connections: dict[Any, Any] = self._local.__dict__
        try:
            with lost():
                if number not in connections:
                    connections[number] = connector(NAMES[number], self._namespace)
                reply = swsscommon.RedisReply(connections[number], command)
                return str(swsscommon.RedisReply.to_string(reply.getContext(), ""))
        except DatabaseLost:
            connections.clear()
            raise

    def watch(self, tables: Iterable[str]) -> "SwsscommonWatch":
        return SwsscommonWatch(tuple(tables), self._namespace)

    def notices(self, patterns: Mapping[int, str]) -> "SwsscommonNotices":
        return SwsscommonNotices(patterns, self._namespace)

    def close(self) -> None:
        self._local = threading.local()


class _Keyspace:
    """Keyspace notifications of one database by a glob pattern. Raises what the library does."""

    def __init__(self, number: int, glob: str, namespace: str) -> None:
        self._prefix = f"__keyspace@{number}__:"
        self._db = connector(NAMES[number], namespace)  # the library's PubSub has a bare pointer to it
        self._pubsub = self._db.pubsub()
        self._pubsub.psubscribe(f"{self._prefix}{glob}")

    def came(self) -> list[str]:
        """Those that have come; waits for nothing."""
        found, message = [], self._pubsub.get_message()
        while "type" in message:
            if message["type"] == "pmessage":
                found.append(message["channel"].removeprefix(self._prefix))
            message = self._pubsub.get_message()
        return found


class SwsscommonNotices(Notices):
    """A connection for each database. Of the thread that made it."""

    def __init__(self, patterns: Mapping[int, str], namespace: str = "") -> None:
        with lost():
            self._of = {number: _Keyspace(number, glob, namespace) for number, glob in patterns.items()}

    def take(self) -> set[tuple[int, str]]:
        with lost():
            return {(number, key) for number, one in self._of.items() for key in one.came()}

    def close(self) -> None:
        self._of.clear()


class SwsscommonWatch(Watch):
    """SubscriberStateTable for each table and one Select; the library gives existing rows first.

    Beside it the notifications of all tables, as ConfigDBConnector.listen takes them.
    """

    def __init__(self, tables: Sequence[str], namespace: str = "") -> None:
        with lost():
            self._select = swsscommon.Select()
            self._db = connector("CONFIG_DB", namespace)
            self._subscribers = {table: swsscommon.SubscriberStateTable(self._db, table) for table in tables}
            for subscriber in self._subscribers.values():
                self._select.addSelectable(subscriber)
            self._all = _Keyspace(CONFIG, "*", namespace)

    def poll(self, timeout_s: float) -> list[Event]:
        with lost():
            state, _ = self._select.select(int(timeout_s * 1000))
            if state == swsscommon.Select.ERROR:
                raise DatabaseLost("redis: select failed")
            self.has_others = any(key.partition("|")[0] not in self._subscribers for key in self._all.came())
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
