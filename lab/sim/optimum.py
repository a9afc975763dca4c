"""What a scheduler that knows all and waits for nothing reaches on one link: what PDQ's figures hold schemes against.

All flows begin at time 0; a flow is its bytes on the link, without headers and round trips. Times are in seconds,
`rate_bps` is the link's in bits a second, arrays have one dimension and a value a flow. What cannot be (a size below 0,
NaN, no rate) raises ExperimentError.
"""

from __future__ import annotations

import heapq

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lab.sim.errors import ExperimentError, check_each


def shortest_first(size_bytes: ArrayLike, rate_bps: float) -> NDArray[np.float64]:
    """When each flow ends if they go one after another, the shortest first: the least mean that there is."""
    size = _sizes(size_bytes, rate_bps)
    order = np.argsort(size, kind="stable")
    ends = np.empty(size.shape)
    ends[order] = np.cumsum(size[order]) * 8 / rate_bps
    return ends


def fair_sharing(size_bytes: ArrayLike, rate_bps: float) -> NDArray[np.float64]:
    """When each flow ends if those that are left share the link alike (processor sharing)."""
    size = _sizes(size_bytes, rate_bps)
    order = np.argsort(size, kind="stable")
    steps = np.diff(size[order], prepend=0.0) * np.arange(len(size), 0, -1)
    ends = np.empty(size.shape)
    ends[order] = np.cumsum(steps) * 8 / rate_bps
    return ends


def most_in_time(size_bytes: ArrayLike, deadline_s: ArrayLike, rate_bps: float) -> NDArray[np.bool_]:
    """Which flows to send so that as many as can be meet their deadlines; the others are dropped.

    Earliest deadline first; whenever one would be late, the longest so far is dropped (Moore and Hodgson, 1968), which
    drops as few as the dynamic programme that PDQ's paper names."""
    size, deadline = _sizes(size_bytes, rate_bps), _numbers("deadline_s", deadline_s)
    if len(deadline) != len(size):
        raise ExperimentError(f"deadline_s has {len(deadline)} values for {len(size)} flows")
    check_each("deadline_s", deadline, ~np.isnan(deadline), "a time in seconds")
    kept = np.zeros(size.shape, bool)
    longest: list[tuple[float, int]] = []
    now_s = 0.0
    for flow in np.argsort(deadline, kind="stable"):
        takes_s = size[flow] * 8 / rate_bps
        now_s += takes_s
        kept[flow] = True
        heapq.heappush(longest, (-takes_s, int(flow)))
        if now_s > deadline[flow]:
            dropped_s, dropped = heapq.heappop(longest)
            now_s += dropped_s
            kept[dropped] = False
    return kept


def _numbers(place: str, values: ArrayLike) -> NDArray[np.float64]:
    try:
        found = np.asarray(values, float)
    except (TypeError, ValueError):
        found = np.empty(())
    if found.ndim != 1:
        raise ExperimentError(f"{place} is {values!r}, expected a number for each flow")
    return found


def _sizes(size_bytes: ArrayLike, rate_bps: float) -> NDArray[np.float64]:
    found = _numbers("size_bytes", size_bytes)
    check_each("size_bytes", found, (found >= 0) & (found < np.inf), "0 or more")
    if not 0 < rate_bps < np.inf:
        raise ExperimentError(f"rate_bps is {rate_bps}, expected above 0")
    return found
