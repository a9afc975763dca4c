"""One open database: who may write, and what is said where it can't be read or written.

Any thread may call; writes go one at a time.
"""

import json
import secrets
import socket
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

from sqlalchemy import Connection, Engine, select
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DataError, SQLAlchemyError

from ..errors import StoreError
from . import tables
from .postgres import Postgres
from .schema import migrate
from .sqlite_file import SqliteFile
from .upsert import upsert

WAIT_S = 10.0
"""For one's turn to write, and then for another process that writes: of those who wait each holds a thread, and REST
has 40."""
PROBE_S = 1.0
"""From a transaction that could not be kept, or a probe, to the next probe."""
PROBE = "probe"
"""The setting that a probe writes."""


class Behind(Protocol):
    """What holds the tables.

    path   of an embedded one
    place  how it is named in sentences; no secret
    """

    path: Path | None
    place: str
    engine: Engine

    def transaction(self) -> Any:
        """A context manager: a connection to write with; committed at its end, else nothing is written."""

    def check_whole(self) -> None:
        """Raises StoreError where it is known to be damaged."""

    def damage(self, error: BaseException) -> str | None:
        """What a driver's error says of damage."""

    def leads_as(self, name: str) -> None:
        """Under which name this process leads, once that is kept."""

    def close(self) -> None:
        """Lets go of it."""


class Database:
    """One open database, of which this process is the only writer. What it can't do is a StoreError.

    changes  counts the transactions that may have changed settings, tokens, or which hosts there are
    term     larger than that of all who have led it, or an older database, before: a switch knows by it who came later
    """

    def __init__(self, url: str) -> None:
        """Opens, or makes, the database at `url`; brings older tables to today's.

        Raises StoreError, also for a newer version's; LedError where another process leads it.
        """
        self._behind: Behind = _kind_of(url)(url, WAIT_S)
        self.path, self.place, self.engine = self._behind.path, self._behind.place, self._behind.engine
        self.damage: str | None = None
        self.unkept: str | None = None
        self._unkept_at = 0.0
        self._writing = threading.RLock()
        self._open: Connection | None = None
        self._touches_cache = False
        self.changes = self.term = 0
        try:
            with self._said():
                self._behind.check_whole()
            name = f"{socket.gethostname()}-{secrets.token_hex(4)}"
            with self.writing() as connection:
                migrate(connection)
                self.term = self._take_office(connection, name)
            self._behind.leads_as(name)
        except BaseException:
            self.close()
            raise

    def _take_office(self, connection: Connection, name: str) -> int:
        columns = tables.settings.c
        found = connection.scalar(select(columns.value).where(columns.key == "leader"))
        term = max((found or {}).get("term", 0) + 1, int(time.time()))
        value = {"term": term, "name": name}
        row = upsert(connection, tables.settings).values(key="leader", value=value)
        connection.execute(row.on_conflict_do_update(index_elements=["key"], set_={"value": value}))
        return int(term)

    def check(self) -> None:
        """Raises StoreError where it can't be read."""
        with self.reading() as connection:
            connection.scalar(select(tables.settings.c.key).limit(1))

    def check_ready(self) -> None:
        """Raises StoreError also where it was once found damaged, or where the last transaction could not be kept.

        After such a transaction a small one is tried now and then, so that a fault that is over is seen to be.
        """
        self.check()
        self._probe()
        for said in (self.damage, self.unkept):
            if said is not None:
                raise StoreError(said)

    def _probe(self) -> None:
        """Writes a little after a fault, once every PROBE_S and by one thread; `unkept` has the outcome."""
        if self.unkept is None or time.monotonic() - self._unkept_at < PROBE_S:
            return
        if not self._writing.acquire(blocking=False):
            return  # its outcome is a newer one than a probe's
        try:
            with suppress(StoreError):
                self._write_probe()
        finally:
            self._writing.release()

    def check_office(self) -> None:
        """That this process still leads; where the connection was lost, gets it back. DeposedError, StoreError.

        A transaction that writes nothing does not show that one that writes is kept.
        """
        if self.unkept is not None:
            self._write_probe()
            return
        with self.writing(cached=False) as connection:
            connection.scalar(select(tables.settings.c.key).limit(1))

    def _write_probe(self) -> None:
        now = time.time()
        with self.writing(cached=False) as connection:
            row = upsert(connection, tables.settings).values(key=PROBE, value=now)
            connection.execute(row.on_conflict_do_update(index_elements=["key"], set_={"value": now}))

    def close(self) -> None:
        """Lets go of it."""
        self._behind.close()

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A connection to select with. Raises StoreError."""
        with self._said(), self.engine.connect() as connection:
            yield connection

    @contextmanager
    def writing(self, *, cached: bool = True) -> Iterator[Connection]:
        """A transaction; the only writer while it lasts. Raises StoreError; then nothing of it was written.

        Within one of the same thread it is a part of that one, so that several calls here are done, or not, together.

        `cached`: it may touch what rest.host_cache keeps in memory.
        """
        if not self._writing.acquire(timeout=WAIT_S):
            raise StoreError(
                f"database {self.place}: others have been writing for {WAIT_S:g} s, expected a turn by now"
            )
        try:
            if self._open is not None:
                self._touches_cache |= cached
                with self._said():
                    yield self._open
                return
            self._touches_cache = cached
            try:
                with self._said(), self._behind.transaction() as connection:
                    self._open = connection
                    yield connection
                self.unkept = None
            except StoreError as error:
                self.unkept, self._unkept_at = str(error), time.monotonic()
                raise
            finally:
                self._open = None
            if self._touches_cache:
                self.changes += 1
        finally:
            self._writing.release()

    @contextmanager
    def _said(self) -> Iterator[None]:
        """What the database, or the JSON in it, has against a call, in one sentence that names it."""
        named = f"database {self.place}: "
        try:
            yield
        except StoreError as error:
            if not str(error).startswith("database"):
                error.args = (f"{named}{error}",)
            raise
        except json.JSONDecodeError as error:
            raise StoreError(f"{named}holds damaged JSON: {error}") from error
        except DataError:
            raise  # a value that the database can't hold is no fault of the database, as SQLite's OverflowError is none
        except (SQLAlchemyError, sqlite3.Error) as error:
            origin = getattr(error, "orig", None) or error
            found = self._behind.damage(origin)
            if found is not None:
                self.damage = f"{named}{found}"
            raise StoreError(self.damage if found else f"{named}{' '.join(str(origin).split())}") from error


def _kind_of(url: str) -> type[SqliteFile] | type[Postgres]:
    expected = "expected sqlite:///PATH or postgresql://HOST/NAME"
    if url.startswith("sqlite:///"):
        return SqliteFile
    if url.startswith(("postgresql://", "postgres://")):
        return Postgres
    try:
        kind = make_url(url).drivername
    except ArgumentError:
        kind = url.partition(":")[0]
    raise StoreError(f"database is {kind!r}, {expected}")
