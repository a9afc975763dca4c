"""Coflows as arrays: when each begins, and whose flows go from which host to which."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lab.sim.errors import ExperimentError
from lab.sim.wire import UNKNOWN_BYTES
from lab.sim.workload import FlowList


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
        n, flows = len(self.start_ps), len(self.coflow)
        if not n:
            raise ExperimentError("coflows.start_ps is empty: there are no coflows")
        if not 1 <= self.hosts <= 2**19:
            raise ExperimentError(f"coflows.hosts is {self.hosts}, expected 1 to {2**19}")
        if not np.all(np.diff(self.start_ps) >= 0) or self.start_ps[0] < 0:
            raise ExperimentError("coflows.start_ps must ascend from 0 or more")
        for name in ("size_bytes", "source", "target"):
            if len(getattr(self, name)) != flows:
                raise ExperimentError(f"coflows.{name} has {len(getattr(self, name))} values for {flows} flows")
        if flows and not (np.all(np.diff(self.coflow) >= 0) and self.coflow[0] >= 0 and self.coflow[-1] < n):
            raise ExperimentError(f"coflows.coflow must ascend, from 0 to at most {n - 1}")
        width = np.bincount(self.coflow, minlength=n)
        _none(width >= 1, width, "width", "1 or more flows")
        _none(self.size_bytes >= 1, self.size_bytes, "size_bytes", "1 or more")
        for name in ("source", "target"):
            ends = getattr(self, name)
            _none((ends >= 0) & (ends < self.hosts), ends, name, f"a host, 0 to {self.hosts - 1}")
        if self.deadline_ps is not None:
            if len(self.deadline_ps) != n:
                raise ExperimentError(f"coflows.deadline_ps has {len(self.deadline_ps)} values for {n} coflows")
            due = self.deadline_ps
            _none((due == 0) | (due > self.start_ps), due, "deadline_ps", "0, or later than its start")

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


def _none(right: NDArray[np.bool_], values: NDArray[Any], name: str, expected: str) -> None:
    if not right.all():
        at = int(np.argmin(right))
        raise ExperimentError(f"coflows.{name}[{at}] is {values[at]}, expected {expected}")
