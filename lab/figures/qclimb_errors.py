"""QCLIMB (NSDI'24), Figs. 14, 15 and 25: what errors of prediction and overtaking cost, in the simulated fabric."""

from __future__ import annotations

from lab.figures.intervals import shown
from lab.figures.page import Page, Panel, Points, Runs, Scale, Series, Story
from lab.figures.qclimb_23 import BDP_PACKETS, FABRIC, FORECAST, TRACES, Ratios, at_40g
from lab.figures.qclimb_23 import PAGE as FABRIC_PAGE
from lab.sim import Experiment, Pfabric, Workload
from lab.sim.schemes import Scheme

SCHEMES: dict[str, Scheme] = {
    "QCLIMB": at_40g("qclimb"),
    "QCLIMB-FP": at_40g("qclimb-fp"),
    "QCLIMB-PP": at_40g("qclimb-pp"),
    "QCLIMB, TCP's reordering": at_40g("qclimb-tcp"),
    "QCLIMB drain": at_40g("qclimb-drain"),
    "pFabric": Pfabric(BDP_PACKETS, 60, 45.0, 146_000),
    "pFabric, forecasts": Pfabric(BDP_PACKETS, 60, 45.0, 146_000, sizes_are_forecasts=True),
}
COMPARED = (
    # scheme, base, figure, and the paper's ratio: overall mean, small mean, small p99 (at most; over its traces)
    ("QCLIMB", "QCLIMB-FP", "Fig. 14, at 0.5: down to", (0.84, 0.30, 0.03)),
    ("QCLIMB", "QCLIMB-PP", "Fig. 14, at 0.5: down to", (0.88, 0.40, 0.04)),
    ("QCLIMB", "QCLIMB, TCP's reordering", "Fig. 15, at 0.7: down to", (0.89, 0.54, 0.06)),
    ("QCLIMB drain", "QCLIMB, TCP's reordering", "not in the paper", None),
    ("pFabric, forecasts", "pFabric", "Fig. 25, at 0.7: up to", (1.8, 22.8, None)),
)


def runs(scale: Scale) -> Runs:
    """A point a trace, scheme, load and seed."""
    traces = TRACES if scale.name == "full" else {"PageRank": TRACES["PageRank"]}
    return {
        (trace, scheme, load, seed): Experiment(
            FABRIC, settings, Workload(sizes, forecast=FORECAST), load=load, flows=scale.flows, seed=seed
        )
        for trace, sizes in traces.items()
        for scheme, settings in SCHEMES.items()
        for load in scale.loads
        for seed in scale.seeds
    }


def tell(scale: Scale, points: Points) -> Story:
    """The page's table, plots and verdicts."""
    ratio = Ratios(scale, points)
    traces = list(dict.fromkeys(str(key[0]) for key in points))
    columns = {"overall mean": ("mean", "all"), "small mean": ("mean", "small"), "small p99": ("p99", "small")}
    rows = [
        {
            "trace": trace,
            "load": f"{load}",
            "ratio": f"{scheme} / {base}",
            **{title: shown(*ratio(trace, scheme, base, load, *column)) for title, column in columns.items()},
        }
        for trace in traces
        for load in scale.loads
        for scheme, base, _, _ in COMPARED
    ]
    panels = [
        Panel(
            f"{trace}: small mean",
            "load",
            "FCT ratio",
            [
                Series(
                    f"{scheme} / {base}",
                    scale.loads,
                    [ratio(trace, scheme, base, load, "mean", "small")[0] for load in scale.loads],
                )
                for scheme, base, _, _ in COMPARED
            ],
        )
        for trace in traces
    ]
    found = []
    for scheme, base, where, paper in COMPARED:
        each = {
            title: [ratio(trace, scheme, base, load, *column)[0] for trace in traces for load in scale.loads]
            for title, column in columns.items()
        }
        spans = "; ".join(f"{title} {min(values):.2f} to {max(values):.2f}" for title, values in each.items())
        claim = ""
        if paper:
            parts = [f"{title} {value}" for title, value in zip(columns, paper, strict=True) if value is not None]
            better = (min if paper[0] < 1 else max)(each["overall mean"])
            agrees = (better < 1) == (paper[0] < 1)
            claim = f" The paper ({where}): {'; '.join(parts)}. Direction of the overall mean: "
            claim += "the same." if agrees else "not the same."
        found.append(f"{scheme} / {base}: {spans}.{claim}")
    return Story(rows, panels, found)


PAGE = Page(
    name="qclimb-errors",
    title="QCLIMB Figs. 14, 15 and 25: what wrong forecasts and overtaking cost",
    settings=[
        *FABRIC_PAGE.settings,
        "The paper's Figs. 14 and 15 are its testbed's (8 hosts at 25G); here they are asked of the simulated fabric.",
        "QCLIMB-FP: the priority of the forecast's one number, kept; -PP: Algorithm 1 with L = U = that number, S = 0.",
        "pFabric with forecasts: ranks by the forecast's remaining bytes, 1 once they are used up.",
    ],
    scales={
        "quick": Scale("quick", 2_000, (1,), (0.5, 0.8)),
        "medium": Scale("medium", 30_000, (1,), (0.5, 0.8)),
        "full": Scale("full", 50_000, (1, 2, 3), (0.5, 0.8)),
    },
    runs=runs,
    tell=tell,
)
