"""What QCLIMB's paper (NSDI'24) has, as claims: its figures' ranges and its Table 5."""

from __future__ import annotations

from collections.abc import Iterable

from lab.experiment.claims import AsPaper, Claim
from lab.figures.pages.qclimb.fabric import LOADS

FIG_23 = {
    "K-Means": ((0.521, 0.826), (0.699, 0.99), (0.38, 0.99)),
    "PageRank": ((0.617, 0.909), (0.649, 0.99), (0.45, 0.99)),
    "SGD": ((0.505, 0.621), (0.535, 0.97), (0.575, 0.98)),
}
"""QCLIMB / PIAS over LOADS: overall mean, small mean, small p99."""
FIG_24 = {
    "K-Means": ((1.004, 1.014), (1.12, 1.17), (1.01, 1.028)),
    "PageRank": ((1.016, 1.059), (1.046, 1.131), (0.998, 1.057)),
    "SGD": (None, None, (1.004, 1.105)),
}
"""QCLIMB / QCLIMB-PS overall, QCLIMB / pFabric overall, QCLIMB / QCLIMB-PS small mean."""
TABLE_5 = {
    "K-Means": {
        0.3: ((1.21, 1.67), (0.99, 1.0), (0.89, 1.07)),
        0.5: ((1.93, 1.53), (0.99, 1.0), (0.86, 0.95)),
        0.7: ((1.48, 1.37), (0.99, 0.99), (0.85, 1.07)),
        0.9: ((1.41, 1.25), (0.99, 1.01), (0.86, 1.08)),
    },
    "PageRank": {
        0.3: ((1.11, 1.41), (0.99, 1.0), (0.96, 1.09)),
        0.5: ((1.60, 1.84), (0.99, 1.0), (0.95, 1.07)),
        0.7: ((1.47, 1.56), (0.99, 1.0), (0.92, 1.10)),
        0.9: ((1.34, 1.58), (0.99, 1.01), (0.91, 1.09)),
    },
    "SGD": {
        0.3: ((1.25, 1.11), (1.0, 1.01), (1.06, 1.06)),
        0.5: ((1.22, 1.16), (1.02, 1.05), (1.07, 1.08)),
        0.7: ((1.29, 1.23), (1.05, 1.04), (1.10, 1.10)),
        0.9: ((1.36, 1.27), (1.06, 1.05), (1.08, 1.07)),
    },
}
"""Mean and p99 FCT of large flows under PIAS, QCLIMB-PS and pFabric over QCLIMB's, by load."""


def number(value: float, *loads: float) -> AsPaper:
    """One number of the paper's."""
    return AsPaper(value, value, loads)


def up_to(most: float, *loads: float) -> AsPaper:
    """From the paper's most to no difference."""
    return AsPaper(min(most, 1.0), max(most, 1.0), loads)


def fig_23(trace: str, *cases: str) -> list[Claim]:
    """QCLIMB / PIAS, for each case."""
    which = (("all", "mean"), ("small", "mean"), ("small", "p99"))
    return [
        Claim("QCLIMB", "PIAS", *of, AsPaper(*span, LOADS), f"Fig. 23, {case}", (case,))
        for case in cases
        for of, span in zip(which, FIG_23[trace], strict=True)
    ]


def fig_23_and_24(traces: Iterable[str]) -> list[Claim]:
    """A line for each number of the text; cases are traces."""
    found = []
    for trace in traces:
        found += fig_23(trace, trace)
        bases = (("QCLIMB-PS", "all"), ("pFabric", "all"), ("QCLIMB-PS", "small"))
        for (base, size_class), span in zip(bases, FIG_24[trace], strict=True):
            if span:
                needs = AsPaper(*span, LOADS)
                found.append(Claim("QCLIMB", base, size_class, "mean", needs, f"Fig. 24, {trace}", (trace,)))
    return found


def table_5(traces: Iterable[str]) -> list[Claim]:
    """A line for each number; cases are traces."""
    return [
        Claim("QCLIMB", base, "large", statistic, number(1 / value, load), f"Table 5, {trace}", (trace,))
        for trace in traces
        for load, row in TABLE_5[trace].items()
        for base, values in zip(("PIAS", "QCLIMB-PS", "pFabric"), row, strict=True)
        for statistic, value in zip(("mean", "p99"), values, strict=True)
    ]
