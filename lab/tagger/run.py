"""`qclimb lab run tagger`: runs the cells that are missing, prints the tables, writes the document."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console
from rich.table import Table

from lab.console import print_table
from lab.tagger import report
from lab.tagger.cells import GROUNDS, VARIANTS, Cell, Outcome, prefix_of_process, run_cell


@dataclass(frozen=True)
class Settings:
    """What is compared."""

    seeds: tuple[int, ...] = (1, 2, 3)
    flows: int = 100
    variants: tuple[str, ...] = tuple(VARIANTS)
    folder: Path = Path("lab-results/tagger")
    document: Path | None = None
    seconds: float = 0.0
    """Stop after so long, 0: when all is done; what is there is kept, and the next run goes on."""


def cells_of(settings: Settings) -> list[Cell]:
    """All of them, variants side by side and in another order with each seed, so that a drift favours none."""
    names = settings.variants
    return [
        Cell(ground, names[(n + turn) % len(names)], seed)
        for turn, seed in enumerate(settings.seeds)
        for ground in GROUNDS
        for n in range(len(names))
    ]


def run_tagger(settings: Settings, console: Console) -> bool:
    """Whether all cells are there now."""
    results: dict[tuple[str, str], list[Outcome]] = {}
    started, is_whole = time.monotonic(), True
    for cell in cells_of(settings):
        found = _find(settings, cell)
        if found is None:
            if settings.seconds and time.monotonic() - started > settings.seconds:
                is_whole = False
                continue
            console.print(f"{cell.ground}, seed {cell.seed}: {VARIANTS[cell.variant].title}", style="dim")
            found = _run(settings, cell)
        results.setdefault((cell.ground, cell.variant), []).append(found)
    if not is_whole:
        console.print("time is over; the same command goes on")
        return False
    cost = _find(settings, COST_CELL) or _run(settings, COST_CELL)
    for ground in GROUNDS:
        table = Table(*report.HEAD, title=report.TITLES[ground])
        for row in report.table(ground, results):
            table.add_row(*row)
        print_table(console, table)
    document = settings.document or settings.folder / "tagger.md"
    document.parent.mkdir(parents=True, exist_ok=True)
    report.plot(results, document.with_name("tagger.png"))
    document.write_text(report.markdown(results, settings.seeds, settings.flows, cost), encoding="utf-8")
    console.print(f"written: {document}")
    return True


COST_CELL = Cell("none", "filter", 0)


def _path(settings: Settings, cell: Cell) -> Path:
    return settings.folder / "cells" / f"{cell.name}-{settings.flows}.json"


def _find(settings: Settings, cell: Cell) -> Outcome | None:
    try:
        return Outcome.load(_path(settings, cell))
    except (OSError, ValueError, TypeError):
        return None


def _run(settings: Settings, cell: Cell) -> Outcome:
    ground = replace(GROUNDS[cell.ground], flows=settings.flows)
    directory = settings.folder.resolve() / "running"
    outcome = run_cell(cell, ground, prefix_of_process(), directory, with_cost=cell == COST_CELL)
    outcome.save(_path(settings, cell))
    return outcome
