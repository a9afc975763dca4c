"""The one writer: intent rows -> plan -> redis, and what became of it.

All writes of this process go through a Switch, under one lock, while it holds the lock of the switch (`holder`), and
only onto the rows that were read for them.

Fails static: what can't be applied changes nothing, and the status says why. Two doors lead here: rows that anybody
wrote to QCLIMB_* (`follow`), and our gNMI servers (`edit`), which plan before they write.
"""

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TypeVar

from qclimb.config_db import TABLES as INTENT_TABLES
from qclimb.errors import HalfIntent, IntentError
from qclimb.gnmi_ext import Commit, Election
from qclimb.intent import SwitchIntent

from switchd import commits
from switchd import status as state
from switchd.asic import AsicView
from switchd.board import Board, Snapshot
from switchd.confirming import Confirming
from switchd.db import Database, DatabaseLost, NotHolder, RowsChanged
from switchd.elections import Elections
from switchd.guard import WINDOW_S, Guard
from switchd.holder import Holder
from switchd.intents import intent_changes, intent_of, may_be_half
from switchd.names import Tags
from switchd.plan import READ_TABLES, Plan, Refused, plan
from switchd.ports import ports_meant
from switchd.previous import PREVIOUS
from switchd.quiet import Quiet
from switchd.rows import Change, Delete, Put, Row, Rows, applied, described
from switchd.schedulers import digest
from switchd.status import Status
from switchd.steering import Steerer
from switchd.wanted import PathBackend, ours

log = logging.getLogger("switchd")

WATCHED_TABLES = (*INTENT_TABLES, commits.COMMIT_TABLE, *READ_TABLES)
TRIES = 10
"""readings of the rows before a change of them is given up: others write faster than we can"""
Result = TypeVar("Result")


@dataclass
class Written:
    """What was laid over the rows last: by it the ASIC is judged.

    planned  what was written for it, and what could not be
    is_new   not seen in the ASIC since it was written
    """

    intent: SwitchIntent | None
    status: Status
    rows: Rows
    ports: list[str]
    planned: Plan
    is_new: bool


class Switch:
    """The switch's configuration as qclimb holds it. Threads may share it.

    host  has what SONiC keeps for the whole box (clients, certificates, addresses, features); of several ASICs each
          has a database of its own, and this is another
    """

    def __init__(
        self,
        db: Database,
        now_s: Callable[[], float] = time.time,
        backend: PathBackend = "acl",
        quiet_s: float = 0.0,
        guard_s: float = WINDOW_S,
        host: Database | None = None,
    ) -> None:
        self.db = db
        self.host = host or db
        self.quiet = Quiet(quiet_s)
        self._known: Rows | None = None  # CONFIG_DB as we last read or wrote it
        self._is_held = self._is_half = self._has_left = False
        self._now_s = now_s
        self._lock = threading.RLock()
        self._holder = Holder(db)
        self.board = Board(db, self._holder, now_s, backend)
        self._backend: PathBackend = backend
        self._steerer = Steerer(db, self._holder) if backend == "acl" else None
        self._guard = Guard(db, guard_s)
        self.edits = 0
        self._confirming = Confirming(self.board, self.quiet, now_s, self._write, self._lay)
        self._elections = Elections(db, self._holder)
        self._tags = Tags()
        self._memory: dict[str, Row] = {}
        self._asic = AsicView(db)
        self._written: Written | None = None
        self._logged: set[str] = set()
        self._is_refused = False

    @property
    def snapshot(self) -> Snapshot:
        """What readers may see now."""
        return self.board.snapshot

    def touched(self, rows: Collection[tuple[str, str]]) -> None:
        """Somebody, perhaps we, wrote these rows, (table, key): the ASIC is looked at for what they concern."""
        with self._lock:
            self._asic.touched(rows)

    def follow(self) -> bool:
        """Bring the QoS tables to the intent rows; True if anything had to be changed. Raises DatabaseLost only."""
        with self._lock:
            self._begin()
            try:
                return self._on_rows(self._follow)
            except RowsChanged as error:
                log.info("rows change too often error=%r", str(error))
                return True

    def _follow(self, rows: Rows) -> bool:
        if self._confirming.rolls_back(rows):
            return True
        status = self.board.snapshot.status
        try:
            intent, left_s = intent_of(rows), self.quiet.left_s()
            if left_s and may_be_half(rows):
                return self._hold(status, "waiting for a whole intent")
            status = status.wants(intent)
            planned = self._plan(intent, rows)
            self._is_refused = False
            if left_s and all(isinstance(change, Delete) for change in planned.changes):
                planned = replace(planned, transactions=())  # what is left over can go later
            if left_s and planned.changes:
                return self._hold(status, f"waiting with {len(planned.changes)} changes")
        except HalfIntent as error:
            return self._hold(status, f"waiting for a whole intent: {error}", is_half=True)
        except (IntentError, Refused) as error:
            self._is_refused = True
            if str(error) != status.last_error:
                log.warning("refused generation=%s error=%r", status.desired_generation, str(error))
            now = self.board.snapshot
            kept, ports, classes = now.intent, now.ports, now.classes
            if isinstance(error, Refused):
                kept, ports = intent, state.port_rows((), error.ports) or ports
                classes = state.refused_class_rows(intent, classes, str(error)) if intent is not None else classes
            self._publish(kept, status.failed(error), classes, ports)
            return False
        return self._apply(intent, status, planned, rows)

    def _hold(self, status: Status, reason: str, is_half: bool = False) -> bool:
        """Write nothing now, and say why; `look` goes on when it is quiet, unless rows are still to come."""
        if not is_half:
            reason = f"{reason}: {self.quiet.why}"
        if not self._is_held:
            log.info("held reason=%r", reason)
        self._is_held, self._is_half = True, is_half
        now = self.board.snapshot
        self._publish(now.intent, status.held(reason), now.classes, now.ports)
        return False

    @contextmanager
    def writing(self, election: Election | None = None) -> Iterator[None]:
        """Nobody else writes meanwhile, and nobody who lost the election. Raises NotMaster, DatabaseLost."""
        with self._lock:
            self._begin()
            if election is not None:
                self._elections.check(election)
            yield

    def edit(
        self, wanted: Callable[[SwitchIntent | None], SwitchIntent | None], commit: Commit | None = None
    ) -> SwitchIntent | None:
        """Make the desired intent what `wanted` makes of the present one (None: no intent), and apply it.

        With a `commit` it is undone unless that is confirmed in time. Raises CommitError while one is pending.

        Reading and writing are one step: no other writer's rows are overwritten unseen, and `wanted` is asked again for
        rows that changed meanwhile. What it raises ends the edit. Raises Refused where the intent can't be applied,
        RowsChanged where others write without a pause, DatabaseLost; then no row was changed. Answers the new intent.
        """

        def once(rows: Rows) -> SwitchIntent | None:
            commits.check_none(rows)
            try:
                before = intent_of(rows, must_be_whole=False)
            except IntentError:  # somebody left nonsense: the last good one
                before = self.board.snapshot.intent
            intent = wanted(before)
            status, planned = self.board.snapshot.status.wants(intent), self._plan(intent, rows)
            changes, pending = intent_changes(intent, rows), None
            if commit is not None:
                pending = self._confirming.begun(commit, rows, changes)
                changes = (*changes, commits.put(pending))
            self._apply(intent, status, planned, rows, changes)
            self._confirming.note(pending)
            return intent

        with self.writing():
            found = self._on_rows(once)
            if commit is None:  # else it may not last
                self.edits += 1
            return found

    def settle(self, commit: Commit) -> None:
        """Confirm or cancel the pending commit, or give it more time. Raises CommitError, OtherCommit, DatabaseLost."""
        with self.writing():
            self._on_rows(lambda rows: self._confirming.settle(commit, rows))
            if commit.action == "confirm":
                self.edits += 1

    def _lay(self, changes: tuple[Change, ...], rows: Rows) -> None:
        """Write changes of the intent's rows, and what follows; where the switch can't take it, `follow` says so."""
        try:
            intent = intent_of(applied(rows, changes), must_be_whole=False)
            status, planned = self.board.snapshot.status.wants(intent), self._plan(intent, rows)
        except (IntentError, Refused):
            self._write(changes, rows)
        else:
            self._apply(intent, status, planned, rows, changes)

    def _on_rows(self, act: Callable[[Rows], Result]) -> Result:
        """What `act` makes of the rows now, of newer ones where somebody changed them before it could write."""
        for _ in range(TRIES - 1):
            with suppress(RowsChanged):
                return act(self._whole_tables(WATCHED_TABLES))
        return act(self._whole_tables(WATCHED_TABLES))

    def give_back(self) -> None:
        """Restore what stood before qclimb, as for a disabled intent; the intent's rows stay. Raises DatabaseLost."""
        with self._lock:
            self._begin()
            self._on_rows(lambda rows: self._apply(None, Status().wants(None), self._plan(None, rows), rows))
            if self._steerer is not None:
                self._steerer.look_if_due()
            kept = sorted(port for port, row in self.board.snapshot.ports.items() if "reason" in row)
            log.info("gave back kept=%s", ",".join(kept) or "nothing")

    def beat(self) -> None:
        """Keep the lock, tell that we live, and put back what is gone from STATE_DB. Raises DatabaseLost."""
        with self._lock:
            self._holder.hold()
            self.board.beat()

    def leave(self) -> None:
        """Let another daemon write, and write no more. Raises DatabaseLost."""
        with self._lock:
            self._has_left = True
            self._holder.release()

    def lost(self, error: DatabaseLost) -> None:
        """Redis went away, or another daemon writes: readers see the last state, with this error.

        What STATE_DB will hold afterwards is not known.
        """
        with self._lock:
            self.board.lost(error)

    def _begin(self) -> None:
        if self._has_left:
            raise NotHolder("this switchd has left")
        self._holder.hold()
        self.board.load()

    def _plan(self, intent: SwitchIntent | None, rows: Rows) -> Plan:
        """What to do about these rows; previous references that somebody removed while ours stand are there again.

        Uninstalling takes the table of our memory away under a daemon that still runs.
        """
        known, standing = rows.get(PREVIOUS, {}), {key for _, key in ours(rows)}
        gone = {key: row for key, row in self._memory.items() if key in standing and key not in known}
        if self._asic.progress.is_fresh:
            self._asic.begin(rows, self.board.snapshot.status.schedulers)
        merged, bound = {**rows, PREVIOUS: {**known, **gone}}, self._asic.bound(rows)
        planned = plan(intent, merged, bound, self._tags.next(), self._backend)
        if gone:
            first, *others = planned.transactions or ((),)
            again = tuple(Put(PREVIOUS, key, row) for key, row in gone.items())
            planned = replace(planned, transactions=((*again, *first), *others))
        return planned

    def _apply(
        self, intent: SwitchIntent | None, status: Status, planned: Plan, rows: Rows, before: tuple[Change, ...] = ()
    ) -> bool:
        """Write `before` and what was planned for `rows`; True if that was something.

        Raises RowsChanged, DatabaseLost.
        """
        self._is_held = False
        first, *others = planned.transactions or ((),)
        self._asic.before(rows, first)
        now = self._write((*before, *first), rows)
        self._memory = now.get(PREVIOUS, {})
        with suppress(RowsChanged):  # the intent is written; the rest comes with the next look
            for one in others if self._asic.reason else ():  # else when the ASIC refers to it no more
                now = self._write(one, now)
        if planned.warning not in ("", status.warning):
            log.warning("guard warning=%r", planned.warning)
        status = replace(status, warning=planned.warning)
        for port in planned.refused.keys() - {p for p, row in self.board.snapshot.ports.items() if "reason" in row}:
            log.warning("refused port=%s error=%r", port, planned.refused[port])
        if planned.changes:
            log.info("applied generation=%s changes=%d", status.desired_generation, len(planned.changes))
            for change in planned.changes:
                log.debug("change %s", described(change))
        ports = ports_meant(intent.ports, rows) if intent is not None and intent.admin_state == "enabled" else []
        was_new = self._written is not None and self._written.is_new
        self._written = Written(intent, status, now, ports, planned, was_new or bool(planned.changes))
        self._asic.expect(rows, now, planned.changes)
        if self._steerer is not None:
            self._steerer.want(intent, rows)
        self._judge()
        return bool(planned.changes)

    def look(self) -> float:
        """Look at the ASIC if it is time, and go on with what waited for it; seconds until the next look.

        Raises DatabaseLost.
        """
        with self._lock:
            left_s = self.quiet.left_s()
            if self._confirming.is_due and self.board.is_known:
                self.follow()
            if self._is_held and self.board.is_known and not (self._is_half or left_s):
                self.follow()
            if self._written is None or not self.board.is_known:
                return self._asic.due_in_s() if self._is_half or not left_s else left_s
            has_news = self._steers() | self._guard.look_if_due(
                self._written.intent, self._written.ports, self._written.rows
            )
            if self._is_held:  # redirects stand in APPL_DB: they follow the network all the same
                now = self.board.snapshot
                if has_news:
                    self._publish(now.intent, now.status, now.classes, now.ports)
                return min(left_s or 1.0, self._steerer.due_in_s() if self._steerer else 1.0)
            if self._asic.look_if_due(self._written.rows) | has_news:
                self._judge()
            has_rest = self._written.planned.is_partial and not self._asic.progress.waits
            if not (self._is_refused or left_s) and (has_rest or self._asic.has_more(self._written.rows)):
                self.follow()
            return min(self._asic.due_in_s(), self._steerer.due_in_s() if self._steerer else float("inf"))

    def _steers(self) -> bool:
        """Follow links, neighbours and routes with the redirects; whether there is news to tell."""
        if self._steerer is None or not self._steerer.look_if_due():
            return False
        self.board.steered = self._steerer.told
        return True

    def _judge(self) -> None:
        """Tell what the ASIC has of what was written."""
        done = self._written
        if done is None:
            return
        refused, waiting = self._asic.ports()
        refused |= done.planned.refused
        waiting = {port: told for port, told in waiting.items() if port not in refused and port in done.ports}
        held = state.NOT_VERIFIED if self._asic.reason else state.APPLIED
        ports = state.port_rows(done.ports, refused, waiting, held, done.planned.unshared, done.planned.unlimited)
        self._log_new(self._asic.lasting() | refused.keys() - done.planned.refused.keys(), ports)
        if waiting:
            port, (_, reason) = next(iter(waiting.items()))
            status = done.status.waits(f"{port}: {reason}" + (f" ({len(waiting)} ports)" if len(waiting) > 1 else ""))
            self._publish(done.intent, status, state.class_rows(done.intent, state.PENDING), ports)
            return
        verified = state.NOT_VERIFIED if self._asic.reason else "seen"
        status = done.status.applied(self._now_s() if done.is_new else None, verified)
        if not (self._asic.reason or self._asic.progress.waits):
            status = replace(status, schedulers=digest(done.rows))
        if (status.applied_generation, verified) != (done.status.applied_generation, done.status.verified):
            log.info(
                "%s generation=%s ports=%d", verified.partition(",")[0], status.applied_generation, len(done.ports)
            )
        done.is_new = bool(self._asic.progress.waits)
        done.status = status
        self._publish(done.intent, status, state.class_rows(done.intent), ports)

    def _log_new(self, lasting: set[str], ports: Mapping[str, Row]) -> None:
        """One line where ports wait for longer than orchagent takes, or are refused by somebody else's row."""
        new = {port for port in lasting & ports.keys() if "reason" in ports[port]} - self._logged
        if new:
            first = min(new)
            told = ports[first]
            log.warning("%s ports=%d first=%s reason=%r", told["status"], len(new), first, told["reason"])
        self._logged = (self._logged | new) & lasting

    def _write(self, changes: tuple[Change, ...], rows: Rows) -> Rows:
        """One transaction onto these rows; answers the rows after it."""
        read = {(table, key): row for table in INTENT_TABLES for key, row in rows.get(table, {}).items()}
        touched = {(one.table, one.key): rows.get(one.table, {}).get(one.key, {}) for one in changes}
        self._holder.holding(lambda: self.db.write(changes, self._holder.name, read | touched))
        self._known = {**{table: {} for table in rows}, **applied(rows, changes)}
        return self._known

    def _whole_tables(self, tables: Iterable[str]) -> Rows:
        """The rows of a whole configuration.

        `config reload` takes the mark away first and sets it last: it may begin after one look at the mark, and what is
        read then is missing rows that nobody removed.
        """
        self._check_ready()
        rows = self.db.get_tables(tables)
        self._check_ready()
        if self._known is not None and rows != self._known:
            self.quiet.disturbed()
        self._known = rows
        return rows

    def _check_ready(self) -> None:
        if not self.db.ready():
            raise DatabaseLost("redis: CONFIG_DB is not initialised yet (no CONFIG_DB_INITIALIZED)")

    def _publish(
        self, intent: SwitchIntent | None, status: Status, classes: Mapping[str, Row], ports: Mapping[str, Row]
    ) -> None:
        told = state.alarmed(self.board.steered.over(classes), self._guard.alarms)
        self.board.publish(intent, status, told, ports, self._asic.differences())
