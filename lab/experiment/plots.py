"""Plots as SVG text."""

from __future__ import annotations

import io

import matplotlib

matplotlib.use("svg")
from matplotlib.figure import Figure

COLOURS = ("#555555", "#e08a00", "#0060c0", "#00a070", "#b03080", "#70a000")


def svg_of(figure: Figure) -> str:
    """The figure as the element `<svg>`, the same bytes whenever it is drawn but for its ids."""
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None})
    return text.getvalue()[text.getvalue().index("<svg") :]
