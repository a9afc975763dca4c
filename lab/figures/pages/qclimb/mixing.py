"""QCLIMB (NSDI'24), Figs. 13, 20 and 21: TensorFlow's sizes, PIAS's flows beside QCLIMB's, four queues."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lab.experiment.claims import AsPaper, Claim
from lab.figures.grid import Grid
from lab.figures.page import FULL_FROM, Page, scales
from lab.figures.pages.qclimb.alphas import ByAlpha
from lab.figures.pages.qclimb.fabric import SETTINGS, SHARP, WIDTH, WINDOW, fabric_of, in_jobs, scheme_of
from lab.figures.pages.qclimb.paper import number, up_to
from lab.sim import Experiment, FlowList, Jobs, Nothing, Tcp
from lab.sim.wire import UNKNOWN_BYTES

TENSORFLOW = "flux_tensorflow_est_bytes"
LOADS_13 = (0.3, 0.5, 0.7, 0.9)
SHARES = {"0.2": 0.2, "0.4": 0.4, "0.6": 0.6, "0.8": 0.8}
MIXED = "QCLIMB and PIAS"
FOUR = {
    "67 KB, 1.6, 2.5 MB": (67_160, 1_582_640, 2_506_820),
    "default": tuple(1448 * n for n in (45, 1039, 8397)),
}
"""Of PIAS's set the first, second and fourth; `choose` of the orchestrator."""


def tensorflow(case: str, title: str, load: float, count: int, seed: int) -> Experiment:
    """Flows in jobs, as other traces'."""
    forecast = Nothing() if title in ("PIAS", "QCLIMB-PS") else SHARP
    fabric = fabric_of(count)
    flows = Jobs(TENSORFLOW, WIDTH, "shuffle", forecast=forecast).flows(fabric, load, count, seed)
    return Experiment(fabric, scheme_of(title, window=WINDOW), flows, load=load, flows=count, seed=seed)


def mixed(case: str, title: str, load: float, count: int, seed: int) -> Experiment:
    """The case is the share of flows with bounds; those without go by what they have sent, as PIAS's."""
    whole = in_jobs("PageRank", "QCLIMB" if title == MIXED else title, load, count, seed)
    if title != MIXED:
        return whole
    flows, scheme = whole.workload, whole.scheme
    assert isinstance(flows, FlowList) and isinstance(scheme, Tcp)
    assert flows.lower_bytes is not None and flows.upper_bytes is not None
    known = np.random.default_rng([seed, 20]).random(count) < SHARES[case]
    return replace(
        whole,
        scheme=replace(scheme, name="qclimb-mixed", tagging="qclimb-mixed"),
        workload=replace(
            flows,
            lower_bytes=np.where(known, flows.lower_bytes, 0).astype(np.uint64),
            upper_bytes=np.where(known, flows.upper_bytes, UNKNOWN_BYTES).astype(np.uint64),
        ),
    )


def four_queues(case: str, title: str, load: float, count: int, seed: int) -> Experiment:
    """The case is a set of three thresholds."""
    return in_jobs("PageRank", title, load, count, seed, thresholds=FOUR[case])


GRID_13 = Grid(
    ("PIAS", "QCLIMB", "QCLIMB-PS"),
    tensorflow,
    "PIAS",
    claims=(
        Claim("QCLIMB", "PIAS", "all", "mean", up_to(0.189), "Fig. 13"),
        Claim("QCLIMB", "PIAS", "small", "mean", up_to(0.3), "Fig. 13"),
        Claim("QCLIMB", "PIAS", "small", "p99", up_to(0.036), "Fig. 13"),
        Claim("QCLIMB", "PIAS", "medium", "mean", AsPaper(0.558, 0.773), "Fig. 13, flows above 100 KB"),
    ),
)
GRID_20 = Grid(
    ("PIAS", MIXED, "QCLIMB"),
    mixed,
    "PIAS",
    claims=(
        Claim(MIXED, "PIAS", "small", "mean", number(0.9, 0.7), "Fig. 20, 0.2 of the flows", ("0.2",)),
        Claim(MIXED, "PIAS", "all", "mean", up_to(0.8, 0.7), "Fig. 20, between PIAS and QCLIMB", tuple(SHARES)),
    ),
    cases=tuple(SHARES),
    case="share of QCLIMB",
    x=SHARES,
)
GRID_FOUR = Grid(
    ("PIAS", "QCLIMB", "QCLIMB-PS"),
    four_queues,
    "PIAS",
    claims=tuple(
        Claim("QCLIMB", "PIAS", *which, up_to(0.714, 0.7), "Fig. 21, four queues: QCLIMB outperforms PIAS")
        for which in (("all", "mean"), ("small", "mean"), ("small", "p99"))
    ),
    cases=tuple(FOUR),
    case="thresholds",
)
PAGE_13 = Page(
    "qclimb-13",
    "QCLIMB Fig. 13: TensorFlow's sizes",
    (
        *SETTINGS,
        "The paper's figure is its testbed's. Sizes: Flux's TensorFlow trace, estimated from its FCTs, since the trace "
        "itself cannot be had; 77 % below 100 bytes, as in the paper.",
    ),
    scales(480, 960, FULL_FROM, (0.5, 0.7), LOADS_13),
    ByAlpha(GRID_13).runs,
    ByAlpha(GRID_13).tell,
)
PAGE_20 = Page(
    "qclimb-20",
    "QCLIMB Fig. 20: a share of the flows has bounds (PageRank's sizes)",
    (
        *SETTINGS,
        "The paper's figure is its testbed's, at load 0.7. Which flows have bounds is drawn flow by flow; the "
        "others go by "
        "what they have sent, from PIAS's first threshold on (the engine's tagging qclimb-mixed).",
    ),
    scales(480, 960, FULL_FROM, (0.7,)),
    ByAlpha(GRID_20).runs,
    ByAlpha(GRID_20).tell,
)
PAGE_FOUR = Page(
    "qclimb-21-four",
    "QCLIMB Fig. 21: four queues (PageRank's sizes)",
    (
        *SETTINGS,
        "The paper's figure is its testbed's, at load 0.7; it states no thresholds for four queues. Here: the "
        "first, second "
        "and fourth of PIAS's web-search set of October 2015, and what the orchestrator chooses unless told "
        "otherwise (PageRank's sizes, load 0.7).",
    ),
    scales(480, 960, FULL_FROM, (0.7,)),
    ByAlpha(GRID_FOUR).runs,
    ByAlpha(GRID_FOUR).tell,
)
