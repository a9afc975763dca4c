"""What the one writer does about a commit to be confirmed: begin it, settle it, undo it in time, tell of it."""

import logging
from collections.abc import Callable

from qclimb.gnmi_ext import Commit

from switchd import commits
from switchd.board import Board
from switchd.commits import Pending
from switchd.quiet import Quiet
from switchd.rows import Change, Row, Rows

log = logging.getLogger("switchd")

Write = Callable[[tuple[Change, ...], Rows], object]
"""write(changes, rows): one transaction onto rows that were read. Raises RowsChanged, DatabaseLost."""


class Confirming:
    """The pending commit of one switch. Called under the switch's lock alone.

    write  writes changes, and nothing else
    lay    writes changes of the intent's rows, and what follows from them where the switch can take it
    """

    def __init__(self, board: Board, quiet: Quiet, now_s: Callable[[], float], write: Write, lay: Write) -> None:
        self._board, self._quiet, self._now_s = board, quiet, now_s
        self._write, self._lay = write, lay
        self._clock = commits.Clock(now_s)

    @property
    def is_due(self) -> bool:
        """Whether the pending commit is to be undone now."""
        return self._clock.is_due

    def begun(self, commit: Commit, rows: Rows, changes: tuple[Change, ...], client: str) -> Pending:
        """The commit of these changes; the caller writes it together with them, then calls `note`."""
        pending = commits.begun(commit, rows, changes, self._now_s(), client)
        self._clock.start(pending)
        return pending

    def settle(self, commit: Commit, rows: Rows) -> None:
        """Confirm, cancel or prolong. Raises CommitError, OtherCommit, and what `write` raises."""
        pending = commits.named(commit.id, rows)
        match commit.action:
            case "cancel":
                self._undo(pending, rows, commits.CANCELLED)
            case "confirm":
                self._write((commits.dropped(),), rows)
                self.note(pending, commits.CONFIRMED)
            case _:
                later = commits.prolonged(pending, commit.rollback_s or commits.ROLLBACK_S, self._now_s())
                self._write((commits.put(later),), rows)
                self._clock.start(later)
                self.note(later)
        log.info("commit id=%r event=%s", commit.id, commit.action)

    def rolls_back(self, rows: Rows) -> bool:
        """Undo the pending commit if its time is over; True if anything was written. Raises what `write` raises."""
        try:
            pending = commits.pending_in(rows)
        except commits.CommitError as error:  # nobody can tell what to go back to
            log.error("commit error=%r; the intent stays as it is", str(error))
            self._write((commits.dropped(),), rows)
            return True
        self.note(pending)
        if pending is None or not self._clock.is_due:
            return False
        if not commits.is_overtaken(pending, rows):
            log.warning("commit id=%r event=rolled-back unconfirmed_s=%g", pending.id, pending.rollback_s)
            self._undo(pending, rows, commits.ROLLED_BACK)
            return True
        if not self._quiet.may_write():
            return False
        log.warning("commit id=%r event=overtaken: somebody changed the intent after it, and that stays", pending.id)
        self._write((commits.dropped(),), rows)
        self.note(pending, commits.OVERTAKEN)
        return True

    def note(self, pending: Pending | None, became: str = commits.PENDING) -> None:
        """Tell of the commit that is pending, or of what became of the last one."""
        self._clock.watch(pending if became == commits.PENDING else None)
        told: Row = self._board.commit
        if pending is not None:
            told = commits.told(pending, became)
        elif told.get("commit_status") == commits.PENDING:
            told = {**told, "commit_status": commits.OVERTAKEN}  # somebody took its row away
            del told["commit_until"]
        self._board.tell_commit(told)

    def _undo(self, pending: Pending, rows: Rows, became: str) -> None:
        self._lay(commits.undone(pending, rows), rows)
        self.note(pending, became)
