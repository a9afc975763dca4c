"""QCLIMB over a Big-Spine: bounds and spines together, which neither paper has. PIAS and QCLIMB, on ECMP and on it."""

from __future__ import annotations

import numpy as np

from lab.figures.bigspine_fabric import BIG_SPINE, ECMP_2, ECMP_5, NARROW, OF_CORE, SETTINGS, Compared, over
from lab.figures.intervals import shown
from lab.figures.page import Key, Page, Panel, Points, Runs, Scale, Series, Story
from lab.sim import Experiment
from lab.sim.fluid import FluidExperiment

PATHS = (ECMP_2, BIG_SPINE, ECMP_5)
LINES = {
    **{("PIAS", path): "pias" for path in PATHS},
    **{("QCLIMB", path): "qclimb" for path in PATHS},
    ("QCLIMB drain", BIG_SPINE): "qclimb-drain",
    ("QCLIMB-PS", BIG_SPINE): "qclimb-ps",
}


def runs(scale: Scale) -> Runs:
    """A point a scheme, path, load and seed."""
    found: dict[Key, Experiment | FluidExperiment] = {}
    for (name, path), scheme_name in LINES.items():
        for load in scale.loads:
            scheme, routing = over(path, scheme_name, load, NARROW)
            for seed in scale.seeds:
                found[name, path, load, seed] = Experiment(NARROW, scheme, OF_CORE, load, scale.flows, seed, **routing)
    return found


def tell(scale: Scale, points: Points) -> Story:
    """The page's table, plots and verdicts."""
    compared = Compared(scale, points)
    base = ("PIAS", ECMP_2)
    rows = [
        {
            "load": f"{load}",
            "scheme": name,
            "paths": path,
            "mean slowdown": shown(*compared.value((name, path, load))),
            "p99": shown(*compared.value((name, path, load), "p99"), 1),
            "over PIAS, ECMP, 2 queues": shown(*compared.ratio((name, path, load), (*base, load))),
            **{
                f"{size} mean": shown(*compared.ratio((name, path, load), (*base, load), "mean", size))
                for size in ("small", "medium", "large")
            },
            "small p99": shown(*compared.ratio((name, path, load), (*base, load), "p99", "small")),
            "mean FCT": shown(*compared.ratio((name, path, load), (*base, load), "mean", "all", "fct_us")),
            "sent again, %": f"{100 * compared.counted((name, path, load), 'retransmissions'):.3f}",
        }
        for load in scale.loads
        for name, path in LINES
    ]

    def line(name: str, path: str, size_class: str) -> Series:
        each = [compared.ratio((name, path, load), (*base, load), "mean", size_class) for load in scale.loads]
        halves = [float(np.nan_to_num(half)) for _, half in each]
        return Series(f"{name}, {path}", scale.loads, [value for value, _ in each], halves)

    panels = [
        Panel(
            f"Mean slowdown, {size_class}",
            "load of the core",
            "over PIAS, ECMP, 2 queues",
            [line(name, path, size_class) for name, path in LINES if (name, path) != base],
        )
        for size_class in ("all", "small", "large")
    ]
    top = max(scale.loads)
    spines = {name: compared.ratio((name, BIG_SPINE, top), (name, ECMP_2, top)) for name in ("PIAS", "QCLIMB")}
    bounds = {path: compared.ratio(("QCLIMB", path, top), ("PIAS", path, top)) for path in PATHS}
    both = compared.ratio(("QCLIMB", BIG_SPINE, top), (*base, top))
    drain = compared.ratio(("QCLIMB drain", BIG_SPINE, top), ("QCLIMB", BIG_SPINE, top))
    perfect = compared.ratio(("QCLIMB-PS", BIG_SPINE, top), ("QCLIMB", BIG_SPINE, top))
    again = [100 * compared.counted(("QCLIMB", path, top), "retransmissions") for path in (ECMP_2, BIG_SPINE)]
    found = [
        f"What the spines give, Big-Spine over ECMP with the same 2 queues, mean slowdown at {top}: PIAS "
        f"{shown(*spines['PIAS'])}, "
        f"QCLIMB {shown(*spines['QCLIMB'])}.",
        "What the bounds give, QCLIMB over PIAS on the same paths: "
        + ", ".join(f"{path} {shown(*value)}" for path, value in bounds.items())
        + f". Both together, over PIAS on ECMP with 2 queues: {shown(*both)}.",
        f"Perfect sizes instead of forecasts on a Big-Spine: {shown(*perfect)} of QCLIMB's mean slowdown.",
        "QCLIMB's receiver takes a gap within a priority for loss; over several spines what went by another "
        "one may merely be late. "
        f"Sent again: {again[1]:.3f} % of packets on a Big-Spine, {again[0]:.3f} % on ECMP. Drain before "
        "promote instead: "
        f"{shown(*drain)} of its mean slowdown.",
    ]
    return Story(
        rows,
        panels,
        found,
        f"no paper has it: at {top} QCLIMB over a Big-Spine has {both[0]:.2f} of the mean slowdown of PIAS on "
        "ECMP with 2 queues; the spines "
        f"give QCLIMB {spines['QCLIMB'][0]:.2f}, the bounds {bounds[BIG_SPINE][0]:.2f} there",
    )


PAGE = Page(
    name="bigspine-qclimb",
    title="QCLIMB over a Big-Spine",
    settings=[
        *SETTINGS,
        "The `core` fabric. Forecasts are made up (lab.sim.forecast.Leaves): a size's place among all sizes "
        "known to within a tenth, "
        "one flow in a thousand gets another's bounds; S = 100 KB. Thresholds are PIAS's kind for all (the "
        "authors', by load).",
        "The engine's routing `priority` gives each priority but the last a spine of its own: QCLIMB's climb changes "
        "spines as it changes priorities.",
    ],
    scales={
        "quick": Scale("quick", 400, (1,), (0.5, 0.8)),
        "medium": Scale("medium", 3_000, (1, 2, 3), (0.5, 0.8)),
        "full": Scale("full", 20_000, (1, 2, 3), (0.4, 0.5, 0.6, 0.7, 0.8)),
    },
    runs=runs,
    tell=tell,
)
