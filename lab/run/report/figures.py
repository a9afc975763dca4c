"""Plots of a comparison as SVG text, to stand inside a report."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from lab.experiment.flows import CLASSES, Flows
from lab.experiment.plots import looks, svg_of
from lab.run.report.comparison import Comparison, title_of

BINS = 12
"""Parts of a slowdown's curve, each of as many flows."""
TAIL_FLOWS = 100
"""A p99 of fewer flows is not drawn."""


@contextmanager
def _drawn(columns: int, sharey: bool = False) -> Iterator[tuple[Any, Any]]:
    size = (max(5.2 * min(columns, 2), 2.6 * columns), 3.4)
    figure, axes = plt.subplots(1, columns, figsize=size, squeeze=False, layout="constrained", sharey=sharey)
    try:
        yield figure, axes[0]
    finally:
        plt.close(figure)


def by_size(comparison: Comparison) -> str:
    """Slowdown by flow size, its median and its 99th percentile, a curve a scheme, as HomaModule draws it; SVG."""
    with _drawn(2) as (figure, panels):
        for axes, percent in zip(panels, (50, 99), strict=True):
            for sample, style in _schemes(comparison):
                axes.plot(*slowdowns(sample, percent), marker="o", ms=3, **style)
            axes.set_xscale("log")
            axes.set_yscale("log")
            axes.axhline(1, color="#999999", ls=":", lw=1, label="the limit")
            for axis in (axes.xaxis, axes.yaxis):
                axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.9g}"))
                axis.set_minor_formatter(NullFormatter())
            axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axes.set_xlabel("flow size, bytes")
            axes.set_ylabel("slowdown")
            axes.set_title("median" if percent == 50 else f"p{percent}", loc="left", fontsize=10)
            axes.grid(True, which="major", color="#eeeeee")
        panels[0].legend(fontsize=7, frameon=False, loc="upper right")
        return svg_of(figure)


def slowdowns(sample: Flows, percent: int) -> tuple[list[float], list[float]]:
    """Middle size of each part of the flows, by size, and a percentile of its slowdowns; parts too small left out."""
    chosen = np.flatnonzero(sample.finished)
    least = TAIL_FLOWS if percent > 90 else 1
    parts = np.array_split(chosen[np.argsort(sample.bytes[chosen], kind="stable")], BINS)
    shown = [part for part in parts if part.size >= least]
    sizes = [float(np.median(sample.bytes[part])) for part in shown]
    return sizes, [float(np.percentile(sample.slowdown[part], percent)) for part in shown]


def cdf(comparison: Comparison, size_class: str, of: str) -> str:
    """The distribution of `fct_ms` or `slowdown` of a size class, a curve a scheme; SVG.

    The ordinate is the share of flows that took longer, logarithmic: nine flows of ten, and one of a thousand, show.
    """
    with _drawn(1) as (figure, (axes,)):
        most = 2
        for sample, style in _schemes(comparison):
            values = _values(sample, size_class, of)
            most = max(most, values.size)
            share = 1 - np.arange(values.size) / max(1, values.size)
            axes.step(values, share, where="pre", **style)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_ylim(0.7 / most, 1)
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:.9g} %"))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.9g}"))
        axes.set_xlabel("FCT, ms" if of == "fct_ms" else "slowdown")
        axes.set_ylabel("flows that took longer")
        axes.set_title(f"{size_class} flows", loc="left", fontsize=10)
        axes.grid(True, which="major", color="#eeeeee")
        axes.legend(fontsize=7, frameon=False, loc="lower left")
        return svg_of(figure)


def queues(comparison: Comparison) -> str:
    """What waited at all switch ports over time, stacked by queue, a panel a scheme and the same scale in all, in the
    first seed; the queue that is served first below. SVG; empty where nothing was read."""
    shown = {name: results[0] for name, results in comparison.results.items() if any(results[0].waited_bytes.values())}
    held = sorted({q for one in shown.values() for q, each in one.waited_bytes.items() if any(each)}, key=int)[::-1]
    if not held:
        return ""
    shade = plt.get_cmap("viridis")
    with _drawn(len(shown), sharey=True) as (figure, panels):
        for axes, (name, one) in zip(panels, shown.items(), strict=True):
            rows = [np.array(one.waited_bytes.get(queue, [0] * len(one.waited_ms))) / 1000 for queue in held]
            colour = [shade(0.05 + 0.9 * place / max(1, len(held) - 1)) for place in range(len(held))]
            axes.stackplot(np.array(one.waited_ms) / 1000, rows, labels=held, colors=colour, lw=0)
            axes.set_title(title_of(name), loc="left", fontsize=10)
            axes.set_xlabel("s")
            axes.margins(x=0)
        panels[0].set_ylabel("KB that wait")
        figure.legend(
            *panels[0].get_legend_handles_labels(),
            loc="outside lower center",
            ncols=len(held),
            fontsize=8,
            frameon=False,
            title="SONiC queue, from the one that is served first",
            title_fontsize=8,
        )
        return svg_of(figure)


def all_cdfs(comparison: Comparison) -> list[str]:
    """One plot of FCT per size class."""
    return [cdf(comparison, size_class, "fct_ms") for size_class in CLASSES]


def _schemes(comparison: Comparison) -> Iterator[tuple[Flows, dict[str, Any]]]:
    """Each scheme's flows, and the style of its curve."""
    look = looks(title_of(name) for name in comparison.samples)
    for name, sample in comparison.samples.items():
        title = title_of(name)
        yield sample, {"label": title, "color": look[title].colour, "ls": look[title].line, "lw": 1.3}


def _values(sample: Flows, size_class: str, of: str) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.asarray(np.sort(getattr(sample, of)[sample.of_class(size_class) & sample.finished]))
