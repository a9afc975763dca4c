"""A fabric in which schemes are compared: record, train, then each scheme over the same trace."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from lab.control.operator import Control
from lab.control.plane import AS_ROLLED_OUT, asics_follow, start_control
from lab.control.rest import NetnsRest
from lab.control.rest import client as operator_client
from lab.experiment.flows import Limits
from lab.experiment.terminal import Progress
from lab.fabric import Fabric, Topology
from lab.scheduler import Scheduler
from lab.workload import steps
from lab.workload.calibration import Calibration, calibrate
from lab.workload.ground import FabricGround, Ground
from lab.workload.passes import Beside, PassResult, Word, no_programs, run_pass
from lab.workload.programs import WorkloadError
from lab.workload.schemes import Scheme
from lab.workload.services import SCALED, SERVICES, Endpoint
from lab.workload.trace import Trace, make_trace

RECORDING_SEED = 1000
"""Never the seed of a replay."""

SETTLE_DEADLINE_S = 120.0

DCTCP_MARK_BYTES = (20 * 1514, 20 * 1514)
"""DCTCP's K at a slow port: 20 packets, its authors' and PIAS's choice at 1 Gb/s."""

Say = Callable[[str], None]


@dataclass
class Testbed:
    """A fabric with its orchestrator, a recording made on it, and what was learnt from that."""

    ground: Ground
    calibration: Calibration
    control: Control
    folder: Path
    say: Say
    settled: Callable[[], bool] = lambda: True
    """Whether the switches forward as their rows say."""
    thresholds: dict[float, list[int]] = field(default_factory=dict)
    """By load, as the orchestrator computed them; the same for every scheme."""
    model: dict[str, Any] = field(default_factory=dict)
    label: str = ""
    """The recording in use."""
    port: Mapping[str, Any] | None = None
    """A host's, as a revision's `port`; None: shares of its buffer are not chosen."""
    ecn_bytes: tuple[int, int] | None = None
    """Length of a queue at which switches begin to mark, and from which on they mark all; None: none marks."""
    services: Sequence[Endpoint] = SERVICES
    limits: Limits = SCALED

    def fresh(self, **more: Any) -> Testbed:
        """The same fabric, nothing learnt yet; `more`: other services, limits, thresholds."""
        return replace(self, **{"thresholds": {}, "model": {}, "label": "", **more})

    def record(self, load: float, seconds: float, progress: Progress | None = None) -> dict[str, Any]:
        """A pass of plain TCP over a trace of another seed, its flows recorded; returns their statistics."""
        trace = make_trace(load, RECORDING_SEED, seconds, list(self.ground.hosts), self.ground.host_rate_bps)
        return self.record_trace(trace, f"lab-load-{load:g}", load, progress)

    def record_trace(self, trace: Trace, label: str, load: float, progress: Progress | None = None) -> dict[str, Any]:
        """A pass of plain TCP, its flows recorded under a label; returns their statistics."""
        self.bring_into_force(Scheme("recording", "recording", "observe"), load, thresholds=None, model=None)
        self.label = label
        self.control.record(label)
        try:
            result = run_pass(
                self.ground, trace, "recording", self.folder / "recording", services=self.services, progress=progress
            )
            if result.failures:
                self.say(f"recording: {sum(result.failures.values())} flows failed: {result.failures}")
            return self.control.await_records(label)
        finally:
            self.control.record(None)

    def train(self, depth: int | None = None) -> dict[str, Any]:
        """A forest from the recording; as deep as the orchestrator chooses unless told."""
        self.model = self.control.train(self.label, self.limits.small_bytes, self.limits.medium_bytes, depth)
        return self.model

    def decide_thresholds(self, load: float) -> list[int]:
        """The orchestrator's thresholds for a load, computed once from the recording."""
        if load not in self.thresholds:
            revision = self.control.revise(Scheme("pias", "PIAS", "pias").revision("optimise", load, self.label))
            self.thresholds[load] = [int(value) for value in revision["threshold_bytes"]]
        return self.thresholds[load]

    def bring_into_force(
        self, scheme: Scheme, load: float, thresholds: list[int] | None, model: int | None
    ) -> dict[str, Any]:
        """A revision of the scheme, rolled out to every switch and host; returns what is in force."""
        # Before anything is recorded there are no sizes to decide by: any ascending thresholds do for `observe`.
        chosen = thresholds or [5_000 * 4**n for n in range(scheme.priorities - 1)]
        body = scheme.revision(chosen, load, self.label or None, model, self.port)
        revision = self.control.revise(body | {"ecn_bytes": self.ecn_bytes})
        rollout = self.control.roll_out(int(revision["id"]))
        until = time.monotonic() + SETTLE_DEADLINE_S
        while not self.settled():
            if time.monotonic() > until:
                raise WorkloadError(f"the switches' queues do not follow their rows after {SETTLE_DEADLINE_S:g} s")
            time.sleep(0.05)
        return {
            "revision": revision["id"],
            "generation": rollout.get("generation"),
            "policy": revision.get("policy", {}),
            "threshold_bytes": chosen,
            "shares": revision.get("shares"),
        }

    def run(self, scheme: Scheme, trace: Trace, load: float, progress: Progress | None = None) -> PassResult:
        """Brings a scheme into force and replays a trace under it."""
        return self.run_under(scheme, trace, load, self.decide_thresholds(load), self.model, progress)

    def run_under(
        self,
        scheme: Scheme,
        trace: Trace,
        load: float,
        thresholds: list[int],
        trained: Mapping[str, Any],
        progress: Progress | None = None,
        words: Mapping[int, Word] | None = None,
        beside: Beside = no_programs,
        is_watched: bool = False,
    ) -> PassResult:
        """The same under thresholds and a forest that the caller chooses, with what else `run_pass` takes."""
        model = trained.get("generation") if scheme.use_forest else None
        settings = self.bring_into_force(scheme, load, thresholds, model)
        if model:
            settings["model"] = {"generation": model, "report": trained.get("report")}
        folder = self.folder / scheme.name
        result = run_pass(
            self.ground, trace, scheme.name, folder, settings, self.services, progress, words, beside, is_watched
        )
        if not is_watched:
            return result
        slack_bytes = int(settings["policy"]["slack_bytes"])
        return replace(result, steps_us=dict(steps.steps_of(folder, trace, self.services, slack_bytes)))


@contextmanager
def up(
    topology: Topology,
    prefix: str,
    folder: Path,
    say: Say,
    serve: Sequence[str] = AS_ROLLED_OUT,
    congestion_control: str = "cubic",
    by: Scheduler = "library",
) -> Iterator[tuple[Testbed, Fabric, NetnsRest]]:
    """A fabric with its control plane while the block runs, unless it is told to `keep`; and its operator's client.
    With "dctcp" its queues mark from DCTCP_MARK_BYTES on. `by` what its programs' flows are scheduled. Flows alone are
    measured before anything else (calibration.py).

    Raises: FabricError, WorkloadError.
    """
    control_plane = partial(start_control, serve=serve)
    made = Fabric(topology, prefix, control=control_plane, progress=say, congestion_control=congestion_control, by=by)
    with made as fabric, operator_client(fabric) as rest:
        for note in fabric.notes:
            say(f"note: {note}")
        port = {"buffer_bytes": topology.buffer_bytes, "gbps": topology.host_rate_bps / 1e9}
        port["dynamic_th"] = topology.dynamic_th
        ecn = DCTCP_MARK_BYTES if congestion_control == "dctcp" else None
        say("calibration: flows one at a time over the idle fabric")
        calibration = calibrate(FabricGround(fabric), folder)
        say(f"{calibration.verdict} {calibration.times}")
        ground, settled = FabricGround(fabric, calibration.alone), partial(asics_follow, fabric)
        testbed = Testbed(ground, calibration, Control(rest), folder, say, settled, port=port, ecn_bytes=ecn)
        yield testbed, fabric, rest
