"""CDF plots as SVG text, to stand inside a report."""

from __future__ import annotations

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt
import numpy as np

from lab.experiment.flows import CLASSES, Flows
from lab.experiment.plots import COLOURS, svg_of
from lab.run.report.comparison import Comparison, title_of


def cdf(comparison: Comparison, size_class: str, of: str) -> str:
    """The distribution of `fct_ms` or `slowdown` of a size class, a curve per scheme; SVG."""
    figure, axes = plt.subplots(figsize=(5.2, 3.4))
    try:
        for place, (name, sample) in enumerate(comparison.samples.items()):
            values = _values(sample, size_class, of)
            if values.size:
                share = np.arange(1, values.size + 1) / values.size
                axes.step(
                    values, share, where="post", label=title_of(name), color=COLOURS[place % len(COLOURS)], lw=1.3
                )
        axes.set_xscale("log")
        axes.set_ylim(0, 1)
        axes.axhline(0.99, color="#cccccc", lw=0.7)
        axes.set_xlabel("FCT, ms" if of == "fct_ms" else "slowdown")
        axes.set_ylabel("share of flows")
        axes.set_title(f"{size_class} flows", loc="left", fontsize=10)
        axes.grid(True, which="major", color="#eeeeee")
        if axes.get_legend_handles_labels()[0]:
            axes.legend(fontsize=7, frameon=False, loc="lower right")
        figure.tight_layout()
        return svg_of(figure)
    finally:
        plt.close(figure)


def all_cdfs(comparison: Comparison) -> list[str]:
    """One plot of FCT per size class."""
    return [cdf(comparison, size_class, "fct_ms") for size_class in CLASSES]


def _values(sample: Flows, size_class: str, of: str) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.asarray(np.sort(getattr(sample, of)[sample.of_class(size_class) & sample.finished]))
