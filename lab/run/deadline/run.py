"""The command's body: run what is missing, show the table, write the plot."""

from __future__ import annotations

import json

import click
from rich.console import Console
from rich.table import Table

from lab.experiment.store import replace_text
from lab.experiment.terminal import Teller, console_for_tables, print_table
from lab.run.deadline.experiment import SCHEMES, TITLES, file_of, run_deadline
from lab.run.deadline.report import carried, plot, shares, table
from lab.run.settings import Deadline


def main(settings: Deadline) -> int:
    """Runs what is missing, writes the plot and shows the table."""
    trials = run_deadline(settings, Teller(Console(stderr=True), is_brief=True))
    found = shares(settings, trials)
    idle = sum(row["idle"] for row in trials) / len(trials)
    replace_text(settings.folder / "deadline.svg", plot(found))
    if settings.as_json:
        cells = [
            {"scheme": scheme, "flows": count, "share": cell.value, "interval": [cell.low, cell.high]}
            for (scheme, count), cell in found.items()
        ]
        click.echo(json.dumps({"shares": cells, "cpu_idle": idle, "trials": str(file_of(settings))}, indent=1))
        return 0
    heading, *rows = table(found)
    shown = Table(*heading, title=f"share of deadlines met, {settings.rate_mbps} Mb/s, seed {settings.seed}")
    for row in rows:
        shown.add_row(*row)
    console = console_for_tables()
    print_table(console, shown)
    for share in (0.99, 0.9):
        said = ", ".join(f"{TITLES[scheme]} {carried(found, scheme, share)}" for scheme in SCHEMES)
        console.print(f"flows at once with at least {share:.0%} in time: {said}")
    console.print(f"CPU idle {idle:.0%}; plot {settings.folder / 'deadline.svg'}, trials {file_of(settings)}")
    return 0
