"""QCLIMB (NSDI'24), Figs. 14, 22 to 25 and Table 2 on recorded traffic: bounds from forests, mistakes included."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lab.experiment.claims import AsPaper, Claim
from lab.figures.grid import Grid, Told
from lab.figures.page import FULL_FROM, Page, Scale, Story, scales
from lab.figures.pages.qclimb.alphas import ByAlpha
from lab.figures.pages.qclimb.fabric import DELAY, FABRIC, LOADS, LOADS_SAID, PFABRIC_SAID, TCP_SAID, THIRD, scheme_of
from lab.figures.pages.qclimb.paper import number, up_to
from lab.models.forests import FULL_TREES, TREES, recorded
from lab.sim import Experiment, Tcp
from lab.sim.replay import replay

PROVEN = "QCLIMB, proven"
SCHEMES = ("PIAS", "QCLIMB", PROVEN, "QCLIMB-PS", "QCLIMB-PP", "QCLIMB-FP", "pFabric", "pFabric, forecasts")
CASES = {
    f"{name} x{times}": (name, times)
    for name, times in (("spark", 1), ("spark", 100), ("training", 100), ("web", 1), ("web", 20), ("kv", 100))
}
DEPTHS = {"1": 1, "5": 5, "10": 10}


def trees_of(count: int) -> int:
    """Trees a forest for a run of so many flows."""
    return FULL_TREES if count >= FULL_FROM else TREES


def experiment(
    name: str, times: int, title: str, load: float, count: int, seed: int, depth: int = 10, proven: bool = False
) -> Experiment:
    """One point. Thresholds are the orchestrator's for earlier flows, multiplied like sizes; S is the first of them."""
    source, fabric = recorded(name, depth, trees_of(count)), FABRIC if count >= FULL_FROM else THIRD
    thresholds = tuple(times * value for value in source.threshold_bytes)
    scheme = scheme_of(title, thresholds)
    if isinstance(scheme, Tcp):
        scheme = replace(scheme, slack_bytes=thresholds[0])
    return Experiment(fabric, scheme, replay(source, fabric, load, count, seed, times, proven), load=load, seed=seed)


def run(case: str, title: str, load: float, count: int, seed: int) -> Experiment:
    """The case is a recording and a multiplier."""
    proven = title == PROVEN
    return experiment(*CASES[case], "QCLIMB" if proven else title, load, count, seed, proven=proven)


def by_depth(case: str, title: str, load: float, count: int, seed: int) -> Experiment:
    """The case is a depth."""
    return experiment("spark", 100, title, load, count, seed, depth=DEPTHS[case])


def how_good(scale: Scale, told: Told, story: Story) -> Story:
    """With how good the bounds are."""
    names = dict.fromkeys(CASES[case][0] for case in GRID.at(scale).cases)
    lines = [_bounds(name, 10, trees_of(scale.flows)) for name in names]
    return replace(story, verdicts=[*story.verdicts, *lines])


def how_good_by_depth(scale: Scale, told: Told, story: Story) -> Story:
    """With how good each depth's bounds are."""
    lines = [f"Depth {depth}: {_bounds('spark', depth, trees_of(scale.flows))}" for depth in DEPTHS.values()]
    return replace(story, verdicts=[*story.verdicts, *lines])


GRID = Grid(
    SCHEMES,
    run,
    "PIAS",
    claims=[  # the paper's are over its three traces; ours must hold in each recording
        Claim(scheme, base, size_class, "mean", needs, f"{figure}, each recording")
        for figure, scheme, base, size_class, needs in (
            ("Fig. 23", "QCLIMB", "PIAS", "all", AsPaper(0.505, 0.909, LOADS)),
            ("Fig. 23", "QCLIMB", "PIAS", "small", AsPaper(0.535, 0.99, LOADS)),
            ("Fig. 23, with what is proven", PROVEN, "PIAS", "all", AsPaper(0.505, 0.909, LOADS)),
            ("Fig. 23, with what is proven", PROVEN, "PIAS", "small", AsPaper(0.535, 0.99, LOADS)),
            ("Fig. 24", "QCLIMB", "QCLIMB-PS", "all", AsPaper(1.004, 1.059, LOADS)),
            ("Fig. 24", "QCLIMB", "pFabric", "all", AsPaper(1.046, 1.17, LOADS)),
            ("Fig. 14", "QCLIMB", "QCLIMB-FP", "all", up_to(0.84, 0.5)),
            ("Fig. 14", "QCLIMB", "QCLIMB-PP", "all", up_to(0.88, 0.5)),
            ("Fig. 25", "pFabric, forecasts", "pFabric", "all", up_to(1.8, 0.7)),
        )
    ],
    cases=tuple(CASES),
    case="recording",
    quick=("spark x100", "kv x100"),
    also=how_good,
)
GRID_22 = Grid(
    ("PIAS", "QCLIMB"),
    by_depth,
    "PIAS",
    claims=[
        Claim("QCLIMB", "PIAS", size_class, statistic, number(value, 0.5), f"Fig. 22, depth {case}", (case,))
        for case, size_class, statistic, value in (
            ("5", "all", "mean", 0.837),
            ("5", "small", "mean", 0.5),
            ("5", "small", "p99", 0.062),
            ("1", "all", "mean", 1.0),
        )
    ],
    cases=tuple(DEPTHS),
    case="depth",
    x={case: float(depth) for case, depth in DEPTHS.items()},
    also=how_good_by_depth,
)


def _bounds(name: str, depth: int, trees: int) -> str:
    """Coverage, and how much of a flow's size its bounds tell, for the larger tenth of the flows."""
    source = recorded(name, depth, trees)
    size, lower, upper = (
        values.astype(float) for values in (source.size_bytes, source.lower_bytes, source.upper_bytes)
    )
    inside = ((lower <= size) & (size <= upper)).mean()
    larger = size >= np.quantile(size, 0.9)
    proven = np.maximum(lower, source.proven_bytes)
    return (
        f"{name}: {100 * inside:.3f} % of {len(size):,} later flows within their bounds; of the larger tenth (from "
        f"{np.quantile(size, 0.9):,.0f} B) the median lower bound is {np.median((lower / size)[larger]):.2%} of the "
        f"size, with what is proven {np.median((proven / size)[larger]):.1%}."
    )


SETTINGS = [
    "lab/recordings: Spark, a parameter server, nginx with browsers, memcached; as libqclimb.so saw them at 100 Mb/s. "
    "Their later three fifths, foretold by forests that saw only earlier flows (`qclimb model foretell`: cut at 40, "
    "60 and 80 % of the flows, the paper's features, 100 trees of depth 10 at full scale and 10 below, leaf "
    "extremes, not calibrated).",
    "Played at full scale in the fabric of qclimb-23 (nine racks of 16 hosts at 40 Gb/s, seven uplinks of 100 Gb/s, "
    "ECMP), below in a third of it (48 hosts, five uplinks): a copy a host, each from another moment on, its four "
    "hosts drawn so that every host plays each recorded one once (lab/sim/replay.py). Seeds: which hosts meet, and "
    "from when each copy plays.",
    "Load: bytes with headers on the hosts' links, on average over hosts and the whole length; gaps are rescaled by "
    "one factor. Recorded sizes are small at 40 Gb/s (most flows fit into one window), so sizes and bounds are "
    "multiplied alike: x20, x100.",
    "Thresholds: what the orchestrator chooses by its defaults (load 0.6, half of the bytes left to the last priority) "
    "for the flows before, multiplied likewise, and S the first of them, as "
    "this project has it; for PIAS the same. (PIAS's web-search set begins at 67 KB: above most recorded flows.)",
    "proven: the lower bound is at least what the application had asked to send by the first ACK (DESIGN.md 3.1), here "
    "known from the start.",
    DELAY,
    TCP_SAID.replace("S = 100 KB", "S as above"),
    LOADS_SAID,
    PFABRIC_SAID,
    "Classes are by the size that is played: small up to 100 KB, medium up to 10 MB, large above; nan where there are "
    "none.",
]
WHY = (
    "Why QCLIMB is PIAS here: with beta = 1 a lower bound is the least size that any leaf met has seen, and "
    "services that send large flows send small ones too, so lower bounds are far below 1 % of the sizes that "
    "matter (last lines above); then only the upper bound says anything. What system calls prove is almost the "
    "whole size where programs write in large pieces (all but Spark), and QCLIMB with it does as with perfect "
    "sizes."
)
PAGE = Page(
    name="qclimb-recorded",
    title="QCLIMB Figs. 14, 23, 24 and 25 on recorded traffic with real forests",
    settings=SETTINGS,
    scales=scales(500, 1_500, 5_000, (0.7,), (0.5, 0.7)),
    notes=[
        WHY,
        "Fig. 14: -FP and -PP go by the forest's mean, which is nearer to large flows' sizes than a lower bound of "
        "all leaves: better for the mean where large flows are many (training), worse for small ones. Fig. 25: "
        "pFabric with that mean lets a large flow that outgrew it pass all others.",
    ],
    runs=ByAlpha(GRID).runs,
    tell=ByAlpha(GRID).tell,
)
PAGE_22 = Page(
    name="qclimb-22",
    title="QCLIMB Fig. 22: the depth of trees (recorded Spark, sizes x100)",
    settings=[
        *(line.replace("of depth 10", "of depth 1, 5 and 10") for line in SETTINGS),
        "The paper's figure is PageRank's, on its testbed, at load 0.5.",
    ],
    notes=[
        WHY,
        "So depth, which moves bounds within the lowest hundredth of a size, moves no FCT. Sizes that are known "
        "better do: page qclimb-23-why (to a hundredth, a tenth, a half), and here QCLIMB with what is proven "
        "(qclimb-recorded).",
    ],
    scales=scales(500, 1_500, 5_000, (0.5,)),
    runs=ByAlpha(GRID_22).runs,
    tell=ByAlpha(GRID_22).tell,
)
