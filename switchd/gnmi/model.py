"""qclimb.yang as this server serves it: schema, validation, and the data tree of a snapshot.

uint64 leaves go in as numbers or strings, and out as strings in JSON_IETF (RFC 7951), as numbers in JSON.
"""

from collections.abc import Mapping
from typing import Any

from qclimb.errors import IntentError
from qclimb.intent import SwitchIntent
from qclimb.schema import validate_gnmi

from switchd.apply import Snapshot
from switchd.counters import Total
from switchd.gnmi.errors import invalid
from switchd.gnmi.paths import Place
from switchd.gnmi.schema import Schema, load
from switchd.gnmi.tree import Tree, from_json, to_json
from switchd.status import Status

MODULE = "qclimb"
COUNTERS_AT = ("qclimb", "classes", "class", "state")
PREFIX = f"{MODULE}:"


class Model:
    """The one module of this server; loading it costs some milliseconds, once."""

    def __init__(self) -> None:
        self.schema: Schema = load(MODULE)
        self.root = self.schema.root

    def config(self, intent: SwitchIntent | None) -> Tree:
        """The configuration as a tree; {} when nothing was ever set."""
        if intent is None:
            return {}
        tree: Tree = from_json(self.root, intent.to_gnmi(), MODULE, "/")
        return tree

    def intent(self, tree: Tree) -> SwitchIntent | None:
        """The intent of a configuration tree, validated by YANG, then by the types.

        Raises RpcError INVALID_ARGUMENT with the path.
        """
        if not tree:
            return None
        obj = to_json(self.root, tree, PREFIX)
        try:
            validate_gnmi(obj)
            return SwitchIntent.from_gnmi(obj)
        except IntentError as error:
            raise invalid(str(error)) from error

    def data(self, snapshot: Snapshot, counted: Mapping[int, Total] | None = None) -> Tree:
        """Configuration and state of a snapshot as one tree, with the counters by queue where they were asked for."""
        tree = self.config(snapshot.intent)
        top = tree.setdefault("qclimb", {})
        top["state"] = {**top.get("config", {}), **_status_tree(snapshot.status)}
        for priority, row in (snapshot.classes or {}).items():
            entry = (
                top.setdefault("classes", {})
                .setdefault("class", {})
                .setdefault((priority,), {"priority": int(priority)})
            )
            entry["state"] = _class_tree(priority, row)
            total = (counted or {}).get(entry["state"]["queue"])
            if total is not None:
                entry["state"] |= _counter_tree(total)
        return tree


def _status_tree(status: Status) -> dict[str, Any]:
    state: dict[str, Any] = {"admin-state": status.admin_state}
    if status.applied_generation is not None:
        state["applied-generation"] = status.applied_generation
    if status.desired_generation is not None:
        state["desired-generation"] = status.desired_generation
    if status.last_error:
        state["last-error"] = status.last_error
    if status.applied_at:
        state["applied-at"] = status.applied_at
    return state


def counts(place: Place) -> bool:
    """Whether a path covers counters, so that they have to be read."""
    names = [step.name for step in place.steps]
    return all(a == b for a, b in zip(names, COUNTERS_AT, strict=False)) and place.node.name not in _class_tree("0", {})


def _counter_tree(total: Total) -> dict[str, int]:
    leaves = {"packets": total.packets, "bytes": total.bytes, "dropped-packets": total.dropped_packets}
    return {name: value for name, value in leaves.items() if value is not None}


def _class_tree(priority: str, row: dict[str, str]) -> dict[str, Any]:
    return {
        "priority": int(priority),
        "dscp": int(row.get("dscp", 0)),
        "queue": int(row.get("queue", 0)),
        "path": row.get("path", "balanced"),
        "threshold-bytes": int(row.get("threshold_bytes", 0)),
        "status": row.get("status", "applied"),
    }
