"""A ladder of bounds as a table and as a picture, beside QCLIMB's own numbers (NSDI'24: Table 2, O2 to O5)."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from lab.models.ladder import RUNGS
from orchestrator.models.report import DEPTHS

PAPER_COVERAGE = {"kmeans": 99.9301, "pagerank": 99.9055, "sgd": 99.9877}
PAPER_COVERAGE_5 = {"kmeans": 99.9936, "pagerank": 100.0, "sgd": 100.0}
"""Percent at depth 10, and at depth 5, Table 2."""

PAPER_SMALL_GAP_BYTES: dict[str, float] = {"kmeans": 12_983, "pagerank": 12_630, "sgd": 213}
"""Mean of size - lower bound of small flows (O2 to O5, the best case)."""


def _paper(name: str, numbers: dict[str, float]) -> float | None:
    return next((value for job, value in numbers.items() if job in name), None)


def table(found: Sequence[dict[str, Any]]) -> str:
    """Markdown: a row a rung and traffic."""
    lines = [
        "| traffic | rung | coverage % (paper) | 95 % | worst quarter % | below L % | above U % "
        "| small: mean size - L, B (paper) | medium: the same | L / size, small "
        "| U/L, median | mean log10 U/L | one priority % |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|",
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
                " to ".join(f"{100 * end:.3f}" for end in row["coverage_interval"]),
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


def depth_table(found: Sequence[dict[str, Any]]) -> str:
    """Markdown: coverage and width by depth, QCLIMB's Table 2."""
    lines = [
        "| traffic | coverage %, depth 1 | depth 5 (paper) | depth 10 (paper) | mean log10 U/L, depth 1 | 5 | 10 |",
        "|---|---|---|---|---|---|---|",
    ]
    for traffic in found:
        depths, covered, wide = traffic["by_depth"], [], []
        for depth in map(str, DEPTHS):
            row = depths.get(depth)
            paper = _paper(traffic["name"], {"5": PAPER_COVERAGE_5, "10": PAPER_COVERAGE}.get(depth, {}))
            covered.append((f"{100 * row['coverage']:.4f}" if row else "") + (f" ({paper})" if paper else ""))
            wide.append(f"{row['mean_log10_ratio']:.2f}" if row else "")
        lines.append("| " + " | ".join([traffic["name"], *covered, *wide]) + " |")
    return "\n".join(lines)


def curve_table(found: Sequence[dict[str, Any]]) -> str:
    """Markdown: coverage, and width in brackets, by the share of the training flows that was learned."""
    shares = sorted({row["share"] for traffic in found for row in traffic["learning_curve"]})
    lines = [
        "| traffic (all training flows) | " + " | ".join(f"1/{1 / share:.0f}" for share in shares) + " |",
        "|---" * (len(shares) + 1) + "|",
    ]
    for traffic in found:
        rows = {row["share"]: row for row in traffic["learning_curve"]}
        cells = [
            f"{100 * rows[share]['coverage']:.3f} ({rows[share]['mean_log10_ratio']:.2f})" if share in rows else ""
            for share in shares
        ]
        whole = traffic["flows"]["grow"] + traffic["flows"]["calibrate"]
        lines.append("| " + " | ".join([f"{traffic['name']} ({whole:,})", *cells]) + " |")
    return "\n".join(lines)


LEAST_SHOWN = 1e-5
"""Fewer misses than any recording could show are drawn here."""


def draw(found: Sequence[dict[str, Any]], output: Path) -> None:
    """Misses and width: by rung, by depth, by share of the flows that were learned."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(2, 3, figsize=(12, 7.4), layout="constrained")
    places = range(len(RUNGS))
    for traffic in found:
        rungs = [traffic["rungs"][rung] for rung in RUNGS]
        depths, curve = traffic["by_depth"], traffic["learning_curve"]
        shares = [row["share"] for row in curve]
        (line,) = panels[0, 0].plot(places, _misses(rungs), "o-", label=traffic["name"])
        style = {"color": line.get_color(), "marker": "o"}
        panels[0, 1].plot(places, [row["mean_log10_ratio"] for row in rungs], **style)
        panels[0, 2].plot(places, [100 * row["one_priority_share"] for row in rungs], **style)
        panels[1, 0].plot(range(len(depths)), _misses(depths.values()), **style)
        panels[1, 1].plot(shares, _misses(curve), **style)
        panels[1, 2].plot(shares, [row["mean_log10_ratio"] for row in curve], **style)
        panels[1, 0].set_xticks(range(len(depths)), depths)
    for panel in (panels[0, 0], panels[1, 0], panels[1, 1]):
        panel.set_yscale("log")
        panel.axhline(1e-3, color="grey", lw=0.8)
        panel.set_ylabel(f"share of later flows outside ({LEAST_SHOWN:g}: none)")
    for depth, paper in enumerate((PAPER_COVERAGE_5, PAPER_COVERAGE), 1):
        panels[1, 0].plot([depth] * 3, [max(1 - c / 100, LEAST_SHOWN) for c in paper.values()], "kx", ms=6)
    for panel in panels[1, 1:]:
        panel.set_xscale("log", base=2)
        panel.set_xlabel("share of the training flows")
    titles = (
        "misses by rung",
        "width by rung",
        "both bounds in one priority",
        "misses by depth, rung (a); crosses: paper",
        "misses by flows learned, (b)",
        "width by flows learned, (b)",
    )
    for panel, title in zip(panels.flat, titles, strict=True):
        panel.set_title(title, fontsize=9)
        panel.grid(alpha=0.3)
    for panel in panels[0]:
        panel.set_xticks(list(places), [f"({rung})" for rung in RUNGS])
    panels[0, 1].set_ylabel("mean log10 U/L")
    panels[1, 2].set_ylabel("mean log10 U/L")
    panels[0, 2].set_ylabel("% of flows")
    panels[1, 0].set_xlabel("depth")
    figure.legend(loc="outside lower center", ncols=len(found), fontsize=8)
    figure.savefig(output, dpi=90)
    pyplot.close(figure)


def _misses(rows: Iterable[dict[str, Any]]) -> list[float]:
    return [max(1 - row["coverage"], LEAST_SHOWN) for row in rows]
