"""The lab's side of the orchestrator's REST interface: record, train, decide, roll out. Waits by conditions, with
deadlines."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import httpx

from lab.workload.programs import WorkloadError
from lab.workload.services import SCALE, SCALED, Limits

SLACK_BYTES = 100_000 // SCALE
"""QCLIMB's best slack beside its PIAS thresholds, 100 KB (NSDI'24, Fig. 27), to scale."""
SMALL_COFLOW_BYTES = -(-(1 << 20) // SCALE)
"""OPTAX's 1 MiB, to scale."""
ROLLOUT_DEADLINE_S = 300.0
RECORDS_DEADLINE_S = 120.0
RECORDS_QUIET_S = 2.5
"""Records count as complete when none has come for so long; hosts ship about once a second."""


@dataclass(frozen=True)
class Scheme:
    """One way to run the fabric; a revision's settings."""

    name: str
    title: str
    mode: str
    use_forest: bool = False
    use_footprint: bool = False
    slack_bytes: int | None = None
    """None: the first threshold, as the orchestrator chooses."""
    priorities: int = 8


SCHEMES: Mapping[str, Scheme] = {
    scheme.name: scheme
    for scheme in (
        Scheme("tcp", "plain TCP", "observe"),
        Scheme("pias", "PIAS", "pias"),
        Scheme("qclimb", "QCLIMB", "qclimb", use_forest=True, use_footprint=True),
        Scheme("qclimb-no-forest", "QCLIMB without forest", "qclimb", use_footprint=True),
        Scheme("qclimb-no-footprint", "QCLIMB without footprint", "qclimb", use_forest=True),
        Scheme("qclimb-paper-slack", "QCLIMB, slack 100 KB to scale", "qclimb", True, True, slack_bytes=SLACK_BYTES),
    )
}
BASE = "tcp"
COMPARED = ("tcp", "pias", "qclimb", "qclimb-no-forest", "qclimb-no-footprint")
"""Unless told otherwise."""


class Control:
    """An orchestrator, as its operator uses it."""

    def __init__(self, client: httpx.Client) -> None:
        self._client = client

    def _ask(self, method: str, path: str, body: Mapping[str, Any] | None = None, timeout_s: float = 120.0) -> Any:
        try:
            answer = self._client.request(method, path, json=body, timeout=timeout_s)
        except httpx.HTTPError as error:
            raise WorkloadError(f"orchestrator: {method} {path} got no answer: {error!r}") from None
        if answer.is_error:
            raise WorkloadError(f"orchestrator: {method} {path} was refused with {answer.status_code}: {answer.text}")
        return answer.json() if answer.content else None

    def record(self, label: str | None) -> None:
        """Files the flows that arrive from now on under a label; None ends it."""
        self._ask("PUT", "/v1/recording", {"label": label})

    def statistics(self, label: str) -> dict[str, Any]:
        """Sizes and counts of a recording; empty when nothing has arrived."""
        try:
            found = self._client.get("/v1/flows/statistics", params={"label": label}, timeout=120.0)
        except httpx.HTTPError as error:
            raise WorkloadError(f"orchestrator: flow statistics got no answer: {error!r}") from None
        if found.status_code == 404:
            return {"flows": 0}
        if found.is_error:
            raise WorkloadError(f"orchestrator: flow statistics were refused: {found.text}")
        return dict(found.json())

    def await_records(self, label: str, progress: Callable[[int], None] | None = None) -> dict[str, Any]:
        """Until no more records arrive under a label; WorkloadError if none came at all."""
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
                    raise WorkloadError(f"no flow records reached the orchestrator within {RECORDS_DEADLINE_S:g} s")
                return found
            time.sleep(0.25)

    def train(self, label: str, depth: int | None = None, seed: int = 0, limits: Limits = SCALED) -> dict[str, Any]:
        """Trains a forest on a recording: {generation, report}; as deep as the orchestrator chooses unless told."""
        body: dict[str, Any] = {"label": label, "seed": seed} | ({} if depth is None else {"depth": depth})
        body |= {"small_bytes": limits.small_bytes, "medium_bytes": limits.medium_bytes}
        return dict(self._ask("POST", "/v1/models", body, timeout_s=900.0))

    def revise(
        self, scheme: Scheme, thresholds: str | list[int], load: float, label: str | None, model: int | None
    ) -> dict[str, Any]:
        """Makes a revision for a scheme: {id, threshold_bytes, ...}."""
        body = {
            "priorities": scheme.priorities,
            "mode": scheme.mode,
            "thresholds": thresholds,
            "load": load,
            "label": label,
            "slack_bytes": scheme.slack_bytes,
            "small_coflow_bytes": SMALL_COFLOW_BYTES,
            "use_forest": scheme.use_forest,
            "use_footprint": scheme.use_footprint,
            "model": model if scheme.use_forest else None,
        }
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
                raise WorkloadError(f"rollout {number} of revision {revision} {found['phase']}: {_why(found)}")
            if time.monotonic() > until:
                late = f"has not ended after {ROLLOUT_DEADLINE_S:g} s"
                raise WorkloadError(f"rollout {number} of revision {revision} {late}: {_why(found)}")
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
