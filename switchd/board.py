"""What readers see of this switch: one snapshot for gNMI, the same in STATE_DB for `show qclimb`.

Written by the one writer alone (`apply`), read by any thread.
"""

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from qclimb.intent import SwitchIntent

from switchd import status as state
from switchd.db import STATE, Database, DatabaseLost
from switchd.holder import Holder
from switchd.rows import Change, Delete, Merge, Put, Row, Rows
from switchd.status import Status, Steered

log = logging.getLogger("switchd")

COMMIT_FIELDS = ("commit", "commit_status", "commit_until", "commit_client")


@dataclass(frozen=True)
class Snapshot:
    """The intent and state as readers see them: always of one committed moment. `version` counts up."""

    version: int = 0
    is_read: bool = False
    """CONFIG_DB was read, and whole: until then nothing is known of an intent"""
    intent: SwitchIntent | None = None
    status: Status = field(default_factory=Status)
    classes: Mapping[str, Row] = field(default_factory=dict)
    ports: Mapping[str, Row] = field(default_factory=dict)
    steered: Steered = field(default_factory=Steered)
    backend: str = "none"
    """what pins classes to spines"""
    commit: Mapping[str, str] = field(default_factory=dict)
    """the commit that is to be confirmed, or what became of the last one (`commits.told`)"""


class Board:
    """What readers see.

    door     why gNMI is not served, for the status; empty where it is
    commit   what is told of a commit that is to be confirmed, from the next `publish` on
    steered  what is told of paths from the next `publish` on
    begun    set once CONFIG_DB was read, or could not be
    """

    def __init__(self, db: Database, holder: Holder, now_s: Callable[[], float], backend: str = "none") -> None:
        self._db, self._holder, self._now_s = db, holder, now_s
        self._listeners: list[Callable[[], object]] = []
        self._published: Rows | None = None  # STATE_DB as we left it; None: not known
        self._snapshot = Snapshot(backend=backend)
        self._differences: Mapping[str, Row] = {}
        self.door = ""
        self.begun = threading.Event()
        self.commit: Row = {}
        self.steered = Steered()

    @property
    def snapshot(self) -> Snapshot:
        """What readers may see now."""
        return self._snapshot

    @property
    def is_known(self) -> bool:
        """Whether STATE_DB holds what we told it, as far as we know."""
        return self._published is not None

    def listen(self, hear: Callable[[], object]) -> None:
        """Call `hear` after each newer snapshot, in the writer's thread: it must not wait for anything."""
        self._listeners.append(hear)

    def load(self) -> None:
        """Start from what STATE_DB says: a restarted daemon keeps the generation and time that it had applied."""
        if self._published is not None:
            return
        found = {table: self._db.get_state(table) for table in state.TABLES}
        row = found[state.STATUS_TABLE].get(state.STATUS_KEY, {})
        if not self._snapshot.is_read:
            self.commit = {name: row[name] for name in COMMIT_FIELDS if name in row}
            classes, ports = state.readable(found[state.CLASS_STATE_TABLE]), found[state.PORT_STATE_TABLE]
            self._snapshot = replace(self._snapshot, status=Status.from_row(row), classes=classes, ports=ports)
        self._published = found

    def publish(
        self,
        intent: SwitchIntent | None,
        status: Status,
        classes: Mapping[str, Row],
        ports: Mapping[str, Row],
        differences: Mapping[str, Row],
        is_read: bool,
    ) -> None:
        """Tell all of it: what changed goes to STATE_DB in one transaction. `is_read`: the intent is what CONFIG_DB
        says; where it isn't, nobody knows one. Raises DatabaseLost."""
        published, rows = self._published or {}, state.state_rows(status, classes, ports, differences, self.steered)
        rows[state.STATUS_TABLE][state.STATUS_KEY] |= {"path_backend": self._snapshot.backend, **self.commit}
        if self.door:
            rows[state.STATUS_TABLE][state.STATUS_KEY]["gnmi"] = self.door
        gone: list[Change] = [
            Delete(table, key) for table, old in published.items() for key in old if key not in rows[table]
        ]
        changed: list[Change] = [
            Put(table, key, row)
            for table, entries in rows.items()
            for key, row in entries.items()
            if published.get(table, {}).get(key) != row
        ]
        if changed or gone:
            told = [*gone, *changed, self._heartbeat()]
            self._holder.holding(lambda: self._db.write_state(told, self._holder.name))
        self._published, self._differences = rows, differences
        self._show(intent, status, classes, ports, is_read)

    def tell_commit(self, told: Row) -> None:
        """Tell of a commit that is to be confirmed, at once if it is news. Raises DatabaseLost."""
        if told == self.commit:
            return
        self.commit, now = told, self._snapshot
        if self._published is not None:
            self.publish(now.intent, now.status, now.classes, now.ports, self._differences, now.is_read)

    def beat(self) -> None:
        """Tell that we live, and put back what is gone from STATE_DB. Raises DatabaseLost."""
        if self._published is None:
            return
        keys = [(table, key) for table, entries in self._published.items() for key in entries]
        found = self._db.hashes(STATE, [f"{table}|{key}" for table, key in keys])
        is_there = all(
            row.items() >= self._published[table][key].items() for (table, key), row in zip(keys, found, strict=True)
        )
        told = self._published[state.STATUS_TABLE][state.STATUS_KEY].get("gnmi", "")
        if not is_there or told != self.door:
            log.info("state written=again")
            self._published = {}
            now = self._snapshot
            self.publish(now.intent, now.status, now.classes, now.ports, self._differences, now.is_read)
        self._db.write_state([self._heartbeat()], self._holder.name)

    def lost(self, error: DatabaseLost) -> None:
        """Readers see the last state, with this error. What STATE_DB will hold afterwards is not known."""
        self._published = None
        now = self._snapshot
        self._show(now.intent, replace(now.status, last_error=str(error)), now.classes, now.ports, now.is_read)

    def _heartbeat(self) -> Change:
        return Merge(state.STATUS_TABLE, state.STATUS_KEY, {"heartbeat": f"{self._now_s():.0f}"})

    def _show(
        self,
        intent: SwitchIntent | None,
        status: Status,
        classes: Mapping[str, Row],
        ports: Mapping[str, Row],
        is_read: bool,
    ) -> None:
        old = self._snapshot
        now = replace(old, intent=intent, status=status, classes=classes, ports=ports)
        now = replace(now, steered=self.steered, commit=self.commit, is_read=is_read)
        if old.version and old == now:
            return
        self._snapshot = replace(now, version=old.version + 1)
        self.begun.set()
        for hear in self._listeners:
            hear()
