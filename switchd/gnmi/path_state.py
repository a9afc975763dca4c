"""State of spines and paths as the data tree has it: /qclimb/spines, /qclimb/paths, and what classes add for a path."""

from collections.abc import Mapping
from typing import Any

from qclimb.text import printable

from switchd.board import Snapshot
from switchd.counters import Total, added
from switchd.rows import Row

UNCOUNTED = frozenset({"name", "status", "reason", "interfaces", "next-hops"})
"""leaves of a spine's state that are no counters"""


def rules_of(row: Mapping[str, str]) -> list[str]:
    """The ACL rules that count a class or a spine."""
    return [rule for rule in row.get("rules", "").split(",") if rule]


def rules_in(snapshot: Snapshot) -> list[str]:
    """All of them."""
    return list(dict.fromkeys(rule for row in snapshot.steered.spines.values() for rule in rules_of(row)))


def steered(row: Mapping[str, str], counted: Mapping[str, Total]) -> Total | None:
    """What the rules of a class or a spine have counted."""
    return added([counted[rule] for rule in rules_of(row) if rule in counted])


def trees(snapshot: Snapshot, counted: Mapping[str, Total]) -> dict[str, Any]:
    """The containers `spines` and `paths`, as far as there is state."""
    found: dict[str, Any] = {}
    if snapshot.steered.spines:
        named = ((printable(name), row) for name, row in snapshot.steered.spines.items())
        spines = {(name,): _spine(name, row, counted) for name, row in named}
        found["spines"] = {"spine": spines}
    if snapshot.steered.paths:
        states = {(printable(name),): _path(printable(name), row) for name, row in snapshot.steered.paths.items()}
        found["paths"] = {"path": states}
    return found


def _spine(name: str, row: Row, counted: Mapping[str, Total]) -> dict[str, Any]:
    state: dict[str, Any] = {"name": name, "status": printable(row.get("status", "down")), **_reason(row)}
    for leaf, field in (("interfaces", "interfaces"), ("next-hops", "next_hops")):
        if row.get(field):
            state[leaf] = [printable(each).partition("@")[0] for each in row[field].split(",")]
    if (total := steered(row, counted)) is not None:
        state |= {"packets": total.packets, "bytes": total.bytes}
    return {"name": name, "state": state}


def _path(name: str, row: Row) -> dict[str, Any]:
    share, status = printable(row["share"]), printable(row.get("status", "down"))
    state = {"name": name, "share": share, "status": status, **_reason(row)}
    return {"name": name, "state": state}


def _reason(row: Row) -> dict[str, str]:
    return {"reason": printable(row["reason"])} if row.get("reason") else {}
