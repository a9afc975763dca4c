"""pFabric (SIGCOMM'13), Figs. 17a to 17c: what a few priority queues by flow size reach beside pFabric itself."""

from __future__ import annotations

from dataclasses import replace

from lab.experiment.claims import AsPaper, AtMost, Below, Claim
from lab.experiment.intervals import Interval, over_runs
from lab.figures.grid import Column, Grid, Note, Told, counted, fct, slowdown
from lab.figures.page import FULL_FROM, Page, Scale, Story, scales
from lab.figures.pages.pfabric.mg1 import server
from lab.figures.pages.pfabric.queues import LONG, SETTINGS, TABLE, by_size, experiment
from lab.sim import Experiment, Pfabric
from lab.sim.sizes import size_table

QUEUES = (2, 4, 8)
EQUAL, DCTCP, PFABRIC = "4 queues, equal counts", "8 queues, DCTCP", "pFabric"
OPTIMAL = tuple(f"{n} queues" for n in QUEUES)
LONG_WINDOWS = ", long windows"
UNBOUND = tuple(f"{n} queues{LONG_WINDOWS}" for n in (2, 8))
SCALES = scales(500, 1_500, FULL_FROM, (0.4, 0.8))
TOP = 0.8
CLOSE = 1.1
"""The paper's `approaches pFabric's performance`, as we read it."""


def run(case: str, scheme: str, load: float, count: int, seed: int) -> Experiment:
    """One point; queues part where the M/G/1 model has them, or at equal counts."""
    if scheme == PFABRIC:
        return experiment(Pfabric(), load, count, seed)
    if scheme == EQUAL:
        ends = tuple(int(size) for size in size_table(TABLE).quantile([0.25, 0.5, 0.75]))
        return experiment(by_size(ends), load, count, seed)
    ends = server(TABLE, load).best_ends(int(scheme.split()[0]))
    window = LONG if scheme.endswith(LONG_WINDOWS) else 23
    return experiment(by_size(ends, scheme == DCTCP, window), load, count, seed)


def rise(scale: Scale, told: Told, scheme: str) -> Interval:
    """The p99 of small flows at the highest load over that at the lowest."""
    low, high = (told.each("", scheme, load, slowdown("p99", "small")) for load in (min(scale.loads), max(scale.loads)))
    return over_runs((b / a for a, b in zip(low, high, strict=True)), ratios=True)


def jumps(scale: Scale, told: Told, story: Story) -> Story:
    """With how the p99 of small flows rises with the load, and what is dropped."""
    low, top = min(scale.loads), max(scale.loads)
    rises = {name: rise(scale, told, name) for name in GRID_B.schemes}
    lost = {name: told.value("", name, top, DROPPED).value for name in GRID_B.schemes}
    lines = [
        "With 8 queues 80 of the 150 packets are reserved and 70 shared. From load "
        f"{low} to {top} the p99 of small flows rises by "
        + ", ".join(f"{rises[name]} with {name}" for name in ("8 queues", "2 queues", PFABRIC))
        + f"; 8 queues then drop {lost['8 queues']:.2f} % of packets.",
        "With windows that nothing bounds, so that ports fill, by "
        + ", ".join(f"{rises[name]} with {name} (which drop {lost[name]:.2f} %)" for name in reversed(UNBOUND))
        + ".",
    ]
    return replace(story, verdicts=[*story.verdicts, *lines], verdict=f"{story.verdict} {lines[0]}")


def equal_counts(scale: Scale, told: Told, story: Story) -> Story:
    """With the sizes at which queues of equal counts part."""
    equal = ", ".join(f"{size / 1000:.0f}" for size in size_table(TABLE).quantile([0.25, 0.5, 0.75]))
    normal, plain = (told.ratio("", "4 queues", EQUAL, max(scale.loads), of()) for of in (slowdown, fct))
    line = (
        f"Equal counts part at {equal} KB. Optimal over equal at {max(scale.loads)}: {normal} as mean normalised FCT, "
        f"{plain} as mean FCT (the paper: more than 30 % lower)."
    )
    return replace(story, verdicts=[*story.verdicts, line], verdict=f"{story.verdict} {line}")


NORMALISED = Column("mean normalised FCT", slowdown())
SMALL_P99 = Column("p99 normalised FCT, small", slowdown("p99", "small"))
DROPPED = counted("drops", "data_packets", 100)
GRID_A = Grid(
    (*OPTIMAL, DCTCP, PFABRIC),
    run,
    columns=(
        NORMALISED,
        Column("over pFabric's", slowdown(), PFABRIC),
        Column("mean FCT over pFabric's", fct(), PFABRIC),
        Column("small mean FCT over", fct("mean", "small"), PFABRIC),
        Column("large mean FCT over", fct("mean", "large"), PFABRIC),
    ),
    claims=[
        Claim("8 queues", PFABRIC, "all", "mean", AtMost(CLOSE), "Fig. 17a, close to pFabric (read as within 10 %)"),
        Claim("8 queues", "2 queues", "all", "mean", Below(), "Fig. 17a, more queues are better"),
    ],
    plotted=(NORMALISED,),
    y="FCT / alone",
    of="slowdown",
)
GRID_B = replace(
    GRID_A,
    schemes=(*OPTIMAL, DCTCP, *UNBOUND, PFABRIC),
    columns=(
        SMALL_P99,
        Column("p99 FCT, small, us", fct("p99", "small"), digits=0),
        Column("over 2 queues'", slowdown("p99", "small"), "2 queues"),
        Column("dropped, % of packets", DROPPED),
    ),
    claims=[
        Claim(two, eight, "small", "p99", Below(), f"Fig. 17b, 8 queues' tail is the longer one{of}")
        for two, eight, of in (("2 queues", "8 queues", ""), (*UNBOUND, LONG_WINDOWS))
    ],
    plotted=(SMALL_P99,),
    also=jumps,
)

GRID_C = replace(
    GRID_A,
    schemes=("4 queues", EQUAL),
    columns=(
        Note(
            "optimal part at, KB",
            lambda case, scheme, load: ", ".join(f"{end / 1000:.0f}" for end in server(TABLE, load).best_ends(4)),
        ),
        Column("mean normalised FCT", slowdown(), scheme="4 queues"),
        Column("equal counts", slowdown(), scheme=EQUAL),
        Column("optimal / equal", slowdown(), EQUAL),
        Column("mean FCT, optimal / equal", fct(), EQUAL),
        *(Column(size, slowdown("mean", size), EQUAL) for size in ("small", "medium", "large")),
    ),
    claims=[Claim("4 queues", EQUAL, "all", "mean", AsPaper(0.7, 0.7, (TOP,)), "Fig. 17c")],
    tabled=("4 queues",),
    also=equal_counts,
)
THRESHOLDS = (
    "Where queues part: the exact minimum of the M/G/1 model's mean normalised FCT for each load and number of queues "
    "(lab/figures/pages/pfabric/mg1.py). The paper's own thresholds are not known to us beyond Fig. 16's two."
)
OTHERS = (
    f"`{DCTCP}`: the same queues under DCTCP (marks from 15 packets on in a 10G port, 60 at 40G, least timeout 2 ms, "
    "alpha begins at 1).",
    "pFabric: YAPS's parameters (36,864 B a port, windows 12 to 15 packets, timeout 45 us), ECMP as the others.",
)
LONG_SAID = (
    f"`{LONG_WINDOWS[2:]}`: the same TCP with windows of up to {LONG:,} packets in place of 23: only losses hold it "
    "back."
)


def _page(letter: str, title: str, grid: Grid, *more: str) -> Page:
    settings = [*SETTINGS, THRESHOLDS, *more]
    return Page(f"pfabric-17{letter}", f"pFabric Fig. 17{letter}: {title}", settings, SCALES, grid.runs, grid.tell)


A = _page("a", "average FCT with 2, 4 and 8 queues", GRID_A, *OTHERS)
B = _page("b", "small flows' p99 with 2, 4 and 8 queues", GRID_B, *OTHERS, LONG_SAID)
C = _page("c", "four queues, optimal against equal counts", GRID_C)
