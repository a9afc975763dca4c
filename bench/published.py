"""MP-MLFQ's thresholds as its repository computes them: the cost, and the particle swarm that minimises it.

The cost is that of alessandrocornacchia/MP-MLFQ (includes/solvers/optimization.py), quirks kept: a flow pays `a_j T_j`,
with the whole threshold a_j in place of a_j - a_(j-1), for each class before its last; its first 3 KB, the least size,
cost nothing; and its time is divided by its class's mean size. The swarm is pyswarm 0.6's, with that repository's
settings; one evaluation a particle, as there. KB, and a flow a second at load 1.
"""

import importlib
import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from io import StringIO
from types import ModuleType

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

LOW, HIGH, ALPHA = 3.0, 29_200.0, 0.125
"""Web search as they fitted it: a bounded Pareto."""
CUT = 3115.89
"""Their fixed last threshold: 85 % of flows are smaller."""
SWARM, ITERATIONS, PULL, LEAST = 100, 1000, 0.5, 1e-8


def smaller(x: npt.ArrayLike) -> Floats:
    """F."""
    at = np.clip(x, LOW, HIGH)
    return np.asarray((1 - (LOW / at) ** ALPHA) / (1 - (LOW / HIGH) ** ALPHA))


def bytes_of_smaller(x: npt.ArrayLike) -> Floats:
    """The integral of x f(x) up to there."""
    at = np.clip(x, LOW, HIGH)
    grown = ALPHA * (at * LOW**ALPHA - at**ALPHA * LOW) / ((1 - ALPHA) * (HIGH**ALPHA - LOW**ALPHA))
    return np.asarray((HIGH / at) ** ALPHA * grown)


MEAN = float(bytes_of_smaller(HIGH))


def _classes(edge: Floats) -> tuple[Floats, Floats, Floats]:
    """Between each two edges: the share of flows that end there, their mean size, and what all flows leave there."""
    flows, own = smaller(edge), bytes_of_smaller(edge)
    upto = np.concatenate([[0.0], (own + edge * (1 - flows))[1:]])
    return np.diff(flows), np.diff(own) / np.diff(flows), np.diff(upto)


def cost_spines(thresholds: Sequence[float] | Floats, spines: int, load: float) -> float:
    """Of K thresholds for K spines with two queues; infinite where a weight would be below 0."""
    edge = np.array([LOW, *thresholds, HIGH])
    if not np.all(np.diff(edge) > 0):
        return float("inf")
    group, mean, carried = _classes(edge)
    share = (MEAN / spines - carried[:spines]) / carried[spines]
    if not np.all(share > 0):
        return float("inf")
    left = MEAN / spines - load * carried[:spines]
    first, last = 1 / left, 1 / (left - load * share * carried[spines])
    paid = np.concatenate([[0.0], np.cumsum(edge[1 : spines + 1] * first)])
    times = paid + (mean - edge[:-1]) * np.append(first, float(share @ last))
    return float(np.sum(group * times / mean) * MEAN / spines)


def cost_queues(thresholds: Sequence[float] | Floats, load: float) -> float:
    """Of N - 1 thresholds for one port with N queues."""
    edge = np.array([LOW, *thresholds, HIGH])
    if not np.all(np.diff(edge) > 0):
        return float("inf")
    group, mean, carried = _classes(edge)
    time = 1 / (MEAN - load * np.cumsum(carried))
    paid = np.concatenate([[0.0], np.cumsum(edge[1:-1] * time[:-1])])
    return float(np.sum(group * (paid + (mean - edge[:-1]) * time) / mean) * MEAN)


def swarm(cost: Callable[[Floats], float], low: Floats, high: Floats, seed: int) -> tuple[Floats, int]:
    """The best place that pyswarm's algorithm finds, sorted, and how many evaluations it took."""
    random = np.random.default_rng(seed)
    place = low + random.random((SWARM, len(low))) * (high - low)
    speed = (2 * random.random((SWARM, len(low))) - 1) * np.abs(high - low)
    value = np.array([cost(np.sort(each)) for each in place])
    own, own_value = place.copy(), value.copy()
    best, least, calls = own[own_value.argmin()].copy(), float(own_value.min()), SWARM
    for _ in range(ITERATIONS):
        to_own, to_best = random.random(place.shape), random.random(place.shape)
        speed = PULL * speed + PULL * to_own * (own - place) + PULL * to_best * (best - place)
        place = np.clip(place + speed, low, high)
        value = np.array([cost(np.sort(each)) for each in place])
        calls += SWARM
        better = value < own_value
        own[better], own_value[better] = place[better], value[better]
        if own_value.min() < least:
            found, was = own[own_value.argmin()].copy(), least
            moved = float(np.sqrt(np.sum((best - found) ** 2)))
            best, least = found, float(own_value.min())
            if abs(was - least) <= LEAST or moved <= LEAST:
                break
    return np.sort(best), calls


def repository_swarm(folder: str, spines: int, load: float) -> Callable[[], float]:
    """The repository's own solver out of a clone of it, ready to be run; it answers with the least cost.

    It needs pyswarm 0.6. What it wants of an older numpy is put back, and plots are left out. Raises ImportError.
    """
    aliases = {"Inf": np.inf, "trapz": getattr(np, "trapezoid", None)}
    for name, value in aliases.items():
        if not hasattr(np, name):
            setattr(np, name, value)
    for name in ("matplotlib", "matplotlib.pyplot", "pandas"):
        sys.modules.setdefault(name, ModuleType(name))
    if folder not in sys.path:
        sys.path.insert(0, folder)
    optimization = importlib.import_module("includes.solvers.optimization")
    functions = importlib.import_module("includes.functions")
    pars = {"cdf": functions.BoundedPareto(functions.analytical_cdfs["ws_bp"]), "lambda": load, "num_queues": 2}
    with redirect_stdout(StringIO()):
        solver = optimization.PSOSolverLBHybrid({**pars, "num_servers": spines, "cdf_cut": 0.85, "step": 100})

    def solve() -> float:
        with redirect_stdout(StringIO()), np.errstate(all="ignore"):
            return float(solver.total_cost(np.sort(solver.solve())))

    return solve
