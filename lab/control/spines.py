"""Priorities pinned to a fabric's spines: the operator's request, and how far the leaves have come with it."""

from __future__ import annotations

import time
from typing import Any

from lab.control.operator import Control
from lab.control.plane import redis_socket
from lab.control.rest import RestError, client
from lab.control.vasic.rows import STATE_DB, connect
from lab.fabric import Fabric

CONFLICT = 409
SEEN_DEADLINE_S = 120.0
"""The orchestrator looks at switches every few seconds."""


def pin(fabric: Fabric, queues: int) -> None:
    """Rolls a revision out that pins priorities to all spines, `queues` a port.

    Each threshold is four times the one before it, and the balanced class has no shares: for looking around.
    """
    names = fabric.topology.spine_names
    body = {
        "mode": "pias",
        "spines": names,
        "queues": list(range(queues - 1, -1, -1)),
        "weights": "equal",
        "thresholds": [2_000 * 4**n for n in range(len(names) * (queues - 1))],
    }
    with client(fabric) as rest:
        control = Control(rest)
        roll_out(control, int(control.revise(body)["id"]))


def roll_out(control: Control, revision: int) -> dict[str, Any]:
    """Brings a revision into force once the orchestrator has seen its spines up; at first it has an older look at them.

    Raises: RestError.
    """
    until = time.monotonic() + SEEN_DEADLINE_S
    while True:
        try:
            return control.roll_out(revision)
        except RestError as refused:
            if refused.status != CONFLICT or time.monotonic() > until:
                raise
        time.sleep(0.25)


def class_states(fabric: Fabric, leaf: str) -> dict[int, str]:
    """What a leaf says of each pinned priority: applied, pending or fallen-back."""
    state = connect(str(redis_socket(fabric, leaf)), STATE_DB)
    rows = {str(key): state.hgetall(str(key)) for key in state.keys("QCLIMB_CLASS_STATE|*")}
    return {
        int(key.partition("|")[2]): str(row.get("status"))
        for key, row in rows.items()
        if row.get("path", "balanced") != "balanced"
    }


def share_states(fabric: Fabric, leaf: str) -> dict[str, str]:
    """What a leaf says of each spine's share: active, equal-cost or down."""
    state = connect(str(redis_socket(fabric, leaf)), STATE_DB)
    return {
        str(key).partition("|")[2]: str(state.hget(str(key), "status")) for key in state.keys("QCLIMB_PATH_STATE|*")
    }
