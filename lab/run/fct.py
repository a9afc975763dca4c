"""`qclimb lab run fct`: the comparison over seeds and loads, resumable, with intervals and verdicts.

Every pass is stored under a key made of all that decides it (scheme, trace, fabric, the binaries); a rerun does only
what is missing. Schemes are interleaved and their order is rotated from seed to seed, so that a drift of the machine
does not favour one. A recording and a forest are made for each load of which a pass is missing; thresholds are kept
beside the passes, so that a resumed run goes on with the same ones.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

import click
from rich.console import Console

from lab.experiment.passes import Pass, Run, interleaved, measure
from lab.experiment.store import Store, digests, key_of, replace_text
from lab.experiment.terminal import Progress, Teller, console_for_tables
from lab.fabric import Topology
from lab.fabric.machine import library, tagger_objects
from lab.run.report import Comparison, about, finish
from lab.run.settings import Fct
from lab.workload import guards
from lab.workload.passes import PassResult
from lab.workload.programs import build_applications
from lab.workload.schemes import BY_KERNEL, SCHEMES, SMALL_COFLOW_BYTES, Scheme, by_of, name_by, schemes_of
from lab.workload.testbed import up
from lab.workload.trace import Trace, make_trace

LATER = ("dynamic_th", "use_lengths")
"""A scheme's fields that came after the first passes were kept: no part of a key at their defaults."""


def compared(settings: Fct) -> list[str]:
    """The schemes, each by what schedules its programs; the library's first."""
    return [name_by(scheme, by) for by in settings.by for scheme in settings.schemes]


def passes(settings: Fct) -> list[Pass[float]]:
    """All that are wanted, at each load under each scheme, in the order in which they run."""
    return [
        Pass(load, scheme, seed, f"load{load:g}-seed{seed}-{scheme}")
        for load, scheme, seed in interleaved([(load, compared(settings)) for load in settings.loads], settings.seeds)
    ]


def trace_of(one: Pass[float], settings: Fct, topology: Topology) -> Trace:
    """The arrivals of a pass: the same for every scheme."""
    return make_trace(one.point, one.repeat, settings.seconds, list(topology.hosts), float(topology.host_rate_bps))


def scheme_of(name: str, settings: Fct) -> Scheme:
    """The scheme of that name; with the shares of the settings where it would let them be chosen."""
    scheme = SCHEMES[name.removesuffix(BY_KERNEL)]
    has_shares = settings.buffer_shares is not None and scheme.dynamic_th == "choose"
    return replace(scheme, dynamic_th=settings.buffer_shares) if has_shares else scheme


def key(scheme: Scheme, trace: Trace, topology: Topology, binaries: Mapping[str, str]) -> str:
    """The key that a pass is stored under."""
    return key_of(
        {
            "scheme": {name: value for name, value in asdict(scheme).items() if name not in LATER or value},
            "trace": trace.digest,
            "topology": asdict(topology),
            "small_coflow_bytes": SMALL_COFLOW_BYTES,
            "binaries": dict(binaries),
        }
    )


@dataclass(frozen=True)
class Plan:
    """What is wanted, over which traces, and where it is kept."""

    settings: Fct
    topology: Topology
    wanted: Sequence[Pass[float]]
    traces: Mapping[tuple[float, int], Trace]
    names: Mapping[Pass[float], str]
    store: Store[PassResult]

    @property
    def about(self) -> Path:
        """Of the fabric: settings that a reader needs."""
        return self.settings.folder / "about.json"

    def fits(self, one: Pass[float], result: PassResult) -> bool:
        """Whether a kept pass ran under the thresholds that a resumed run goes on with."""
        return guards.under(result, self.store.decided().get(f"{one.point:g}"))


def topology_of(settings: Fct) -> Topology:
    """The fabric."""
    return Topology(host_rate_bps=settings.host_rate_mbps * 10**6, uplink_rate_bps=2 * settings.host_rate_mbps * 10**6)


def plan_of(settings: Fct, topology: Topology) -> Plan:
    """Makes the traces."""
    applications = build_applications()
    binaries = {"library": digests([applications, library()])}
    if "kernel" in settings.by:
        binaries["kernel"] = digests([applications, *tagger_objects()])
    wanted = passes(settings)
    traces = {(one.point, one.repeat): trace_of(one, settings, topology) for one in wanted}
    names = {
        one: f"{one.name}-"
        + key(scheme_of(one.scheme, settings), traces[one.point, one.repeat], topology, binaries[by_of(one.scheme)])
        for one in wanted
    }
    return Plan(
        settings, topology, wanted, traces, names, Store(settings.folder, PassResult.load_file, PassResult.save)
    )


def main(settings: Fct) -> int:
    """Runs what is missing and shows everything."""
    run_fct(settings, Console(stderr=True, width=150) if settings.as_json else console_for_tables())
    if settings.as_json:
        click.echo((settings.folder / "results.json").read_text(encoding="utf-8"))
    return 0


def run_fct(settings: Fct, console: Console) -> list[Comparison]:
    """Runs what is missing, prints and writes the comparison of all loads."""
    schemes_of(settings.schemes)
    plan, say = plan_of(settings, topology_of(settings)), Teller(console)
    found = measure(
        plan.wanted,
        plan.names,
        plan.store,
        partial(bench, plan, say),
        say,
        fits=plan.fits,
        trouble=guards.trouble,
        together=lambda one: by_of(one.scheme),
    )
    results = {(one.point, one.repeat, one.scheme): result for one, result in found.items()}
    thresholds = plan.store.decided()
    comparisons = []
    for load in settings.loads:
        by_scheme = {name: [results[load, seed, name] for seed in settings.seeds] for name in compared(settings)}
        notes = guards.all_trouble(result for each in by_scheme.values() for result in each)
        notes += guards.forests(result for each in by_scheme.values() for result in each)
        for seed in settings.seeds:
            notes += guards.uneven({name: results[load, seed, name] for name in by_scheme})
        comparisons.append(Comparison(load, by_scheme, {"thresholds": thresholds.get(f"{load:g}", [])}, notes))
    common = json.loads(plan.about.read_text(encoding="utf-8")) if plan.about.is_file() else {}
    finish(settings.folder, "qclimb: FCT over seeds and loads", comparisons, common, console)
    return comparisons


@contextmanager
def bench(plan: Plan, say: Teller, missing: Sequence[Pass[float]]) -> Iterator[Run[Pass[float], PassResult]]:
    """Brings a fabric up, of one way to schedule programs, and learns there what is needed at each load; in the end
    makes disturbed passes once again."""
    settings, folder = plan.settings, plan.settings.folder / "running"
    with up(plan.topology, settings.prefix, folder, say, by=by_of(missing[0].scheme)) as (testbed, fabric, _):
        plan.about.parent.mkdir(parents=True, exist_ok=True)
        replace_text(plan.about, json.dumps(about(fabric, testbed.calibration)))
        thresholds = {float(load): values for load, values in plan.store.decided().items()}
        at_load = {}
        for load in dict.fromkeys(one.point for one in missing):
            at_load[load] = testbed.fresh(thresholds=thresholds)
            with say.bar(f"recording at load {load:g}") as progress:
                at_load[load].record(load, settings.seconds, progress)
            if any(scheme_of(one.scheme, settings).use_forest for one in missing if one.point == load):
                model = at_load[load].train()
                say(f"forest for load {load:g}: coverage {model['report'].get('coverage')}")
            decided = at_load[load].decide_thresholds(load)
            say(f"thresholds at load {load:g}: {', '.join(map(str, decided))} bytes")
        plan.store.keep({f"{load:g}": values for load, values in thresholds.items()})

        def run(one: Pass[float], progress: Progress) -> PassResult:
            trace = plan.traces[one.point, one.repeat]
            result = at_load[one.point].run(scheme_of(one.scheme, settings), trace, one.point, progress)
            return replace(result, scheme=one.scheme)

        yield run
        made = {one: result for one in missing if (result := plan.store.find(plan.names[one])) is not None}
        for one in disturbed(made):
            with say.bar(f"once again, for less idle time than its like: {one.name}") as progress:
                again = run(one, progress)
            if again.idle_share > made[one].idle_share:
                plan.store.save(plan.names[one], again)


def disturbed(made: Mapping[Pass[float], PassResult]) -> list[Pass[float]]:
    """Passes that had clearly less idle time than another scheme's over the same trace."""
    found = []
    for of in dict.fromkeys((one.point, one.repeat) for one in made):
        alike = {one.scheme: one for one in made if (one.point, one.repeat) == of}
        found += [alike[name] for name in guards.disturbed({name: made[one] for name, one in alike.items()})]
    return found
