"""One open SQLite database (WAL): who may write, and what is said where it can't be read or written.

Any thread may call; writes go one at a time.
"""

import contextlib
import fcntl
import json
import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, insert, inspect, select, update
from sqlalchemy.engine import make_url
from sqlalchemy.exc import SQLAlchemyError

from ..errors import StoreError
from . import rollouts, tables

WAIT_S = 10.0
"""For one's turn to write, and then for another process that writes, such as an operator's sqlite3: of those who wait
each holds a thread, and REST has 40."""
WHOLE = "expected a whole one: restore a backup"
DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


class Database:
    """One open database, of this process alone. What it can't do (a full disk, a damaged file) is a StoreError.

    `changes` counts the transactions that may have changed settings, tokens, or which hosts there are.
    """

    def __init__(self, url: str) -> None:
        """Opens, or makes, the database at `url` (`sqlite:///path`); raises StoreError, also for another tables."""
        path = _path(url)
        self._lock = _locked(path)
        self.url, self.path = url, path
        self.damage: str | None = None
        self.unkept: str | None = None
        self.engine: Engine = create_engine(url, connect_args={"timeout": WAIT_S})
        event.listen(self.engine, "connect", _set_up)
        self._writing = threading.RLock()
        self._open: Connection | None = None
        self._touches_cache = False
        self.changes = 0
        try:
            _make_private(path)
            self._check_schema()
            self._check_pages()
        except BaseException:
            self.close()
            raise

    def _check_schema(self) -> None:
        with self.reading() as connection:
            present = inspect(connection).get_table_names()
        if present and "settings" not in present:
            raise StoreError(
                f"database {self.path}: holds tables that are not qclimb's, expected an empty or a qclimb database"
            )
        found = self._version() if present else None
        if found not in (None, 1, 2, tables.VERSION):
            raise StoreError(
                f"database {self.path}: schema version is {found}, this qclimb-orchestrator expects {tables.VERSION}"
            )
        with self.writing() as connection:
            tables.metadata.create_all(connection)
            if found is None:
                connection.execute(insert(tables.settings).values(key="schema_version", value=tables.VERSION))
            else:
                self._migrate(connection, int(found))

    def _migrate(self, connection: Connection, found: int) -> None:
        """From an older version to today's."""
        if found < 2:
            rollouts.split(connection)
        if found < 3:
            connection.exec_driver_sql("ALTER TABLE tokens ADD COLUMN expires_at FLOAT")
        of_it = tables.settings.c.key == "schema_version"
        connection.execute(update(tables.settings).where(of_it).values(value=tables.VERSION))

    def _check_pages(self) -> None:
        """Every page, before anybody relies on one: damage in a table that is seldom read would show years later."""
        with self.reading() as connection:
            found = connection.exec_driver_sql("PRAGMA integrity_check(1)").scalar()
        if found != "ok":
            raise StoreError(f"database {self.path}: damaged ({' '.join(str(found).split())}), {WHOLE}")

    def _version(self) -> Any:
        with self.reading() as connection:
            columns = tables.settings.c
            return connection.scalar(select(columns.value).where(columns.key == "schema_version"))

    def check(self) -> None:
        """Raises StoreError where it can't be read."""
        self._version()

    def check_ready(self) -> None:
        """Raises StoreError also where it was once found damaged, or where the last transaction could not be kept."""
        self.check()
        for said in (self.damage, self.unkept):
            if said is not None:
                raise StoreError(said)

    def close(self) -> None:
        """Lets go of the file."""
        self.engine.dispose()
        os.close(self._lock)

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
            raise StoreError(f"database {self.path}: others have been writing for {WAIT_S:g} s, expected a turn by now")
        try:
            if self._open is not None:
                self._touches_cache |= cached
                with self._said():
                    yield self._open
                return
            self._touches_cache = cached
            try:
                with self._said(), self.engine.begin() as connection:
                    self._open = connection
                    yield connection
                self.unkept = None
            except StoreError as error:
                self.unkept = str(error)
                raise
            finally:
                self._open = None
            if self._touches_cache:
                self.changes += 1
        finally:
            self._writing.release()

    @contextmanager
    def _said(self) -> Iterator[None]:
        """What SQLite, or the JSON in it, has against a call, in one sentence."""
        try:
            yield
        except json.JSONDecodeError as error:
            raise StoreError(f"database {self.path}: holds damaged JSON: {error}") from error
        except (SQLAlchemyError, sqlite3.Error) as error:
            origin = getattr(error, "orig", None) or error
            said = f"database {self.path}: {origin}"
            if getattr(origin, "sqlite_errorcode", None) in DAMAGED:
                said = self.damage = f"database {self.path}: damaged ({origin}), {WHOLE}"
            raise StoreError(said) from error


def _path(url: str) -> Path:
    """The file of `sqlite:///PATH`; a database in memory would forget the fabric at its end."""
    if not url.startswith("sqlite:///"):
        raise StoreError(f"database is {url.split(':')[0]!r}, expected sqlite:///PATH")
    named = make_url(url).database
    if not named or named == ":memory:":
        raise StoreError(f"database {url} names no file, expected sqlite:///PATH")
    return Path(named)


def _locked(path: Path) -> int:
    """A lock file beside the database, held while this process lives: a second orchestrator would turn back rollouts.

    Not the database itself: SQLite's own locks would go when a descriptor of that file is closed.
    """
    lock = path.with_name(path.name + ".lock")
    try:
        handle = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StoreError(f"database {path}: {lock}: {error.strerror}, expected a folder to write in") from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        raise StoreError(f"database {path}: in use by another qclimb-orchestrator, expected one at a time") from None
    return handle


def _make_private(path: Path) -> None:
    """Nobody but its owner reads it: digests of tokens lie in it. SQLite gives its -wal and -shm the same mode."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        for name in (path.name, f"{path.name}-wal", f"{path.name}-shm"):
            with contextlib.suppress(FileNotFoundError):
                path.with_name(name).chmod(0o600)
    except OSError as error:
        raise StoreError(f"database {path}: {error.strerror}, expected a file to read and write") from error


def _set_up(connection: Any, _: Any) -> None:
    """A commit survives a power failure, too (FULL); deliveries share theirs, so that few wait for the disk.

    A rollout that the store forgot would give its generation to another one, which hosts that know the first would then
    never fetch.
    """
    cursor = connection.cursor()
    for pragma in ("journal_mode=WAL", "synchronous=FULL", f"busy_timeout={WAIT_S * 1000:.0f}"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()
