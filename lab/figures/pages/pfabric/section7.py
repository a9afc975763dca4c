"""pFabric (SIGCOMM'13), section 7, which has words and no figures: stability over a row of links, weighted groups."""

from __future__ import annotations

import numpy as np

from lab.experiment.intervals import over_runs
from lab.figures.page import Key, Page, Panel, Points, Runs, Scale, Series, Story
from lab.figures.points import AnyExperiment
from lab.sim import NAMED, Experiment, FlowLevel, FlowList, Linear, Pfabric, Scheme, Topology, Watch, star

LINKS, HOSTS = 3, 8
"""Of the row, and of each of its switches."""
LONG_BYTES, CROSS_BYTES, CROSS_LOAD = 200_000, 20_000, 0.5
LOADS = (0.05, 0.1, 0.2, 0.3, 0.4)
BYTES_A_SECOND = 1.25e9
ROW = Linear(switches=LINKS + 1, hosts_per_switch=HOSTS, rate_bps=10**10, delay_ns=500)
FAR = 8
"""The long run over the short one: what does not keep up is left behind the more, the longer it goes on."""
SCHEMES: dict[str, Scheme] = {
    "shortest first, flow level": FlowLevel("flow-pdq", "pdq", terminates=False),
    "fair shares, flow level": NAMED["flow-rcp"],
    "pFabric": Pfabric(),
    "pFabric, 1 MB, 2 ms": Pfabric(buffer_bytes=1_000_000, timeout_us=2_000.0),
}
SIDES = "leaf-spine, pFabric"
SEEN = 0.1
"""Of long flows left behind: from here on the effect is seen."""
LEAF_SPINE = Topology(leaves=4, hosts_per_leaf=HOSTS, spines=2)


def row(load: float, seed: int, ms: int) -> FlowList:
    """Long flows over the whole row, and short ones over each of its links, from any host to any of the next switch."""
    random = np.random.default_rng([seed, round(100 * load), ms])
    parts = []
    for size, share, link in ((LONG_BYTES, load, -1), *((CROSS_BYTES, CROSS_LOAD, at) for at in range(LINKS))):
        count = random.poisson(share * BYTES_A_SECOND * ms / 1000 / size)
        source = random.integers(0, HOSTS, count) + HOSTS * max(link, 0)
        target = random.integers(0, HOSTS, count) + HOSTS * (LINKS if link < 0 else link + 1)
        parts.append(np.stack([random.integers(0, ms * 10**9, count), np.full(count, size), source, target]))
    flows = np.concatenate(parts, axis=1)
    return FlowList(*flows[:, np.argsort(flows[0], kind="stable")])


def uniform(load: float, seed: int, ms: int) -> FlowList:
    """The same two sizes between any two hosts of a leaf-spine: as much load on every host's link."""
    fabric = LEAF_SPINE
    random = np.random.default_rng([seed, round(100 * load), ms, 1])
    size = np.repeat([LONG_BYTES, CROSS_BYTES], [
        random.poisson(share * BYTES_A_SECOND * fabric.hosts * ms / 1000 / each)
        for share, each in ((load, LONG_BYTES), (CROSS_LOAD, CROSS_BYTES))
    ])  # fmt: skip
    start = random.integers(0, ms * 10**9, len(size))
    order = np.argsort(start, kind="stable")
    source = random.integers(0, fabric.hosts, len(size))
    target = (source + random.integers(1, fabric.hosts, len(size))) % fabric.hosts
    return FlowList(start[order], size[order], source, target)


def stability_runs(scale: Scale) -> Runs:
    """Each over some time, and over FAR times as much."""
    runs: dict[Key, AnyExperiment] = {}
    for seed in scale.seeds:
        for load in scale.loads:
            for ms in (scale.flows, FAR * scale.flows):
                found = row(load, seed, ms)
                for name, scheme in SCHEMES.items():
                    runs[name, load, ms, seed] = Experiment(ROW, scheme, found, end_s=ms / 1000)
                runs[SIDES, load, ms, seed] = Experiment(
                    LEAF_SPINE, Pfabric(), uniform(load, seed, ms), end_s=ms / 1000, routing="spray"
                )
    return runs


def left(points: Points, name: str, load: float, ms: int, seed: int) -> float:
    """Of long flows, the share that is not over when the last one begins."""
    point = points[name, load, ms, seed]
    return float(np.isnan(point.fct_us[point.size_bytes == LONG_BYTES]).mean())


def stability(scale: Scale, points: Points) -> Story:
    """Where the backlog stays, and does not shrink with time, a scheme is not stable."""
    short, far = scale.flows, FAR * scale.flows
    bound, rows, lost = (1 - CROSS_LOAD) ** LINKS, [], {}
    series = []
    for name in (*SCHEMES, SIDES):
        line = []
        for load in scale.loads:
            near = over_runs([left(points, name, load, short, seed) for seed in scale.seeds])
            later = over_runs([left(points, name, load, far, seed) for seed in scale.seeds])
            lost[name, load] = later.value
            line.append(later)
            rows.append(
                {
                    "scheme": name,
                    "load of long flows": f"{load}",
                    f"not over after {short} ms": near.text(),
                    f"after {far} ms": later.text(),
                    "theory": f"{max(0.0, 1 - bound / load):.2f}" if name.startswith("shortest") else "",
                }
            )
        series.append(Series(name, list(scale.loads), line))
    theory = [over_runs([max(0.0, 1 - bound / load)]) for load in scale.loads]
    series.append(Series("theory, small flows first", list(scale.loads), theory))
    top = max(scale.loads)
    first, fair, real, deep = (lost[name, top] for name in SCHEMES)
    verdicts = [
        f"The literature: over a row of links, small flows first is stable up to a load of {bound:.3f} of long flows "
        f"(each of {LINKS} links is free half of the time, all at once an eighth), fair shares up to {1 - CROSS_LOAD}. "
        f"Without packets, at {top}: {first:.0%} of long flows are left behind by shortest first (theory: "
        f"{1 - bound / top:.0%}), {fair:.0%} under fair shares: "
        f"{'holds' if first > 0.5 * (1 - bound / top) and fair < 0.5 * first else 'does not hold'}.",
        f"pFabric itself, packet by packet, at {top}: {real:.0%} behind; with buffers of 1 MB and timeouts of 2 ms "
        f"{deep:.0%}. A packet of a long flow waits at each link for a gap and need not find all links free at once; "
        "where buffers are small it is dropped there, and has used the links before it for nothing.",
        "The paper: not seen in data centres, whose paths have as many hops each. A leaf-spine under the same sizes, "
        f"with {CROSS_LOAD} of small flows: "
        + ", ".join(
            f"at {load} {lost[SIDES, load]:.0%} behind (the row: {lost['pFabric', load]:.0%}), "
            f"{'holds' if lost[SIDES, load] < SEEN else 'does not hold'}"
            for load in scale.loads[-2:]
        )
        + ".",
    ]
    return Story(
        rows, [Panel("Long flows left behind", "load of long flows", "share", series)], verdicts, " ".join(verdicts)
    )


WEIGHTS = ((1, 1), (2, 1), (4, 1), (9, 1))
STEP_US, BUSY = 100.0, slice(2, 12)
"""Of the watched port, and the steps in which both groups are busy at all weights."""
SIZES = (1_000_000, 3_000_000, 1_000_000, 3_000_000)
PORT = 5
FABRIC = star(5, 10**10, 500)


def both(seed: int) -> FlowList:
    """A short and a long flow in each of two groups, all to one host."""
    nothing = np.zeros(4, np.int64)
    sizes = np.array(SIZES) + np.random.default_rng(seed).integers(0, 10_000, 4)
    return FlowList(nothing, sizes, np.arange(1, 5), nothing, group=np.array([0, 0, 1, 1]))


def group_runs(scale: Scale) -> Runs:
    """By weight of the first group."""
    return {
        (weights[0], seed): Experiment(
            FABRIC, Pfabric(group_weights=weights), both(seed), watch=Watch(PORT, STEP_US), header_bytes=40
        )
        for weights in WEIGHTS
        for seed in scale.seeds
    }


def groups(scale: Scale, points: Points) -> Story:
    """The first group's share of the link, and within it the short flow's."""
    rows, shares, inside, gaps = [], [], [], []
    for weight, other in WEIGHTS:
        share, order = [], []
        for seed in scale.seeds:
            flows = [np.array(flow) for flow in points[weight, seed].counters["watched"]["of_flow"]]
            until = min(BUSY.stop, min(int(np.flatnonzero(flows[at])[-1]) for at in (0, 2)))
            bytes_ = [flow[BUSY.start : until].sum() for flow in flows]
            share.append(float(sum(bytes_[:2]) / sum(bytes_)))
            order.append(float(bytes_[0] / sum(bytes_[:2])))
        wanted = weight / (weight + other)
        gaps.append(abs(np.mean(share) - wanted))
        shares.append(over_runs(share))
        inside.append(over_runs(order))
        rows.append(
            {
                "weights": f"{weight}:{other}",
                "first group's share": shares[-1].text(3),
                "by its weight": f"{wanted:.3f}",
                "of it the short flow's": inside[-1].text(3),
            }
        )
    x = [float(weight) for weight, _ in WEIGHTS]
    panels = [
        Panel(
            "First group's share of the link",
            "weight over the other's",
            "share",
            [
                Series("here", x, shares),
                Series("by its weight", x, [over_runs([w / (w + o)]) for w, o in WEIGHTS]),
            ],
        ),
        Panel("Within it, the short flow's share", "weight over the other's", "share", [Series("here", x, inside)]),
    ]
    least = min(each.value for each in inside)
    verdict = (
        "The paper: weights divide bandwidth between groups, pFabric orders flows in each. Shares are within "
        f"{max(gaps):.3f} of the weights', and within the group at least {least:.0%} is the short flow's: "
        f"{'holds' if max(gaps) <= 0.05 and least > 0.8 else 'does not hold'}."
    )
    return Story(rows, panels, [verdict], verdict)


def _scales(quick: int, medium: int, full: int, loads: tuple[float, ...]) -> dict[str, Scale]:
    seeds = (1, 2, 3)
    return {
        "quick": Scale("quick", quick, (1,), loads),
        "medium": Scale("medium", medium, seeds, loads),
        "full": Scale("full", full, seeds, loads),
    }


STABILITY = Page(
    "pfabric-linear",
    "pFabric section 7: stability over a row of links",
    (
        f"{LINKS + 1} switches in a row, {HOSTS} hosts each, 10 Gb/s, 0.5 us a link (lab/sim/linear.py). Flows of "
        f"{LONG_BYTES // 1000} KB go from the first switch to the last; flows of {CROSS_BYTES // 1000} KB cross one "
        f"link each, load {CROSS_LOAD} on every one; Poisson arrivals. Load: payload on a link of the row.",
        "The number of `flows a point` is that of milliseconds in which flows arrive, then the run ends. A second run "
        f"goes on {FAR} times as long: who is stable leaves a smaller share behind, one that is not an equal one.",
        "Theory: strictly small flows first, long ones served only where all their links are free at once.",
        f"`{SIDES}`: {LEAF_SPINE.hosts} hosts below {LEAF_SPINE.leaves} leaves, {LEAF_SPINE.spines} spines, uplinks of "
        "40 Gb/s, any two hosts, spraying, the same two sizes and loads on hosts' links.",
        "The paper has no numbers here; the theory is Verloop, Borst and Nunez Queija (2005), which it names.",
    ),
    _scales(10, 20, 50, LOADS),
    stability_runs,
    stability,
)
GROUPS = Page(
    "pfabric-groups",
    "pFabric section 7: weighted groups of flows",
    (
        "Four hosts send to a fifth over 10 Gb/s, two in each of two groups: 1 and 3 MB, all at once.",
        "Pfabric.group_weights (engine/queues/groups.h): deficit round robin between groups, a buffer of 36,864 B "
        "for each, ACKs ahead of both. The paper names WRR; how buffers part and what ACKs do it leaves open.",
        f"Shares: of bytes at the shared port from {BUSY.start * STEP_US:.0f} us on, while both short flows last, "
        f"{(BUSY.stop - BUSY.start) * STEP_US:.0f} us at most.",
        "The paper has no numbers here.",
    ),
    _scales(4, 4, 4, (1.0,)),
    group_runs,
    groups,
)
