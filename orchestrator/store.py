"""What the orchestrator remembers: devices, tokens, models, revisions, rollouts, who did what. Flows: flows.py.

SQLAlchemy Core over SQLite (WAL). Any thread may call; writes go one at a time. Revisions are only ever inserted.
"""

import fcntl
import json
import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import (
    Connection,
    Engine,
    bindparam,
    create_engine,
    delete,
    event,
    func,
    insert,
    inspect,
    select,
    update,
)
from sqlalchemy.dialects.sqlite import insert as upsert
from sqlalchemy.engine import make_url
from sqlalchemy.exc import SQLAlchemyError

from . import schema
from .errors import MissingError, StoreError

Row = dict[str, Any]

WAIT_S = 10.0
"""For one's turn to write, and then for another process that writes, such as an operator's sqlite3: of those who wait
each holds a thread, and REST has 40."""
ANSWERS_KEPT_S = 24 * 3600
OF_A_HOST = "last delivery of "
"""Keys of hosts' last deliveries begin so: a host may have been away for longer than a day."""


@dataclass(frozen=True)
class Taken:
    """A delivery with an Idempotency-Key; `asked` digests what was delivered, None where an older version took it."""

    key: str
    asked: str | None
    answer: Row


class Store:
    """One open database, of this process alone. What it can't do (a full disk, a damaged file) is a StoreError.

    `changes` counts the transactions that may have changed settings, tokens, or which hosts there are.
    """

    def __init__(self, url: str) -> None:
        """Opens, or makes, the database at `url` (`sqlite:///path`); raises StoreError, also for another schema."""
        path = _path(url)
        self._lock = _locked(path)
        self.url, self.path = url, path
        self.engine: Engine = create_engine(url, connect_args={"timeout": WAIT_S})
        event.listen(self.engine, "connect", _set_up)
        self._writing = threading.RLock()
        self._open: Connection | None = None
        self._known = False
        self.changes = 0
        try:
            self._check_schema()
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
        found = self.setting("schema_version") if present else None
        if found not in (None, schema.VERSION):
            raise StoreError(
                f"database {self.path}: schema version is {found}, this qclimb-orchestrator expects {schema.VERSION}"
            )
        with self.writing() as connection:
            schema.metadata.create_all(connection)
        if found is None:
            self.set_setting("schema_version", schema.VERSION)

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
    def writing(self, *, known: bool = True) -> Iterator[Connection]:
        """A transaction; the only writer while it lasts. Raises StoreError; then nothing of it was written.

        Within one of the same thread it is a part of that one, so that several calls here are done, or not, together.

        `known`: it may touch what known.py keeps in memory.
        """
        if not self._writing.acquire(timeout=WAIT_S):
            raise StoreError(f"database {self.path}: others have been writing for {WAIT_S:g} s, expected a turn by now")
        try:
            if self._open is not None:
                self._known |= known
                with self._said():
                    yield self._open
                return
            self._known = known
            try:
                with self._said(), self.engine.begin() as connection:
                    self._open = connection
                    yield connection
            finally:
                self._open = None
            if self._known:
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
            raise StoreError(f"database {self.path}: {getattr(error, 'orig', None) or error}") from error

    # settings

    def setting(self, key: str) -> Any:
        """The value under `key`, None when there is none."""
        with self.reading() as connection:
            return connection.scalar(select(schema.settings.c.value).where(schema.settings.c.key == key))

    def set_setting(self, key: str, value: Any) -> None:
        """Keeps `value` (JSON) under `key`."""
        with self.writing() as connection:
            row = upsert(schema.settings).values(key=key, value=value)
            connection.execute(row.on_conflict_do_update(index_elements=["key"], set_={"value": value}))

    # devices

    def put_switch(self, name: str, address: str, role: str, server_name: str | None) -> bool:
        """Registers a switch, or changes it; True when it is new."""
        return self._put(schema.switches, name, {"address": address, "role": role, "server_name": server_name})

    def put_host(self, name: str) -> bool:
        """Registers a host; True when it is new."""
        return self._put(schema.hosts, name, {})

    def _put(self, table: Any, name: str, values: Mapping[str, Any]) -> bool:
        with self.writing() as connection:
            if connection.scalar(select(table.c.name).where(table.c.name == name)) is None:
                connection.execute(insert(table).values(name=name, **values))
                return True
            if values:
                connection.execute(update(table).where(table.c.name == name).values(**values))
            return False

    def remove_device(self, kind: str, name: str) -> None:
        """Forgets the switch or host (`kind` is "switches" or "hosts")."""
        table = {"switches": schema.switches, "hosts": schema.hosts}[kind]
        with self.writing() as connection:
            if connection.execute(delete(table).where(table.c.name == name)).rowcount == 0:
                raise MissingError(f"{kind}: no {name!r} is registered")

    def switches(self) -> dict[str, Row]:
        """All switches by name."""
        return self._by_name(schema.switches)

    def hosts(self) -> dict[str, Row]:
        """All hosts by name."""
        return self._by_name(schema.hosts)

    def _by_name(self, table: Any) -> dict[str, Row]:
        with self.reading() as connection:
            return {
                row["name"]: dict(row) for row in connection.execute(select(table).order_by(table.c.name)).mappings()
            }

    def switch_applied(self, name: str, generation: int) -> None:
        """Notes the generation that a switch confirmed."""
        with self.writing() as connection:
            of_it = schema.switches.c.name == name
            connection.execute(update(schema.switches).where(of_it).values(applied_generation=generation))

    def hosts_seen(self, connection: Connection, generations: Mapping[str, int], at: float) -> None:
        """Notes a sign of life of hosts, and the policy generation that each follows; one that is gone stays gone."""
        if generations:
            of_it = schema.hosts.c.name == bindparam("of_host")
            change = update(schema.hosts).where(of_it).values(policy_generation=bindparam("follows"), seen_at=at)
            connection.execute(
                change, [{"of_host": host, "follows": generation} for host, generation in generations.items()]
            )

    # tokens

    def add_token(self, name: str, role: str, digest: str) -> None:
        """Keeps a token's digest; the token itself is never stored."""
        with self.writing() as connection:
            values = {"name": name, "role": role, "digest": digest, "created_at": time.time(), "revoked": False}
            connection.execute(insert(schema.tokens).values(values))

    def token(self, digest: str) -> tuple[str, str] | None:
        """(name, role) of the token with this digest, unless revoked."""
        columns = schema.tokens.c
        with self.reading() as connection:
            query = select(columns.name, columns.role).where(columns.digest == digest, columns.revoked.is_(False))
            row = connection.execute(query).first()
        return None if row is None else (row.name, row.role)

    def revoke_tokens(self, name: str) -> int:
        """Revokes all tokens of this name; returns how many."""
        with self.writing() as connection:
            change = update(schema.tokens).where(schema.tokens.c.name == name, schema.tokens.c.revoked.is_(False))
            return int(connection.execute(change.values(revoked=True)).rowcount)

    # models, revisions, rollouts

    def reserve_model(self) -> int:
        """The next model generation: larger than any before, and nobody else's even if no model comes of it."""
        with self._writing:
            with self.reading() as connection:
                made = connection.scalar(select(func.max(schema.models.c.generation))) or 0
            generation = int(max(made, self.setting("last_model") or 0)) + 1
            self.set_setting("last_model", generation)
        return generation

    def add_model(self, generation: int, label: str, report: Row, onnx: bytes, forest: bytes) -> None:
        """Keeps a checked model."""
        values = {"generation": generation, "label": label, "report": report, "onnx": onnx, "forest": forest}
        with self.writing() as connection:
            connection.execute(insert(schema.models).values(created_at=time.time(), **values))

    def model(self, generation: int) -> Row:
        """Report and files of a model; MissingError when there is none."""
        return self._one(schema.models, schema.models.c.generation, generation, "models")

    def models(self) -> list[Row]:
        """All models without their files, the latest last."""
        columns = schema.models.c
        with self.reading() as connection:
            query = select(columns.generation, columns.label, columns.created_at, columns.report)
            return [dict(row) for row in connection.execute(query.order_by(columns.generation)).mappings()]

    def add_revision(self, actor: str, document: Row) -> int:
        """Keeps a revision for good; returns its id."""
        with self.writing() as connection:
            values = {"created_at": time.time(), "created_by": actor, "document": document}
            return _key(connection.execute(insert(schema.revisions).values(values)))

    def revision(self, number: int) -> Row:
        """A revision; MissingError when there is none."""
        return self._one(schema.revisions, schema.revisions.c.id, number, "revisions")

    def revisions(self) -> list[Row]:
        """All revisions, the latest last."""
        return self._all(schema.revisions)

    def add_rollout(self, revision: int, actor: str, document: Row) -> int:
        """Keeps a new rollout in phase running; returns its id, which is also the generation that it brings."""
        with self.writing() as connection:
            values = {"revision": revision, "phase": "running", "created_by": actor, "document": document}
            return _key(connection.execute(insert(schema.rollouts).values(created_at=time.time(), **values)))

    def save_rollout(self, number: int, phase: str, document: Row) -> None:
        """Keeps where a rollout has got to."""
        with self.writing(known=False) as connection:
            change = update(schema.rollouts).where(schema.rollouts.c.id == number)
            connection.execute(change.values(phase=phase, document=document))

    def activate(self, policy: Row, number: int, phase: str, document: Row) -> None:
        """Puts a policy in force, and keeps that its rollout has got there: both or neither."""
        with self.writing() as connection:
            row = upsert(schema.settings).values(key="policy", value=policy)
            connection.execute(row.on_conflict_do_update(index_elements=["key"], set_={"value": policy}))
            change = update(schema.rollouts).where(schema.rollouts.c.id == number)
            connection.execute(change.values(phase=phase, document=document))

    def rollout(self, number: int) -> Row:
        """A rollout; MissingError when there is none."""
        return self._one(schema.rollouts, schema.rollouts.c.id, number, "rollouts")

    def last_rollout(self) -> Row | None:
        """The latest rollout alone: each one holds what its switches had before."""
        with self.reading() as connection:
            query = select(schema.rollouts).order_by(schema.rollouts.c.id.desc()).limit(1)
            row = connection.execute(query).mappings().first()
        return None if row is None else dict(row)

    def rollouts(self) -> list[Row]:
        """All rollouts, the latest last."""
        return self._all(schema.rollouts)

    def _one(self, table: Any, column: Any, number: int, place: str) -> Row:
        with self.reading() as connection:
            row = connection.execute(select(table).where(column == number)).mappings().first()
        if row is None:
            raise MissingError(f"{place}: there is no {number}")
        return dict(row)

    def _all(self, table: Any) -> list[Row]:
        with self.reading() as connection:
            return [dict(row) for row in connection.execute(select(table).order_by(table.c.id)).mappings()]

    # answers and audit

    def answer(self, key: str) -> tuple[str, Any] | None:
        """What was asked with this key (once.fingerprint), and what was answered."""
        found = self._answer(key)
        return None if found is None else (str(found["asked"]), found["answer"])

    def _answer(self, key: str) -> Any:
        columns = schema.answers.c
        with self.reading() as connection:
            return connection.scalar(select(columns.body).where(columns.key == key))

    def keep_answer(self, key: str, asked: str, answer: Row) -> Row:
        """Keeps an answer for a day; one under the same key stays, as do hosts' last deliveries. Returns it."""
        now = time.time()
        values = {"created_at": now, "status": 200, "body": {"asked": asked, "answer": answer}}
        with self.writing(known=False) as connection:
            columns = schema.answers.c
            old = (columns.created_at < now - ANSWERS_KEPT_S) & ~columns.key.startswith(OF_A_HOST, autoescape=True)
            connection.execute(delete(schema.answers).where(old))
            row = upsert(schema.answers).values(key=key, **values)
            connection.execute(row.on_conflict_do_nothing())
        return answer

    def delivery(self, host: str) -> Taken | None:
        """A host's last delivery that had a key."""
        found = self._answer(_place_of(host))
        return None if found is None else Taken(str(found["key"]), found.get("asked"), found["answer"])

    def keep_deliveries(self, connection: Connection, taken: Mapping[str, Taken]) -> None:
        """Keeps hosts' last deliveries."""
        if taken:
            row = upsert(schema.answers)
            told = {name: row.excluded[name] for name in ("created_at", "status", "body")}
            connection.execute(
                row.on_conflict_do_update([schema.answers.c.key], set_=told),
                [
                    {"key": _place_of(host), "created_at": time.time(), "status": 202, "body": asdict(last)}
                    for host, last in taken.items()
                ],
            )

    def note(self, actor: str, action: str, subject: str) -> None:
        """Adds a line to the audit log."""
        with self.writing(known=False) as connection:
            values = {"at": time.time(), "actor": actor, "action": action, "subject": subject}
            connection.execute(insert(schema.audit).values(values))

    def notes(self, last: int) -> list[Row]:
        """The last lines of the audit log, the latest first."""
        with self.reading() as connection:
            query = select(schema.audit).order_by(schema.audit.c.id.desc()).limit(last)
            return [dict(row) for row in connection.execute(query).mappings()]


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


def _place_of(host: str) -> str:
    return f"{OF_A_HOST}{host}"


def _set_up(connection: Any, _: Any) -> None:
    """A commit survives a power failure, too (FULL); deliveries share theirs, so that few wait for the disk.

    A rollout that the store forgot would give its generation to another one, which hosts that know the first would then
    never fetch.
    """
    cursor = connection.cursor()
    for pragma in ("journal_mode=WAL", "synchronous=FULL", f"busy_timeout={WAIT_S * 1000:.0f}"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _key(result: Any) -> int:
    return int(result.inserted_primary_key[0])
