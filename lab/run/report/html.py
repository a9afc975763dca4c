"""The report: one HTML file that needs nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader

from lab.experiment.flows import CLASSES
from lab.experiment.store import replace_text
from lab.run.report import figures, tables
from lab.run.report.comparison import Comparison, title_of
from lab.run.report.verdicts import Verdict


def write_html(
    path: Path, title: str, comparisons: Sequence[Comparison], found: Sequence[Verdict], about: Mapping[str, Any]
) -> None:
    """Writes the report; `about` are the settings common to all comparisons, nested mappings of text."""
    environment = Environment(loader=PackageLoader("lab.run.report", "."), autoescape=True, trim_blocks=True)
    page = environment.get_template("report.html").render(
        title=title, about=_flat(about), verdicts=found, comparisons=[_shown(each) for each in comparisons]
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_text(path, page)


def _shown(comparison: Comparison) -> dict[str, Any]:
    return {
        "load": f"{comparison.load:g}",
        "seeds": ", ".join(str(result.seed) for result in next(iter(comparison.results.values()))),
        "base": title_of(comparison.base),
        "columns": tables.COLUMNS,
        "classes": [
            (
                tables.CLASS_TITLE[size_class],
                [tables.cells(row, comparison.base) for row in comparison.rows if row.size_class == size_class],
            )
            for size_class in CLASSES
        ],
        "by_size": figures.by_size(comparison),
        "waiting": figures.queues(comparison),
        "figures": figures.all_cdfs(comparison),
        "packet_columns": tables.PACKET_COLUMNS,
        "packets": tables.packet_cells(comparison),
        "queues": [
            (title_of(name), {q: sum(r.queue_drops.get(q, 0) for r in results) for q in results[0].queue_drops})
            for name, results in comparison.results.items()
        ],
        "services": [
            [
                row.service,
                title_of(row.scheme),
                str(row.flows),
                f"{row.mean_bytes:.0f}",
                tables.number(row.fct_mean_ms),
                tables.number(row.fct_p99_ms),
                tables.number(row.slowdown_mean),
            ]
            for row in comparison.services
        ],
        "gains": comparison.gains,
        "notes": comparison.notes,
        "settings": _flat(comparison.settings),
    }


def _flat(values: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """Nested settings as lines of `a.b`, text."""
    lines: list[tuple[str, str]] = []
    for key, value in values.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            lines += _flat(value, f"{name}.")
        else:
            lines.append((name, ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)))
    return lines
