"""The intent that the QCLIMB_* rows say, and the changes that make them say another; purely."""

from qclimb.config_db import TABLES as INTENT_TABLES
from qclimb.config_db import check_whole, is_marked, with_digest
from qclimb.intent import SwitchIntent

from switchd.rows import Change, Delete, Put, Rows


def intent_of(rows: Rows, must_be_whole: bool = True) -> SwitchIntent | None:
    """The intent of the QCLIMB_* rows; None when there are none at all.

    Raises IntentError; HalfIntent where some of a marked one are still to come, unless what stands will do.
    """
    if not any(rows.get(table) for table in INTENT_TABLES):
        return None
    if must_be_whole:
        check_whole(rows)
    return SwitchIntent.from_config_db(rows)


def may_be_half(rows: Rows) -> bool:
    """Whether nobody can tell from the rows alone that they are a whole intent."""
    return any(rows.get(table) for table in INTENT_TABLES) and not is_marked(rows)


def intent_changes(intent: SwitchIntent | None, rows: Rows) -> tuple[Change, ...]:
    """The changes that make the QCLIMB_* rows say exactly this intent, marked as whole."""
    wanted = with_digest(intent.to_config_db()) if intent is not None else {}
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
