"""A page as Markdown with its plot as SVG beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, SymmetricalLogLocator

from lab.experiment.plots import looks
from lab.experiment.store import whole
from lab.figures.page import Page, Panel, Paper, Scale, Series, Story

TICKS_MAX = 6
"""So many places of the abscissa are each named."""
WIDE = 5
"""Values that differ by more than this factor get a logarithmic axis."""
PAPER, SHADE, THIN = "#777777", 0.2, 0.006
"""What a paper has is a band of its scheme's colour, a single number a band of 0.6 % either way."""
TITLE, BESIDE = 46, 32
"""Letters that fit over a panel, and beside it; a longer title is set smaller."""


def table_text(rows: Sequence[Mapping[str, str]]) -> str:
    """A Markdown table."""
    columns = list(rows[0])
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    lines += ["| " + " | ".join(row[column] for column in columns) + " |" for row in rows]
    return "\n".join(lines)


def draw(panels: Sequence[Panel], path: Path) -> None:
    """All panels, up to three in a row; four and more by twos."""
    columns = len(panels) if len(panels) <= 3 else 2
    rows = -(-len(panels) // columns)
    size = (4.4 * columns, max(3.4 * rows, *(_line(panel) * len(panel.names) + 1.2 for panel in panels)))
    if panels[0].names:
        size = (7.5 if columns == 1 else 6.0 * columns, size[1])
    figure, axes = plt.subplots(rows, columns, figsize=size, squeeze=False, layout="constrained")
    labels = [[series.label for series in panel.series] for panel in panels]
    longest = max(labels, key=len)
    is_one = all(each == longest[: len(each)] for each in labels)  # one legend for all: a colour means one thing
    try:
        for axis in axes.flat[len(panels) :]:
            axis.remove()
        for panel, axis in zip(panels, axes.flat, strict=False):
            _dots(panel, axis) if panel.names else _lines(panel, axis)
            axis.set_title(panel.title, loc="left", fontsize=min(10.0, 10 * TITLE / max(1, len(panel.title))))
            axis.grid(True, color="#eeeeee")
            if not is_one:
                axis.legend(
                    *_handles(axis, [panel]),
                    loc="upper center",
                    bbox_to_anchor=(0.5, -0.17),
                    ncols=2,
                    fontsize=7,
                    frameon=False,
                )
        if is_one:
            handles, named = _handles(axes.flat[labels.index(longest)], panels)
            columns = _legend_columns(named, size[0])
            figure.legend(handles, named, loc="outside lower center", ncols=columns, fontsize=8, frameon=False)
        with plt.rc_context({"svg.hashsalt": "qclimb"}):
            figure.savefig(path, format="svg", metadata={"Date": None})
    finally:
        plt.close(figure)


def _handles(axis: Any, panels: Sequence[Panel]) -> tuple[list[Any], list[str]]:
    """Of a legend: an axis' lines, and one for all that is a paper's."""
    handles, named = axis.get_legend_handles_labels()
    if any(panel.papers for panel in panels):
        return [*handles, Patch(color=PAPER, alpha=SHADE, lw=0)], [*named, "the paper's, in its scheme's colour"]
    return handles, named


def _legend_columns(labels: Sequence[str], inches: float) -> int:
    """As many as fit, in lines of about one length."""
    most = max(1, int(inches / (0.55 + 0.068 * max(map(len, labels)))))
    lines = -(-len(labels) // most)
    return -(-len(labels) // lines)


def _line(panel: Panel) -> float:
    """Inches that a case needs: its series' intervals stand beside each other."""
    return max(0.24, 0.1 * len(panel.series) * any(series.has_intervals for series in panel.series))


def _bars(series: Series) -> list[list[float]] | None:
    """From each value down and up to its interval's ends."""
    if not series.has_intervals:
        return None
    ends = [(each.value - each.low, each.high - each.value) for each in series.y]
    return [[max(0.0, end[way]) if end[way] == end[way] else 0.0 for end in ends] for way in (0, 1)]


def _lines(panel: Panel, axis: Any) -> None:
    """Lines with intervals; series beside each other where their intervals would hide each other."""
    places = sorted({x for series in panel.series for x in series.x})
    closest = min((right - left for left, right in pairwise(places)), default=0.0)
    step = min(0.06 * closest, 0.015 * (places[-1] - places[0]))
    look = looks(series.label for series in panel.series)
    for paper in panel.papers:
        _paper(axis, paper, look[paper.label].colour, 0.5 * closest or 0.05)
    for place, series in enumerate(panel.series):
        shift = step * (place - (len(panel.series) - 1) / 2) if series.has_intervals else 0.0
        x = [each + shift for each in series.x]
        colour, line, marker = look[series.label]
        style = {
            "label": series.label,
            "color": colour,
            "ls": line,
            "marker": marker,
            "ms": 3.5,
            "lw": 1.3,
            "capsize": 2,
        }
        drawn = axis.errorbar(x, series.values, _bars(series), **style)
        drawn.lines[0].set_gid(f"{panel.title}: {series.label}")
    if len(places) <= TICKS_MAX and step >= 0.01 * (places[-1] - places[0]):
        axis.set_xticks(places)
    _scale_of(axis, "y", _shown(panel))
    axis.set_xlabel(panel.x)
    axis.set_ylabel(panel.y, fontsize=min(10.0, 10 * BESIDE / max(1, len(panel.y))))


def _paper(axis: Any, paper: Paper, colour: str, width: float) -> None:
    """A band over its places; over a single one as wide as `width`."""
    x = list(paper.x) if len(paper.x) > 1 else [paper.x[0] - width / 2, paper.x[0] + width / 2]
    axis.fill_between(x, *_wide(paper), color=colour, alpha=_alpha(paper), lw=0)


def _wide(paper: Paper) -> tuple[float, float]:
    """One number is drawn as a band that can be seen."""
    middle = (paper.low + paper.high) / 2
    return min(paper.low, middle * (1 - THIN)), max(paper.high, middle * (1 + THIN))


def _alpha(paper: Paper) -> float:
    return SHADE if paper.low < paper.high else 3 * SHADE


def _scale_of(axis: Any, letter: str, shown: Sequence[float]) -> None:
    """Of x or y: logarithmic for values that differ much, with plain numbers at 1, 2, 5; linear about 0 where some are
    0, and all of it where none is beyond that. An interval may reach below 0, what is shown can't be there."""
    one, set_scale, set_limits = (getattr(axis, name.format(letter)) for name in ("{}axis", "set_{}scale", "set_{}lim"))
    above = [value for value in shown if value > 0]
    least = 0.0 if min(shown) > 0 or not above else max(1.0, min(above) / 2)
    if above and min(shown) >= 0 and max(above) > max(least, WIDE * min(above)):
        named = (1, 2, 5) if max(above) < 500 * min(above) else (1,)
        if min(shown) > 0:
            set_scale("log", nonpositive="clip")
            set_limits(min(shown) / 2, 2 * max(shown))
            one.set_major_locator(LogLocator(subs=named))
        else:
            set_scale("symlog", linthresh=least)
            set_limits(0, 2 * max(shown))
            one.set_major_locator(SymmetricalLogLocator(base=10, linthresh=least, subs=named))
        one.set_major_formatter(FuncFormatter(lambda value, place: f"{value:,g}"))
        one.set_minor_formatter(NullFormatter())
    elif all(value >= 0 for value in shown):
        low, high = getattr(axis, f"get_{letter}lim")()
        set_limits(max(0.0, low), min(high, 1.6 * max(shown)))  # an interval that reaches farther is cut off


def _dots(panel: Panel, axis: Any) -> None:
    """A line of the plot a case, a dot a series: what is no number has no slope."""
    look = looks(series.label for series in panel.series)
    for place, series in enumerate(panel.series):
        shift = 0.7 / len(panel.series) * (place - (len(panel.series) - 1) / 2) if series.has_intervals else 0.0
        y = [each + shift for each in series.x]
        colour, _, marker = look[series.label]
        for paper in (each for each in panel.papers if each.label == series.label):
            for at in paper.x:
                axis.fill_betweenx(
                    [at + shift - 0.2, at + shift + 0.2], *_wide(paper), color=colour, alpha=_alpha(paper), lw=0
                )
        style = {"label": series.label, "color": colour, "fmt": marker, "ms": 4, "lw": 1}
        drawn = axis.errorbar(series.values, y, xerr=_bars(series), **style)
        drawn.lines[0].set_gid(f"{panel.title}: {series.label}")
    axis.set_yticks(range(len(panel.names)), panel.names, fontsize=8)
    axis.set_ylim(len(panel.names) - 0.4, -0.6)
    _scale_of(axis, "x", _shown(panel))
    axis.set_xlabel(panel.y or panel.x)


def _shown(panel: Panel) -> list[float]:
    ours = [value for series in panel.series for value in series.values if value == value]
    return [*ours, *(end for paper in panel.papers for end in (paper.low, paper.high))]


def _how_much(scale: Scale) -> str:
    if not scale.flows:
        return "nothing is simulated"
    return f"{scale.flows:,} flows a point, seeds {', '.join(map(str, scale.seeds))}"


def write(page: Page, scale: Scale, story: Story, folder: Path, command: str, cost: str = "") -> Path:
    """Writes NAME.md and NAME.svg, each whole or as it was; returns the first. `cost`: what the points took. Raises:
    OSError, which names the file."""
    folder.mkdir(parents=True, exist_ok=True)
    with whole(folder / f"{page.name}.svg") as picture:
        draw(story.panels, picture)
    lines = [
        f"# {page.title}",
        "",
        f"`{command}`: {_how_much(scale)}{f'; {cost}' if cost else ''}.",
        "",
        *([f"**Verdict**: {story.verdict}", ""] if story.verdict else []),
        f"![{page.title}]({page.name}.svg)",
        "",
        table_text(story.rows),
        "",
        *[f"- {verdict}" for verdict in story.verdicts],
        "",
        "## Settings",
        *[f"- {line}" for line in page.settings],
        "",
        *(["## What we make of it", *[f"- {line}" for line in page.notes], ""] if page.notes else []),
    ]
    path = folder / f"{page.name}.md"
    with whole(path) as part:
        part.write_text("\n".join(lines), encoding="utf-8")
    return path
