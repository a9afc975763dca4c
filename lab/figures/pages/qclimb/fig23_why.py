"""Why QCLIMB's distance to PIAS is what it is: the fabric of Figs. 23 and 24 with one thing changed at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from lab.experiment.claims import AsPaper, Claim, Outcome
from lab.figures.grid import Column, Grid, Note, Told, counted, fct
from lab.figures.page import FULL_FROM, Page, Scale, Story, scales
from lab.figures.pages.qclimb.alphas import SAID as ALPHA_SAID
from lab.figures.pages.qclimb.alphas import ByAlpha
from lab.figures.pages.qclimb.fabric import (
    CELLS_SAID,
    DELAY,
    FABRIC,
    FORECAST,
    LOADS,
    OURS,
    PFABRIC,
    SHARP,
    SIZES_SAID,
    THIRD,
    TITLES,
    TRACES,
    at_40g,
)
from lab.sim import Bursty, Experiment, FlowList, Jobs, Leaves, Nothing, Permutation, Topology, ToRack, Workload
from lab.sim.forecast import Forecast
from lab.sim.scheme import Scheme
from lab.sim.tcp import PIAS_2015_DATA_MINING, PIAS_2015_WEB_SEARCH, PIAS_2016_WEB_SEARCH

SIZES = TRACES["PageRank"]
LOAD = 0.7
OURS_PIAS_COST = (126 * 1460, 3349 * 1460, 20564 * 1460, *(316_228_000 * n for n in (1, 2, 4, 8)))
"""The orchestrator's `optimise` of this table at load 0.7, 8 priorities, least cost as PIAS has it (the last four
lie beyond the largest flow: three thresholds are all it wants)."""
Flows = Callable[[Topology, float, int, int, Forecast], Workload | FlowList]


def poisson(**changes: Any) -> Flows:
    """Independent flows."""
    return lambda topology, load, count, seed, forecast: Workload(SIZES, forecast=forecast, **changes)


def jobs(width: int, ends: Any, spread: float = 0.1) -> Flows:
    """Bursts of flows of about one size."""
    return lambda topology, load, count, seed, forecast: Jobs(SIZES, width, ends, spread, forecast).flows(
        topology, load, count, seed
    )


Fabric = Callable[[Topology], Topology]


def scarce(base: Topology) -> Topology:
    """As oversubscribed as with pFabric's four spines: 4 of 7, 3 of 5."""
    return replace(base, spines=round(base.spines * 4 / 7))


def few_hosts(base: Topology) -> Topology:
    """A quarter of them: as many flows last four times as long."""
    return replace(base, hosts_per_leaf=4)


def other(base: Topology) -> Topology:
    """48 hosts for 144, and the reverse."""
    return FABRIC if base == THIRD else THIRD


@dataclass(frozen=True)
class Variant:
    """The base setting but for what is named."""

    group: str
    name: str
    flows: Flows = field(default_factory=poisson)
    fabric: Fabric = lambda base: base
    thresholds: tuple[int, ...] = PIAS_2015_WEB_SEARCH
    forecast: Leaves = FORECAST
    load: float = LOAD
    tcp: tuple[tuple[str, Any], ...] = ()
    part: float = 1.0
    """Of the scale's flows."""


VAGUE = Leaves(width=0.5, miss=0.001)
"""Lower bounds of 5 KB on average for small flows, 17 KB for medium, 20 KB for large ones: nearest to the paper's
observations O2 to O5 for PageRank (1.0 to 1.2 KB, 1.0 to 2.1 KB, 1.0 KB to 19 MB), but for its best large flows."""
PAIRS = jobs(48, "pairs")
SHUFFLE = jobs(49, "shuffle")
BASE = Variant("base", "base")
VARIANTS = (
    BASE,
    Variant("arrivals", "lognormal gaps, sigma 2", poisson(arrivals=Bursty(2.0))),
    Variant("arrivals", "jobs of 48 flows, any pairs", PAIRS),
    Variant("arrivals", "jobs of 144 flows, any pairs", jobs(144, "pairs")),
    Variant("arrivals", "jobs of 49: 7 hosts to 7", SHUFFLE),
    Variant("arrivals", "jobs of 16: many to one", jobs(16, "fan-in")),
    Variant("core", "scarce, 0.7 on the core", poisson(load_of="core"), scarce),
    Variant("core", "scarce, 0.7 on the hosts", fabric=scarce),
    Variant("thresholds", "PIAS 2016, web search", thresholds=PIAS_2016_WEB_SEARCH),
    Variant("thresholds", "PIAS 2015, data mining", thresholds=PIAS_2015_DATA_MINING),
    Variant("thresholds", "ours, mean slowdown", thresholds=OURS["PageRank"]),
    Variant("thresholds", "ours, PIAS's cost", thresholds=OURS_PIAS_COST),
    Variant("buffers", "146 KB a port", tcp=(("buffer_bytes", 146_000), ("host_buffer_bytes", 146_000))),
    Variant("buffers", "1 MB a port", tcp=(("buffer_bytes", 10**6), ("host_buffer_bytes", 10**6))),
    Variant("TCP", "least timeout 10 ms", tcp=(("least_timeout_us", 10_000.0), ("first_timeout_us", 10_000.0))),
    Variant("TCP", "no ECN", tcp=(("dctcp", False),)),
    Variant("TCP", "initial window 10", tcp=(("initial_window", 10),)),
    Variant("matrix", "to one rack", poisson(matrix=ToRack())),
    Variant("matrix", "permutation", poisson(matrix=Permutation())),
    Variant("length", "a quarter of the flows", part=0.25),
    Variant("length", "a quarter of the hosts", fabric=few_hosts),
    Variant("length", "48 hosts for 144 (144 for 48)", fabric=other),
    Variant("forecast", "known to a hundredth", forecast=SHARP),
    Variant("forecast", "known to a half", forecast=VAGUE),
    Variant("two at once", "jobs of 49, to a half", SHUFFLE, forecast=VAGUE),
    Variant("two at once", "jobs of 48, known to a hundredth", PAIRS, forecast=SHARP),
    Variant("two at once", "jobs of 49, to a hundredth", SHUFFLE, forecast=SHARP),
    Variant("two at once", "jobs of 16, to a hundredth", jobs(16, "fan-in"), forecast=SHARP),
    Variant(
        "three at once", "jobs of 49, a hundredth, window 10", SHUFFLE, forecast=SHARP, tcp=(("initial_window", 10),)
    ),
    Variant("three at once", "jobs of 48, a hundredth, ours", PAIRS, thresholds=OURS["PageRank"], forecast=SHARP),
    Variant("three at once", "jobs of 49, a hundredth, ours", SHUFFLE, thresholds=OURS["PageRank"], forecast=SHARP),
    Variant(
        "three at once",
        "jobs of 49, a hundredth, data mining",
        SHUFFLE,
        thresholds=PIAS_2015_DATA_MINING,
        forecast=SHARP,
    ),
)
BY_NAME = {variant.name: variant for variant in VARIANTS}
MATTERS = 0.05


def run(case: str, title: str, load: float, count: int, seed: int) -> Experiment:
    """The case is a variant. Forecasts are left out where nobody looks at them, so that such points are run once."""
    variant = BY_NAME[case]
    topology = variant.fabric(FABRIC if count >= FULL_FROM else THIRD)
    count = max(1, round(count * variant.part))
    forecast: Forecast = variant.forecast if title == "QCLIMB" else Nothing()
    scheme: Scheme = PFABRIC
    if title != "pFabric":
        scheme = replace(at_40g(TITLES[title], variant.thresholds), **dict(variant.tcp))
    workload = variant.flows(topology, load, count, seed, forecast)
    return Experiment(topology, scheme, workload, load=load, flows=count, seed=seed)


def what_matters(scale: Scale, told: Told, story: Story) -> Story:
    """What a change moved, and which variants lie where the paper does."""
    means = {
        name: {scheme: told.ratio(name, scheme, "PIAS", LOAD, fct()).value for scheme in ("QCLIMB", "QCLIMB-PS")}
        for name in BY_NAME
    }
    outcomes = {claim.cases[0]: outcome for claim, outcome in GRID.outcomes(scale, told).items()}
    found = verdicts(means, outcomes)
    return replace(story, verdicts=found, verdict=f"{found[0]} {found[-1]}")


def verdicts(means: Mapping[str, Mapping[str, float]], outcomes: Mapping[str, Outcome]) -> list[str]:
    """From each variant's ratios to PIAS, and from what the paper's claim comes to in it."""
    base = means[BASE.name]
    found = [f"Base: QCLIMB / PIAS {base['QCLIMB']:.2f}, with perfect sizes {base['QCLIMB-PS']:.2f}."]
    singles = [v for v in VARIANTS if "at once" not in v.group and v is not BASE]
    for scheme, what in (("QCLIMB-PS", "What perfect sizes gain on PIAS"), ("QCLIMB", "What forecasts gain on PIAS")):
        moved = {v.name: means[v.name][scheme] - base[scheme] for v in singles}
        more = [f"{name} ({by:+.2f})" for name, by in sorted(moved.items(), key=lambda each: each[1]) if by <= -MATTERS]
        less = [f"{name} ({by:+.2f})" for name, by in moved.items() if by >= MATTERS]
        found.append(
            f"{what} grows by {MATTERS} or more with: {', '.join(more) or 'nothing'}; shrinks with: "
            f"{', '.join(less) or 'nothing'}; every other change by itself moves it by less."
        )
    for v in VARIANTS:
        if "at once" in v.group:
            got = means[v.name]
            found.append(f"{v.name}: QCLIMB / PIAS {got['QCLIMB']:.2f}, perfect sizes {got['QCLIMB-PS']:.2f}.")
    inside = [name for name, outcome in outcomes.items() if outcome is Outcome.AT_SOME_LOADS]
    open_ = [name for name, outcome in outcomes.items() if outcome is Outcome.UNRESOLVED]
    found.append(
        f"The paper's QCLIMB / PIAS is {PAPER} over {len(LOADS)} loads, 0.3 to 0.9; here it is one load, so nothing is "
        f"called reproduced. As in the paper at {LOAD}, the sign beyond doubt: {'; '.join(inside) or 'none'}. Not "
        f"resolved: {'; '.join(open_) or 'none'}."
    )
    return found


PAPER = AsPaper(0.617, 0.909, LOADS)
"""Fig. 23, PageRank, overall mean. With perfect sizes 0.58 to 0.90: the same over 1.016 to 1.059 (Fig. 24)."""
DRAWN = ("QCLIMB", "QCLIMB-PS", "pFabric")
GRID = Grid(
    ("PIAS", *DRAWN),
    run,
    "PIAS",
    (
        Note("what", lambda case, scheme, load: BY_NAME[case].group),
        *(Column(f"{scheme} / PIAS", fct(), "PIAS", scheme) for scheme in DRAWN),
        Column("QCLIMB, small", fct("mean", "small"), "PIAS", "QCLIMB"),
        Column("QCLIMB, large", fct("mean", "large"), "PIAS", "QCLIMB"),
        Column("PS, medium", fct("mean", "medium"), "PIAS", "QCLIMB-PS"),
        Column("PS, large", fct("mean", "large"), "PIAS", "QCLIMB-PS"),
        Column("PIAS's drops", counted("drops"), digits=0),
        Column("timeouts", counted("timeouts"), digits=0),
    ),
    [Claim("QCLIMB", "PIAS", "all", "mean", PAPER, f"Fig. 23, PageRank, {name}", (name,)) for name in BY_NAME],
    tuple(BY_NAME),
    "changed to",
    tabled=("PIAS",),
    plotted=(Column("overall mean", fct(), "PIAS"),),
    also=what_matters,
)
PAGE = Page(
    name="qclimb-23-why",
    title="QCLIMB Fig. 23: what its distance to PIAS depends on (PageRank's sizes, load 0.7)",
    settings=[
        "The base is qclimb-23's setting: independent flows, Poisson arrivals, an ample core, PIAS's web-search "
        "thresholds of October 2015, 350 KB a port, least timeout 2 ms, DCTCP, initial window 50 packets, uniform "
        "pairs, sizes known to within a tenth; at full scale in its fabric of 144 hosts and 7 spines, below in a third "
        "of it (48 hosts, 5 spines). As many flows last three times as long in 48 hosts, four times in a quarter of "
        "the hosts. Each row changes what it names and nothing else; the last rows several things.",
        "Load 0.7: bytes with headers on the busiest host's link (the receivers' rack for `to one rack`), or on the "
        "core's links where the row says so. A scarce core is one of 4 spines for 144 hosts, 3 for 48: 0.7 on the "
        "hosts is 1.00 or 1.02 on the core.",
        "Known to a half: lower bounds of 5 KB on average for small flows, 17 KB for medium and 20 KB for large ones, "
        "nearest to what the paper says of PageRank's (1.0 to 1.2 KB, 1.0 to 2.1 KB, 1.0 KB to 19 MB; its "
        "observations O2 to O5).",
        "Jobs begin as a Poisson process, their load is that of the flows drawn; a job is so many flows at one "
        "moment, of sizes within some 10 % of each other (lab.sim.jobs). Any pairs: each flow between two random "
        "hosts, as a trace without addresses has it.",
        ALPHA_SAID,
        DELAY,
        SIZES_SAID,
        CELLS_SAID,
    ],
    scales=scales(400, 1_500, 5_000, (LOAD,)),
    runs=ByAlpha(GRID).runs,
    tell=ByAlpha(GRID).tell,
)
