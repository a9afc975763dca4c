"""Which thresholds are good on any workload: the orchestrator's choices beside the published ones, under PIAS."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import numpy as np

from lab.figures.intervals import over_seeds, shown
from lab.figures.page import Key, Page, Panel, Points, Runs, Scale, Series, Story
from lab.figures.points import Point
from lab.figures.threshold_cases import CASES, Case
from lab.sim.experiment import Experiment
from lab.sim.fluid import FluidExperiment
from lab.sim.schemes import PIAS_2015_DATA_MINING, PIAS_2015_WEB_SEARCH, PIAS_2016_WEB_SEARCH

CHOSEN: dict[str, dict[str, list[int]]] = json.loads(
    Path(__file__).with_name("threshold_sets.json").read_text(encoding="utf-8")
)
"""By case and rule, what `orchestrator.thresholds` computes (tests/lab/figures/test_thresholds.py holds them to it)."""
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


def runs(scale: Scale) -> Runs:
    """A point a case, rule, load and seed."""
    found: dict[Key, Experiment | FluidExperiment] = {}
    for name, case in CASES.items():
        for load in scale.loads:
            for seed in scale.seeds:
                point = partial(case.experiment, load=load, count=scale.flows, seed=seed)
                found[name, TCP, load, seed] = point("none", PIAS_2015_WEB_SEARCH)
                for rule, thresholds in sets_of(name).items():
                    found[name, rule, load, seed] = point("pias", thresholds)
    return found


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


class Ratios:
    """Of a rule's statistic to another's, over the same flows, seed by seed."""

    def __init__(self, scale: Scale, points: Points) -> None:
        self._scale, self._points = scale, points

    def __call__(self, name: str, rule: str, base: str, load: float, column: str) -> tuple[float, float]:
        """Mean over seeds, half its interval."""
        of = partial(statistic, case=CASES[name], column=column)
        each = [
            of(self._points[name, rule, load, seed]) / of(self._points[name, base, load, seed])
            for seed in self._scale.seeds
        ]
        there = [value for value in each if value == value]
        return over_seeds(there) if there else (float("nan"), float("nan"))


def tell(scale: Scale, points: Points) -> Story:
    """A row a case, load and rule; verdicts on the default; the heaviest flows beside plain TCP's."""
    ratio = Ratios(scale, points)
    rows, better, worse, heavier = [], 0, [], []
    for name in CASES:
        for load in scale.loads:
            for rule in (TCP, *sets_of(name)):
                base = {column: TCP if column.startswith("heavy") else BASE for column in COLUMNS}
                cells = {column: ratio(name, rule, base[column], load, column) for column in COLUMNS}
                if rule != BASE:
                    words = {f"{column} / {base[column]}": shown(*cells[column]) for column in COLUMNS}
                    rows.append({"workload": name, "load": f"{load}", "thresholds": rule, **words})
                if rule == DEFAULT:
                    for column, (mean, _) in cells.items():
                        if column.startswith("heavy"):
                            heavier += [f"{name} at {load}: {mean:.2f}"] if mean > NOTED else []
                        else:
                            better += mean < 2 - NOTED
                            worse += [f"{name} at {load}, {column}: {mean:.2f}"] if mean > NOTED else []
    count = len(CASES) * len(scale.loads)
    told = (
        f"The default ({DEFAULT}) beside {BASE}, over {count} cells of six statistics: {better} better by 5 % or more, "
        f"{len(worse)} worse by 5 % or more"
    )
    verdicts = [
        told + (f" ({'; '.join(worse)})." if worse else "."),
        "The largest flows, which carry half of the bytes, take over 5 % longer than under plain TCP in "
        f"{len(heavier)} of {count} cells" + (f" ({'; '.join(heavier)})." if heavier else "."),
        *(_of_rule(rule, scale, ratio) for rule in CHOSEN["web"] if rule != DEFAULT),
    ]
    return Story(rows, _panels(scale, ratio), verdicts, f"{told}.")


def _of_rule(rule: str, scale: Scale, ratio: Ratios) -> str:
    """Where another rule is worse than the default, and where better."""
    each = {
        f"{name} at {load}, {column}: {value:.2f}": value
        for name in CASES
        for load in scale.loads
        for column in COLUMNS
        if (value := ratio(name, rule, DEFAULT, load, column)[0]) == value
    }
    worst = sorted(each, key=lambda key: -each[key])[:3]
    return (
        f"{rule} beside the default: worse by 5 % or more in {sum(v > NOTED for v in each.values())} of {len(each)} "
        f"statistics, better in {sum(v < 2 - NOTED for v in each.values())}; worst {'; '.join(worst)}."
    )


def _panels(scale: Scale, ratio: Ratios) -> list[Panel]:
    names, load = list(CASES), scale.loads[len(scale.loads) // 2]
    places = [float(n) for n in range(len(names))]
    panels = []
    for column, base in (("small mean", BASE), ("mean", BASE), ("mean slowdown", BASE), ("heavy mean", TCP)):
        series = []
        for rule in ("slowdown, 0.7", DEFAULT, "slowdown, 0", "PIAS's cost, 0"):
            each = [ratio(name, rule, base, load, column) for name in names]
            halves = [float(np.nan_to_num(half)) for _, half in each]
            series.append(Series(rule, places, [mean for mean, _ in each], halves))
        panels.append(Panel(f"{column}, load {load}", f"over {base}'s", "", series, names))
    return panels


PAGE = Page(
    name="thresholds",
    title="Demotion thresholds for any workload: the orchestrator's rules beside the published sets",
    settings=[
        "PIAS everywhere; what differs is its seven thresholds. Each rule computes them from other flows than those "
        "that are then sent (a recording's first quarter; another seed of the lab's mix) or, for tables, from the "
        "table, always for load 0.6, and rounds them up to whole segments of 1,448 bytes.",
        "Rules: what is made small, and the least share of bytes that is left to the last priority. slowdown: that of "
        "processor sharing, in the mean; PIAS's cost: a full delay in each queue visited. `slowdown, 0.5` is the "
        "default (orchestrator/thresholds.py), `slowdown, 0.7` was it before. Both costs know nothing of buffers and "
        "windows.",
        "web, Spark, training, bulk: recordings, flow for flow as `qclimb lab run bounds` replays them, at 16 Mb/s; "
        "the lab's mix: as `qclimb lab run fct` plays it, 25 seconds at 25 Mb/s. Eight hosts, two racks, plain TCP, 64 "
        "packets a port, least timeout 10 ms. A seed is a window of a recording (Spark's not of K-Means, whose "
        "thousands of flows at one moment an open loop can't carry).",
        "web search, data mining, web server, Hadoop: drawn from tables, Poisson, 16 hosts at 10 Gb/s, DCTCP.",
        "Load: bytes with headers over the rate of all hosts' links and the length of a trace, to which gaps are "
        "scaled (lab/workload/trace.py, lab/bounds/replay.py); of tables, in expectation.",
        "Small, medium, large: up to 100 KB, up to 10 MB, above (the lab's mix: a twentieth). Heavy: the largest "
        "flows, which carry half of the bytes. Cells: mean over seeds of a ratio over the same flows, with its 95 % "
        "interval; nan where there are no such flows.",
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
    runs=runs,
    tell=tell,
)
