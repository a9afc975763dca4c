"""PDQ (SIGCOMM'12), Fig. 12: flows that age."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lab.experiment.claims import AsPaper, Claim, said
from lab.figures.page import Page, Points, Scale, Story
from lab.figures.pages.pdq.lines import Lines, ratio
from lab.figures.pages.pdq.scale import LEVEL, PER_SERVER, fat_tree, flows
from lab.figures.pages.pdq.settings import over, scales_of
from lab.figures.points import Point
from lab.sim import NAMED, Experiment, FlowLevel

AGES = (0.0, 1.0, 2.0, 4.0, 6.0, 8.0, 10.0)
AGED_SERVERS, AGED_MEAN, AGED_LOAD = 250, 1_000_000, 0.5


def aged(value: float, name: str, seed: int, scale: Scale) -> Experiment:
    """A point."""
    count = PER_SERVER * AGED_SERVERS
    found = flows(AGED_SERVERS, count, seed, 1, mean=AGED_MEAN)
    gap_ps = AGED_MEAN * 8e3 / (AGED_LOAD * AGED_SERVERS)
    starts = np.random.default_rng((seed, count)).exponential(gap_ps, count).cumsum().astype(np.int64)
    found = replace(found, start_ps=starts)
    scheme = NAMED["flow-rcp"] if name.startswith("RCP") else FlowLevel(aging=value)
    return over(fat_tree(AGED_SERVERS), LEVEL[0], found, scheme)


def worst_ms(point: Point) -> float:
    """The longest FCT."""
    return float(np.nanmax(point.fct_us)) / 1000


def tell(scale: Scale, points: Points) -> Story:
    """The worst and the mean by aging rate, and how they change."""
    found = []
    for measure, what, need in (
        (worst_ms, "worst FCT", AsPaper(0.52, 0.52)),
        (lambda point: point.statistic("mean") / 1000, "mean FCT", AsPaper(1.017, 1.017)),
    ):
        figure = replace(FIGURE, y=f"{what}, ms", measure=measure)
        story = figure.tell(scale, points)
        changes = [
            (
                age,
                [measure(points[age, "PDQ", seed]) for seed in scale.seeds],
                [measure(points[0.0, "PDQ", seed]) for seed in scale.seeds],
            )
            for age in AGES
        ]
        found.append((what, need, story, changes))
    rows = [
        {"aging rate": one["aging rate"]}
        | {
            f"{what}, {name}": row[name]
            for what, _, story, _ in found
            for row in [story.rows[at]]
            for name in ("PDQ", "RCP")
        }
        for at, one in enumerate(found[0][2].rows)
    ]
    best = min(AGES, key=lambda age: float(np.mean([worst_ms(points[age, "PDQ", seed]) for seed in scale.seeds])))
    verdicts = [_change(what, need, changes, best) for what, need, _, changes in found]
    return Story(rows, [story.panels[0] for _, _, story, _ in found], verdicts, " ".join(verdicts))


def _change(what: str, need: AsPaper, changes: list[tuple[float, list[float], list[float]]], best: float) -> str:
    aged_ones, plain = next((ours, theirs) for age, ours, theirs in changes if age == best)
    claim = Claim(f"PDQ, aging rate {best:g}", "PDQ", "all", what, need, "Fig. 12, where the worst is least")
    return said(claim, [ratio(aged_ones, plain)])


FIGURE = Lines("aging rate", AGES, ("PDQ", "RCP"), aged, "mean FCT, ms")
PAGE = Page(
    "pdq-12",
    "PDQ Fig. 12: flows that age",
    (
        "Fat-tree of k = 10 (250 servers; none has the paper's 256), flow level, random permutations; "
        f"{PER_SERVER} flows a server, 2 KB to 2 MB, a Poisson process at load {AGED_LOAD} of servers' links "
        "(the paper states neither flows nor arrivals).",
        "Aging: a flow's expected transmission time is divided by 2^(rate t), t being how long it has been "
        "paused in units "
        'of 100 ms (engine/schemes/criticality.h); the paper\'s text says "gradually increase" and no more.',
        "Cells: mean over seeds with its 95 % interval (Student's t).",
    ),
    scales_of({"quick": 1, "medium": 1, "full": 1}, {"quick": 2, "medium": 5, "full": 10}),
    FIGURE.runs,
    tell,
    notes=(
        "Flows must go on arriving: then new short ones keep a long one waiting, which is what aging ends. Where all "
        "begin at once the worst of them ends when its link has carried all it has to, in whatever order: 0.97 "
        "[0.95, 1.00] of the worst FCT without aging.",
        "Of the paper's 48 % off the worst 47 are there at rate 4, for a mean 6 % higher (the paper: 1.7 %); at rate 2 "
        "it is 40 %, for 2 %.",
    ),
)
