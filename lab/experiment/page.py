"""Markdown pages: tables, and pages of which a run writes one part and a person the rest, told apart by marks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table."""
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *rows])


def parted(text: str, begin: str, end: str) -> tuple[str, str, str]:
    """What stands before the marks, between them, and after them; of a text that lacks one, all stands before."""
    before, found, rest = text.partition(begin)
    between, ended, after = rest.partition(end)
    return (before, between, after) if found and ended else (text, "", "")
