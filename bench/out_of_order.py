"""What receivers hold out of order where flows climb, with the sender's filter and by TCP's own handling.

QCLIMB's Table 3 (NSDI'24): recorded flows by the kernel mode, the same windows under each. TCP's own handling
is the paper's "QCLIMB (TCP OOO)": the same with the filter off. PIAS, whose flows only sink, holds what losses leave.
Lengths are of payload, of one connection's queue, from captures at the receivers. Ratios are to TCP's own handling over
the same windows. Needs root.
"""

import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from qclimb.hostfile import decode_policy
from rich.console import Console

from hostlib.hostd import bpf
from hostlib.hostd.tagger import tagger_policy
from lab.experiment.intervals import over_runs
from lab.experiment.terminal import Teller
from lab.fabric import Fabric
from lab.fabric.arrivals import Held, captured, held
from lab.run.bounds.run import Bench, plan_of, topology_of, trace_of
from lab.run.bounds.schemes import VARIANTS
from lab.run.settings import Bounds
from lab.workload.passes import PassResult
from lab.workload.schemes import Scheme
from lab.workload.sources import SOURCES
from lab.workload.testbed import up

CASES = (("spark", 0.5, 5), ("spark", 0.7, 5), ("web", 0.7, 3))
"""(recording, load, how many of its windows)"""
PAPER = {("spark", 0.5): "1,924 -> 769", ("spark", 0.7): "3,134 -> 2,620"}
"""PageRank, bytes: TCP's own handling -> QCLIMB."""
UNDER = (("qclimb", True), ("qclimb", False), ("pias", False))
"""(scheme, whether its senders filter)"""
OWN = "198.19.0.0/16"
SETTLE_S = 1.0
"""hostd has told the kernel a new policy after that."""


def set_filter(fabric: Fabric, filters: bool) -> None:
    """At each host, over what hostd told the kernel; it stays until a new policy comes."""
    for host in fabric.hosts:
        directory = fabric.run_directory(host)
        policy = decode_policy((directory / "policy").read_bytes())
        bpf.put(directory / "bpf" / "policy", bytes(4), tagger_policy(policy, filters=filters, is_scoped=True))


def settled(fabric: Fabric, before: Callable[[], bool], filters: bool) -> bool:
    """Whether a revision is in force everywhere; then senders filter, or not."""
    if not before():
        return False
    time.sleep(SETTLE_S)
    set_filter(fabric, filters)
    return True


def measured(fabric: Fabric, under: Callable[[], PassResult], folder: Path) -> tuple[PassResult, Held]:
    """A pass, and what its receivers held."""
    folder.mkdir(parents=True, exist_ok=True)
    files = {host: folder / f"{host}.pcap" for host in fabric.hosts}
    at = [(fabric.netns(host), "eth0", file) for host, file in files.items()]
    with captured(at, f"tcp and src net {OWN}"):
        result = under()
    found = sum(map(held, files.values()), Held())
    for file in files.values():
        file.unlink()
    return result, found


def run() -> Iterator[dict[str, Any]]:
    """A row a case and scheme."""
    for name, load, windows in CASES:
        with tempfile.TemporaryDirectory() as directory:
            found = passes(name, load, windows, Path(directory))
        for scheme, filters in UNDER:
            about = {"recording": name, "load": load, "windows": windows}
            paper = PAPER.get((name, load), "") if filters else ""
            yield about | row(scheme, filters, found[scheme, filters], found[scheme, False]) | {"paper": paper}


def passes(name: str, load: float, windows: int, folder: Path) -> dict[tuple[str, bool], list[tuple[PassResult, Held]]]:
    """All windows under each, their order rotated from window to window."""
    settings = Bounds(traces=(name,), figures=(7,), loads=(load,), by=("kernel",), sources=True)
    settings = replace(settings, folder=folder / "bounds")
    found: dict[tuple[str, bool], list[tuple[PassResult, Held]]] = {each: [] for each in UNDER}
    say = Teller(Console(stderr=True))
    with up(topology_of(SOURCES[name]), "qo", folder / "running", say, by="kernel") as (testbed, fabric, _):
        bench = Bench(plan_of(settings), say, testbed, fabric)
        bed = bench.recorded(name)
        revision = bed.control.revise(Scheme("pias", "PIAS", "pias").revision("optimise", load, bed.label))
        thresholds = [int(value) for value in revision["threshold_bytes"]]
        forest = bench.forest(name, VARIANTS["qclimb"].depth)
        for window in range(1, windows + 1):
            trace, turn = trace_of(settings, name, load, window), window % len(UNDER)
            for scheme, filters in (*UNDER[turn:], *UNDER[:turn]):
                own = replace(bed, settled=partial(settled, fabric, bed.settled, filters))
                of = VARIANTS[scheme].scheme_by(optimised=True)
                under = partial(own.run_under, of, trace, load, thresholds, forest)
                found[scheme, filters].append(measured(fabric, under, folder / "captures"))
                say(f"{name}, load {load:g}, window {window}: {of.title}, {'filter' if filters else 'none'}")
    return found


def row(
    scheme: str,
    filters: bool,
    ours: list[tuple[PassResult, Held]],
    default: list[tuple[PassResult, Held]],
) -> dict[str, Any]:
    """What was held; the paper does not say what its buffer's length is a mean over."""
    whole = sum((each for _, each in ours), Held())
    means = [(each.mean_bytes, other.mean_bytes) for (_, each), (_, other) in zip(ours, default, strict=False)]
    return {
        "scheme": VARIANTS[scheme].scheme.title,
        "handling": "filter" if filters else "TCP's",
        "out of order": f"{whole.stored / whole.packets:.2%}",
        "bytes held, over arrivals": round(whole.mean_bytes),
        "ratio to TCP's": over_runs([a / b for a, b in means if a and b], ratios=True).text(2) if filters else "",
        "while any are held": round(whole.byte_s / whole.seconds) if whole.seconds else 0,
        "ms held a packet": f"{1000 * whole.seconds / whole.packets:.2f}",
        "sent again": sum(result.tcp["RetransSegs"] for result, _ in ours),
        "seen twice": sum(result.tcp["TCPDSACKRecv"] for result, _ in ours),
        "timeouts": sum(result.tcp["TCPTimeouts"] for result, _ in ours),
        "idle": f"{min(result.idle_share for result, _ in ours):.0%}",
    }
