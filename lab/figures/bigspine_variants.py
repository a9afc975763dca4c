"""Big-Spine (HPSR'24): other numbers of queues and spines, and MLFQ with its threshold swept, in the fluid model."""

from __future__ import annotations

import numpy as np

from lab.figures.bigspine_5a import PAGE as OVERALL
from lab.figures.intervals import over_seeds, shown
from lab.figures.page import Page, Panel, Points, Runs, Scale, Series, Story
from lab.sim.fluid import MLFQ_KB, MP_KB, FluidExperiment

LOAD = 0.8
SWEPT_KB = (500, 1000, 1500, 2000, 3003)
"""Thresholds of MLFQ with two queues; the last is the one that the authors' repository ships for load 0.8."""
MP_6_KB = (17.70, 133.36, 478.32, 1098.90, 2004.25, 3115.89)
"""Theirs for six spines at load 0.8."""
PROCESSOR_SHARING, SHIPPED, MP4, MP2, MP6, FIVE = (
    "MLFQ N=1", "MLFQ N=2", "MP-MLFQ N=2 K=4", "MP-MLFQ N=2 K=2", "MP-MLFQ N=2 K=6", "MLFQ N=5",
)  # fmt: skip
AUTHORS = {PROCESSOR_SHARING: 4.990, SHIPPED: 1.929, MP2: 1.681, MP4: 1.628, FIVE: 1.600}
"""Mean nFCT that their code gave when it was run (1e5 flows, one seed)."""
AUTHORS_SWEPT = {500: 2.040, 1000: 1.916, 1500: 1.882, 2000: 1.882, 3003: 1.929}


def swept(threshold_kb: int) -> str:
    """A line's name."""
    return f"MLFQ N=2, {threshold_kb} KB"


def runs(scale: Scale) -> Runs:
    """A point a variant and seed; the shipped two-queue threshold is the last of the sweep."""
    models: dict[str, tuple[str, int, int, tuple[float, ...]]] = {
        PROCESSOR_SHARING: ("mlfq", 2, 1, ()),
        **{swept(kb): ("mlfq", 2, 2, (float(kb),)) for kb in SWEPT_KB},
        FIVE: ("mlfq", 4, 5, MLFQ_KB[5, LOAD]),
        MP2: ("mp", 2, 2, MP_KB[2, LOAD]),
        MP4: ("mp", 4, 2, MP_KB[4, LOAD]),
        MP6: ("mp", 6, 2, MP_6_KB),
    }
    return {
        (name, seed): FluidExperiment("mp" if kind == "mp" else "mlfq", k, n, thresholds, LOAD, scale.flows, seed)
        for name, (kind, k, n, thresholds) in models.items()
        for seed in scale.seeds
    }


def tell(scale: Scale, points: Points) -> Story:
    """The page's table, plots and verdicts."""
    names = list(dict.fromkeys(str(key[0]) for key in points))
    theirs = AUTHORS | {swept(kb): value for kb, value in AUTHORS_SWEPT.items()}

    def each(name: str, statistic: str = "mean", size_class: str = "all") -> list[float]:
        return [points[name, seed].statistic(statistic, size_class, "slowdown") for seed in scale.seeds]

    mean = {name: over_seeds(each(name)) for name in names}
    rows = [
        {
            "scheme": name,
            "logical priorities": f"{priorities(name)}",
            "mean nFCT": shown(*mean[name], 3),
            "authors' code": f"{theirs.get(name, '')}",
            "p99": shown(*over_seeds(each(name, "p99"))),
            **{size: shown(*over_seeds(each(name, size_class=size))) for size in ("small", "medium", "large")},
        }
        for name in names
    ]
    fair = min((swept(kb) for kb in SWEPT_KB), key=lambda name: mean[name][0])
    gains = [over_seeds(list(np.array(each(fair)) / np.array(each(mp)))) for mp in (MP2, MP4, MP6)]
    panels = [
        Panel(
            "MLFQ N=2 by its threshold",
            "KB",
            "mean nFCT",
            [
                Series("here", SWEPT_KB, [mean[swept(kb)][0] for kb in SWEPT_KB]),
                Series("authors' code", SWEPT_KB, [AUTHORS_SWEPT[kb] for kb in SWEPT_KB]),
            ],
        ),
        Panel(
            "By logical priorities",
            "priorities",
            "mean nFCT",
            [
                Series("MLFQ (N = 1, 2, 5)", [1, 2, 5], [mean[name][0] for name in (PROCESSOR_SHARING, fair, FIVE)]),
                Series("MP-MLFQ N = 2, K = 2, 4, 6", [3, 5, 7], [mean[name][0] for name in (MP2, MP4, MP6)]),
            ],
        ),
    ]
    far = {name: mean[name][0] / value - 1 for name, value in theirs.items() if name in mean}
    found = [
        f"MLFQ with two queues is best at {fair.split()[-2]} KB of those tried: {mean[fair][0]:.3f}, against "
        f"{mean[swept(3003)][0]:.3f} at the shipped 3003 KB. Over that fair baseline MP-MLFQ gains "
        + ", ".join(f"{shown(*gain)} with K = {k}" for gain, k in zip(gains, (2, 4, 6), strict=True))
        + " (the paper: about 1.15 at high load).",
        f"More spines are more logical priorities: mean nFCT {mean[MP2][0]:.3f}, {mean[MP4][0]:.3f}, "
        f"{mean[MP6][0]:.3f} for "
        f"K = 2, 4, 6 (3, 5, 7 priorities over 2 queues); MLFQ with 5 queues of its own {mean[FIVE][0]:.3f}.",
        f"One queue is processor sharing: theory 1 / (1 - {LOAD}) = {1 / (1 - LOAD):.0f}, here "
        f"{shown(*mean[PROCESSOR_SHARING])}.",
        "Against the authors' own code: " + "; ".join(f"{name} {value:+.1%}" for name, value in far.items()) + ".",
    ]
    worst = max(abs(value) for name, value in far.items() if name != PROCESSOR_SHARING)
    return Story(
        rows,
        panels,
        found,
        f"{'reproduced' if worst < 0.03 else 'not reproduced'}: within {worst:.1%} of the authors' code; "
        "MP-MLFQ's gain over MLFQ "
        f"with its best threshold is {gains[1][0]:.2f} for K = 4 at {LOAD}",
    )


def priorities(name: str) -> int:
    """Logical ones: N, or K (N - 1) + 1."""
    queues = int(name.split("N=")[1].split()[0].rstrip(","))
    return int(name.split("K=")[1]) * (queues - 1) + 1 if "K=" in name else queues


PAGE = Page(
    name="bigspine-variants",
    title="Big-Spine: other N and K, and a fair baseline, fluid model",
    settings=[
        *OVERALL.settings,
        f"Load {LOAD} alone. The paper's figures have N = 2 with K = 4 and N = 5; these variants are what its "
        "repository has "
        "thresholds for, and the two-queue threshold swept.",
    ],
    scales=OVERALL.scales,
    runs=runs,
    tell=tell,
)
