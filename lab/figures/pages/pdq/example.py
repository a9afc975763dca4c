"""PDQ (SIGCOMM'12), Fig. 1: three flows over one link, worked out and run packet by packet."""

from __future__ import annotations

from itertools import permutations

import numpy as np

from lab.experiment.claims import AsPaper, Claim, said
from lab.experiment.intervals import Interval, over_runs
from lab.figures.page import Page, Panel, Paper, Points, Runs, Scale, Series, Story
from lab.figures.pages.pdq.settings import over
from lab.sim import D3, Experiment, FlowLevel, FlowList, star
from lab.sim.optimum import fair_sharing, most_in_time, shortest_first
from lab.sim.scheme import Scheme

STAR = star(4, 10**9, 25_100)
SIZES, DEADLINES = np.array([1, 2, 3]), np.array([1, 4, 6])
UNIT_BYTES = 1_000_000
UNIT_MS = UNIT_BYTES * (1516 / 1460) * 8e-6
ROOM = 1.05
"""Deadlines are longer by this and by a millisecond: flow A's is else over before its first byte could be."""
ORDERS = tuple(permutations(range(3)))
D3_KEEPS: dict[str, Scheme] = {
    "D3": D3(terminates=False),
    "D3, flow level": FlowLevel("flow-d3", "d3", terminates=False),
}
LETTERS = "ABC"


def flows(order: tuple[int, ...], has_deadlines: bool) -> FlowList:
    """In an order of arrival, 10 us apart."""
    which = list(order)
    start = np.arange(3) * 10**7
    due = np.rint((DEADLINES[which] * UNIT_MS * ROOM + 1.0) * 1e9).astype(np.int64) if has_deadlines else None
    return FlowList(start, SIZES[which] * UNIT_BYTES, np.array(which) + 1, np.zeros(3, np.int64), deadline_ps=due)


def runs(scale: Scale) -> Runs:
    """Six orders each."""
    found: dict[tuple[str | float | int, ...], Experiment] = {}
    for n, order in enumerate(ORDERS):
        for name in ("PDQ(Full)", "RCP"):
            found["free", name, n] = over(STAR, name, flows(order, False))
        found["due", "PDQ(Full)", n] = over(STAR, "PDQ(Full)", flows(order, True))
        for name, scheme in D3_KEEPS.items():
            found["due", name, n] = over(STAR, name, flows(order, True), scheme)
    return dict(found)


def ends(points: Points, name: str) -> list[list[float]]:
    """Of each flow in units, by order of arrival."""
    each: list[list[float]] = [[], [], []]
    for n, order in enumerate(ORDERS):
        for place, flow in enumerate(order):
            each[flow].append(float(points["free", name, n].fct_us[place]) / 1000 / UNIT_MS)
    return each


def all_in_time(points: Points, name: str) -> list[str]:
    """The orders in which all three are in time."""
    good = [n for n in range(len(ORDERS)) if points["due", name, n].counters["in_time"] == 1.0]
    return ["".join(LETTERS[flow] for flow in ORDERS[n]) for n in good]


def tell(scale: Scale, points: Points) -> Story:
    """Completion times, means, and how many orders meet all deadlines."""
    fair, best = (of(SIZES / 8, 1.0) for of in (fair_sharing, shortest_first))
    kept = most_in_time(SIZES / 8, DEADLINES, 1.0)
    measured = {name: [over_runs(each) for each in ends(points, name)] for name in ("RCP", "PDQ(Full)")}
    means = {name: over_runs(np.mean(ends(points, name), axis=0)) for name in measured}
    pdq, d3, level = (all_in_time(points, name) for name in ("PDQ(Full)", "D3", "D3, flow level"))
    rows = []
    for title, values, mean, orders in (
        ("fair sharing, worked out", fair, fair.mean(), ""),
        ("RCP, packets", measured["RCP"], means["RCP"], ""),
        ("SJF and EDF, worked out", best, best.mean(), f"{6 * int(kept.all())} of 6"),
        ("PDQ, packets", measured["PDQ(Full)"], means["PDQ(Full)"], f"{len(pdq)} of 6"),
        ("D3, flow level", None, None, f"{len(level)} of 6 ({', '.join(level) or 'none'})"),
        ("D3, packets", None, None, f"{len(d3)} of 6 ({', '.join(d3) or 'none'})"),
    ):
        texts = [""] * 3 if values is None else [_text(value) for value in values]
        rows.append(
            {
                "": title,
                **dict(zip(("A", "B", "C"), texts, strict=True)),
                "mean": "" if mean is None else _text(mean),
                "orders with all in time": orders,
            }
        )
    series = [Series(name, [1, 2, 3], values) for name, values in measured.items()]
    papers = [
        Paper(name, [x], value, value)
        for name, values in (("RCP", (3, 5, 6)), ("PDQ(Full)", (1, 3, 6)))
        for x, value in zip((1, 2, 3), values, strict=True)
    ]
    panel = Panel("completion of flows A, B, C", "size", "time units", series, papers=papers)
    saving = over_runs(np.mean(ends(points, "PDQ(Full)"), axis=0) / np.mean(ends(points, "RCP"), axis=0), ratios=True)
    verdicts = [
        said(
            Claim("PDQ(Full)", "RCP", "all", "mean FCT", AsPaper(3.33 / 4.67, 3.33 / 4.67), "Figs. 1b and 1c"), [saving]
        ),
        f"All three deadlines are met by PDQ in {len(pdq)} of 6 orders of arrival (EDF: all), by D3 in "
        f"{len(level)} at the flow "
        f"level ({', '.join(level) or 'none'}; the paper: 1, ABC) and in {len(d3)} with packets: "
        f"{'as in the paper' if (len(pdq), level) == (6, ['ABC']) else 'not as in the paper'}.",
    ]
    return Story(rows, [panel], verdicts, " ".join(verdicts))


def _text(value: Interval | float) -> str:
    return value.text() if isinstance(value, Interval) else f"{value:.2f}"


PAGE = Page(
    "pdq-1",
    "PDQ Fig. 1: the motivating example",
    (
        "Flows A, B, C of sizes 1, 2, 3 with deadlines 1, 4, 6, over one link; a unit is 1 MB, with headers 8.3 ms at "
        "1 Gb/s. Packets: four hosts on a switch, 25.1 us a link; the flows begin 10 us apart, in each of their six "
        f"orders. Deadlines are {ROOM - 1:.0%} and 1 ms longer than the paper's, for round trips and switching.",
        "D3 without quenching, as in the paper's Fig. 1d. Cells: over the six orders, with the 95 % interval.",
    ),
    {name: Scale(name, 3, (1,), (1.0,)) for name in ("quick", "medium", "full")},
    runs,
    tell,
)
