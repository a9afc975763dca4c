"""OPTAX (TAAS), Figs. 10 to 12: small tasks alone, by how many they are, how wide, and how often they come."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from lab.experiment.claims import AsPaper, Claim, said
from lab.experiment.intervals import Interval
from lab.figures.page import Page, Panel, Paper, Points, Runs, Scale, Series, Story
from lab.figures.pages.optax.tasks import (
    BASE,
    GAIN_SAID,
    KIB,
    MIB,
    ORACLE,
    OURS,
    SCHEMES_SAID,
    SPREAD_US,
    SWITCH_SAID,
    Load,
    experiment,
    gain_of,
    small_of,
    together,
    took_us,
)

MIB_EACH = {"1 MB": MIB, "2 MB": 2 * MIB, "3 MB": 3 * MIB, "4 MB": 4 * MIB}
RATES = (10, 30, 100, 300, 1_000, 3_000, 10_000)
BYTES_EACH, WIDTH, COUNT = 256 * KIB, 8, 10
"""Fig. 12's tasks are Fig. 10's, ten of them: the link carries some 580 a second."""


def arriving(per_second: float, count: int, seed: int) -> Load:
    """Equal tasks whose starts are a Poisson process."""
    random = np.random.default_rng([seed, 12])
    start = np.cumsum(random.exponential(1e12 / per_second, count)).astype(np.int64)
    return Load(start, np.full(count, WIDTH), np.full(count, BYTES_EACH))


@dataclass(frozen=True)
class Figure:
    """One of 10, 11, 12."""

    x: str
    values: tuple[int, ...]
    made: Callable[[str, int, int, int], Load]
    """From a case, a value, how many tasks there are to be and a seed."""
    lines: tuple[str, ...]
    """Schemes beside ICTCP."""
    claims: tuple[tuple[str, AsPaper, tuple[int, ...]], ...]
    """In words, what the paper has of ICTCP over OPTAX, and at which values."""
    cases: tuple[str, ...] = ("",)
    is_log: bool = False
    """The abscissa is drawn in powers of ten."""

    def runs(self, scale: Scale) -> Runs:
        """A point a case, value, scheme and seed."""
        return {
            (case, value, name, seed): experiment(self.made(case, value, scale.flows, seed), name, seed)
            for case in self.cases
            for value in self.values
            for name in (BASE, *self.lines)
            for seed in scale.seeds
        }

    def tell(self, scale: Scale, points: Points) -> Story:
        """A row a case and value; a line a scheme and case."""
        rows, gains = [], {}
        for case in self.cases:
            for value in self.values:
                loads = {seed: self.made(case, value, scale.flows, seed) for seed in scale.seeds}
                key = (case, value)
                for name in self.lines:
                    gains[case, value, name] = gain_of(points, key, loads, name)
                base_us = [took_us(load, points[(*key, BASE, seed)]).mean() for seed, load in loads.items()]
                lost = [
                    sum(points[(*key, name, seed)].counters["drops"] for seed in scale.seeds) for name in (BASE, OURS)
                ]
                rows.append(
                    {
                        **({"a task": case} if len(self.cases) > 1 else {}),
                        self.x: f"{value:,}",
                        "ICTCP, mean ms": f"{np.mean(base_us) / 1000:.3f}",
                        **{f"gain, {name}": gains[case, value, name].text() for name in self.lines},
                        "packets lost, ICTCP, OPTAX": f"{lost[0]:,}, {lost[1]:,}",
                    }
                )
        return Story(rows, self._panels(gains), self._judged(gains))

    def _panels(self, gains: Mapping[tuple[str, int, str], Interval]) -> list[Panel]:
        def line(case: str, name: str) -> Series:
            label = case if len(self.cases) > 1 else name
            return Series(label, self._places(self.values), [gains[case, value, name] for value in self.values])

        if len(self.cases) > 1:
            return [
                Panel(name, self._axis, "gain over ICTCP", [line(case, name) for case in self.cases])
                for name in self.lines
            ]
        papers = [
            Paper(OURS, self._places(values), needs.low, needs.high)
            for _, needs, values in self.claims
            if len(values) == 1
        ]
        series = [line("", name) for name in self.lines]
        return [Panel("Mean completion time of tasks", self._axis, "gain over ICTCP", series, papers=papers)]

    def _is_small(self, case: str, value: int) -> bool:
        """What the paper's claims are about."""
        return bool(small_of(self.made(case, value, 1, 1)).all())

    @property
    def _axis(self) -> str:
        return f"{self.x}, as a power of ten" if self.is_log else self.x

    def _places(self, values: Sequence[int]) -> list[float]:
        return [float(np.log10(value)) if self.is_log else float(value) for value in values]

    def _judged(self, gains: Mapping[tuple[str, int, str], Interval]) -> list[str]:
        found = []
        for where, needs, values in self.claims:
            places = [(case, value) for case in self.cases for value in values if value in self.values]
            seen = [gains[case, value, OURS] for case, value in places if self._is_small(case, value)]
            if not seen:
                continue
            found.append(said(Claim(BASE, OURS, "all", "mean completion time", needs, where), seen))
        return found


FIG_10 = Figure(
    "tasks",
    (2, 4, 6, 8, 10),
    lambda _, value, count, seed: together(value, 8, 256 * KIB, seed),
    (OURS, ORACLE),
    (
        ("2 tasks", AsPaper(1.43, 1.43), (2,)),
        ("10 tasks", AsPaper(1.59, 1.59), (10,)),
    ),
)
FIG_11 = Figure(
    "flows a task",
    (2, 4, 6, 8, 10, 12, 14),
    lambda case, value, count, seed: together(8, value, MIB_EACH[case] // value, seed),
    (OURS, ORACLE),
    (("up to 12 flows", AsPaper(1.47, 1.77), (2, 4, 6, 8, 10, 12)),),
    tuple(MIB_EACH),
)
FIG_12 = Figure(
    "tasks a second",
    RATES,
    lambda _, value, count, seed: arriving(value, COUNT, seed),
    (OURS, ORACLE),
    (
        ("10,000 a second", AsPaper(1.46, 1.46), (10_000,)),
        ("10 a second", AsPaper(0.998, 1.0), (10,)),
    ),
    is_log=True,
)
TOGETHER = (
    f"All tasks begin within {SPREAD_US:.0f} us, each one's flows at once, from servers drawn for it.",
    "Shortest first: the paper's omniscient STF, here rate by rate with no delays and no losses, on the bytes that are "
    "on the wire (lab.sim.coflow).",
)
SCALES = {
    name: Scale(name, flows, tuple(range(1, 1 + seeds)), (1.0,))
    for name, flows, seeds in (("quick", 800, 2), ("medium", 4_000, 5), ("full", 16_000, 20))
}
COMMON = ("No load is set: the abscissa is how much comes at once.", SWITCH_SAID, SCHEMES_SAID, GAIN_SAID)
PAGE_10 = Page(
    "optax-10",
    "OPTAX Fig. 10: gain over fair sharing by number of small tasks",
    ("2 to 10 tasks of 8 flows of 256 KB each.", *TOGETHER, *COMMON),
    SCALES,
    FIG_10.runs,
    FIG_10.tell,
)
PAGE_11 = Page(
    "optax-11",
    "OPTAX Fig. 11: gain over fair sharing by width and volume of small tasks",
    (
        "8 tasks; a task has 1, 2, 3 or 4 MB in 2 to 14 flows. A flow above 1 MB is not small: OPTAX leaves 3 and 4 MB "
        "in 2 flows to fair sharing.",
        *TOGETHER,
        *COMMON,
    ),
    SCALES,
    FIG_11.runs,
    FIG_11.tell,
)
PAGE_12 = Page(
    "optax-12",
    "OPTAX Fig. 12: gain over fair sharing by how often small tasks come",
    (
        "10 tasks of 8 flows of 256 KB each, as Fig. 10's, begin as a Poisson process. The paper states neither sizes "
        "nor how many there are; 10,000 a second for longer than a moment no link of 10 Gb/s could carry, unless a "
        "task had less than 125 KB.",
        TOGETHER[1],
        *COMMON,
    ),
    SCALES,
    FIG_12.runs,
    FIG_12.tell,
)
PAGES = (PAGE_10, PAGE_11, PAGE_12)
