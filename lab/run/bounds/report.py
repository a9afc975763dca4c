"""docs/results/bounds-fct-tables.md: a section a figure, our numbers, the paper's beside them, a verdict a claim."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click
import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt
import numpy as np

from lab.experiment import page
from lab.experiment.flows import estimate, ratio
from lab.experiment.plots import colours, svg_of
from lab.experiment.store import replace_text
from lab.experiment.terminal import console_for_tables
from lab.run.bounds import breakdown
from lab.run.bounds.breakdown import Broken
from lab.run.bounds.figures import Figure, Job, of_figure
from lab.run.bounds.judge import BINS, STATISTICS, Cell, cells, part, told, verdicts, where
from lab.run.bounds.run import Plan, run_bounds, trouble
from lab.run.bounds.schemes import VARIANTS
from lab.run.settings import Bounds

COMMAND = "qclimb lab run bounds"
LEAST = 10
"""Flows in a row of sizes."""
ABOUT = (
    f"Written by `{COMMAND}`; what it means is [said elsewhere](bounds-fct.md). Ratios are to the scheme that a figure "
    "names, with 95 % intervals."
)


def write_report(plan: Plan, path: Path) -> str:
    """Writes the page and its plots beside it; returns the page's text."""
    path.parent.mkdir(parents=True, exist_ok=True)
    parts = ["# Recorded traffic: every table", ABOUT]
    for figure in plan.wanted.figures():
        found = cells(figure, plan.results, plan.jobs)
        if figure.measured == "steps":
            parts.append(broken_down(plan, figure, found, path))
        else:
            parts.append(section(figure, found, path))
        lack = missing(plan, figure)
        if not any(of_figure(job, figure) for job in plan.jobs):
            parts.append(f"Not asked for: it is of {figure.points}.")
        if lack:
            parts.append(f"Not measured: {lack}: `{COMMAND} --figures {figure.name.partition('-')[0]}`.")
    marked = trouble(plan)
    parts.append("## Passes that were not as they should be\n\n" + "\n".join(f"- {one}" for one in marked or ["none"]))
    text = "\n\n".join(parts) + "\n"
    replace_text(path, text)
    return text


def heading(figure: Figure) -> list[str]:
    """What a figure is, and what the paper has."""
    return [
        f"## Figure{'s' if '-' in figure.name else ''} {figure.name}: {figure.title}",
        f"The paper: {figure.paper}",
    ]


def broken_down(plan: Plan, figure: Figure, found: Sequence[Cell], path: Path) -> str:
    """A figure of flows' time by step."""
    parts = heading(figure)
    for cell in found:
        passes = {
            name: [plan.results[job] for job in plan.jobs if of_cell(job, name, figure, cell)] for name in cell.variants
        }
        broken = [Broken.of(name, results) for name, results in passes.items()]
        plot = path.with_name(f"{path.stem}-{figure.key}-{cell.trace}.svg")
        replace_text(plot, breakdown.bars(cell, broken))
        parts += [f"![Mean FCT over {VARIANTS[figure.against].title}'s, by step]({plot.name})"]
        parts += [f"{cell.trace}, load {cell.load:g} (windows {', '.join(map(str, cell.seeds))}):"]
        parts.append(breakdown.table(cell, broken))
    return "\n\n".join(parts)


def of_cell(job: Job, variant: str, figure: Figure, cell: Cell) -> bool:
    """Whether a pass is one of a cell's, under a variant."""
    return (
        of_figure(job, figure)
        and (job.variant, job.trace, job.load) == (variant, cell.trace, cell.load)
        and (job.seed in cell.seeds)
    )


def section(figure: Figure, found: Sequence[Cell], path: Path) -> str:
    """One figure."""
    parts = heading(figure)
    if found:
        plot = path.with_name(f"{path.stem}-{figure.key}.svg")
        replace_text(plot, bars(figure, found))
        parts += [f"![FCT over {VARIANTS[figure.against].title}'s]({plot.name})", table(figure, found)]
    if "ps" in "".join(figure.variants) and found:
        parts.append(by_size(figure, found))
    if figure.by_share and found:
        parts.append(by_share(figure, [cell for cell in found if cell.trace in figure.traces]))
    for cell in found:
        seeds = ", ".join(map(str, cell.seeds))
        judged = "\n".join(f"- {one}" for one in verdicts(cell))
        parts.append(f"{cell.trace}, load {cell.load:g} (windows {seeds}):\n\n{judged}")
    return "\n\n".join(parts)


def table(figure: Figure, found: Sequence[Cell]) -> str:
    """FCT of the scheme compared against, and each other's ratio to it."""
    head = ["trace", "load", "flows", "n", "statistic", f"{VARIANTS[figure.against].title}, ms"]
    others = [name for name in figure.variants if name != figure.against]
    head += [VARIANTS[name].title for name in others]
    rows = []
    for cell in found:
        for size_class, statistic in STATISTICS:
            if not cell.flows(size_class) or figure.against not in cell.samples:
                continue
            base = estimate(cell.samples[figure.against], size_class, statistic)
            row = [
                cell.trace,
                f"{cell.load:g}",
                size_class,
                f"{cell.flows(size_class)}",
                statistic,
                f"{base.value:.3g}",
            ]
            for name in others:
                row.append(str(cell.ratio(name, figure.against, size_class, statistic)) if name in cell.samples else "")
            rows.append(row)
    return page.table(head, rows)


def by_size(figure: Figure, found: Sequence[Cell]) -> str:
    """Mean FCT by size, against the scheme compared with."""
    others = [name for name in figure.variants if name != figure.against]
    head = ["trace", "load", "bytes", "n", f"{VARIANTS[figure.against].title}, mean ms"]
    head += [VARIANTS[name].title for name in others]
    rows = []
    for cell in found:
        if figure.against not in cell.samples:
            continue
        for above, to, words in BINS:
            of = {name: part(sample, above, to) for name, sample in cell.samples.items()}
            base = of[figure.against]
            if base.bytes.size < LEAST:
                continue
            sizes = f"{above + 1} to {to} ({words})" if to < 2**62 else f"above {above}"
            mean = estimate(base, "all", "mean").value
            row = [cell.trace, f"{cell.load:g}", sizes, f"{base.bytes.size}", f"{mean:.3g}"]
            for name in others:
                row.append(str(ratio(of[name], base, "all", "mean")) if name in of else "")
            rows.append(row)
    return "Mean FCT by size:\n\n" + page.table(head, rows)


def by_share(figure: Figure, found: Sequence[Cell]) -> str:
    """Mean FCT of the flows that may be told of and of those that are not, each against the same flows under the scheme
    compared with."""
    rows = []
    for cell in found:
        base = cell.samples.get(figure.against)
        for name in cell.variants:
            if base is None or name == figure.against:
                continue
            mine = told(cell, name)
            row = [cell.trace, f"{cell.load:g}", VARIANTS[name].title]
            for chosen in (mine, ~mine):
                for size_class in ("small", "all"):
                    ours, theirs = (where(sample, chosen) for sample in (cell.samples[name], base))
                    row.append(str(ratio(ours, theirs, size_class, "mean")) if chosen.any() else "")
            rows.append(row)
    groups = [f"{who}, {size_class}" for who in ("under QCLIMB", "under PIAS") for size_class in ("small", "all")]
    return "Mean FCT by who is told of, over the same flows' where all are PIAS's:\n\n" + page.table(
        ["trace", "load", "scheme", *groups], rows
    )


def bars(figure: Figure, found: Sequence[Cell]) -> str:
    """Ratios to the scheme compared against, a panel a cell, on a logarithmic scale; SVG."""
    others = [name for name in figure.variants if name != figure.against]
    drawing, axes = plt.subplots(
        len(found), 1, figsize=(7.2, 1.9 * len(found) + 0.6), squeeze=False, layout="constrained"
    )
    for axis, cell in zip(axes[:, 0], found, strict=True):
        groups = [each for each in STATISTICS if cell.flows(each[0])]
        width = 0.8 / max(1, len(others))
        colour = colours(VARIANTS[name].title for name in others)
        for place, name in enumerate(others):
            if name not in cell.samples or figure.against not in cell.samples:
                continue
            values = [cell.ratio(name, figure.against, *each) for each in groups]
            x = np.arange(len(groups)) + (place - (len(others) - 1) / 2) * width
            height = np.array([value.value for value in values])
            spread = [[max(0.0, v.value - v.low) for v in values], [max(0.0, v.high - v.value) for v in values]]
            axis.bar(x, height - 1, width, bottom=1, color=colour[VARIANTS[name].title], label=VARIANTS[name].title)
            axis.errorbar(x, height, spread, fmt="none", ecolor="#333333", elinewidth=0.8, capsize=1.5)
        axis.axhline(1, color="#333333", lw=0.7)
        axis.set_xticks(np.arange(len(groups)), [f"{size_class}, {statistic}" for size_class, statistic in groups])
        axis.set_title(f"{cell.trace}, load {cell.load:g}", loc="left", fontsize=9)
        axis.set_ylabel(f"FCT / {VARIANTS[figure.against].title}", fontsize=8)
        axis.tick_params(labelsize=8)
    axes[0, 0].legend(fontsize=7, frameon=False, ncols=3)
    try:
        return svg_of(drawing)
    finally:
        plt.close(drawing)


def missing(plan: Plan, figure: Figure) -> str:
    """How many of a figure's passes there are not, by trace."""
    lack: dict[str, int] = {}
    for job in plan.missing:
        if of_figure(job, figure):
            lack[job.trace] = lack.get(job.trace, 0) + 1
    return ", ".join(f"{count} passes of {trace}" for trace, count in lack.items())


def main(settings: Bounds) -> int:
    """Measures what is missing, writes the page and shows it."""
    plan = run_bounds(settings, console_for_tables())
    click.echo(write_report(plan, settings.document or settings.folder / "bounds-fct-tables.md"))
    return 0
