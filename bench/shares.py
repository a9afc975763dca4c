"""Shares of a port's buffer: what the orchestrator chooses for nine workloads, and what that does to their own traffic.

The orchestrator asks a small fabric of sixteen hosts with flows drawn from the sizes alone. Here each choice is played
on the workload itself: the lab's mix and recordings flow for flow at the lab's rates, published tables at 10 Gb/s with
other seeds, two of them with 144 hosts as well. QCLIMB knows sizes to within a tenth, of flows or of places among them.
A number is mean FCT over that with the platform's shares, the same flows.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np

from lab.figures.pages.product.threshold_cases import CASES, Case, sizes_of
from lab.sim import Experiment, Workload
from lab.sim.forecast import Leaves
from lab.sim.results import Results
from lab.sim.runner import run as simulate
from lab.sim.topology import Topology
from orchestrator.models.simulator import Simulator
from orchestrator.plan import shares
from orchestrator.plan.shares import Port, Shares, choose, question
from orchestrator.plan.sizes import SizeDistribution
from orchestrator.plan.thresholds import LAST_SHARE, OBJECTIVE, SEGMENT_BYTES, optimise

LARGE = Topology(9, 4, 16)
"""144 hosts at 10 Gb/s, uplinks at 40 Gb/s."""
WORKLOADS = {
    **CASES,
    "web search, 144 hosts": replace(CASES["web search"], topology=LARGE, share=1.0),
    "data mining, 144 hosts": replace(CASES["data mining"], topology=LARGE, share=1.0),
}
LOADS = (0.4, 0.6, 0.8, 0.9)
PRIORITIES = 8
FLOWS = 20_000
SEEDS = (1, 2, 3)
MARK_BYTES = 22_500
SCHEMES = ("pias", "qclimb")


def run() -> list[dict[str, Any]]:
    """A row for each workload, load, scheme and kind of TCP."""
    cells = [(name, load, scheme, "loss") for name in WORKLOADS for load in LOADS for scheme in SCHEMES]
    cells += [(name, 0.8, scheme, "dctcp") for name in CASES if CASES[name].table for scheme in SCHEMES]
    return [cell(*each) for each in cells]


def cell(name: str, load: float, scheme: str, control: str) -> dict[str, Any]:
    """What is foretold, what is chosen, and what comes of it."""
    case, kind = WORKLOADS[name], sizes_of(WORKLOADS[name])
    sizes = SizeDistribution.from_cdf(kind[1]) if kind[0] == "cdf" else SizeDistribution.from_sizes(kind[1])  # type: ignore[arg-type]
    begin = optimise(sizes, PRIORITIES, load, OBJECTIVE, LAST_SHARE, SEGMENT_BYTES).threshold_bytes
    port = Port(
        case.scheme.buffer_bytes,
        case.topology.host_rate_bps / 1e9,
        initial_window=case.scheme.initial_window,
        congestion_control="dctcp" if control == "dctcp" else "loss",
    )
    asked = question(port, sizes, begin, scheme == "qclimb", begin[0], load, MARK_BYTES if control == "dctcp" else None)
    made = choose(Simulator().ask(asked))
    ratios = played(case, load, scheme, control, begin, made)
    return {
        "workload": name,
        "load": load,
        "scheme": scheme,
        "TCP": control,
        "dynamic_th": "platform's" if made.dynamic_th is None else made.dynamic_th[0],
        "foretold, small": _foretold(made),
        **ratios,
    }


def played(
    case: Case, load: float, scheme: str, control: str, begin: Sequence[int], made: Shares
) -> dict[str, float | None]:
    """Mean FCT of each class of size, and all flows' mean slowdown, over the platform's."""
    platform, last = 2.0**shares.PLATFORM_TH, len(begin)
    narrow = platform if made.dynamic_th is None else 2.0 ** (made.dynamic_th[0] or 0)
    tcp = replace(
        case.scheme,
        dctcp=control == "dctcp",
        slack_bytes=begin[0],
        reordering="drain" if scheme == "qclimb" else "tcp",
        least_timeout_us=shares.LEAST_TIMEOUT_MS * 1e3,
        first_timeout_us=shares.LEAST_TIMEOUT_MS * 1e3,
    )
    arms = [(platform,) * (last + 1), (narrow,) * last + (platform,)]
    runs = [
        _foretelling(
            replace(case, scheme=replace(tcp, dynamic_alpha=alphas)).experiment(scheme, tuple(begin), load, FLOWS, seed)
        )
        for alphas in arms
        for seed in SEEDS
    ]
    if made.dynamic_th is None:
        return {"small": None, "p99": None, "medium": None, "large": None, "slowdown": None}
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        done = list(pool.map(simulate, runs))
    ours, theirs = done[len(SEEDS) :], done[: len(SEEDS)]
    edges = (0, case.small_bytes, case.medium_bytes, 1 << 62)
    found: dict[str, float | None] = {"small": _ratio(ours, theirs, edges[0], edges[1], np.mean)}
    found["p99"] = _ratio(ours, theirs, edges[0], edges[1], lambda each: np.percentile(each, 99))
    found["medium"] = _ratio(ours, theirs, edges[1], edges[2], np.mean)
    found["large"] = _ratio(ours, theirs, edges[2], edges[3], np.mean)
    found["slowdown"] = float(
        np.mean([each.slowdown.mean() for each in ours]) / np.mean([each.slowdown.mean() for each in theirs])
    )
    return found


def _foretelling(one: Experiment) -> Experiment:
    """The same with sizes known to within a tenth; schemes without bounds do not look."""
    if isinstance(one.workload, Workload):
        return replace(one, workload=replace(one.workload, forecast=Leaves()))
    size = one.workload.size_bytes.astype(float)
    lower, upper = (np.maximum(1, at).astype(np.uint64) for at in (np.floor(0.9 * size), np.ceil(1.1 * size)))
    return replace(one, workload=replace(one.workload, lower_bytes=lower, upper_bytes=upper))


def _ratio(ours: Sequence[Results], theirs: Sequence[Results], low: int, high: int, of: Any) -> float | None:
    both = []
    for each in (ours, theirs):
        chosen = np.concatenate([one.fct_us[(one.size_bytes > low) & (one.size_bytes <= high)] for one in each])
        both.append(float(of(chosen)) if chosen.size >= shares.LEAST_FLOWS else None)
    return both[0] / both[1] if both[0] is not None and both[1] is not None else None


def _foretold(made: Shares) -> float | None:
    if made.dynamic_th is None or not made.foretold:
        return None
    chosen = next(each for each in made.foretold if each["dynamic_th"][0] == made.dynamic_th[0])
    return float(chosen["fct"].get("first", float("nan")))
