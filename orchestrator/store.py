"""What the orchestrator remembers: devices, tokens, models, revisions, rollouts, who did what. Flows: flows.py.

SQLAlchemy Core over SQLite (WAL). Any thread may call; writes go one at a time. Revisions are only ever inserted.
"""

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, delete, event, func, insert, inspect, select, update
from sqlalchemy.dialects.sqlite import insert as upsert
from sqlalchemy.exc import SQLAlchemyError

from . import schema
from .errors import MissingError, StoreError

Row = dict[str, Any]

ANSWERS_KEPT_S = 24 * 3600


class Store:
    """One open database."""

    def __init__(self, url: str) -> None:
        """Opens, or makes, the database at `url` (`sqlite:///path`); raises StoreError, also for another schema."""
        if not url.startswith("sqlite:///"):
            raise StoreError(f"database is {url.split(':')[0]!r}, expected sqlite:///PATH")
        self.engine: Engine = create_engine(url, connect_args={"timeout": 10})
        event.listen(self.engine, "connect", _set_up)
        self._writing = threading.RLock()
        try:
            self._check_schema()
        except SQLAlchemyError as error:
            raise StoreError(f"database {url}: {error.__cause__ or error}") from error

    def _check_schema(self) -> None:
        present = inspect(self.engine).get_table_names()
        if present and "settings" not in present:
            raise StoreError("database: holds tables that are not qclimb's, expected an empty or a qclimb database")
        schema.metadata.create_all(self.engine)
        found = self.setting("schema_version")
        if found is None:
            self.set_setting("schema_version", schema.VERSION)
        elif found != schema.VERSION:
            raise StoreError(f"database: schema version is {found}, this qclimb-orchestrator expects {schema.VERSION}")

    def close(self) -> None:
        """Lets go of the file."""
        self.engine.dispose()

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A connection to select with."""
        with self.engine.connect() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction; the only writer while it lasts."""
        with self._writing, self.engine.begin() as connection:
            yield connection

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

    def host_seen(self, name: str, generation: int) -> None:
        """Notes a sign of life and the policy generation that the host follows; MissingError for an unknown host."""
        with self.writing() as connection:
            change = update(schema.hosts).where(schema.hosts.c.name == name)
            if connection.execute(change.values(policy_generation=generation, seen_at=time.time())).rowcount == 0:
                raise MissingError(f"hosts: no {name!r} is registered, PUT /v1/hosts/{name} first")

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
        """The next model generation: larger than any before."""
        with self.reading() as connection:
            return int(connection.scalar(select(func.max(schema.models.c.generation))) or 0) + 1

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
        with self.writing() as connection:
            change = update(schema.rollouts).where(schema.rollouts.c.id == number)
            connection.execute(change.values(phase=phase, document=document))

    def rollout(self, number: int) -> Row:
        """A rollout; MissingError when there is none."""
        return self._one(schema.rollouts, schema.rollouts.c.id, number, "rollouts")

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

    def answer(self, key: str) -> tuple[int, Any] | None:
        """(status, body) that the request with this key was answered before."""
        columns = schema.answers.c
        with self.reading() as connection:
            row = connection.execute(select(columns.status, columns.body).where(columns.key == key)).first()
        return None if row is None else (row.status, row.body)

    def keep_answer(self, key: str, status: int, body: Any, *, replace: bool = False) -> None:
        """Keeps an answer for a day; one under the same key stays, or is replaced."""
        now = time.time()
        values = {"created_at": now, "status": status, "body": body}
        with self.writing() as connection:
            connection.execute(delete(schema.answers).where(schema.answers.c.created_at < now - ANSWERS_KEPT_S))
            row = upsert(schema.answers).values(key=key, **values)
            same = [schema.answers.c.key]
            connection.execute(
                row.on_conflict_do_update(same, set_=values) if replace else row.on_conflict_do_nothing()
            )

    def note(self, actor: str, action: str, subject: str) -> None:
        """Adds a line to the audit log."""
        with self.writing() as connection:
            values = {"at": time.time(), "actor": actor, "action": action, "subject": subject}
            connection.execute(insert(schema.audit).values(values))

    def notes(self, last: int) -> list[Row]:
        """The last lines of the audit log, the latest first."""
        with self.reading() as connection:
            query = select(schema.audit).order_by(schema.audit.c.id.desc()).limit(last)
            return [dict(row) for row in connection.execute(query).mappings()]


def _set_up(connection: Any, _: Any) -> None:
    cursor = connection.cursor()
    for pragma in ("journal_mode=WAL", "synchronous=NORMAL", "busy_timeout=10000"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _key(result: Any) -> int:
    return int(result.inserted_primary_key[0])
