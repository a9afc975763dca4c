"""Pages that compare schemes over cases and loads, as data: what is run, the table's columns, what a paper claims."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from lab.experiment.claims import AsPaper, Claim, Outcome, judge, said, tally
from lab.experiment.intervals import Interval, over_runs
from lab.figures.page import Key, Panel, Paper, Points, Runs, Scale, Series, Story
from lab.figures.points import AnyExperiment, Point

Measure = Callable[[Point], float]
Run = Callable[[str, str, float, int, int], AnyExperiment | None]
"""Case, scheme, load, flows, seed; None: there is no such point."""


@dataclass(frozen=True)
class Statistic:
    """`mean` or `p99` of a class of flows. Two of the same are equal: a claim finds the plots of what it is about."""

    name: str
    size_class: str
    of: str

    def __call__(self, point: Point) -> float:
        """Of one run."""
        return point.statistic(self.name, self.size_class, self.of)


def fct(statistic: str = "mean", size_class: str = "all", of: str = "fct_us") -> Measure:
    """`mean` or `p99` of a class of flows' completion times."""
    return Statistic(statistic, size_class, of)


def slowdown(statistic: str = "mean", size_class: str = "all") -> Measure:
    """As `fct`; in the fluid model it is nFCT."""
    return fct(statistic, size_class, "slowdown")


def counted(name: str, per: str = "", times: float = 1) -> Measure:
    """A counter of the whole run, or its ratio to another one."""
    return lambda point: times * point.counters[name] / (point.counters[per] if per else 1)


class Told:
    """What points say, over their seeds. Ratios are formed seed by seed, over the same flows."""

    def __init__(self, scale: Scale, points: Points) -> None:
        self._scale, self._points = scale, points

    def has(self, case: str, scheme: str, load: float) -> bool:
        """Whether that was run."""
        return (case, scheme, load, self._scale.seeds[0]) in self._points

    def each(self, case: str, scheme: str, load: float, measure: Measure) -> list[float]:
        """A value a seed."""
        return [measure(self._points[case, scheme, load, seed]) for seed in self._scale.seeds]

    def value(self, case: str, scheme: str, load: float, measure: Measure) -> Interval:
        """Mean over seeds of what can't be below 0."""
        mean = over_runs(self.each(case, scheme, load, measure))
        return replace(mean, low=max(0.0, mean.low)) if mean.is_bounded else mean

    def ratio(self, case: str, scheme: str, base: str, load: float, measure: Measure) -> Interval:
        """Of two schemes; seeds without such flows are left out."""
        pairs = zip(self.each(case, scheme, load, measure), self.each(case, base, load, measure), strict=True)
        return over_runs((ours / theirs for ours, theirs in pairs if ours > 0 and theirs > 0), ratios=True)


class Cell(Protocol):
    """What stands in a column of the table."""

    @property
    def title(self) -> str:
        """The heading."""

    def text(self, told: Told, case: str, scheme: str, load: float) -> str:
        """In a row."""


class Number(Cell, Protocol):
    """A cell that can be drawn."""

    def of(self, told: Told, case: str, scheme: str, load: float) -> Interval:
        """In a row."""


@dataclass(frozen=True)
class Column:
    """A number of each row: of the row's scheme or of `scheme`; with `base` as a ratio to it, or `turned` over."""

    title: str
    measure: Measure
    base: str = ""
    scheme: str = ""
    turned: bool = False
    digits: int = 2
    case: str = ""
    """Whose points are taken instead of the row's."""
    cases: tuple[str, ...] = ()
    """In whose rows it stands; empty: in all."""

    def of(self, told: Told, case: str, scheme: str, load: float) -> Interval:
        """The number."""
        case, scheme = self.case or case, self.scheme or scheme
        if not self.base:
            return told.value(case, scheme, load, self.measure)
        over, under = (self.base, scheme) if self.turned else (scheme, self.base)
        return told.ratio(case, over, under, load, self.measure)

    def paper(self, claim: Claim, measure: Measure, scheme: str) -> tuple[float, float] | None:
        """What the paper has of a row's number: least and most; None where the claim is about another one."""
        if not isinstance(claim.needs, AsPaper) or measure != self.measure or self.case:
            return None
        pair, low, high = (self.scheme or scheme, self.base), claim.needs.low, claim.needs.high
        if (claim.scheme, claim.base) == pair:
            return (1 / high, 1 / low) if self.turned else (low, high)
        if (claim.base, claim.scheme) == pair:
            return (low, high) if self.turned else (1 / high, 1 / low)
        return None

    def text(self, told: Told, case: str, scheme: str, load: float) -> str:
        """As in the table."""
        if self.cases and case not in self.cases:
            return ""
        return self.of(told, case, scheme, load).text(self.digits)


@dataclass(frozen=True)
class Note:
    """Words of each row, by case, scheme and load: what others have found there."""

    title: str
    words: Callable[[str, str, float], object]

    def text(self, told: Told, case: str, scheme: str, load: float) -> str:
        """As in the table."""
        return f"{self.words(case, scheme, load)}"


CLASSES = {
    "overall mean": ("mean", "all"),
    "small mean": ("mean", "small"),
    "small p99": ("p99", "small"),
    "medium mean": ("mean", "medium"),
    "large mean": ("mean", "large"),
}


def _beside(base: str) -> tuple[Column, ...]:
    """FCTs of all classes over another scheme's."""
    return tuple(Column(f"{title} / {base}", fct(*which), base) for title, which in CLASSES.items() if base)


def _unchanged(scale: Scale, told: Told, story: Story) -> Story:
    return story


@dataclass(frozen=True)
class Grid:
    """A point a case, scheme, load and seed."""

    schemes: tuple[str, ...]
    run: Run
    base: str = ""
    """The scheme that is compared with: it has no row and no line."""
    columns: Sequence[Cell] = ()
    """Empty: FCTs of all classes over the base's."""
    claims: Sequence[Claim] = ()
    cases: tuple[str, ...] = ("",)
    case: str = ""
    """What a case is, as the table's heading; empty: the table has no such column."""
    scheme: str = "scheme"
    quick: tuple[str, ...] = ()
    """Cases of the scale `quick`; empty: all."""
    hidden: tuple[str, ...] = ()
    """Cases that are run and drawn, but have no rows and no claims."""
    tabled: tuple[str, ...] = ()
    """Schemes that have rows; empty: all but the base. One alone has no column for its name."""
    drawn: tuple[str, ...] = ()
    """Schemes that have lines; empty: all but the base."""
    plotted: Sequence[Number] = ()
    """Empty: the overall and small means over the base's, where there is one."""
    y: str = ""
    x: Mapping[str, float] = field(default_factory=dict)
    """Cases that are numbers: the plots' abscissa; else it is the load."""
    dots: bool = False
    """A line of the plot a case, at the middle load."""
    of: str = "fct_us"
    """What claims are about: `fct_us` or `slowdown`."""
    measures: Mapping[str, Measure] = field(default_factory=dict)
    """Of claims whose statistic is neither `mean` nor `p99`."""
    also: Callable[[Scale, Told, Story], Story] = _unchanged
    """What the page alone has to say."""

    def at(self, scale: Scale) -> Grid:
        """With the cases of a scale."""
        return replace(self, cases=self.quick, quick=()) if self.quick and scale.name == "quick" else self

    def runs(self, scale: Scale) -> Runs:
        """All points, in the order of the table."""
        found: dict[Key, AnyExperiment] = {}
        for case in self.at(scale).cases:
            for scheme in self.schemes:
                for load in scale.loads:
                    for seed in scale.seeds:
                        point = self.run(case, scheme, load, scale.flows, seed)
                        if point is not None:
                            found[case, scheme, load, seed] = point
        return found

    def tell(self, scale: Scale, points: Points) -> Story:
        """The table, the plots, each claim held against what was seen, and what the page has to say itself."""
        grid, told = self.at(scale), Told(scale, points)
        judged = [(claim, *grid.seen(claim, scale, told)) for claim in grid.claims]
        run = [(claim, seen, loads) for claim, seen, loads in judged if seen]
        line = tally([judge(claim.needs, seen, loads).outcome for claim, seen, loads in run]) if run else ""
        if len(run) < len(judged):
            line += f" {len(judged) - len(run)} more are of loads, cases or flows that were not run."
        verdicts = [said(claim, seen, loads) for claim, seen, loads in run]
        story = Story(grid._rows(scale, told), grid._panels(scale, told), verdicts, line.strip())
        return grid.also(scale, told, story)

    def seen(self, claim: Claim, scale: Scale, told: Told) -> tuple[list[Interval], list[float]]:
        """A claim's ratio in each of its cases and at each of its loads, as far as there were such flows; and those
        loads."""
        asked = claim.needs.loads if isinstance(claim.needs, AsPaper) else ()
        measure = self._measure(claim)
        places = [
            (case, load)
            for case in self.cases
            if (case in claim.cases if claim.cases else case not in self.hidden)
            for load in scale.loads
            if (not asked or load in asked)
            and all(told.has(case, scheme, load) for scheme in (claim.scheme, claim.base))
        ]
        each = [(load, told.ratio(case, claim.scheme, claim.base, load, measure)) for case, load in places]
        found = [(load, seen) for load, seen in each if seen.is_measured]
        return [seen for _, seen in found], sorted({load for load, _ in found})

    def outcomes(self, scale: Scale, told: Told) -> dict[Claim, Outcome]:
        """Of the claims that were run."""
        found = {claim: self.seen(claim, scale, told) for claim in self.claims}
        return {claim: judge(claim.needs, *seen).outcome for claim, seen in found.items() if seen[0]}

    def _others(self) -> tuple[str, ...]:
        return tuple(scheme for scheme in self.schemes if scheme != self.base)

    def _rows(self, scale: Scale, told: Told) -> list[dict[str, str]]:
        schemes, columns = self.tabled or self._others(), self.columns or _beside(self.base)
        return [
            {
                **({self.case: case} if self.case else {}),
                "load": f"{load}",
                **({self.scheme: scheme} if len(self.tabled) != 1 else {}),
                **{column.title: column.text(told, case, scheme, load) for column in columns},
            }
            for case in self.cases
            if case not in self.hidden
            for load in scale.loads
            for scheme in schemes
            if told.has(case, scheme, load)
        ]

    def _panels(self, scale: Scale, told: Told) -> list[Panel]:
        panels = []
        for where, axis, x, places, names in self._axes(scale, told):
            at = [(one, case, load) for one, (case, load) in zip(x, places, strict=True)]
            for column in self.plotted or _beside(self.base)[:2]:
                lines, papers = [], []
                for scheme in self.drawn or self._others():
                    there = [(one, case, load) for one, case, load in at if told.has(case, scheme, load)]
                    values = [column.of(told, case, scheme, load) for _, case, load in there]
                    lines.append(Series(scheme, [one for one, *_ in there], values))
                    papers += self._papers(column, scheme, at)
                title = f"{where}: {column.title}" if where else column.title
                panels.append(Panel(title, axis, self.y or f"FCT / {self.base}'s", lines, names, papers))
        return panels

    def _papers(self, column: Number, scheme: str, at: Sequence[tuple[float, str, float]]) -> list[Paper]:
        """The paper's numbers of a line of a plot."""
        found = []
        for claim in self.claims:
            span = column.paper(claim, self._measure(claim), scheme) if isinstance(column, Column) else None
            if span is not None and isinstance(claim.needs, AsPaper):
                cases, loads = claim.cases, claim.needs.loads
                x = [one for one, case, load in at if (not cases or case in cases) and (not loads or load in loads)]
                found += [Paper(scheme, x, *span)] if x else []
        return found

    def _measure(self, claim: Claim) -> Measure:
        return self.measures.get(claim.statistic) or fct(claim.statistic, claim.size_class, self.of)

    def _axes(
        self, scale: Scale, told: Told
    ) -> list[tuple[str, str, list[float], list[tuple[str, float]], Sequence[str]]]:
        """Of each panel's abscissa: what it is of, its title, its places and what stands there, and their names."""
        if self.x:
            places = [(case, value) for case, value in self.x.items() if case in self.cases]
            return [
                (f"load {load}", self.case, [value for _, value in places], [(case, load) for case, _ in places], ())
                for load in scale.loads
            ]
        if self.dots or (len(scale.loads) == 1 and len(self.cases) > 1):  # no line to draw: a dot a case and scheme
            load = scale.loads[len(scale.loads) // 2]
            cases = [case for case in self.cases if case not in self.hidden]
            return [
                (f"load {load}", "", [float(n) for n in range(len(cases))], [(case, load) for case in cases], cases)
            ]
        drawn = self.drawn or self._others()
        found: list[tuple[str, str, list[float], list[tuple[str, float]], Sequence[str]]] = []
        for case in self.cases:
            loads = [load for load in scale.loads if told.has(case, drawn[0], load)]
            if len(loads) > 1 or len(scale.loads) == 1:
                found.append((case, "load", loads, [(case, load) for load in loads], ()))
        return found
