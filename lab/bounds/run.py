"""`qclimb lab run bounds`: what is missing is measured, all that is there is reported.

A fabric a link rate. For each trace: one pass of plain TCP over its part 0, recorded by the hosts; from that the
orchestrator's thresholds (kept for later runs) and its forests; then the passes, schemes in turns.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from lab.bounds import points, schemes
from lab.bounds.fanin import CLIENT, Fanin
from lab.bounds.figures import Job, Wanted, jobs
from lab.bounds.replay import read, replay
from lab.bounds.schemes import VARIANTS, Variant
from lab.bounds.sources import SOURCES, Source
from lab.demo import Teller, about
from lab.fabric import Fabric, Topology
from lab.fabric.control import asics_follow, start_control
from lab.fabric.machine import library
from lab.rest import client
from lab.workload import guards, stored
from lab.workload.control import Control, Scheme
from lab.workload.experiment import Experiment, calibrate
from lab.workload.ground import FabricGround
from lab.workload.passes import PassResult
from lab.workload.programs import build_applications
from lab.workload.services import PUBLISHED
from lab.workload.trace import Trace

RECORDING_LOAD = 0.6


@dataclass(frozen=True)
class BoundsSettings:
    """What is compared, and where."""

    wanted: Wanted = field(default_factory=Wanted)
    prefix: str = "qb"
    folder: Path = Path("lab-results/bounds")
    seconds: float = 0.0
    """Begin no further pass after so long; 0: no limit."""
    stored: bool = False
    """Measure nothing."""


@dataclass
class Plan:
    """All passes that are wanted, their traces and keys, and the results that are there."""

    settings: BoundsSettings
    jobs: list[Job]
    traces: dict[tuple[str, float, int], Trace] = field(default_factory=dict)
    keys: dict[Job, str] = field(default_factory=dict)
    results: dict[Job, PassResult] = field(default_factory=dict)

    @property
    def missing(self) -> list[Job]:
        """Those without a result."""
        return [job for job in self.jobs if job not in self.results]


def topology_of(source: Source) -> Topology:
    """The fabric that a recording is replayed in."""
    rate = source.host_rate_mbps * 10**6
    return Topology(host_rate_bps=rate, uplink_rate_bps=2 * rate)


def threshold_name(job: Job) -> str:
    """What thresholds are decided for."""
    what = f"{job.trace} load {job.load:g}" if job.optimised else "published"
    return f"{what}, {VARIANTS[job.variant].scheme.priorities} queues"


def plan_of(settings: BoundsSettings) -> Plan:
    """Makes the traces, looks up what is stored."""
    binaries = stored.digests([build_applications(), library()])
    store = stored.Store(settings.folder)
    decided = store.thresholds()
    plan = Plan(settings, list(jobs(settings.wanted)))
    for job in plan.jobs:
        source = SOURCES[job.trace]
        topology = topology_of(source)
        of = job_of(job)
        if of not in plan.traces:
            hosts = list(topology.hosts)
            plan.traces[of] = replay(read(job.trace), source, job.seed, job.load, hosts, float(topology.host_rate_bps))
        plan.keys[job] = stored.key_of(
            variant=asdict(VARIANTS[job.variant]),
            optimised=job.optimised,
            **({"queries": stored.digests([CLIENT])} if job.queries else {}),
            trace=plan.traces[of].digest,
            topology=asdict(topology),
            binaries=binaries,
        )
        found = store.find(job.name, plan.keys[job])
        if found is not None and stored.under(found, decided.get(threshold_name(job))):
            plan.results[job] = found
    return plan


def run_bounds(settings: BoundsSettings, console: Console) -> Plan:
    """Runs what is missing, as long as it may; returns the plan with all results that there are."""
    plan = plan_of(settings)
    say = Teller(console)
    say(f"{len(plan.jobs)} passes wanted, {len(plan.results)} are there already, in {settings.folder}")
    until = time.monotonic() + settings.seconds if settings.seconds else float("inf")
    if not settings.stored:
        for rate in dict.fromkeys(SOURCES[job.trace].host_rate_mbps for job in plan.missing):
            session = [job for job in plan.missing if SOURCES[job.trace].host_rate_mbps == rate]
            if time.monotonic() < until:
                _session(plan, session, say, until)
    return plan


def _session(plan: Plan, missing: Sequence[Job], say: Teller, until: float) -> None:
    """The missing passes of one link rate, in a fabric of their own."""
    settings, folder = plan.settings, plan.settings.folder / "running"
    topology = topology_of(SOURCES[missing[0].trace])
    with Fabric(topology, settings.prefix, control=start_control, progress=say) as fabric, client(fabric) as rest:
        ground = FabricGround(fabric)
        calibration = calibrate(ground, folder)
        say(calibration.verdict)
        settings.folder.mkdir(parents=True, exist_ok=True)
        (settings.folder / f"about-{topology.host_rate_bps}.json").write_text(
            json.dumps(about(fabric, calibration)), encoding="utf-8"
        )
        make = partial(Experiment, ground, Control(rest.http), folder, say, lambda: asics_follow(fabric))
        bench = Bench(plan, say, make)
        start = time.monotonic()
        for number, job in enumerate(missing):
            if time.monotonic() >= until:
                say(f"{len(missing) - number} passes are left for the next run")
                break
            bench.get_ready(job)
            left = (time.monotonic() - start) / (number + 1) * (len(missing) - number) / 60
            with say.bar(f"pass {number + 1} of {len(missing)}: {job.name}, about {left:.0f} min left") as progress:
                result = stored.honest(partial(bench.run, job, progress), say, unusable)
            result.save(stored.Store(settings.folder).path(job.name, plan.keys[job]))
            plan.results[job] = result


@dataclass
class Bench:
    """A fabric that is up, with what was recorded and learnt in it."""

    plan: Plan
    say: Teller
    make: Any
    """Makes an Experiment; takes services and limits."""
    experiments: dict[str, Experiment] = field(default_factory=dict)
    forests: dict[tuple[str, int], dict[str, Any]] = field(default_factory=dict)
    thresholds: dict[str, list[int]] = field(default_factory=dict)

    def get_ready(self, job: Job) -> None:
        """Records the trace and trains what the job needs, unless that is done."""
        variant = VARIANTS[job.variant]
        store = stored.Store(self.plan.settings.folder)
        self.thresholds |= store.thresholds()
        if threshold_name(job) not in self.thresholds:
            found = self._decide(job, variant)
            self.say(f"thresholds of {threshold_name(job)}: {', '.join(map(str, found))} bytes")
            self.thresholds[threshold_name(job)] = found
            store.keep_thresholds(self.thresholds)
        if variant.scheme.use_forest:
            self.forest(learnt_by(job), variant.depth)

    def recorded(self, trace: str) -> Experiment:
        """The experiment of a trace, its part 0 recorded."""
        if trace not in self.experiments:
            source = SOURCES[trace]
            experiment = self.make(services=source.endpoints, limits=PUBLISHED)
            hosts, rate = list(experiment.ground.hosts), experiment.ground.host_rate_bps
            learnt_from = replay(read(trace), source, 0, RECORDING_LOAD, hosts, rate)
            with self.say.bar(f"recording {trace}, part 0, at load {RECORDING_LOAD:g}") as progress:
                experiment.record_trace(learnt_from, f"bounds-{trace}", RECORDING_LOAD, progress)
            self.experiments[trace] = experiment
        return self.experiments[trace]

    def forest(self, trace: str, depth: int) -> dict[str, Any]:
        """The forest of a trace, of some depth."""
        if (trace, depth) not in self.forests:
            model = self.recorded(trace).train(depth=depth)
            self.say(f"forest for {trace}, depth {depth}: coverage {model['report'].get('coverage')}")
            self.forests[trace, depth] = model
        return self.forests[trace, depth]

    def _decide(self, job: Job, variant: Variant) -> list[int]:
        if not job.optimised:
            return list(schemes.PUBLISHED_THRESHOLDS[variant.scheme.priorities])
        experiment = self.recorded(job.trace)
        pias = Scheme("pias", "PIAS", "pias", priorities=variant.scheme.priorities)
        revision = experiment.control.revise(pias, "optimise", job.load, experiment.label, None)
        return [int(value) for value in revision["threshold_bytes"]]

    def run(self, job: Job, progress: Any) -> PassResult:
        """One pass."""
        variant, source = VARIANTS[job.variant], SOURCES[job.trace]
        trace = self.plan.traces[job.trace, job.load, job.seed]
        thresholds = self.thresholds[threshold_name(job)]
        experiment = self.experiments.get(job.trace) or self.make(services=source.endpoints, limits=PUBLISHED)
        foretold: Sequence[float] = ()
        if variant.told in ("point", "priority"):
            ground = experiment.ground
            learnt_from = replay(read(job.trace), source, 0, job.load, list(ground.hosts), ground.host_rate_bps)
            by_name = {endpoint.name: endpoint for endpoint in source.endpoints}
            foretold = points.foretold(learnt_from, trace, by_name, self.plan.settings.folder / "points")
        words = schemes.words_of(variant, trace, foretold, thresholds)
        trained: Mapping[str, Any] = self.forest(learnt_by(job), variant.depth) if variant.scheme.use_forest else {}
        scheme = variant.scheme_by(job.optimised)
        if not job.queries:
            return experiment.run_under(scheme, trace, job.load, thresholds, trained, progress, words)
        folder = self.plan.settings.folder / "running" / "queries"
        with Fanin(experiment.ground, folder, job.seed, trace.seconds) as fanin:
            background = experiment.run_under(
                scheme, trace, job.load, thresholds, trained, progress, words, fanin.begin
            )
            return fanin.result(background)


def unusable(result: PassResult) -> list[str]:
    """Why a pass is made again. Lateness is only told: recorded bursts begin many flows at once, again and again."""
    return guards.trouble(replace(result, late_us=[0] * len(result.late_us)))


def job_of(job: Job) -> tuple[str, float, int]:
    """The trace, load and seed that a job shares with others."""
    return job.trace, job.load, job.seed


def learnt_by(job: Job) -> str:
    """The trace whose forest a job uses."""
    if not VARIANTS[job.variant].foreign:
        return job.trace
    return "spark" if job.trace == "web" else "web"


def trouble(plan: Plan) -> list[str]:
    """What was not as it should be in the passes that there are."""
    found = guards.all_trouble(plan.results.values())
    for of in plan.traces:
        alike = {job.name: replace(result, settings={}) for job, result in plan.results.items() if job_of(job) == of}
        found += [f"{of[0]}: {sentence}" for sentence in guards.uneven(alike)]
    return found
