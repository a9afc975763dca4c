"""The paper's traffic to scale, from one rack to another by the spines alone, and what each spine should carry of it.

Big-Spine's evaluation (HPSR'24, section V) has one ToR with K uplinks of equal rate, the bottleneck; sizes are
web search's as a bounded Pareto. Here the uplinks together have CORE_BPS whatever K is, hosts' links are faster than
any of them, and sizes are the paper's over SCALE.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lab.fabric import Topology
from lab.sim.fluid import MLFQ_KB, MP_KB, BoundedPareto, FluidExperiment
from lab.workload.services import SCALE, Endpoint
from lab.workload.trace import HEADER_BYTES, MSS_BYTES, Flow, Trace, wire_bytes

CORE_BPS = 48_000_000
"""Of all uplinks of a rack together: what two cores carry at load 0.8 with time to spare."""
HOST_BPS, HOSTS = 60_000_000, 4
PORTS = 8
"""Listeners a receiver. Connections are kept, so that ECMP sees few 5-tuples: this is how many more it sees."""
SIZES = BoundedPareto()
KB = 1000 / SCALE
"""Bytes here for one of the paper's KB."""
SMALL_BYTES, MEDIUM_BYTES = round(100 * KB), round(10_000 * KB)


@dataclass(frozen=True)
class Receiver(Endpoint):
    """A listener on each host of the second rack; clients push."""

    hosts: tuple[str, ...] = ()

    def served_by(self, hosts: Sequence[str]) -> list[str]:
        """The second rack."""
        return list(self.hosts)


@dataclass(frozen=True)
class Scheme:
    """A way to send: pinned to spines by priority (MP-MLFQ), else by ECMP; with QCLIMB's bounds or without."""

    name: str
    title: str
    queues: int
    is_pinned: bool = False
    has_bounds: bool = False
    """Of a forest that learnt from another trace, and of what the application has handed over."""
    drains: bool = False
    """A demotion to another spine waits until what went before is ACKed."""

    def thresholds(self, spines: int, load: float) -> list[int]:
        """The authors' own, to scale."""
        found = MP_KB[spines, load] if self.is_pinned else MLFQ_KB[self.queues, load]
        return [round(kb * KB) for kb in found]

    def shares(self, spines: int, load: float) -> list[float]:
        """Of the balanced class by spine."""
        if not self.is_pinned:
            return [1 / spines] * spines
        return list(FluidExperiment("mp", spines, 2, MP_KB[spines, load], load).balanced_shares())

    def revision(self, names: Sequence[str], load: float, model: int | None = None) -> dict[str, Any]:
        """The body of a revision; `model`: the forest's number, for schemes with bounds."""
        found: dict[str, Any] = {"mode": "pias", "thresholds": self.thresholds(len(names), load), "load": load}
        if self.has_bounds:
            found |= {"mode": "qclimb", "use_forest": True, "use_footprint": True, "model": model}
            found["without_lengths"] = True  # the lab's own applications say their messages' sizes
        if not self.is_pinned:
            return {**found, "priorities": self.queues}
        shares = self.shares(len(names), load)
        rounded = [round(share, 6) for share in shares[1:]]
        return {
            **found,
            "spines": list(names),
            "queues": [1, 0],
            "weights": dict(zip(names, [round(1 - sum(rounded), 6), *rounded], strict=True)),
            "drain_paths": self.drains,
        }

    def carried(self, spines: int, load: float) -> list[tuple[float, float]]:
        """Of all bytes, the share that each spine should carry before its last queue, and in it; without bounds."""
        edges = [0.0, *(kb / KB for kb in map(float, self.thresholds(spines, load))), SIZES.high]
        parts = [SIZES.bytes_between(start, end) / SIZES.mean for start, end in itertools.pairwise(edges)]
        shares = self.shares(spines, load)
        if self.is_pinned:
            return [(parts[n], shares[n] * parts[-1]) for n in range(spines)]
        return [(sum(parts[:-1]) / spines, parts[-1] / spines)] * spines


SCHEMES: Mapping[str, Scheme] = {
    one.name: one
    for one in (
        Scheme("mlfq-2", "MLFQ, N = 2, ECMP", 2),
        Scheme("mp-2", "MP-MLFQ, N = 2", 2, is_pinned=True),
        Scheme("mp-2-drain", "MP-MLFQ, N = 2, drained", 2, is_pinned=True, drains=True),
        Scheme("mlfq-5", "MLFQ, N = 5, ECMP", 5),
        Scheme("qclimb-2", "QCLIMB, N = 2, ECMP", 2, has_bounds=True),
        Scheme("mp-qclimb-2", "QCLIMB over MP-MLFQ, N = 2", 2, is_pinned=True, has_bounds=True),
        Scheme("qclimb-5", "QCLIMB, N = 5, ECMP", 5, has_bounds=True),
    )
}


def topology_of(spines: int) -> Topology:
    """Two racks; the uplinks share CORE_BPS."""
    return Topology(2, spines, HOSTS, HOST_BPS, CORE_BPS // spines)


def receivers(topology: Topology) -> list[Endpoint]:
    """The listeners."""
    hosts = tuple(topology.hosts_of("l2"))
    return [Receiver(f"bulk{n}", 9300 + n, "push", "one", hosts) for n in range(PORTS)]


def trace_of(load: float, seed: int, seconds: float, topology: Topology) -> Trace:
    """Poisson arrivals from the first rack to the second; the offered load is met exactly, by scaling time."""
    chance = np.random.default_rng([seed, 0xB5])
    count = max(1, round(load * CORE_BPS / 8 * seconds / float(wire_bytes(round(SIZES.mean * KB)))))
    size = np.maximum(32, np.rint(SIZES.quantile(chance.random(count)) * KB)).astype(np.int64)
    length = float(wire_bytes(size).sum()) * 8 / (load * CORE_BPS)
    gaps = chance.exponential(1.0, count + 1)
    time_us = (np.cumsum(gaps)[:-1] / gaps.sum() * length * 1e6).astype(np.int64)
    client, server = (chance.integers(0, HOSTS, count) for _ in range(2))
    port, senders, others = chance.integers(0, PORTS, count), topology.hosts_of("l1"), topology.hosts_of("l2")
    flows = tuple(
        Flow(n + 1, int(time_us[n]), f"bulk{port[n]}", senders[client[n]], others[server[n]], int(size[n]))
        for n in range(count)
    )
    settings = {"load": f"{load:g}", "seed": f"{seed}", "seconds": f"{length:.6f}", "scale": f"{SCALE}"}
    return Trace(flows, settings)


def alone_us(size_bytes: NDArray[np.int64], spines: int) -> NDArray[np.float64]:
    """FCT of flows alone on the idle path: store and forward over host, uplink, spine and host links, no delays."""
    rates = [HOST_BPS, CORE_BPS / spines, CORE_BPS / spines, HOST_BPS]
    full, rest = np.divmod(size_bytes, MSS_BYTES)
    tail = np.where(rest > 0, rest, MSS_BYTES)
    before = np.where(rest > 0, full, full - 1)
    at_full, at_tail = np.zeros(size_bytes.size), np.zeros(size_bytes.size)
    slowest = 0.0
    for rate in rates:
        one = 8 * (MSS_BYTES + HEADER_BYTES) / rate
        first = np.where(before > 0, at_full - np.maximum(before - 1, 0) * slowest, 0)
        slowest = max(slowest, one)
        at_full = np.where(before > 0, first + one + np.maximum(before - 1, 0) * slowest, 0)
        at_tail = np.maximum(at_full, at_tail) + 8 * (tail + HEADER_BYTES) / rate
    return np.asarray(at_tail * 1e6)
