"""Switches in a row: the one topology in which prioritising small flows is known to lose stability.

M. Verloop, S. Borst, R. Nunez Queija, Stability of size-based scheduling disciplines in resource-sharing networks
(2005): flows over several links are served only where all of them have nothing smaller to do. pFabric's paper names it
in section 7.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lab.sim.errors import ExperimentError
from lab.sim.wired import Path, Wired

MOST_SWITCHES = 11


@dataclass(frozen=True)
class Linear(Wired):
    """Switches in a row, each with as many hosts, by number; one path between two hosts."""

    switches: int = 4
    hosts_per_switch: int = 8

    def _check(self) -> None:
        if not 2 <= self.switches <= MOST_SWITCHES:
            raise ExperimentError(f"topology.switches is {self.switches}, expected 2 to {MOST_SWITCHES}")
        if not 1 <= self.hosts_per_switch <= 2**16:
            raise ExperimentError(f"topology.hosts_per_switch is {self.hosts_per_switch}, expected 1 to {2**16}")

    @property
    def hosts(self) -> int:
        """On all switches."""
        return self.switches * self.hosts_per_switch

    @property
    def hosts_per_leaf(self) -> int:
        """On a switch."""
        return self.hosts_per_switch

    def cables(self) -> Iterable[tuple[int, int]]:
        """Hosts, then the row."""
        for host in range(self.hosts):
            yield host, self.hosts + host // self.hosts_per_switch
        for switch in range(self.switches - 1):
            yield self.hosts + switch, self.hosts + switch + 1

    def paths(self, source: int, target: int) -> list[Path]:
        """Along the row."""
        one, other = source // self.hosts_per_switch, target // self.hosts_per_switch
        step = 1 if other >= one else -1
        return [(source, *(self.hosts + switch for switch in range(one, other + step, step)), target)]
