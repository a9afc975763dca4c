"""Which thresholds are good on any workload: the orchestrator's choices beside the published ones, under PIAS."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from lab.experiment.intervals import Interval
from lab.figures.grid import Grid, Told
from lab.figures.page import Page, Scale, Story
from lab.figures.pages.product.threshold_cases import CASES, Case
from lab.figures.points import Point
from lab.sim.experiment import Experiment
from lab.sim.tcp import PIAS_2015_DATA_MINING, PIAS_2015_WEB_SEARCH, PIAS_2016_WEB_SEARCH

CHOSEN: dict[str, dict[str, list[int]]] = json.loads(
    Path(__file__).with_name("threshold_sets.json").read_text(encoding="utf-8")
)
"""By case and rule, what the orchestrator computes (tests/lab/figures/test_thresholds.py holds them to it)."""
TCP, BASE, DEFAULT = "TCP", "PIAS 2015", "slowdown, 0.5"
COLUMNS = ("small mean", "small p99", "medium mean", "large mean", "mean", "mean slowdown", "heavy mean")
NOTED = 1.05
"""A ratio above this is called worse."""


def sets_of(name: str) -> dict[str, tuple[int, ...]]:
    """Thresholds by rule."""
    published = {BASE: PIAS_2015_WEB_SEARCH, "PIAS 2016": PIAS_2016_WEB_SEARCH}
    if name == "data mining":
        published |= {"PIAS 2015, data mining": PIAS_2015_DATA_MINING}
    return published | {rule: tuple(values) for rule, values in CHOSEN[name].items()}


def run(name: str, rule: str, load: float, count: int, seed: int) -> Experiment | None:
    """One point, where the case has that rule."""
    point = partial(CASES[name].experiment, load=load, count=count, seed=seed)
    if rule == TCP:
        return point("none", PIAS_2015_WEB_SEARCH)
    thresholds = sets_of(name).get(rule)
    return point("pias", thresholds) if thresholds else None


def statistic(point: Point, case: Case, column: str) -> float:
    """`heavy`: the largest flows, which together carry half of the bytes."""
    done = np.isfinite(point.fct_us)
    size, fct, slowdown = point.size_bytes[done], point.fct_us[done], point.slowdown[done]
    if column == "mean slowdown":
        return float(slowdown.mean())
    largest = np.sort(size)[::-1]
    half = largest[np.searchsorted(np.cumsum(largest), largest.sum() / 2)]
    of = {
        "small": size <= case.small_bytes,
        "medium": (size > case.small_bytes) & (size <= case.medium_bytes),
        "large": size > case.medium_bytes,
        "heavy": size >= half,
    }
    values = fct[of.get(column.split()[0], np.ones(size.shape, bool))]
    if not values.size:
        return float("nan")
    return float(np.quantile(values, 0.99) if column.endswith("p99") else values.mean())


@dataclass(frozen=True)
class OfCase:
    """A column: a statistic whose classes are the case's, over PIAS 2015's, or heavy flows' over plain TCP's."""

    title: str
    base: str
    column: str

    def of(self, told: Told, case: str, rule: str, load: float) -> Interval:
        """The ratio."""
        return told.ratio(case, rule, self.base, load, partial(statistic, case=CASES[case], column=self.column))

    def text(self, told: Told, case: str, rule: str, load: float) -> str:
        """As in the table."""
        return self.of(told, case, rule, load).text()


def _column(column: str, base: str = "") -> OfCase:
    base = base or (TCP if column.startswith("heavy") else BASE)
    return OfCase(f"{column} / {base}", base, column)


def beside_the_default(scale: Scale, told: Told, story: Story) -> Story:
    """Where the default is better and worse than the published set, the heaviest flows beside plain TCP's, and where
    another rule is worse than the default."""
    places = [(name, load) for name in CASES for load in scale.loads]
    better, worse, heavier = 0, [], []
    for name, load in places:
        for column in COLUMNS:
            mean = _column(column).of(told, name, DEFAULT, load).value
            if column.startswith("heavy"):
                heavier += [f"{name} at {load}: {mean:.2f}"] if mean > NOTED else []
            else:
                better += mean < 2 - NOTED
                worse += [f"{name} at {load}, {column}: {mean:.2f}"] if mean > NOTED else []
    line = (
        f"The default ({DEFAULT}) beside {BASE}, over {len(places)} cells of six statistics: {better} better by 5 % or "
        f"more, {len(worse)} worse by 5 % or more"
    )
    lines = [
        line + (f" ({'; '.join(worse)})." if worse else "."),
        "The largest flows, which carry half of the bytes, take over 5 % longer than under plain TCP in "
        f"{len(heavier)} of {len(places)} cells" + (f" ({'; '.join(heavier)})." if heavier else "."),
    ]
    for rule in (rule for rule in CHOSEN["web"] if rule != DEFAULT):
        ratios = {
            f"{name} at {load}, {column}: {value:.2f}": value
            for name, load in places
            for column in COLUMNS
            if (value := _column(column, DEFAULT).of(told, name, rule, load).value) == value
        }
        worst = sorted(ratios, key=lambda key: -ratios[key])[:3]
        lines.append(
            f"{rule} beside the default: worse by 5 % or more in {sum(v > NOTED for v in ratios.values())} of "
            f"{len(ratios)} statistics, better in {sum(v < 2 - NOTED for v in ratios.values())}; worst "
            f"{'; '.join(worst)}."
        )
    return replace(story, verdicts=lines, verdict=f"{line}.")


GRID = Grid(
    (TCP, *sets_of("data mining")),  # which has them all
    run,
    columns=[_column(column) for column in COLUMNS],
    base=BASE,
    cases=tuple(CASES),
    case="workload",
    scheme="thresholds",
    drawn=("slowdown, 0.7", DEFAULT, "slowdown, 0", "PIAS's cost, 0"),
    plotted=[_column(column) for column in ("small mean", "mean", "mean slowdown", "heavy mean")],
    dots=True,
    also=beside_the_default,
)
PAGE = Page(
    name="thresholds",
    title="Demotion thresholds for any workload: the orchestrator's rules beside the published sets",
    settings=[
        "PIAS everywhere; what differs is its seven thresholds. Each rule computes them from other flows than those "
        "that are then sent (a recording's first quarter; another seed of the lab's mix) or, for tables, from the "
        "table, always for load 0.6, and rounds them up to whole segments of 1,448 bytes.",
        "Rules: what is made small, and the least share of bytes that is left to the last priority. slowdown: that of "
        "processor sharing, in the mean; PIAS's cost: a full delay in each queue visited. `slowdown, 0.5` is the "
        "default (orchestrator/plan), `slowdown, 0.7` was it before. Both costs know nothing of buffers and "
        "windows.",
        "web, Spark, training, bulk: recordings, flow for flow as `qclimb lab run bounds` replays them, at 16 Mb/s; "
        "the lab's mix: as `qclimb lab run fct` plays it, 25 seconds at 25 Mb/s. Eight hosts, two racks, plain TCP, 64 "
        "packets a port, least timeout 10 ms. A seed is a window of a recording (Spark's not of K-Means, whose "
        "thousands of flows at one moment an open loop can't carry).",
        "web search, data mining, web server, Hadoop: drawn from tables, Poisson, 16 hosts at 10 Gb/s, DCTCP whose "
        "alpha begins at 1.",
        "Load: bytes with headers over the rate of all hosts' links and the length of a trace, to which gaps are "
        "scaled (lab/workload/trace.py, lab/workload/replay.py); of tables, in expectation.",
        "Small, medium, large: up to 100 KB, up to 10 MB, above (the lab's mix: a twentieth). Heavy: the largest "
        "flows, which carry half of the bytes. Cells: geometric mean over seeds of a ratio over the same flows, with "
        "its 95 % interval; nan where there are no such flows.",
    ],
    scales={
        "quick": Scale("quick", 1_000, (1,), (0.6,)),
        "medium": Scale("medium", 6_000, (1, 2), (0.4, 0.6, 0.8)),
        "full": Scale("full", 40_000, (1, 2, 3), (0.4, 0.6, 0.8)),
    },
    notes=[
        "0.5 was picked with these workloads in sight, among 0, 0.2, 0.3, 0.4, 0.45, 0.5 and 0.7, for the least harm "
        "where it is not the best: less opens queues to larger flows, which fill a port's shared buffer at high loads, "
        "so that small flows lose packets (the lab's mix at 0.8, in the fabric of namespaces too), and serves the "
        "largest flows after too much (Spark); more leaves flows of tens of kilobytes to one queue with those of "
        "megabytes (web). Also tried, and no better: a least first threshold of an initial window, flows weighted by "
        "other powers of their size, thresholds evenly apart in their logarithm, slowdown with a little of PIAS's cost "
        "or with a fixed wait in each queue.",
        "What 0.5 costs: web's small flows, for whom 0.4 is better; the lab's mix at load 0.8, where 0.7 is better for "
        "all but medium flows; and the heaviest flows of the parameter server (training), which any rule here serves "
        "later than TCP does. Who minds large flows most sets `last_share` in the revision.",
    ],
    runs=GRID.runs,
    tell=GRID.tell,
)
