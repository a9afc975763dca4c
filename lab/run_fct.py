"""`qclimb lab run fct`: the comparison over seeds and loads, resumable, with intervals and verdicts.

Every pass is stored under a key made of all that decides it (scheme, trace, fabric, the binaries); a rerun does only
what is missing. Schemes are interleaved and their order is rotated from seed to seed, so that a drift of the machine
does not favour one. A recording and a forest are made for each load of which a pass is missing; thresholds are kept
beside the passes, so that a resumed run goes on with the same ones.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from rich.console import Console

from lab.demo import Teller, about, finish
from lab.fabric import Fabric, Topology
from lab.fabric.control import asics_follow, start_control
from lab.fabric.machine import library
from lab.report import Comparison
from lab.rest import client
from lab.workload import guards, stored
from lab.workload.control import COMPARED, SCHEMES, SMALL_COFLOW_BYTES, Control
from lab.workload.experiment import Experiment, calibrate, schemes_of
from lab.workload.ground import FabricGround
from lab.workload.passes import PassResult
from lab.workload.programs import build_applications
from lab.workload.stored import Store
from lab.workload.trace import Trace, make_trace


@dataclass(frozen=True)
class FctSettings:
    """What is compared."""

    seeds: tuple[int, ...] = (1, 2, 3)
    loads: tuple[float, ...] = (0.4, 0.6, 0.8)
    schemes: tuple[str, ...] = COMPARED
    seconds: float = 25.0
    prefix: str = "qc"
    folder: Path = Path("lab-results/fct")


@dataclass(frozen=True)
class Job:
    """One pass that is wanted."""

    load: float
    seed: int
    scheme: str

    @property
    def name(self) -> str:
        """Of the file that its result is stored in."""
        return f"load{self.load:g}-seed{self.seed}-{self.scheme}"


def jobs(settings: FctSettings) -> Iterator[Job]:
    """All passes in the order in which they run: by seed, by load, schemes rotated by one each time."""
    turn = 0
    for seed in settings.seeds:
        for load in settings.loads:
            names = settings.schemes
            for n in range(len(names)):
                yield Job(load, seed, names[(n + turn) % len(names)])
            turn += 1


def trace_of(job: Job, settings: FctSettings, topology: Topology) -> Trace:
    """The arrivals of a pass: the same for every scheme."""
    return make_trace(job.load, job.seed, settings.seconds, list(topology.hosts), float(topology.host_rate_bps))


def key_of(job: Job, trace: Trace, topology: Topology, binaries: Mapping[str, str]) -> str:
    """The key that a pass is stored under."""
    return stored.key_of(
        scheme=asdict(SCHEMES[job.scheme]),
        trace=trace.digest,
        topology=asdict(topology),
        small_coflow_bytes=SMALL_COFLOW_BYTES,
        binaries=dict(binaries),
    )


def run_fct(settings: FctSettings, console: Console, topology: Topology | None = None) -> list[Comparison]:
    """Runs what is missing, prints and writes the comparison of all loads."""

    topology = topology or Topology()
    schemes_of(settings.schemes)
    binaries = stored.digests([build_applications(), library()])
    store = Store(settings.folder)
    wanted = list(jobs(settings))
    traces = {(job.load, job.seed): trace_of(job, settings, topology) for job in wanted}
    keys = {job: key_of(job, traces[job.load, job.seed], topology, binaries) for job in wanted}
    decided = store.thresholds()
    results = {
        job: found
        for job in wanted
        if (found := store.find(job.name, keys[job])) is not None and stored.under(found, decided.get(f"{job.load:g}"))
    }
    missing = [job for job in wanted if job not in results]
    say = Teller(console)
    say(f"{len(wanted)} passes wanted, {len(results)} are there already, in {settings.folder}")
    about_file = settings.folder / "about.json"
    if missing:
        results |= _run(settings, topology, store, missing, keys, traces, say, about_file)
    common = json.loads(about_file.read_text(encoding="utf-8")) if about_file.is_file() else {}
    thresholds = store.thresholds()
    comparisons = []
    for load in settings.loads:
        by_scheme = {name: [results[Job(load, seed, name)] for seed in settings.seeds] for name in settings.schemes}
        notes = guards.all_trouble(result for each in by_scheme.values() for result in each)
        notes += guards.forests(result for each in by_scheme.values() for result in each)
        for seed in settings.seeds:
            notes += guards.uneven({name: results[Job(load, seed, name)] for name in settings.schemes})
        comparisons.append(Comparison(load, by_scheme, {"thresholds": thresholds.get(f"{load:g}", [])}, notes))
    finish(settings.folder, "qclimb: FCT over seeds and loads", comparisons, common, console)
    return comparisons


def _run(
    settings: FctSettings,
    topology: Topology,
    store: Store,
    missing: Sequence[Job],
    keys: Mapping[Job, str],
    traces: Mapping[tuple[float, int], Trace],
    say: Teller,
    about_file: Path,
) -> dict[Job, PassResult]:
    """Brings the fabric up, learns what is needed, runs the missing passes."""
    results: dict[Job, PassResult] = {}
    folder = settings.folder / "running"
    with Fabric(topology, settings.prefix, control=start_control, progress=say) as fabric, client(fabric) as rest:
        ground = FabricGround(fabric)
        experiments = {}
        calibration = calibrate(ground, folder)
        say(calibration.verdict)
        about_file.parent.mkdir(parents=True, exist_ok=True)
        about_file.write_text(json.dumps(about(fabric, calibration)), encoding="utf-8")
        thresholds = {float(load): values for load, values in store.thresholds().items()}
        for load in dict.fromkeys(job.load for job in missing):
            experiment = Experiment(ground, Control(rest.http), folder, say, settled=lambda: asics_follow(fabric))
            experiment.thresholds = thresholds
            with say.bar(f"recording at load {load:g}") as progress:
                experiment.record(load, settings.seconds, progress)
            if any(SCHEMES[job.scheme].use_forest for job in missing if job.load == load):
                model = experiment.train()
                say(f"forest for load {load:g}: coverage {model['report'].get('coverage')}")
            say(f"thresholds at load {load:g}: {', '.join(map(str, experiment.decide_thresholds(load)))} bytes")
            experiments[load] = experiment
        store.keep_thresholds({f"{load:g}": values for load, values in thresholds.items()})
        start = time.monotonic()
        for number, job in enumerate(missing):
            left = (time.monotonic() - start) / number * (len(missing) - number) if number else 0.0
            eta = f", about {left / 60:.0f} min left" if number else ""
            what = f"load {job.load:g}, seed {job.seed}, {SCHEMES[job.scheme].title}"
            with say.bar(f"pass {number + 1} of {len(missing)}: {what}{eta}") as progress:
                run = partial(
                    experiments[job.load].run, SCHEMES[job.scheme], traces[job.load, job.seed], job.load, progress
                )
                result = stored.honest(run, say)
            result.save(store.path(job.name, keys[job]))
            results[job] = result
        for job in _disturbed(settings, results):
            say(f"once again, for less idle time than its like: load {job.load:g}, seed {job.seed}, {job.scheme}")
            with say.bar("once again") as progress:
                again = experiments[job.load].run(SCHEMES[job.scheme], traces[job.load, job.seed], job.load, progress)
            if again.idle_share > results[job].idle_share:
                again.save(store.path(job.name, keys[job]))
                results[job] = again
    return results


def _disturbed(settings: FctSettings, results: Mapping[Job, PassResult]) -> list[Job]:
    """Those of the passes just made that had clearly less idle time than another scheme's over the same trace."""
    found = []
    for load, seed in dict.fromkeys((job.load, job.seed) for job in results):
        alike = {job.scheme: result for job, result in results.items() if (job.load, job.seed) == (load, seed)}
        found += [Job(load, seed, scheme) for scheme in guards.disturbed(alike)]
    return found
