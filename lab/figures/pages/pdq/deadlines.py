"""PDQ (SIGCOMM'12), Fig. 3c: how many flows at once a scheme has in time, by the mean deadline."""

from __future__ import annotations

from lab.experiment.claims import AsPaper, AtLeast
from lab.figures.page import Page, Scale
from lab.figures.pages.pdq.aggregation import RATE_BPS, TREE
from lab.figures.pages.pdq.lines import OPTIMUM, Beside, Capacity, most_of
from lab.figures.pages.pdq.settings import (
    DEADLINES_SAID,
    MOST_SAID,
    ROUNDS_SAID,
    SCALES,
    TREE_SAID,
    at_once,
    over,
    to_one,
)
from lab.sim import Experiment, FlowList

COUNTS = (1, 2, 4, 6, 8, 10, 12, 15, 20, 25)
SCHEMES = ("PDQ(Full)", "PDQ(ES+ET)", "PDQ(ES)", "PDQ(Basic)", "D3", "RCP", "TCP", "8 priorities")


def flows(mean_ms: float, count: int, seed: int, scale: Scale) -> FlowList:
    """The same under all schemes."""
    return at_once(to_one(TREE.hosts), count, 100_000, (seed, count, round(mean_ms)), scale.flows, mean_ms)


def make(mean_ms: float, name: str, seed: int, count: int, scale: Scale) -> Experiment:
    """A point."""
    return over(TREE, name, flows(mean_ms, count, seed, scale))


FIGURE = Capacity(
    "mean deadline, ms",
    (20, 30, 40, 50, 60),
    SCHEMES,
    lambda *_: None,
    "flows at 99 % in time",
    claims=(
        Beside("PDQ(Full)", "D3", AtLeast(3.0), "the paper: more than 3"),
        Beside("PDQ(Full)", OPTIMUM, AsPaper(0.95, 1.0), "near-optimal, read as 0.95"),
        Beside("PDQ(Full)", "8 priorities", AtLeast(1.0), "what stock switches give, no claim of the paper's"),
    ),
    counts=COUNTS,
    make=make,
    share=lambda mean_ms, seed, count, scale: most_of(flows(mean_ms, count, seed, scale), RATE_BPS),
)
PAGE = Page(
    "pdq-3c",
    "PDQ Fig. 3c: flows that can be in time, by deadline",
    (
        TREE_SAID,
        "Eleven hosts send to the twelfth, as evenly as they go.",
        DEADLINES_SAID,
        MOST_SAID.format(counts=", ".join(map(str, COUNTS))),
        "Optimum: all bytes at 1 Gb/s without headers and round trips, earliest deadline first with the fewest "
        "dropped.",
        ROUNDS_SAID,
    ),
    SCALES,
    FIGURE.runs,
    FIGURE.tell,
    (
        "A deadline is 3 ms for one flow in seven at a mean of 20 ms, whatever comes with it: with few flows at once "
        "the optimum itself loses one in a hundred.",
    ),
)
