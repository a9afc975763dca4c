"""A commit that has to be confirmed (gNMI's commit-confirmed extension, version 0.1.0): what is kept, and what follows.

It stands in CONFIG_DB, QCLIMB_COMMIT|pending, written in one transaction with the intent that it is of: a restarted
daemon or switch rolls it back in time, or finds it still pending. Pure, but for the clock that `Clock` is given.
"""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

from qclimb.config_db import TABLES as INTENT_TABLES
from qclimb.config_db import digest_of
from qclimb.errors import QclimbError
from qclimb.gnmi_ext import ROLLBACK_MOST_S, Commit

from switchd.rows import Change, Delete, Put, Row, Rows, applied

COMMIT_TABLE, COMMIT_KEY = "QCLIMB_COMMIT", "pending"
ROLLBACK_S = 600.0
"""until a commit is undone whose client does not say when"""
PENDING, CONFIRMED, CANCELLED, ROLLED_BACK, OVERTAKEN = "pending", "confirmed", "cancelled", "rolled-back", "overtaken"


class CommitError(QclimbError):
    """What is asked does not fit to the commit that is pending, or to none being so."""


class OtherCommit(CommitError):
    """Another commit is pending than the one that is named."""


@dataclass(frozen=True)
class Pending:
    """A commit that waits to be confirmed.

    until_s   UNIX time at which it is undone
    digest    of the intent's rows that it wrote: where they are others by then, somebody has decided anew
    previous  the intent's rows before it
    client    who asked for it: the certificate's name and the address; empty: not known
    """

    id: str
    rollback_s: float
    until_s: float
    digest: str
    previous: Rows
    client: str = ""

    def to_row(self) -> Row:
        """The fields of QCLIMB_COMMIT|pending."""
        return {
            "id": self.id,
            "rollback_s": f"{self.rollback_s:.3f}",
            "until": _until(self),
            "digest": self.digest,
            "previous": json.dumps(self.previous, separators=(",", ":")),
            **({"client": self.client} if self.client else {}),
        }

    @classmethod
    def from_row(cls, row: Mapping[str, str]) -> Self:
        """Raises CommitError where the row is not one of `to_row`."""
        try:
            rollback_s, until_s = float(row["rollback_s"]), float(row["until"])
            if not (0 < rollback_s <= ROLLBACK_MOST_S and abs(until_s) < float("inf")):
                raise ValueError("times out of range")
            return cls(
                row["id"], rollback_s, until_s, row["digest"], _rows(json.loads(row["previous"])), row.get("client", "")
            )
        except (KeyError, ValueError, RecursionError) as error:
            raise CommitError(f"{COMMIT_TABLE}|{COMMIT_KEY} can't be read: {error!r}") from error


def pending_in(rows: Rows) -> Pending | None:
    """The commit that waits to be confirmed. Raises CommitError where its row can't be read."""
    row = rows.get(COMMIT_TABLE, {}).get(COMMIT_KEY)
    return None if row is None else Pending.from_row(row)


def check_none(rows: Rows) -> None:
    """Raises CommitError while one is pending: it is confirmed or cancelled first."""
    if rows.get(COMMIT_TABLE, {}).get(COMMIT_KEY) is not None:
        pending = pending_in(rows)
        assert pending is not None
        of = f" of {pending.client}" if pending.client else ""
        raise CommitError(f"commit {pending.id!r}{of} is pending, expected it confirmed or cancelled first")


def named(id: str, rows: Rows) -> Pending:
    """The pending commit, which must be of this id. Raises CommitError, OtherCommit."""
    pending = pending_in(rows)
    if pending is None:
        raise CommitError(f"commit {id!r}: none is pending")
    if pending.id != id:
        raise OtherCommit(f"commit {id!r}: {pending.id!r} is pending")
    return pending


def begun(commit: Commit, rows: Rows, changes: tuple[Change, ...], now_s: float, client: str = "") -> Pending:
    """The commit of these changes of the intent's rows."""
    rollback_s = ROLLBACK_S if commit.rollback_s is None else commit.rollback_s
    digest = _digest(applied(rows, changes))
    return Pending(commit.id, rollback_s, now_s + rollback_s, digest, _intent(rows), client)


def put(pending: Pending) -> Change:
    """The change that keeps it."""
    return Put(COMMIT_TABLE, COMMIT_KEY, pending.to_row())


def dropped() -> Change:
    """The change that ends it."""
    return Delete(COMMIT_TABLE, COMMIT_KEY)


def prolonged(pending: Pending, rollback_s: float, now_s: float) -> Pending:
    """The same with a new time to wait, from now on."""
    return replace(pending, rollback_s=rollback_s, until_s=now_s + rollback_s)


def undone(pending: Pending, rows: Rows) -> tuple[Change, ...]:
    """The changes that put the intent's rows back as they were, and end it."""
    now = _intent(rows)
    puts = [
        Put(table, key, row)
        for table, entries in pending.previous.items()
        for key, row in entries.items()
        if now.get(table, {}).get(key) != row
    ]
    gone = [Delete(t, key) for t, entries in now.items() for key in entries if key not in pending.previous.get(t, {})]
    return (*puts, *gone, dropped())


def is_overtaken(pending: Pending, rows: Rows) -> bool:
    """Whether somebody changed the intent's rows after it: what stands is no longer what it wrote."""
    return _digest(rows) != pending.digest


class Clock:
    """How long a pending commit may wait: by the monotonic clock as long as this daemon runs, however the wall clock is
    set meanwhile.

    The wall clock counts for a commit of a daemon before this one, and makes none wait longer than its client asked
    for: a switch may start with its clock years behind.
    """

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._of: tuple[str, str] | None = None
        self._at_s = float("inf")
        self._is_pending = False

    def start(self, pending: Pending) -> None:
        """It waits from now on; `watch` says when it stands in CONFIG_DB."""
        self._of, self._at_s = _wait_of(pending), time.monotonic() + pending.rollback_s

    def watch(self, pending: Pending | None) -> None:
        """This is the one that is pending. One that went and comes back keeps its time."""
        self._is_pending = pending is not None
        if pending is not None and self._of != _wait_of(pending):
            self._of = _wait_of(pending)
            left_s = min(max(pending.until_s - self._now_s(), 0.0), pending.rollback_s)
            self._at_s = time.monotonic() + left_s

    @property
    def is_due(self) -> bool:
        """Whether it is to be undone now."""
        return self._is_pending and time.monotonic() >= self._at_s


def _until(pending: Pending) -> str:
    return f"{pending.until_s:.3f}"


def _wait_of(pending: Pending) -> tuple[str, str]:
    """A commit and its time, the same before it is written and when it is read."""
    return pending.id, _until(pending)


def told(pending: Pending, status: str) -> Row:
    """What became of a commit, as fields of QCLIMB_STATUS|global."""
    row = {"commit": pending.id, "commit_status": status}
    if pending.client:
        row["commit_client"] = pending.client
    return {**row, "commit_until": f"{pending.until_s:.0f}"} if status == PENDING else row


def _intent(rows: Rows) -> Rows:
    return {table: dict(rows[table]) for table in INTENT_TABLES if rows.get(table)}


def _digest(rows: Rows) -> str:
    return digest_of(_intent(rows))


def _rows(found: Any) -> Rows:
    """Rows of the intent's tables, of JSON. Raises ValueError."""
    try:
        found.keys()  # an object, and nothing else
        return {
            table: {key: {str(f): str(v) for f, v in row.items()} for key, row in found[table].items()}
            for table in INTENT_TABLES
            if table in found
        }
    except (TypeError, AttributeError) as error:
        raise ValueError(f"previous: {error}") from error
