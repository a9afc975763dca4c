"""BCube (SIGCOMM'09): servers of several ports, which relay for each other."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lab.sim.errors import ExperimentError
from lab.sim.wired import Path, Wired


@dataclass(frozen=True)
class BCube(Wired):
    """BCube(n, k): n^(k+1) servers with k + 1 ports each, which relay; switches of n ports.

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
