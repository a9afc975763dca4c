"""The lab's side of the orchestrator's REST interface: record, train, decide, roll out. Waits by conditions, with
deadlines."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import httpx
from qclimb.lengths import Announced
from qclimb.rest import build_path

from lab.control.rest import NetnsRest, RestError
from lab.fabric.topology import FabricError

ROLLOUT_DEADLINE_S = 300.0
RECORDS_DEADLINE_S = 120.0
RECORDS_QUIET_S = 2.5
"""Records count as complete when none has come for so long; hosts ship about once a second."""


class Control:
    """An orchestrator, as its operator uses it."""

    def __init__(self, rest: NetnsRest) -> None:
        self._rest = rest

    def _ask(self, method: str, path: str, body: Mapping[str, Any] | None = None, **params: str) -> Any:
        try:
            return self._rest.request(method, path, body, **params)
        except httpx.TransportError as error:
            raise FabricError(f"orchestrator: {method} {path} got no answer: {error!r}") from None

    def record(self, label: str | None) -> None:
        """Files the flows that arrive from now on under a label; None ends it."""
        self._ask("PUT", "/v1/recording", {"label": label})

    def statistics(self, label: str) -> dict[str, Any]:
        """Sizes and counts of a recording; empty when nothing has arrived."""
        try:
            return dict(self._ask("GET", "/v1/flows/statistics", label=label))
        except RestError as error:
            if error.status != 404:
                raise
            return {"flows": 0}

    def await_records(self, label: str, progress: Callable[[int], None] | None = None) -> dict[str, Any]:
        """Until no more records arrive under a label; FabricError if none came at all."""
        until = time.monotonic() + RECORDS_DEADLINE_S
        quiet_since, last = time.monotonic(), -1
        while True:
            found = self.statistics(label)
            flows, now = int(found["flows"]), time.monotonic()
            if flows != last:
                quiet_since, last = now, flows
                if progress:
                    progress(flows)
            if flows and now - quiet_since >= RECORDS_QUIET_S:
                return found
            if now > until:
                if not flows:
                    raise FabricError(f"no flow records reached the orchestrator within {RECORDS_DEADLINE_S:g} s")
                return found
            time.sleep(0.25)

    def train(self, label: str, small_bytes: int, medium_bytes: int, depth: int | None = None) -> dict[str, Any]:
        """Trains a forest on a recording: {generation, report}; as deep as the orchestrator chooses unless told."""
        body = {"label": label, "seed": 0, "small_bytes": small_bytes, "medium_bytes": medium_bytes}
        body |= {} if depth is None else {"depth": depth}
        return dict(self._ask("POST", "/v1/models", body))

    def pin_length(self, known: Announced) -> None:
        """An operator's word on how a service's messages tell their size; hosts hear of it within ten seconds."""
        rule = known.rule and {name: value for name, value in known.rule.to_json().items() if value is not None}
        body = {"use": known.use.value, "rule": rule, "is_exact": known.is_exact}
        self._ask("PUT", build_path("lengths", known.service), body)

    def revise(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Makes a revision: {id, threshold_bytes, ...}."""
        return dict(self._ask("POST", "/v1/revisions", body))

    def roll_out(self, revision: int, progress: Callable[[str], None] | None = None) -> dict[str, Any]:
        """Brings a revision into force on all switches and hosts, and waits for it."""
        number = int(self._ask("POST", "/v1/rollouts", {"revision": revision})["id"])
        until = time.monotonic() + ROLLOUT_DEADLINE_S
        while True:
            found = dict(self._ask("GET", f"/v1/rollouts/{number}"))
            if found["phase"] == "done":
                return found
            if found["phase"] != "running":
                raise FabricError(f"rollout {number} of revision {revision} {found['phase']}: {_why(found)}")
            if time.monotonic() > until:
                late = f"has not ended after {ROLLOUT_DEADLINE_S:g} s"
                raise FabricError(f"rollout {number} of revision {revision} {late}: {_why(found)}")
            if progress:
                progress(_why(found))
            time.sleep(0.2)


def _why(rollout: Mapping[str, Any]) -> str:
    """What a rollout is about: its own error, and the devices that are not done."""
    devices = {**rollout.get("switches", {}), **rollout.get("hosts", {})}
    words = [str(rollout["error"])] if rollout.get("error") else []
    words += [
        f"{name} {step.get('phase')}" + (f" ({step['error']})" if step.get("error") else "")
        for name, step in devices.items()
        if step.get("phase") not in ("done", "applied")
    ]
    return "; ".join(words) or "every device is done"
