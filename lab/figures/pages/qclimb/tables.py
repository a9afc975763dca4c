"""QCLIMB (NSDI'24), Tables 3 and 4: bytes out of order at receivers, and losses by class."""

from __future__ import annotations

from dataclasses import replace

from lab.experiment.claims import Claim, tally
from lab.figures.grid import Column, Grid, Note, Told, counted
from lab.figures.page import FULL_FROM, Page, Scale, Story, scales
from lab.figures.pages.qclimb.alphas import ByAlpha
from lab.figures.pages.qclimb.fabric import BDP_PACKETS, SETTINGS, TOLERANT, TRACES, WINDOW, in_jobs
from lab.figures.pages.qclimb.paper import number
from lab.figures.points import Point
from lab.sim import Experiment

TCP = "QCLIMB, TCP's reordering"
PAYLOAD = 1460
TABLE_3 = {
    "K-Means": {0.3: (1338.70, 591.66), 0.5: (2776.05, 1548.54), 0.7: (5752.96, 4979.13), 0.9: (8077.62, 6096.89)},
    "PageRank": {0.3: (1204.25, 604.39), 0.5: (1924.27, 769.42), 0.7: (3133.81, 2620.44), 0.9: (3436.34, 2787.49)},
    "SGD": {0.3: (1793.06, 936.81), 0.5: (2006.02, 1812.35), 0.7: (2316.89, 1888.72), 0.9: (3333.34, 2016.14)},
}
"""Bytes out of order with TCP's handling and with QCLIMB's, by load (the testbed's)."""
TABLE_4 = {"QCLIMB": (0, 0, 124), "pFabric": (10, 25, 414)}
"""Loss events of small, medium and large flows; K-Means at 0.7. Of QCLIMB's 83 were found by priority."""
ALONE = ", independent"
"""A trace's sizes as independent flows, with an initial window of a bandwidth-delay product, as on page qclimb-23."""
CASES = (*TRACES, *(f"{trace}{ALONE}" for trace in ("K-Means", "PageRank")))
WIDE = ", window 50"
"""What a bandwidth-delay product for an initial window does to Table 4."""
OF_TABLE_4 = (f"QCLIMB{WIDE}", "PIAS", f"PIAS{WIDE}", "pFabric")
SCHEMES = (TCP, TOLERANT, "QCLIMB", "QCLIMB drain")
OUT_OF_ORDER = "bytes out of order"


def out_of_order(point: Point) -> float:
    """Mean over arrivals of data packets of the bytes that wait beyond a gap."""
    return float(PAYLOAD * point.counters["waiting_sum"] / point.counters["delivered_packets"])


def lost(point: Point) -> float:
    """Packets; a run that lost none counts as half of one, so that ratios have a logarithm."""
    return max(0.5, float(sum(point.counters[f"drops_{which}"] for which in ("small", "medium", "large"))))


def run(case: str, title: str, load: float, count: int, seed: int) -> Experiment | None:
    """Table 3's schemes; Table 4's where it is asked for."""
    trace, alone = case.removesuffix(ALONE), case.endswith(ALONE)
    if (title in OF_TABLE_4 and (case, load) != ("K-Means", 0.7)) or (alone and title == "QCLIMB drain"):
        return None
    window = BDP_PACKETS if alone or title.endswith(WIDE) else WINDOW
    return in_jobs(trace, title.removesuffix(WIDE), load, count, seed, window=window, alone=alone)


def theirs(case: str, title: str, load: float) -> str:
    """Table 3's."""
    place = {TCP: 0, TOLERANT: 0, "QCLIMB": 1}.get(title)
    return "" if place is None else f"{TABLE_3[case.removesuffix(ALONE)][load][place]:,.0f}"


def their_losses(case: str, title: str, load: float) -> str:
    """Table 4's."""
    return "/".join(map(str, TABLE_4[title])) if (case, load) == ("K-Means", 0.7) and title in TABLE_4 else ""


def losses(scale: Scale, told: Told, story: Story) -> Story:
    """With Table 3 by what is measured against, and how many of Table 4's losses receivers told of."""
    lines = []
    for base, what in (
        (TOLERANT, "a TCP that does not take overtaking for loss (Linux's comes close to it)"),
        (TCP, "a TCP that takes three duplicate ACKs for loss"),
    ):
        for cases, where in ((tuple(TRACES), "jobs"), (CASES[len(TRACES) :], "independent flows")):
            outcomes = [
                outcome
                for claim, outcome in GRID.outcomes(scale, told).items()
                if claim.base == base and claim.cases[0] in cases
            ]
            if outcomes:
                lines.append(f"Table 3 beside {what}, {where}: {tally(outcomes)}")
    four = [line for line in story.verdicts if line.startswith("Table 4")]
    return replace(story, verdicts=[*lines, *story.verdicts], verdict=" ".join((*lines, *four)))


GRID = Grid(
    (*SCHEMES, *OF_TABLE_4),
    run,
    columns=(
        Column(OUT_OF_ORDER, out_of_order, digits=0),
        Note("paper", theirs),
        *(Column(f"lost, {which}", counted(f"drops_{which}"), digits=0) for which in ("small", "medium", "large")),
        Note("paper's losses", their_losses),
        Column("told by receivers", counted("losses_told"), digits=0),
        Column("timeouts", counted("timeouts"), digits=0),
    ),
    claims=[
        *(
            Claim("QCLIMB", base, "all", OUT_OF_ORDER, number(after / before, load), f"Table 3, {case}", (case,))
            for case in CASES
            for load, (before, after) in TABLE_3[case.removesuffix(ALONE)].items()
            for base in (TOLERANT, TCP)
        ),
        *(
            Claim(scheme, "pFabric", "all", "packets lost", number(124 / 414, 0.7), "Table 4, K-Means", ("K-Means",))
            for scheme in ("QCLIMB", f"QCLIMB{WIDE}")
        ),
    ],
    cases=CASES,
    case="trace",
    drawn=SCHEMES,
    plotted=(Column(OUT_OF_ORDER, out_of_order),),
    y="mean over arrivals, bytes",
    measures={OUT_OF_ORDER: out_of_order, "packets lost": lost},
    also=losses,
)
PAGE = Page(
    name="qclimb-tables",
    title="QCLIMB Tables 3 and 4: bytes out of order, and losses",
    settings=[
        *SETTINGS,
        "Table 3 is the testbed's. How it counts is not stated; here: the bytes that wait at a receiver beyond a gap, "
        "seen at each arrival of a data packet, whichever flow it is of, on average.",
        "Table 4: `window 50` has an initial window of 50 packets, a bandwidth-delay product: jobs then overflow "
        "ports at once. `Independent`: flows that come one by one, with that window, as on page qclimb-23.",
        "Table 4: here packets dropped; the paper's `loss events` are not defined. pFabric drops by design and sends "
        "again after 45 us; its receivers tell nothing. A run that lost none counts as half a packet in ratios.",
        "Table 5 is on page qclimb-24.",
        "Table 3 hangs on what the TCP that it is measured against takes for loss. One that takes three duplicate "
        "ACKs for it (RFC 6675) sends what was overtaken again and halves its window at each climb, so little is out "
        "waits. Linux's, which the testbed ran, raises the three with the reordering that it meets, up to 300, and "
        "takes a halving back that proves wrong. `QCLIMB, tolerant TCP` is its limit: nothing overtaken is held for "
        "lost, the timeout alone finds losses. The paper's ratio lies between the two: we take it for a TCP on its "
        "way from the one to the other. QCLIMB's receiver lets a window wait while a flow climbs as the tolerant one "
        "does, but counts a window as over when as many packets have arrived as were out, and so goes on reacting to "
        "marks.",
        "Absolute bytes are the testbed's no more: windows of 40 Gb/s and a fabric of 14 us here; the testbed's loads, "
        "windows and what it averages over are not stated.",
    ],
    scales=scales(480, 960, FULL_FROM, (0.5, 0.7), tuple(TABLE_3["SGD"])),
    runs=ByAlpha(GRID).runs,
    tell=ByAlpha(GRID).tell,
)
