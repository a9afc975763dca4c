"""QCLIMB (NSDI'24), Figs. 23 and 24: the simulated fabric, QCLIMB against PIAS, perfect sizes and pFabric."""

from __future__ import annotations

from lab.figures.grid import Column, Grid, fct
from lab.figures.page import Page, scales
from lab.figures.pages.qclimb.alphas import ByAlpha
from lab.figures.pages.qclimb.fabric import (
    CELLS_SAID,
    DELAY,
    FABRIC,
    FORECAST,
    LOADS,
    LOADS_SAID,
    PFABRIC,
    PFABRIC_SAID,
    SHARP,
    SIZES_SAID,
    TCP_SAID,
    TRACES,
    at_40g,
)
from lab.figures.pages.qclimb.paper import fig_23_and_24
from lab.sim import Experiment, Workload
from lab.sim.scheme import Scheme
from lab.sim.tcp import PIAS_2016_WEB_SEARCH

SCHEMES: dict[str, Scheme] = {
    "PIAS": at_40g("pias"),
    "PIAS 2016": at_40g("pias", PIAS_2016_WEB_SEARCH, "pias-2016"),
    "QCLIMB": at_40g("qclimb"),
    "QCLIMB, sharper": at_40g("qclimb", label="qclimb, sharper"),
    "QCLIMB-PS": at_40g("qclimb-ps"),
    "pFabric": PFABRIC,
}


def run(trace: str, title: str, load: float, count: int, seed: int) -> Experiment:
    """One point of independent flows."""
    workload = Workload(TRACES[trace], forecast=SHARP if title.endswith("sharper") else FORECAST)
    return Experiment(FABRIC, SCHEMES[title], workload, load=load, flows=count, seed=seed)


COLUMNS = (
    Column("overall mean / PIAS", fct(), "PIAS"),
    Column("small mean / PIAS", fct("mean", "small"), "PIAS"),
    Column("small p99 / PIAS", fct("p99", "small"), "PIAS"),
    Column("large mean / PIAS", fct("mean", "large"), "PIAS"),
    Column("overall mean / PS", fct(), "QCLIMB-PS"),
    Column("overall mean / pFabric", fct(), "pFabric"),
)
GRID = Grid(
    tuple(SCHEMES),
    run,
    "PIAS",
    COLUMNS,
    fig_23_and_24(["PageRank"]),
    ("PageRank",),
    "trace",
)
PAGE = Page(
    name="qclimb-23",
    title="QCLIMB Figs. 23 and 24: 144 hosts at 40/100 Gb/s",
    settings=[
        "9 racks of 16 hosts at 40 Gb/s, 100 Gb/s uplinks. The paper does not state the number of spines; four would "
        "be 1.6:1 oversubscribed and could not carry load 0.9: 7 here. ECMP.",
        "Load: bytes with headers on the hosts' links.",
        LOADS_SAID,
        DELAY,
        SIZES_SAID,
        "They are drawn independently, with Poisson arrivals and uniform pairs: no history, no bursts, no jobs.",
        "Forecasts are made up (lab.sim.forecast.Leaves): the size's place among all sizes is known to within a tenth, "
        "one flow in a thousand gets another flow's bounds; `QCLIMB, sharper`: within a hundredth. The paper's forest "
        "is trained on features that we do not have. A window of a tenth says next to nothing of the largest flows: "
        "their lower bound is that of the 90th percentile.",
        TCP_SAID,
        "Thresholds: PIAS's web-search set of October 2015 for all; `PIAS 2016`: the authors' later set for load 0.6.",
        PFABRIC_SAID,
        "A run is as long as its flows arrive: at full scale 11 to 17 ms of arrivals; the largest flow, 316 MB, takes "
        "65 ms alone. So the largest flows meet an emptying network; seeds tell how much that matters.",
        "FCT: first byte at the sender to last at the receiver.",
        CELLS_SAID,
    ],
    scales=scales(1_000, 2_000, 5_000, (0.6, 0.9), LOADS),
    notes=[
        "Why QCLIMB's distance to PIAS is not reproduced with independent flows, page qclimb-23-why tells; qclimb-24 "
        "has the same figures with flows that come in jobs.",
    ],
    runs=ByAlpha(GRID).runs,
    tell=ByAlpha(GRID).tell,
)
