"""`qclimb lab run bounds`: what is missing is measured, all that is there is reported.

A fabric a link rate. For each trace: one pass of plain TCP over its part 0, recorded by the hosts; from that the
orchestrator's thresholds (kept for later runs) and its forests; then the passes, schemes in turns.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any

from qclimb.recording import Recording
from rich.console import Console

from lab.experiment.passes import Run, measure
from lab.experiment.store import Store, digests, key_of, replace_text
from lab.experiment.terminal import Progress, Teller
from lab.fabric import Fabric, Topology
from lab.fabric.machine import library, tagger_objects
from lab.models import points
from lab.run.bounds import announce, schemes
from lab.run.bounds.fanin import CLIENT, Fanin
from lab.run.bounds.figures import Job, Wanted, jobs
from lab.run.bounds.schemes import BY_LIBRARY, VARIANTS, Variant
from lab.run.report import about
from lab.run.settings import Bounds
from lab.workload import guards
from lab.workload.mixture import mixed
from lab.workload.passes import PassResult
from lab.workload.programs import WorkloadError, build_applications
from lab.workload.replay import RECORDINGS, read, replay
from lab.workload.schemes import Scheme
from lab.workload.services import PUBLISHED
from lab.workload.sources import SOURCES, Source
from lab.workload.testbed import DCTCP_MARK_BYTES, Testbed, up
from lab.workload.trace import Trace

RECORDING_LOAD = 0.6


QUICK = Wanted(("web",), (7,), (0.5,), (1,), ("pias", "qclimb", "qclimb-ps"), own=False)


def wanted_of(settings: Bounds) -> Wanted:
    """Which passes the settings ask for. Raises: WorkloadError."""
    for name in settings.schemes:
        if name not in BY_LIBRARY:
            raise WorkloadError(f"--schemes: {name!r} is none of {', '.join(BY_LIBRARY)}")
    of = settings
    wanted = Wanted(of.traces, of.figures, of.loads, of.seeds, of.schemes, of.own, of.sources, of.by)
    wanted = replace(QUICK, by=of.by) if of.quick else wanted
    if not wanted.figures() and replace(wanted, by=("library",)).figures():
        figures = ", ".join(map(str, wanted.numbers))
        raise WorkloadError(f"--by kernel: figures {figures} need the library, expected at least one that does not")
    if next(jobs(wanted), None) is None:
        asked = {"traces": of.traces, "loads": of.loads, "figures": of.figures, "schemes": of.schemes}
        words = " ".join(f"--{name} {','.join(map(str, values))}" for name, values in asked.items() if values)
        each = dict.fromkeys(f"Figure {figure.name} is of {figure.points}" for figure in wanted.figures())
        raise WorkloadError(f"{words}: there is nothing to measure; {'; '.join(each)}")
    return wanted


@dataclass
class Plan:
    """All passes that are wanted, their traces, where they are kept, and the results that are there."""

    settings: Bounds
    wanted: Wanted
    store: Store[PassResult]
    jobs: list[Job]
    traces: dict[tuple[str, float, int], Trace] = field(default_factory=dict)
    names: dict[Job, str] = field(default_factory=dict)
    results: dict[Job, PassResult] = field(default_factory=dict)

    @property
    def missing(self) -> list[Job]:
        """Those without a result."""
        return [job for job in self.jobs if job not in self.results]

    def fits(self, job: Job, result: PassResult) -> bool:
        """Whether a kept pass ran under the thresholds that a resumed run goes on with."""
        return guards.under(result, self.store.decided().get(threshold_name(job)))


def recording_of(settings: Bounds, trace: str) -> Recording:
    """The shipped recording; where sources are asked for, the one that tells what flows announced, if there is one."""
    later = f"lengths/{trace}"
    return read(later if settings.sources and (RECORDINGS / f"{later}.parquet").exists() else trace)


def topology_of(source: Source) -> Topology:
    """The fabric that a recording is replayed in."""
    rate = source.host_rate_mbps * 10**6
    return Topology(host_rate_bps=rate, uplink_rate_bps=2 * rate)


def trace_of(settings: Bounds, name: str, load: float, seed: int) -> Trace:
    """The arrivals of one window; seed 0: what forests learn from."""
    source = SOURCES[name]
    if source.parts:
        return mixed({part: trace_of(settings, part, load * share, seed) for part, share in source.parts})
    topology = topology_of(source)
    recorded, rate = recording_of(settings, name), float(topology.host_rate_bps)
    return replay(recorded, source, seed, load, list(topology.hosts), rate)


def threshold_name(job: Job) -> str:
    """What thresholds are decided for."""
    what = f"{job.trace} load {job.load:g}" if job.optimised else "published"
    return f"{what}, {VARIANTS[job.variant].scheme.priorities} queues"


def plan_of(settings: Bounds) -> Plan:
    """Makes the traces, and names what is to be kept."""
    binaries = {"library": digests([build_applications(), library()])}
    if "kernel" in settings.by:
        binaries["kernel"] = digests([build_applications(), *tagger_objects()])
    store = Store(settings.folder, PassResult.load_file, PassResult.save)
    wanted = wanted_of(settings)
    plan = Plan(settings, wanted, store, list(jobs(wanted)))
    for job in plan.jobs:
        topology = topology_of(SOURCES[job.trace])
        of = job_of(job)
        if of not in plan.traces:
            plan.traces[of] = trace_of(settings, *of)
        variant = asdict(VARIANTS[job.variant])
        decides = {
            "variant": {name: value for name, value in variant.items() if name != "told_part" or value},
            "optimised": job.optimised,
            **({"queries": digests([CLIENT])} if job.measured == "queries" else {}),
            **({"steps": True} if job.measured == "steps" else {}),
            **({"dctcp": DCTCP_MARK_BYTES} if settings.dctcp else {}),
            "trace": plan.traces[of].digest,
            "topology": asdict(topology),
            "binaries": binaries[VARIANTS[job.variant].by],
        }
        plan.names[job] = f"{job.name}-{key_of(decides)}"
    return plan


def run_bounds(settings: Bounds, console: Console) -> Plan:
    """Runs what is missing, as long as it may; returns the plan with all results that there are."""
    plan, say = plan_of(settings), Teller(console)
    plan.results = measure(
        plan.jobs,
        plan.names,
        plan.store,
        partial(session, plan, say),
        say,
        fits=plan.fits,
        trouble=unusable,
        together=lambda job: (SOURCES[job.trace].host_rate_mbps, VARIANTS[job.variant].by),
        seconds=settings.seconds,
        is_stored=settings.stored,
    )
    return plan


@contextmanager
def session(plan: Plan, say: Teller, missing: Sequence[Job]) -> Iterator[Run[Job, PassResult]]:
    """The missing passes of one link rate and one way to schedule, in a fabric of their own."""
    settings, folder = plan.settings, plan.settings.folder / "running"
    topology = topology_of(SOURCES[missing[0].trace])
    control, by = "dctcp" if settings.dctcp else "cubic", VARIANTS[missing[0].variant].by
    with up(topology, settings.prefix, folder, say, congestion_control=control, by=by) as (testbed, fabric, _):
        settings.folder.mkdir(parents=True, exist_ok=True)
        place = settings.folder / f"about-{topology.host_rate_bps}.json"
        replace_text(place, json.dumps(about(fabric, testbed.calibration)))
        bench = Bench(plan, say, testbed, fabric)

        def run(job: Job, progress: Progress) -> PassResult:
            bench.get_ready(job)
            return bench.run(job, progress)

        yield run


@dataclass
class Bench:
    """A fabric that is up, with what was recorded and learnt in it."""

    plan: Plan
    say: Teller
    testbed: Testbed
    fabric: Fabric
    announcing: set[str] = field(default_factory=set)
    """Traces whose senders' announcements all hosts go by."""
    by_trace: dict[str, Testbed] = field(default_factory=dict)
    forests: dict[tuple[str, int], dict[str, Any]] = field(default_factory=dict)
    thresholds: dict[str, list[int]] = field(default_factory=dict)

    def fresh(self, trace: str) -> Testbed:
        """The fabric for a trace's services."""
        return self.testbed.fresh(services=SOURCES[trace].endpoints, limits=PUBLISHED)

    def get_ready(self, job: Job) -> None:
        """Records the trace and trains what the job needs, unless that is done."""
        variant = VARIANTS[job.variant]
        self.thresholds |= self.plan.store.decided()
        if threshold_name(job) not in self.thresholds:
            found = self._decide(job, variant)
            self.say(f"thresholds of {threshold_name(job)}: {', '.join(map(str, found))} bytes")
            self.thresholds[threshold_name(job)] = found
            self.plan.store.keep(self.thresholds)
        if variant.scheme.use_forest:
            self.forest(learnt_by(job), variant.depth)
        if variant.scheme.use_lengths and job.trace not in self.announcing:
            announce.pin(self.testbed.control, self.fabric, SOURCES[job.trace].endpoints)
            self.announcing.add(job.trace)

    def recorded(self, trace: str) -> Testbed:
        """The fabric for a trace, its part 0 recorded."""
        if trace not in self.by_trace:
            testbed = self.fresh(trace)
            learnt_from = trace_of(self.plan.settings, trace, RECORDING_LOAD, 0)
            with self.say.bar(f"recording {trace}, part 0, at load {RECORDING_LOAD:g}") as progress:
                testbed.record_trace(learnt_from, f"bounds-{trace}", RECORDING_LOAD, progress)
            self.by_trace[trace] = testbed
        return self.by_trace[trace]

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
        testbed = self.recorded(job.trace)
        pias = Scheme("pias", "PIAS", "pias", priorities=variant.scheme.priorities)
        revision = testbed.control.revise(pias.revision("optimise", job.load, testbed.label))
        return [int(value) for value in revision["threshold_bytes"]]

    def run(self, job: Job, progress: Any) -> PassResult:
        """One pass."""
        variant = VARIANTS[job.variant]
        trace = self.plan.traces[job.trace, job.load, job.seed]
        thresholds = self.thresholds[threshold_name(job)]
        testbed = self.by_trace.get(job.trace) or self.fresh(job.trace)
        foretold: Sequence[float] = ()
        if variant.told in ("point", "priority"):
            learnt_from = trace_of(self.plan.settings, job.trace, job.load, 0)
            by_name = {endpoint.name: endpoint for endpoint in SOURCES[job.trace].endpoints}
            foretold = points.foretold(learnt_from, trace, by_name, self.plan.settings.folder / "points")
        words = schemes.words_of(variant, trace, foretold, thresholds)
        trained: Mapping[str, Any] = self.forest(learnt_by(job), variant.depth) if variant.scheme.use_forest else {}
        scheme = variant.scheme_by(job.optimised)
        if job.measured != "queries":
            is_watched = job.measured == "steps"
            return testbed.run_under(
                scheme, trace, job.load, thresholds, trained, progress, words, is_watched=is_watched
            )
        folder = self.plan.settings.folder / "running" / "queries"
        with Fanin(testbed.ground, folder, job.seed, trace.seconds) as fanin:
            background = testbed.run_under(scheme, trace, job.load, thresholds, trained, progress, words, fanin.begin)
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
