"""QCLIMB over a Big-Spine: bounds and spines together, which neither paper has. PIAS and QCLIMB, on ECMP and on it."""

from __future__ import annotations

from dataclasses import replace

from lab.figures.grid import Column, Grid, Told, counted, fct, slowdown
from lab.figures.page import Page, Scale, Story, scales
from lab.figures.pages.bigspine.fabric import BIG_SPINE, ECMP_2, ECMP_5, SETTINGS, over
from lab.figures.pages.bigspine.fluid import LOADS
from lab.sim import Experiment

PATHS = (ECMP_2, BIG_SPINE, ECMP_5)
LINES = {
    **{f"PIAS, {path}": (path, "pias") for path in PATHS},
    **{f"QCLIMB, {path}": (path, "qclimb") for path in PATHS},
    f"QCLIMB drain, {BIG_SPINE}": (BIG_SPINE, "qclimb-drain"),
    f"QCLIMB-PS, {BIG_SPINE}": (BIG_SPINE, "qclimb-ps"),
}
BASE = f"PIAS, {ECMP_2}"


def run(case: str, scheme: str, load: float, count: int, seed: int) -> Experiment:
    """One point; the core is the bottleneck."""
    return over(*LINES[scheme], load, count, seed)


def what_gives(scale: Scale, told: Told, story: Story) -> Story:
    """With what spines, bounds, both, perfect sizes and drains do to the mean slowdown."""
    top = max(scale.loads)

    def ratio(scheme: str, base: str) -> str:
        return str(told.ratio("", scheme, base, top, slowdown()))

    again = [
        told.value("", f"QCLIMB, {path}", top, counted("retransmissions", "data_packets", 100)).value
        for path in (ECMP_2, BIG_SPINE)
    ]
    spines = {name: ratio(f"{name}, {BIG_SPINE}", f"{name}, {ECMP_2}") for name in ("PIAS", "QCLIMB")}
    bounds = {path: ratio(f"QCLIMB, {path}", f"PIAS, {path}") for path in PATHS}
    both, mine = ratio(f"QCLIMB, {BIG_SPINE}", BASE), f"QCLIMB, {BIG_SPINE}"
    lines = [
        f"What the spines give, Big-Spine over ECMP with the same 2 queues, mean slowdown at {top}: PIAS "
        f"{spines['PIAS']}, QCLIMB {spines['QCLIMB']}.",
        "What the bounds give, QCLIMB over PIAS on the same paths: "
        + ", ".join(f"{path} {value}" for path, value in bounds.items())
        + f". Both together, over PIAS on ECMP with 2 queues: {both}.",
        f"Perfect sizes instead of forecasts on a Big-Spine: {ratio(f'QCLIMB-PS, {BIG_SPINE}', mine)} of QCLIMB's "
        "mean slowdown.",
        "QCLIMB's receiver takes a gap within a priority for loss; over several spines what went by another one may "
        f"merely be late. Sent again: {again[1]:.3f} % of packets on a Big-Spine, {again[0]:.3f} % on ECMP. Drain "
        f"before promote instead: {ratio(f'QCLIMB drain, {BIG_SPINE}', mine)} of its mean slowdown.",
    ]
    verdict = (
        f"no paper has it: at {top} QCLIMB over a Big-Spine has {both} of the mean slowdown of PIAS on ECMP with 2 "
        f"queues; the spines give QCLIMB {spines['QCLIMB']}, the bounds {bounds[BIG_SPINE]} there"
    )
    return replace(story, verdicts=lines, verdict=verdict)


GRID = Grid(
    tuple(LINES),
    run,
    columns=(
        Column("mean slowdown", slowdown()),
        Column("p99", slowdown("p99"), digits=1),
        Column(f"over {BASE}", slowdown(), BASE),
        *(Column(f"{size} mean", slowdown("mean", size), BASE) for size in ("small", "medium", "large")),
        Column("small p99", slowdown("p99", "small"), BASE),
        Column("mean FCT", fct(), BASE),
        Column("sent again, %", counted("retransmissions", "data_packets", 100), digits=3),
    ),
    base=BASE,
    tabled=tuple(LINES),
    plotted=[Column(f"Mean slowdown, {which}", slowdown("mean", which), BASE) for which in ("all", "small", "large")],
    y=f"over {BASE}",
    also=what_gives,
)
PAGE = Page(
    name="bigspine-qclimb",
    title="QCLIMB over a Big-Spine",
    settings=[
        *SETTINGS,
        "The `core` fabric. Forecasts are made up (lab.sim.forecast.Leaves): a size's place among all sizes known to "
        "within a tenth, one flow in a thousand gets another's bounds; S = 100 KB. Thresholds are PIAS's kind for all "
        "(the authors', by load).",
        "The engine's routing `priority` gives each priority but the last a spine of its own: QCLIMB's climb changes "
        "spines as it changes priorities.",
    ],
    scales=scales(400, 3_000, 20_000, (0.5, 0.8)) | {"full": scales(0, 0, 20_000, LOADS)["full"]},
    runs=GRID.runs,
    tell=GRID.tell,
)
