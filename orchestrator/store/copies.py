"""A whole database in one file, and back: from SQLite or PostgreSQL, while it is in use, into either.

The file is a SQLite database of today's tables. So one command moves a fabric from SQLite to PostgreSQL, too.
"""

import contextlib
import os
import secrets
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from qclimb.text import printable
from sqlalchemy import Connection, Engine, create_engine, func, insert, inspect, select, text, update
from sqlalchemy.engine import URL
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import QueuePool

from ..errors import StoreError
from . import tables
from .database import Database
from .postgres import ENCODING, checked, refuse_encodings
from .schema import newest, version_of
from .sqlite_file import path_of, url_of
from .upsert import upsert

ROWS_AT_ONCE = 64
"""A row of flow records has up to 0.35 MB."""
OWN = ("leader", "schema_version")
"""Settings that belong to a database, not to the fabric."""
OPEN = ("running", "paused")
"""Phases of rollouts (fabric.rollout) that a start would go on with."""
WHY_ENDED = "the database was restored from a backup; roll a revision out"


def backup(url: str, file: Path) -> dict[str, int]:
    """Copies the database at `url`, as it is at one moment, to `file` (0600), whole or not at all; rows by table.

    Raises StoreError, also where the file is there.
    """
    if file.exists():
        raise StoreError(f"{file}: is there, expected the name of a new file")
    unfinished = file.with_name(f".{file.name}.{secrets.token_hex(4)}.new")  # another backup has a name of its own
    try:
        os.close(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        with _said(), _reading(url) as source, _file(unfinished) as target:
            if version_of(source) != newest():
                raise StoreError(f"schema version is {version_of(source)}, expected {newest()}: start it once")
            tables.metadata.create_all(target)
            target.execute(text("CREATE TABLE alembic_version (version_num VARCHAR(32) PRIMARY KEY)"))
            target.execute(text("INSERT INTO alembic_version VALUES (:version)"), {"version": newest()})
            counts = _copy(source, target)
        with unfinished.open("rb") as written:
            os.fsync(written.fileno())
        unfinished.rename(file)
    except OSError as error:
        raise StoreError(f"{file}: {error.strerror}, expected a place for a backup") from error
    finally:
        with contextlib.suppress(OSError):
            unfinished.unlink(missing_ok=True)
    return counts


def restore(url: str, file: Path) -> dict[str, int]:
    """Copies a backup into the empty or new database at `url`; rows by table. Raises StoreError; then it stays empty.

    An older version's backup is brought to today's tables. A rollout that was under way counts as failed: what its
    switches had before is long gone. What was revoked since the backup is valid again.
    """
    if not file.is_file():
        raise StoreError(f"{file}: no such file, expected a backup")
    with tempfile.TemporaryDirectory(prefix="qclimb-restore-") as folder:
        copy = Path(folder) / "backup.db"
        shutil.copyfile(file, copy)
        try:
            held = Database(url_of(copy))  # checks every page, and migrates the copy
        except StoreError as error:
            raise StoreError(f"{file}: {str(error).partition(': ')[2]}") from error
        into = None
        try:
            into = Database(url)
            with held.reading() as source, into.writing() as target:
                _check_empty(target)
                counts = _copy(source, target)
                rows = tables.rollouts
                for number, document in target.execute(
                    select(rows.c.id, rows.c.document).where(rows.c.phase.in_(OPEN))
                ).all():
                    failed = {"phase": "failed", "document": {**document, "phase": "failed", "error": WHY_ENDED}}
                    target.execute(update(rows).where(rows.c.id == number).values(failed))
                _count_on(target)
        finally:
            held.close()
            if into is not None:
                into.close()
    return counts


def _copy(source: Connection, target: Connection) -> dict[str, int]:
    counts = {}
    for table in tables.metadata.sorted_tables:
        counts[table.name] = 0
        wanted = select(table)
        if table is tables.settings:
            wanted = wanted.where(table.c.key.not_in(OWN))
        found = source.execution_options(yield_per=ROWS_AT_ONCE).execute(wanted)
        for part in found.mappings().partitions():
            target.execute(insert(table), [_storable(row) for row in part])
            counts[table.name] += len(part)
    term = (source.scalar(select(tables.settings.c.value).where(tables.settings.c.key == "leader")) or {}).get(
        "term", 0
    )
    _raise_term(target, int(term))
    return counts


def _storable(row: Mapping[Any, Any]) -> dict[str, Any]:
    """The row for any database: SQLite of earlier versions took a NUL, PostgreSQL does not."""
    return {name: printable(value) if isinstance(value, str) else value for name, value in row.items()}


def _raise_term(target: Connection, term: int) -> None:
    """Whoever leads next comes after all who led before: switches may know their terms."""
    columns = tables.settings.c
    found = target.scalar(select(columns.value).where(columns.key == "leader")) or {}
    value = {"name": "backup", **found, "term": max(term, found.get("term", 0))}
    row = upsert(target, tables.settings).values(key="leader", value=value)
    target.execute(row.on_conflict_do_update(index_elements=["key"], set_={"value": value}))


def _check_empty(target: Connection) -> None:
    for table in tables.metadata.sorted_tables:
        query: Any = select(func.count()).select_from(table)
        if table is tables.settings:
            query = query.where(table.c.key.not_in(OWN))
        if target.scalar(query):
            raise StoreError(f"has {table.name} already, expected an empty or a new database")


def _count_on(target: Connection) -> None:
    """PostgreSQL numbers rows by sequences, which know nothing of rows that came with their numbers."""
    if target.dialect.name != "postgresql":
        return
    for table in tables.metadata.sorted_tables:
        (key, *others) = table.primary_key.columns
        if others or not isinstance(key.type, type(tables.Whole)) or key.autoincrement is False:
            continue
        sequence = target.scalar(
            text("SELECT pg_get_serial_sequence(:table, :key)"), {"table": table.name, "key": key.name}
        )
        most = target.scalar(select(func.max(key)))
        if sequence is not None and most is not None:
            target.execute(text("SELECT setval(:sequence, :most)"), {"sequence": sequence, "most": most})


def read_only_engine(url: str) -> tuple[Engine, str]:
    """Of a database that others may be using, and its name in sentences. Raises StoreError."""
    if url.startswith("sqlite:///"):
        path = path_of(url)
        if not path.is_file():
            raise StoreError(f"database {path}: no such file, expected one to read")

        def connect() -> sqlite3.Connection:
            return sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, check_same_thread=False)

        return create_engine("sqlite://", creator=connect, poolclass=QueuePool), str(path)
    if url.startswith(("postgresql://", "postgres://")):
        found = checked(url)
        place = found.set(query={}).render_as_string(hide_password=True).replace("+psycopg", "")
        options = {"execution_options": {"postgresql_readonly": True}}
        engine = create_engine(found, pool_pre_ping=True, connect_args=ENCODING, **options)
        refuse_encodings(engine, place)
        return engine, place
    raise StoreError(f"database is {url.partition(':')[0]!r}, expected sqlite:///PATH or postgresql://HOST/NAME")


@contextlib.contextmanager
def _reading(url: str) -> Iterator[Connection]:
    """One moment of a database that others may be using; nothing is changed in it, not even its tables' version."""
    engine, _ = read_only_engine(url)
    is_file = engine.dialect.name == "sqlite"
    with _disposed(engine), engine.connect() as connection:
        connection.exec_driver_sql("BEGIN" if is_file else "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        if not inspect(connection).has_table("settings"):
            raise StoreError("the database is no qclimb database")
        yield connection


@contextlib.contextmanager
def _file(path: Path) -> Iterator[Connection]:
    engine = create_engine(URL.create("sqlite", database=str(path)))
    with _disposed(engine), engine.begin() as connection:
        yield connection


@contextlib.contextmanager
def _disposed(engine: Engine) -> Iterator[None]:
    try:
        yield
    finally:
        engine.dispose()


@contextlib.contextmanager
def _said() -> Iterator[None]:
    try:
        yield
    except (SQLAlchemyError, sqlite3.Error) as error:
        raise StoreError(f"backup: {' '.join(str(getattr(error, 'orig', None) or error).split())}") from error
