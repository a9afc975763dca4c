"""What PDQ's pages have in common: a line a scheme over an abscissa, and the most flows that a scheme has in time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lab.experiment.claims import Claim, Need, said
from lab.experiment.intervals import Interval, over_runs
from lab.figures.page import Panel, Paper, Points, Runs, Scale, Series, Story
from lab.figures.pages.pdq.aggregation import mean_ms
from lab.figures.points import Point
from lab.sim import Experiment, FlowList
from lab.sim.optimum import most_in_time

OPTIMUM = "optimum"
ENOUGH = 0.99
"""Application throughput that operators want: of the flows 99 % in time."""
Draw = Callable[
    [np.random.Generator], tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]
]
"""Of a round: sizes, sources, targets, and deadlines in ps after its beginning (0: none)."""


def rounds(draw: Draw, count: int, period_ps: int, seed: Sequence[int]) -> FlowList:
    """So many rounds, one after another in one run, far enough apart to know nothing of each other."""
    random = np.random.default_rng(list(seed))
    columns: list[list[NDArray[np.int64]]] = [[], [], [], [], []]
    for n in range(count):
        size, source, target, due = draw(random)
        start = np.full(len(size), n * period_ps, np.int64)
        for column, values in zip(columns, (start, size, source, target, np.where(due, due + start, 0)), strict=True):
            column.append(values)
    start, size, source, target, due = (np.concatenate(column) for column in columns)
    return FlowList(start, size, source, target, deadline_ps=due if due.any() else None)


def most_of(found: FlowList, rate_bps: float) -> float:
    """The share of flows that one link can have in time, round by round."""
    assert found.deadline_ps is not None
    kept = 0
    for start in np.unique(found.start_ps):
        at = found.start_ps == start
        kept += int(most_in_time(found.size_bytes[at], (found.deadline_ps[at] - start) / 1e12, rate_bps).sum())
    return kept / len(found.start_ps)


@dataclass(frozen=True)
class Beside:
    """A claim: one line over another, at some places of the abscissa."""

    scheme: str
    base: str
    needs: Need
    where: str
    at: tuple[float, ...] = ()
    """Empty: at all."""


@dataclass(frozen=True)
class Lines:
    """A point a value, scheme and seed."""

    x: str
    values: tuple[float, ...]
    schemes: tuple[str, ...]
    run: Callable[[float, str, int, Scale], Experiment | None]
    """From a value, a scheme and a seed; None: not there."""
    y: str
    measure: Callable[[Point], float] = mean_ms
    claims: tuple[Beside, ...] = ()
    best: Callable[[float, int, Scale], float] | None = None
    """The optimum of the same flows."""
    over: str = ""
    """Everything is told as a ratio to this scheme's."""
    names: tuple[str, ...] = ()
    """Of the values, where they are cases."""
    digits: int = 2
    papers: Callable[[], Sequence[Paper]] = tuple
    also: Callable[[Scale, Points], list[str]] = lambda scale, points: []
    """What the page alone has to say."""

    @property
    def has_optimum(self) -> bool:
        """Whether it is a line."""
        return self.best is not None

    def runs(self, scale: Scale) -> Runs:
        """All points."""
        found = {
            (value, name, seed): self.run(value, name, seed, scale)
            for value in self.values
            for name in self.schemes
            for seed in scale.seeds
        }
        return {key: experiment for key, experiment in found.items() if experiment is not None}

    def number(self, scale: Scale, points: Points, value: float, name: str, seed: int) -> float:
        """What a line has there, by seed."""
        if name == OPTIMUM:
            assert self.best is not None
            return self.best(value, seed, scale)
        point = points.get((value, name, seed))
        return float("nan") if point is None else self.measure(point)

    def tell(self, scale: Scale, points: Points) -> Story:
        """A row a value, a line a scheme."""
        names = ((OPTIMUM,) if self.has_optimum else ()) + self.schemes
        seen = {
            (value, name): [self.number(scale, points, value, name, seed) for seed in scale.seeds]
            for value in self.values
            for name in names
        }
        shown = [name for name in names if name != self.over]

        def cell(value: float, name: str) -> Interval:
            if self.over:
                return ratio(seen[value, name], seen[value, self.over])
            return over_runs(each for each in seen[value, name] if each == each)

        lines = {name: [cell(value, name) for value in self.values] for name in shown}
        rows = [
            {
                self.x: self.names[at] if self.names else f"{value:,g}",
                **{name: _told(lines[name][at], self.digits) for name in shown},
            }
            for at, value in enumerate(self.values)
        ]
        places = list(range(len(self.values))) if self.names else list(self.values)
        there = {name: [at for at, each in enumerate(lines[name]) if each.is_measured] for name in shown}
        series = [
            Series(name, [places[at] for at in there[name]], [lines[name][at] for at in there[name]])
            for name in shown
            if there[name]
        ]
        y = f"{self.y} / {self.over}'s" if self.over else self.y
        panel = Panel(y, self.x, y, series, self.names, [*self._drawn(places), *self.papers()])
        verdicts = [self._judged(seen, claim) for claim in self.claims]
        also = self.also(scale, points)
        return Story(rows, [panel], [*verdicts, *also], " ".join(verdicts) or " ".join(also))

    def _drawn(self, places: Sequence[float]) -> list[Paper]:
        """The paper's numbers, where the plot's are ratios to the same scheme."""
        found = []
        for claim in self.claims:
            low, high = getattr(claim.needs, "low", None), getattr(claim.needs, "high", None)
            at = [place for place, value in zip(places, self.values, strict=True) if value in (claim.at or self.values)]
            if low is None or high is None or not self.over:
                continue
            if claim.base == self.over:
                found.append(Paper(claim.scheme, at, low, high))
            elif claim.scheme == self.over:
                found.append(Paper(claim.base, at, 1 / high, 1 / low))
        return found

    def _judged(self, seen: Mapping[tuple[float, str], list[float]], claim: Beside) -> str:
        at = [value for value in self.values if value in (claim.at or self.values)]
        found = [ratio(seen[value, claim.scheme], seen[value, claim.base]) for value in at]
        return said(Claim(claim.scheme, claim.base, "all", self.y, claim.needs, claim.where), found)


def _told(cell: Interval, digits: int) -> str:
    return cell.text(digits) if cell.is_measured else "not run"


def ratio(ours: Iterable[float], theirs: Iterable[float]) -> Interval:
    """Seed by seed."""
    pairs = zip(ours, theirs, strict=True)
    return over_runs((one / other for one, other in pairs if one > 0 and other > 0), ratios=True)


@dataclass(frozen=True)
class Capacity(Lines):
    """How many flows at once (or a second) a scheme has in time to ENOUGH: between the last count, of those that were
    run, that still is and the next, along a straight line."""

    counts: tuple[int, ...] = ()
    counter: str = "in_time"
    make: Callable[[float, str, int, int, Scale], Experiment | None] = lambda *_: None
    """From a value, a scheme, a seed and a count."""
    share: Callable[[float, int, int, Scale], float] | None = None
    """What the optimum has in time, of the same flows."""

    @property
    def has_optimum(self) -> bool:
        """Whether it is a line."""
        return self.share is not None

    def runs(self, scale: Scale) -> Runs:
        """All points."""
        found = {
            (value, name, seed, count): self.make(value, name, seed, count, scale)
            for value in self.values
            for name in self.schemes
            for seed in scale.seeds
            for count in self.counts
        }
        return {key: experiment for key, experiment in found.items() if experiment is not None}

    def number(self, scale: Scale, points: Points, value: float, name: str, seed: int) -> float:
        """The most flows."""
        if name == OPTIMUM:
            assert self.share is not None
            return most_at(self.counts, [self.share(value, seed, count, scale) for count in self.counts])
        there = [count for count in self.counts if (value, name, seed, count) in points]
        if not there:
            return float("nan")
        return most_at(there, [float(points[value, name, seed, count].counters[self.counter]) for count in there])


def most_at(counts: Sequence[int], shares: Sequence[float]) -> float:
    """Where shares first fall below ENOUGH; 0 where they never are that much, the last count where they always are."""
    before, share_before = 0.0, 1.0
    for count, share in zip(counts, shares, strict=True):
        if share < ENOUGH:
            return before + (count - before) * (share_before - ENOUGH) / (share_before - share)
        before, share_before = float(count), share
    return before
