"""The fluid model of MLFQ and MP-MLFQ (Big-Spine, HPSR'24, section V), exact and event-driven.

Defaults are the settings that the authors' code ships (MP-MLFQ repository): sizes a bounded Pareto of web search, in
KB, rounded up to whole ones; the K ports together carry one mean size a second, so that `load` flows begin a second.
nFCT = FCT / (size / rate of one port).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from lab.sim.engine import Process, Records
from lab.sim.errors import ExperimentError, check, check_kinds
from lab.sim.wire import FLOW

CHUNK = 65_536
SHARE_UNIT = 10_000
MOST_KB, MOST_SHARE = 1e12, 10**5

MLFQ_KB: Mapping[tuple[int, float], tuple[float, ...]] = MappingProxyType(
    {
        (2, 0.4): (2903,),
        (2, 0.5): (1287.6,),
        (2, 0.6): (2403,),
        (2, 0.7): (2006.5,),
        (2, 0.8): (3003,),
        (5, 0.4): (14.04, 269.2, 2240.2, 10618.2),
        (5, 0.5): (14.20, 251.2, 2010.8, 9185.6),
        (5, 0.6): (14.49, 276.4, 2109.8, 8997.8),
        (5, 0.7): (15.51, 346.8, 2529.2, 9814.2),
        (5, 0.8): (16.61, 418.0, 2976.0, 10740.0),
    }
)
"""The authors' thresholds in KB by number of queues and load."""
MP_KB: Mapping[tuple[int, float], tuple[float, ...]] = MappingProxyType(
    {
        (4, 0.4): (15.69, 197.07, 1015.38, 3115.89),
        (4, 0.5): (17.72, 226.70, 1083.82, 3115.89),
        (4, 0.6): (20.79, 259.41, 1153.23, 3115.89),
        (4, 0.7): (26.02, 302.38, 1229.43, 3115.89),
        (4, 0.8): (34.96, 355.91, 1308.25, 3115.89),
        (2, 0.4): (214.0, 3115.89),
        (2, 0.5): (275.5, 3115.89),
        (2, 0.6): (323.7, 3115.89),
        (2, 0.7): (366.3, 3115.89),
        (2, 0.8): (406.0, 3115.89),
    }
)
"""Theirs for two queues a port by number of spines and load; the last is the cut of the balanced class."""


@dataclass(frozen=True)
class BoundedPareto:
    """Of sizes in KB: P(X > x) falls as x^-alpha between `low` and `high`."""

    low: float = 3.0
    high: float = 29_200.0
    alpha: float = 0.125

    def __post_init__(self) -> None:
        check_kinds("sizes.", self)
        check("sizes.high", self.high, 1, MOST_KB)
        if not 1e-3 <= self.low < self.high:
            raise ExperimentError(f"sizes.low is {self.low}, expected 0.001 or more, and below high, {self.high}")
        if not (1e-3 <= self.alpha <= 100 and self.alpha != 1):
            raise ExperimentError(f"sizes.alpha is {self.alpha}, expected 0.001 to 100, but for 1")

    def quantile(self, u: NDArray[np.float64]) -> NDArray[np.float64]:
        """KB."""
        low, high = self.low**self.alpha, self.high**self.alpha
        return np.asarray((-(u * high - u * low - high) / (high * low)) ** (-1 / self.alpha))

    @property
    def mean(self) -> float:
        """KB."""
        a, low, high = self.alpha, self.low, self.high
        return float(low**a / (1 - (low / high) ** a) * a / (a - 1) * (low ** (1 - a) - high ** (1 - a)))

    def bytes_between(self, start: float, end: float) -> float:
        """Mean KB of a flow that lie between two offsets: the integral of P(X > x)."""
        x = np.linspace(min(max(start, 0), self.high), min(end, self.high), 200_001)
        low, high = self.low**-self.alpha, self.high**-self.alpha
        above = np.clip((x.clip(self.low) ** -self.alpha - high) / (low - high), 0, 1)
        return float(np.sum((above[1:] + above[:-1]) / 2 * np.diff(x)))


@dataclass(frozen=True)
class FluidExperiment:
    """One run of the model."""

    kind: Literal["mp", "mlfq"] = "mp"
    spines: int = 4
    queues: int = 2
    """Of each port."""
    thresholds_kb: tuple[float, ...] = MP_KB[4, 0.8]
    load: float = 0.8
    flows: int = 100_000
    seed: int = 0
    sizes: BoundedPareto = BoundedPareto()
    spine_shares: tuple[float, ...] | None = None
    """Of the balanced class; None: what levels the spines' loads (`balanced_shares`)."""

    def __post_init__(self) -> None:
        check_kinds("", self)
        if self.kind not in ("mp", "mlfq"):
            raise ExperimentError(f"kind is {self.kind!r}, expected mp or mlfq")
        check("spines", self.spines, 1, 1024)
        check("queues", self.queues, 1, 64)
        want = self.spines * (self.queues - 1) if self.kind == "mp" else self.queues - 1
        if len(self.thresholds_kb) != want:
            raise ExperimentError(f"thresholds_kb has {len(self.thresholds_kb)} values, expected {want}")
        if not all(a < b for a, b in itertools.pairwise((0.0, *self.thresholds_kb, MOST_KB))):
            raise ExperimentError(
                f"thresholds_kb are {self.thresholds_kb}, expected ascending numbers above 0, below {MOST_KB:g}"
            )
        if not 0 < self.load < 2:
            raise ExperimentError(f"load is {self.load}, expected above 0, below 2")
        check("flows", self.flows, 1, 10**9)
        check("seed", self.seed, 0, 2**32 - 1)
        if self.kind == "mp":
            self.shares()

    def shares(self) -> tuple[float, ...]:
        """Of the balanced class by spine. Raises: ExperimentError."""
        found = self.spine_shares if self.spine_shares is not None else self.balanced_shares()
        if not (len(found) == self.spines and all(0 <= share <= MOST_SHARE for share in found) and sum(found) > 0):
            raise ExperimentError(
                f"spine_shares are {found}, expected {self.spines} numbers, 0 to {MOST_SHARE}, not all 0"
            )
        return found

    def balanced_shares(self) -> tuple[float, ...]:
        """gamma_i = (E[X]/K - load_i) / load of the balanced class: each spine then carries as much as the others."""
        edges = (0.0, *self.thresholds_kb, self.sizes.high)
        carried = [self.sizes.bytes_between(a, b) for a, b in itertools.pairwise(edges)]
        own = [sum(carried[spine : -1 : self.spines]) for spine in range(self.spines)]
        return tuple((sum(carried) / self.spines - load) / carried[-1] for load in own)


@dataclass(frozen=True)
class FluidResults:
    """A row a flow, in order of its start."""

    size_kb: NDArray[np.int64]
    fct_s: NDArray[np.float64]
    nfct: NDArray[np.float64]
    cpu_seconds: float
    peak_flows: int

    def interval(self, of: str = "mean", batches: int = 20) -> tuple[float, float, float]:
        """Mean or p99 of nFCT with a 95 % interval from batches of consecutive flows (which know of each other's
        queues; single flows do not vary independently)."""

        def one(values: NDArray[np.float64]) -> float:
            return float(values.mean() if of == "mean" else np.quantile(values, 0.99))

        each = [one(part) for part in np.array_split(self.nfct, batches)]
        half = 2.09 * float(np.std(each, ddof=1)) / batches**0.5  # Student's t, 19 degrees of freedom
        value = one(self.nfct)
        return value, value - half, value + half


def _flows(experiment: FluidExperiment) -> Iterator[Records]:
    random = [np.random.default_rng([experiment.seed, purpose]) for purpose in range(2)]
    now = 0.0
    for begun in range(0, experiment.flows, CHUNK):
        n = min(CHUNK, experiment.flows - begun)
        start = now + np.cumsum(random[0].exponential(1 / experiment.load, n))
        now = float(start[-1])
        flows = np.zeros(n, FLOW)
        flows["start_ps"] = start * 1e12
        flows["size_bytes"] = np.ceil(experiment.sizes.quantile(random[1].random(n))) * 1000
        flows["target"] = 1
        yield flows


def settings_of(experiment: FluidExperiment) -> dict[str, int | str]:
    """As the engine reads them."""
    shares = experiment.shares() if experiment.kind == "mp" else ()
    return {
        "scheme": "fluid",
        "fluid": experiment.kind,
        "spines": experiment.spines,
        "queues": experiment.queues,
        "thresholds": ",".join(str(round(kb * 1000)) for kb in experiment.thresholds_kb),
        "rate_bytes_per_1000_s": round(experiment.sizes.mean * 1e6),
        "seed": experiment.seed,
        "spine_shares": ",".join(str(round(share * SHARE_UNIT)) for share in shares),
    }


def run_fluid(experiment: FluidExperiment) -> FluidResults:
    """Runs it. Raises: SimulationError."""
    size, fct = np.zeros(experiment.flows, np.int64), np.zeros(experiment.flows)
    process = Process(settings_of(experiment), _flows(experiment))
    for records in process:
        index = records["index"].astype(np.int64)
        size[index] = records["size_bytes"].astype(np.int64) // 1000
        fct[index] = (records["received_ps"] - records["start_ps"]) / 1e12
    counters: dict[str, Any] = process.counters
    alone = size / (experiment.sizes.mean / experiment.spines)
    return FluidResults(size, fct, fct / alone, counters["cpu_seconds"], counters["peak_flows"])
