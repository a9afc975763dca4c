"""What flows are drawn, and how many of them any order of service at all could bring home in time."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

SIZE_BYTES = (2_000, 198_000)
DEADLINE_MEAN_US, DEADLINE_LEAST_US = 20_000, 3_000
PDQ_RATE_BPS = 1_000_000_000
PAYLOAD_SHARE = 1448 / 1514
"""Of a full packet on Ethernet without preamble, as HTB counts it."""


@dataclass(frozen=True)
class Flow:
    """One flow of a trial; all begin at once."""

    size_bytes: int
    deadline_us: int


def draw(count: int, seed: int, trial: int, rate_bps: int) -> list[Flow]:
    """PDQ's query aggregation: sizes U[2, 198] KB, deadlines exponential of mean 20 ms with a floor of 3 ms at 1 Gb/s.

    At a slower rate times are longer by as much, so that the shares of the link stay what they were.
    """
    random = np.random.default_rng([seed, count, trial])
    factor = PDQ_RATE_BPS / rate_bps
    sizes = random.integers(SIZE_BYTES[0], SIZE_BYTES[1], count, endpoint=True)
    deadlines = np.maximum(random.exponential(DEADLINE_MEAN_US, count), DEADLINE_LEAST_US) * factor
    return [Flow(int(size), int(deadline)) for size, deadline in zip(sizes, deadlines, strict=True)]


def most_in_time(flows: Sequence[Flow], rate_bps: int) -> int:
    """The largest number of flows that one link can finish in time: earliest deadline first, and where one would be
    late, the largest so far is dropped (Moore and Hodgson's algorithm; what PDQ calls optimal)."""
    kept: list[int] = []
    used_us = 0.0
    for flow in sorted(flows, key=lambda flow: flow.deadline_us):
        us = flow.size_bytes * 8e6 / (rate_bps * PAYLOAD_SHARE)
        heapq.heappush(kept, -flow.size_bytes)
        used_us += us
        if used_us > flow.deadline_us:
            used_us -= -heapq.heappop(kept) * 8e6 / (rate_bps * PAYLOAD_SHARE)
    return len(kept)
