"""`qclimb figures`: lists the book's pages, runs and draws one. Heavy imports wait until needed."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import click

EXAMPLE = """\b
Example:
  qclimb figures                        # what pages there are
  qclimb figures bigspine-5a --quick    # a look in seconds
  qclimb figures qclimb-23 --output docs/figures
"""


@click.command(epilog=EXAMPLE, context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("names", nargs=-1)
@click.option(
    "--scale",
    type=click.Choice(["quick", "medium", "full"]),
    default="full",
    show_default=True,
    help="quick: few flows, one seed, a look; medium: minutes; full: several seeds, all that the page asks.",
)
@click.option("--quick", "scale", flag_value="quick", help="As --scale quick.")
@click.option("--output", type=click.Path(path_type=Path), default=Path("lab-results/figures"), show_default=True)
@click.option("--cache", type=click.Path(path_type=Path), default=Path("lab-results/points"), show_default=True)
@click.option("--jobs", type=click.IntRange(1), default=os.cpu_count() or 1, show_default="cores")
@click.option("--json", "as_json", is_flag=True, help="Print tables and verdicts for programs.")
def figures(names: tuple[str, ...], scale: str, output: Path, cache: Path, jobs: int, as_json: bool) -> None:
    """Run and draw figures of the papers, each beside the paper's numbers; points that were run are not run again."""
    from lab.figures.book import PAGES
    from lab.sim import SimulationError

    for name in names:
        if name not in PAGES:
            click.echo(f"qclimb figures: there is no page {name!r}; known: {', '.join(PAGES)}", err=True)
            sys.exit(2)
    if not names:
        for page in PAGES.values():
            click.echo(f"{page.name:16} {page.title}")
        return
    told = {}
    try:
        for name in names:
            told[name] = _make(name, scale, output, cache, jobs, as_json)
    except SimulationError as error:
        click.echo(f"qclimb figures: {error}", err=True)
        sys.exit(2)
    if as_json:
        click.echo(json.dumps(told, indent=1))


def _make(name: str, scale_name: str, output: Path, cache: Path, jobs: int, as_json: bool) -> dict[str, object]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
    from rich.table import Table

    from lab.demo import console_for_tables
    from lab.figures.book import PAGES
    from lab.figures.points import run_all
    from lab.figures.render import write

    page = PAGES[name]
    scale = page.scales[scale_name]
    runs = page.runs(scale)
    columns = (TextColumn(name), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(name, total=len(runs))
        points = run_all(runs, cache, jobs, lambda done: bar.update(task, completed=done))
    story = page.tell(scale, points)
    path = write(page, scale, story, output, f"qclimb figures {name} --scale {scale_name}")
    if not as_json:
        table = Table(title=page.title, title_justify="left")
        for column in story.rows[0]:
            table.add_column(column)
        for row in story.rows:
            table.add_row(*row.values())
        console = console_for_tables()
        console.print(table)
        for verdict in story.verdicts:
            console.print(f"- {verdict}", highlight=False)
        console.print(f"{path}", highlight=False)
    return {"rows": [dict(row) for row in story.rows], "verdicts": list(story.verdicts), "page": str(path)}
