"""Plots as SVG text."""

from __future__ import annotations

import io
from collections.abc import Iterable
from itertools import cycle

import matplotlib

matplotlib.use("svg")
from matplotlib.figure import Figure

OF_SCHEME = {
    "plain TCP": "#555555",
    "DCTCP": "#555555",
    "fair": "#555555",
    "PIAS": "#e08a00",
    "QCLIMB": "#0060c0",
    "pFabric": "#c03020",
    "Homa": "#7a5230",
    "MLFQ": "#e08a00",
    "optimum": "#999999",
}
"""The same colour in all plots."""
OTHERS = ("#00a070", "#b03080", "#70a000", "#00a8c8", "#8060c0", "#c0a000", "#305050", "#e060a0", "#60a0e0")
"""Of the other curves of a plot, in turn."""


def colours(titles: Iterable[str]) -> dict[str, str]:
    """A colour for each curve of a plot, by its title."""
    others = cycle(OTHERS)
    return {title: OF_SCHEME.get(title) or next(others) for title in dict.fromkeys(titles)}


def svg_of(figure: Figure) -> str:
    """The figure as the element `<svg>`, the same bytes whenever it is drawn but for its ids."""
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None})
    return text.getvalue()[text.getvalue().index("<svg") :]
