"""Tables for a terminal (rich) and for a README (Markdown)."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from lab.experiment import page
from lab.experiment.claims import Outcome
from lab.experiment.flows import CLASSES, SchemeRow
from lab.experiment.intervals import Interval
from lab.experiment.terminal import print_table
from lab.run.report.comparison import Comparison, title_of
from lab.run.report.verdicts import Verdict

CLASS_TITLE = {
    "small": "small (to 5 KB)",
    "medium": "medium (to 500 KB)",
    "large": "large",
    "all": "all",
}
COLUMNS = ("flows", "scheme", "n", "mean FCT ms", "p99 FCT ms", "slowdown", "p99 slowdown", "mean ratio", "p99 ratio")
FULL_WIDTH = 148
"""Columns of a terminal that hold the table with intervals; without them it needs 120."""
PACKET_COLUMNS = (
    "scheme",
    "segments",
    "retransmitted",
    "spurious",
    "timeouts",
    "probes",
    "reordered",
    "drops",
    "unfinished",
    "CPU idle",
)


def number(value: float) -> str:
    """Three digits or so; a dash for nothing."""
    if value != value:
        return "-"
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def ratio(value: Interval, is_base: bool) -> str:
    """A ratio with its interval; the base is 1, a dash stands for nothing."""
    if is_base:
        return "1"
    return str(value) if value.is_measured else "-"


def cells(row: SchemeRow, base: str) -> list[str]:
    """A row as text, the size class aside."""
    own = row.scheme == base
    estimates = (row.fct_mean_ms, row.fct_p99_ms, row.slowdown_mean, row.slowdown_p99)
    return [
        title_of(row.scheme),
        str(row.flows),
        *(number(estimate.value) for estimate in estimates),
        ratio(row.mean_ratio, own),
        ratio(row.p99_ratio, own),
    ]


def packet_cells(comparison: Comparison) -> list[list[str]]:
    """The packet table as text."""
    return [
        [
            title_of(row.scheme),
            str(row.segments),
            f"{row.retransmitted} ({row.retransmitted_share:.2%})",
            f"{row.spurious} ({row.spurious_share:.3%})",
            str(row.timeouts),
            str(row.probes),
            str(row.reordered),
            str(row.drops),
            str(row.unfinished),
            f"{row.idle_share:.0%}",
        ]
        for row in comparison.packets
    ]


def query_cells(comparison: Comparison) -> list[list[str]]:
    """The line of nginx and curl: queries timed by curl itself."""
    return [
        [title_of(row.scheme), str(row.flows), number(row.fct_mean_ms), number(row.fct_p99_ms)]
        for row in comparison.services
        if row.service == "files"
    ]


def print_comparison(console: Console, comparison: Comparison, found: Sequence[Verdict]) -> None:
    """The whole comparison to a terminal."""
    seeds = ", ".join(str(result.seed) for result in next(iter(comparison.results.values())))
    table = Table(
        title=f"load {comparison.load:g}, seed {seeds}; ratios to {title_of(comparison.base)} with 95 % intervals",
        title_justify="left",
    )
    for name in COLUMNS:
        table.add_column(name, justify="left" if name in ("flows", "scheme") else "right", no_wrap=True)
    for size_class in CLASSES:
        for place, row in enumerate(row for row in comparison.rows if row.size_class == size_class):
            told = cells(row, comparison.base)
            if console.width < FULL_WIDTH:  # the intervals are in the report
                told = [cell.partition(" [")[0] for cell in told]
            table.add_row(CLASS_TITLE[size_class] if place == 0 else "", *told)
        table.add_section()
    print_table(console, table)
    queries = query_cells(comparison)
    if queries:
        lines = [f"{title} {mean} / {p99} ms" for title, _, mean, p99 in queries]
        console.print(
            f"queries (nginx, curl; {queries[0][1]} timed by curl), mean / p99: " + "; ".join(lines), highlight=False
        )
    packet_table = Table(title="packets", title_justify="left")
    for name in PACKET_COLUMNS:
        packet_table.add_column(name, justify="left" if name == "scheme" else "right", no_wrap=True)
    for line in packet_cells(comparison):
        packet_table.add_row(*line)
    print_table(console, packet_table)
    for sentence in comparison.gains:
        console.print(sentence, highlight=False, markup=False)
    colour = {Outcome.HOLDS: "green", Outcome.FAILS: "red"}
    for verdict in found:
        console.print(str(verdict), style=colour.get(verdict.outcome, "yellow"), highlight=False, markup=False)
    for note in comparison.notes:
        console.print(f"note: {note}", style="yellow", highlight=False, markup=False)


def markdown(comparison: Comparison, found: Sequence[Verdict]) -> str:
    """The same for a README."""
    head = ["flows", *COLUMNS[1:]]
    lines = [[CLASS_TITLE[row.size_class], *cells(row, comparison.base)] for row in comparison.rows]
    parts = [
        f"Load {comparison.load:g}, seeds {', '.join(str(r.seed) for r in next(iter(comparison.results.values())))}; "
        f"ratios to {title_of(comparison.base)} with 95 % bootstrap intervals.",
        page.table(head, lines),
        page.table(PACKET_COLUMNS, packet_cells(comparison)),
    ]
    queries = query_cells(comparison)
    if queries:
        parts.append(page.table(["queries (nginx, curl)", "n", "mean ms", "p99 ms"], queries))
    parts += [f"- {sentence}" for sentence in [*comparison.gains, *map(str, found), *comparison.notes]]
    text = "\n\n".join(parts[: 4 if queries else 3])
    return text + "\n\n" + "\n".join(parts[4 if queries else 3 :]) + "\n"
