"""The book's table of contents in Markdown, made from the pages in a folder: nothing to keep in step by hand."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.experiment.store import whole

PARTS = {"title": r"^# (.+)$", "command": r"^`(qclimb figures [^`]+)`", "verdict": r"^\*\*Verdict\*\*: (.+)$|^- (.+)$"}
"""How lab.figures.render writes them; a page without a verdict of one line is shown by its first claim's."""


@dataclass(frozen=True)
class Asked:
    """A figure or table, the pages that show it (files without .md), and what has to be said about it."""

    what: str
    pages: tuple[str, ...]
    said: str = ""

    @property
    def is_named(self) -> bool:
        """Whether the pages' names are the figures': `pdq-3a` has PDQ's Fig. 3a, and `pdq-8b` is one of Fig. 8."""
        paper, _, words = self.what.lower().partition(" ")
        figures = [f"{paper}-{figure}" for figure in re.findall(r"\d+[a-e]?", words)]
        return (
            "table" not in words
            and all(any(page.startswith(figure) for page in self.pages) for figure in figures)
            and all(page.startswith(tuple(figures)) for page in self.pages)
        )


def write_index(folder: Path, asked_for: Sequence[Asked]) -> Path:
    """Writes README.md beside the pages, whole or as it was; returns its path. Raises: OSError, which names it."""
    found = {path.stem: parts for path in sorted(folder.glob("*.md")) if (parts := _parts(path))}
    lines = [
        "# The book",
        "",
        "Figures and tables of the papers, run by this project's simulator, each beside the paper's numbers.",
        "`qclimb figures` makes this list from the first sentence of each page's verdict; the page has the others, and",
        "the command that made it (`qclimb figures NAME --scale medium`, or full) with the CPU time that it took;",
        "`--quick` takes seconds.",
        "[The simulator](../../lab/sim/README.md) says how they are run.",
        "",
        "| page | what it found |",
        "|---|---|",
    ]
    for name, parts in found.items():
        lines.append(f"| [{parts['title']}]({name}.md) | {short(parts['verdict'])} |")
    lines += ["", "## Figures that stand on pages of other names, or with something to say", ""]
    lines += ["| asked | page | |", "|---|---|---|"]
    for asked in asked_for:
        if not asked.said and asked.is_named and all(name in found for name in asked.pages):
            continue
        pages = ", ".join(f"[{name}]({name}.md)" for name in asked.pages if name in found)
        lines.append(f"| {asked.what} | {pages or ('(not made here)' if asked.pages else '')} | {asked.said} |")
    index = folder / "README.md"
    with whole(index) as part:
        part.write_text("\n".join([*lines, ""]), encoding="utf-8")
    return index


def short(verdict: str) -> str:
    """Its first sentence, without what stands in round brackets; the page says the rest."""
    plain = re.sub(r"\s*\([^()]*\)", "", verdict)
    return re.split(r"(?<!Fig)(?<!Figs)[.;]\s+(?=\S)", plain)[0].rstrip(".;")


def _parts(path: Path) -> dict[str, str] | None:
    if path.name == "README.md":
        return None
    text = path.read_text(encoding="utf-8")
    found = {}
    for name, pattern in PARTS.items():
        match = re.search(pattern, text, re.MULTILINE)
        if match is None:
            return None
        found[name] = next(group for group in match.groups() if group).replace("|", "/")
    return found
