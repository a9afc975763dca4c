"""What people see while something runs, and tables: on a terminal, however narrow, and in a file, of which nothing is
cut."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar
from rich.table import Table

FILE_WIDTH = 150

Progress = Callable[[float], None]
"""Told which share of something is done."""


def console_for_tables() -> Console:
    """A console that does not take a file for a terminal of 80 columns."""
    console = Console()
    return console if console.is_terminal else Console(width=FILE_WIDTH)


def print_table(console: Console, table: Table) -> None:
    """Prints a table whole; its cells are texts.

    Where the console is too narrow for it, lines between columns go, and the widest columns are folded at blanks; where
    even that is too wide, the terminal has to fold the rows.
    """
    given = console.width
    if Console(width=10_000).measure(table).maximum <= given:
        console.print(table)
        return
    table.box, table.padding, table.pad_edge, table.show_edge = SIMPLE_HEAD, 0, False, False
    between = len(table.columns) - 1
    widths = _folded(table, given - between)
    for column, width in zip(table.columns, widths, strict=True):
        column.width, column.no_wrap = width, False
    try:
        console.width = max(given, sum(widths) + between)
        console.print(table)
    finally:
        console.width = given


def _folded(table: Table, room: int) -> list[int]:
    """Widths of the columns that fill `room`, or as near as words allow."""
    texts = [f"{column.header}\n" + "\n".join(map(str, column.cells)) for column in table.columns]
    widths = [max(map(cell_len, text.splitlines())) for text in texts]
    least = [max(map(cell_len, text.split()), default=0) for text in texts]
    while sum(widths) > room:
        spare = [place for place, width in enumerate(widths) if width > least[place]]
        if not spare:
            break
        widths[max(spare, key=widths.__getitem__)] -= 1
    return widths


class Teller:
    """Says what is being done: a line a step with the time since the start, a bar while a pass runs (on a terminal);
    `is_brief`: of passes the bar alone, where they are many and short."""

    def __init__(self, console: Console, is_brief: bool = False) -> None:
        self.console, self._is_brief = console, is_brief
        self._start = time.monotonic()

    def __call__(self, text: str) -> None:
        """One line."""
        elapsed = time.monotonic() - self._start
        self.console.print(f"[dim]{elapsed:5.0f} s[/dim]  {text}", highlight=False)

    @contextmanager
    def bar(self, text: str) -> Iterator[Progress]:
        """A line, then a bar that goes away."""
        if not self._is_brief:
            self(text)
        columns = (TextColumn(text if self._is_brief else "        "), BarColumn(40), TimeElapsedColumn())
        with Bar(*columns, console=self.console, transient=True, disable=not self.console.is_terminal) as bar:
            task = bar.add_task(text, total=1.0)
            yield lambda share: bar.update(task, completed=share)
