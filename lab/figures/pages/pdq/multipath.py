"""PDQ (SIGCOMM'12), Fig. 11: M-PDQ over BCube(2,3), whose 16 servers have four ports each."""

from __future__ import annotations

import numpy as np

from lab.experiment.claims import AsPaper, AtLeast, AtMost
from lab.figures.page import Page, Points, Scale
from lab.figures.pages.pdq.aggregation import mean_ms
from lab.figures.pages.pdq.lines import Beside, Capacity, Lines
from lab.figures.pages.pdq.settings import DEADLINES_SAID, MOST_SAID, ROUNDS_SAID, SCALES, Ints, at_once, over, permuted
from lab.sim import BCube, Experiment, FlowList, Pdq
from lab.sim.scheme import Scheme

CUBE = BCube(n=2, k=3)
HOSTS = CUBE.hosts
SUBFLOWS = (1, 2, 3, 4, 5, 6, 7, 8)
MEAN_BYTES = 1_000_000
COUNTS = (1, 2, 3, 4, 6, 8, 10)


def with_parts(count: int) -> Scheme:
    """M-PDQ, or PDQ."""
    return Pdq(subflows=count)


def flows(senders: int, a_sender: int, seed: int, scale: Scale, mean: int, deadline_ms: float = 0.0) -> FlowList:
    """A random permutation, of which some of the hosts send."""

    def ends(random: np.random.Generator, count: int) -> tuple[Ints, Ints]:
        source, target = permuted(HOSTS)(random, HOSTS)
        return np.tile(source[:senders], a_sender), np.tile(target[:senders], a_sender)

    return at_once(ends, senders * a_sender, mean, (seed, senders, a_sender), scale.flows, deadline_ms)


def by_load(percent: float, name: str, seed: int, scale: Scale) -> Experiment:
    """A point of 11a."""
    found = flows(round(HOSTS * percent / 100), 1, seed, scale, MEAN_BYTES)
    return over(CUBE, "M-PDQ", found, with_parts(3 if name == "M-PDQ" else 1))


def by_subflows(count: float, name: str, seed: int, scale: Scale) -> Experiment:
    """A point of 11b."""
    found = flows(HOSTS, 1, seed, scale, MEAN_BYTES)
    return over(CUBE, "M-PDQ", found, with_parts(int(count) if name == "M-PDQ" else 1))


def in_time(count: float, name: str, seed: int, a_sender: int, scale: Scale) -> Experiment:
    """A point of 11c."""
    found = flows(HOSTS, a_sender, seed, scale, 100_000, 20.0)
    return over(CUBE, "M-PDQ", found, with_parts(int(count) if name == "M-PDQ" else 1))


def potential(scale: Scale, points: Points) -> list[str]:
    """How much of the best gain four subflows have."""
    mean = {n: np.mean([mean_ms(points[n, "M-PDQ", seed]) for seed in scale.seeds]) for n in SUBFLOWS}
    best = min(mean.values())
    share = float((mean[1] - mean[4]) / (mean[1] - best)) if mean[1] > best else float("nan")
    is_as = abs(share - 0.97) <= 0.097
    return [
        f"Four subflows have {share:.0%} of the most that is gained (the paper: 97 %): "
        f"{'as' if is_as else 'not as'} in the paper."
    ]


A = Lines(
    "load, % of hosts that send",
    (12.5, 25, 50, 75, 100),
    ("PDQ(Full)", "M-PDQ"),
    by_load,
    "mean FCT, ms",
    claims=(
        Beside("M-PDQ", "PDQ(Full)", AsPaper(0.5, 0.5), "Fig. 11a, light load: by a factor of two", (12.5,)),
        Beside("M-PDQ", "PDQ(Full)", AtMost(1.0), "retains its benefits", (25, 50, 75, 100)),
    ),
)
B = Lines(
    "subflows",
    SUBFLOWS,
    ("PDQ(Full)", "M-PDQ"),
    by_subflows,
    "mean FCT, ms",
    also=potential,
)
C = Capacity(
    "subflows",
    (1, 2, 3, 4, 6, 8),
    ("PDQ(Full)", "M-PDQ"),
    lambda *_: None,
    "flows a server at 99 % in time",
    claims=(Beside("M-PDQ", "PDQ(Full)", AtLeast(1.0), "M-PDQ has more in time", (4, 6, 8)),),
    counts=COUNTS,
    make=in_time,
)
SAID = (
    "BCube(2,3): 16 servers with four ports each, which relay; 32 switches of two ports; 1 Gb/s, 25.1 us a link. "
    "Subflow n "
    "has the n-th of the four parallel paths (BCube's BuildPathSet), beginning at one by a hash; PDQ one of them.",
    "Random permutation traffic, a flow a server unless said. A subflow that may send takes the next packet of "
    "the flow, so "
    "that paused ones leave theirs to those that send.",
)
PAGE_A = Page(
    "pdq-11a",
    "PDQ Fig. 11a: M-PDQ by load",
    (*SAID, "Three subflows; flows of 2 KB to 2 MB (the paper does not state them).", ROUNDS_SAID),
    SCALES,
    A.runs,
    A.tell,
)
PAGE_B = Page(
    "pdq-11b",
    "PDQ Fig. 11b: M-PDQ by subflows",
    (*SAID, "All servers send; flows of 2 KB to 2 MB.", ROUNDS_SAID),
    SCALES,
    B.runs,
    B.tell,
)
PAGE_C = Page(
    "pdq-11c",
    "PDQ Fig. 11c: M-PDQ by subflows, with deadlines",
    (*SAID, DEADLINES_SAID + " Mean 20 ms.", MOST_SAID.format(counts="1 to 10 a server"), ROUNDS_SAID),
    SCALES,
    C.runs,
    C.tell,
)
