"""The published Facebook trace (coflow-benchmark, FB2010-1Hr-150-0.txt) under every policy; not in this package."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import numpy as np

from lab.experiment.intervals import Interval
from lab.figures.page import Page, Panel, Points, Runs, Scale, Series, Story
from lab.sim.coflow import NAMED, Aalo, CoflowExperiment, Coflows, Policy, read_trace
from lab.sim.errors import MissingData

VARIABLE, FILE = "QCLIMB_FB2010", "FB2010-1Hr-150-0.txt"
POLICIES = (
    "fair",
    "fifo",
    "shortest",
    "varys",
    "aalo",
    "priority",
    "optax",
    "priority-varys",
    "optax-varys",
    "priority-aalo",
    "optax-aalo",
)
STRICT, FINE = "aalo, strict queues", "varys, rates anew at flows' ends"
AT_ONCE = "aalo-at-once"
INTERVALS_MS = {"aalo, interval 100 ms": 100.0, "aalo, interval 1 s": 1000.0}
"""Of Aalo's coordinator, beside its paper's 10 ms."""
BESIDE = (AT_ONCE, *INTERVALS_MS, STRICT, FINE)
DEADLINES = ("fair, deadlines", "varys, deadlines")
FLOW_ENDS_MS = 1000.0
SHORT_BYTES, NARROW = 5 << 20, 50
"""Varys's classes: short while the longest flow is below, narrow up to so many flows."""
BINS = ("short, narrow", "short, wide", "long, narrow", "long, wide")
MOST_LATER = 1.0
"""A deadline is the bottleneck's time and up to so much of it more."""


def trace_path() -> Path:
    """Where the trace is. Raises: MissingData, where it is not."""
    path = Path(os.environ.get(VARIABLE) or Path(__file__).parents[5] / "shared/data" / FILE)
    if not path.exists():
        raise MissingData(f"coflows: {FILE} is not at {path}; {VARIABLE}=PATH names it (coflow-benchmark has it)")
    return path


@cache
def _whole(path: Path) -> Coflows:
    return read_trace(path)


def first_of(whole: Coflows, count: int, deadlines: bool = False) -> Coflows:
    """The first so many coflows; each with a deadline, if wanted."""
    count = min(count, len(whole.start_ps))
    flows = int(np.searchsorted(whole.coflow, count))
    ends = (getattr(whole, name)[:flows] for name in ("coflow", "size_bytes", "source", "target"))
    found = Coflows(whole.hosts, whole.start_ps[:count], *ends)
    if not deadlines:
        return found
    more = 1 + np.random.default_rng(17).uniform(0, MOST_LATER, count)
    due = found.start_ps + np.rint(found.bottleneck_s(10**9) * more * 1e12).astype(np.int64)
    return Coflows(
        found.hosts, found.start_ps, found.coflow, found.size_bytes, found.source, found.target, deadline_ps=due
    )


def bins_of(coflows: Coflows) -> np.ndarray:
    """Varys's class of each coflow: a place in BINS."""
    return 2 * (coflows.largest_bytes >= SHORT_BYTES) + (coflows.width > NARROW)


def runs(scale: Scale) -> Runs:
    """A point a policy."""
    whole = _whole(trace_path())
    coflows, due = first_of(whole, scale.flows), first_of(whole, scale.flows, deadlines=True)
    strict = Policy("aalo", aalo=Aalo(weights="strict"))
    found: dict[tuple[str | float | int, ...], CoflowExperiment] = {
        (name,): CoflowExperiment(
            coflows, NAMED[name], flow_ends_ms=None if NAMED[name].large == "varys" else FLOW_ENDS_MS
        )
        for name in (*POLICIES, AT_ONCE)
    }
    for name, interval_ms in INTERVALS_MS.items():
        other = Policy("aalo", aalo=Aalo(interval_ms=interval_ms))
        found[(name,)] = CoflowExperiment(coflows, other, flow_ends_ms=FLOW_ENDS_MS)
    found[(STRICT,)] = CoflowExperiment(coflows, strict, flow_ends_ms=FLOW_ENDS_MS)
    found[(FINE,)] = CoflowExperiment(coflows, NAMED["varys"], flow_ends_ms=FLOW_ENDS_MS)
    found[(DEADLINES[0],)] = CoflowExperiment(due, NAMED["fair"], flow_ends_ms=FLOW_ENDS_MS)
    found[(DEADLINES[1],)] = CoflowExperiment(due, NAMED["varys-deadlines"], flow_ends_ms=FLOW_ENDS_MS)
    return found


def tell(scale: Scale, points: Points) -> Story:
    """A row a policy."""
    coflows = first_of(_whole(trace_path()), scale.flows)
    small, kind = coflows.largest_bytes <= 1 << 20, bins_of(coflows)
    fair = points[("fair",)]

    def gain(name: str, chosen: np.ndarray) -> float:
        at = points[(name,)]
        return float(fair.fct_us[chosen].mean() / at.fct_us[chosen].mean()) if chosen.any() else float("nan")

    everybody = np.ones(len(small), bool)
    rows = []
    for name in (*POLICIES, *BESIDE):
        at = points[(name,)]
        rows.append(
            {
                "policy": name,
                "mean CCT, s": f"{at.fct_us.mean() / 1e6:.2f}",
                "p95, s": f"{np.quantile(at.fct_us, 0.95) / 1e6:.1f}",
                "gain": f"{gain(name, everybody):.2f}",
                "small (OPTAX's)": f"{gain(name, small):.2f}",
                "others": f"{gain(name, ~small):.2f}",
                **{title: f"{gain(name, kind == at_kind):.2f}" for at_kind, title in enumerate(BINS)},
                "CPU s": f"{at.counters['cpu_seconds']:.1f}",
            }
        )
    x = [float(at) for at in range(len(POLICIES))]

    def line(label: str, chosen: np.ndarray) -> Series:
        values = [gain(name, chosen) for name in POLICIES]
        return Series(label, x, [Interval(value, float("nan"), float("nan")) for value in values])

    lines = [line("all coflows", everybody), line("small ones", small), line("the others", ~small)]
    panel = Panel("Mean CCT on the Facebook trace", "", "gain over fair sharing", lines, POLICIES)
    seconds = {name: points[(name,)].counters["cpu_seconds"] for name in POLICIES}
    flows, due = len(coflows.coflow), [100 * points[(name,)].counters["in_time"] for name in DEADLINES]
    costs = {
        name: " and ".join(
            f"{gain(AT_ONCE, chosen) / gain(name, chosen):.3f} ({which})"
            for which, chosen in (("all", everybody), ("small ones", small))
        )
        for name in ("aalo", *INTERVALS_MS)
    }
    named = zip(BINS, np.bincount(kind, minlength=4) / len(kind), strict=True)
    verdicts = [
        f"{len(small)} coflows, {flows:,} flows: Varys's order to the end of the trace in {seconds['varys']:.1f} CPU "
        f"seconds, every policy in {min(seconds.values()):.1f} to {max(seconds.values()):.1f}; CoflowSim's SEBF had "
        "come to some 40 % of it after 10.5 CPU minutes, on another day.",
        f"Varys over fair sharing {gain('varys', everybody):.2f} in the mean CCT, Aalo {gain('aalo', everybody):.2f} "
        f"({gain(STRICT, everybody):.2f} with strict queues), the fewest bytes first "
        f"{gain('shortest', everybody):.2f}.",
        f"With its coordinator's interval of 10 ms Aalo takes {costs['aalo']} of the mean CCT that it had if sums were "
        f"known at once, with 100 ms {costs['aalo, interval 100 ms']}, with 1 s {costs['aalo, interval 1 s']}.",
        f"Small coflows ({100 * small.mean():.0f} % of them): OPTAX over plain priority "
        f"{gain('optax', small) / gain('priority', small):.3f}; joined with Varys OPTAX is "
        f"{gain('optax-varys', everybody):.2f} over fair sharing in all, Varys alone {gain('varys', everybody):.2f}.",
        f"Deadlines of one to two bottlenecks' times are met by {due[1]:.0f} % of the coflows under Varys's admission, "
        f"by {due[0]:.0f} % under fair sharing.",
        f"Varys's classes here: {', '.join(f'{title} {100 * share:.1f} %' for title, share in named)}.",
    ]
    return Story(rows, [panel], verdicts)


SETTINGS = (
    f"{FILE}: an hour of a cluster of 150 racks, published with Varys and not part of this package ({VARIABLE} names "
    "the file). MB are 2^20 bytes; each reducer's MB come in equal parts from its mappers. A rack is a port of 1 Gb/s "
    "each way, a flow within a rack takes both.",
    "The load is the trace's own. Rate by rate (engine/coflow). Rates are set anew when a coflow begins, ends or "
    f"changes its queue, and at flows' ends at most every {FLOW_ENDS_MS:.0f} ms; under Varys not at flows' ends (its "
    "own rule), but in one row; at each end of a small coflow's flow.",
    "varys: SEBF by what is left, MADD, the rest given away. aalo: queues from 10 MB on, ten times as long each, "
    "weights 10 to 1, queues changed at the coordinator's intervals of 10 ms alone. small: every flow up to 1 MB; "
    "priority and optax put those first, fairly or by arrival, before fair sharing, Varys or Aalo of the others. The "
    "delay of Varys's coordinator, and the share that it keeps for starved coflows, are 0: neither is built; nor is "
    "the age of the sums that Aalo's coordinator tells.",
    "Gain: fair sharing's mean CCT over the policy's, of the same coflows. One trace, so no intervals. Short: the "
    "longest flow below 5 MB; narrow: up to 50 flows.",
    "CoflowSim's rules differ: all sizes go up to whole MB per mapper, mappers and reducers of one rack become one, a "
    "link carries 128 MB a second, coflows begin in steps of 10 s and end in steps of 8 ms, SEBF keeps the order of "
    "sizes at arrival (here: what is left), and what is left over goes to coflows by arrival (here: in SEBF's order). "
    "Its Aalo (DARK) has strict queues and gives a flow the least of its two ports' equal shares; here they are "
    "max-min.",
    "CoflowSim itself was run under SEBF on the first 60 coflows (42,224 flows). Given its roundings and its starts, "
    "ours differ from its completion times by at most 0.4 %, the mean by 0.01 %.",
)
PAGE = Page(
    "optax-fb2010",
    "Coflows on the Facebook trace: fair sharing, Varys, Aalo and OPTAX joined with each",
    SETTINGS,
    {name: Scale(name, count, (1,), (1.0,)) for name, count in (("quick", 100), ("medium", 526), ("full", 526))},
    runs,
    tell,
)
