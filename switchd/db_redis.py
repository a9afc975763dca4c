"""The database through redis-py, for machines without swsscommon (the lab, tests).

Wire protocol: CONFIG_DB and STATE_DB are plain hashes `TABLE|key`; changes are seen by keyspace notifications;
APPL_DB is written by ProducerStateTable's protocol, one EVAL an operation (sonic-swss-common,
producerstatetable.cpp): a plain HSET would not be noticed.
"""

# ruff: noqa: D102 - db.Database has the docstrings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from switchd.db import Database, DatabaseLost, Event, Watch
from switchd.rows import EMPTY, Change, Delete, Drop, Merge, Put, Row, Rows

APPL, COUNTERS, CONFIG, STATE = 0, 2, 4, 6  # SONiC's database_config.json
TIMEOUT_S = 5.0

# KEYS: T_KEY_SET, T_DEL_SET, _T:K. ARGV: channel, K, then field, value, ...
PRODUCE = """
local added = redis.call('SADD', KEYS[1], ARGV[2])
for i = 3, #ARGV, 2 do redis.call('HSET', KEYS[3], ARGV[i], ARGV[i + 1]) end
if added == 1 then redis.call('PUBLISH', ARGV[1], 'G') end
"""
PRODUCE_DELETE = """
local added = redis.call('SADD', KEYS[1], ARGV[2])
redis.call('SADD', KEYS[2], ARGV[2])
redis.call('DEL', KEYS[3])
if added == 1 then redis.call('PUBLISH', ARGV[1], 'G') end
"""


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
        self._config, self._state = client(url, CONFIG), client(url, STATE)
        self._appl, self._counters = client(url, APPL), client(url, COUNTERS)

    def ready(self) -> bool:
        with lost():
            return self._config.get("CONFIG_DB_INITIALIZED") == "1"

    def get_tables(self, tables: Iterable[str]) -> Rows:
        with lost():
            return _tables(self._config, tables)

    def get_entry(self, table: str, key: str) -> Row:
        with lost():
            return _row(self._config, f"{table}|{key}")

    def write(self, changes: Sequence[Change]) -> None:
        if not changes:
            return
        with lost():
            pipe = self._config.pipeline(transaction=True)
            for change in changes:
                _queue(pipe, change)
            pipe.execute()

    def watch(self, tables: Iterable[str]) -> "RedisWatch":
        return RedisWatch(self.url, tuple(tables))

    def get_state(self, table: str) -> dict[str, Row]:
        with lost():
            return _tables(self._state, (table,))[table]

    def set_state(self, table: str, key: str, row: Mapping[str, str]) -> None:
        with lost():
            pipe = self._state.pipeline(transaction=True)
            _queue(pipe, Put(table, key, row))
            pipe.execute()

    def delete_state(self, table: str, key: str) -> None:
        with lost():
            self._state.delete(f"{table}|{key}")

    def produce(self, table: str, key: str, fields: Mapping[str, str]) -> None:
        flat = [text for pair in (fields or EMPTY).items() for text in pair]
        self._produce(PRODUCE, table, key, flat)

    def produce_delete(self, table: str, key: str) -> None:
        self._produce(PRODUCE_DELETE, table, key, [])

    def _produce(self, script: str, table: str, key: str, flat: list[str]) -> None:
        keys = (f"{table}_KEY_SET", f"{table}_DEL_SET", f"_{table}:{key}")
        with lost():
            self._appl.eval(script, len(keys), *keys, f"{table}_CHANNEL@{APPL}", key, *flat)

    def counters(self, key: str) -> Row:
        with lost():
            return _row(self._counters, key)

    def many_counters(self, keys: Sequence[str]) -> list[Row]:
        with lost():
            pipe: Any = self._counters.pipeline(transaction=False)
            for key in keys:
                pipe.hgetall(key)
            rows: list[Row] = pipe.execute()
            return rows

    def close(self) -> None:
        for connection in (self._config, self._state, self._appl, self._counters):
            connection.close()


class RedisWatch(Watch):
    """Keyspace notifications of CONFIG_DB.

    The subscription stands before the first rows are read, so no change falls between.
    """

    def __init__(self, url: str, tables: Sequence[str]) -> None:
        self._tables = tables
        self._config = client(url, CONFIG)
        self._prefix = f"__keyspace@{CONFIG}__:"
        with lost():
            flags = self._config.config_get("notify-keyspace-events").get("notify-keyspace-events")
            if not {"A", "K"} <= set(str(flags)):
                self._config.config_set("notify-keyspace-events", "AKE")  # what SONiC's redis is started with
            self._pubsub: Any = self._config.pubsub()  # type: ignore[no-untyped-call]
            self._pubsub.psubscribe(
                *(f"{self._prefix}{table}|*" for table in tables), f"{self._prefix}CONFIG_DB_INITIALIZED"
            )
        self._first = True

    def poll(self, timeout_s: float) -> list[Event]:
        with lost():
            if self._first:
                self._first = False
                self._await_subscription(len(self._tables) + 1)
                rows = _tables(self._config, self._tables)
                return [Event(t, key, row) for t, entries in rows.items() for key, row in entries.items()]
            keys = self._changed_keys(timeout_s)
            pipe = self._config.pipeline(transaction=False)
            for key in keys:
                if "|" in key:
                    pipe.hgetall(key)
            found = iter(pipe.execute() if keys else ())
            events = []
            for key in keys:
                table, bar, rest = key.partition("|")
                events.append(Event(table, rest, next(found) or None if bar else None))
            return events

    def _await_subscription(self, patterns: int) -> None:
        while patterns:
            message = self._pubsub.get_message(timeout=TIMEOUT_S)
            if message is None:
                raise DatabaseLost("redis: no answer to PSUBSCRIBE")
            patterns -= message["type"] == "psubscribe"

    def _changed_keys(self, timeout_s: float) -> list[str]:
        """What the notifications that have arrived name, each once, in order."""
        keys: dict[str, None] = {}
        message = self._pubsub.get_message(timeout=timeout_s)
        while message is not None:
            if message["type"] == "pmessage":
                keys[message["channel"].removeprefix(self._prefix)] = None
            message = self._pubsub.get_message(timeout=0)
        return list(keys)

    def close(self) -> None:
        self._pubsub.close()
        self._config.close()


def _row(connection: Any, key: str) -> Row:
    row: Row = connection.hgetall(key)
    return row


def _tables(connection: Any, tables: Iterable[str]) -> Rows:
    """Read whole tables: one pass over the keys, then the rows in one transaction."""
    rows: Rows = {table: {} for table in tables}
    keys = sorted(key for key in connection.scan_iter(count=1000) if "|" in key and key.partition("|")[0] in rows)
    pipe = connection.pipeline(transaction=True)
    for key in keys:
        pipe.hgetall(key)
    for key, row in zip(keys, pipe.execute() if keys else (), strict=True):
        table, _, rest = key.partition("|")
        if row:
            rows[table][rest] = row
    return rows


def _queue(pipe: Any, change: Change) -> None:
    key = f"{change.table}|{change.key}"
    match change:
        case Merge():
            pipe.hset(key, mapping=dict(change.fields) or EMPTY)
        case Put():
            pipe.delete(key)
            pipe.hset(key, mapping=dict(change.row) or EMPTY)
        case Drop():
            pipe.hdel(key, *change.fields)
        case Delete():
            pipe.delete(key)
