"""Fabrics of other shapes: fat-tree, BCube with servers that relay, Jellyfish. Links and paths are planned here, once,
for the pairs of hosts that send to each other; the engine (engine/core/wiring.h) only follows them.

All links of a fabric have one rate and one delay; store and forward at every port, servers' too. Hosts are 0 to
`hosts` - 1; a flow has one of its pair's paths by a hash (ECMP), its parts (M-PDQ) the next ones in turn.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, pairwise
from typing import Any

import networkx
import numpy as np
from numpy.typing import NDArray

from lab.sim.errors import ExperimentError, Settings, check_kinds
from lab.sim.topology import PS_PER_BYTE_AT_1_BPS, Topology, last_byte_ps

MOST_HOSTS, MOST_LINKS, MOST_PATH_LINKS, MOST_PS_PER_BYTE = 2**20, 2**21, 12, 8 * 10**6
HOST, SWITCH_UP, TO_HOST = 0, 1, 3
"""Kinds of ports as the engine counts drops: a server's, between switches, towards a server."""
Path = tuple[int, ...]
"""Nodes from the source's host to the target's; hosts first, then switches, by number."""


@dataclass(frozen=True)
class Wired(ABC):
    """What these fabrics share. Defaults: PDQ's (1 Gb/s, 25.1 us a link: 0.1 of propagation, 25 of processing)."""

    rate_bps: int = 10**9
    delay_ns: int = 25_100
    """Of a link, one way."""

    def __post_init__(self) -> None:
        check_kinds("topology.", self)
        if not (self.rate_bps > 0 and PS_PER_BYTE_AT_1_BPS % self.rate_bps == 0):
            raise ExperimentError(
                f"topology.rate_bps is {self.rate_bps}: a byte must take whole picoseconds (8e12 / rate), as at 1, 10, "
                "25, 40 or 100 Gb/s"
            )
        if self.host_ps_per_byte > MOST_PS_PER_BYTE:
            raise ExperimentError(f"topology.rate_bps is {self.rate_bps}, expected 1,000,000 or more")
        if not 0 <= self.delay_ns <= 10**9:
            raise ExperimentError(f"topology.delay_ns is {self.delay_ns}, expected 0 to 1e9")
        self._check()
        if not 2 <= self.hosts <= MOST_HOSTS:
            raise ExperimentError(f"topology has {self.hosts} hosts, expected 2 to {MOST_HOSTS}")

    @abstractmethod
    def _check(self) -> None:
        """Raises: ExperimentError."""

    @property
    @abstractmethod
    def hosts(self) -> int:
        """How many servers there are."""

    @property
    @abstractmethod
    def hosts_per_leaf(self) -> int:
        """Servers in a row that share a switch: a rack."""

    @abstractmethod
    def cables(self) -> Iterable[tuple[int, int]]:
        """Two nodes each."""

    @abstractmethod
    def paths(self, source: int, target: int) -> list[Path]:
        """Between two hosts."""

    @property
    def leaves(self) -> int:
        """Racks."""
        return -(-self.hosts // self.hosts_per_leaf)

    @property
    def spines(self) -> int:
        """None that traffic could be laid on by number."""
        return 0

    @property
    def host_rate_bps(self) -> int:
        """Of one port of a host."""
        return self.rate_bps

    @property
    def host_ps_per_byte(self) -> int:
        """Of a host's link."""
        return PS_PER_BYTE_AT_1_BPS // self.rate_bps

    @cached_property
    def links(self) -> dict[tuple[int, int], int]:
        """The number of the port by which one node sends to another."""
        found: dict[tuple[int, int], int] = {}
        for one, other in self.cables():
            found[one, other] = len(found)
            found[other, one] = len(found)
        return found

    def settings(self) -> Settings:
        """As the engine reads them."""
        return {
            "fabric": "wired",
            "leaves": 1,
            "spines": 0,
            "hosts_per_leaf": self.hosts,
            "host_ps_per_byte": self.host_ps_per_byte,
        }

    def wiring(self, pairs: Iterable[tuple[int, int]]) -> bytes:
        """Links, and the paths of these pairs, as the engine reads them. Raises: ExperimentError."""
        links = self.links
        ends = np.zeros((len(links), 6), np.uint32)
        for (one, other), at in links.items():
            place = HOST if one < self.hosts else TO_HOST if other < self.hosts else SWITCH_UP
            ends[at] = (place, links[other, one], self.host_ps_per_byte, 0, self.delay_ns * 1000 % 2**32, 0)
            ends[at, 5] = self.delay_ns * 1000 // 2**32
        table, begins, words = [], [0], []
        for source, target in pairs:
            found = self.paths(source, target)
            table.append((source, target, len(begins) - 1, len(found)))
            for path in found:
                hops = [links[hop] for hop in pairwise(path)]
                if len(hops) > MOST_PATH_LINKS:
                    raise ExperimentError(
                        f"topology: a path from host {source} to host {target} has {len(hops)} links, expected at most "
                        f"{MOST_PATH_LINKS}"
                    )
                words += hops
                begins.append(len(words))
        head = [self.hosts, len(links), len(table), len(begins) - 1, len(words)]
        parts = (head, ends.ravel(), np.array(table, np.uint32).ravel(), begins, words)
        return b"".join(np.asarray(part, "<u4").tobytes() for part in parts)

    def ideal_between(
        self,
        source: NDArray[np.integer[Any]],
        target: NDArray[np.integer[Any]],
        size_bytes: NDArray[np.integer[Any]],
        payload_bytes: int,
        header_bytes: int,
    ) -> NDArray[np.int64]:
        """As Topology.ideal_ps, over the shortest path of each pair."""
        pairs = np.stack([np.asarray(source, np.int64), np.asarray(target, np.int64)], axis=1)
        distinct, which = np.unique(pairs, axis=0, return_inverse=True)
        hops = np.array([min(len(path) - 1 for path in self.paths(int(a), int(b))) for a, b in distinct])
        hops = hops[which.ravel()]
        result = np.empty(len(pairs), np.int64)
        for count in np.unique(hops):
            at = hops == count
            path = [(self.host_ps_per_byte, self.delay_ns * 1000)] * int(count)
            result[at] = last_byte_ps(np.asarray(size_bytes)[at], path, payload_bytes, header_bytes)
        return result


@dataclass(frozen=True)
class FatTree(Wired):
    """k pods of k/2 edge and k/2 aggregation switches, k/2 hosts an edge switch, (k/2)^2 cores; k^3/4 hosts."""

    k: int = 4
    """Ports of each switch; even."""

    def _check(self) -> None:
        if not (2 <= self.k <= 64 and self.k % 2 == 0):
            raise ExperimentError(f"topology.k is {self.k}, expected an even number, 2 to 64")

    @property
    def hosts(self) -> int:
        """k^3 / 4."""
        return self.k**3 // 4

    @property
    def hosts_per_leaf(self) -> int:
        """Below an edge switch."""
        return self.k // 2

    def _edge(self, host: int) -> int:
        return self.hosts + host // (self.k // 2)

    def _aggregation(self, pod: int, n: int) -> int:
        return self.hosts + self.k * self.k // 2 + pod * (self.k // 2) + n

    def _core(self, n: int, m: int) -> int:
        return self.hosts + self.k * self.k + n * (self.k // 2) + m

    def cables(self) -> Iterable[tuple[int, int]]:
        """Hosts, edges, cores."""
        half = self.k // 2
        for host in range(self.hosts):
            yield host, self._edge(host)
        for edge in range(self.k * half):
            for n in range(half):
                yield self.hosts + edge, self._aggregation(edge // half, n)
        for pod in range(self.k):
            for n in range(half):
                for m in range(half):
                    yield self._aggregation(pod, n), self._core(n, m)

    def paths(self, source: int, target: int) -> list[Path]:
        """All shortest ones, in an order of their own for each pair of edges: ECMP."""
        half = self.k // 2
        one, other = self._edge(source), self._edge(target)
        if one == other:
            return [(source, one, target)]
        pods = source // (half * half), target // (half * half)
        if pods[0] == pods[1]:
            return [(source, one, self._aggregation(pods[0], n), other, target) for n in range(half)]
        return [
            (source, one, self._aggregation(pods[0], n), self._core(n, m), self._aggregation(pods[1], n), other, target)
            for m in range(half)
            for n in range(half)
        ]


@dataclass(frozen=True)
class BCube(Wired):
    """BCube(n, k) (SIGCOMM'09): n^(k+1) servers with k + 1 ports each, which relay; switches of n ports.

    A server's address has k + 1 digits; switches of level i join servers that differ in digit i only.
    """

    n: int = 2
    """Ports of each switch."""
    k: int = 3
    """Levels, less one."""

    def _check(self) -> None:
        if not 2 <= self.n <= 64:
            raise ExperimentError(f"topology.n is {self.n}, expected 2 to 64")
        if not 0 <= self.k <= 4:
            raise ExperimentError(f"topology.k is {self.k}, expected 0 to 4 (paths of at most 12 links)")

    @property
    def hosts(self) -> int:
        """n^(k+1)."""
        return int(self.n ** (self.k + 1))

    @property
    def hosts_per_leaf(self) -> int:
        """On a switch of level 0."""
        return self.n

    def _digit(self, host: int, level: int) -> int:
        return int(host // self.n**level % self.n)

    def _with(self, host: int, level: int, digit: int) -> int:
        return int(host + (digit - self._digit(host, level)) * self.n**level)

    def _switch(self, level: int, host: int) -> int:
        below, above = host % self.n**level, host // self.n ** (level + 1)
        return int(self.hosts + level * self.n**self.k + above * self.n**level + below)

    def cables(self) -> Iterable[tuple[int, int]]:
        """Each server to its switch of each level."""
        for level in range(self.k + 1):
            for host in range(self.hosts):
                yield host, self._switch(level, host)

    def _go(self, walk: list[int], target: int, levels: Iterable[int]) -> list[int]:
        """Corrects digits in an order: a server and the switch between for each."""
        for level in levels:
            here = walk[-1]
            there = self._with(here, level, self._digit(target, level))
            if there != here:
                walk += [self._switch(level, here), there]
        return walk

    def paths(self, source: int, target: int) -> list[Path]:
        """BCube's parallel ones (BuildPathSet): one by each port of the source, the shortest first; no two share a
        server or a link."""
        found = []
        for level in range(self.k, -1, -1):
            order = [(level - step) % (self.k + 1) for step in range(self.k + 1)]
            if self._digit(source, level) != self._digit(target, level):
                walk = self._go([source], target, order)
            else:  # by a neighbour on that level, whose digit is put right last
                near = self._with(source, level, (self._digit(source, level) + 1) % self.n)
                walk = self._go([source, self._switch(level, source), near], target, order[1:])
                walk = self._go(walk, target, [level])
            found.append(tuple(walk))
        return sorted(found, key=len)


@dataclass(frozen=True)
class Jellyfish(Wired):
    """Switches in a random regular graph (NSDI'12), each with the same number of servers; the k shortest paths."""

    switches: int = 20
    ports: int = 24
    """Of each switch."""
    servers_per_switch: int = 8
    """The other ports lead to switches."""
    shortest: int = 8
    """Paths of a pair."""
    seed: int = 1

    @property
    def degree(self) -> int:
        """Of the graph."""
        return self.ports - self.servers_per_switch

    def _check(self) -> None:
        if not 2 <= self.ports <= 256:
            raise ExperimentError(f"topology.ports is {self.ports}, expected 2 to 256")
        if not 1 <= self.servers_per_switch < self.ports:
            raise ExperimentError(
                f"topology.servers_per_switch is {self.servers_per_switch}, expected 1 to {self.ports - 1}, below ports"
            )
        if not self.degree < self.switches <= 2**16:
            raise ExperimentError(
                f"topology.switches is {self.switches}, expected {self.degree + 1} to {2**16}: each leads to "
                f"{self.degree} others"
            )
        if self.switches * self.degree % 2:
            raise ExperimentError(
                f"topology.switches is {self.switches}: {self.degree} links each make no regular graph, for their "
                "product is odd"
            )
        if not 1 <= self.shortest <= 64:
            raise ExperimentError(f"topology.shortest is {self.shortest}, expected 1 to 64")
        if not 0 <= self.seed < 2**32:
            raise ExperimentError(f"topology.seed is {self.seed}, expected 0 to 2^32 - 1")
        if not networkx.is_connected(self.graph):
            raise ExperimentError(f"topology.seed is {self.seed}: this graph falls apart; take another")

    @cached_property
    def graph(self) -> Any:
        """Of switches, from 0."""
        return networkx.random_regular_graph(self.degree, self.switches, seed=self.seed)

    @cached_property
    def _between(self) -> dict[tuple[int, int], list[Path]]:
        return {}

    @property
    def hosts(self) -> int:
        """On all switches."""
        return self.switches * self.servers_per_switch

    @property
    def hosts_per_leaf(self) -> int:
        """On a switch."""
        return self.servers_per_switch

    def cables(self) -> Iterable[tuple[int, int]]:
        """Servers, then the graph."""
        for host in range(self.hosts):
            yield host, self.hosts + host // self.servers_per_switch
        for one, other in sorted(tuple(sorted(edge)) for edge in self.graph.edges):
            yield self.hosts + one, self.hosts + other

    def paths(self, source: int, target: int) -> list[Path]:
        """The shortest so many, without a loop (Yen)."""
        one, other = source // self.servers_per_switch, target // self.servers_per_switch
        if (one, other) not in self._between:
            ways = [[one]] if one == other else islice(self._ways(one, other), self.shortest)
            self._between[one, other] = [tuple(self.hosts + switch for switch in way) for way in ways]
        return [(source, *way, target) for way in self._between[one, other]]

    def _ways(self, one: int, other: int) -> Any:
        return networkx.shortest_simple_paths(self.graph, one, other)


Fabric = Topology | Wired
