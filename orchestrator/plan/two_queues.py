"""Where queues part by flow size, for flows whose size is known: an M/G/1 server with preemptive priorities. Pure.

pFabric (SIGCOMM'13, section 7) asks with it where two queues should part. The mean normalised FCT of priorities that
end at t_1 < ... < t_n, each first come first served, is a sum over neighbours, with S the size in units of service
time and rho(t) = lambda E[S; S <= t]:

  sum_k  P(t_{k-1} < S <= t_k) / (1 - rho(t_{k-1}))
         + lambda E[S^2; S <= t_k] / (2 (1 - rho(t_{k-1})) (1 - rho(t_k))) * E[1/S; t_{k-1} < S <= t_k]

(for two it is the paper's expression; the printed integral bounds are damaged, this is the textbook's). Neighbours
only: the best ends are a shortest path, found exactly on a grid of sizes.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..errors import ThresholdError
from .sizes import Floats, SizeDistribution

CANDIDATES = 600
ATOMS = 50_000


@dataclass(frozen=True)
class Mg1:
    """The server under flows of these sizes, each as likely as the others, at a load in (0, 1).

    size_bytes   ascending
    """

    size_bytes: Floats
    load: float

    def __post_init__(self) -> None:
        if not 0 < self.load < 1:
            raise ThresholdError(f"load: {self.load}, must lie strictly between 0 and 1, else no queue is stable")
        if not (len(self.size_bytes) and self.size_bytes[0] > 0 and np.all(np.diff(self.size_bytes) >= 0)):
            raise ThresholdError("flow sizes: expected at least one, all > 0 and ascending")

    @classmethod
    def of(cls, sizes: SizeDistribution, load: float) -> "Mg1":
        """Of recorded sizes: each cell's flows at its mean."""
        rank = (np.arange(ATOMS) + 0.5) / ATOMS
        place = np.minimum(np.searchsorted(np.cumsum(sizes.share), rank), len(sizes.share) - 1)
        return cls(sizes.mean_bytes[place], load)

    def cost(self, ends_bytes: tuple[float, ...]) -> float:
        """Mean normalised FCT with queues that part at these sizes."""
        ends = np.array([0.0, *ends_bytes, np.inf])
        at = np.searchsorted(self.size_bytes, ends, "right")
        edges = self._edges(at)
        return float(sum(edges[k, k + 1] for k in range(len(at) - 1)))

    def best_ends(self, queues: int) -> tuple[int, ...]:
        """Where 2 and more queues part best, bytes, one fewer than queues."""
        sizes = self.size_bytes
        grid = np.unique(np.rint(np.geomspace(sizes[0], sizes[-1], CANDIDATES)))
        at = np.unique(np.concatenate(([0], np.searchsorted(sizes, grid, "right"), [len(sizes)])))
        if not 2 <= queues < len(at):
            raise ThresholdError(f"queues: {queues}, expected 2 to {len(at) - 1} for so many sizes")
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

    def _edges(self, at: npt.NDArray[np.intp]) -> Floats:
        """The summand of a queue from one place in the sorted sizes to another; infinite unless it goes forward."""
        sizes, count_of_all = self.size_bytes, len(self.size_bytes)
        below = [np.concatenate(([0.0], np.cumsum(sizes**power) / count_of_all))[at] for power in (0, 1, 2, -1)]
        count, first, second, inverse = below
        arrivals = self.load / float(sizes.mean())
        free = 1 - arrivals * first
        waits = arrivals * second[None, :] / (2 * free[:, None] * free[None, :])
        found = (count[None, :] - count[:, None]) / free[:, None] + waits * (inverse[None, :] - inverse[:, None])
        return np.where(at[None, :] > at[:, None], found, np.inf)
