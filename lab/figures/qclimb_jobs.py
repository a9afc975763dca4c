"""What QCLIMB's further pages share: a third of the fabric, flows in jobs, schemes by name, and how pages say so."""

from __future__ import annotations

from dataclasses import replace

from lab.figures.qclimb_23 import BDP_PACKETS, DELAY, FABRIC, PFABRIC_SAID, SIZES_SAID, TCP_SAID, TRACES, at_40g
from lab.sim import Experiment, Homa, Jobs, Leaves, Nothing, Pfabric, Tcp
from lab.sim.forecast import Forecast
from lab.sim.schemes import PIAS_2015_WEB_SEARCH, PIAS_2016_WEB_SEARCH, Scheme

THIRD = replace(FABRIC, leaves=3, spines=5)
"""48 hosts: as many flows last three times as long. 5 spines for 3 racks are as ample as 7 for 9 (full hosts ask for
0.87 and 0.82 of the core), 3 as scarce as 4 for 9 (1.45 and 1.43)."""
SIXTH = replace(FABRIC, leaves=3, spines=3, hosts_per_leaf=8)
"""24 hosts, for many jobs in few flows. Full hosts ask for 0.74 of the core."""
WIDTH = 25
"""Flows a job: a shuffle of 5 hosts to 5."""
SHARP = Leaves(width=0.01, miss=0.001)
OURS = {
    "K-Means": tuple(1460 * n for n in (4, 17, 142, 4410, 32091, 89898, 152366)),
    "PageRank": tuple(1460 * n for n in (8, 48, 357, 756, 1322, 2874, 11989)),
    "SGD": tuple(1460 * n for n in (7, 225, 495, 983, 1925, 3576, 6794)),
}
"""`orchestrator.thresholds.optimise` of each size table at load 0.7: 8 priorities, least mean slowdown, packets."""
TITLES = {
    "PIAS": "pias",
    "QCLIMB": "qclimb",
    "QCLIMB-PS": "qclimb-ps",
    "QCLIMB-PP": "qclimb-pp",
    "QCLIMB-FP": "qclimb-fp",
    "QCLIMB, TCP's reordering": "qclimb-tcp",
    "QCLIMB drain": "qclimb-drain",
}
BLIND = ("PIAS", "QCLIMB-PS", "pFabric", "Homa")
"""They look at no forecast: their points are the same whatever is forecast."""


def scheme_of(title: str, thresholds: tuple[int, ...] = PIAS_2015_WEB_SEARCH) -> Scheme:
    """By the name that tables have, with qclimb-23's settings."""
    if title.startswith("pFabric"):
        return Pfabric(BDP_PACKETS, 60, 45.0, 146_000, sizes_are_forecasts=title.endswith("forecasts"))
    if title.startswith("Homa"):
        return Homa(rtt_packets=BDP_PACKETS, sizes_are_forecasts=title.endswith("forecasts"))
    return at_40g(TITLES[title], thresholds)


def in_jobs(
    trace: str,
    title: str,
    load: float,
    count: int,
    seed: int,
    thresholds: tuple[int, ...] = PIAS_2015_WEB_SEARCH,
    forecast: Leaves = SHARP,
    slack_bytes: int = 100_000,
) -> Experiment:
    """One point. `title` may end in `, 2016` or `, ours` for other thresholds."""
    title, _, kind = title.partition("; ")
    thresholds = {"": thresholds, "2016": PIAS_2016_WEB_SEARCH, "ours": OURS[trace]}[kind]
    scheme = scheme_of(title, thresholds)
    if isinstance(scheme, Tcp) and title not in BLIND:
        scheme = replace(scheme, slack_bytes=slack_bytes)
    known: Forecast = Nothing() if title in BLIND else forecast
    flows = Jobs(TRACES[trace], WIDTH, "shuffle", forecast=known).flows(SIXTH, load, count, seed)
    return Experiment(SIXTH, scheme, flows, load=load, flows=count, seed=seed)


SETTINGS = (
    "A sixth of the fabric of qclimb-23: 3 racks of 8 hosts at 40 Gb/s, three uplinks of 100 Gb/s (ample), ECMP; runs "
    "of as many flows have six times as many jobs and last six times as long. Page qclimb-23-why has what that "
    "changes.",
    "Flows come in jobs, as of a shuffle: 25 at one moment, from each of 5 hosts to each of 5 others, of sizes within "
    "some 10 % of each other (lab.sim.jobs); jobs begin as a Poisson process. Page qclimb-23-why shows why: with "
    "independent flows hardly anything is gained on PIAS. What the paper's traces are in this respect we do not know.",
    "Load: bytes with headers on the hosts' links, in expectation.",
    DELAY,
    SIZES_SAID,
    "Forecasts are made up (lab.sim.forecast.Leaves): the size's place among all sizes is known to within a hundredth, "
    "one flow in a thousand gets another flow's bounds. Page qclimb-recorded has real forests' instead.",
    TCP_SAID,
    "Thresholds: PIAS's web-search set of October 2015, unless a scheme's name says 2016 (the authors' later set) or "
    "ours (this project's optimiser, for the trace's sizes and load 0.7).",
    PFABRIC_SAID,
    "Cells: mean over seeds of a ratio over the same flows, with its 95 % interval; nan where there are no such flows.",
)
