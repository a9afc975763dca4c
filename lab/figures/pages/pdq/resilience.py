"""PDQ (SIGCOMM'12), Figs. 9 and 10: packets are lost, sizes are not known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lab.experiment.claims import AsPaper, AtLeast, Below, Claim, said
from lab.figures.page import Page, Points, Scale
from lab.figures.pages.pdq.aggregation import RATE_BPS, RENO, mean_ms
from lab.figures.pages.pdq.lines import Beside, Capacity, Lines, most_of, ratio, rounds
from lab.figures.pages.pdq.settings import (
    DEADLINES_SAID,
    MOST_SAID,
    ROUNDS_SAID,
    SCALES,
    Ints,
    at_once,
    over,
    to_one,
    uniform,
)
from lab.sim import NAMED, Experiment, FlowLevel, FlowList, Pdq, Scheme, star
from lab.sim.optimum import shortest_first

HOSTS, FLOWS = 12, 10
STAR = star(HOSTS, RATE_BPS, 25_100)
LOSSES = (0.0, 1.0, 2.0, 3.0)
COUNTS = (1, 2, 4, 6, 8, 10, 12, 15)
PDQ_9 = Pdq(timeout_us=600.0)
TCP_9 = replace(RENO, least_timeout_us=600.0, first_timeout_us=600.0)
SCHEMES_9: dict[str, Scheme] = {"PDQ(Full)": PDQ_9, "TCP": TCP_9}


def lossy(percent: float) -> tuple[tuple[int, float], ...]:
    """Of the receiver's link, both ways: the switch's port towards it, and its own."""
    return ((HOSTS, percent / 100), (0, percent / 100))


def with_deadlines(percent: float, name: str, seed: int, count: int, scale: Scale) -> Experiment:
    """A point of 9a."""
    found = at_once(to_one(HOSTS), count, 100_000, (seed, count), scale.flows, 20.0)
    return over(STAR, name, found, SCHEMES_9[name], losses=lossy(percent))


def without(percent: float, name: str, seed: int, scale: Scale) -> Experiment:
    """A point of 9b."""
    found = at_once(to_one(HOSTS), FLOWS, 100_000, (seed, FLOWS), scale.flows)
    return over(STAR, name, found, SCHEMES_9[name], losses=lossy(percent))


def increase(scale: Scale, points: Points) -> list[str]:
    """Of the mean FCT from no loss to 3 %."""
    lines = []
    for name, paper in (("PDQ(Full)", 1.114), ("TCP", 1.447)):
        ours, theirs = ([mean_ms(points[loss, name, seed]) for seed in scale.seeds] for loss in (3.0, 0.0))
        claim = Claim(f"{name} at 3 % loss", "without", "all", "mean FCT", AsPaper(paper, paper), "Fig. 9b")
        lines.append(said(claim, [ratio(ours, theirs)]))
    return lines


A = Capacity(
    "loss each way, %",
    LOSSES,
    tuple(SCHEMES_9),
    lambda *_: None,
    "flows at 99 % in time",
    claims=(Beside("PDQ(Full)", "TCP", AtLeast(1.0), "more resilient than TCP"),),
    counts=COUNTS,
    make=with_deadlines,
    share=lambda percent, seed, count, scale: most_of(
        at_once(to_one(HOSTS), count, 100_000, (seed, count), scale.flows, 20.0), RATE_BPS
    ),
)
B = Lines("loss each way, %", LOSSES, tuple(SCHEMES_9), without, "mean FCT, ms", also=increase)
LOSS_SAID = (
    "12 hosts on one switch at 1 Gb/s, 25.1 us a link; eleven send to the twelfth, whose link loses packets at "
    "random, both "
    "ways, headers and ACKs too.",
    "Timeouts: PDQ's sender and TCP's least 600 us, three round trips (the paper states neither).",
)
PAGE_9A = Page(
    "pdq-9a",
    "PDQ Fig. 9a: flows that can be in time, by loss",
    (*LOSS_SAID, DEADLINES_SAID + " Mean 20 ms.", MOST_SAID.format(counts=", ".join(map(str, COUNTS))), ROUNDS_SAID),
    SCALES,
    A.runs,
    A.tell,
)
PAGE_9B = Page(
    "pdq-9b",
    "PDQ Fig. 9b: mean FCT, by loss",
    (*LOSS_SAID, f"{FLOWS} flows at one moment, 2 to 198 KB.", ROUNDS_SAID),
    SCALES,
    B.runs,
    B.tell,
)

UNIFORM, PARETO = 0.0, 1.0
TAIL, MEAN_BYTES, MOST_BYTES = 1.1, 100_000, 50_000_000
SCHEMES_10: dict[str, Scheme] = {
    "PDQ, flow level": NAMED["flow-pdq"],
    "PDQ, random": FlowLevel(criticality="random"),
    "PDQ, estimated": FlowLevel(criticality="sent"),
    "RCP, flow level": NAMED["flow-rcp"],
    "PDQ(Full)": NAMED["pdq"],
    "PDQ(Full), random": Pdq(criticality="random"),
    "PDQ(Full), estimated": Pdq(criticality="sent"),
    "RCP": NAMED["rcp"],
}


def of_sizes(value: float, seed: int, scale: Scale) -> FlowList:
    """Ten flows to one host, of either distribution."""
    ends = to_one(HOSTS)
    longest_ps = round(MOST_BYTES * 8e3 * 2)

    def draw(random: np.random.Generator) -> tuple[Ints, Ints, Ints, Ints]:
        if value == UNIFORM:
            size = uniform(random, FLOWS, MEAN_BYTES)
        else:
            least = MEAN_BYTES * (TAIL - 1) / TAIL
            size = np.minimum(MOST_BYTES, least * (1 - random.random(FLOWS)) ** (-1 / TAIL)).astype(np.int64)
        return size, *ends(random, FLOWS), np.zeros(FLOWS, np.int64)

    return rounds(draw, 5 * scale.flows, longest_ps, (seed, int(value)))


def unknown(value: float, name: str, seed: int, scale: Scale) -> Experiment:
    """A point of 10."""
    proxy = "PDQ(Full)" if name.startswith("PDQ") else "RCP"
    return over(STAR, proxy, of_sizes(value, seed, scale), SCHEMES_10[name])


def best(value: float, seed: int, scale: Scale) -> float:
    """Shortest first, without headers, in ms."""
    found = of_sizes(value, seed, scale)
    each = [
        1000 * shortest_first(found.size_bytes[found.start_ps == start], RATE_BPS).mean()
        for start in np.unique(found.start_ps)
    ]
    return float(np.mean(each))


FIGURE_10 = Lines(
    "sizes",
    (UNIFORM, PARETO),
    tuple(SCHEMES_10),
    unknown,
    "mean FCT, ms",
    claims=(
        Beside("PDQ, estimated", "RCP, flow level", Below(), "the estimate still beats RCP"),
        Beside("PDQ, random", "PDQ, flow level", AtLeast(1.0), "random costs"),
        Beside("PDQ, random", "RCP, flow level", AtLeast(1.0), "random is bad for heavy tails", (PARETO,)),
        Beside("PDQ(Full), estimated", "RCP", Below(), "the same, packets"),
        Beside("PDQ(Full), random", "RCP", AtLeast(1.0), "the same, packets", (PARETO,)),
    ),
    best=best,
    names=("uniform", "Pareto"),
)
PAGE_10 = Page(
    "pdq-10",
    "PDQ Fig. 10: sizes that are not known",
    (
        "12 hosts on one switch at 1 Gb/s, 25.1 us a link; ten flows at one moment to one host, 100 KB on "
        "average: uniform, 2 to "
        f"198 KB, or Pareto of tail index {TAIL} (the paper: heavy-tailed), at most {MOST_BYTES // 10**6} MB. The "
        "paper's are at "
        "the flow level; packets beside.",
        "Random: a flow's criticality is drawn once. Estimated: it is what the flow has sent, in steps of 50 KB.",
        ROUNDS_SAID + " On this page five times as many rounds.",
    ),
    SCALES,
    FIGURE_10.runs,
    FIGURE_10.tell,
)
