"""`qclimb lab run tagger`: runs the cells that are missing, prints the tables, writes the document."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace

from rich.console import Console
from rich.table import Table

from lab.experiment.passes import Pass, Run, interleaved, measure
from lab.experiment.store import Store, as_json, replace_text
from lab.experiment.terminal import Teller, console_for_tables, print_table
from lab.run.settings import Tagger
from lab.run.tagger import report
from lab.run.tagger.cells import GROUNDS, VARIANTS, Outcome, prefix_of_process, run_cell


def main(settings: Tagger) -> int:
    """Runs the cells that are missing, shows the tables, writes the document."""
    run_tagger(settings, console_for_tables())
    return 0


def cell(ground: str, variant: str, seed: int) -> Pass[str]:
    """One run that is wanted."""
    return Pass(ground, variant, seed, f"{ground}-{variant}-seed{seed}")


def cells_of(settings: Tagger) -> list[Pass[str]]:
    """All of them, variants side by side."""
    points = [(ground, tuple(VARIANTS)) for ground in GROUNDS]
    return [cell(*one) for one in interleaved(points, settings.seeds)]


COST_CELL = cell("none", "filter", 0)


def run_tagger(settings: Tagger, console: Console) -> bool:
    """Whether all cells are there now."""
    store = Store(settings.folder, *as_json(lambda values: Outcome(**values), asdict), room="cells")
    say = Teller(console)

    @contextmanager
    def bench(missing: Sequence[Pass[str]]) -> Iterator[Run[Pass[str], Outcome]]:
        yield lambda one, progress: _run(settings, one)

    def measured(cells: Sequence[Pass[str]], seconds: float = 0.0) -> dict[Pass[str], Outcome]:
        names = {one: f"{one.name}-{settings.flows}" for one in cells}
        return measure(cells, names, store, bench, say, seconds=seconds)

    wanted = cells_of(settings)
    found = measured(wanted, settings.seconds)
    if len(found) < len(wanted):
        console.print("time is over; the same command goes on")
        return False
    (cost,) = measured([COST_CELL]).values()
    results: dict[tuple[str, str], list[Outcome]] = {}
    for one, outcome in found.items():
        results.setdefault((one.point, one.scheme), []).append(outcome)
    for ground in GROUNDS:
        table = Table(*report.HEAD, title=report.TITLES[ground])
        for row in report.table(ground, results):
            table.add_row(*row)
        print_table(console, table)
    document = settings.document or settings.folder / "tagger.md"
    document.parent.mkdir(parents=True, exist_ok=True)
    report.plot(results, document.with_name("tagger.png"))
    replace_text(document, report.markdown(results, settings.seeds, settings.flows, cost))
    console.print(f"written: {document}")
    return True


def _run(settings: Tagger, one: Pass[str]) -> Outcome:
    ground = replace(GROUNDS[one.point], flows=settings.flows)
    directory = settings.folder.resolve() / "running"
    return run_cell(one, ground, prefix_of_process(), directory, with_cost=one == COST_CELL)
