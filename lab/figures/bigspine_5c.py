"""Big-Spine (HPSR'24), Figs. 5c to 5e: MP-MLFQ against MLFQ in the fluid model, by size class."""

from __future__ import annotations

import numpy as np

from lab.figures.bigspine_5a import PAGE as OVERALL
from lab.figures.bigspine_5a import SCHEMES, runs
from lab.figures.intervals import over_seeds, shown
from lab.figures.page import Page, Panel, Points, Scale, Series, Story

CLASSES = {"small": "mice, up to 100 KB", "medium": "medium, up to 10 MB", "large": "elephants"}
AUTHORS = {
    "MLFQ N=2": (1.436, 1.931, 5.769),
    "MP-MLFQ N=2 K=4": (1.069, 1.840, 4.682),
    "MLFQ N=5": (1.028, 1.517, 6.585),
}
"""Mean nFCT of the classes at load 0.8 that the authors' own code gave when it was run (1e5 flows, one seed)."""
AUTHORS_LOAD = 0.8


def tell(scale: Scale, points: Points) -> Story:
    """The page's table, plots and verdicts."""

    def of(scheme: str, load: float, size_class: str, name: str = "mean") -> tuple[float, float]:
        return over_seeds([points[scheme, load, seed].statistic(name, size_class, "slowdown") for seed in scale.seeds])

    rows = [
        {
            "scheme": scheme,
            "load": f"{load}",
            **{f"{name}, mean nFCT": shown(*of(scheme, load, name)) for name in CLASSES},
            "authors' code": " / ".join(f"{value}" for value in AUTHORS[scheme]) if load == AUTHORS_LOAD else "",
            **{f"{name}, p99": shown(*of(scheme, load, name, "p99")) for name in CLASSES},
        }
        for scheme in SCHEMES
        for load in scale.loads
    ]
    panels = [
        Panel(
            f"5{letter}: {text}",
            "load",
            "mean nFCT",
            [
                Series(
                    scheme,
                    scale.loads,
                    [of(scheme, load, name)[0] for load in scale.loads],
                    [float(np.nan_to_num(of(scheme, load, name)[1])) for load in scale.loads],
                )
                for scheme in SCHEMES
            ],
        )
        for letter, (name, text) in zip("cde", CLASSES.items(), strict=True)
    ]
    top = max(scale.loads)
    gain = {name: of("MLFQ N=2", top, name)[0] / of("MP-MLFQ N=2 K=4", top, name)[0] for name in CLASSES}
    five = {name: of("MLFQ N=5", top, name)[0] / of("MP-MLFQ N=2 K=4", top, name)[0] for name in CLASSES}
    far = [
        of(scheme, AUTHORS_LOAD, name)[0] / value - 1
        for scheme, values in AUTHORS.items()
        for name, value in zip(CLASSES, values, strict=True)
        if AUTHORS_LOAD in scale.loads
    ]
    found = [
        "Claim: the gain over MLFQ with N = 2 is largest for mice and elephants. Here MLFQ / MP-MLFQ at "
        f"{top}: " + ", ".join(f"{name} {value:.2f}" for name, value in gain.items()) + ".",
        "MLFQ with N = 5 over MP-MLFQ with N = 2, K = 4, of which the paper says that they are close: "
        + ", ".join(f"{name} {value:.2f}" for name, value in five.items())
        + ": MP-MLFQ is the better one for elephants alone.",
    ]
    if far:
        found.append(
            f"Against the authors' own code at {AUTHORS_LOAD}: {min(far):+.1%} to {max(far):+.1%} in nine cells."
        )
    right = gain["medium"] < min(gain["small"], gain["large"])
    return Story(
        rows,
        panels,
        found,
        f"{'reproduced' if right else 'not reproduced'}: MLFQ / MP-MLFQ at {top} is {gain['small']:.2f} for mice, "
        f"{gain['medium']:.2f} for medium flows, {gain['large']:.2f} for elephants"
        + (f"; within {max(map(abs, far)):.1%} of the authors' code" if far else ""),
    )


PAGE = Page(
    name="bigspine-5c",
    title="Big-Spine Figs. 5c to 5e: MP-MLFQ against MLFQ by size class, fluid model",
    settings=[*OVERALL.settings, "Classes: up to 100 KB, up to 10 MB, above. The same runs as bigspine-5a's."],
    scales=OVERALL.scales,
    runs=runs,
    tell=tell,
)
