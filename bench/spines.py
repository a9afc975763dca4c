"""Thresholds for K spines: ours beside MP-MLFQ's published ones, by its repository's cost, and beside its swarm.

Ours minimise the slowdown flow by flow (orchestrator.plan.spines); `polished` are ours after a descent by the published
cost, which tells how much of a difference is the cost's. Every number is of one run, interleaved. `swarm` is their
algorithm over our evaluation of their cost; where QCLIMB_MP_MLFQ names a clone of
their repository, its own is run, too.
"""

import os
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import minimize

from bench.published import CUT, HIGH, LOW, Floats, cost_queues, cost_spines, repository_swarm, smaller, swarm
from lab.sim.fluid import MLFQ_KB, MP_KB
from orchestrator.plan.sizes import SizeDistribution
from orchestrator.plan.spines import BigSpine, optimise_spines
from orchestrator.plan.thresholds import Objective, optimise

SIX_KB = (17.70, 133.36, 478.32, 1098.90, 2004.25, CUT)
PUBLISHED_KB = {**MP_KB, (6, 0.8): SIX_KB}
TRIALS = 5
STEP_LEAST = 1e-3
"""Of logarithms."""


def web_search() -> SizeDistribution:
    """The authors' bounded Pareto, in bytes."""
    at = np.geomspace(LOW, HIGH, 1000)
    return SizeDistribution.from_cdf(zip((at * 1000).tolist(), smaller(at).tolist(), strict=True))


def ours(sizes: SizeDistribution, spines: int, load: float) -> Floats:
    """K thresholds in KB, as the product computes them but for segments and the last priority's least share."""
    found = optimise_spines(sizes, BigSpine.equal(spines), load, Objective.SLOWDOWN, 0.0, 1)
    return np.array(found.threshold_bytes) / 1000


def polished(cost: Callable[[Floats], float], start: Floats) -> Floats:
    """The least near `start`: by steps of one threshold, of all, and by Nelder and Mead, again and again."""
    place, least = np.log(start), cost(start)
    moves = [*np.eye(len(start)), np.ones(len(start))]
    step = 0.5
    while step > STEP_LEAST:
        before = least
        for move in (sign * step * each for each in moves for sign in (1, -1)):
            if (value := cost(np.exp(place + move))) < least:
                place, least = place + move, value
        if least == before:
            step /= 2
            found = minimize(lambda logs: cost(np.exp(logs)), place, method="Nelder-Mead", options={"fatol": 1e-9})
            if found.fun < least:
                place, least = np.asarray(found.x), float(found.fun)
    return np.exp(place)


def run() -> list[dict[str, Any]]:
    """A row for each published point."""
    sizes, rows = web_search(), []
    for (spines, load), theirs in sorted(PUBLISHED_KB.items()):

        def by_them(place: Floats, spines: int = spines, load: float = load) -> float:
            return cost_spines(place, spines, load)

        def free_but_cut(place: Floats, by_them: Callable[[Floats], float] = by_them) -> float:
            return by_them(np.append(place, CUT))

        times: dict[str, list[float]] = {"swarm": [], "ours": []}
        for seed in range(TRIALS):
            begun = time.perf_counter()
            low, high = np.full(spines - 1, LOW), np.full(spines - 1, CUT - 1)
            swarmed, _ = swarm(free_but_cut, low, high, seed)
            middle = time.perf_counter()
            found = ours(sizes, spines, load)
            times["swarm"].append(middle - begun)
            times["ours"].append(time.perf_counter() - middle)
        rows.append(_row(f"MP-MLFQ K={spines} N=2", load, by_them, theirs, found))
        if folder := os.environ.get("QCLIMB_MP_MLFQ"):
            solve, begun = repository_swarm(folder, spines, load), time.perf_counter()
            rows[-1]["their solver / published"] = solve() / by_them(np.array(theirs))
            rows[-1]["their solver / ours, time"] = (time.perf_counter() - begun) / statistics.median(times["ours"])
        rows[-1]["swarm / published"] = free_but_cut(swarmed) / by_them(np.array(theirs))
        ratios = [a / b for a, b in zip(times["swarm"], times["ours"], strict=True)]
        rows[-1] |= {
            "ours, ms": 1000 * statistics.median(times["ours"]),
            "swarm / ours, time": statistics.median(ratios),
        }
    for (queues, load), theirs in sorted(MLFQ_KB.items()):

        def by_queues(place: Floats, load: float = load) -> float:
            return cost_queues(place, load)

        chosen = optimise(sizes, queues, load, Objective.SLOWDOWN)
        rows.append(_row(f"MLFQ N={queues}", load, by_queues, theirs, np.array(chosen.threshold_bytes) / 1000))
    return rows


def _row(
    name: str, load: float, cost: Callable[[Floats], float], theirs: tuple[float, ...], found: Floats
) -> dict[str, Any]:
    published = cost(np.array(theirs))
    return {
        "thresholds": name,
        "load": load,
        "published cost": published,
        "ours / published": cost(found) / published,
        "polished / published": cost(polished(cost, found)) / published,
    }
