"""Rows that an earlier qclimb wrote, made what they are today; purely. As SONiC's db_migrator, but for our own tables.

Rows of an earlier shape are understood all the same. They are rewritten because SONiC's tools check CONFIG_DB by the
YANG of today: one row of yesterday's shape, and every `config apply-patch` on the switch fails.
"""

from collections.abc import Callable

from qclimb.config_db import GLOBAL_KEY, GLOBAL_TABLE, VERSION, version_of
from qclimb.errors import IntentError, NewerRows

from switchd.rows import Change, Put, Row, Rows


def check_not_newer(rows: Rows) -> None:
    """Raises NewerRows where a newer qclimb wrote them. A version that is nonsense makes no intent, which tells it."""
    try:
        version_of(rows)
    except NewerRows:
        raise
    except IntentError:
        return


def migration(rows: Rows) -> tuple[Change, ...]:
    """The changes that make our rows those of today's version; none where they are, or nobody can tell."""
    row = rows.get(GLOBAL_TABLE, {}).get(GLOBAL_KEY)
    try:
        said = version_of(rows)
    except IntentError:
        return ()
    if row is None:
        return ()
    now = row
    for version, step in STEPS.items():
        if said is None or said < version:
            now = step(now)
    if said is not None and said < VERSION:
        now = {**now, "version": str(VERSION)}
    return () if now == row else (Put(GLOBAL_TABLE, GLOBAL_KEY, now),)


def _ports_in_one_leaf(row: Row) -> Row:
    """The ports were the leaf-list `ports@`, at which sonic-cli-gen fails; where both are told, the leaf counts."""
    found = {name: value for name, value in row.items() if name != "ports@"}
    if row.get("ports@"):
        found.setdefault("ports", row["ports@"])
    return found


STEPS: dict[int, Callable[[Row], Row]] = {2: _ports_in_one_leaf}
"""version -> what makes the one row of the version before it a row of it; they need a change of shape to be there"""
