"""QCLIMB (NSDI'24), Figs. 21, 27 and 28/29: two queues, the slack S, and Homa; PageRank's sizes."""

from __future__ import annotations

from dataclasses import replace

from lab.experiment.claims import AsPaper, Claim
from lab.figures.grid import Grid, Told, fct
from lab.figures.page import FULL_FROM, Page, Scale, Story, scales
from lab.figures.pages.qclimb.alphas import ByAlpha
from lab.figures.pages.qclimb.fabric import (
    BDP_PACKETS,
    FORECAST,
    LOADS,
    LOADS_SAID,
    SETTINGS,
    SHARP,
    WINDOW,
    in_jobs,
)
from lab.figures.pages.qclimb.paper import number, up_to
from lab.sim import Experiment, Leaves

TWO_QUEUES = {"100 KB": 100_000, "67 KB": 67_160, "ours, 1.1 MB": 775 * 1460}
"""PIAS's kernel module's default for two priorities; the first of its eight; the orchestrator's `optimise` (mean
slowdown, load 0.7, two priorities)."""
SLACK_KB = (0, 20, 50, 100, 200, 1_000)
NO_ECN = ", no ECN"
KINDS: dict[str, tuple[bool, Leaves]] = {
    "jobs, to a hundredth": (False, SHARP),
    "jobs, to a tenth": (False, FORECAST),
    "independent, to a tenth": (True, FORECAST),
}
"""How flows begin, and to within what their place among all sizes is known."""
WHICH = (("all", "mean"), ("small", "mean"), ("small", "p99"))


def two_queues(case: str, title: str, load: float, count: int, seed: int) -> Experiment:
    """The case is the threshold, with or without marks."""
    threshold = TWO_QUEUES[case.removesuffix(NO_ECN)]
    return in_jobs("PageRank", title, load, count, seed, thresholds=(threshold,), dctcp=not case.endswith(NO_ECN))


def with_slack(case: str, title: str, load: float, count: int, seed: int) -> Experiment:
    """The case is S in KB."""
    return in_jobs("PageRank", title, load, count, seed, slack_bytes=1_000 * int(case))


def beside_homa(case: str, title: str, load: float, count: int, seed: int) -> Experiment:
    """The case is one of KINDS. Independent flows begin with a bandwidth-delay product, as on page qclimb-23."""
    alone, forecast = KINDS[case]
    window = BDP_PACKETS if alone else WINDOW
    return in_jobs("PageRank", title, load, count, seed, forecast=forecast, window=window, alone=alone)


GRID_21 = Grid(
    ("PIAS", "QCLIMB", "QCLIMB-PS"),
    two_queues,
    "PIAS",
    claims=[
        Claim("QCLIMB", "PIAS", *which, number(value, 0.7), where, cases)
        for where, cases in (("Fig. 21, each threshold", tuple(TWO_QUEUES)), ("Fig. 21, no ECN", (f"67 KB{NO_ECN}",)))
        for which, value in zip(WHICH, (0.714, 0.257, 0.037), strict=True)
    ],
    cases=(*TWO_QUEUES, f"67 KB{NO_ECN}"),
    case="threshold",
)


def best_slack(scale: Scale, told: Told, story: Story) -> Story:
    """With the S that was best."""
    mean = {case: sum(told.value(case, "QCLIMB", load, fct()).value for load in scale.loads) for case in GRID_27.cases}
    best = min(mean, key=lambda case: mean[case])
    spread = max(mean.values()) / min(mean.values()) - 1
    line = f"Best overall mean at S = {best} KB (the paper: 100 KB); from best to worst {spread:.1%}."
    return replace(story, verdicts=[*story.verdicts, line], verdict=f"{story.verdict} {line}")


GRID_27 = Grid(
    ("PIAS", "QCLIMB"),
    with_slack,
    "PIAS",
    claims=[
        Claim("QCLIMB", "PIAS", *which, AsPaper(*span, (0.7,)), "Fig. 27, each S")
        for which, span in zip(WHICH, ((0.817, 0.959), (0.378, 0.514), (0.066, 0.844)), strict=True)
    ],
    cases=tuple(str(kb) for kb in SLACK_KB),
    case="S, KB",
    x={str(kb): float(kb) for kb in SLACK_KB},
    also=best_slack,
)
GRID_28 = Grid(
    ("QCLIMB", "Homa", "pFabric", "Homa, forecasts", "pFabric, forecasts"),
    beside_homa,
    "QCLIMB",
    claims=[
        Claim(scheme, base, size_class, statistic, needs, f"{figure}, {kind}", cases)
        for kind, cases in (("jobs", tuple(KINDS)[:2]), ("independent", tuple(KINDS)[2:]))
        for figure, scheme, base, statistic, size_class, needs in (
            ("Fig. 28", "Homa", "QCLIMB", "mean", "all", up_to(0.875, *LOADS)),
            ("Fig. 28", "Homa", "QCLIMB", "mean", "medium", up_to(0.754, *LOADS)),
            ("Fig. 28", "Homa", "QCLIMB", "mean", "large", up_to(0.933, *LOADS)),
            ("Fig. 28", "QCLIMB", "Homa", "mean", "small", up_to(0.854, *LOADS)),
            ("Fig. 28", "QCLIMB", "Homa", "p99", "small", up_to(0.758, *LOADS)),
            ("Fig. 29", "QCLIMB", "pFabric, forecasts", "mean", "all", up_to(0.812, *LOADS)),
            ("Fig. 29", "QCLIMB", "Homa, forecasts", "mean", "all", up_to(0.744, *LOADS)),
            ("Fig. 29", "QCLIMB", "pFabric, forecasts", "mean", "small", AsPaper(0.129, 0.141, LOADS)),
            ("Fig. 29", "QCLIMB", "Homa, forecasts", "mean", "small", AsPaper(0.202, 0.255, LOADS)),
            ("Fig. 29", "QCLIMB", "pFabric, forecasts", "p99", "small", AsPaper(0.024, 0.034, LOADS)),
            ("Fig. 29", "QCLIMB", "Homa, forecasts", "p99", "small", AsPaper(0.053, 0.07, LOADS)),
        )
    ],
    cases=tuple(KINDS),
    case="flows, sizes known",
)
PAGE_21 = Page(
    name="qclimb-21",
    title="QCLIMB Fig. 21: two queues (PageRank's sizes)",
    settings=[
        *SETTINGS,
        "The paper's figure is its testbed's, at load 0.7; it does not state the threshold between the two queues.",
        "`No ECN`: hosts that do not react to marks, so that ports fill and drop.",
    ],
    notes=[
        "Small flows' gain of 74 % in the mean and 96 % at p99 is what PIAS's small flows lose by losses, we think: "
        "the paper tells of FCTs from 603 us to 784 ms, and its least timeout is 10 ms. Here marks keep small flows "
        "from losing packets; PIAS's first queue then serves them at once, and nothing is left to gain. Row `no ECN`: "
        "PIAS's small flows lose packets, QCLIMB's (which has known the large flows, and put them into the other "
        "queue, from their first packet on) fewer; p99 is the least timeout under either.",
        "The overall mean is that of large flows, which are in the last queue under either scheme.",
    ],
    scales=scales(480, 960, FULL_FROM, (0.7,)),
    runs=ByAlpha(GRID_21).runs,
    tell=ByAlpha(GRID_21).tell,
)
PAGE_27 = Page(
    name="qclimb-27",
    title="QCLIMB Fig. 27: the slack S (PageRank's sizes)",
    settings=[*SETTINGS, "The paper's figure is its testbed's, at load 0.7; which S besides 100 KB we do not know."],
    notes=[
        "Small flows gain as little at any S as on page qclimb-21, for the same reason: with marks PIAS's lose no "
        "packets. Of S itself the page shows that it hardly matters here (the intervals are wider than the "
        "differences), in the paper that it matters little to the mean.",
    ],
    scales=scales(480, 960, FULL_FROM, (0.7,)),
    runs=ByAlpha(GRID_27).runs,
    tell=ByAlpha(GRID_27).tell,
)
PAGE_28 = Page(
    name="qclimb-28",
    title="QCLIMB Figs. 28 and 29: beside Homa, and with sizes from forecasts (PageRank's sizes)",
    settings=[
        *SETTINGS,
        LOADS_SAID,
        "Homa as its paper and its authors' simulator have it: 50 packets unscheduled (one bandwidth-delay product), "
        "the 8 priorities by the workload (`lab.sim.homa_for`): unscheduled bytes are 2 % of PageRank's, so one "
        "priority is theirs and seven are for grants, and a receiver grants seven messages at once. 1 MB a port, "
        "timeout 2 ms, ECMP. QCLIMB's paper does not state its Homa's settings.",
        "Kinds of flows. `jobs`: as above. `independent`: Poisson arrivals, uniform pairs, sizes drawn one by "
        "one, an initial window of 50 packets, as on page qclimb-23; a claim about Homa may hold for one and not for "
        "the other.",
        "With forecasts: pFabric and Homa take the forecast's one number for the size. A place known to within a "
        "hundredth puts 6 % of the flows off by more than 100 KB and 0.7 MB on average, to within a tenth 25 % and "
        "1.1 MB; the paper's forest 34 % and 0.82 MB (Fig. 1). Where the paper says `up to`, its range here goes from "
        "that to no difference.",
    ],
    notes=[
        "Fig. 28: with independent flows Homa's lead over all flows and medium ones is the paper's, by either alpha; "
        "small flows are alike. With jobs the lead is larger: five messages of about one size to one host are served "
        "one after another by Homa's receiver, and side by side by DCTCP within one of QCLIMB's priorities, which then "
        "differ little.",
        "Fig. 29 with independent flows goes far beyond the paper's: a large flow that outgrows its forecast has rank "
        "1, or one packet left, to its end, before all others. What the paper's pFabric and Homa do then is not "
        "stated.",
    ],
    scales=scales(480, 960, FULL_FROM, (0.5, 0.7), LOADS),
    runs=ByAlpha(GRID_28).runs,
    tell=ByAlpha(GRID_28).tell,
)
