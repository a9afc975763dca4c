"""The command's body: run what is missing, show the table, write the plot."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import click
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from lab.console import console_for_tables, print_table
from lab.deadline.experiment import SCHEMES, TITLES, Settings, run_deadline
from lab.deadline.report import carried, plot, shares, table


def run_and_report(options: Mapping[str, Any], as_json: bool) -> None:
    """Raises FabricError."""
    settings = Settings(**options)
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("trials", total=None)
        trials = run_deadline(settings, lambda done, of: progress.update(task, completed=done, total=of))
    found = shares(settings, trials)
    idle = sum(row["idle"] for row in trials) / len(trials)
    (settings.folder / "deadline.svg").write_text(plot(found), encoding="utf-8")
    if as_json:
        cells = [
            {"scheme": scheme, "flows": count, "share": cell.share, "interval": [cell.low, cell.high]}
            for (scheme, count), cell in found.items()
        ]
        click.echo(json.dumps({"shares": cells, "cpu_idle": idle, "trials": str(settings.file)}, indent=1))
        return
    heading, *rows = table(found)
    shown = Table(*heading, title=f"share of deadlines met, {settings.rate_mbps} Mb/s, seed {settings.seed}")
    for row in rows:
        shown.add_row(*row)
    console = console_for_tables()
    print_table(console, shown)
    for share in (0.99, 0.9):
        said = ", ".join(f"{TITLES[scheme]} {carried(found, scheme, share)}" for scheme in SCHEMES)
        console.print(f"flows at once with at least {share:.0%} in time: {said}")
    console.print(f"CPU idle {idle:.0%}; plot {settings.folder / 'deadline.svg'}, trials {settings.file}")
