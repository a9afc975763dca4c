"""Plots as SVG text, and how each scheme looks in all of them."""

from __future__ import annotations

import io
from collections.abc import Iterable
from typing import NamedTuple

import matplotlib

matplotlib.use("svg")
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure

OF_SCHEME = {
    "plain TCP": "#555555",
    "TCP": "#555555",
    "DCTCP": "#555555",
    "fair": "#555555",
    "PIAS": "#e08a00",
    "MLFQ": "#e08a00",
    "MP-MLFQ": "#006a6a",
    "QCLIMB": "#0060c0",
    "QCLIMB-PS": "#00a070",
    "QCLIMB-PP": "#8060c0",
    "QCLIMB-FP": "#00a8c8",
    "pFabric": "#c03020",
    "Homa": "#7a5230",
    "PDQ": "#b03080",
    "D3": "#70a000",
    "RCP": "#c0a000",
    "OPTAX": "#e060a0",
    "8 priorities": "#60a0e0",
    "earliest deadline first by priority": "#60a0e0",
    "optimum": "#999999",
    "best possible": "#999999",
}
"""The same colour in all plots. A title that goes on behind such a name (`PIAS; ours`, `PDQ(ES)`) is a variant."""
OTHERS = ("#444f9c", "#d08060", "#5f8f5f", "#a06a9a", "#8a8a30", "#3f8fa8", "#a05050", "#506070", "#c090c0")
"""Of curves that are no scheme, in turn."""
LINES = ("-", "--", ":", "-.", (0, (4, 1, 1, 1, 1, 1)), (0, (6, 3)), (0, (1, 3)))
MARKERS = "os^Dv*P"
PALER = 0.28
"""So much of what lacks to white is added from one variant of a scheme to the next."""


class Look(NamedTuple):
    """Of a curve: matplotlib's colour, line style and marker."""

    colour: str
    line: str | tuple[int, tuple[int, ...]]
    marker: str


def scheme_of(title: str) -> str | None:
    """The name in OF_SCHEME that a title is, or is a variant of; None for what is no scheme."""
    fits = [
        name
        for name in OF_SCHEME
        if title.lower().startswith(name.lower()) and not title[len(name) : len(name) + 1].isalnum()
    ]
    return max(fits, key=len, default=None)


def looks(titles: Iterable[str]) -> dict[str, Look]:
    """How each curve of a plot looks, by its title: a scheme by its own colour, whatever stands beside it; its variants
    paler and by other lines, in their order."""
    distinct = list(dict.fromkeys(titles))
    found: dict[str, Look] = {}
    others = 0
    for title in distinct:
        name = scheme_of(title)
        if name is None:
            found[title] = Look(OTHERS[others % len(OTHERS)], "-", MARKERS[others // len(OTHERS) % len(MARKERS)])
            others += 1
            continue
        variants = [each for each in distinct if scheme_of(each) == name and each != name]
        place = 0 if title == name else variants.index(title) + (name in distinct)
        found[title] = Look(_paler(OF_SCHEME[name], place), LINES[place % len(LINES)], MARKERS[place % len(MARKERS)])
    return found


def colours(titles: Iterable[str]) -> dict[str, str]:
    """A colour for each curve of a plot, by its title."""
    return {title: look.colour for title, look in looks(titles).items()}


def _paler(colour: str, times: int) -> str:
    """At most three steps: what is paler still can't be seen."""
    left = (1 - PALER) ** min(times, 3)
    red, green, blue = (1 - left * (1 - part) for part in to_rgb(colour))
    return to_hex((red, green, blue))


def svg_of(figure: Figure) -> str:
    """The figure as the element `<svg>`, the same bytes whenever it is drawn but for its ids."""
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None})
    return text.getvalue()[text.getvalue().index("<svg") :]
