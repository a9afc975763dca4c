"""Coflows as arrays: when each begins, and whose flows go from which host to which."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lab.sim.errors import ExperimentError, check, check_ascending, check_each, check_kinds, check_whole
from lab.sim.wire import MOST_PS, UNKNOWN_BYTES
from lab.sim.workload import FlowList

MOST_HOSTS = 2**19


@dataclass(frozen=True, eq=False)
class Coflows:
    """Rows of the first two arrays are coflows in order of their starts, rows of the other four flows in order of their
    coflows. All flows of a coflow begin with it."""

    hosts: int
    start_ps: NDArray[np.int64]
    coflow: NDArray[np.int64]
    """Which coflow each flow is of, from 0."""
    size_bytes: NDArray[np.int64]
    source: NDArray[np.int64]
    target: NDArray[np.int64]
    """May be the source itself: a host's two directions are two ports (a rack of a trace of racks)."""
    deadline_ps: NDArray[np.int64] | None = field(default=None, kw_only=True)
    """When a coflow is wanted, on the clock of the starts; 0: whenever it comes."""

    def __post_init__(self) -> None:
        for name in ("start_ps", "coflow"):
            check_whole(f"coflows.{name}", getattr(self, name), None, "")
        n, flows = len(self.start_ps), len(self.coflow)
        if not n:
            raise ExperimentError("coflows.start_ps is empty: there are no coflows")
        check_kinds("coflows.", self)
        check("coflows.hosts", self.hosts, 1, MOST_HOSTS)
        for name in ("size_bytes", "source", "target"):
            check_whole(f"coflows.{name}", getattr(self, name), flows, "flows")
        check_ascending("coflows.start_ps", self.start_ps, MOST_PS)
        check_ascending("coflows.coflow", self.coflow, n - 1)
        width = np.bincount(self.coflow, minlength=n)
        check_each("coflows.width", width, width >= 1, "1 or more flows")
        check_each("coflows.size_bytes", self.size_bytes, self.size_bytes >= 1, "1 or more")
        for name in ("source", "target"):
            ends = getattr(self, name)
            check_each(f"coflows.{name}", ends, (ends >= 0) & (ends < self.hosts), f"a host, 0 to {self.hosts - 1}")
        if (due := self.deadline_ps) is not None:
            check_whole("coflows.deadline_ps", due, n, "coflows")
            check_each("coflows.deadline_ps", due, (due == 0) | (due > self.start_ps), "0, or later than its start")

    @property
    def width(self) -> NDArray[np.int64]:
        """Flows of each coflow."""
        return np.bincount(self.coflow, minlength=len(self.start_ps)).astype(np.int64)

    @property
    def bytes(self) -> NDArray[np.int64]:
        """Of each coflow."""
        return np.add.reduceat(self.size_bytes, self._first)

    @property
    def largest_bytes(self) -> NDArray[np.int64]:
        """Of each coflow's flows."""
        return np.maximum.reduceat(self.size_bytes, self._first)

    @property
    def _first(self) -> NDArray[np.int64]:
        return np.searchsorted(self.coflow, np.arange(len(self.start_ps)))

    def bottleneck_s(self, rate_bps: float) -> NDArray[np.float64]:
        """Seconds that each coflow's fullest port needs for it alone: the least completion time that there is."""
        most = np.zeros(len(self.start_ps))
        for end in (self.source, self.target):
            key, flow = np.unique(self.coflow * self.hosts + end, return_inverse=True)
            np.maximum.at(most, key // self.hosts, np.bincount(flow, self.size_bytes))
        return most * 8 / rate_bps

    def last_of(self, values: NDArray[Any]) -> NDArray[Any]:
        """The largest value among each coflow's flows: when it ends."""
        return np.maximum.reduceat(values, self._first)

    def flows(self) -> FlowList:
        """The same packet by packet: a flow list with tasks, numbered from 1."""
        due = None if self.deadline_ps is None else self.deadline_ps[self.coflow]
        return FlowList(
            self.start_ps[self.coflow],
            self.size_bytes,
            self.source,
            self.target,
            upper_bytes=np.full(len(self.coflow), UNKNOWN_BYTES, np.uint64),
            deadline_ps=due,
            task=self.coflow + 1,
        )
