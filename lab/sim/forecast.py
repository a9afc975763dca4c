"""What a predictor would have said of a flow's size: bounds and one number. Made up here, for workloads without a
recorded forest; a recorded trace carries its own (FlowList)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from lab.sim.errors import ExperimentError, check, check_kinds
from lab.sim.wire import UNKNOWN_BYTES
from lab.sizes import SizeTable

Flows = np.ndarray[Any, np.dtype[np.void]]
Places = NDArray[np.float64]
STEPS = 200_000
PLACE = "workload.forecast."


@dataclass(frozen=True)
class Nothing:
    """No bounds; the one number is the true size (schemes that ask for it then know it)."""

    def fill(self, flows: Flows, table: SizeTable, random: np.random.Generator) -> None:
        """Sets lower_bytes, upper_bytes and forecast_bytes."""
        flows["upper_bytes"] = UNKNOWN_BYTES
        flows["forecast_bytes"] = flows["size_bytes"]


@dataclass(frozen=True)
class Exact:
    """Both bounds and the number are the size."""

    def fill(self, flows: Flows, table: SizeTable, random: np.random.Generator) -> None:
        """As above."""
        for name in ("lower_bytes", "upper_bytes", "forecast_bytes"):
            flows[name] = flows["size_bytes"]


@dataclass(frozen=True)
class Leaves:
    """A predictor whose leaves hold flows alike: the flow's place among all flows (its share in the table, 0 to 1) is
    known to within a window of `width`, reflected at the ends; the bounds are the sizes at the window's two ends. The
    number is the mean of the window's sizes, as a regression forest says it (a leaf that holds a few large flows says
    so of its small ones), or the size at its middle. With probability `miss` the window is another flow's.

    width 0.1 and miss 0.001 give coverage 99.9 %, tight bounds for small flows and loose ones for large, as QCLIMB's
    observations O1 to O5 have them; it is a model of a forest, not one.
    """

    width: float = 0.1
    miss: float = 0.001
    number: Literal["mean", "middle"] = "mean"

    def __post_init__(self) -> None:
        check_kinds(PLACE, self)
        for name in ("width", "miss"):
            check(f"{PLACE}{name}", getattr(self, name), 0, 1)
        if self.number not in ("mean", "middle"):
            raise ExperimentError(f"{PLACE}number is {self.number!r}, expected mean or middle")

    def fill(self, flows: Flows, table: SizeTable, random: np.random.Generator) -> None:
        """As above."""
        n = len(flows)
        place = np.interp(flows["size_bytes"].astype(float), table.size_bytes, table.share)
        place = np.where(random.random(n) < self.miss, random.random(n), place)
        low = np.clip(place - self.width * random.random(n), 0, 1 - self.width)
        lower, middle, upper = (table.quantile(low + self.width * part) for part in (0.0, 0.5, 1.0))
        flows["lower_bytes"] = np.maximum(1, np.floor(lower))
        flows["upper_bytes"] = np.maximum(1, np.ceil(upper))
        if self.number == "mean" and self.width > 0:
            middle = _mean_sizes(table, low, low + self.width)
        flows["forecast_bytes"] = np.maximum(1, np.rint(middle))


@dataclass(frozen=True)
class Known:
    """Of a share of the flows, whatever their size, the size is known exactly, as where messages announce it; of the
    others what another predictor says. So many of all bytes are known, on average."""

    share: float
    otherwise: Nothing | Leaves = Leaves()

    def __post_init__(self) -> None:
        check_kinds(PLACE, self)
        check(f"{PLACE}share", self.share, 0, 1)

    def fill(self, flows: Flows, table: SizeTable, random: np.random.Generator) -> None:
        """As above."""
        self.otherwise.fill(flows, table, random)
        known = random.random(len(flows)) < self.share
        for name in ("lower_bytes", "upper_bytes", "forecast_bytes"):
            flows[name] = np.where(known, flows["size_bytes"], flows[name])


def _mean_sizes(table: SizeTable, low: Places, high: Places) -> Places:
    """Mean size between two shares, from a running sum over even steps: below a step's width it is the step's."""
    steps = np.linspace(0, 1, STEPS + 1)
    size = table.quantile(steps)
    total = np.concatenate(([0.0], np.cumsum((size[1:] + size[:-1]) / 2))) / STEPS
    below, above = np.interp(low, steps, total), np.interp(high, steps, total)
    return np.asarray((above - below) / (high - low))


Forecast = Nothing | Exact | Leaves | Known
