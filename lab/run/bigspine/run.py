"""Measures the passes of `qclimb lab run bigspine`: schemes over the same arrivals, on a fabric for each K."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import partial
from typing import Any

from lab.control.spines import class_states, roll_out, share_states
from lab.experiment.passes import Pass, Run, interleaved, measure
from lab.experiment.store import Store, digests, key_of
from lab.experiment.terminal import Progress, Teller, console_for_tables
from lab.fabric import Fabric, FabricError
from lab.fabric.machine import library
from lab.run.bigspine.report import report
from lab.run.bigspine.traffic import SCHEMES, Scheme, receivers, topology_of, trace_of
from lab.run.settings import BigSpine
from lab.workload import guards
from lab.workload.passes import PassResult, run_pass
from lab.workload.programs import build_applications
from lab.workload.testbed import RECORDING_SEED, Testbed, up

STEERED_DEADLINE_S = 60.0
FIRST_LEAF = "l1"
Point = tuple[float, int]
"""Load and number of spines."""
One = Pass[Point]


def passes(settings: BigSpine) -> list[One]:
    """All that are wanted. Five queues on the most spines alone: they do not know of them."""
    most = max(settings.spines)
    points = [
        ((load, spines), [name for name in settings.schemes if SCHEMES[name].queues == 2 or spines == most])
        for load in settings.loads
        for spines in settings.spines
    ]
    return [
        Pass(point, scheme, seed, f"load{point[0]:g}-spines{point[1]}-seed{seed}-{scheme}")
        for point, scheme, seed in interleaved(points, settings.seeds)
    ]


def main(settings: BigSpine) -> int:
    """Runs what is missing and reports everything."""
    console = console_for_tables()
    say, wanted = Teller(console), passes(settings)
    binaries = digests([build_applications(), library()])
    names = {one: f"{one.name}-{key_of(_decides(one, settings, binaries))}" for one in wanted}
    store = Store(settings.folder, PassResult.load_file, PassResult.save)
    found = measure(
        wanted,
        names,
        store,
        partial(bench, settings, say),
        say,
        trouble=guards.trouble,
        together=lambda one: one.point[1],
        seconds=settings.seconds_at_most,
        is_stored=settings.stored,
    )
    report(settings, {(one.point, one.scheme, one.repeat): result for one, result in found.items()}, console)
    return 0


def _decides(one: One, settings: BigSpine, binaries: Mapping[str, str]) -> dict[str, Any]:
    load, spines = one.point
    topology = topology_of(spines)
    return {
        "revision": SCHEMES[one.scheme].revision(topology.spine_names, load),
        "trace": trace_of(load, one.repeat, settings.seconds, topology).digest,
        "topology": asdict(topology),
        "binaries": dict(binaries),
    }


@contextmanager
def bench(settings: BigSpine, say: Teller, missing: Sequence[One]) -> Iterator[Run[One, PassResult]]:
    """A fabric with as many spines as these passes want."""
    topology = topology_of(missing[0].point[1])
    folder = settings.folder / "running"
    with up(topology, settings.prefix, folder, say) as (testbed, fabric, _):
        learnt: dict[float, Testbed] = {}

        def model_for(load: float) -> dict[str, Any]:
            """A forest of this load's traffic, from a pass of plain TCP over a trace of its own."""
            if load not in learnt:
                learnt[load] = testbed.fresh(services=receivers(topology))
                trace = trace_of(load, RECORDING_SEED, settings.seconds, topology)
                with say.bar(f"recording at load {load:g}") as progress:
                    learnt[load].record_trace(trace, f"bigspine-{load:g}", load, progress)
                report = learnt[load].train()["report"]
                say(f"forest for load {load:g}: coverage {report.get('coverage')}")
            return learnt[load].model

        def run(one: One, progress: Progress) -> PassResult:
            load, _ = one.point
            scheme = SCHEMES[one.scheme]
            model = model_for(load) if scheme.has_bounds else {}
            told = bring_into_force(testbed, fabric, scheme, load, model)
            before = uplink_bytes(fabric)
            trace = trace_of(load, one.repeat, settings.seconds, topology)
            result = run_pass(
                testbed.ground, trace, scheme.name, folder / scheme.name, told, receivers(topology), progress
            )
            after = uplink_bytes(fabric)
            carried = {
                spine: [now - then for now, then in zip(after[spine], before[spine], strict=True)] for spine in after
            }
            return replace(result, settings={**result.settings, "uplink_bytes": carried})

        yield run


def bring_into_force(
    testbed: Testbed, fabric: Fabric, scheme: Scheme, load: float, model: Mapping[str, Any]
) -> dict[str, Any]:
    """A revision of the scheme on every switch and host, and packets go as it says; returns what is in force."""
    body = scheme.revision(fabric.topology.spine_names, load, model.get("generation"))
    revision = testbed.control.revise(body)
    rollout = roll_out(testbed.control, int(revision["id"]))
    until = time.monotonic() + STEERED_DEADLINE_S
    while not (testbed.settled() and steers(fabric, scheme)):
        if time.monotonic() > until:
            raise FabricError(f"packets do not go as {scheme.name} says after {STEERED_DEADLINE_S:g} s")
        time.sleep(0.05)
    found = {"revision": revision["id"], "generation": rollout.get("generation"), "body": body}
    return {**found, "model": {"generation": model["generation"], "report": model["report"]}} if model else found


def steers(fabric: Fabric, scheme: Scheme) -> bool:
    """Whether each leaf pins the scheme's classes, or none, and shares as told."""
    for leaf in fabric.topology.leaf_names:
        pinned, shares = class_states(fabric, leaf), share_states(fabric, leaf)
        if bool(pinned) != scheme.is_pinned or set(pinned.values()) - {"applied"}:
            return False
        if bool(shares) != scheme.is_pinned or set(shares.values()) - {"active"}:
            return False
    return True


def uplink_bytes(fabric: Fabric) -> dict[str, list[int]]:
    """Bytes that the first leaf has sent to each spine, by queue."""
    buffer = fabric.shared_buffer
    if buffer is None:
        return {}
    return {
        port.peer_node: [queue.bytes for queue in buffer.state(port.ifindex).queue]
        for port in fabric.topology.ports_of(FIRST_LEAF)
        if port.peer_is_switch
    }
