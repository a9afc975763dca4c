"""What a field of one row says of another row: its name, in each form that CONFIG_DB has; purely.

A reference is a plain key. `[TABLE|key]` is the form of SONiC before 2021, which some SKUs ship still; what names no
row dangles. Both are read here and nowhere else, and given back as they were.
"""

import re
from collections.abc import Mapping

from switchd.rows import Row

RowsNow = Mapping[str, Mapping[str, Row]]

DANGLING = "dangling:"
"""what a value of QCLIMB_PREVIOUS begins with that named no row when it was remembered: no name has a colon"""
_BRACKETED = re.compile(r"\[([A-Z0-9_]+)\|(.+)\]")


def as_it_was(value: str) -> str:
    """A remembered value as it stood in its row."""
    return value.removeprefix(DANGLING)


def name_in(value: str, target: str) -> str:
    """The key of `target` that a value names, in whatever form."""
    found = _BRACKETED.fullmatch(as_it_was(value))
    return found[2] if found is not None and found[1] == target else as_it_was(value)


def row_named(value: str | None, target: str, rows: RowsNow) -> Row | None:
    """The row that a value names; None where there is none."""
    return rows.get(target, {}).get(name_in(value, target)) if value else None
