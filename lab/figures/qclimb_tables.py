"""QCLIMB (NSDI'24), Tables 3 and 4: bytes out of order at receivers, and losses by class."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lab.figures.intervals import over_seeds, shown
from lab.figures.page import FULL_FROM, Key, Page, Panel, Points, Runs, Scale, Series, Story
from lab.figures.qclimb_23 import BDP_PACKETS, TRACES
from lab.figures.qclimb_jobs import SETTINGS, TOLERANT, WINDOW, in_jobs
from lab.sim import Experiment
from lab.sim.fluid import FluidExperiment

TCP = "QCLIMB, TCP's reordering"
SCHEMES = (TCP, TOLERANT, "QCLIMB", "QCLIMB drain")
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
FOUR = ("QCLIMB", f"QCLIMB{WIDE}", "PIAS", f"PIAS{WIDE}", "pFabric")
"""Table 4's, and what a bandwidth-delay product for an initial window does to it."""


def schemes_of(case: str, load: float) -> tuple[str, ...]:
    """Table 3's, and where Table 4 is asked for its."""
    if case.endswith(ALONE):
        return SCHEMES[:3]
    return tuple(dict.fromkeys((*SCHEMES[:4], *(FOUR if (case, load) == ("K-Means", 0.7) else ()))))


def runs(scale: Scale) -> Runs:
    """A point a trace, scheme, load and seed."""
    found: dict[Key, Experiment | FluidExperiment] = {}
    for case in CASES:
        trace, alone = case.removesuffix(ALONE), case.endswith(ALONE)
        for load in scale.loads:
            for scheme in schemes_of(case, load):
                window = BDP_PACKETS if alone or scheme.endswith(WIDE) else WINDOW
                for seed in scale.seeds:
                    found[case, scheme, load, seed] = in_jobs(
                        trace, scheme.removesuffix(WIDE), load, scale.flows, seed, window=window, alone=alone
                    )
    return found


def tell(scale: Scale, points: Points) -> Story:
    """Both tables in one, a plot of Table 3, and what they say."""

    def of(trace: str, scheme: str, load: float, name: str) -> tuple[float, float]:
        """A counter; `out of order`: mean over arrivals of data packets of the bytes that wait beyond a gap."""
        each = []
        for seed in scale.seeds:
            counters = points[trace, scheme, load, seed].counters
            waiting = PAYLOAD * counters["waiting_sum"] / counters["delivered_packets"]
            each.append(waiting if name == "out of order" else counters[name])
        return over_seeds(each)

    rows = []
    for trace, load in dict.fromkeys((str(key[0]), float(key[2])) for key in points):
        for scheme in schemes_of(trace, load):
            place = {TCP: 0, TOLERANT: 0, "QCLIMB": 1}.get(scheme)
            paper = "" if place is None else f"{TABLE_3[trace.removesuffix(ALONE)][load][place]:,.0f}"
            is_four = (trace, load) == ("K-Means", 0.7)
            rows.append(
                {
                    "trace": trace,
                    "load": f"{load}",
                    "scheme": scheme,
                    "bytes out of order": ""
                    if scheme == "pFabric"
                    else shown(*of(trace, scheme, load, "out of order"), 0),
                    "paper": paper,
                    **{
                        f"lost, {c}": shown(*of(trace, scheme, load, f"drops_{c}"), 0)
                        for c in ("small", "medium", "large")
                    },
                    "paper's losses": "/".join(map(str, TABLE_4[scheme])) if is_four and scheme in TABLE_4 else "",
                    "told by receivers": shown(*of(trace, scheme, load, "losses_told"), 0),
                    "timeouts": shown(*of(trace, scheme, load, "timeouts"), 0),
                }
            )
    panels = [
        Panel(
            f"{trace}: bytes out of order",
            "load",
            "mean over arrivals, bytes",
            [
                Series(scheme, scale.loads, [of(trace, scheme, load, "out of order")[0] for load in scale.loads])
                for scheme in SCHEMES
            ],
        )
        for trace in TRACES
    ]

    def against(base: str, cases: Iterable[str] = TRACES) -> list[float]:
        each = [(of(trace, base, load, "out of order")[0], trace, load) for trace in cases for load in scale.loads]
        return [of(trace, "QCLIMB", load, "out of order")[0] / value for value, trace, load in each if value > 0]

    lost: dict[str, tuple[float, float]] = {}
    if 0.7 in scale.loads:
        for scheme in ("QCLIMB", f"QCLIMB{WIDE}", "pFabric"):
            lost[scheme] = (
                sum(of("K-Means", scheme, 0.7, f"drops_{c}")[0] for c in ("small", "medium", "large")),
                of("K-Means", scheme, 0.7, "losses_told")[0],
            )
    found = verdicts(against(TCP), against(TOLERANT), lost)
    alone = [case for case in CASES if case.endswith(ALONE)]
    found += [f"With independent flows: {line}" for line in verdicts(against(TCP, alone), against(TOLERANT, alone), {})]
    return Story(rows, panels, found, " ".join((*found[:2], *found[-2:-1], *found[2:-2])))


def verdicts(strict: Sequence[float], tolerant: Sequence[float], lost: dict[str, tuple[float, float]]) -> list[str]:
    """From the ratios of Table 3 to either TCP, and (packets lost, told by receivers) by scheme."""
    paper = [after / before for each in TABLE_3.values() for before, after in each.values()]
    if not strict or not tolerant:
        return ["Nothing was out of order: too few flows to say anything."]
    found = []
    for ratios, what in (
        (tolerant, "a TCP that does not take overtaking for loss (Linux's comes close to it)"),
        (strict, "a TCP that takes three duplicate ACKs for loss"),
    ):
        inside = min(paper) <= min(ratios) and max(ratios) <= max(paper)
        same = "reproduced" if inside else "the direction only" if max(ratios) < 1 else "not reproduced"
        found.append(
            f"Table 3: QCLIMB's receiver has {min(ratios):.2f} to {max(ratios):.2f} of the bytes out of order of "
            f"{what}, the paper's {min(paper):.2f} to {max(paper):.2f}: {same}."
        )
    theirs = lost["pFabric"][0] if lost else 0.0
    for scheme, (ours, told) in lost.items():
        if scheme != "pFabric":
            share = ours / theirs if theirs else float("nan")
            held = "the direction holds" if share < 1 else "not reproduced"
            found.append(
                f"Table 4 (K-Means, 0.7): {scheme} loses {ours:,.0f} packets, pFabric {theirs:,.0f} ({share:.3f} of "
                f"it; in the paper 124 and 414 loss events, 0.30): {held}. Receivers told of {told:,.0f} "
                f"({told / ours if ours else 0:.0%}; in the paper 83 of 124, 67 %)."
            )
    return found


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
        "again after 45 us; its receivers tell nothing.",
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
    scales={
        "quick": Scale("quick", 480, (1,), (0.5, 0.7)),
        "medium": Scale("medium", 960, (1, 2, 3), (0.5, 0.7)),
        "full": Scale("full", FULL_FROM, (1, 2, 3), (0.5, 0.7)),
    },
    runs=runs,
    tell=tell,
)
