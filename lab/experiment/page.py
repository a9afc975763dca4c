"""Markdown pages: tables, and pages of which a run writes one part and a person the rest, told apart by marks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from lab.experiment.store import replace_text


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table."""
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *rows])


def parted(text: str, begin: str, end: str) -> tuple[str, str, str]:
    """What stands before the marks, between them, and after them; of a text that lacks one, all stands before."""
    before, found, rest = text.partition(begin)
    between, ended, after = rest.partition(end)
    return (before, between, after) if found and ended else (text, "", "")


def rewrite(path: Path, title: str, begin: str, end: str, made: str) -> None:
    """Puts what was made between a page's marks; what stands around them stays. A page that is not there begins with
    `title`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    before, _, after = parted(path.read_text(encoding="utf-8") if path.exists() else f"# {title}\n\n", begin, end)
    replace_text(path, f"{before}{begin}\n\n{made.strip()}\n\n{end}{after or chr(10)}")
