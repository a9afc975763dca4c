"""`qclimb lab run bounds`: its options."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from qclimb.options import Finite

from lab.bounds.figures import FIGURES, Wanted
from lab.bounds.sources import SOURCES
from lab.workload.cli import Numbers, one_sentence, results_option, seeds_option

KNOWN = sorted({number for figure in FIGURES for number in figure.numbers})


@click.command(
    epilog="\b\nExample:\n  qclimb lab run bounds --quick\n  qclimb lab run bounds --traces web --figures 7,14"
)
@click.option("--traces", default=",".join(SOURCES), show_default=True, help="Which recordings.")
@click.option(
    "--figures", type=Numbers(int), default=",".join(map(str, KNOWN)), show_default=True, help="Of the paper."
)
@click.option("--loads", type=Numbers(float), default="0.5,0.7", show_default=True, help="Where a figure has it.")
@seeds_option
@click.option("--schemes", default="", help="Only these, with commas.")
@click.option("--quick", is_flag=True, help="Two minutes: web, load 0.5, PIAS, QCLIMB and QCLIMB-PS, one window.")
@click.option("--own/--no-own", default=True, help="Also by the orchestrator's thresholds, beside the published ones.")
@click.option("--seconds", type=Finite(0), default=0.0, help="Stop after so long; the next run goes on.")
@click.option("--stored", is_flag=True, help="Measure nothing: report what earlier runs left.")
@click.option("--document", type=click.Path(path_type=Path, dir_okay=False), help="The Markdown file to write.")
@click.option("--prefix", default="qb", show_default=True, help="Of the network namespaces' names.")
@results_option("lab-results/bounds")
def bounds(
    traces: str,
    figures: Any,
    loads: Any,
    seeds: Any,
    schemes: str,
    own: bool,
    quick: bool,
    document: Path | None,
    **options: Any,
) -> None:
    """Recorded traffic replayed under PIAS and QCLIMB's variants.

    Spark, web and kv; PIAS, QCLIMB, QCLIMB-FP, -PP and -PS: the paper's Figures 7 to 11, 14, 18, 21, 22 and 27, a
    verdict a claim. A rerun goes on where it stopped.
    """
    from lab.bounds.schemes import VARIANTS

    names = tuple(part for part in schemes.split(",") if part)
    for what, given, known in (("--traces", traces.split(","), SOURCES), ("--schemes", names, VARIANTS)):
        for name in given:
            if name not in known:
                raise click.BadParameter(f"{name!r} is none of {', '.join(known)}", param_hint=what)
    for number in figures:
        if number not in KNOWN:
            raise click.BadParameter(f"{number} is none of {', '.join(map(str, KNOWN))}", param_hint="--figures")
    wanted = Wanted(tuple(traces.split(",")), figures, loads, seeds, names, own)
    if quick:
        wanted = Wanted(("web",), (7,), (0.5,), (1,), ("pias", "qclimb", "qclimb-ps"), own=False)
    with one_sentence():
        from lab.bounds.report import write_report
        from lab.bounds.run import BoundsSettings, run_bounds
        from lab.console import console_for_tables

        settings = BoundsSettings(wanted, **options)
        plan = run_bounds(settings, console_for_tables())
        click.echo(write_report(plan, document or settings.folder / "bounds-fct.md"))
