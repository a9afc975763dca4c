"""Who sends to whom. Each draws sources and targets for as many flows as are asked for, from a generator given."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lab.sim.errors import ExperimentError, check, check_kinds
from lab.sim.topology import Topology
from lab.sim.wired import MOST_HOSTS, Fabric

Hosts = NDArray[np.int64]
PLACE = "workload.matrix."


@dataclass(frozen=True)
class AllToAll:
    """Uniform over ordered pairs of distinct hosts."""

    def pairs(self, random: np.random.Generator, count: int, topology: Fabric) -> tuple[Hosts, Hosts]:
        """Sources and targets."""
        source = random.integers(0, topology.hosts, count)
        other = random.integers(0, topology.hosts - 1, count)
        return source, other + (other >= source)

    def busiest_share(self, topology: Fabric) -> float:
        """The share of all bytes that the busiest host sends or receives, on average."""
        return 1 / topology.hosts

    def core_share(self, topology: Topology) -> float:
        """The share of flows that cross the core."""
        return 1 - (topology.hosts_per_leaf - 1) / (topology.hosts - 1)


@dataclass(frozen=True)
class Permutation:
    """Each host sends to one other, and each is sent to by one: a cycle through all hosts, drawn from `seed`."""

    seed: int = 1

    def __post_init__(self) -> None:
        check_kinds(PLACE, self)
        check(f"{PLACE}seed", self.seed, 0, 2**32 - 1)

    def pairs(self, random: np.random.Generator, count: int, topology: Fabric) -> tuple[Hosts, Hosts]:
        """Sources and targets."""
        source = random.integers(0, topology.hosts, count)
        return source, self.follower(topology)[source]

    def follower(self, topology: Fabric) -> Hosts:
        """Whom each host sends to."""
        order = np.random.default_rng([self.seed, topology.hosts]).permutation(topology.hosts)
        follower = np.empty(topology.hosts, np.int64)
        follower[order] = np.roll(order, -1)
        return follower

    def busiest_share(self, topology: Fabric) -> float:
        """As above."""
        return 1 / topology.hosts

    def core_share(self, topology: Topology) -> float:
        """As above."""
        source = np.arange(topology.hosts)
        return float(topology.crosses_core(source, self.follower(topology)).mean())


@dataclass(frozen=True)
class Stride:
    """Host i sends to host i + step, around the fabric."""

    step: int

    def __post_init__(self) -> None:
        check_kinds(PLACE, self)
        check(f"{PLACE}step", self.step, -MOST_HOSTS, MOST_HOSTS)

    def pairs(self, random: np.random.Generator, count: int, topology: Fabric) -> tuple[Hosts, Hosts]:
        """Sources and targets. Raises: ExperimentError."""
        if self.step % topology.hosts == 0:
            raise ExperimentError(f"workload.matrix.step is {self.step}: hosts would send to themselves")
        source = random.integers(0, topology.hosts, count)
        return source, (source + self.step) % topology.hosts

    def busiest_share(self, topology: Fabric) -> float:
        """As above."""
        return 1 / topology.hosts

    def core_share(self, topology: Topology) -> float:
        """As above."""
        source = np.arange(topology.hosts)
        return float(topology.crosses_core(source, (source + self.step) % topology.hosts).mean())


@dataclass(frozen=True)
class Staggered:
    """A flow stays in its rack with probability `in_rack`, else its target is uniform over the other racks' hosts."""

    in_rack: float

    def __post_init__(self) -> None:
        check_kinds(PLACE, self)
        check(f"{PLACE}in_rack", self.in_rack, 0, 1)

    def pairs(self, random: np.random.Generator, count: int, topology: Fabric) -> tuple[Hosts, Hosts]:
        """Sources and targets. Raises: ExperimentError."""
        per_leaf, hosts = topology.hosts_per_leaf, topology.hosts
        if (per_leaf < 2 and self.in_rack > 0) or (topology.leaves < 2 and self.in_rack < 1):
            raise ExperimentError(f"workload.matrix.in_rack is {self.in_rack}: the topology has no such pair of hosts")
        source = random.integers(0, hosts, count)
        rack = source // per_leaf
        near = random.integers(0, max(1, per_leaf - 1), count)
        near = rack * per_leaf + near + (near >= source % per_leaf)
        far = random.integers(0, max(1, hosts - per_leaf), count)
        far = far + np.where(far >= rack * per_leaf, per_leaf, 0)
        return source, np.where(random.random(count) < self.in_rack, near, far)

    def busiest_share(self, topology: Fabric) -> float:
        """As above."""
        return 1 / topology.hosts

    def core_share(self, topology: Topology) -> float:
        """As above."""
        return 1 - self.in_rack


@dataclass(frozen=True)
class Incast:
    """All hosts but `target` send to it."""

    target: int = 0

    def __post_init__(self) -> None:
        check_kinds(PLACE, self)

    def pairs(self, random: np.random.Generator, count: int, topology: Fabric) -> tuple[Hosts, Hosts]:
        """Sources and targets. Raises: ExperimentError."""
        if not 0 <= self.target < topology.hosts:
            raise ExperimentError(f"workload.matrix.target is {self.target}, expected one of {topology.hosts} hosts")
        source = random.integers(0, topology.hosts - 1, count)
        return source + (source >= self.target), np.full(count, self.target)

    def busiest_share(self, topology: Fabric) -> float:
        """All bytes come to one host."""
        return 1.0

    def core_share(self, topology: Topology) -> float:
        """As above."""
        return (topology.hosts - topology.hosts_per_leaf) / (topology.hosts - 1)


@dataclass(frozen=True)
class ToRack:
    """Hosts of all other racks send to the hosts of one."""

    rack: int = 0

    def __post_init__(self) -> None:
        check_kinds(PLACE, self)

    def pairs(self, random: np.random.Generator, count: int, topology: Fabric) -> tuple[Hosts, Hosts]:
        """Sources and targets. Raises: ExperimentError."""
        per_leaf = topology.hosts_per_leaf
        if not (0 <= self.rack < topology.leaves and topology.leaves > 1):
            raise ExperimentError(f"workload.matrix.rack is {self.rack}, expected one of several, {topology.leaves}")
        source = random.integers(0, topology.hosts - per_leaf, count)
        source = source + np.where(source >= self.rack * per_leaf, per_leaf, 0)
        return source, self.rack * per_leaf + random.integers(0, per_leaf, count)

    def busiest_share(self, topology: Fabric) -> float:
        """All bytes come to one rack."""
        return 1 / topology.hosts_per_leaf

    def core_share(self, topology: Topology) -> float:
        """As above."""
        return 1.0


Matrix = AllToAll | Permutation | Stride | Staggered | Incast | ToRack
