"""MP-MLFQ and MLFQ packet by packet (Big-Spine, HPSR'24, has the fluid model only): does the gain outlive packets?"""

from __future__ import annotations

import numpy as np

from lab.figures.bigspine_fabric import (
    BIG_SPINE,
    ECMP_2,
    ECMP_5,
    FULL,
    NARROW,
    OF_CORE,
    OF_HOSTS,
    SETTINGS,
    Compared,
    over,
)  # fmt: skip
from lab.figures.intervals import shown
from lab.figures.page import Key, Page, Panel, Points, Runs, Scale, Series, Story
from lab.sim import Experiment
from lab.sim.fluid import MLFQ_KB, MP_KB, FluidExperiment

SCHEMES = {ECMP_2: "MLFQ N=2", BIG_SPINE: "MP-MLFQ N=2 K=4", ECMP_5: "MLFQ N=5"}
HOSTS_LOAD = 0.8
CLASSES = ("small", "medium", "large")


def runs(scale: Scale) -> Runs:
    """A point a place of the bottleneck, scheme, load and seed; the fluid model's beside it."""
    found: dict[Key, Experiment | FluidExperiment] = {}
    for path in SCHEMES:
        for seed in scale.seeds:
            for load in scale.loads:
                scheme, routing = over(path, "pias", load, NARROW)
                found["core", path, load, seed] = Experiment(
                    NARROW, scheme, OF_CORE, load, scale.flows, seed, **routing
                )
                fluid = 100_000 if scale.name == "quick" else 1_000_000
                found["fluid", path, load, seed] = {
                    ECMP_2: FluidExperiment("mlfq", 2, 2, MLFQ_KB[2, load], load, fluid, seed),
                    BIG_SPINE: FluidExperiment("mp", 4, 2, MP_KB[4, load], load, fluid, seed),
                    ECMP_5: FluidExperiment("mlfq", 4, 5, MLFQ_KB[5, load], load, fluid, seed),
                }[path]
            scheme, routing = over(path, "pias", HOSTS_LOAD, FULL)
            found["hosts", path, HOSTS_LOAD, seed] = Experiment(
                FULL, scheme, OF_HOSTS, HOSTS_LOAD, scale.flows, seed, **routing
            )
    return found


def tell(scale: Scale, points: Points) -> Story:
    """The page's table, plots and verdicts."""
    compared = Compared(scale, points)
    places = [("core", load) for load in scale.loads] + [("hosts", HOSTS_LOAD)]
    rows = [
        {
            "bottleneck": where,
            "load": f"{load}",
            "scheme": name,
            "mean slowdown": shown(*compared.value((where, path, load))),
            "p99": shown(*compared.value((where, path, load), "p99"), 1),
            "MLFQ N=2 over it": shown(*compared.ratio((where, ECMP_2, load), (where, path, load))),
            "fluid": shown(*compared.ratio(("fluid", ECMP_2, load), ("fluid", path, load))) if where == "core" else "",
            **{
                f"{size}: N=2 over it": shown(*compared.ratio((where, ECMP_2, load), (where, path, load), "mean", size))
                for size in CLASSES
            },
            "mean FCT: N=2 over it": shown(
                *compared.ratio((where, ECMP_2, load), (where, path, load), "mean", "all", "fct_us")
            ),
            "sent again, %": f"{100 * compared.counted((where, path, load), 'retransmissions'):.3f}",
        }
        for where, load in places
        for path, name in SCHEMES.items()
    ]

    def line(where: str, path: str, label: str) -> Series:
        each = [compared.ratio((where, ECMP_2, load), (where, path, load)) for load in scale.loads]
        return Series(label, scale.loads, [v for v, _ in each], [float(np.nan_to_num(half)) for _, half in each])

    panels = [
        Panel(
            "MLFQ N=2 over MP-MLFQ N=2 K=4, mean slowdown",
            "load of the core",
            "ratio",
            [line("core", BIG_SPINE, "packets"), line("fluid", BIG_SPINE, "fluid")],
        ),
        Panel(
            "MLFQ N=2 over MLFQ N=5, mean slowdown",
            "load of the core",
            "ratio",
            [line("core", ECMP_5, "packets"), line("fluid", ECMP_5, "fluid")],
        ),
    ]
    top = max(scale.loads)
    gain = compared.ratio(("core", ECMP_2, top), ("core", BIG_SPINE, top))
    fluid = compared.ratio(("fluid", ECMP_2, top), ("fluid", BIG_SPINE, top))
    hosts = compared.ratio(("hosts", ECMP_2, HOSTS_LOAD), ("hosts", BIG_SPINE, HOSTS_LOAD))
    by_size = {
        size: compared.ratio(("core", ECMP_2, top), ("core", BIG_SPINE, top), "mean", size)[0] for size in CLASSES
    }
    found = [
        f"The core is the bottleneck: MLFQ N=2 over MP-MLFQ N=2 K=4 at {top} is {shown(*gain)} packet by "
        f"packet, {shown(*fluid)} "
        f"in the fluid model; by class {', '.join(f'{size} {value:.2f}' for size, value in by_size.items())}.",
        f"The hosts' links are the bottleneck: {shown(*hosts)} at {HOSTS_LOAD}. A Big-Spine has more "
        "priorities only where there are "
        "several spines to spread them over; a host has one link.",
    ]
    sure = gain[0] - np.nan_to_num(gain[1]) > 1
    return Story(
        rows,
        panels,
        found,
        f"{'direction reproduced' if sure else 'not reproduced'} where the core is the bottleneck: MLFQ / "
        f"MP-MLFQ {gain[0]:.2f} at {top} "
        f"(fluid {fluid[0]:.2f}, paper about 1.15); {hosts[0]:.2f} where the hosts' links are",
    )


PAGE = Page(
    name="bigspine-packets",
    title="Big-Spine packet by packet: MP-MLFQ against MLFQ",
    settings=[
        *SETTINGS,
        "MLFQ and MP-MLFQ: PIAS's rule (priority by bytes sent). Three duplicate ACKs are a loss: a packet "
        "that overtook another on "
        "the next spine may be taken for one, and is counted as sent again.",
    ],
    scales={
        "quick": Scale("quick", 400, (1,), (0.5, 0.8)),
        "medium": Scale("medium", 3_000, (1, 2, 3), (0.5, 0.8)),
        "full": Scale("full", 20_000, (1, 2, 3), (0.4, 0.5, 0.6, 0.7, 0.8)),
    },
    runs=runs,
    tell=tell,
)
