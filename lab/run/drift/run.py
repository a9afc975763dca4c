"""Drift against a live fabric: one pass of changing traffic, and the orchestrator watched once a second.

The lab does what an operator does once, and no more: record, train, roll out. What comes after the change is the
orchestrator's own doing (`qclimb-orchestrator serve --on-drift`); told to offer, the offer is accepted by the lab.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console

from lab.control.operator import Control
from lab.control.rest import NetnsRest
from lab.experiment.store import replace_text
from lab.experiment.terminal import Teller
from lab.fabric import Topology
from lab.run.drift.traffic import SERVICES, changing
from lab.run.settings import Drift
from lab.workload.passes import PassResult, run_pass
from lab.workload.programs import WorkloadError, build_applications
from lab.workload.schemes import Scheme
from lab.workload.testbed import up

LABEL = "before"
ANY_THRESHOLDS = [5_000 * 4**n for n in range(7)]
"""Bytes; while flows are only observed nothing depends on them."""
LOAD = 0.5
OBSERVED = Scheme("observed", "recording", "observe")
BOUNDED = Scheme("bounded", "QCLIMB", "qclimb", use_forest=True, use_footprint=True)
SAMPLE_S = 1.0
COUNTS = ("flows", "bounded", "misses", "fallbacks")
"""Of a sample: flows that ended since the first one with bounds; with bounds; outside them; of them, never seen."""


@dataclass
class Seen:
    """What was seen, in seconds since the traffic's time 0."""

    settings: dict[str, Any]
    samples: list[dict[str, float]] = field(default_factory=list)
    """At `at_s`: COUNTS that hosts reported until then."""
    events: list[tuple[float, str, str]] = field(default_factory=list)
    """When, what (change, flagged, tried, offered, rollout, in force), and what is to be said of it."""
    failures: dict[str, int] = field(default_factory=dict)
    flows: int = 0
    idle_share: float = 0.0
    late_share: float = 0.0

    def first(self, what: str, after_s: float = 0.0) -> float | None:
        """When it happened first, after a time."""
        return next((at for at, name, _ in self.events if name == what and at >= after_s), None)


class Watcher:
    """Asks the orchestrator once a second what it sees, and notes what is new."""

    def __init__(self, rest: NetnsRest, seen: Seen, say: Teller, accept: bool) -> None:
        self._rest, self._seen, self._say, self._accept = rest, seen, say, accept
        self._begun_ns = 0
        self._next_s = 0.0
        self._was: dict[str, Any] = {}

    def begins(self, start_ns: int) -> Sequence[Any]:
        """The traffic's time 0, CLOCK_MONOTONIC."""
        self._begun_ns = start_ns
        return ()

    @property
    def now_s(self) -> float:
        """Since time 0."""
        return (time.monotonic_ns() - self._begun_ns) / 1e9

    def note(self, what: str, about: str = "", at_s: float | None = None) -> None:
        """An event."""
        at_s = self.now_s if at_s is None else at_s
        self._seen.events.append((round(at_s, 2), what, about))
        self._say(f"{at_s:6.1f} s of traffic: {what}{': ' if about else ''}{about}")

    def look(self, _: float = 0.0) -> None:
        """At most once a second."""
        now_s = self.now_s
        if now_s < self._next_s:
            return
        self._next_s = now_s + SAMPLE_S
        windows = self._rest.get("/v1/flows/drift")["windows"]
        counts = {name: sum(window[name] for window in windows) for name in COUNTS}
        self._seen.samples.append({"at_s": round(now_s, 2), **counts})
        state = self._rest.get("/v1/state")
        self._compare(state)
        self._was = state

    def _compare(self, state: dict[str, Any]) -> None:
        was, drift = self._was.get("drift") or {}, state["drift"] or {}
        model = drift.get("model")
        if was.get("model") != model:
            was = {}
        if drift.get("drifted") and not was.get("drifted"):
            self.note("flagged", f"model {model}: {drift['drifted']}")
        if drift.get("off") and not was.get("off"):
            self.note("bounds off", f"model {model}: {drift['off']['why']}")
        if drift.get("tried") and drift["tried"] != was.get("tried"):
            self.note("tried", drift["tried"]["why"])
        if drift.get("offer") and not was.get("offer"):
            self.note("offered", f"model {drift['offer']['model']}, revision {drift['offer']['revision']}")
            if self._accept:
                self._rest.post("/v1/rollouts", {"revision": drift["offer"]["revision"]})
        rollout, before = state["last_rollout"] or {}, self._was.get("last_rollout") or {}
        if rollout.get("id") != before.get("id"):
            self.note("rollout", f"{rollout['id']} of revision {rollout['revision']} by {rollout['created_by']}")
        if rollout and rollout["phase"] != "running" and (rollout["id"], rollout["phase"]) != (
            before.get("id"),
            before.get("phase"),
        ):  # fmt: skip
            in_force = rollout["phase"] == "done"
            bounds = "" if state["policy"]["use_forest"] else ", bounds off"
            words = f"model {state['policy']['model_generation']}{bounds}" if in_force else f"{rollout['error']}"
            self.note("in force" if in_force else rollout["phase"], words)


def learn(control: Control, rest: NetnsRest, settings: Drift, watcher: Watcher, failed: list[BaseException]) -> None:
    """What an operator does once, beside the traffic: the recording ends, a model is trained and rolled out."""
    try:
        while watcher.now_s < settings.observe_s:
            time.sleep(0.1)
        control.record(None)
        watcher.note("training")
        body: dict[str, Any] = {"label": LABEL} | ({} if settings.trees is None else {"trees": settings.trees})
        model = rest.post("/v1/models", body)
        coverage = f"coverage {100 * model['report']['coverage']:.3f} % of the later flows it was not shown"
        watcher.note("trained", f"model {model['generation']}: {coverage}")
        revision = control.revise(BOUNDED.revision("optimise", LOAD, LABEL, model["generation"]))
        control.roll_out(revision["id"])
        if watcher.now_s > settings.before_s:
            raise WorkloadError(
                f"the first model was in force {watcher.now_s:.0f} s after the traffic began, expected before it "
                f"changes at {settings.before_s:.0f} s: give it more time by --before"
            )
    except BaseException as error:
        failed.append(error)


def run_drift(settings: Drift, console: Console) -> Seen:
    """The experiment; the folder gets seen.json and the programs' output. The fabric goes, whatever happens."""
    say = Teller(console)
    build_applications()
    seen = Seen({name: str(v) if isinstance(v, Path) else v for name, v in asdict(settings).items()})
    age_days = settings.model_max_age_s / 86_400
    serve = ("--on-drift", settings.on_drift, "--drift-every-s", "1", "--model-max-age-days", f"{age_days:.9f}")
    topology = Topology(hosts_per_leaf=settings.hosts_per_leaf)
    with up(topology, settings.prefix, settings.folder, say, serve) as (testbed, fabric, rest):
        ground, control = testbed.ground, testbed.control
        control.roll_out(control.revise(OBSERVED.revision(ANY_THRESHOLDS, LOAD))["id"])
        while not testbed.settled():
            time.sleep(0.05)
        control.record(LABEL)
        trace = changing(settings.flows_per_s, settings.seed, settings.before_s, settings.after_s, list(fabric.hosts))
        say(f"{len(trace.flows)} flows over {trace.seconds:.0f} s, others from {settings.before_s:.0f} s on")
        watcher = Watcher(rest, seen, say, settings.on_drift == "offer")
        failed: list[BaseException] = []
        operator = threading.Thread(target=learn, args=(control, rest, settings, watcher, failed), daemon=True)

        def begins(start_ns: int) -> Sequence[Any]:
            watcher.begins(start_ns)
            operator.start()
            return ()

        def look(share: float) -> None:
            if failed:
                raise failed[0]
            if watcher.now_s >= settings.before_s and seen.first("change") is None:
                watcher.note("change", "another job, a new service", settings.before_s)
            watcher.look(share)

        result = run_pass(ground, trace, "drift", settings.folder / "pass", {}, SERVICES, look, beside=begins)
        watcher.look()
        operator.join(timeout=5)
        _take(seen, result)
        with (settings.folder / "orchestrator.log").open("wb") as log:
            log.write((fabric.directory / "logs" / "orchestrator.log").read_bytes())
    replace_text(settings.folder / "seen.json", json.dumps(asdict(seen), indent=1) + "\n")
    return seen


def _take(seen: Seen, result: PassResult) -> None:
    seen.failures, seen.flows = dict(result.failures), len(result.id)
    seen.idle_share, seen.late_share = result.idle_share, result.late_share
