"""Rows of a switch's redis as events of the machine, by the channels that orchagent itself listens to.

CONFIG_DB by keyspace notifications: a deletion is told as such, anything else as the whole row that is there when it is
read. APPL_DB by ProducerStateTable's protocol: only what was written since the last look.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import redis

from lab.control.vasic.machine.machine import APPL_TABLES, CONFIG_TABLES
from lab.control.vasic.machine.waiting import Task
from lab.control.vasic.rows import APPL_DB, CONFIG_DB, Rows, connect

PORT = "PORT"
BATCH = 1024
CHANGES = ("message", "pmessage")
POP = """
local told = {}
for _, key in ipairs(redis.call('SPOP', ARGV[1] .. '_KEY_SET', ARGV[2])) do
    local row, written = ARGV[1] .. ':' .. key, '_' .. ARGV[1] .. ':' .. key
    if redis.call('SREM', ARGV[1] .. '_DEL_SET', key) == 1 then redis.call('DEL', row) end
    local fields = redis.call('HGETALL', written)
    if #fields > 0 then
        redis.call('HSET', row, unpack(fields))
        redis.call('DEL', written)
    end
    table.insert(told, {key, fields})
end
return told
"""
"""Takes what waits in a table of APPL_DB: keys, each with the fields that were written, or none if it is deleted."""


@dataclass(frozen=True)
class Event:
    """Changed rows of one table."""

    table: str
    tasks: tuple[Task, ...]


class Feed:
    """The events of one switch, and its CONFIG_DB as they have told it so far.

    rows  CONFIG_DB's followed tables as read: equal to what stands once nothing is left to read
    """

    def __init__(self, socket_path: str) -> None:
        self._config, self._appl = connect(socket_path, CONFIG_DB), connect(socket_path, APPL_DB)
        self.rows: Rows = {table: {} for table in (PORT, *CONFIG_TABLES)}
        self._held: list[Any] = []
        self._pop = self._appl.register_script(POP)
        self._messages: redis.client.PubSub = self._config.pubsub()  # type: ignore[no-untyped-call]
        self._messages.psubscribe(*[f"__keyspace@{CONFIG_DB}__:{table}|*" for table in self.rows])
        self._messages.subscribe(*[f"{table}_CHANNEL@{APPL_DB}" for table in APPL_TABLES])

    def first(self) -> list[Event]:
        """All rows of CONFIG_DB that are there at the start; APPL_DB is emptied, as a cold start of swss does."""
        self._appl.flushdb()
        keys = [key for key in map(str, self._config.keys("*")) if key.partition("|")[0] in self.rows]
        return list(self._config_events((key, "hset") for key in sorted(keys)))

    def wait(self, timeout_s: float) -> bool:
        """Whether something came within the time; it is kept for `read`."""
        deadline = time.monotonic() + timeout_s
        while not self._held:
            message = self._messages.get_message(timeout=max(0.0, deadline - time.monotonic()))
            if message is None:
                return False
            if message["type"] in CHANGES:
                self._held.append(message)
        return True

    def read(self) -> list[Event]:
        """What came, by table in the order of its first word."""
        messages, self._held = self._held, []
        while (message := self._messages.get_message(timeout=0)) is not None:
            messages.append(message)
        config: list[tuple[str, str]] = []
        appl: dict[str, None] = {}
        for message in messages:
            channel = str(message["channel"])
            if message["type"] == "pmessage":
                config.append((channel.partition(":")[2], str(message["data"])))
            elif message["type"] == "message":
                appl[channel.partition("_CHANNEL@")[0]] = None
        return [*self._config_events(config), *self._appl_events(appl)]

    def _config_events(self, told: Iterable[tuple[str, str]]) -> Iterator[Event]:
        names = list(told)
        pipe = self._config.pipeline(transaction=True)
        for name, _ in names:
            pipe.hgetall(name)
        tasks: dict[str, list[Task]] = {}
        for (name, op), row in zip(names, pipe.execute(), strict=True):
            table, _, key = name.partition("|")
            if row:
                self.rows[table][key] = {field: text for field, text in row.items() if field != "NULL"}
            else:
                self.rows[table].pop(key, None)
            if op == "del":
                tasks.setdefault(table, []).append(Task("DEL", key))
            elif row:
                plain = {field.removesuffix("@"): text for field, text in row.items()}
                tasks.setdefault(table, []).append(Task("SET", key, plain))
        return (Event(table, tuple(found)) for table, found in tasks.items())

    def _appl_events(self, tables: Iterable[str]) -> Iterator[Event]:
        for table in tables:
            told: Any = self._pop(args=[table, BATCH])
            tasks = []
            for key, fields in told:
                row = dict(zip(fields[::2], fields[1::2], strict=True))
                tasks.append(Task("SET", key, row) if row else Task("DEL", key))
            if tasks:
                yield Event(table, tuple(tasks))
