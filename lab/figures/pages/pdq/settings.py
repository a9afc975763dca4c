"""What PDQ's pages share: schemes by name, flows of its two kinds, and how pages say so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from lab.figures.page import Page, Scale
from lab.figures.pages.pdq.aggregation import SCHEMES
from lab.figures.pages.pdq.lines import rounds
from lab.sim import NAMED, Experiment, FlowLevel, FlowList, Scheme
from lab.sim.wired import Fabric

MS = 10**9
"""In ps."""
LEAST_DEADLINE_MS = 3.0
ALL: dict[str, Scheme] = {
    **SCHEMES,
    "PDQ, flow level": NAMED["flow-pdq"],
    "RCP, flow level": NAMED["flow-rcp"],
    "D3, flow level": NAMED["flow-d3"],
    "M-PDQ": NAMED["mpdq"],
    "PDQ, flow level, 1 ms": FlowLevel(step_ms=1),
}
Ints = NDArray[np.int64]
Ends = Callable[[np.random.Generator, int], tuple[Ints, Ints]]
"""Sources and targets of so many flows."""


def header_of(name: str) -> int:
    """IP and TCP; a scheduling header on top where there is one."""
    return 56 if ALL[name].can.rated else 40


def over(fabric: Fabric, name: str, found: FlowList, scheme: Scheme | None = None, **more: object) -> Experiment:
    """A scheme over flows."""
    return Experiment(fabric, scheme or ALL[name], found, header_bytes=header_of(name), **more)  # type: ignore[arg-type]


def uniform(random: np.random.Generator, count: int, mean_bytes: int) -> Ints:
    """The paper's sizes: from 2 KB to twice the mean less that."""
    return np.asarray(random.integers(2_000, 2 * mean_bytes - 2_000, count, endpoint=True), np.int64)


def deadlines(random: np.random.Generator, count: int, mean_ms: float) -> Ints:
    """Exponential, 3 ms at least, in ps."""
    due_ms = np.maximum(LEAST_DEADLINE_MS, random.exponential(mean_ms, count))
    return np.asarray(np.rint(due_ms * MS), np.int64)


def to_one(hosts: int, target: int = 0) -> Ends:
    """Query aggregation: the others send to one, as evenly as they go."""
    senders = np.array([host for host in range(hosts) if host != target])

    def ends(random: np.random.Generator, count: int) -> tuple[Ints, Ints]:
        return random.permutation(senders)[np.arange(count) % len(senders)], np.full(count, target)

    return ends


def permuted(hosts: int) -> Ends:
    """Each host sends to one other and is sent to by one, drawn anew each time; flows go round the senders."""

    def ends(random: np.random.Generator, count: int) -> tuple[Ints, Ints]:
        order = random.permutation(hosts)
        follower = np.empty(hosts, np.int64)
        follower[order] = np.roll(order, -1)
        source = random.permutation(hosts)[np.arange(count) % hosts]
        return source, follower[source]

    return ends


def at_once(
    ends: Ends, count: int, mean_bytes: int, seed: tuple[int, ...], repeats: int, deadline_ms: float = 0.0
) -> FlowList:
    """Rounds of flows that begin at one moment; a round lasts at most twice what one link needs for all of it, and a
    quarter of a second."""
    period_ps = round(2 * count * mean_bytes * 8e3 + 0.25e12)

    def draw(random: np.random.Generator) -> tuple[Ints, Ints, Ints, Ints]:
        size = uniform(random, count, mean_bytes)
        due = deadlines(random, count, deadline_ms) if deadline_ms else np.zeros(count, np.int64)
        return size, *ends(random, count), due

    return rounds(draw, repeats, period_ps, seed)


def scales_of(repeats: dict[str, int], seeds: dict[str, int]) -> dict[str, Scale]:
    """`flows` of a scale is the rounds of a point."""
    return {name: Scale(name, repeats[name], tuple(range(1, 1 + seeds[name])), (1.0,)) for name in repeats}


SCALES = scales_of({"quick": 4, "medium": 20, "full": 40}, {"quick": 2, "medium": 3, "full": 10})
TREE_SAID = (
    "12 hosts at 1 Gb/s in two tiers below one root; 25.1 us a link one way, packets of 1,500 bytes (and 16 of header "
    "more for PDQ, D3, RCP); ports of 4 MB, first in first out. Schemes as on page pdq-3a."
)
NO_LOAD_SAID = "No load is set: which flows there are, and when they begin, stands above."
ROUNDS_SAID = (
    "A point is so many rounds, in one run and far apart; in each the flows are drawn anew and begin at one "
    "moment. The "
    "number of `flows a point` above is that of rounds. Cells: mean over seeds with its 95 % interval (Student's t)."
)
DEADLINES_SAID = "Sizes uniform, 2 to 198 KB; deadlines exponential, at least 3 ms."
MOST_SAID = (
    "The most flows: the counts {counts} were run; between the last at which 99 % of all flows are in time and "
    "the next "
    "along a straight line."
)


def unloaded(*pages: Page) -> tuple[Page, ...]:
    """Pages whose flows are listed or begin together: they say that they know no load."""
    return tuple(replace(page, settings=(*page.settings, NO_LOAD_SAID)) for page in pages)
