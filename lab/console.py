"""Tables for people: on a terminal, however narrow, and in a file, of which nothing is cut."""

from __future__ import annotations

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table

FILE_WIDTH = 150


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
