"""Fat-trees (SIGCOMM'08): switches of one kind, with as much capacity between racks as below them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lab.sim.errors import ExperimentError
from lab.sim.wired import Path, Wired


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
