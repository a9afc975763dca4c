"""MP-MLFQ and MLFQ packet by packet (Big-Spine, HPSR'24, has the fluid model only): does the gain outlive packets?"""

from __future__ import annotations

from dataclasses import replace

from lab.experiment.claims import Claim
from lab.figures.grid import Column, Grid, Told, counted, fct, slowdown
from lab.figures.page import Page, Scale, Story, scales
from lab.figures.pages.bigspine import fluid
from lab.figures.pages.bigspine.fabric import BIG_SPINE, ECMP_2, ECMP_5, FULL, SETTINGS, over
from lab.figures.pages.bigspine.fluid import FACTOR, FIVE, LOADS, MP, TOP, TWO
from lab.sim import Experiment
from lab.sim.fluid import FluidExperiment

PATHS = {TWO: ECMP_2, MP: BIG_SPINE, FIVE: ECMP_5}
QUICK = 400


def run(case: str, scheme: str, load: float, count: int, seed: int) -> Experiment | FluidExperiment | None:
    """The case is where the bottleneck is; the fluid model's points stand beside the core's."""
    if case == "fluid":
        return fluid.run(case, scheme, load, 100_000 if count <= QUICK else 1_000_000, seed)
    if case == "core":
        return over(PATHS[scheme], "pias", load, count, seed)
    return over(PATHS[scheme], "pias", load, count, seed, FULL) if load == TOP else None


def places(scale: Scale, told: Told, story: Story) -> Story:
    """With the two bottlenecks side by side."""
    gain, flows, hosts = (told.ratio(case, TWO, MP, TOP, slowdown()) for case in ("core", "fluid", "hosts"))
    line = (
        f"MLFQ N=2 over MP-MLFQ N=2 K=4 at {TOP}: {gain} where the core is the bottleneck ({flows} in the fluid "
        f"model), {hosts} where the hosts' links are: a Big-Spine has more priorities only where there are "
        "several spines to spread them over, and a host has one link."
    )
    return replace(story, verdicts=[*story.verdicts, line], verdict=f"{story.verdicts[0]} {line}")


GRID = Grid(
    tuple(PATHS),
    run,
    columns=(
        Column("mean slowdown", slowdown()),
        Column("p99", slowdown("p99"), digits=1),
        Column("MLFQ N=2 over it", slowdown(), TWO, turned=True),
        Column("fluid", slowdown(), TWO, turned=True, case="fluid", cases=("core",)),
        *(Column(f"{size}: N=2 over it", slowdown("mean", size), TWO, turned=True) for size in fluid.CLASSES),
        Column("mean FCT: N=2 over it", fct(), TWO, turned=True),
        Column("sent again, %", counted("retransmissions", "data_packets", 100), digits=3),
    ),
    claims=[
        Claim(MP, TWO, "all", "mean", FACTOR, "Fig. 5a packet by packet, the core is the bottleneck", ("core",)),
        Claim(MP, TWO, "all", "p99", FACTOR, "Fig. 5b packet by packet, the core is the bottleneck", ("core",)),
    ],
    cases=("core", "hosts", "fluid"),
    case="bottleneck",
    hidden=("fluid",),
    drawn=(MP, FIVE),
    plotted=(Column("MLFQ N=2 over it, mean slowdown", slowdown(), TWO, turned=True),),
    of="slowdown",
    also=places,
)
PAGE = Page(
    name="bigspine-packets",
    title="Big-Spine packet by packet: MP-MLFQ against MLFQ",
    settings=[
        *SETTINGS,
        "MLFQ and MP-MLFQ: PIAS's rule (priority by bytes sent). Three duplicate ACKs are a loss: a packet that "
        "overtook another on the next spine may be taken for one, and is counted as sent again.",
    ],
    scales=scales(QUICK, 3_000, 20_000, (0.5, 0.8)) | {"full": scales(0, 0, 20_000, LOADS)["full"]},
    runs=GRID.runs,
    tell=GRID.tell,
)
