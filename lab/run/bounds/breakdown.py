"""The paper's Figure 16: flows' time by step (lab/workload/steps.py), as a table and as bars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt
import numpy as np
from numpy.typing import NDArray

from lab.experiment import page
from lab.experiment.intervals import Interval, over_blocks
from lab.experiment.plots import OTHERS, svg_of
from lab.run.bounds.judge import Cell
from lab.run.bounds.schemes import VARIANTS
from lab.workload.passes import PassResult
from lab.workload.steps import ASKED, STEPS

CLASSES = ("small", "medium", "all")
WORDS = {"unbounded": "without bounds", "climbing": "climbing up", "down": "climbing down"}
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Broken:
    """One scheme's flows of a cell by step: arrays of ms, a value a flow, in the order of the cell's samples."""

    title: str
    ms: Mapping[str, Floats]
    asked: NDArray[np.bool_]

    @staticmethod
    def of(variant: str, passes: Sequence[PassResult]) -> Broken:
        """Of passes, one a seed of the cell."""
        column = {name: np.concatenate([one.steps_us[name] for one in passes]) for name in (*STEPS, ASKED)}
        return Broken(VARIANTS[variant].title, {n: v / 1000 for n, v in column.items()}, column[ASKED] == 1)

    @property
    def is_told(self) -> NDArray[np.bool_]:
        """Flows of which both the sender's log and the receiver's marks are there."""
        return np.isfinite(self.ms[STEPS[0]])

    @property
    def fct_ms(self) -> Floats:
        """All steps together."""
        return np.asarray(sum(self.ms[step] for step in STEPS))


def table(cell: Cell, broken: Sequence[Broken]) -> str:
    """Mean FCT, the share of each step in flows' time, and what one forecast takes."""
    head = ["flows", "scheme", "n", "mean FCT, ms", *(f"{WORDS.get(step, step)}, %" for step in STEPS)]
    head.append("us a forecast, mean and median")
    rows = []
    for size_class in CLASSES:
        for scheme in broken:
            chosen = next(iter(cell.samples.values())).of_class(size_class) & scheme.is_told
            for words, these in (("", chosen), (", those with bounds", chosen & scheme.asked)):
                if these.any() and not (words and these.sum() == chosen.sum()):
                    rows.append([size_class, scheme.title + words, *_row(cell, scheme, these)])
    return page.table(head, rows)


def _row(cell: Cell, scheme: Broken, these: NDArray[np.bool_]) -> list[str]:
    sample = next(iter(cell.samples.values()))
    block, fct = sample.block[these], scheme.fct_ms[these]

    def share(name: str) -> str:
        found = over_blocks(scheme.ms[name][these], block, "mean", fct, sample.blocks)
        shown = Interval(100 * found.value, 100 * found.low, 100 * found.high)
        return shown.text(3 if found.value < 0.01 else 1) if 0 < found.value < 1 else f"{shown.value:g}"

    mean = over_blocks(fct, block, "mean", blocks=sample.blocks)
    asked = these & scheme.asked
    took_us = 1000 * scheme.ms["inference"][asked]
    took = f"{took_us.mean():.2f}, {np.median(took_us):.2f}" if asked.any() else ""
    return [f"{these.sum()}", f"{mean.value:.3g}", *map(share, STEPS), took]


def bars(cell: Cell, broken: Sequence[Broken]) -> str:
    """Mean FCT over the first scheme's, by step, a bar a scheme and class; SVG."""
    drawing, axis = plt.subplots(figsize=(7.2, 2.9), layout="constrained")
    sample, width = next(iter(cell.samples.values())), 0.8 / len(broken)
    ticks = {}
    for group, size_class in enumerate(CLASSES):
        of_class = sample.of_class(size_class)
        base = broken[0].fct_ms[of_class & broken[0].is_told].mean()
        for place, scheme in enumerate(broken):
            x, bottom = group + (place - (len(broken) - 1) / 2) * width, 0.0
            ticks[x] = f"{scheme.title}\n{size_class}"
            for step, colour in zip(STEPS, OTHERS, strict=False):
                height = scheme.ms[step][of_class & scheme.is_told].mean() / base
                label = WORDS.get(step, step) if group == place == 0 else None
                axis.bar(x, height, width * 0.92, bottom=bottom, color=colour, label=label)
                bottom += height
    axis.set_xticks(list(ticks), list(ticks.values()))
    axis.set_ylabel(f"mean FCT / {broken[0].title}", fontsize=8)
    axis.set_title(f"{cell.trace}, load {cell.load:g}", loc="left", fontsize=9)
    axis.tick_params(labelsize=7)
    drawing.legend(fontsize=7, frameon=False, ncols=len(STEPS), loc="outside lower center")
    try:
        return svg_of(drawing)
    finally:
        plt.close(drawing)
