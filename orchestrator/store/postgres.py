"""A PostgreSQL database that several orchestrators share: one leads, by an advisory lock; the others wait.

All that is written goes over the one connection whose session holds the lock. So whoever has lost the lock, without
knowing it, can't write: its session is gone. Reads go over others.

A leader that is stopped (SIGSTOP, a frozen machine) keeps its connection; the server ends its session once that has
been idle for STOPPED_S. A leader that runs asks something each second (watch.office).

A lost connection loses the lock. It may be had back where nobody has led meanwhile, which the leader's name in the
settings tells. Where that can't be known, or a commit was under way, this process has to begin anew.
"""

import contextlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, select, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError

from ..errors import DeposedError, LedError, StoreError
from . import tables

LOCK = int.from_bytes(b"qclimb")
"""The advisory lock's key; locks are each database's own."""
CONNECT_S = 5
CONNECTIONS = 50
"""REST has 40 threads."""
SESSION = (
    "tcp_keepalives_idle = 5",
    "tcp_keepalives_interval = 2",
    "tcp_keepalives_count = 3",
    "idle_in_transaction_session_timeout = '30s'",
    "synchronous_commit = on",
)
"""The server lets go of a leader that lost its power within 11 s, and of one that is stopped in a transaction in 30."""
STOPPED_S = 15
OF_LEADER = f"idle_session_timeout = '{STOPPED_S}s'"
OF_CLIENT = {"keepalives_idle": 5, "keepalives_interval": 2, "keepalives_count": 3, "tcp_user_timeout": 10_000}
ENCODING = {"client_encoding": "utf8"}
"""Whatever the environment says (PGCLIENTENCODING)."""
VERIFIED = ("verify-full", "verify-ca")


class Postgres:
    """`postgresql://...`, led by this process. LedError where another one leads, StoreError where it can't be had."""

    def __init__(self, url: str, wait_s: float) -> None:
        """`wait_s`: for a row that another session holds."""
        self._url = checked(url)
        self.path: Path | None = None
        self.place = self._url.set(query={}).render_as_string(hide_password=True).replace("+psycopg", "")
        self._wait_s = wait_s
        self._lost: str | None = None
        self._name: str | None = None
        self._turn = threading.RLock()
        self.engine: Engine = create_engine(
            self._url,
            connect_args={"connect_timeout": CONNECT_S, "application_name": "qclimb-orchestrator"}
            | ENCODING
            | OF_CLIENT,
            pool_pre_ping=True,
            pool_size=10,
            max_overflow=CONNECTIONS - 10,
            pool_timeout=wait_s,
        )
        refuse_encodings(self.engine, self.place)
        event.listen(self.engine, "connect", self._set_up)
        try:
            self._writer = self._locked()
        except BaseException as error:
            self.engine.dispose()
            if isinstance(error, SQLAlchemyError):
                raise StoreError(f"database {self.place}: {_said(error)}") from error
            raise

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """One that writes, over the connection that holds the lock. DeposedError where another one leads."""
        writer = self._in_office()
        begun = writer.begin()
        try:
            yield writer
        except BaseException:
            with contextlib.suppress(SQLAlchemyError):
                begun.rollback()
            raise
        try:
            begun.commit()
        except DBAPIError as error:
            if error.connection_invalidated:
                self._depose(f"the connection ended in a commit, whose outcome is not known ({_said(error)})")
            raise

    def check_whole(self) -> None:
        """The server does that."""

    def damage(self, error: BaseException) -> str | None:
        """What an error says of damage, None: nothing (SQLSTATE class XX, data_corrupted and index_corrupted)."""
        return f"damaged ({_said(error)})" if getattr(error, "sqlstate", None) in ("XX001", "XX002") else None

    def leads_as(self, name: str) -> None:
        """The name of this process, which the settings have by now."""
        self._name = name

    def close(self) -> None:
        """Lets go of the lock."""
        with contextlib.suppress(SQLAlchemyError):
            self._writer.close()
        self.engine.dispose()

    def _in_office(self) -> Connection:
        """The connection that holds the lock."""
        if self._lost is not None:
            raise DeposedError(self._lost)
        if self._writer.invalidated or self._writer.closed:
            with contextlib.suppress(SQLAlchemyError):
                self._writer.close()
            self._check_name()
            try:
                self._writer = self._locked()
            except LedError as error:
                raise StoreError("the connection was lost, and its session still holds the lock") from error
            self._check_name()
        return self._writer

    def _check_name(self) -> None:
        """That nobody has led since; with the lock held, nobody can begin to."""
        if self._name is None:
            return
        with self.engine.connect() as connection:
            found = connection.scalar(select(tables.settings.c.value).where(tables.settings.c.key == "leader"))
        leads = (found or {}).get("name")
        if leads != self._name:
            self._depose(f"the connection was lost, and {leads} leads since")

    def _depose(self, why: str) -> None:
        self._lost = why
        raise DeposedError(why)

    def _locked(self) -> Connection:
        connection = self.engine.connect()
        try:
            connection.detach()  # never back to the pool: it ends with its session, and the lock with that
            if not connection.scalar(select(text(f"pg_try_advisory_lock({LOCK})"))):
                raise LedError(f"database {self.place}: led by another qclimb-orchestrator")
            connection.execute(text(f"SET {OF_LEADER}"))
            connection.commit()
        except BaseException:
            connection.close()
            raise
        return connection

    def _set_up(self, connection: Any, _: Any) -> None:
        with connection.cursor() as cursor:
            for setting in (*SESSION, f"lock_timeout = '{self._wait_s:g}s'"):
                cursor.execute(f"SET {setting}")
        connection.commit()


def refuse_encodings(engine: Engine, place: str) -> None:
    """Has connections raise StoreError where the database can't hold all texts, or holds bytes of any (SQL_ASCII)."""

    def check(connection: Any, _: Any) -> None:
        found = connection.info.parameter_status("server_encoding")
        if found != "UTF8":
            raise StoreError(f"database {place}: its encoding is {found}, expected UTF8 (CREATE DATABASE ... ENCODING)")

    event.listen(engine, "connect", check)


def checked(url: str) -> URL:
    """A URL with the driver that is installed, and, to other machines, with TLS that knows whom it speaks to."""
    try:
        found = make_url(url)
    except (ArgumentError, ValueError) as error:
        raise StoreError(f"database {url.partition('@')[2] or url}: {error}, expected postgresql://HOST/NAME") from None
    place = found.set(query={}).render_as_string(hide_password=True)
    if not found.database:
        raise StoreError(f"database {place} names no database, expected postgresql://HOST/NAME")
    if "service" in found.query:  # a file would name another host, and another sslmode
        raise StoreError(f"database {place}: names a service, expected postgresql://HOST/NAME")
    mode = found.query.get("sslmode")
    hosts = [found.host, found.query.get("host"), found.query.get("hostaddr")]
    if not all(_is_here(host) for host in hosts):
        if mode not in (None, *VERIFIED):
            raise StoreError(f"database {place}: sslmode is {mode!r}, expected verify-full (or verify-ca)")
        found = found.update_query_dict({"sslmode": mode or VERIFIED[0]})
    return found.set(drivername="postgresql+psycopg")


def _is_here(host: Any) -> bool:
    """No host, a Unix socket, or a loopback address."""
    if not host:
        return True
    if not isinstance(host, str):
        return all(map(_is_here, host))
    if host.startswith(("/", "@")) or host == "localhost":
        return True
    with contextlib.suppress(ValueError):
        return ip_address(host).is_loopback
    return False


def _said(error: BaseException) -> str:
    return " ".join(str(getattr(error, "orig", None) or error).split())
