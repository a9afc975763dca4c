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
from lab.experiment.plots import colours, svg_of
from lab.run.report.comparison import Comparison, title_of

BINS = 12
"""Parts of a slowdown's curve, each of as many flows."""
TAIL_FLOWS = 100
"""A p99 of fewer flows is not drawn."""


@contextmanager
def _drawn(columns: int) -> Iterator[tuple[Any, Any]]:
    figure, axes = plt.subplots(1, columns, figsize=(5.2 * columns, 3.4), squeeze=False, layout="constrained")
    try:
        yield figure, axes[0]
    finally:
        plt.close(figure)


def by_size(comparison: Comparison) -> str:
    """Slowdown by flow size, its median and its 99th percentile, a curve a scheme, as HomaModule draws it; SVG."""
    with _drawn(2) as (figure, panels):
        for axes, percent in zip(panels, (50, 99), strict=True):
            for name, sample, colour in _schemes(comparison):
                size, slowdown = slowdowns(sample, percent)
                axes.plot(size, slowdown, color=colour, label=title_of(name), marker="o", ms=3, lw=1.3)
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
        for name, sample, colour in _schemes(comparison):
            values = _values(sample, size_class, of)
            most = max(most, values.size)
            share = 1 - np.arange(values.size) / max(1, values.size)
            axes.step(values, share, where="pre", label=title_of(name), color=colour, lw=1.3)
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


def all_cdfs(comparison: Comparison) -> list[str]:
    """One plot of FCT per size class."""
    return [cdf(comparison, size_class, "fct_ms") for size_class in CLASSES]


def _schemes(comparison: Comparison) -> Iterator[tuple[str, Flows, str]]:
    """Each scheme, its flows and its colour."""
    colour = colours(title_of(name) for name in comparison.samples)
    for name, sample in comparison.samples.items():
        yield name, sample, colour[title_of(name)]


def _values(sample: Flows, size_class: str, of: str) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.asarray(np.sort(getattr(sample, of)[sample.of_class(size_class) & sample.finished]))
