"""A ladder of bounds as a table and as a picture, beside QCLIMB's own numbers (NSDI'24: Table 2, O2 to O5)."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .ladder import RUNGS

PAPER_COVERAGE = {"kmeans": 99.9301, "pagerank": 99.9055, "sgd": 99.9877}
"""Percent at depth 10, Table 2."""

PAPER_SMALL_GAP_BYTES: dict[str, float] = {"kmeans": 12_983, "pagerank": 12_630, "sgd": 213}
"""Mean of size - lower bound of small flows (O2 to O5, the best case)."""


def _paper(name: str, numbers: dict[str, float]) -> float | None:
    return next((value for job, value in numbers.items() if job in name), None)


def table(found: Sequence[dict[str, Any]]) -> str:
    """Markdown: a row a rung and traffic."""
    lines = [
        "| traffic | rung | coverage % (paper) | worst quarter % | below L % | above U % "
        "| small: mean size - L, B (paper) | medium: the same | L / size, small "
        "| U/L, median | mean log10 U/L | one priority % |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for traffic in found:
        for rung, name in RUNGS.items():
            row = traffic["rungs"][rung]
            small, medium = row["classes"].get("small"), row["classes"].get("medium")
            coverage, gap = (_paper(traffic["name"], of) for of in (PAPER_COVERAGE, PAPER_SMALL_GAP_BYTES))
            first = rung == "a"
            cells = [
                f"{traffic['name']} ({traffic['flows']['test']:,} of {sum(traffic['flows'].values()):,})"
                if first
                else "",
                f"{rung}: {name}",
                f"{100 * row['coverage']:.4f}" + (f" ({coverage})" if first and coverage else ""),
                f"{100 * min(row['windows']):.3f}",
                f"{100 * row['below_lower']:.4f}",
                f"{100 * row['above_upper']:.4f}",
                (f"{small['mean_gap_to_lower_bytes']:,.0f}" if small else "")
                + (f" ({gap:,})" if first and gap else ""),
                f"{medium['mean_gap_to_lower_bytes']:,.0f}" if medium else "",
                f"{small['mean_lower_share']:.2f}" if small else "",
                f"{row['median_ratio']:.3g}",
                f"{row['mean_log10_ratio']:.2f}",
                f"{100 * row['one_priority_share']:.1f}",
            ]
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def draw(found: Sequence[dict[str, Any]], output: Path) -> None:
    """Misses and closeness by rung, a panel each."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    figure, (misses, close, one) = pyplot.subplots(1, 3, figsize=(12, 3.8), layout="constrained")
    places = range(len(RUNGS))
    for traffic in found:
        rows = [traffic["rungs"][rung] for rung in RUNGS]
        label = traffic["name"]
        misses.plot(places, [max(1 - row["coverage"], 1e-6) for row in rows], "o-", label=label)
        close.plot(places, [row["mean_log10_ratio"] for row in rows], "o-", label=label)
        one.plot(places, [100 * row["one_priority_share"] for row in rows], "o-", label=label)
    misses.set_yscale("log")
    misses.axhline(1e-3, color="grey", lw=0.8)
    for coverage in PAPER_COVERAGE.values():
        misses.axhline(1 - coverage / 100, color="black", lw=0.6, ls=":")
    misses.set_ylabel("share of later flows outside (1e-6: none)")
    misses.set_title("misses; dotted: the paper's three", fontsize=9)
    close.set_ylabel("mean log10 U/L")
    close.set_title("width of the interval", fontsize=9)
    one.set_ylabel("% of flows")
    one.set_title("both bounds in one priority", fontsize=9)
    for ax in (misses, close, one):
        ax.set_xticks(list(places), [f"({rung})" for rung in RUNGS])
        ax.grid(alpha=0.3)
    misses.legend(fontsize=7)
    figure.savefig(output, dpi=90)
    pyplot.close(figure)
