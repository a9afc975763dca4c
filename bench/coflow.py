"""Coflow schedulers' speed, rate by rate: CPU seconds for the whole Facebook trace (or coflows drawn where it is not).

The reference, in the same run and interleaved: events a CPU second of a bare std::priority_queue of heap-allocated
events (sim_hold.cpp), as in bench/sim.py. The peer's figure is CoflowSim's under SEBF on the same trace, from another
day on a machine of this kind: 10.5 CPU minutes for some 40 % of it.
"""

import statistics
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from lab.figures.pages.optax.facebook import trace_path
from lab.sim.coflow import NAMED, CoflowExperiment, Coflows, read_trace, run_coflows
from lab.sim.errors import MissingData

from .beside import built
from .sim import events_per_second

POLICIES = {"varys": None, "aalo": 1000.0, "fair": 1000.0, "optax-varys": None}
"""And how often rates are set anew at flows' ends, ms."""
ROUNDS = 3
PEER_SECONDS, PEER_SHARE = 630.0, 0.4


def drawn(count: int = 300, hosts: int = 150, seed: int = 1) -> Coflows:
    """Shuffles of heavy-tailed widths and sizes, as the trace's are."""
    random = np.random.default_rng(seed)
    sides = np.minimum(hosts, 1 + random.pareto(0.9, (count, 2)).astype(np.int64))
    width = sides.prod(1)
    of = np.repeat(np.arange(count), width)
    source = np.concatenate([np.tile(random.permutation(hosts)[:m], r) for m, r in sides])
    target = np.concatenate([np.repeat(random.permutation(hosts)[:r], m) for m, r in sides])
    size = np.maximum(1, random.lognormal(14, 1.5, count)).astype(np.int64)[of]
    start = np.sort(random.uniform(0, 6e14, count)).astype(np.int64)
    return Coflows(hosts, start, of, size, source, target)


def run() -> list[dict[str, Any]]:
    """The rows of the table."""
    try:
        coflows, source = read_trace(trace_path()), "trace"
    except MissingData:
        coflows, source = drawn(), "drawn"
    table = []
    with tempfile.TemporaryDirectory() as folder:
        hold = built(Path(folder), "sim_hold.cpp", "-std=c++17", "-O3")
        for name, at in POLICIES.items():
            experiment = CoflowExperiment(coflows, NAMED[name], flow_ends_ms=at)
            rounds = [(run_coflows(experiment).counters, events_per_second(hold)) for _ in range(ROUNDS)]
            seconds = statistics.median(found["cpu_seconds"] for found, _ in rounds)
            flows = len(coflows.coflow)
            over = statistics.median(flows / found["cpu_seconds"] / holds for found, holds in rounds)
            table.append(
                {
                    "policy": f"{name} ({source})",
                    "coflows": len(coflows.start_ps),
                    "flows": flows,
                    "CPU s": round(seconds, 2),
                    "allocations": rounds[0][0]["allocations"],
                    "flows/CPU s over bare heap's events": round(over, 3),
                    "x CoflowSim's": round(PEER_SECONDS / PEER_SHARE / seconds) if source == "trace" else "",
                    "MB": round(rounds[0][0]["peak_rss_kib"] / 1024, 1),
                }
            )
    return table
