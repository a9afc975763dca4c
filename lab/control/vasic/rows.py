"""CONFIG_DB rows as plain values, read over redis. Nothing here says what they mean."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

import redis

from lab.control.vasic.machine.machine import CONFIG_TABLES

Rows = dict[str, dict[str, dict[str, str]]]
"""table -> key -> field -> value"""
Fields = dict[bytes | bytearray | memoryview | str | int | float, bytes | bytearray | memoryview | str | int | float]
"""What redis-py takes for a hash; ours are strings."""

APPL_DB, ASIC_DB, COUNTERS_DB, CONFIG_DB, STATE_DB = 0, 1, 2, 4, 6
TABLES = ("PORT", *CONFIG_TABLES)


def connect(socket_path: str, database: int) -> redis.Redis:
    """A connection to one database of a switch."""
    return redis.Redis(unix_socket_path=socket_path, db=database, decode_responses=True)


def read(config_db: redis.Redis) -> Rows:
    """All rows of the tables that an ASIC follows, in two round trips."""
    rows: Rows = {table: {} for table in TABLES}
    keys = [key for key in map(str, config_db.keys("*")) if key.partition("|")[0] in rows]
    pipe = config_db.pipeline(transaction=True)
    for key in keys:
        pipe.hgetall(key)
    for key, row in zip(keys, pipe.execute(), strict=True):
        table, _, name = key.partition("|")
        if row:
            rows[table][name] = {field: value for field, value in row.items() if field != "NULL"}
    return rows


def fingerprint(rows: Mapping[str, Mapping[str, Mapping[str, str]]]) -> str:
    """A name for the content of the rows, to compare with STATE_DB VASIC|global field rows_hash."""
    kept = {table: entries for table, entries in rows.items() if table in TABLES and entries}
    return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()[:16]
