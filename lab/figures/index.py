"""The book's table of contents in Markdown, made from the pages in a folder: nothing to keep in step by hand."""

from __future__ import annotations

import re
from pathlib import Path

PARTS = {"title": r"^# (.+)$", "command": r"^`(qclimb figures [^`]+)`", "verdict": r"^\*\*Verdict\*\*: (.+)$|^- (.+)$"}
"""How lab.figures.render writes them; a page without a verdict of one line is shown by its first claim's."""


def write_index(folder: Path) -> Path:
    """Writes README.md beside the pages; returns its path."""
    lines = [
        "# The book",
        "",
        "Figures and tables of the papers, run by this project's simulator, each beside the paper's numbers.",
        "`qclimb figures` makes this list from the pages here; `lab/sim/README.md` says what the simulator is.",
        "",
        "| page | what it found | made by |",
        "|---|---|---|",
    ]
    for path in sorted(folder.glob("*.md")):
        found = _parts(path)
        if found and path.name != "README.md":
            lines.append(f"| [{found['title']}]({path.name}) | {found['verdict']} | `{found['command']}` |")
    index = folder / "README.md"
    index.write_text("\n".join([*lines, ""]), encoding="utf-8")
    return index


def _parts(path: Path) -> dict[str, str] | None:
    text = path.read_text(encoding="utf-8")
    found = {}
    for name, pattern in PARTS.items():
        match = re.search(pattern, text, re.MULTILINE)
        if match is None:
            return None
        found[name] = next(group for group in match.groups() if group).replace("|", "/")
    return found
