"""`qclimb lab demo`: the whole of qclimb on one machine in five minutes, from an empty fabric to a report."""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

from rich.console import Console

from hostlib.hostd.known import Known, words
from lab.experiment.terminal import Teller, console_for_tables
from lab.fabric import Fabric, Topology
from lab.run.report import Comparison, about, finish
from lab.run.settings import Demo
from lab.workload import guards
from lab.workload.programs import build_applications
from lab.workload.schemes import SCHEMES, Scheme, schemes_of
from lab.workload.testbed import RECORDING_SEED, Testbed, up
from lab.workload.trace import Trace, describe, make_trace

TOLD_PAUSE_S, TOLD_DEADLINE_S = 3.0, 20.0
"""From one look at the daemons' status to the next, and until the last."""


def describe_trace(trace: Trace) -> str:
    """One sentence on what a trace holds."""
    shares = describe(trace.flows)
    parts = ", ".join(f"{name} {shares[name]['flows']:.0%} of flows {shares[name]['bytes']:.0%} of bytes" for name in
                      ("small", "medium", "large"))  # fmt: skip
    return f"{len(trace.flows)} flows over {trace.seconds:.1f} s: {parts}"


def compared(settings: Demo) -> list[Scheme]:
    """The schemes; with the kernel mode, which reads no lengths, none that differs from another by them alone."""
    schemes = schemes_of(settings.schemes)
    return [scheme for scheme in schemes if settings.by == "library" or not scheme.use_lengths]


def main(settings: Demo) -> int:
    """Runs it."""
    run_demo(settings, console_for_tables())
    return 0


def run_demo(settings: Demo, console: Console) -> Path:
    """Runs the demo; returns the folder of its results. The fabric is taken down, whatever happens, unless `keep`."""
    folder = settings.results / datetime.now().strftime("%Y%m%d-%H%M%S")
    say = Teller(console)
    build_applications()
    schemes, title = compared(settings), "qclimb demo"
    if settings.by == "kernel":
        title += ", by hostd's kernel mode"
        say("by hostd's kernel mode: programs run without libqclimb.so, and nobody reads lengths")
    with up(Topology(), settings.prefix, folder, say, by=settings.by) as (testbed, fabric, _):
        ground = testbed.ground
        with say.bar(f"recording under plain TCP: load {settings.load:g}, seed {RECORDING_SEED}") as progress:
            recorded = testbed.record(settings.load, settings.seconds, progress)
        say(f"orchestrator: {recorded['flows']} flows recorded; training a forest, computing thresholds")
        model = testbed.train()
        report = model["report"]
        say(f"forest {model['generation']}: {_forest_words(report)}")
        say(f"demotion thresholds: {', '.join(map(str, testbed.decide_thresholds(settings.load)))} bytes")
        trace = make_trace(settings.load, settings.seed, settings.seconds, list(fabric.hosts), ground.host_rate_bps)
        say(f"trace: load {settings.load:g}, seed {settings.seed}, {describe_trace(trace)}")
        results = {}
        known = sizes_known(fabric)
        for number, scheme in enumerate(schemes, 1):
            with say.bar(f"pass {number} of {len(schemes)}: {scheme.title}") as progress:
                results[scheme.name] = [testbed.run(scheme, trace, settings.load, progress)]
            results[scheme.name][0].save(folder / f"pass-{scheme.name}.json")
            known, before = sizes_known(fabric), known
            say(f"sizes known before the first ACK, {words({name: known[name] - before[name] for name in known})}")
        calibration = testbed.calibration
        common = about(fabric, calibration)
        hints = _keep(fabric, testbed, settings) if settings.keep else []
    notes = [] if calibration.honest else [calibration.verdict]
    notes += guards.all_trouble(result for each in results.values() for result in each)
    at_load = {
        "thresholds": testbed.decide_thresholds(settings.load),
        "forest": {key: value for key, value in report.items() if not isinstance(value, list | dict)},
        "trace": describe_trace(trace),
    }
    comparison = Comparison(settings.load, results, at_load, notes)
    finish(folder, title, [comparison], common, console)
    say("done")
    for line in hints:
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    return folder


def sizes_known(fabric: Fabric) -> dict[str, int]:
    """What told flows' sizes, once no more records come: of the last flows libraries tell later."""
    found, until = _sizes_told(fabric), time.monotonic() + TOLD_DEADLINE_S
    while True:
        time.sleep(TOLD_PAUSE_S)
        before, found = found, _sizes_told(fabric)
        if found == before or time.monotonic() > until:
            return found


def _sizes_told(fabric: Fabric) -> dict[str, int]:
    """What the hosts' daemons say told flows' sizes, summed: fields of hostd's Known."""
    found = dict.fromkeys(asdict(Known()), 0)
    for host in fabric.hosts:
        state = json.loads((fabric.run_directory(host) / "status.json").read_bytes())
        found = {name: count + state["known"][name] for name, count in found.items()}
    return found


def _forest_words(report: dict[str, Any]) -> str:
    words = []
    rows = report.get("rows", {})
    if rows:
        words.append(f"learnt from {rows['grow'] + rows['calibrate']} flows")
    if report.get("coverage") is not None:
        share = f"{100 * float(report['coverage']):.2f} %"
        words.append(f"bounds hold for {share} of the {rows.get('test', 0)} flows it was not shown")
    return ", ".join(words) or "trained"


def _keep(fabric: Fabric, testbed: Testbed, settings: Demo) -> list[str]:
    """Leaves the fabric up under QCLIMB; what one can do with it, as lines to be printed."""
    model = testbed.model.get("generation")
    thresholds = testbed.decide_thresholds(settings.load)
    testbed.bring_into_force(SCHEMES["qclimb"], settings.load, thresholds, model)
    fabric.keep()
    control = fabric.record.control
    program = Path(sys.executable).with_name("qclimb")  # root's PATH need not have it
    sudo = "sudo " if "SUDO_USER" in os.environ else ""
    lab = f"{sudo}{program} lab {{}}" + ("" if settings.prefix == "qc" else f" --prefix {settings.prefix}")
    exec_in = lab.format("exec")
    leaf, server = fabric.topology.nodes["l1"], list(fabric.hosts)[-1]
    gnmi = Path(sys.executable).parent / "pygnmicli"
    address = fabric.hosts[server]
    return [
        "the fabric stays up, QCLIMB in force:",
        f"  {lab.format('show')} l1                 # what SONiC's `show qclimb` says; also: classes, counters",
        f"  {exec_in} --bare mgmt -- sh -c 'curl -s --cacert {control['ca']} "
        f'-H "Authorization: Bearer $(cat {control["token_file"]})" {control["rest"]}/v1/state\'',
        f"  cd /tmp && {exec_in} --bare mgmt -- {gnmi} -t {leaf.mgmt_address}:9339 "
        f"-u any -p any -o get -x /qclimb:qclimb/state -r {control['ca']} "
        f"-c {control['operator_cert']} -k {control['operator_key']}",
        "  your own programs, on two hosts:",
        f"  {exec_in} {server} -- python3 -m http.server --bind {address} 8000 &",
        f"  {exec_in} h1 -- curl -s --retry 9 --retry-connrefused http://{address}:8000/",
        f"  {lab.format('down')}                    # removes it",
    ]
