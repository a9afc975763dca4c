"""The one writer: intent rows -> plan -> redis, and what became of it.

All writes of this process go through a Switch, under one lock, while it holds the lock of the switch (`holder`), and
only onto the rows that were read for them.

Fails static: what can't be applied changes nothing, and the status says why. Two doors lead here: rows that anybody
wrote to QCLIMB_* (`follow`), and our gNMI servers (`edit`), which plan before they write.
"""

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace

from qclimb.errors import IntentError, NewerRows
from qclimb.gnmi_ext import Commit, Election
from qclimb.intent import SwitchIntent

from switchd import commits
from switchd import status as state
from switchd.asic import AsicView
from switchd.board import Board, Snapshot
from switchd.configuration import Configuration
from switchd.confirming import Confirming
from switchd.db import Database, DatabaseLost, NotHolder, RowsChanged
from switchd.decide import Go, Hold, No, Written, decide, forgotten, judge, remembering
from switchd.elections import Elections
from switchd.guard import WINDOW_S, Guard
from switchd.holder import Holder
from switchd.intents import intent_changes, intent_of
from switchd.migrations import migration
from switchd.names import Tags
from switchd.patchers import PATCH_S
from switchd.plan import Plan, Refused, plan
from switchd.ports import ports_meant
from switchd.previous import PREVIOUS
from switchd.quiet import LOOK_S, Quiet
from switchd.rows import Change, Row, Rows, applied, described
from switchd.status import Status
from switchd.steering import Steerer
from switchd.waiting import Waiting, Why
from switchd.wanted import PathBackend, ours

log = logging.getLogger("switchd")


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
        patch_s: float = PATCH_S,
    ) -> None:
        self.db = db
        self.host = host or db
        self.quiet = Quiet(quiet_s, db.client_list, patch_s)
        self._waiting = Waiting()
        self._now_s = now_s
        self._lock = threading.RLock()
        self._holder = Holder(db)
        self._configuration = Configuration(db, self._holder, self.quiet)
        self.board = Board(db, self._holder, now_s, backend)
        self._backend: PathBackend = backend
        self._steerer = Steerer(db, self._holder) if backend == "acl" else None
        self._guard = Guard(db, guard_s)
        self.edits = 0
        self._confirming = Confirming(self.board, self.quiet, now_s, self._configuration.write, self._lay)
        self._elections = Elections(db, self._holder)
        self._tags = Tags()
        self._memory: dict[str, Row] = {}
        self._asic = AsicView(db)
        self._written: Written | None = None
        self._logged: set[str] = set()

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
                return self._configuration.on_rows(self._follow)
            except RowsChanged as error:
                log.info("rows change too often error=%r", str(error))
                return True
            except NewerRows as error:
                self._refuse(No(self.board.snapshot.status, error), Why.NEWER)
                return False

    def _follow(self, rows: Rows) -> bool:
        if not self.quiet.stopped and self._confirming.rolls_back(rows):
            return True
        rows = self._migrate(rows)
        match decide(rows, self.board.snapshot.status, self.quiet, self._plan):
            case Go(status, intent, planned):
                return self._apply(intent, status, planned, rows)
            case Hold() as hold:
                self._hold(hold)
            case No() as no:
                self._refuse(no)
        return False

    def _migrate(self, rows: Rows) -> Rows:
        """Rewrite rows of an earlier version, once nobody else patches CONFIG_DB; until then they count as they are."""
        changes = migration(rows)
        has_old = bool(changes) and not self.quiet.may_write()
        self._waiting = replace(self._waiting, has_old=has_old)
        if not changes or has_old:
            return rows
        now = self._configuration.write(changes, rows)
        log.info("migrated rows=%d: %s", len(changes), "; ".join(described(change) for change in changes))
        return now

    def _hold(self, hold: Hold) -> None:
        """Write nothing now, and say why; `look` goes on when it is quiet, unless rows are still to come.

        Readers see the last intent that was taken; where this daemon took none yet, what the rows say, once they can
        be read.
        """
        if not self._waiting.is_held:
            log.info("held reason=%r", hold.reason)
        self._waits_for(Why.ROWS if hold.is_half else Why.QUIET)
        now = self.board.snapshot
        intent = now.intent if now.is_read else hold.intent
        is_read = now.is_read or hold.is_known
        self._publish(intent, hold.status.held(hold.reason), now.classes, now.ports, is_read)

    def _waits_for(self, why: Why) -> None:
        self._waiting = replace(self._waiting, why=why)

    def _refuse(self, no: No, why: Why = Why.REFUSED) -> None:
        """Change nothing, and say why."""
        self._waits_for(why)
        if str(no.error) != no.status.last_error:
            log.warning("refused generation=%s error=%r", no.status.desired_generation, str(no.error))
        now = self.board.snapshot
        kept, ports, classes = now.intent, now.ports, now.classes
        if isinstance(no.error, Refused):
            kept, ports = no.intent, state.port_rows((), no.error.ports) or ports
            classes = state.refused_class_rows(no.intent, classes, str(no.error)) if no.intent is not None else classes
        self._publish(kept, no.status.failed(no.error), classes, ports)

    @contextmanager
    def writing(self, election: Election | None = None) -> Iterator[None]:
        """Nobody else writes meanwhile, and nobody who lost the election. Raises NotMaster, DatabaseLost."""
        with self._lock:
            self._begin()
            if self.quiet.stopped:
                raise DatabaseLost(f"{self.quiet.stopped}; nothing was written")
            if election is not None:
                self._elections.check(election)
            yield

    def edit(
        self,
        wanted: Callable[[SwitchIntent | None], SwitchIntent | None],
        commit: Commit | None = None,
        client: str = "",
        is_whole: Callable[[], bool] = lambda: True,
    ) -> SwitchIntent | None:
        """Make the desired intent what `wanted` makes of the present one (None: no intent), and apply it.

        With a `commit`, of this `client`, it is undone unless that is confirmed in time. Raises CommitError while one
        is pending.

        Reading and writing are one step: no other writer's rows are overwritten unseen, and `wanted` is asked again for
        rows that changed meanwhile. What it raises ends the edit. `is_whole` tells whether it keeps nothing of the
        present one: else one that can't be read, where none was good before, refuses it. Raises Refused where the
        intent can't be applied, RowsChanged where others write without a pause, DatabaseLost; then no row was changed.
        Answers the new intent.
        """

        def once(rows: Rows) -> SwitchIntent | None:
            commits.check_none(rows)
            try:
                before = intent_of(rows, must_be_whole=False)
            except IntentError as error:  # somebody left nonsense: the last good one
                before = self.board.snapshot.intent
                if before is None and not is_whole():
                    raise Refused(f"{error}; a part can't be laid over that, the whole can take its place") from error
            intent = wanted(before)
            status, planned = self.board.snapshot.status.wants(intent), self._plan(intent, rows)
            changes, pending = intent_changes(intent, rows), None
            if commit is not None:
                pending = self._confirming.begun(commit, rows, changes, client)
                changes = (*changes, commits.put(pending))
            self._apply(intent, status, planned, rows, changes)
            self._confirming.note(pending)
            return intent

        with self.writing():
            found = self._configuration.on_rows(once)
            if commit is None:  # else it may not last
                self.edits += 1
            return found

    def check_none_pending(self) -> None:
        """Raises CommitError while a commit waits to be confirmed, or DatabaseLost."""
        self._configuration.on_rows(commits.check_none)

    def settle(self, commit: Commit) -> None:
        """Confirm or cancel the pending commit, or give it more time. Raises CommitError, OtherCommit, DatabaseLost."""
        with self.writing():
            self._configuration.on_rows(lambda rows: self._confirming.settle(commit, rows))
            if commit.action == "confirm":
                self.edits += 1

    def _lay(self, changes: tuple[Change, ...], rows: Rows) -> None:
        """Write changes of the intent's rows, and what follows; where the switch can't take it, `follow` says so."""
        try:
            intent = intent_of(applied(rows, changes), must_be_whole=False)
            status, planned = self.board.snapshot.status.wants(intent), self._plan(intent, rows)
        except (IntentError, Refused):
            self._configuration.write(changes, rows)
        else:
            self._apply(intent, status, planned, rows, changes)

    def give_back(self) -> None:
        """Restore what stood before qclimb, as for a disabled intent; the intent's rows stay. Raises DatabaseLost."""
        with self._lock:
            self._begin()
            self._configuration.on_rows(
                lambda rows: self._apply(None, Status().wants(None), self._plan(None, rows), rows)
            )
            if self._steerer is not None:
                self._steerer.look_if_due()
            kept = sorted(port for port, row in self.board.snapshot.ports.items() if "reason" in row)
            log.info("gave back kept=%s", ",".join(kept) or "nothing")

    def beat(self) -> None:
        """Keep the lock, tell that we live, put back what is gone from STATE_DB, and see that CONFIG_DB is whole.

        Raises DatabaseLost.
        """
        with self._lock:
            self._holder.hold()
            self.board.beat()
            self.db.check_whole()

    def leave(self) -> None:
        """Let another daemon write, and write no more. Raises DatabaseLost."""
        with self._lock:
            self._waits_for(Why.LEFT)
            self._holder.release()

    def lost(self, error: DatabaseLost) -> None:
        """Redis went away, or another daemon writes: readers see the last state, with this error.

        What STATE_DB will hold afterwards is not known.
        """
        with self._lock:
            self.board.lost(error)

    def _begin(self) -> None:
        if self._waiting.why is Why.LEFT:
            raise NotHolder("this switchd has left")
        self._holder.hold()
        self.board.load()

    def _plan(self, intent: SwitchIntent | None, rows: Rows) -> Plan:
        """What to do about these rows; previous references that somebody removed while ours stand are there again."""
        gone = forgotten(rows, self._memory, {key for _, key in ours(rows)})
        if self._asic.progress.is_fresh:
            self._asic.begin(rows, self.board.snapshot.status.schedulers)
        merged, bound = {**rows, PREVIOUS: {**rows.get(PREVIOUS, {}), **gone}}, self._asic.bound(rows)
        return remembering(plan(intent, merged, bound, self._tags.next(), self._backend), gone)

    def _apply(
        self, intent: SwitchIntent | None, status: Status, planned: Plan, rows: Rows, before: tuple[Change, ...] = ()
    ) -> bool:
        """Write `before` and what was planned for `rows`; True if that was something.

        Raises RowsChanged, DatabaseLost.
        """
        self._waits_for(Why.NOTHING)
        first, *others = planned.transactions or ((),)
        self._asic.before(rows, first)
        now = self._configuration.write((*before, *first), rows)
        self._memory = now.get(PREVIOUS, {})
        with suppress(RowsChanged):  # the intent is written; the rest comes with the next look
            for one in others if self._asic.reason else ():  # else when the ASIC refers to it no more
                now = self._configuration.write(one, now)
        if planned.warning not in ("", status.warning):
            log.warning("guard warning=%r", planned.warning)
        status = replace(status, warning=planned.warning)
        for port in planned.refused.keys() - {p for p, row in self.board.snapshot.ports.items() if "reason" in row}:
            log.warning("refused port=%s error=%r", port, planned.refused[port])
        if planned.changes:
            log.info("applied generation=%s changes=%d", status.desired_generation, len(planned.changes))
            for change in planned.changes if log.isEnabledFor(logging.DEBUG) else ():
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
            if self.board.is_known and self._waiting.follows(not left_s, self._confirming.is_due):
                self.follow()
            done = self._written
            if done is None and self._steerer is not None and self._waiting.is_kept and not self.quiet.stopped:
                self._steerer.keep_if_due()
            if done is None or not self.board.is_known:
                return left_s or self._asic.due_in_s()
            has_news = self._steers() | self._guard.look_if_due(done.intent, done.ports, done.rows)
            if self._waiting.is_held:
                if has_news:
                    self._tell_again()
                return min(left_s or 1.0, self._steers_in_s())
            is_told = self._waiting.is_told_by_the_asic
            if self._asic.look_if_due(done.rows) | has_news:
                (self._judge if is_told else self._tell_again)()
            has_rest = done.planned.is_partial and not self._asic.progress.waits
            if is_told and not left_s and (has_rest or self._asic.has_more(done.rows)):
                self.follow()
            return min(self._asic.due_in_s(), self._steers_in_s())

    def _tell_again(self) -> None:
        """The same with what is new of paths, counters and the ASIC: what was refused or waits stays told."""
        now = self.board.snapshot
        self._publish(now.intent, now.status, now.classes, now.ports)

    def _steers_in_s(self) -> float:
        """Seconds until redirects are looked at."""
        if self._steerer is None:
            return float("inf")
        return LOOK_S if self.quiet.stopped else self._steerer.due_in_s()

    def _steers(self) -> bool:
        """Follow links, neighbours and routes with the redirects; whether there is news to tell."""
        if self._steerer is None or self.quiet.stopped or not self._steerer.look_if_due():
            return False
        self.board.steered = self._steerer.told
        return True

    def _judge(self) -> None:
        """Tell what the ASIC has of what was written."""
        done = self._written
        if done is None:
            return
        refused, waiting = self._asic.ports()
        has_rest = bool(self._asic.progress.waits)
        told = judge(done, refused, waiting, self._asic.reason, has_rest, self._now_s())
        self._log_new(self._asic.lasting() | refused.keys() - done.planned.refused.keys(), told.ports)
        if not told.waiting:
            now, before = told.status, done.status
            if (now.applied_generation, now.verified) != (before.applied_generation, before.verified):
                log.info(
                    "%s generation=%s ports=%d", now.verified.partition(",")[0], now.applied_generation, len(done.ports)
                )
            done.is_new, done.status = has_rest, now
        self._publish(done.intent, told.status, told.classes, told.ports)

    def _log_new(self, lasting: set[str], ports: Mapping[str, Row]) -> None:
        """One line where ports wait for longer than orchagent takes, or are refused by somebody else's row."""
        new = {port for port in lasting & ports.keys() if "reason" in ports[port]} - self._logged
        if new:
            first = min(new)
            told = ports[first]
            log.warning("%s ports=%d first=%s reason=%r", told["status"], len(new), first, told["reason"])
        self._logged = (self._logged | new) & lasting

    def _publish(
        self,
        intent: SwitchIntent | None,
        status: Status,
        classes: Mapping[str, Row],
        ports: Mapping[str, Row],
        is_read: bool = True,
    ) -> None:
        told = state.alarmed(self.board.steered.over(classes), self._guard.alarms)
        self.board.publish(intent, status, told, ports, self._asic.differences(), is_read)
