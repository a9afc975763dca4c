"""A page as Markdown with its plot as SVG beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt

from lab.figures.index import write_index
from lab.figures.page import Page, Panel, Scale, Story

COLOURS = ("#0060c0", "#e08a00", "#00a070", "#b03080", "#555555", "#70a000")


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
    figure, axes = plt.subplots(rows, columns, figsize=(4.4 * columns, 3.4 * rows), squeeze=False)
    try:
        for axis in axes.flat[len(panels) :]:
            axis.remove()
        for panel, axis in zip(panels, axes.flat, strict=False):
            for place, series in enumerate(panel.series):
                colour = COLOURS[place % len(COLOURS)]
                half = list(series.half) or None
                axis.errorbar(series.x, series.y, half, label=series.label, color=colour, marker="o", ms=3, lw=1.3)
            axis.set_title(panel.title, loc="left", fontsize=10)
            axis.set_xlabel(panel.x)
            axis.set_ylabel(panel.y)
            axis.grid(True, color="#eeeeee")
            axis.legend(fontsize=7, frameon=False)
        figure.tight_layout()
        with plt.rc_context({"svg.hashsalt": "qclimb"}):
            figure.savefig(path, format="svg", metadata={"Date": None})
    finally:
        plt.close(figure)


def write(page: Page, scale: Scale, story: Story, folder: Path, command: str) -> Path:
    """Writes NAME.md and NAME.svg, and the index anew; returns the first."""
    folder.mkdir(parents=True, exist_ok=True)
    draw(story.panels, folder / f"{page.name}.svg")
    lines = [
        f"# {page.title}",
        "",
        f"`{command}`: {scale.flows:,} flows a point, seeds {', '.join(map(str, scale.seeds))}.",
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
        *[f"- {line}" for line in page.notes],
        "",
    ]
    path = folder / f"{page.name}.md"
    path.write_text("\n".join(lines), encoding="utf-8")
    write_index(folder)
    return path
