"""QCLIMB (NSDI'24), Figs. 23 and 24 and Table 5, with flows that come in jobs: three traces, four threshold sets."""

from __future__ import annotations

from lab.experiment.claims import AsPaper, Claim
from lab.figures.grid import Grid
from lab.figures.page import FULL_FROM, Page, scales
from lab.figures.pages.qclimb.alphas import ByAlpha
from lab.figures.pages.qclimb.fabric import LOADS, LOADS_SAID, SETTINGS, TRACES, in_jobs
from lab.figures.pages.qclimb.paper import fig_23_and_24, table_5

SCHEMES = (
    *("PIAS", "PIAS; 2016", "PIAS; ours", "PIAS; default"),
    *("QCLIMB", "QCLIMB; ours", "QCLIMB; default", "QCLIMB-PS", "QCLIMB-PS; ours", "pFabric"),
)
GRID = Grid(
    SCHEMES,
    in_jobs,
    "PIAS",
    claims=(
        *fig_23_and_24(TRACES),
        # up to 6.8 % below pFabric's
        Claim("QCLIMB", "pFabric", "small", "p99", AsPaper(0.932, 1, LOADS), "Fig. 24, PageRank", ("PageRank",)),
        *table_5(TRACES),
    ),
    cases=tuple(TRACES),
    case="trace",
    drawn=("PIAS; default", "QCLIMB", "QCLIMB; default", "QCLIMB-PS", "pFabric"),
)
PAGE = Page(
    name="qclimb-24",
    title="QCLIMB Figs. 23 and 24, Table 5: flows in jobs, three traces",
    notes=[
        "Why large flows gain little on PIAS here (Table 5): under PIAS's web-search thresholds a flow is in the last "
        "queue under either scheme but for its last 2.9 MB (under QCLIMB) or its first (under PIAS). That is 2, 4 and "
        "17 % of the mean large flow of these K-Means, PageRank and SGD sizes, and nothing parts large flows from "
        "each other. Two things together give gains like the paper's 17 to 48, 10 to 38 and 18 to 26 %: thresholds "
        "among large flows (`ours`: up to 222, 17.5 and 9.9 MB) and sizes that tell them apart (QCLIMB-PS): rows "
        "`QCLIMB-PS; ours`. Either alone does not: a place known to within a hundredth holds nearly all of K-Means's "
        "and PageRank's large flows.",
    ],
    settings=[
        *SETTINGS,
        LOADS_SAID,
        "`; ours` on QCLIMB-PS too: how much of Table 5's distance thresholds leave to have at all.",
    ],
    scales=scales(480, 960, FULL_FROM, (0.5, 0.7), LOADS),
    runs=ByAlpha(GRID).runs,
    tell=ByAlpha(GRID).tell,
)
