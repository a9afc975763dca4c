"""`qclimb figures`: lists the book's pages, runs and draws one. Heavy imports wait until needed."""

from __future__ import annotations

import json
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

import click
from qclimb.options import Output, Refused

EXAMPLE = """\b
Example:
  qclimb figures                        # what pages there are
  qclimb figures bigspine-5a --quick    # a look in seconds
  qclimb figures qclimb-23 --output docs/figures
  qclimb figures bigspine-5a --cluster=ray://head:10001
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
@click.option(
    "--output",
    type=Output(folder=True),
    default=Path("lab-results/figures"),
    show_default=True,
    help="Folder for pages and pictures.",
)
@click.option(
    "--cache",
    type=Output(folder=True),
    default=Path("lab-results/points"),
    show_default=True,
    help="Folder for points that were run, which are not run again.",
)
@click.option("--jobs", type=click.IntRange(1), help="Points side by side.  [default: all cores]")
@click.option(
    "--cluster",
    metavar="[ADDRESS]",
    is_flag=False,
    flag_value="local",
    help="Run on Ray: auto, HOST:PORT, ray://HOST:PORT; without an address a Ray of its own on this machine.",
)
@click.option("--json", "as_json", is_flag=True, help="Print tables and verdicts for programs.")
def figures(
    names: tuple[str, ...], scale: str, output: Path, cache: Path, jobs: int | None, cluster: str | None, as_json: bool
) -> None:
    """Run and draw the papers' figures NAMES; without NAMES list them.

    Each stands beside the paper's numbers. Points that were run are not run again.
    """
    from lab.figures.pages.book import PAGES
    from lab.sim import SimulationError
    from lab.sim.errors import MissingData

    if cluster in PAGES:
        raise Refused(f"--cluster took the page {cluster!r} for an address; put pages first")
    for name in names:
        if name not in PAGES:
            close = get_close_matches(name, PAGES, 3, 0.5)
            meant = f", did you mean {' or '.join(close)}?" if close else ";"
            raise Refused(f"there is no page {name!r}{meant} `qclimb figures` lists them all")
    if not names and as_json:
        click.echo(json.dumps({page.name: page.title for page in PAGES.values()}, indent=1))
        return
    if not names:
        for page in PAGES.values():
            click.echo(f"{page.name:{max(map(len, PAGES))}}  {page.title}")
        return
    told = {}
    try:
        for name in names:
            try:
                told[name] = _make(name, scale, output, Where(cache, jobs, cluster), as_json)
            except MissingData as lacking:
                if len(names) == 1:
                    raise
                click.echo(f"qclimb figures: {name} is left out: {lacking}", err=True)
    except SimulationError as error:
        raise Refused(str(error)) from None
    except BrokenPipeError:
        raise  # click's: who reads the table has gone
    except OSError as error:
        raise Refused(f"{error.filename or output}: {error.strerror or error}") from None
    if as_json:
        click.echo(json.dumps(told, indent=1))


@dataclass(frozen=True)
class Where:
    """Points are kept and computed."""

    cache: Path
    jobs: int | None
    cluster: str | None


def _make(name: str, scale_name: str, output: Path, where: Where, as_json: bool) -> dict[str, object]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
    from rich.table import Table

    from lab.experiment.terminal import console_for_tables, print_table
    from lab.figures.index import write_index
    from lab.figures.pages.asked import ASKED
    from lab.figures.pages.book import PAGES
    from lab.figures.render import write
    from lab.figures.sweep import ALL_CORES, cost, run_all

    page = PAGES[name]
    scale = page.scales[scale_name]
    runs = page.runs(scale)
    columns = (TextColumn(name), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    stderr = Console(stderr=True)
    with Progress(*columns, console=stderr, transient=True, disable=not stderr.is_terminal) as bar:
        task = bar.add_task(name, total=len(runs))
        points = run_all(
            runs, where.cache, where.jobs or ALL_CORES, lambda done: bar.update(task, completed=done), where.cluster
        )
    click.echo(f"{name}: {len(points)} points, {points.computed} computed now", err=True)
    story = page.tell(scale, points)
    path = write(page, scale, story, output, f"qclimb figures {name} --scale {scale_name}", cost(points.values()))
    write_index(output, ASKED)
    if not as_json:
        table = Table(title=page.title, title_justify="left")
        for column in story.rows[0]:
            table.add_column(column)
        for row in story.rows:
            table.add_row(*row.values())
        console = console_for_tables()
        print_table(console, table)
        for verdict in story.verdicts:
            console.print(f"- {verdict}", highlight=False)
        console.print(f"{path}", highlight=False)
    return {"rows": [dict(row) for row in story.rows], "verdicts": list(story.verdicts), "page": str(path)}
