"""QCLIMB (NSDI'24), Figs. 23 and 24 and Table 5, with flows that come in jobs: three traces, three threshold sets."""

from __future__ import annotations

from lab.figures.claims import Claim
from lab.figures.grid import Grid
from lab.figures.page import Page, Scale
from lab.figures.qclimb_23 import TRACES
from lab.figures.qclimb_jobs import FULL_FROM, SETTINGS, in_jobs

SCHEMES = ("PIAS", "PIAS; 2016", "PIAS; ours", "QCLIMB", "QCLIMB; ours", "QCLIMB-PS", "QCLIMB-PS; ours", "pFabric")
FIG_23 = {
    "K-Means": ((0.521, 0.826), (0.699, 0.99), (0.38, 0.99)),
    "PageRank": ((0.617, 0.909), (0.649, 0.99), (0.45, 0.99)),
    "SGD": ((0.505, 0.621), (0.535, 0.97), (0.575, 0.98)),
}
"""QCLIMB / PIAS over loads 0.3 to 0.9: overall mean, small mean, small p99."""
FIG_24 = {
    "K-Means": ((1.004, 1.014), (1.12, 1.17), (1.01, 1.028)),
    "PageRank": ((1.016, 1.059), (1.046, 1.131), (0.998, 1.057)),
    "SGD": (None, None, (1.004, 1.105)),
}
"""QCLIMB / QCLIMB-PS overall, QCLIMB / pFabric overall, QCLIMB / QCLIMB-PS small mean."""
TABLE_5 = {
    "K-Means": ((1 / 1.93, 1 / 1.21), (1 / 0.99, 1 / 0.99), (1 / 0.89, 1 / 0.85)),
    "PageRank": ((1 / 1.60, 1 / 1.11), (1 / 0.99, 1 / 0.99), (1 / 0.96, 1 / 0.91)),
    "SGD": ((1 / 1.36, 1 / 1.22), (1 / 1.06, 1.0), (1 / 1.10, 1 / 1.06)),
}
"""QCLIMB's large mean over PIAS's, QCLIMB-PS's, pFabric's; least and most over loads 0.3 to 0.9."""


def claims() -> tuple[Claim, ...]:
    """A line for each number of the paper's."""
    found = []
    for trace in TRACES:
        overall, small, tail = FIG_23[trace]
        to_perfect, to_pfabric, small_perfect = FIG_24[trace]
        large = zip(("PIAS", "QCLIMB-PS", "pFabric"), TABLE_5[trace], strict=True)
        for where, base, name, size_class, span in (
            ("Fig. 23", "PIAS", "mean", "all", overall),
            ("Fig. 23", "PIAS", "mean", "small", small),
            ("Fig. 23", "PIAS", "p99", "small", tail),
            ("Fig. 24", "QCLIMB-PS", "mean", "all", to_perfect),
            ("Fig. 24", "pFabric", "mean", "all", to_pfabric),
            ("Fig. 24", "QCLIMB-PS", "mean", "small", small_perfect),
            *(("Table 5", base, "mean", "large", span) for base, span in large),
        ):
            if span:
                found.append(Claim(f"{where}, {trace}", "QCLIMB", base, name, size_class, *span, cases=(trace,)))
    return tuple(found)


GRID = Grid(tuple(TRACES), SCHEMES, "PIAS", in_jobs, claims(), "trace")
PAGE = Page(
    name="qclimb-24",
    title="QCLIMB Figs. 23 and 24, Table 5: flows in jobs, three traces",
    settings=SETTINGS,
    scales={
        "quick": Scale("quick", 480, (1,), (0.5, 0.7)),
        "medium": Scale("medium", 960, (1, 2, 3), (0.5, 0.7)),
        "full": Scale("full", FULL_FROM, (1, 2, 3), (0.5, 0.7)),
    },
    runs=GRID.runs,
    tell=GRID.tell,
)
