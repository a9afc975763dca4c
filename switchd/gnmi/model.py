"""qclimb.yang as this server serves it: schema, validation, and the data tree of a snapshot.

uint64 leaves go in as numbers or strings, and out as strings in JSON_IETF (RFC 7951), as numbers in JSON.
"""

import re
from collections.abc import Mapping
from typing import Any

from qclimb.errors import IntentError
from qclimb.intent import SwitchIntent
from qclimb.leaves import INTENT, SHARES
from qclimb.schema import validate_gnmi
from qclimb.text import printable

from switchd.board import Snapshot
from switchd.counters import Total, Totals
from switchd.gnmi import path_state
from switchd.gnmi.errors import invalid
from switchd.gnmi.moment import Moment
from switchd.gnmi.paths import Place
from switchd.gnmi.schema import Schema, load
from switchd.gnmi.tree import Tree, from_json, to_json
from switchd.status import NOT_VERIFIED, Status, is_number, timestamp

MODULE = "qclimb"
COUNTERS_AT = tuple(("qclimb", *at, "state") for at in (("classes", "class"), ("ports", "port"), ("spines", "spine")))
COUNTERS = frozenset({"packets", "bytes", "dropped-packets"})
QUOTED_KEY = re.compile(r"='([^']*)'\]")
SHARE = re.compile(r"[01](\.[0-9]{1,9})?")
PREFIX = f"{MODULE}:"
DEFAULTS = {leaf.name: leaf.default for leaf in INTENT if isinstance(leaf.default, str)}
"""of the switch as a whole, in use where nothing else was set (gNMI specification 3.3.4); entries tell theirs"""
YEAR_10000_S = 253_402_300_800


class Model:
    """The one module of this server; loading it costs some milliseconds, once."""

    def __init__(self) -> None:
        self.schema: Schema = load(MODULE)
        self.root = self.schema.root
        self._last: Moment | None = None

    def config(self, intent: SwitchIntent | None) -> Tree:
        """The configuration as a tree; {} when nothing was ever set."""
        if intent is None:
            return {}
        tree: Tree = from_json(self.root, intent.to_gnmi(), MODULE, "/")
        return tree

    def intent(self, tree: Tree) -> SwitchIntent | None:
        """The intent of a configuration tree, validated by YANG, then by the types.

        Raises RpcError INVALID_ARGUMENT with the path as gNMI writes it: `/qclimb/classes/class[priority=0]`.
        """
        top = tree.get("qclimb", {})
        if top.keys() <= {"config"} and top.get("config", {}).items() <= DEFAULTS.items():
            return None  # as a switch says it that was never configured
        obj = to_json(self.root, tree, PREFIX)
        try:
            validate_gnmi(obj)
            return SwitchIntent.from_gnmi(obj)
        except IntentError as error:
            raise invalid(_plainly(obj, error)) from error

    def uncounted(self, snapshot: Snapshot) -> Moment:
        """Configuration and state of a snapshot without counters, made once for all who read it."""
        last = self._last
        if last is None or last.snapshot is not snapshot:
            self._last = last = Moment(snapshot, self.data(snapshot))
        return last

    def ready(self, snapshot: Snapshot) -> Moment | None:
        """The same if it is made already."""
        last = self._last
        return last if last is not None and last.snapshot is snapshot else None

    def data(
        self,
        snapshot: Snapshot,
        counted: Totals | None = None,
        redirected: Mapping[str, Total] | None = None,
    ) -> Tree:
        """Configuration and state of a snapshot as one tree, with the counters where they were asked for.

        counted     by queue and by port
        redirected  by ACL rule
        """
        tree = self.config(snapshot.intent)
        top = tree.setdefault("qclimb", {})
        config = top.setdefault("config", {})
        for name, value in DEFAULTS.items():
            config.setdefault(name, value)
        top["state"] = {**config, **_status_tree(snapshot.status), "path-backend": snapshot.backend}
        top["state"] |= _commit_tree(snapshot.commit)
        for priority, row in (snapshot.classes or {}).items():
            entry = (
                top.setdefault("classes", {})
                .setdefault("class", {})
                .setdefault((priority,), {"priority": int(priority)})
            )
            entry["state"] = _class_tree(priority, row)
            total = None if counted is None else counted.queues.get(entry["state"]["queue"])
            if row.get("rules"):
                total = path_state.steered(row, redirected or {})
            if total is not None:
                entry["state"] |= _counter_tree(total)
        for name, told in snapshot.ports.items():
            port = printable(name)
            entry = top.setdefault("ports", {}).setdefault("port", {}).setdefault((port,), {"name": port})
            entry["state"] = _port_tree(port, told)
            if counted is not None and name in counted.ports:
                entry["state"] |= _counter_tree(counted.ports[name])
        for container, members in path_state.trees(snapshot, redirected or {}).items():
            for name, entries in members.items():
                of = top.setdefault(container, {}).setdefault(name, {})
                for key, entry in entries.items():
                    of[key] = {**of.get(key, {}), **entry}
        return tree


def _plainly(obj: Any, error: IntentError) -> str:
    """What is wrong with a configuration: in the types' words where they name its path, which has all keys there."""
    text = str(error)
    try:
        SwitchIntent.from_gnmi(obj)
    except IntentError as told:
        text = str(told) if str(told).startswith("/") else text
    return QUOTED_KEY.sub(r"=\1]", text).replace(f"/{PREFIX}", "/")


def _status_tree(status: Status) -> dict[str, Any]:
    state: dict[str, Any] = {"admin-state": printable(status.admin_state)}
    if status.applied_generation is not None:
        state["applied-generation"] = status.applied_generation
    if status.desired_generation is not None:
        state["desired-generation"] = status.desired_generation
    if status.last_error:
        state["last-error"] = printable(status.last_error)
    if status.warning:
        state["warning"] = printable(status.warning)
    if status.applied_at:
        state["applied-at"] = printable(status.applied_at)
    if status.verified:
        state["verification"] = _told(printable(status.verified))
    return state


def _commit_tree(told: Mapping[str, str]) -> dict[str, Any]:
    if not told.get("commit_status"):
        return {}
    commit = {"id": printable(told.get("commit", "")), "status": printable(told["commit_status"])}
    if told.get("commit_client"):
        commit["client"] = printable(told["commit_client"])
    if is_number(until := told.get("commit_until", "")) and int(until) < YEAR_10000_S:
        commit["rollback-at"] = timestamp(int(until))
    return {"commit": commit}


def _port_tree(port: str, row: Mapping[str, str]) -> dict[str, str]:
    why = {name: printable(row[name]) for name in ("reason", "buffers", "limits") if name in row}
    return {"name": port, "status": _told(printable(row.get("status", ""))), **why}


def _told(word: str) -> str:
    """STATE_DB's word as the model has it."""
    return "unverified" if word == NOT_VERIFIED else word


def counts(place: Place) -> bool:
    """Whether a path covers counters, so that they have to be read."""
    names = [step.name for step in place.steps]
    is_there = any(all(a == b for a, b in zip(names, at, strict=False)) for at in COUNTERS_AT)
    return is_there and place.node.name not in UNCOUNTED


def _counter_tree(total: Total) -> dict[str, int]:
    leaves = {"packets": total.packets, "bytes": total.bytes, "dropped-packets": total.dropped_packets}
    return {name: value for name, value in leaves.items() if value is not None}


def _class_tree(priority: str, row: dict[str, str]) -> dict[str, Any]:
    return {
        "priority": int(priority),
        "dscp": int(row.get("dscp", 0)),
        "queue": int(row.get("queue", 0)),
        "path": printable(row.get("path", "balanced")),
        "threshold-bytes": int(row.get("threshold_bytes", 0)),
        **({"dynamic-th": int(row["dynamic_th"])} if re.fullmatch("-?[0-8]", row.get("dynamic_th", "")) else {}),
        **{leaf.name: row[leaf.field] for leaf in SHARES if SHARE.fullmatch(row.get(leaf.field, ""))},
        "status": printable(row.get("status", "applied")),
        **({"alarm": printable(row["alarm"])} if row.get("alarm") else {}),
        **({"reason": printable(row["reason"])} if row.get("reason") else {}),
    }


UNCOUNTED = frozenset(
    {*_class_tree("0", {}), "reason", "alarm", "buffers", "limits", *(leaf.name for leaf in SHARES)}
    | path_state.UNCOUNTED
)
"""leaves beside counters that are none"""
