"""QCLIMB (NSDI'24), Fig. 23 for PageRank's sizes, by both of the values with which DCTCP's alpha may begin."""

from __future__ import annotations

from lab.figures.grid import Column, Grid, counted, fct
from lab.figures.page import FULL_FROM, Page, scales
from lab.figures.pages.qclimb.alphas import ByAlpha
from lab.figures.pages.qclimb.fabric import (
    BDP_PACKETS,
    FORECAST,
    LOADS,
    LOADS_SAID,
    SETTINGS,
    SHARP,
    WINDOW,
    in_jobs,
)
from lab.figures.pages.qclimb.paper import fig_23
from lab.sim import Experiment

KINDS = {"independent": (FORECAST, BDP_PACKETS, True), "jobs": (SHARP, WINDOW, False)}
"""Forecast, initial window, and whether flows come alone: as on pages qclimb-23 and qclimb-24."""


def run(case: str, title: str, load: float, count: int, seed: int) -> Experiment:
    """The case is how flows come."""
    forecast, window, alone = KINDS[case]
    return in_jobs("PageRank", title, load, count, seed, forecast=forecast, window=window, alone=alone)


GRID = Grid(
    ("PIAS", "QCLIMB"),
    run,
    "PIAS",
    [
        Column("overall mean / PIAS", fct(), "PIAS"),
        Column("small mean / PIAS", fct("mean", "small"), "PIAS"),
        Column("small p99 / PIAS", fct("p99", "small"), "PIAS"),
        Column("large mean / PIAS", fct("mean", "large"), "PIAS"),
        Column("PIAS's small mean, us", fct("mean", "small"), scheme="PIAS", digits=1),
        Column("p99, us", fct("p99", "small"), scheme="PIAS", digits=1),
        Column("PIAS's drops", counted("drops"), scheme="PIAS", digits=0),
        Column("QCLIMB's", counted("drops"), scheme="QCLIMB", digits=0),
    ],
    fig_23("PageRank", *KINDS),
    tuple(KINDS),
    "flows",
    plotted=[
        Column("small mean", fct("mean", "small"), "PIAS"),
        Column("small p99", fct("p99", "small"), "PIAS"),
    ],
)
PAGE = Page(
    name="qclimb-dctcp",
    title="QCLIMB Fig. 23 by where DCTCP's alpha begins (PageRank's sizes)",
    settings=[
        *SETTINGS,
        LOADS_SAID,
        "`jobs`: as above, known to a hundredth. "
        "`independent`: Poisson arrivals, uniform pairs, sizes drawn one by one and known to a tenth, an initial "
        "window of 50 packets, as on page qclimb-23.",
    ],
    notes=[
        "In jobs the overall mean is 0.80 to 0.88 of PIAS's at all seven loads, by either alpha: the paper's sign, and "
        "half of its most. Independent flows' overall mean is PIAS's by either. Where alpha begins moves small flows: "
        "at 0 flows start without holding back, ports drop, and PIAS's small flows lose more by it than QCLIMB's; five "
        "seeds do not resolve how much.",
    ],
    scales=scales(480, 960, FULL_FROM, (0.5, 0.7), LOADS, (1, 2, 3, 4, 5)),
    runs=ByAlpha(GRID).runs,
    tell=ByAlpha(GRID).tell,
)
