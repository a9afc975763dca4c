"""Demotion thresholds: the exact minimum of PIAS's cost over a flow-size distribution, as a shortest path.

PIAS (NSDI'15) minimises sum_l T_l * sum_{m>=l} theta_m with theta_m = F(a_m) - F(a_{m-1}), T_l = 1 / (mu_l - lambda_l)
and mu_{l+1} = mu_l (1 - rho_l) = mu_l - lambda_l. The recursion telescopes: with G(a) = E[min(X, a)] / E[X], the share
of all bytes that is sent before a flow's byte a,

    T_l = 1 / (1 - load * G(a_l)),        sum_{m>=l} theta_m = 1 - F(a_{l-1}),

so the cost is a sum over *neighbouring* thresholds only. Choosing them is then a shortest path with P edges, which
dynamic programming solves exactly on the sizes that occur: no swarm, no start value, no local minimum. Between two
sizes that occur F stands still while T grows, so an optimal threshold is always such a size.

The same holds for the mean slowdown of processor sharing inside each priority (MP-MLFQ, HPSR'24), whose edge is
(H(a_l) - H(a_{l-1})) * T_l with H(a) = E[min(X, a) / X]. QCLIMB takes PIAS's thresholds as they are.

`choose` is what the product does. Its settings come from simulations of real queues, for both costs are blind to one
thing: a queue of TCP flows is a FIFO of their windows, and who shares it with larger flows waits for theirs.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import ThresholdError
from .sizes import LARGEST_BYTES, Floats, SizeDistribution


class Objective(StrEnum):
    """What the thresholds make small."""

    PIAS = "pias"
    SLOWDOWN = "slowdown"


OBJECTIVE = Objective.SLOWDOWN
LAST_SHARE = 0.5
"""More protects large flows, less the medium ones, which else share the last priority with them: with 0.7 all of a web
server's flows above 16 KB did. With 0.4, at load 0.8, the queues that it opens to larger flows fill a port's shared
buffer, and small flows lose packets. docs/figures/thresholds.md has nine workloads under several."""
SEGMENT_BYTES = 1448
LOAD = 0.6


@dataclass(frozen=True)
class Thresholds:
    """P - 1 demotion thresholds and what they cost."""

    threshold_bytes: tuple[int, ...]
    used: int
    """How many of them the optimum needs; the rest lie beyond the largest size seen."""
    cost: float


def cost(sizes: SizeDistribution, load: float, threshold_bytes: Iterable[int], objective: Objective) -> float:
    """The cost of any ascending thresholds: the definition, evaluated term by term."""
    upper = sizes.upper_bytes
    place = np.searchsorted(upper, list(threshold_bytes), side="right") - 1
    if objective is Objective.PIAS:
        weight_from = np.concatenate([[1.0], 1 - sizes.upto])
    else:
        weight_from = 1 - np.concatenate([[0.0], sizes.part_before()])
    before = np.concatenate([[0.0], sizes.bytes_before()])
    total, last = 0.0, 0
    for here in [*(place + 1), len(upper)]:
        weight = weight_from[last] - (0.0 if objective is Objective.PIAS else weight_from[here])
        total += weight / (1 - load * before[here])
        last = here
    return total


def optimise(
    sizes: SizeDistribution,
    priorities: int,
    load: float,
    objective: Objective = Objective.PIAS,
    last_share: float = 0.0,
    segment_bytes: int = 1,
) -> Thresholds:
    """The thresholds of least cost for `priorities` priorities at `load` (offered bytes over capacity, in (0, 1)).

    `last_share`: at least this share of all bytes is left to the last priority, whose flows share it fairly. Without it
    the optimum serves the largest flows after all others, as LAS does; what they lose by that grows with the last
    threshold alone, and what small flows gain hardly depends on it.

    `segment_bytes`: thresholds are rounded up to multiples of it: one inside a segment costs each flow one packet more.

    Deterministic; among equal costs the one with the fewest thresholds. When the sizes do not fill every priority, the
    remaining thresholds are doublings beyond the largest size seen, so that a flow larger than any before still sinks.
    """
    check_wishes(load, last_share, segment_bytes)
    if not 1 <= priorities <= 64:
        raise ThresholdError(f"priorities: {priorities}, must lie in 1..64")
    # The edge from threshold i (0: none yet) to j costs start[i] * time[j] + end[j].
    before = sizes.bytes_before()
    time = 1 / (1 - load * before)
    allowed = before <= 1 - last_share
    allowed[-1] = True  # the end of the way, no threshold
    if objective is Objective.PIAS:
        start, end = np.concatenate([[1.0], 1 - sizes.upto[:-1]]), np.zeros_like(time)
    else:
        part = sizes.part_before()
        start, end = -np.concatenate([[0.0], part[:-1]]), part * time
    chosen, least = _shortest_path(start, time, end, allowed, priorities)
    thresholds = _rounded_up([int(sizes.upper_bytes[i]) for i in chosen], segment_bytes)
    beyond = max([int(sizes.upper_bytes[-1]), *(threshold + 1 for threshold in thresholds)])
    while len(thresholds) < priorities - 1:
        thresholds.append(beyond)
        beyond = beyond * 2 if beyond < LARGEST_BYTES else beyond + 1
    return Thresholds(tuple(thresholds), len(chosen), least)


def check_wishes(load: float, last_share: float, segment_bytes: int) -> None:
    """Refuses a load that no queue survives, and what is no share or no segment."""
    if not 0 <= last_share < 1:
        raise ThresholdError(f"last_share: {last_share}, must lie in [0, 1)")
    if not segment_bytes >= 1:
        raise ThresholdError(f"segment_bytes: {segment_bytes}, must be at least 1")
    if not 0 < load < 1:
        raise ThresholdError(f"load: {load}, must lie strictly between 0 and 1, else no queue is stable")


def choose(sizes: SizeDistribution, priorities: int = 8, load: float = LOAD, known_share: float = 0.0) -> Thresholds:
    """What the orchestrator chooses unless told otherwise; `known_share`: see `last_share_of`."""
    return optimise(sizes, priorities, load, OBJECTIVE, last_share_of(known_share), SEGMENT_BYTES)


def last_share_of(known_share: float, last_share: float = LAST_SHARE) -> float:
    """What is left to the last priority where hosts know the sizes of so large a share of the bytes at the first write.

    A flow of known size spends as many bytes at each priority as one of unknown size, in the opposite order. So both
    costs above are the same for any mix of them, and what they ask of the thresholds, too. What differs is what
    `last_share` is for: a large flow of unknown size ends served last, after all others; one of known size climbs, and
    needs no protection. So the share is that of the unknown bytes (docs/results/last-share.md has the simulations that
    this was held against, with 0, 0.25, 0.5 and 0.7 at known shares of 0 to 1).
    """
    if not 0 <= known_share <= 1:
        raise ThresholdError(f"known_share: {known_share}, must lie in [0, 1]")
    return last_share * (1 - known_share)


def _rounded_up(thresholds: Iterable[int], segment_bytes: int) -> list[int]:
    """Each rounded up to a multiple of `segment_bytes`, and to the next free one where two would meet."""
    rounded: list[int] = []
    for threshold in thresholds:
        up = -(-threshold // segment_bytes) * segment_bytes
        rounded.append(max(up, rounded[-1] + segment_bytes) if rounded else up)
    return rounded


def _shortest_path(
    start: Floats, time: Floats, end: Floats, allowed: npt.NDArray[np.bool_], edges: int
) -> tuple[list[int], float]:
    """The cheapest way from nothing to the last cell by at most `edges` edges; returns the cells passed on the way."""
    cells = len(time)
    edge = start[:, None] * time[None, :] + end[None, :]
    edge[:, ~allowed] = np.inf
    edge[np.tri(cells, cells, -1, dtype=bool)] = np.inf  # from cell i - 1 only to a later one
    reach, came_from = [edge[0]], []
    through = np.empty((cells - 1, cells))
    for _ in range(min(edges, cells) - 1):
        np.add(reach[-1][:-1, None], edge[1:], out=through)
        best = through.argmin(axis=0)
        came_from.append(best)
        reach.append(through[best, np.arange(cells)])
    goal = [float(row[-1]) for row in reach]
    count = next(k for k, value in enumerate(goal) if value <= min(goal) * (1 + 1e-12))
    passed: list[int] = []
    here: Any = cells - 1
    for k in range(count - 1, -1, -1):
        here = int(came_from[k][here])
        passed.append(here)
    return passed[::-1], goal[count]
