"""The embedded database: one SQLite file (WAL), of one process alone."""

import contextlib
import fcntl
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL, make_url

from ..errors import StoreError

WHOLE = "expected a whole one: restore a backup"
CONNECTIONS = 50
"""At most: REST has 40 threads."""
DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


class SqliteFile:
    """`sqlite:///PATH`, made where it is not there. Raises StoreError where it can't be had."""

    def __init__(self, url: str, wait_s: float) -> None:
        """`wait_s`: for another process that writes, such as an operator's sqlite3."""
        path = path_of(url)
        self.path: Path | None = path
        self.place = str(path)
        self._lock = _locked(path)
        self._wait_s = wait_s
        self.engine: Engine = create_engine(
            URL.create("sqlite", database=str(path)),  # the very file that is locked: a URL as text is unquoted again
            connect_args={"timeout": wait_s},
            pool_size=10,
            max_overflow=CONNECTIONS - 10,
        )
        event.listen(self.engine, "connect", self._set_up)

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """One that writes. It begins at once, so that tables that are made in it go with it."""
        with self.engine.begin() as connection:
            connection.exec_driver_sql("BEGIN IMMEDIATE")
            yield connection

    def check_whole(self) -> None:
        """Every page, before anybody relies on one: damage in a table that is seldom read would show years later."""
        with self.engine.connect() as connection:
            found = connection.exec_driver_sql("PRAGMA integrity_check(1)").scalar()
        if found != "ok":
            raise StoreError(f"damaged ({' '.join(str(found).split())}), {WHOLE}")

    def damage(self, error: BaseException) -> str | None:
        """What an error of the driver says of the file, None where it says nothing of it."""
        return f"damaged ({error}), {WHOLE}" if getattr(error, "sqlite_errorcode", None) in DAMAGED else None

    def leads_as(self, name: str) -> None:
        """The lock file sees to that."""

    def close(self) -> None:
        """Lets go of the file."""
        self.engine.dispose()
        os.close(self._lock)

    def _set_up(self, connection: Any, _: Any) -> None:
        """A commit survives a power failure, too (FULL); deliveries share theirs, so that few wait for the disk.

        A rollout that the store forgot would give its generation to another one, which hosts that know the first would
        then never fetch.
        """
        cursor = connection.cursor()
        for pragma in ("journal_mode=WAL", "synchronous=FULL", f"busy_timeout={self._wait_s * 1000:.0f}"):
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()


def url_of(path: Path) -> str:
    """`sqlite:///PATH`, in which %, ? and # of a name are quoted."""
    return f"sqlite:///{quote(str(path), safe=' /')}"


def path_of(url: str) -> Path:
    """The file of `sqlite:///PATH`; a database in memory would forget the fabric at its end."""
    named = make_url(url).database
    if not named or named == ":memory:":
        raise StoreError(f"database {url} names no file, expected sqlite:///PATH")
    try:
        return Path(named).resolve()  # as SQLite does, whose -wal lies beside the file that a link leads to
    except (OSError, RuntimeError) as error:
        raise StoreError(f"database {named}: {error}, expected a file to read and write") from error


def _locked(path: Path) -> int:
    """The file, made where it is not there and its owner's alone, locked while this process lives.

    A second orchestrator would turn back rollouts, by whatever name it knows the file. flock(2) locks are not those of
    SQLite, but these go when any descriptor of the file is closed: it stays open for as long as the engine.
    """
    if path.exists() and not path.is_file():  # a device's mode is no one's to change, and a FIFO is never opened
        raise StoreError(f"database {path}: is no regular file, expected a file to read and write")
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StoreError(f"database {path}: {error.strerror}, expected a folder to write in") from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _make_private(path)
    except BlockingIOError:
        os.close(handle)
        raise StoreError(f"database {path}: in use by another qclimb-orchestrator, expected one at a time") from None
    except OSError as error:
        os.close(handle)
        raise StoreError(f"database {path}: {error.strerror}, expected a file to read and write") from error
    return handle


def _make_private(path: Path) -> None:
    """Nobody but its owner reads it: digests of tokens lie in it. SQLite gives its -wal and -shm the same mode."""
    for name in (path.name, f"{path.name}-wal", f"{path.name}-shm"):
        with contextlib.suppress(FileNotFoundError):
            path.with_name(name).chmod(0o600)
