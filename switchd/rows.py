"""CONFIG_DB rows as plain values: what `plan` reads and what it answers, without a database.

A row is field -> value, all strings, as redis holds it (a leaf-list is the field `name@` with "a,b"). A key is the
text after the table's name, parts joined by `|` (`Ethernet0|3`). SONiC's way to say "a row without fields" is the
field NULL with value NULL.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

Row = dict[str, str]
Rows = dict[str, dict[str, Row]]
"""table -> key -> row"""

EMPTY: Row = {"NULL": "NULL"}


@dataclass(frozen=True)
class Merge:
    """Set these fields, leave the row's others alone (ConfigDBConnector.mod_entry)."""

    table: str
    key: str
    fields: Mapping[str, str]


@dataclass(frozen=True)
class Drop:
    """Remove these fields; a row without fields is gone."""

    table: str
    key: str
    fields: tuple[str, ...]


@dataclass(frozen=True)
class Put:
    """The row is exactly this (ConfigDBConnector.set_entry)."""

    table: str
    key: str
    row: Mapping[str, str]


@dataclass(frozen=True)
class Delete:
    """Remove the row; removing a row that is not there is no error."""

    table: str
    key: str


Change = Merge | Drop | Put | Delete


def applied(rows: Mapping[str, Mapping[str, Row]], changes: Iterable[Change]) -> Rows:
    """The rows after the changes, as a new value; what redis does, done to dicts. Tables without rows vanish.

    Rows that do not change are the very same objects in both: rows are values, and nobody writes in one.
    """
    after: Rows = {table: dict(entries) for table, entries in rows.items()}
    for change in changes:
        table = after.setdefault(change.table, {})
        match change:
            case Merge():
                table[change.key] = {**table.get(change.key, {}), **change.fields}
            case Put():
                table[change.key] = dict(change.row)
            case Drop():
                left = {name: value for name, value in table.get(change.key, {}).items() if name not in change.fields}
                if left:
                    table[change.key] = left
                else:
                    table.pop(change.key, None)
            case Delete():
                table.pop(change.key, None)
    return {table: entries for table, entries in after.items() if entries}


def described(change: Change) -> str:
    """One change as one short text for the log."""
    match change:
        case Merge():
            return f"{change.table}|{change.key} += " + " ".join(f"{f}={v}" for f, v in change.fields.items())
        case Drop():
            return f"{change.table}|{change.key} -= " + " ".join(change.fields)
        case Put():
            return f"{change.table}|{change.key} = ({len(change.row)} fields)"
        case Delete():
            return f"{change.table}|{change.key} deleted"
