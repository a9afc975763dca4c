"""`qclimb lab demo`: the whole of qclimb on one machine in five minutes, from an empty fabric to a report."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from lab.fabric import Fabric, Topology
from lab.fabric.control import asics_follow, start_control
from lab.report import Comparison, markdown, print_comparison, verdicts, write_html
from lab.rest import client
from lab.workload import guards
from lab.workload.control import COMPARED, SCHEMES, SMALL_COFLOW_BYTES, Control
from lab.workload.experiment import RECORDING_SEED, Calibration, Experiment, calibrate, schemes_of
from lab.workload.ground import FabricGround
from lab.workload.passes import Progress as PassProgress
from lab.workload.programs import build_applications
from lab.workload.services import CHUNK_BYTES, MEDIUM_BYTES, SCALE, SERVICES, SMALL_BYTES
from lab.workload.trace import Trace, describe, make_trace


@dataclass(frozen=True)
class DemoSettings:
    """What a demo does."""

    load: float = 0.6
    seed: int = 1
    seconds: float = 25.0
    schemes: tuple[str, ...] = COMPARED
    keep: bool = False
    prefix: str = "qc"
    results: Path = Path("lab-results")


class Teller:
    """Says what is being done: a line a step with the time since the start, a bar while a pass runs (on a terminal)."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._start = time.monotonic()

    def __call__(self, text: str) -> None:
        """One line."""
        elapsed = time.monotonic() - self._start
        self.console.print(f"[dim]{elapsed:5.0f} s[/dim]  {text}", highlight=False)

    @contextmanager
    def bar(self, text: str) -> Iterator[PassProgress]:
        """A line, then a bar that goes away."""
        self(text)
        columns = (TextColumn("        "), BarColumn(40), TimeElapsedColumn())
        with Progress(*columns, console=self.console, transient=True, disable=not self.console.is_terminal) as bar:
            task = bar.add_task(text, total=1.0)
            yield lambda share: bar.update(task, completed=share)


def about(fabric: Fabric, calibration: Calibration) -> dict[str, Any]:
    """The settings that a reader needs to judge or repeat the numbers."""
    topology: Topology = fabric.topology
    return {
        "fabric": {
            "leaves, spines, hosts": f"{topology.leaves}, {topology.spines}, {len(topology.hosts)}",
            "host links": f"{topology.host_rate_bps / 1e6:g} Mb/s",
            "uplinks": f"{topology.uplink_rate_bps / 1e6:g} Mb/s",
            "buffer per port": f"{topology.buffer_bytes} bytes in all, the same for every scheme",
            "queues": "8, strict priority",
            "clock skew": f"hosts transmit {topology.host_clock_skew:.1%} faster than switch ports, every scheme",
            "shaper": fabric.record.shaper,
            "congestion control": fabric.record.congestion_control,
            "minimum RTO": "10 ms, every scheme",
            "notes": list(fabric.notes),
        },
        "scale": {
            "factor": f"published sizes / {SCALE}",
            "small": f"to {SMALL_BYTES} bytes",
            "medium": f"to {MEDIUM_BYTES} bytes",
            "slack": "the first demotion threshold",
            "small coflow": f"{SMALL_COFLOW_BYTES} bytes",
            "chunks": f"{CHUNK_BYTES} bytes",
        },
        "services": {
            found.name: f"port {found.port}, {found.flow_share:.1%} of flows, {found.table} from share "
            f"{found.lowest_share:g} to {found.highest_share:g}, written {found.writing}: {found.about}"
            for found in SERVICES
        },
        "load": "bytes on the wire towards receivers (payload and headers) / (time x host link rate), averaged over "
        "hosts; requests, ACKs and retransmissions not counted",
        "slowdown": "FCT / store-and-forward formula",
        "shim": "libqclimb.so is preloaded in every scheme; plain TCP runs it in mode observe",
        "guard": {
            "verdict": calibration.verdict,
            "idle FCT / formula": ", ".join(f"{size} B {ratio:.2f}" for size, ratio in calibration.by_size.items()),
            "why below 1": "the shaper lets a lone packet pass at once and adds a packet of burst credit on each link",
        },
    }


def describe_trace(trace: Trace) -> str:
    """One sentence on what a trace holds."""
    shares = describe(trace.flows)
    parts = ", ".join(f"{name} {shares[name]['flows']:.0%} of flows {shares[name]['bytes']:.0%} of bytes" for name in
                      ("small", "medium", "large"))  # fmt: skip
    return f"{len(trace.flows)} flows over {trace.seconds:.1f} s: {parts}"


def run_demo(settings: DemoSettings, console: Console) -> Path:
    """Runs the demo; returns the folder of its results. The fabric is taken down, whatever happens, unless `keep`."""
    folder = settings.results / datetime.now().strftime("%Y%m%d-%H%M%S")
    say = Teller(console)
    build_applications()
    schemes = schemes_of(settings.schemes)
    with Fabric(prefix=settings.prefix, control=start_control, progress=say) as fabric, client(fabric) as rest:
        for note in fabric.notes:
            say(f"note: {note}")
        ground = FabricGround(fabric)
        experiment = Experiment(ground, Control(rest.http), folder, say, settled=lambda: asics_follow(fabric))
        say("guard: flows one at a time over the idle fabric")
        calibration = calibrate(ground, folder)
        say(calibration.verdict)
        with say.bar(f"recording under plain TCP: load {settings.load:g}, seed {RECORDING_SEED}") as progress:
            recorded = experiment.record(settings.load, settings.seconds, progress)
        say(f"orchestrator: {recorded['flows']} flows recorded; training a forest, computing thresholds")
        model = experiment.train()
        report = model["report"]
        say(f"forest {model['generation']}: {_forest_words(report)}")
        say(f"demotion thresholds: {', '.join(map(str, experiment.decide_thresholds(settings.load)))} bytes")
        trace = make_trace(settings.load, settings.seed, settings.seconds, list(fabric.hosts), ground.host_rate_bps)
        say(f"trace: load {settings.load:g}, seed {settings.seed}, {describe_trace(trace)}")
        results = {}
        for number, scheme in enumerate(schemes, 1):
            with say.bar(f"pass {number} of {len(schemes)}: {scheme.title}") as progress:
                results[scheme.name] = [experiment.run(scheme, trace, settings.load, progress)]
            results[scheme.name][0].save(folder / f"pass-{scheme.name}.json")
        common = about(fabric, calibration)
        hints = _keep(fabric, experiment, settings) if settings.keep else []
    notes = [] if calibration.honest else [calibration.verdict]
    notes += guards.all_trouble(result for each in results.values() for result in each)
    at_load = {
        "thresholds": experiment.decide_thresholds(settings.load),
        "forest": {key: value for key, value in report.items() if not isinstance(value, list | dict)},
        "trace": describe_trace(trace),
    }
    comparison = Comparison(settings.load, results, at_load, notes)
    finish(folder, "qclimb demo", [comparison], common, console)
    say("done")
    for line in hints:
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    return folder


def finish(
    folder: Path, title: str, comparisons: Sequence[Comparison], common: dict[str, Any], console: Console
) -> None:
    """Prints comparisons and writes report.html, report.md and results.json into the folder."""
    found = [verdicts(comparison) for comparison in comparisons]
    for comparison, its in zip(comparisons, found, strict=True):
        console.print()
        print_comparison(console, comparison, its)
    write_html(folder / "report.html", title, comparisons, [one for its in found for one in its], common)
    texts = [markdown(comparison, its) for comparison, its in zip(comparisons, found, strict=True)]
    (folder / "report.md").write_text("\n".join(texts), encoding="utf-8")
    values = {
        "title": title,
        "about": common,
        "comparisons": [
            {**comparison.to_json(), "verdicts": [asdict(one) for one in its]}
            for comparison, its in zip(comparisons, found, strict=True)
        ],
    }
    (folder / "results.json").write_text(json.dumps(values, indent=1, default=str), encoding="utf-8")
    console.print(f"\nreport: {(folder / 'report.html').resolve()}", highlight=False, soft_wrap=True)


def _forest_words(report: dict[str, Any]) -> str:
    words = []
    rows = report.get("rows", {})
    if rows:
        words.append(f"learnt from {rows['grow'] + rows['calibrate']} flows")
    if report.get("coverage") is not None:
        share = f"{100 * float(report['coverage']):.2f} %"
        words.append(f"bounds hold for {share} of the {rows.get('test', 0)} flows it was not shown")
    return ", ".join(words) or "trained"


def _keep(fabric: Fabric, experiment: Experiment, settings: DemoSettings) -> list[str]:
    """Leaves the fabric up under QCLIMB; what one can do with it, as lines to be printed."""
    model = experiment.model.get("generation")
    thresholds = experiment.decide_thresholds(settings.load)
    experiment.bring_into_force(SCHEMES["qclimb"], settings.load, thresholds, model)
    fabric.keep()
    control = fabric.record.control
    lab = "qclimb lab {}" + ("" if settings.prefix == "qc" else f" --prefix {settings.prefix}")
    exec_in = lab.format("exec")
    leaf, server = fabric.topology.nodes["l1"], list(fabric.hosts)[-1]
    gnmi = Path(sys.executable).parent / "pygnmicli"
    address = fabric.hosts[server]
    return [
        "the fabric stays up, QCLIMB in force (all of these as root):",
        f"  {lab.format('show')} l1                 # what SONiC's `show qclimb` says; also: classes, counters",
        f"  {exec_in} --bare mgmt -- curl -s --cacert {control['ca']} "
        f'-H "Authorization: Bearer $(cat {control["token_file"]})" {control["rest"]}/v1/state',
        f"  cd /tmp && {exec_in} --bare mgmt -- {gnmi} -t {leaf.mgmt_address}:9339 "
        f"-u any -p any -o get -x /qclimb:qclimb/state -r {control['ca']} "
        f"-c {control['operator_cert']} -k {control['operator_key']}",
        "  your own programs, on two hosts:",
        f"  {exec_in} {server} -- python3 -m http.server --bind {address} 8000 &",
        f"  {exec_in} h1 -- curl -s http://{address}:8000/",
        f"  {lab.format('down')}                    # removes it",
    ]
