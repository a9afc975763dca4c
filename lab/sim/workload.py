"""What flows there are: drawn (sizes, arrivals, pairs, forecasts) or listed.

Load, exactly: the bytes that flows put on the wire towards their receivers, payload and headers, a second, divided by
the capacity that `load_of` names:
  hosts  one host's link: the busiest one's, which all are under a uniform matrix (an incast's target);
  core   the links between leaves and spines, one direction, all together, counting flows between racks only.
ACKs and retransmissions are not counted. A drawn workload has the load in expectation; flows come chunk by chunk, from
generators of the experiment's seed alone, so that equal seeds give equal flows and no run holds them all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from lab.sim.errors import ExperimentError, check_ascending, check_each, check_kinds, check_whole
from lab.sim.forecast import Forecast, Nothing
from lab.sim.matrix import AllToAll, Matrix
from lab.sim.sizes import mean_wire_bytes, size_table
from lab.sim.wire import FLOW, MOST_PS, UNKNOWN_BYTES
from lab.sim.wired import Fabric, Wired
from lab.sizes import SizeTable

CHUNK = 65_536
Flows = np.ndarray[Any, np.dtype[np.void]]


@dataclass(frozen=True)
class Poisson:
    """Exponential gaps."""

    def gaps(self, random: np.random.Generator, count: int) -> NDArray[np.float64]:
        """Gaps of mean 1."""
        return random.exponential(1.0, count)


@dataclass(frozen=True)
class Bursty:
    """Lognormal gaps: with sigma 2 nine in ten flows follow within 3/4 of the mean gap, and long silences part the
    bursts."""

    sigma: float = 2.0

    def __post_init__(self) -> None:
        check_kinds("workload.arrivals.", self)
        if not 0 < self.sigma <= 5:
            raise ExperimentError(f"workload.arrivals.sigma is {self.sigma}, expected above 0, up to 5")

    def gaps(self, random: np.random.Generator, count: int) -> NDArray[np.float64]:
        """Gaps of mean 1."""
        return random.lognormal(-(self.sigma**2) / 2, self.sigma, count)


@dataclass(frozen=True)
class Workload:
    """Flows to draw: sizes from a table (linear interpolation), gaps, pairs and forecasts, each independent."""

    sizes: str | SizeTable = "websearch_bytes"
    matrix: Matrix = field(default_factory=AllToAll)
    arrivals: Poisson | Bursty = field(default_factory=Poisson)
    forecast: Forecast = field(default_factory=Nothing)
    load_of: Literal["hosts", "core"] = "hosts"

    def __post_init__(self) -> None:
        check_kinds("workload.", self)
        if self.load_of not in ("hosts", "core"):
            raise ExperimentError(f"workload.load_of is {self.load_of!r}, expected hosts or core")
        size_table(self.sizes)

    def flows_per_second(self, topology: Fabric, load: float, payload_bytes: int, header_bytes: int) -> float:
        """At which rate flows begin. Raises: ExperimentError."""
        mean_bits = 8 * mean_wire_bytes(size_table(self.sizes), payload_bytes, header_bytes)
        if self.load_of == "hosts":
            return load * topology.host_rate_bps / self.matrix.busiest_share(topology) / mean_bits
        if isinstance(topology, Wired):
            raise ExperimentError(f"workload.load_of is 'core', expected hosts over a {type(topology).__name__}")
        share = self.matrix.core_share(topology)
        if not (share > 0 and topology.spines):
            raise ExperimentError("workload.load_of is 'core', but no flow of this matrix crosses this topology's core")
        return load * topology.leaves * topology.spines * topology.uplink_rate_bps / share / mean_bits

    def chunks(
        self, topology: Fabric, load: float, count: int, seed: int, payload_bytes: int, header_bytes: int
    ) -> Iterator[Flows]:
        """`count` flows as records of wire.FLOW, CHUNK at a time."""
        table = size_table(self.sizes)
        mean_gap_ps = 1e12 / self.flows_per_second(topology, load, payload_bytes, header_bytes)
        draws = [np.random.default_rng([seed, purpose]) for purpose in range(4)]
        now_ps = 0.0
        for begun in range(0, count, CHUNK):
            n = min(CHUNK, count - begun)
            flows = np.zeros(n, FLOW)
            start = now_ps + np.cumsum(self.arrivals.gaps(draws[0], n)) * mean_gap_ps
            now_ps = float(start[-1])
            flows["start_ps"] = start
            flows["size_bytes"] = np.maximum(1, np.rint(table.quantile(draws[1].random(n))))
            flows["source"], flows["target"] = self.matrix.pairs(draws[2], n, topology)
            self.forecast.fill(flows, table, draws[3])
            yield flows


@dataclass(frozen=True, eq=False)
class FlowList:
    """Flows as they were recorded: ascending starts, host numbers, bounds where a predictor gave them."""

    start_ps: NDArray[np.int64]
    size_bytes: NDArray[np.int64]
    source: NDArray[np.int64]
    target: NDArray[np.int64]
    lower_bytes: NDArray[np.uint64] | None = None
    upper_bytes: NDArray[np.uint64] | None = None
    forecast_bytes: NDArray[np.uint64] | None = None
    deadline_ps: NDArray[np.int64] | None = field(default=None, kw_only=True)
    """When the last byte is wanted, on the clock of the starts; 0: whenever it comes. For PDQ and D3."""
    task: NDArray[np.int64] | None = field(default=None, kw_only=True)
    """Whose flow each is, from 1 on; 0: it is a task of its own. For the schemes of lab.sim.tasks."""
    group: NDArray[np.int64] | None = field(default=None, kw_only=True)
    """Whose weight each flow shares, from 0 on, where the scheme has weighted groups (Pfabric.group_weights)."""

    def __post_init__(self) -> None:
        check_whole("workload.start_ps", self.start_ps, None, "flows")
        n = len(self.start_ps)
        if not n:
            raise ExperimentError("workload.start_ps is empty: there are no flows")
        for each in fields(self):
            if (values := getattr(self, each.name)) is not None or "None" not in str(each.type):
                check_whole(f"workload.{each.name}", values, n, "flows")
        check_ascending("workload.start_ps", self.start_ps, MOST_PS)
        check_each("workload.size_bytes", self.size_bytes, self.size_bytes >= 1, "1 or more")
        if (due := self.deadline_ps) is not None:
            ahead = (due == 0) | (due > self.start_ps)
            at = int(np.argmin(ahead))
            check_each("workload.deadline_ps", due, ahead, f"0 or more than start_ps[{at}], {self.start_ps[at]}")
        for name in ("task", "group"):
            if (values := getattr(self, name)) is not None:
                check_each(f"workload.{name}", values, values >= 0, "0 or more")
        if self.lower_bytes is not None and self.upper_bytes is not None:
            below = self.lower_bytes <= self.upper_bytes
            at = int(np.argmin(below))
            expected = f"at most upper_bytes[{at}], {self.upper_bytes[at]}"
            check_each("workload.lower_bytes", self.lower_bytes, below, expected)

    def chunks(
        self, topology: Fabric, load: float, count: int, seed: int, payload_bytes: int, header_bytes: int
    ) -> Iterator[Flows]:
        """As Workload's; load, seed and the packet's bytes are the list's own matter. Raises: ExperimentError."""
        ends = np.stack([np.asarray(self.source), np.asarray(self.target)])
        wrong = (ends < 0).any(0) | (ends >= topology.hosts).any(0) | (ends[0] == ends[1])
        if wrong.any():
            flow = int(np.argmax(wrong))
            raise ExperimentError(
                f"workload.source[{flow}], target[{flow}] are {ends[0, flow]}, {ends[1, flow]}: expected two different "
                f"hosts of {topology.hosts}"
            )
        largest = self._task_largest_bytes()
        for begun in range(0, count, CHUNK):
            part = slice(begun, min(begun + CHUNK, count))
            flows = np.zeros(part.stop - part.start, FLOW)
            for name in ("start_ps", "size_bytes", "source", "target"):
                flows[name] = getattr(self, name)[part]
            flows["upper_bytes"] = UNKNOWN_BYTES
            flows["forecast_bytes"] = flows["size_bytes"]
            flows["task_largest_bytes"] = largest[part]
            for name in ("lower_bytes", "upper_bytes", "forecast_bytes", "deadline_ps", "task", "group"):
                if getattr(self, name) is not None:
                    flows[name] = getattr(self, name)[part]
            yield flows

    def _task_largest_bytes(self) -> NDArray[np.int64]:
        """Of each flow's task."""
        size = np.asarray(self.size_bytes)
        if self.task is None:
            return size
        tasks, of = np.unique(self.task, return_inverse=True)
        largest = np.zeros(len(tasks), np.int64)
        np.maximum.at(largest, of, size)
        return np.where(np.asarray(self.task) > 0, largest[of], size)
