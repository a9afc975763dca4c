"""What QCLIMB's simulated pages share: the fabric, traces, schemes by name, flows in jobs, and how pages say so."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lab.figures.page import FULL_FROM
from lab.figures.pages.qclimb.alphas import SAID as ALPHA_SAID
from lab.sim import Experiment, FlowList, Jobs, Leaves, Nothing, Pfabric, Tcp, Topology, Workload
from lab.sim.forecast import Forecast
from lab.sim.homa import homa_for
from lab.sim.scheme import Scheme
from lab.sim.schemes import NAMED
from lab.sim.tcp import PIAS_2015_WEB_SEARCH, PIAS_2016_WEB_SEARCH

LOADS = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
"""Over which the paper's simulations have their ranges."""
FABRIC = Topology(9, 7, 16, 40 * 10**9, 100 * 10**9)
THIRD = replace(FABRIC, leaves=3, spines=5)
"""48 hosts: as many flows last three times as long. 5 spines for 3 racks are as ample as 7 for 9 (full hosts ask for
0.87 and 0.82 of the core), 3 as scarce as 4 for 9 (1.45 and 1.43)."""
SIXTH = replace(FABRIC, leaves=3, spines=3, hosts_per_leaf=8)
"""24 hosts, for many jobs in few flows. Full hosts ask for 0.74 of the core. Jobs have it with fewer than FULL_FROM
flows, from there on the paper's."""
TRACES = {"K-Means": "flux_kmeans_est_bytes", "PageRank": "flux_pagerank_est_bytes", "SGD": "flux_sgd_est_bytes"}
PACKET = 1500
BDP_PACKETS = 50
WIDTH = 25
"""Flows a job: a shuffle of 5 hosts to 5."""
WINDOW = 10
"""Packets, initially: Linux's (RFC 6928). With 50, a bandwidth-delay product, a job's 5 flows to one host overflow its
port of 350 KB at once: 12,000 packets lost of 6,000 flows at load 0.7, none with 10."""
FORECAST = Leaves(width=0.1, miss=0.001)
SHARP = Leaves(width=0.01, miss=0.001)
OURS = {
    "K-Means": tuple(1460 * n for n in (4, 17, 142, 4410, 32091, 89898, 152366)),
    "PageRank": tuple(1460 * n for n in (8, 48, 357, 756, 1322, 2874, 11989)),
    "SGD": tuple(1460 * n for n in (7, 225, 495, 983, 1925, 3576, 6794)),
}
"""The orchestrator's `optimise` of each size table at load 0.7: 8 priorities, least mean slowdown, packets."""
DEFAULT = {
    "K-Means": tuple(1448 * n for n in (4, 16, 106, 1990, 9688, 35565, 76025)),
    "PageRank": tuple(1448 * n for n in (7, 41, 239, 530, 855, 1301, 2281)),
    "SGD": tuple(1448 * n for n in (4, 112, 277, 461, 750, 1206, 1898)),
}
"""The orchestrator's `choose`, what the product takes unless told otherwise: as OURS, but half of the bytes are
left to the last priority and thresholds end with segments of 1,448 bytes."""
TITLES = {
    "PIAS": "pias",
    "QCLIMB": "qclimb",
    "QCLIMB-PS": "qclimb-ps",
    "QCLIMB-PP": "qclimb-pp",
    "QCLIMB-FP": "qclimb-fp",
    "QCLIMB, TCP's reordering": "qclimb-tcp",
    "QCLIMB drain": "qclimb-drain",
}
TOLERANT = "QCLIMB, tolerant TCP"
"""Default TCP that does not take overtaking for loss at all, as Linux's comes close to it: it raises its three
duplicates up to 300 with the reordering that it meets (tcp_max_reordering). Here the timeout alone finds losses."""
BLIND = ("PIAS", "QCLIMB-PS", "pFabric", "Homa")
"""They look at no forecast: their points are the same whatever is forecast."""
PFABRIC = Pfabric(initial_window=BDP_PACKETS, max_window=60, buffer_bytes=146_000)


def at_40g(name: str, thresholds: tuple[int, ...] = PIAS_2015_WEB_SEARCH, label: str | None = None) -> Tcp:
    """A scheme of TCP's with this fabric's windows, marks and buffers."""
    scheme = NAMED[name]
    assert isinstance(scheme, Tcp)
    return replace(
        scheme,
        name=label or name,
        thresholds_bytes=thresholds,
        initial_window=BDP_PACKETS,
        mark_bytes=60 * PACKET,
        uplink_mark_bytes=150 * PACKET,
        buffer_bytes=350_000,
        host_buffer_bytes=350_000,
    )


def scheme_of(
    title: str, thresholds: tuple[int, ...] = PIAS_2015_WEB_SEARCH, window: int = BDP_PACKETS, sizes: str = ""
) -> Scheme:
    """By the name that tables have; Homa's priorities are those for `sizes`."""
    if title.startswith("pFabric"):
        return replace(PFABRIC, sizes_are_forecasts=title.endswith("forecasts"))
    if title.startswith("Homa"):
        return replace(homa_for(sizes, BDP_PACKETS), sizes_are_forecasts=title.endswith("forecasts"))
    if title == TOLERANT:
        return replace(at_40g("qclimb-tcp", thresholds, "qclimb-tolerant"), initial_window=window, duplicate_acks=0)
    return replace(at_40g(TITLES[title], thresholds), initial_window=window)


def fabric_of(count: int) -> Topology:
    """For so many flows."""
    return FABRIC if count >= FULL_FROM else SIXTH


def in_jobs(
    trace: str,
    title: str,
    load: float,
    count: int,
    seed: int,
    thresholds: tuple[int, ...] = PIAS_2015_WEB_SEARCH,
    forecast: Forecast = SHARP,
    slack_bytes: int = 100_000,
    window: int = WINDOW,
    alone: bool = False,
    **changes: Any,
) -> Experiment:
    """One point. `title` may end in `; 2016`, `; ours` or `; default` for other thresholds; `alone`: independent flows,
    no jobs; `changes`: of TCP's settings."""
    title, _, kind = title.partition("; ")
    sets = {"": thresholds, "2016": PIAS_2016_WEB_SEARCH, "ours": OURS[trace], "default": DEFAULT[trace]}
    thresholds = sets[kind]
    scheme = scheme_of(title, thresholds, window, TRACES[trace])
    if isinstance(scheme, Tcp) and title not in BLIND:
        scheme = replace(scheme, slack_bytes=slack_bytes)
    if isinstance(scheme, Tcp) and changes:
        scheme = replace(scheme, **changes)
    known: Forecast = Nothing() if title in BLIND else forecast
    fabric = fabric_of(count)
    flows: Workload | FlowList = Workload(TRACES[trace], forecast=known)
    if not alone:
        flows = Jobs(TRACES[trace], WIDTH, "shuffle", forecast=known).flows(fabric, load, count, seed)
    return Experiment(fabric, scheme, flows, load=load, flows=count, seed=seed)


DELAY = "1.45 us a link one way (14 us round trip without queues): not stated in the paper."
SIZES_SAID = (
    "Sizes: estimates inverted from published FCTs (the traces can't be had), good from 10 KB to 1 MB, upper bounds "
    "above."
)
TCP_SAID = (
    "PIAS and QCLIMB over DCTCP: K = 60 packets at 40G, 150 at 100G, 350 KB a port shared by its queues (the "
    "testbed's), initial window 50 packets (one bandwidth-delay product, as PIAS's ns-2 scripts), least timeout 2 ms, "
    f"S = 100 KB. {ALPHA_SAID}"
)
PFABRIC_SAID = "pFabric: 146 KB (two bandwidth-delay products), windows 50 to 60 packets, timeout 45 us, no probes."
WINDOW_SAID = (
    "initial window 10 packets (Linux's; with 50, as on qclimb-23, 12,000 packets of 6,000 flows were lost at load 0.7 "
    "and small flows' p99 was the least timeout, where the paper's Table 4 has no small or medium flow lose any; with "
    "10, none)"
)
CELLS_SAID = (
    "Cells: geometric mean over seeds of a ratio over the same flows, with its 95 % interval (Student's t on "
    "logarithms); nan where there are no such flows."
)
LOADS_SAID = (
    "The paper's ranges are over loads 0.3 to 0.9, here taken as seven: what was run at fewer of them is not called "
    "reproduced."
)
SETTINGS = (
    "At full scale the fabric of qclimb-23: 9 racks of 16 hosts at 40 Gb/s, seven uplinks of 100 Gb/s, ECMP. At the "
    "smaller scales a sixth of it: 3 racks of 8 hosts, three uplinks.",
    "Flows come in jobs, as of a shuffle: 25 at one moment, from each of 5 hosts to each of 5 others, of sizes within "
    "some 10 % of each other (lab.sim.jobs); jobs begin as a Poisson process. Page qclimb-23-why shows why: with "
    "independent flows hardly anything is gained on PIAS. What the paper's traces are in this respect we do not know.",
    "Load: bytes with headers of the flows that were drawn, on the hosts' links, on average over hosts and the time in "
    "which flows begin.",
    DELAY,
    SIZES_SAID,
    "Forecasts are made up (lab.sim.forecast.Leaves): the size's place among all sizes is known to within a hundredth, "
    "one flow in a thousand gets another flow's bounds; the one number is the mean of such a window, as a regression "
    "forest's is. Page qclimb-recorded has real forests' instead.",
    TCP_SAID.replace("initial window 50 packets (one bandwidth-delay product, as PIAS's ns-2 scripts)", WINDOW_SAID),
    "Thresholds: PIAS's web-search set of October 2015, unless a scheme's name says 2016 (the authors' later set), "
    "ours (this project's optimiser, for the trace's sizes and load 0.7) or default (the same with half of the bytes "
    "left to the last priority, as the orchestrator has it unless told otherwise).",
    PFABRIC_SAID,
    CELLS_SAID,
)
