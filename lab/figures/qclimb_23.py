"""QCLIMB (NSDI'24), Figs. 23 and 24: the simulated fabric, QCLIMB against PIAS, perfect sizes and pFabric."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from lab.figures.claims import Claim, in_a_line, judged
from lab.figures.grid import Ratios
from lab.figures.intervals import shown
from lab.figures.page import Page, Panel, Points, Runs, Scale, Series, Story
from lab.sim import Experiment, Leaves, Pfabric, Tcp, Topology, Workload
from lab.sim.schemes import NAMED, PIAS_2015_WEB_SEARCH, PIAS_2016_WEB_SEARCH, Scheme

FABRIC = Topology(9, 7, 16, 40 * 10**9, 100 * 10**9)
TRACES = {"K-Means": "flux_kmeans_est_bytes", "PageRank": "flux_pagerank_est_bytes", "SGD": "flux_sgd_est_bytes"}
PACKET = 1500
BDP_PACKETS = 50
FORECAST = Leaves(width=0.1, miss=0.001)


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


SCHEMES: dict[str, Scheme] = {
    "PIAS": at_40g("pias"),
    "PIAS 2016": at_40g("pias", PIAS_2016_WEB_SEARCH, "pias-2016"),
    "QCLIMB": at_40g("qclimb"),
    "QCLIMB, sharper": at_40g("qclimb", label="qclimb, sharper"),
    "QCLIMB-PS": at_40g("qclimb-ps"),
    "pFabric": Pfabric(BDP_PACKETS, 60, 45.0, 146_000),
}
FORECASTS = {"QCLIMB, sharper": Leaves(width=0.01, miss=0.001)}
"""Of schemes that do not have FORECAST."""
RUN = ("PageRank",)
"""Of the traces; page qclimb-24 has all three."""
FIG_23 = {
    "K-Means": ((0.521, 0.826), (0.699, 0.99), (0.38, 0.99)),
    "PageRank": ((0.617, 0.909), (0.649, 0.99), (0.45, 0.99)),
    "SGD": ((0.505, 0.621), (0.535, 0.97), (0.575, 0.98)),
}
"""QCLIMB / PIAS over loads 0.3 to 0.9: overall mean, small mean, small p99."""
FIG_24 = {
    "K-Means": ((1.004, 1.014), (1.12, 1.17), (1.01, 1.028)),
    "PageRank": ((1.016, 1.059), (1.046, 1.131), (0.998, 1.057)),
    "SGD": (None, None, (1.004, 1.105)),
}
"""QCLIMB / QCLIMB-PS overall, QCLIMB / pFabric overall, QCLIMB / QCLIMB-PS small mean."""


def claims(traces: Iterable[str]) -> list[Claim]:
    """A line for each number of the paper's."""
    found = []
    for trace in traces:
        overall, small, tail = FIG_23[trace]
        to_perfect, to_pfabric, small_perfect = FIG_24[trace]
        for where, base, name, size_class, span in (
            ("Fig. 23", "PIAS", "mean", "all", overall),
            ("Fig. 23", "PIAS", "mean", "small", small),
            ("Fig. 23", "PIAS", "p99", "small", tail),
            ("Fig. 24", "QCLIMB-PS", "mean", "all", to_perfect),
            ("Fig. 24", "pFabric", "mean", "all", to_pfabric),
            ("Fig. 24", "QCLIMB-PS", "mean", "small", small_perfect),
        ):
            if span:
                found.append(Claim(f"{where}, {trace}", "QCLIMB", base, name, size_class, *span, cases=(trace,)))
    return found


def runs(scale: Scale) -> Runs:
    """A point a trace, scheme, load and seed."""
    return {
        (trace, scheme, load, seed): Experiment(
            FABRIC,
            SCHEMES[scheme],
            Workload(TRACES[trace], forecast=FORECASTS.get(scheme, FORECAST)),
            load=load,
            flows=scale.flows,
            seed=seed,
        )
        for trace in RUN
        for scheme in SCHEMES
        for load in scale.loads
        for seed in scale.seeds
    }


def tell(scale: Scale, points: Points) -> Story:
    """The page's table, plots and verdicts."""
    ratio = Ratios(scale, points)
    traces = list(dict.fromkeys(str(key[0]) for key in points))
    rows = [
        {
            "trace": trace,
            "load": f"{load}",
            "scheme": scheme,
            "overall mean / PIAS": shown(*ratio(trace, scheme, "PIAS", load, "mean", "all")),
            "small mean / PIAS": shown(*ratio(trace, scheme, "PIAS", load, "mean", "small")),
            "small p99 / PIAS": shown(*ratio(trace, scheme, "PIAS", load, "p99", "small")),
            "large mean / PIAS": shown(*ratio(trace, scheme, "PIAS", load, "mean", "large")),
            "overall mean / PS": shown(*ratio(trace, scheme, "QCLIMB-PS", load, "mean", "all")),
            "overall mean / pFabric": shown(*ratio(trace, scheme, "pFabric", load, "mean", "all")),
        }
        for trace in traces
        for load in scale.loads
        for scheme in SCHEMES
        if scheme != "PIAS"
    ]
    panels = [
        Panel(
            f"{trace}: {title}",
            "load",
            "FCT / PIAS's",
            [
                Series(
                    scheme,
                    scale.loads,
                    [ratio(trace, scheme, "PIAS", load, name, size_class)[0] for load in scale.loads],
                    [
                        float(np.nan_to_num(ratio(trace, scheme, "PIAS", load, name, size_class)[1]))
                        for load in scale.loads
                    ],
                )
                for scheme in SCHEMES
                if scheme != "PIAS"
            ],
        )
        for trace in traces
        for title, name, size_class in (("overall mean", "mean", "all"), ("small mean", "mean", "small"))
    ]
    asked = claims(traces)
    found = [
        [ratio(claim.cases[0], "QCLIMB", claim.base, load, claim.name, claim.size_class)[0] for load in scale.loads]
        for claim in asked
    ]
    verdicts = [judged(claim, values) for claim, values in zip(asked, found, strict=True)]
    return Story(rows, panels, verdicts, in_a_line(asked, found))


DELAY = "1.45 us a link one way (14 us round trip without queues): not stated in the paper."
SIZES_SAID = (
    "Sizes: estimates inverted from published FCTs (the traces can't be had), good from 10 KB to 1 MB, upper bounds "
    "above."
)
TCP_SAID = (
    "PIAS and QCLIMB over DCTCP: K = 60 packets at 40G, 150 at 100G, 350 KB a port shared by its queues (the "
    "testbed's), initial window 50 packets (one bandwidth-delay product, as PIAS's ns-2 scripts), least timeout 2 ms, "
    "S = 100 KB."
)
PFABRIC_SAID = "pFabric: 146 KB (two bandwidth-delay products), windows 50 to 60 packets, timeout 45 us, no probes."
PAGE = Page(
    name="qclimb-23",
    title="QCLIMB Figs. 23 and 24: 144 hosts at 40/100 Gb/s",
    settings=[
        "9 racks of 16 hosts at 40 Gb/s, 100 Gb/s uplinks. The paper does not state the number of spines; four would "
        "be 1.6:1 oversubscribed and could not carry load 0.9: 7 here. ECMP.",
        "Load: bytes with headers on the hosts' links.",
        DELAY,
        SIZES_SAID,
        "They are drawn independently, with Poisson arrivals and uniform pairs: no history, no bursts, no jobs.",
        "Forecasts are made up (lab.sim.forecast.Leaves): the size's place among all sizes is known to within a tenth, "
        "one flow in a thousand gets another flow's bounds; `QCLIMB, sharper`: within a hundredth. The paper's forest "
        "is trained on features that we do not have. A window of a tenth says next to nothing of the largest flows: "
        "their lower bound is that of the 90th percentile.",
        TCP_SAID,
        "Thresholds: PIAS's web-search set of October 2015 for all; `PIAS 2016`: the authors' later set for load 0.6.",
        PFABRIC_SAID,
        "A run is as long as its flows arrive: at full scale 11 to 17 ms of arrivals; the largest flow, 316 MB, takes "
        "65 ms alone. So the largest flows meet an emptying network; seeds tell how much that matters.",
        "FCT: first byte at the sender to last at the receiver.",
    ],
    scales={
        "quick": Scale("quick", 1_000, (1,), (0.6, 0.9)),
        "medium": Scale("medium", 2_000, (1, 2, 3), (0.6, 0.9)),
        "full": Scale("full", 5_000, (1, 2, 3), (0.6, 0.9)),
    },
    notes=[
        "Why QCLIMB's distance to PIAS is not reproduced with independent flows, page qclimb-23-why tells; qclimb-24 "
        "has the same figures with flows that come in jobs.",
    ],
    runs=runs,
    tell=tell,
)
