"""The database through redis-py, for machines without swsscommon (the lab, tests)."""

# ruff: noqa: D102 - db.Database has the docstrings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from switchd.db import APPL, ASIC, CONFIG, COUNTERS, STATE, Database, DatabaseLost, Event, Notices, Watch
from switchd.patchers import OURS

TIMEOUT_S = 5.0


@contextmanager
def lost() -> Iterator[None]:
    """Turn redis-py's errors, also "LOADING" after a restart, into DatabaseLost."""
    try:
        yield
    except (redis.RedisError, OSError) as error:
        raise DatabaseLost(f"redis: {error}") from error


def client(url: str, number: int, *, timeout_s: float | None = TIMEOUT_S) -> "redis.Redis":
    """One connection pool for one database; no silent reconnect, so that nobody misses what happened meanwhile."""
    return redis.Redis.from_url(
        url,
        db=number,
        client_name=OURS,
        decode_responses=True,
        encoding_errors="surrogateescape",
        socket_timeout=timeout_s,
        retry=Retry(NoBackoff(), 0),
    )


class RedisDatabase(Database):
    """`url` is `unix:///path/redis.sock` or `redis://127.0.0.1:port`.

    Threads may share one object. No connection is made yet.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self._clients = {number: client(url, number) for number in (APPL, ASIC, COUNTERS, CONFIG, STATE)}

    def command(self, number: int, words: Sequence[str]) -> str:
        packed = [text.encode(errors="surrogateescape") for text in words]  # hiredis packs strict UTF-8 alone
        with lost():
            return str(self._clients[number].execute_command(*packed))  # type: ignore[no-untyped-call]

    def watch(self, tables: Iterable[str]) -> "RedisWatch":
        return RedisWatch(self, tuple(tables))

    def notices(self, patterns: Mapping[int, str]) -> "RedisNotices":
        return RedisNotices(self.url, [f"__keyspace@{number}__:{glob}" for number, glob in patterns.items()])

    def close(self) -> None:
        for connection in self._clients.values():
            connection.close()


class _Keyspace:
    """Keyspace notifications by these patterns. Raises DatabaseLost, as its methods do."""

    def __init__(self, url: str, patterns: Sequence[str]) -> None:
        self._client = client(url, CONFIG)
        with lost():
            flags = self._client.config_get("notify-keyspace-events").get("notify-keyspace-events")
            if not {"A", "K"} <= set(str(flags)):
                self._client.config_set("notify-keyspace-events", "AKE")  # what SONiC's redis is started with
            self._pubsub: Any = self._client.pubsub()  # type: ignore[no-untyped-call]
            self._pubsub.psubscribe(*patterns)
            self._missing = len(patterns)

    def stands(self) -> None:
        """Wait until redis has heard of them: what happens from now on is told."""
        with lost():
            while self._missing:
                message = self._pubsub.get_message(timeout=TIMEOUT_S)
                if message is None:
                    raise DatabaseLost("redis: no answer to PSUBSCRIBE")
                self._missing -= message["type"] == "psubscribe"

    def keys(self, timeout_s: float) -> Iterator[tuple[int, str]]:
        """Database and key of each that has come; waits at most `timeout_s` for the first."""
        with lost():
            while self._pubsub.connection.can_read(timeout=timeout_s):
                timeout_s = 0
                message = self._pubsub.get_message(timeout=TIMEOUT_S)  # what has come in part comes whole
                if message is not None and message["type"] == "pmessage":
                    place, _, key = message["channel"].removeprefix("__keyspace@").partition("__:")
                    yield int(place), key

    def close(self) -> None:
        self._pubsub.close()
        self._client.close()


class RedisNotices(Notices):
    """On a connection of its own."""

    def __init__(self, url: str, patterns: Sequence[str]) -> None:
        self._keyspace = _Keyspace(url, patterns)
        self._keyspace.stands()

    def take(self) -> set[tuple[int, str]]:
        return set(self._keyspace.keys(0))

    def close(self) -> None:
        self._keyspace.close()


class RedisWatch(Watch):
    """Keyspace notifications of CONFIG_DB.

    The subscription stands before the first rows are read, so no change falls between.
    """

    def __init__(self, db: RedisDatabase, tables: Sequence[str]) -> None:
        self._db, self._tables = db, tables
        self._wanted = {*tables, "CONFIG_DB_INITIALIZED"}
        self._keyspace = _Keyspace(db.url, [f"__keyspace@{CONFIG}__:*"])
        self._first = True

    def poll(self, timeout_s: float) -> list[Event]:
        if self._first:
            self._first = False
            self._keyspace.stands()
            rows = self._db.get_tables(self._tables)
            return [Event(t, key, row) for t, entries in rows.items() for key, row in entries.items()]
        keys = self._changed_keys(timeout_s)
        found = self._db.hashes(CONFIG, keys)
        return [Event(*key.partition("|")[::2], row or None) for key, row in zip(keys, found, strict=True)]

    def _changed_keys(self, timeout_s: float) -> list[str]:
        """What the notifications that have arrived name of these tables, each once, in order."""
        keys: dict[str, None] = {}
        self.has_others = False
        for _, key in self._keyspace.keys(timeout_s):
            if key.partition("|")[0] in self._wanted:
                keys[key] = None
            else:
                self.has_others = True
        return list(keys)

    def close(self) -> None:
        self._keyspace.close()
