"""Fabrics of other shapes (fattree.py, bcube.py, jellyfish.py, linear.py). Links and paths are planned here, once, for
the pairs of hosts that send to each other; the engine (engine/core/wiring.h) only follows them.

All links of a fabric have one rate and one delay; store and forward at every port, servers' too. Hosts are 0 to
`hosts` - 1; a flow has one of its pair's paths by a hash (ECMP), its parts (M-PDQ) the next ones in turn.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

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


Fabric = Topology | Wired
