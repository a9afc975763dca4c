"""QCLIMB's Figs. 23 and 24 where flows announce their sizes: 144 hosts, by the share of bytes that is known."""

from __future__ import annotations

from lab.experiment.claims import Below, Claim
from lab.figures.grid import Column, Grid, fct
from lab.figures.page import FULL_FROM, Page, scales
from lab.figures.pages.qclimb.fabric import SETTINGS, SHARP, TRACES, in_jobs
from lab.sim import Experiment
from lab.sim.forecast import Known, Nothing

SHARES = {"none known": 0.0, "half": 0.5, "80 %": 0.8, "95 %": 0.95, "all": 1.0}
FOREST = "QCLIMB"
ALONE = "QCLIMB without forest"
SCHEMES = ("PIAS", f"{FOREST}; default", f"{ALONE}; default", f"{FOREST}; ours", f"{ALONE}; ours", "pFabric")
TRACE = "SGD"


def run(case: str, title: str, load: float, count: int, seed: int) -> Experiment:
    """One point: the flows that are not known have a forest's bounds, or none."""
    otherwise = Nothing() if title.startswith(ALONE) else SHARP
    slack_bytes = 0 if title.startswith(ALONE) else 100_000
    plain = title.replace(ALONE, FOREST)
    return in_jobs(TRACE, plain, load, count, seed, forecast=Known(SHARES[case], otherwise), slack_bytes=slack_bytes)


GRID = Grid(
    SCHEMES,
    run,
    "PIAS",
    columns=(
        Column("overall mean / PIAS", fct(), "PIAS"),
        Column("small mean / PIAS", fct("mean", "small"), "PIAS"),
        Column("small p99 / PIAS", fct("p99", "small"), "PIAS"),
        Column("large mean / PIAS", fct("mean", "large"), "PIAS"),
        Column("overall mean / pFabric", fct(), "pFabric"),
    ),
    claims=(
        Claim(f"{ALONE}; ours", "PIAS", "all", "mean", Below(0.9), "has no such source: half of the bytes", ("half",)),
        Claim(f"{ALONE}; ours", "PIAS", "all", "mean", Below(0.8), "has no such source: 95 % of the bytes", ("95 %",)),
        Claim(f"{ALONE}; ours", f"{ALONE}; default", "all", "mean", Below(1), "thresholds for known sizes", ("95 %",)),
    ),
    cases=tuple(SHARES),
    case="share of bytes known",
    x=SHARES,
)
PAGE = Page(
    name="qclimb-known",
    title="QCLIMB where flows announce their sizes: SGD's sizes, by the share of bytes known",
    settings=[
        *SETTINGS,
        "Known: of so many flows, whatever their size, the size is told exactly at the first byte, as messages that "
        "write their length do (docs/design/lengths.md). The others have the forecast above, or none at all.",
        f"Sizes: {TRACE}'s ({TRACES[TRACE]}). `default` leaves half of all bytes to the last priority, `ours` none.",
    ],
    scales=scales(480, 960, FULL_FROM, (0.7,)),
    runs=GRID.runs,
    tell=GRID.tell,
)
