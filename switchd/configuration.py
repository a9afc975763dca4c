"""CONFIG_DB as the one writer sees it: read whole, written onto what was read alone."""

from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from qclimb.config_db import TABLES as INTENT_TABLES

from switchd import commits
from switchd.db import Database, RowsChanged
from switchd.holder import Holder
from switchd.migrations import check_not_newer
from switchd.plan import READ_TABLES
from switchd.quiet import Quiet
from switchd.rows import Change, Rows, applied

WATCHED_TABLES = (*INTENT_TABLES, commits.COMMIT_TABLE, *READ_TABLES)
TRIES = 10
"""readings of the rows before a change of them is given up: others write faster than we can"""
Result = TypeVar("Result")


class Configuration:
    """The tables that matter to us. `quiet` is told when somebody else has changed them."""

    def __init__(self, db: Database, holder: Holder, quiet: Quiet) -> None:
        self._db, self._holder, self._quiet = db, holder, quiet
        self._known: Rows | None = None  # as we last read or wrote it

    def on_rows(self, act: Callable[[Rows], Result]) -> Result:
        """What `act` makes of the rows now, of newer ones where somebody changed them before it could write.

        Raises RowsChanged where others write without a pause, NewerRows where a newer qclimb wrote them, DatabaseLost.
        """
        for _ in range(TRIES - 1):
            with suppress(RowsChanged):
                return act(self._whole())
        return act(self._whole())

    def write(self, changes: tuple[Change, ...], rows: Rows) -> Rows:
        """One transaction onto these rows; answers the rows after it. Raises RowsChanged, DatabaseLost."""
        read = {(table, key): row for table in INTENT_TABLES for key, row in rows.get(table, {}).items()}
        touched = {(one.table, one.key): rows.get(one.table, {}).get(one.key, {}) for one in changes}
        self._holder.holding(lambda: self._db.write(changes, self._holder.name, read | touched))
        self._known = {**{table: {} for table in rows}, **applied(rows, changes)}
        return self._known

    def _whole(self) -> Rows:
        """The rows of a whole configuration.

        `config reload` takes the mark away first and sets it last: rows and mark are read in one step, else rows might
        be missing that nobody removed.
        """
        rows = self._db.get_whole_tables(WATCHED_TABLES)
        if self._known is not None and rows != self._known:
            self._quiet.disturbed()
        self._known = rows
        check_not_newer(rows)
        return rows
