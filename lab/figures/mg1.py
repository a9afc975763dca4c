"""Queues by flow size in theory: an M/G/1 server with preemptive priorities, each first come first served.

pFabric (SIGCOMM'13, section 7) asks with it where two queues should part. The mean normalised FCT of priorities that
end at t_1 < ... < t_n is a sum over neighbours, with S the size in units of service time, rho(t) = lambda E[S; S <= t]:

  sum_k  P(t_{k-1} < S <= t_k) / (1 - rho(t_{k-1}))
         + lambda E[S^2; S <= t_k] / (2 (1 - rho(t_{k-1})) (1 - rho(t_k))) * E[1/S; t_{k-1} < S <= t_k]

(for two it is the paper's expression; the printed integral bounds are damaged, this is the textbook's). Neighbours
only: the best ends are a shortest path, found exactly on a grid of sizes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lab.sim.sizes import size_table

CELLS = 50_000
CANDIDATES = 600


@dataclass(frozen=True)
class Mg1:
    """The server under flows of a table, at a load in (0, 1)."""

    table: str
    load: float

    def cost(self, ends_bytes: tuple[float, ...]) -> float:
        """Mean normalised FCT with queues that part at these sizes."""
        ends = np.array([0.0, *ends_bytes, np.inf])
        at = np.searchsorted(self._sizes(), ends, "right")
        edges = self._edges(at)
        return float(sum(edges[k, k + 1] for k in range(len(at) - 1)))

    def best_ends(self, queues: int) -> tuple[int, ...]:
        """Where 2 and more queues part best, bytes, one fewer than queues."""
        sizes = self._sizes()
        grid = np.unique(np.rint(np.geomspace(sizes[0], sizes[-1], CANDIDATES)))
        at = np.unique(np.concatenate(([0], np.searchsorted(sizes, grid, "right"), [len(sizes)])))
        edges = self._edges(at)
        least, came = edges[0].copy(), []
        for _queue in range(1, queues):
            through = least[:, None] + edges
            came.append(np.argmin(through, axis=0))
            least = np.min(through, axis=0)
        place, ends = len(at) - 1, []
        for before in reversed(came):
            place = int(before[place])
            ends.append(int(sizes[at[place] - 1]))
        return tuple(reversed(ends))

    def _sizes(self) -> NDArray[np.float64]:
        return size_table(self.table).quantile((np.arange(CELLS) + 0.5) / CELLS)

    def _edges(self, at: NDArray[np.intp]) -> NDArray[np.float64]:
        """The summand of a queue from one place in the sorted sizes to another; infinite unless it goes forward."""
        sizes = self._sizes()
        below = [np.concatenate(([0.0], np.cumsum(sizes**power) / CELLS))[at] for power in (0, 1, 2, -1)]
        count, first, second, inverse = below
        arrivals = self.load / float(sizes.mean())
        free = 1 - arrivals * first
        waits = arrivals * second[None, :] / (2 * free[:, None] * free[None, :])
        found = (count[None, :] - count[:, None]) / free[:, None] + waits * (inverse[None, :] - inverse[:, None])
        return np.where(at[None, :] > at[:, None], found, np.inf)
