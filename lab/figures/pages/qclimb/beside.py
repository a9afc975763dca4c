"""QCLIMB (NSDI'24), Fig. 19: PageRank's flows under QCLIMB beside web-search flows under PIAS."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from lab.experiment.claims import AsPaper, Claim, said
from lab.experiment.intervals import over_runs
from lab.figures.page import FULL_FROM, Page, Panel, Paper, Points, Runs, Scale, Series, Story, scales
from lab.figures.pages.qclimb.fabric import SETTINGS, fabric_of, in_jobs
from lab.figures.pages.qclimb.mixing import MIXED
from lab.figures.points import Point
from lab.sim import Experiment, FlowList, Tcp, Workload
from lab.sim.results import SMALL_BYTES
from lab.sim.wire import UNKNOWN_BYTES

PAGERANK_LOAD, WEB_LOAD = 0.5, 0.3
WEB = Workload("websearch_bytes")
BOTH = ("PageRank", "web search")
PAPER = {"PageRank": 0.373, "web search": 0.899}
"""Small flows' mean FCT, QCLIMB and PIAS over PIAS for all."""


def flows(count: int, seed: int) -> tuple[FlowList, NDArray[np.bool_]]:
    """PageRank's in jobs with bounds, and web-search flows without for as long; which are PageRank's."""
    ranks = in_jobs("PageRank", "QCLIMB", PAGERANK_LOAD, count, seed).workload
    assert isinstance(ranks, FlowList)
    fabric = fabric_of(count)
    per_ps = WEB.flows_per_second(fabric, WEB_LOAD, 1460, 40) / 1e12
    others = max(1, round(per_ps * float(ranks.start_ps[-1])))
    web = np.concatenate(list(WEB.chunks(fabric, WEB_LOAD, others, seed, 1460, 40)))
    start = np.r_[ranks.start_ps, web["start_ps"].astype(np.int64)]
    order = np.argsort(start, kind="stable")
    assert ranks.lower_bytes is not None and ranks.upper_bytes is not None
    size, source, target = (
        np.r_[getattr(ranks, name), web[name].astype(np.int64)][order] for name in ("size_bytes", "source", "target")
    )
    lower = np.r_[ranks.lower_bytes, np.zeros(others, np.uint64)][order]
    upper = np.r_[ranks.upper_bytes, np.full(others, UNKNOWN_BYTES, np.uint64)][order]
    is_rank = np.r_[np.ones(count, bool), np.zeros(others, bool)][order]
    return FlowList(start[order], size, source, target, lower, upper), is_rank


def run(title: str, count: int, seed: int) -> Experiment:
    """Over the same flows; PIAS looks at no bounds."""
    like = in_jobs("PageRank", "PIAS" if title == "PIAS" else "QCLIMB", PAGERANK_LOAD, count, seed)
    scheme = like.scheme
    assert isinstance(scheme, Tcp)
    if title == MIXED:
        scheme = replace(scheme, name="qclimb-mixed", tagging="qclimb-mixed")
    found, _ = flows(count, seed)
    return Experiment(like.topology, scheme, found, load=PAGERANK_LOAD + WEB_LOAD, seed=seed)


def runs(scale: Scale) -> Runs:
    """Both schemes."""
    return {(title, seed): run(title, scale.flows, seed) for title in ("PIAS", MIXED) for seed in scale.seeds}


def _small(point: Point, at: NDArray[np.bool_]) -> float:
    return float(np.nanmean(point.fct_us[at & (point.size_bytes <= SMALL_BYTES)]))


def tell(scale: Scale, points: Points) -> Story:
    """Means of small flows and of all, by trace."""
    rows, small, verdicts = [], [], []
    ranks = {seed: flows(scale.flows, seed)[1] for seed in scale.seeds}
    for trace in BOTH:
        at = {seed: ranks[seed] if trace == "PageRank" else ~ranks[seed] for seed in scale.seeds}
        ours, theirs = (
            [
                (_small(points[title, seed], at[seed]), float(np.nanmean(points[title, seed].fct_us[at[seed]])))
                for seed in at
            ]
            for title in (MIXED, "PIAS")
        )
        ratios = [
            over_runs((one[n] / other[n] for one, other in zip(ours, theirs, strict=True)), ratios=True) for n in (0, 1)
        ]
        rows.append({"trace": trace, "small mean / PIAS": ratios[0].text(), "overall mean / PIAS": ratios[1].text()})
        small.append(ratios[0])
        need = AsPaper(PAPER[trace], PAPER[trace])
        verdicts.append(said(Claim(MIXED, "PIAS", "small", "mean", need, f"Fig. 19, {trace}"), [ratios[0]]))
    papers = [Paper(MIXED, [place], PAPER[trace], PAPER[trace]) for place, trace in enumerate(BOTH)]
    panel = Panel("small flows", "", "mean FCT / PIAS's", [Series(MIXED, [0, 1], small)], BOTH, papers)
    return Story(rows, [panel], verdicts, " ".join(verdicts))


PAGE = Page(
    "qclimb-19",
    "QCLIMB Fig. 19: QCLIMB's flows beside PIAS's",
    (
        *SETTINGS,
        "The paper's figure is its testbed's. PageRank's sizes at load 0.5, in jobs, with bounds; web-search "
        "flows at load "
        "0.3, Poisson arrivals between uniform pairs, without: they go by what they have sent (the engine's tagging "
        "qclimb-mixed). PIAS: the same flows, all by what they have sent. DCTCP's alpha begins at 1.",
    ),
    scales(480, 960, FULL_FROM, (0.8,)),
    runs,
    tell,
)
