"""PDQ (SIGCOMM'12), Fig. 4: who sends to whom."""

from __future__ import annotations

import numpy as np

from lab.experiment.claims import AtLeast
from lab.figures.page import Page, Scale
from lab.figures.pages.pdq.aggregation import TREE
from lab.figures.pages.pdq.lines import Beside, Capacity, Lines
from lab.figures.pages.pdq.settings import (
    DEADLINES_SAID,
    MOST_SAID,
    ROUNDS_SAID,
    SCALES,
    TREE_SAID,
    Ends,
    Ints,
    at_once,
    over,
    permuted,
    to_one,
)
from lab.sim import Experiment, FlowList, Staggered

HOSTS = TREE.hosts
MEAN_DEADLINE_MS = 20.0
COUNTS = (2, 4, 8, 12, 18, 24, 36)
FLOWS_UNCONSTRAINED = 36


def strided(step: int) -> Ends:
    """Host i sends to host i + step."""

    def ends(random: np.random.Generator, count: int) -> tuple[Ints, Ints]:
        source = random.permutation(HOSTS)[np.arange(count) % HOSTS]
        return source, (source + step) % HOSTS

    return ends


def staggered(in_rack: float) -> Ends:
    """Within the rack with a probability."""

    def ends(random: np.random.Generator, count: int) -> tuple[Ints, Ints]:
        return Staggered(in_rack).pairs(random, count, TREE)

    return ends


PATTERNS: dict[str, Ends] = {
    "aggregation": to_one(HOSTS),
    "stride(1)": strided(1),
    "stride(N/2)": strided(HOSTS // 2),
    "staggered(0.7)": staggered(0.7),
    "staggered(0.3)": staggered(0.3),
    "random permutation": permuted(HOSTS),
}
NAMES = tuple(PATTERNS)
PLACES = tuple(float(n) for n in range(len(NAMES)))


def flows(value: float, count: int, seed: int, scale: Scale, deadline_ms: float) -> FlowList:
    """The same under all schemes."""
    return at_once(PATTERNS[NAMES[int(value)]], count, 100_000, (seed, count, int(value)), scale.flows, deadline_ms)


def with_deadlines(value: float, name: str, seed: int, count: int, scale: Scale) -> Experiment:
    """A point of 4a."""
    return over(TREE, name, flows(value, count, seed, scale, MEAN_DEADLINE_MS))


def without(value: float, name: str, seed: int, scale: Scale) -> Experiment:
    """A point of 4b."""
    return over(TREE, name, flows(value, FLOWS_UNCONSTRAINED, seed, scale, 0.0))


A = Capacity(
    "pattern",
    PLACES,
    ("PDQ(Full)", "PDQ(Basic)", "D3", "RCP", "TCP", "8 priorities"),
    lambda *_: None,
    "flows at 99 % in time",
    claims=tuple(Beside("PDQ(Full)", base, AtLeast(1.0), "best in all patterns") for base in ("D3", "RCP", "TCP")),
    names=NAMES,
    counts=COUNTS,
    make=with_deadlines,
)
B = Lines(
    "pattern",
    PLACES,
    ("PDQ(Full)", "PDQ(ES)", "PDQ(Basic)", "RCP", "TCP"),
    without,
    "mean FCT",
    claims=tuple(Beside(base, "PDQ(Full)", AtLeast(1.0), "best in all patterns") for base in ("RCP", "TCP")),
    over="PDQ(Full)",
    names=NAMES,
)
SAID = (
    TREE_SAID,
    "stride(i): host x sends to host x + i. staggered(p): to a host of its rack with probability p, else to another "
    "rack's. random permutation: each host sends to one other and is sent to by one.",
)
PAGE_A = Page(
    "pdq-4a",
    "PDQ Fig. 4a: flows that can be in time, by pattern",
    (*SAID, DEADLINES_SAID + " Mean 20 ms.", MOST_SAID.format(counts=", ".join(map(str, COUNTS))), ROUNDS_SAID),
    SCALES,
    A.runs,
    A.tell,
)
PAGE_B = Page(
    "pdq-4b",
    "PDQ Fig. 4b: mean FCT by pattern",
    (
        *SAID,
        f"Sizes uniform, 2 to 198 KB; {FLOWS_UNCONSTRAINED} flows at one moment, three a host (the paper does not "
        "state "
        "how many).",
        ROUNDS_SAID,
    ),
    SCALES,
    B.runs,
    B.tell,
)
