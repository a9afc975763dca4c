"""Pages that run each scheme on each case at each load: the table of ratios, the plots and the verdicts of all such."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from lab.figures.claims import Claim, in_a_line, judged
from lab.figures.intervals import over_seeds, shown
from lab.figures.page import Panel, Points, Runs, Scale, Series, Story
from lab.sim import Experiment

COLUMNS = {
    "overall mean": ("mean", "all"),
    "small mean": ("mean", "small"),
    "small p99": ("p99", "small"),
    "medium mean": ("mean", "medium"),
    "large mean": ("mean", "large"),
}
Point = Callable[[str, str, float, int, int], Experiment]
"""Case, scheme, load, flows, seed."""


@dataclass(frozen=True)
class Grid:
    """What is run, what it is compared with, and what the paper says of it."""

    cases: tuple[str, ...]
    schemes: tuple[str, ...]
    base: str
    """The scheme that columns are ratios to."""
    point: Point
    claims: tuple[Claim, ...]
    case: str = "case"
    """What a case is, as the table's heading."""
    x: Mapping[str, float] = field(default_factory=dict)
    """Cases that are numbers: the plots' abscissa; else it is the load."""
    plotted: tuple[str, ...] = ("overall mean", "small mean")
    quick: tuple[str, ...] = ()
    """Cases of the scale `quick`; empty: all."""

    def of(self, scale: Scale) -> Grid:
        """With the cases of a scale."""
        return replace(self, cases=self.quick, quick=()) if self.quick and scale.name == "quick" else self

    def runs(self, scale: Scale) -> Runs:
        """A point a case, scheme, load and seed."""
        return {
            (case, scheme, load, seed): self.point(case, scheme, load, scale.flows, seed)
            for case in self.of(scale).cases
            for scheme in self.schemes
            for load in scale.loads
            for seed in scale.seeds
        }

    def tell(self, scale: Scale, points: Points) -> Story:
        """Ratios are formed seed by seed, over the same flows."""
        if self.of(scale) is not self:
            return self.of(scale).tell(scale, points)
        ratio = Ratios(scale, points)
        rows = [
            {
                self.case: case,
                "load": f"{load}",
                "scheme": scheme,
                **{
                    f"{title} / {self.base}": shown(*ratio(case, scheme, self.base, load, *column))
                    for title, column in COLUMNS.items()
                },
            }
            for case in self.cases
            for load in scale.loads
            for scheme in self.schemes
            if scheme != self.base
        ]
        found = [
            [
                ratio(case, claim.scheme, claim.base, load, claim.name, claim.size_class)[0]
                for case in claim.cases or self.cases
                for load in ([load for load in scale.loads if load in claim.loads] or scale.loads)
            ]
            for claim in self.claims
        ]
        verdicts = [judged(claim, values) for claim, values in zip(self.claims, found, strict=True)]
        return Story(rows, self._panels(scale, ratio), verdicts, in_a_line(self.claims, found))

    def _panels(self, scale: Scale, ratio: Ratios) -> list[Panel]:
        others = [scheme for scheme in self.schemes if scheme != self.base]
        if len(scale.loads) == 1 and not self.x:  # no line to draw: a dot a case and scheme
            load = scale.loads[0]
            at = [(case, load) for case in self.cases]
            places_of = [float(place) for place in range(len(at))]
            return [
                Panel(
                    f"load {load}: {title}",
                    "",
                    f"FCT / {self.base}'s",
                    [_series(ratio, scheme, self.base, places_of, at, COLUMNS[title]) for scheme in others],
                    self.cases,
                )
                for title in self.plotted
            ]
        if self.x:
            places: list[tuple[str, str, list[float], list[tuple[str, float]]]] = [
                (f"load {load}", self.case, list(self.x.values()), [(case, load) for case in self.x])
                for load in scale.loads
            ]
        else:
            places = [(case, "load", list(scale.loads), [(case, load) for load in scale.loads]) for case in self.cases]
        return [
            Panel(
                f"{where}: {title}",
                axis,
                f"FCT / {self.base}'s",
                [_series(ratio, scheme, self.base, x, at, COLUMNS[title]) for scheme in others],
            )
            for where, axis, x, at in places
            for title in self.plotted
        ]


def _series(
    ratio: Ratios, scheme: str, base: str, x: list[float], at: list[tuple[str, float]], column: tuple[str, str]
) -> Series:
    each = [ratio(case, scheme, base, load, *column) for case, load in at]
    return Series(scheme, x, [mean for mean, _ in each], [float(np.nan_to_num(half)) for _, half in each])


class Ratios:
    """Ratios of two schemes' statistics over the same flows, seed by seed. Keys are case, scheme, load, seed."""

    def __init__(self, scale: Scale, points: Points) -> None:
        self._scale, self._points = scale, points

    def __call__(
        self, case: str, scheme: str, base: str, load: float, name: str, size_class: str
    ) -> tuple[float, float]:
        """Mean over the seeds that have such flows, and half its interval."""
        each = [
            self._points[case, scheme, load, seed].statistic(name, size_class)
            / self._points[case, base, load, seed].statistic(name, size_class)
            for seed in self._scale.seeds
        ]
        there = [value for value in each if value == value]
        return over_seeds(there) if there else (float("nan"), float("nan"))
