"""Jellyfish (NSDI'12): switches joined at random."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any

import networkx

from lab.sim.errors import ExperimentError
from lab.sim.wired import Path, Wired


@dataclass(frozen=True)
class Jellyfish(Wired):
    """Switches in a random regular graph, each with the same number of servers; the k shortest paths."""

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
