"""Flows as jobs make them: many at one moment, all of about one size, to one host or between two groups of hosts.

Poisson arrivals of independent sizes, the usual workload, never have that: two large flows then seldom meet in a port.
Load is that of lab.sim.workload on the hosts' links, in expectation over hosts and gaps: gaps are scaled to the bytes
of the flows that were drawn, as a replayed trace's are. (Scaled to the table's mean, 38 jobs of K-Means's sizes, of
which one in a hundred carries 96 % of the bytes, offered 0.04 where 0.7 was asked for.)
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from lab.sim.errors import ExperimentError, check, check_kinds
from lab.sim.forecast import Forecast, Nothing
from lab.sim.matrix import AllToAll, Hosts
from lab.sim.sizes import size_table
from lab.sim.topology import Topology
from lab.sim.wire import FLOW
from lab.sim.workload import FlowList

Ends = Literal["pairs", "fan-in", "shuffle"]
MOST_WIDTH = 10**6


@dataclass(frozen=True)
class Jobs:
    """Jobs begin as a Poisson process; a job is `width` flows at one moment.

    Job sizes are the table's quantiles at evenly spaced shares, in random order (a stratified draw: seeds then differ
    little in what they offer); a job's flows scatter about it by a lognormal factor.
    """

    sizes: str
    width: int
    """Flows a job."""
    ends: Ends = "pairs"
    """pairs: each flow between two hosts of its own draw; fan-in: from hosts drawn anew to one; shuffle: from each of m
    hosts to each of m others, width = m^2."""
    spread: float = 0.1
    """Of the flows' sizes about their job's: standard deviation of the logarithm. 0: all equal."""
    forecast: Forecast = field(default_factory=Nothing)

    def __post_init__(self) -> None:
        check_kinds("jobs.", self)
        size_table(self.sizes)
        check("jobs.width", self.width, 1, MOST_WIDTH)
        if self.ends not in ("pairs", "fan-in", "shuffle"):
            raise ExperimentError(f"jobs.ends is {self.ends!r}, expected pairs, fan-in or shuffle")
        if self.ends == "shuffle" and round(self.width**0.5) ** 2 != self.width:
            raise ExperimentError(f"jobs.width is {self.width}, expected a square for a shuffle")
        check("jobs.spread", self.spread, 0, 5)

    def flows(
        self,
        topology: Topology,
        load: float,
        count: int,
        seed: int,
        payload_bytes: int = 1460,
        header_bytes: int = 40,
    ) -> FlowList:
        """The first `count` flows; equal seeds give equal flows. Raises: ExperimentError."""
        table = size_table(self.sizes)
        random = [np.random.default_rng([seed, purpose]) for purpose in range(4)]
        jobs = -(-count // self.width)
        share = (np.arange(jobs) + random[1].random(jobs)) / jobs
        random[1].shuffle(share)
        scatter = random[1].lognormal(-(self.spread**2) / 2, self.spread, (jobs, self.width))
        size = np.maximum(1, np.rint(table.quantile(share)[:, None] * scatter)).ravel()[:count]
        wire_bytes = float((size + header_bytes * np.ceil(size / payload_bytes)).sum())
        gap_ps = 8e12 * wire_bytes / jobs / (load * topology.hosts * topology.host_rate_bps)
        start = np.repeat(np.cumsum(random[0].exponential(gap_ps, jobs)), self.width)[:count]
        source, target = self._hosts(random[2], jobs, topology)
        flows = np.zeros(count, FLOW)
        flows["size_bytes"] = size
        self.forecast.fill(flows, table, random[3])
        return FlowList(
            start.astype(np.int64),
            size.astype(np.int64),
            source[:count],
            target[:count],
            *(flows[name].copy() for name in ("lower_bytes", "upper_bytes", "forecast_bytes")),
        )

    def _hosts(self, random: np.random.Generator, jobs: int, topology: Topology) -> tuple[Hosts, Hosts]:
        hosts, width = topology.hosts, self.width
        if self.ends == "pairs":
            return AllToAll().pairs(random, jobs * width, topology)
        side = round(width**0.5)
        if self.ends == "shuffle" and 2 * side > hosts:
            raise ExperimentError(f"jobs.width is {width}: a shuffle needs {2 * side} hosts, there are {hosts}")
        source: NDArray[np.int64] = np.empty((jobs, width), np.int64)
        target = np.empty_like(source)
        for job in range(jobs):
            if self.ends == "shuffle":
                drawn = random.permutation(hosts)[: 2 * side]
                source[job], target[job] = np.repeat(drawn[:side], side), np.tile(drawn[side:], side)
            else:
                target[job] = random.integers(hosts)
                other = random.integers(0, hosts - 1, width)
                source[job] = other + (other >= target[job])
        return source.ravel(), target.ravel()
