"""The one writer: intent rows -> plan -> redis, and what became of it.

All writes of this process go through a Switch, under one lock.

Fails static: what can't be applied changes nothing, and the status says why. Two doors lead here: rows that anybody
wrote to QCLIMB_* (`follow`), and our gNMI server (`commit`), which plans before it writes.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from qclimb.config_db import TABLES as INTENT_TABLES
from qclimb.errors import IntentError
from qclimb.intent import SwitchIntent

from switchd.db import Database, DatabaseLost
from switchd.plan import READ_TABLES, Refused, plan
from switchd.rows import Change, Delete, Put, Row, Rows, described
from switchd.status import CLASS_STATE_TABLE, STATUS_KEY, STATUS_TABLE, Status, class_rows

log = logging.getLogger("switchd")

WATCHED_TABLES = (*INTENT_TABLES, *READ_TABLES)


@dataclass(frozen=True)
class Snapshot:
    """The intent and state as readers see them: always of one committed moment. `version` counts up."""

    version: int = 0
    intent: SwitchIntent | None = None
    status: Status = field(default_factory=Status)
    classes: Mapping[str, Row] | None = None


class Switch:
    """The switch's configuration as qclimb holds it. Threads may share it."""

    def __init__(self, db: Database, now_s: Callable[[], float] = time.time, narrow_buffers: bool = False) -> None:
        self.db = db
        self._narrow_buffers = narrow_buffers
        self._now_s = now_s
        self._lock = threading.RLock()
        self._changed = threading.Condition()
        self._published: tuple[Row, dict[str, Row]] | None = None  # STATE_DB as we left it; None: not known
        self._snapshot = Snapshot()

    @property
    def snapshot(self) -> Snapshot:
        """What readers may see now."""
        return self._snapshot

    def wait_newer(self, version: int, timeout_s: float) -> Snapshot:
        """The snapshot, as soon as it is newer than `version` or the time is over."""
        with self._changed:
            self._changed.wait_for(lambda: self._snapshot.version > version, timeout_s)
            return self._snapshot

    def follow(self) -> bool:
        """Bring the QoS tables to the intent rows; True if anything had to be changed. Raises DatabaseLost only."""
        with self._lock:
            self._load_state()
            rows = self._whole_tables(WATCHED_TABLES)
            status = self._snapshot.status
            try:
                intent = intent_of(rows)
                status = status.wants(intent)
                changes = plan(intent, rows, self._narrow_buffers)
            except (IntentError, Refused) as error:
                if str(error) != status.last_error:
                    log.warning("refused generation=%s error=%r", status.desired_generation, str(error))
                kept = intent if isinstance(error, Refused) else self._snapshot.intent
                self._publish(kept, status.failed(error), self._snapshot.classes or {})
                return False
            self._apply(intent, status, changes)
            return bool(changes)

    def intent_now(self) -> SwitchIntent | None:
        """The desired intent as the rows have it this moment; the last good one if somebody left nonsense there.

        Raises DatabaseLost.
        """
        with self._lock:
            try:
                return intent_of(self._whole_tables(INTENT_TABLES))
            except IntentError:
                return self._snapshot.intent

    def commit(self, intent: SwitchIntent | None) -> None:
        """Make `intent` the desired one (None: remove it) and apply it, in one transaction.

        Raises Refused when it can't be applied, or DatabaseLost; then no row was changed.
        """
        with self._lock:
            self._load_state()
            rows = self._whole_tables(WATCHED_TABLES)
            changes = plan(intent, rows, self._narrow_buffers)
            self._apply(intent, self._snapshot.status.wants(intent), changes, intent_changes(intent, rows))

    def lost(self, error: DatabaseLost) -> None:
        """Redis went away: readers see the last state, with this error.

        What STATE_DB will hold afterwards is not known.
        """
        with self._lock:
            self._published = None
            self._show(self._snapshot.intent, self._snapshot.status.failed(error), self._snapshot.classes or {})

    def _apply(
        self, intent: SwitchIntent | None, status: Status, changes: tuple[Change, ...], first: tuple[Change, ...] = ()
    ) -> None:
        self.db.write((*first, *changes))
        if changes:
            log.info("applied generation=%s changes=%d", status.desired_generation, len(changes))
            for change in changes:
                log.debug("change %s", described(change))
        self._publish(intent, status.applied(self._now_s() if changes else None), class_rows(intent))

    def _whole_tables(self, tables: Iterable[str]) -> Rows:
        """The rows of a whole configuration.

        `config reload` takes the mark away first and sets it last: it may begin after one look at the mark, and what is
        read then is missing rows that nobody removed.
        """
        self._check_ready()
        rows = self.db.get_tables(tables)
        self._check_ready()
        return rows

    def _check_ready(self) -> None:
        if not self.db.ready():
            raise DatabaseLost("redis: CONFIG_DB is not initialised yet (no CONFIG_DB_INITIALIZED)")

    def _load_state(self) -> None:
        """Start from what STATE_DB says: a restarted daemon keeps the generation and time that it had applied."""
        if self._published is not None:
            return
        row = self.db.get_state(STATUS_TABLE).get(STATUS_KEY, {})
        classes = self.db.get_state(CLASS_STATE_TABLE)
        if self._snapshot.version == 0:
            self._snapshot = Snapshot(0, None, Status.from_row(row), classes)
        self._published = (row, classes)

    def _publish(self, intent: SwitchIntent | None, status: Status, classes: Mapping[str, Row]) -> None:
        published_row, published_classes = self._published or ({}, {})
        row, rows = status.to_row(), {key: dict(one) for key, one in classes.items()}
        for key in published_classes.keys() - rows.keys():
            self.db.delete_state(CLASS_STATE_TABLE, key)
        for key, one in rows.items():
            if published_classes.get(key) != one:
                self.db.set_state(CLASS_STATE_TABLE, key, one)
        if published_row != row:
            self.db.set_state(STATUS_TABLE, STATUS_KEY, row)
        self._published = (row, rows)
        self._show(intent, status, rows)

    def _show(self, intent: SwitchIntent | None, status: Status, classes: Mapping[str, Row]) -> None:
        old = self._snapshot
        if old.version and (old.intent, old.status, old.classes) == (intent, status, classes):
            return
        with self._changed:
            self._snapshot = Snapshot(old.version + 1, intent, status, classes)
            self._changed.notify_all()


def intent_of(rows: Rows) -> SwitchIntent | None:
    """The intent of the QCLIMB_* rows; None when there are none at all. Raises IntentError."""
    if not any(rows.get(table) for table in INTENT_TABLES):
        return None
    return SwitchIntent.from_config_db(rows)


def intent_changes(intent: SwitchIntent | None, rows: Rows) -> tuple[Change, ...]:
    """The changes that make the QCLIMB_* rows say exactly this intent."""
    wanted = intent.to_config_db() if intent is not None else {}
    puts = [
        Put(table, key, row)
        for table in INTENT_TABLES
        for key, row in wanted.get(table, {}).items()
        if rows.get(table, {}).get(key) != row
    ]
    gone = [
        Delete(table, key) for table in INTENT_TABLES for key in rows.get(table, {}) if key not in wanted.get(table, {})
    ]
    return (*puts, *gone)
