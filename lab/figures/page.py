"""What a page of the book is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from lab.experiment.intervals import Interval
from lab.figures.points import AnyExperiment, Point

Key = tuple[str | float | int, ...]
FULL_FROM = 5_000
"""Flows: from here on pages that have a smaller fabric for fewer have the paper's, and forests their full size."""
Runs = Mapping[Key, AnyExperiment]
Points = Mapping[Key, Point]


@dataclass(frozen=True)
class Scale:
    """How much of a page is run."""

    name: str
    flows: int
    seeds: tuple[int, ...]
    loads: tuple[float, ...]


def scales(
    quick: int,
    medium: int,
    full: int,
    quick_loads: Sequence[float],
    loads: Sequence[float] = (),
    medium_seeds: Sequence[int] = (1, 2, 3),
) -> dict[str, Scale]:
    """Flows a point at each scale; `loads`: of all but the quick one, where they are others."""
    many = tuple(loads or quick_loads)
    return {
        "quick": Scale("quick", quick, (1,), tuple(quick_loads)),
        "medium": Scale("medium", medium, tuple(medium_seeds), many),
        "full": Scale("full", full, (1, 2, 3), many),
    }


@dataclass(frozen=True)
class Series:
    """One line of a plot."""

    label: str
    x: Sequence[float]
    y: Sequence[Interval]

    @property
    def values(self) -> list[float]:
        """Without their intervals."""
        return [each.value for each in self.y]

    @property
    def has_intervals(self) -> bool:
        """Whether there is any width to draw."""
        return any(each.high > each.low for each in self.y)


@dataclass(frozen=True)
class Paper:
    """What a paper has of a line: from `low` to `high` (equal: one number) at those places of the abscissa."""

    label: str
    x: Sequence[float]
    low: float
    high: float


@dataclass(frozen=True)
class Panel:
    """One plot."""

    title: str
    x: str
    y: str
    series: Sequence[Series]
    names: Sequence[str] = ()
    """Of the abscissa's 0, 1, 2, ..., where these are no numbers but cases: each then has a line of the plot."""
    papers: Sequence[Paper] = ()
    """Drawn behind the line of the same label."""


@dataclass(frozen=True)
class Story:
    """What the runs say: a table (rows: column to text), panels, one verdict a claim, and all of it in a line."""

    rows: Sequence[Mapping[str, str]]
    panels: Sequence[Panel]
    verdicts: Sequence[str]
    verdict: str = ""
    """For the index; empty: the first of `verdicts`."""


@dataclass(frozen=True)
class Page:
    """`name` as the command takes it; `settings` in prose, choices where the paper is silent included."""

    name: str
    title: str
    settings: Sequence[str]
    scales: Mapping[str, Scale]
    """`quick`: a look in seconds; `medium`: minutes; `full`: evidence, several seeds and all that the page asks."""
    runs: Callable[[Scale], Runs]
    tell: Callable[[Scale, Points], Story]
    notes: Sequence[str] = field(default=())
