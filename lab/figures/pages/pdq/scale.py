"""PDQ (SIGCOMM'12), Fig. 8: other fabrics, many servers."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

from lab.experiment.claims import AtLeast, Below
from lab.experiment.intervals import Interval
from lab.figures.page import Page, Panel, Points, Runs, Scale, Series, Story
from lab.figures.pages.pdq.lines import Beside, Capacity, Lines
from lab.figures.pages.pdq.settings import (
    DEADLINES_SAID,
    MOST_SAID,
    at_once,
    over,
    permuted,
    scales_of,
)
from lab.sim import BCube, Experiment, FatTree, FlowList, Jellyfish
from lab.sim.wired import Fabric

PER_SERVER = 10
MOST_FOR_PACKETS = 160
"""Servers; beyond, the flow level alone."""
PACKETS, LEVEL = ("PDQ(Full)", "RCP"), ("PDQ, flow level", "RCP, flow level")
LONG = ", 1 MB"
"""Ends the name of a line whose flows have ten times the mean size."""
LONG_PACKETS, LONG_LEVEL = f"PDQ(Full){LONG}", f"PDQ, flow level, 1 ms{LONG}"
NAN = float("nan")
Build = Callable[[int], Fabric]
FAT_TREES = {16: 4, 54: 6, 128: 8, 250: 10, 1024: 16}
BCUBES = {16: 4, 64: 8, 121: 11, 256: 16, 1024: 32}
JELLYFISH = {136: 17, 320: 40, 640: 80}


@cache
def fat_tree(servers: int) -> Fabric:
    """Of so many."""
    return FatTree(k=FAT_TREES[servers])


@cache
def bcube(servers: int) -> Fabric:
    """With dual-port servers."""
    return BCube(n=BCUBES[servers], k=1)


@cache
def jellyfish(servers: int) -> Fabric:
    """24-port switches, twice as many ports to switches as to servers; four shortest paths."""
    return Jellyfish(switches=JELLYFISH[servers], shortest=4)


def flows(servers: int, count: int, seed: int, repeats: int, deadline_ms: float = 0.0, mean: int = 100_000) -> FlowList:
    """Random permutations, the same under all schemes."""
    ends = permuted(servers)
    found = at_once(ends, count, mean, (seed, servers, count), repeats, deadline_ms)
    # a round is over long before what one link would need for all of it
    period = round(2 * (count / servers + 1) * mean * 8e3 * 3 + 0.25e12)
    spread = np.unique(found.start_ps, return_inverse=True)[1].ravel() * period
    due = None if found.deadline_ps is None else found.deadline_ps - found.start_ps + spread
    return FlowList(spread, found.size_bytes, found.source, found.target, deadline_ps=due)


def repeats(servers: int, scale: Scale) -> int:
    """Fewer rounds where one has many flows."""
    return max(1, scale.flows * 16 // servers)


def is_run(servers: int, name: str) -> bool:
    """Packets for a hundred servers; flows for a thousand."""
    return "flow level" in name or servers <= MOST_FOR_PACKETS


def in_time(build: Build) -> Callable[[float, str, int, int, Scale], Experiment | None]:
    """Points of 8a: so many flows a server."""

    def make(value: float, name: str, seed: int, count: int, scale: Scale) -> Experiment | None:
        servers = int(value)
        if not is_run(servers, name):
            return None
        found = flows(servers, count * servers, seed, repeats(servers, scale), 20.0)
        return over(build(servers), name, found)

    return make


def by_servers(build: Build) -> Callable[[float, str, int, Scale], Experiment | None]:
    """Points of 8b to 8d."""

    def run(value: float, name: str, seed: int, scale: Scale) -> Experiment | None:
        servers, scheme = int(value), name.removesuffix(LONG)
        if not is_run(servers, scheme):
            return None
        mean, count = (100_000, repeats(servers, scale)) if name == scheme else (1_000_000, 1)
        return over(build(servers), scheme, flows(servers, PER_SERVER * servers, seed, count, mean=mean))

    return run


def without(build: Build, servers: dict[int, int]) -> Lines:
    """Mean FCT by servers."""
    small = tuple(float(n) for n in servers if n <= MOST_FOR_PACKETS)
    return Lines(
        "servers",
        tuple(float(n) for n in servers),
        (*PACKETS, *LEVEL, LONG_PACKETS, LONG_LEVEL),
        by_servers(build),
        "mean FCT, ms",
        claims=(
            Beside("PDQ(Full)", "RCP", Below(), "packets, at all sizes", small),
            Beside("PDQ, flow level", "RCP, flow level", Below(), "flow level, at all sizes"),
            Beside("PDQ, flow level", "PDQ(Full)", AtLeast(0.9), "the flow level beside packets", small),
            Beside(LONG_LEVEL, LONG_PACKETS, AtLeast(0.9), "the same by the paper's steps, 1 MB", small),
        ),
    )


A = Capacity(
    "servers",
    (16.0, 54.0, 250.0),
    ("PDQ(Full)", "D3", "RCP", "PDQ, flow level", "D3, flow level", "RCP, flow level"),
    lambda *_: None,
    "flows a server at 99 % in time",
    claims=(
        Beside("PDQ(Full)", "D3", AtLeast(1.0), "packets", (16.0, 54.0)),
        Beside("PDQ, flow level", "D3, flow level", AtLeast(1.0), "flow level, at all sizes"),
        Beside("PDQ, flow level", "RCP, flow level", AtLeast(1.0), "flow level, at all sizes"),
    ),
    counts=(1, 2, 3, 4, 6, 8),
    make=in_time(fat_tree),
)
B, C, D = without(fat_tree, FAT_TREES), without(bcube, BCUBES), without(jellyfish, JELLYFISH)
SCALES = scales_of({"quick": 2, "medium": 5, "full": 10}, {"quick": 2, "medium": 3, "full": 5})
SCALES_A = scales_of({"quick": 4, "medium": 60, "full": 120}, {"quick": 2, "medium": 5, "full": 10})
"""Of a hundred flows one late decides: a point wants a thousand."""
SAID = (
    "1 Gb/s links, 25.1 us each; random permutation traffic: each server sends to one other and is sent to by one. All "
    "flows of a round begin at one moment; the number of `flows a point` is that of rounds of 16 servers, and "
    "with more "
    "servers there are fewer rounds. Packet level up to 160 servers.",
    "Flow level (engine/schemes/flowlevel.h): rates are at once what the algorithms converge to; headers, ACKs "
    "and round trips are counted, queues and questions are not. The paper's finds its rates by steps of 1 ms; so do "
    "the lines that say 1 ms.",
)
FREE_SAID = f"{PER_SERVER} flows a server, 2 to 198 KB (the paper does not say which of its two means it took)."
LONG_SAID = " Lines that say 1 MB: 2 to 1,998 KB, one round."
STEPS_SAID = (
    "Why the paper's flow level agrees with its packets and ours does not: its rates change every 1 ms alone, and "
    "links stand idle until then, as they do with packets until flows have agreed. With such steps flows of 100 KB, "
    "less than a step's worth, take 1.30 to 1.52 times packets' mean FCT (three fabrics of 16 to 136 servers, one to "
    "three seeds). So the paper's agreement is what its steps give if its flows were of 1 MB.",
)


def _page(letter: str, title: str, figure: Lines, said: str, scales: dict[str, Scale] = SCALES) -> Page:
    notes = STEPS_SAID if letter in "bcd" else ()
    return Page(
        f"pdq-8{letter}", f"PDQ Fig. 8{letter}: {title}", (said, *SAID), scales, figure.runs, figure.tell, notes
    )


PAGES_A_TO_D = (
    _page(
        "a",
        "deadlines over fat-trees, by servers",
        A,
        f"Fat-trees of k = 4, 6 and 10, ECMP. {DEADLINES_SAID} Mean 20 ms. "
        f"{MOST_SAID.format(counts='1 to 8 a server')}",
        SCALES_A,
    ),
    _page(
        "b", "mean FCT over fat-trees, by servers", B, f"Fat-trees of k = 4, 6, 8, 10, 16, ECMP. {FREE_SAID}{LONG_SAID}"
    ),
    _page(
        "c",
        "mean FCT over BCube, by servers",
        C,
        f"BCube(n, 1), n = 4, 8, 11, 16, 32: servers with two ports, which relay; each flow on one of its two parallel "
        f"paths, by a hash. {FREE_SAID}{LONG_SAID}",
    ),
    _page(
        "d",
        "mean FCT over Jellyfish, by servers",
        D,
        "Random regular graphs of 17, 40 and 80 switches with 24 ports, 16 of them to switches; a flow has one of its "
        f"pair's four shortest paths, by a hash. {FREE_SAID}{LONG_SAID}",
    ),
)
AT_128: dict[str, tuple[Build, int]] = {
    "fat-tree": (fat_tree, 128),
    "BCube": (bcube, 121),
    "Jellyfish": (jellyfish, 136),
}


def runs_e(scale: Scale) -> Runs:
    """Both schemes over the same flows."""
    return {
        (fabric, name, seed): over(build(servers), name, flows(servers, PER_SERVER * servers, seed, 1))
        for fabric, (build, servers) in AT_128.items()
        for name in LEVEL
        for seed in scale.seeds
    }


def tell_e(scale: Scale, points: Points) -> Story:
    """How flows' FCTs under PDQ stand to those under RCP."""
    rows, series, seen = [], [], []
    for fabric in AT_128:
        ratios = np.concatenate(
            [points[fabric, LEVEL[0], seed].fct_us / points[fabric, LEVEL[1], seed].fct_us for seed in scale.seeds]
        )
        shares = [float((ratios <= 0.5).mean()), float((ratios > 1.001).mean()), float((ratios >= 2).mean())]
        rows.append(
            {
                "fabric": fabric,
                "flows": f"{len(ratios):,}",
                "at most half": f"{shares[0]:.1%}",
                "longer": f"{shares[1]:.1%}",
                "twice and more": f"{shares[2]:.2%}",
                "worst": f"{ratios.max():.2f}",
            }
        )
        seen.append((*shares, float(ratios.max())))
        at = np.quantile(ratios, np.linspace(0, 1, 101))
        series.append(Series(fabric, at.tolist(), [Interval(n / 100, NAN, NAN) for n in range(101)]))
    rows.append(
        {
            "fabric": "the paper",
            "flows": "",
            "at most half": "about 40 %",
            "longer": "5 to 15 %",
            "twice and more": "up to 0.9 %",
            "worst": "2.57",
        }
    )
    half, longer, twice, worst = ([each[n] for each in seen] for n in range(4))
    is_as = (
        min(half) >= 0.36 and max(half) <= 0.44 and min(longer) >= 0.05 and max(longer) <= 0.15 and max(twice) <= 0.009
    )
    verdict = (
        f"Of the flows {min(half):.0%} to {max(half):.0%} take at most half as long as under RCP (the paper: "
        "about 40 %), "
        f"{min(longer):.1%} to {max(longer):.1%} longer (5 to 15 %), {min(twice):.2%} to {max(twice):.2%} twice "
        "as long (up to "
        f"0.9 %), the worst {max(worst):.2f} times (2.57): {'as in the paper' if is_as else 'not as in the paper'}."
    )
    return Story(rows, [Panel("FCT under PDQ / under RCP", "ratio", "share of flows", series)], [verdict], verdict)


PAGE_E = Page(
    "pdq-8e",
    "PDQ Fig. 8e: each flow under PDQ and under RCP, some 128 servers",
    (
        "Fat-tree of k = 8 (128 servers), BCube(11, 1) (121), Jellyfish of 17 switches (136; 16 of 24 ports "
        "can't make a "
        f"regular graph of 16). Flow level, one round. {FREE_SAID}",
        *SAID,
    ),
    scales_of({"quick": 1, "medium": 1, "full": 1}, {"quick": 2, "medium": 5, "full": 20}),
    runs_e,
    tell_e,
    (
        "Of ten flows of evenly spaced sizes that share one link the six smallest take at most half of RCP's time and "
        "none takes longer: nearly what is seen in Jellyfish, whose 17 switches are all each other's neighbours, so "
        "that servers' links alone are short. The paper says some 40 % of all three, and what holds its flows up is "
        "not known. Tried (fat-tree, BCube, Jellyfish): rates that change every 1 ms alone, as in the paper, with "
        "flows of 1 MB: 43, 53 and 62 % at most half, 16, 8 and 4 % longer; with 100 KB 10, 10 and 16 %, and 58, 46 "
        "and 32 %. A permutation for each of a server's ten flows, of 100 KB: 38, 49 and 60 %, and 19, 11 and 3 %.",
    ),
)
