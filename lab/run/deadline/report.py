"""The share of deadlines met, with intervals: a table, a plot, and how many flows each scheme carries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lab.experiment.intervals import Interval, over_blocks
from lab.run.deadline.experiment import SCHEMES, TITLES
from lab.run.deadline.ideal import draw, most_in_time
from lab.run.settings import Deadline

IDEAL = "ideal"
TITLE = {**TITLES, IDEAL: "best possible (EDF and drop)"}


@dataclass(frozen=True)
class Share(Interval):
    """Of all flows of a cell, those in time, with an interval over trials."""

    trials: int

    def __str__(self) -> str:
        return f"{self.value:.1%} [{self.low:.1%}, {self.high:.1%}]"


def in_time(row: Mapping[str, Any]) -> float:
    """The share of one trial's flows whose last byte was read before the deadline."""
    return float(np.mean([0 < fct_us <= deadline_us for _, deadline_us, fct_us, _ in row["rows"]]))


def shares(settings: Deadline, trials: Sequence[Mapping[str, Any]]) -> dict[tuple[str, int], Share]:
    """(scheme or "ideal", flows) -> share. Trials that not every scheme has done are left out."""
    found: dict[tuple[str, int], Share] = {}
    for count in settings.flows:
        by = {
            scheme: {row["trial"]: in_time(row) for row in trials if (row["scheme"], row["flows"]) == (scheme, count)}
            for scheme in SCHEMES
        }
        common = sorted(set.intersection(*(set(of) for of in by.values())))
        if not common:
            continue
        rate_bps = settings.rate_mbps * 1_000_000
        by[IDEAL] = {
            trial: most_in_time(draw(count, settings.seed, trial, rate_bps), rate_bps) / count for trial in common
        }
        for scheme, of in by.items():
            found[scheme, count] = over_trials([of[trial] for trial in common])
    return found


def over_trials(values: Sequence[float]) -> Share:
    """The mean; a trial's flows meet each other, so a trial is a block."""
    found = over_blocks(np.array(values), np.arange(len(values)))
    return Share(found.value, found.low, found.high, len(values))


def carried(found: Mapping[tuple[str, int], Share], scheme: str, share: float) -> int:
    """The most flows at once, of those tried, up to which this share of deadlines was met; 0: none."""
    most = 0
    for count in sorted(count for name, count in found if name == scheme):
        if not found[scheme, count].value >= share:
            break
        most = count
    return most


def table(found: Mapping[tuple[str, int], Share]) -> list[list[str]]:
    """Rows of the table, the heading first."""
    counts = sorted({count for _, count in found})
    names = [IDEAL, *reversed(SCHEMES)]
    rows = [["flows at once", "trials", *(TITLE[name] for name in names)]]
    for count in counts:
        cells = [str(found[name, count]) if name != IDEAL else f"{found[name, count].value:.1%}" for name in names]
        rows.append([str(count), str(found[IDEAL, count].trials), *cells])
    return rows


def plot(found: Mapping[tuple[str, int], Share]) -> str:
    """Shares over the number of flows, bars are the intervals; SVG."""
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    from lab.experiment.plots import colours, svg_of

    figure, axes = plt.subplots(figsize=(6.2, 3.8))
    colour_of = colours(TITLE[name] for name in (IDEAL, "edf", "qclimb", "pias", "tcp"))
    try:
        for name in (IDEAL, "edf", "qclimb", "pias", "tcp"):
            counts = sorted(count for scheme, count in found if scheme == name)
            cells = [found[name, count] for count in counts]
            middle = [cell.value for cell in cells]
            bars = [[cell.value - cell.low for cell in cells], [cell.high - cell.value for cell in cells]]
            style = {"ls": "--"} if name == IDEAL else {"marker": "o", "ms": 3, "capsize": 2}
            axes.errorbar(
                counts,
                middle,
                yerr=None if name == IDEAL else bars,
                label=TITLE[name],
                color=colour_of[TITLE[name]],
                lw=1.3,
                **style,
            )
        axes.axhline(0.99, color="#cccccc", lw=0.7)
        axes.set_ylim(0, 1.02)
        axes.set_xlabel("flows at once")
        axes.set_ylabel("share of deadlines met")
        axes.grid(True, color="#eeeeee")
        axes.legend(fontsize=7, frameon=False, loc="lower left")
        figure.tight_layout()
        return svg_of(figure)
    finally:
        plt.close(figure)
