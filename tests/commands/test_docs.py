"""Documents name only what is there: links, headings, and the documents that code cites."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LINK = re.compile(r"\]\((?!https?:|mailto:)([^)\s]+)\)")
CITED = re.compile(r"\b[A-Z]{4,}\.md\b")


def tracked(*patterns: str) -> list[Path]:
    """The files of the checkout that git knows or could add, by glob."""
    words = ["git", "ls-files", "--cached", "--others", "--exclude-standard", *patterns]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip("not a git checkout")
    return [ROOT / name for name in done.stdout.splitlines() if (ROOT / name).is_file()]


def anchors(text: str) -> set[str]:
    """The anchors that headings get on a forge: lower case, words joined by hyphens, no other signs."""
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


def test_every_link_of_a_document_leads_somewhere() -> None:
    broken = []
    for path in tracked("*.md"):
        for link in LINK.findall(path.read_text(encoding="utf-8")):
            name, _, anchor = link.partition("#")
            target = (path.parent / name).resolve() if name else path
            if not target.exists() or (anchor and anchor not in anchors(target.read_text(encoding="utf-8"))):
                broken.append(f"{path.relative_to(ROOT)}: {link}")
    assert broken == []


def test_documents_and_rules_cite_no_document_that_is_not_here() -> None:
    names = {path.name for path in tracked("*.md")}
    missing = [
        f"{path.relative_to(ROOT)}: {cited}"
        for path in tracked("*.md", "hostlib/core/*", "lab/sim/*", "orchestrator/*")
        for cited in set(CITED.findall(path.read_text(encoding="utf-8")))
        if cited not in names | {"NAME.md"}
    ]
    assert missing == []


def test_the_table_of_contents_names_each_page_once() -> None:
    contents = LINK.findall((ROOT / "docs/README.md").read_text(encoding="utf-8"))
    pages = [path.relative_to(ROOT / "docs").as_posix() for path in tracked("docs/guide/*.md", "docs/design/*.md")]
    pages += [path.relative_to(ROOT / "docs").as_posix() for path in tracked("docs/results/*.md")]
    assert {page: contents.count(page) for page in pages if contents.count(page) != 1} == {}
