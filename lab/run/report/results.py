"""What is written of comparisons: tables, a report, numbers for programs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console

from lab.experiment.store import replace_text
from lab.fabric import Fabric, Topology
from lab.run.report.comparison import Comparison
from lab.run.report.html import write_html
from lab.run.report.tables import markdown, print_comparison
from lab.run.report.verdicts import verdicts
from lab.workload.calibration import Calibration
from lab.workload.schemes import SMALL_COFLOW_BYTES
from lab.workload.services import CHUNK_BYTES, MEDIUM_BYTES, SCALE, SERVICES, SMALL_BYTES


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
        "slowdown": "FCT / what a flow of its size, written at once, takes alone on the idle fabric, the same for "
        "every scheme",
        "scheduled": "by hostd's kernel mode, without libqclimb.so, in every scheme; plain TCP in mode observe"
        if fabric.record.cgroups
        else "libqclimb.so is preloaded in every scheme; plain TCP runs it in mode observe",
        "guard": {
            "verdict": calibration.verdict,
            "alone, within a rack and between racks": calibration.times,
        },
    }


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
    replace_text(folder / "report.md", "\n".join(texts))
    values = {
        "title": title,
        "about": common,
        "comparisons": [
            {**comparison.to_json(), "verdicts": [asdict(one) for one in its]}
            for comparison, its in zip(comparisons, found, strict=True)
        ],
    }
    replace_text(folder / "results.json", json.dumps(values, indent=1, default=str))
    console.print(f"\nreport: {(folder / 'report.html').resolve()}", highlight=False, soft_wrap=True)
