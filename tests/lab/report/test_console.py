"""Tables on terminals of any width: nothing is cut."""

import io

import pytest
from rich.console import Console
from rich.table import Table

from lab.experiment.terminal import print_table
from lab.run.report.tables import COLUMNS

ROW = ("medium (to 500 KB)", "QCLIMB without footprint", "1095", "120.4", "1167.9", "1.85", "8.20", "0.62", "1.06")


def table() -> Table:
    found = Table(title="load 0.6, seed 1")
    for name in COLUMNS:
        found.add_column(name, no_wrap=True)
    found.add_row(*ROW)
    return found


def shown(width: int) -> str:
    console = Console(width=width, file=io.StringIO(), force_terminal=True, color_system=None)
    with console.capture() as found:
        print_table(console, table())
    assert console.width == width
    return found.get()


@pytest.mark.parametrize("width", [200, 100, 80, 40])
def test_every_number_and_word_is_there_whole(width):
    text = shown(width)
    assert "…" not in text
    words = text.split()
    assert all(word in words for cell in (*ROW, *COLUMNS) for word in cell.split())
    if width >= 80:
        assert max(map(len, text.splitlines())) <= width


def test_where_there_is_room_a_table_is_as_rich_has_it():
    console = Console(width=200, file=io.StringIO(), force_terminal=True, color_system=None)
    with console.capture() as plain:
        console.print(table())
    assert shown(200) == plain.get()


def test_rich_itself_would_cut():
    console = Console(width=80, file=io.StringIO())
    with console.capture() as plain:
        console.print(table())
    assert "…" in plain.get()
