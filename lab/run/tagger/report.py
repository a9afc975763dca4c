"""The table, the plot and the words of `docs/results/tagger.md`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from lab.experiment import page
from lab.experiment.intervals import over_blocks
from lab.experiment.plots import looks
from lab.fabric.arrivals import Held
from lab.run.tagger.cells import DSCPS, GROUNDS, VARIANTS, Outcome

PROBES = {
    ("none", "writes"): "36.8, 39.9",
    ("none", "drain"): "48.0",
    ("none", "tagger"): "60.0, 56.3",
    ("none", "filter"): "47.0 to 53.7",
    ("none", "stays"): "78.0",
    ("drops", "writes"): "79.1",
    ("drops", "tagger"): "132.6",
    ("drops", "filter"): "98.3",
}
"""Mean FCT in ms that first probes had: the same idea, other cross traffic, a fixed hold of 5 ms; no intervals."""
TITLES = {
    "none": "Without loss: 200 KB flows, queues of 1,000 packets",
    "drops": "With real drops: 400 KB flows, queues of 25 packets",
}
HEAD = (
    "what",
    "mean FCT ms",
    "p99 FCT ms",
    "sent again a flow",
    "seen twice a flow",
    "others at priority 1, mean (p99) ms",
    "others at priority 2, mean (p99) ms",
    "drops a flow",
    "CPU idle",
    "probes' mean FCT ms",
)
RECEIVER = (
    "what",
    "packets out of order a flow",
    "held, KB over arrivals",
    "held, KB while anything is",
    "for which share of flows' time",
    "receiving program's CPU, ms a flow",
    "soft interrupts of all hosts, ms a flow",
)
Results = Mapping[tuple[str, str], Sequence[Outcome]]


BLOCK_FLOWS = 10
"""Flows one after another that meet about the same cross traffic."""


def interval(seeds: Sequence[Sequence[float]], statistic: str) -> str:
    """Mean or p99 of all seeds' values, with an interval over blocks of BLOCK_FLOWS."""
    block, first = [], 0
    for values in seeds:
        block += [first + place // BLOCK_FLOWS for place in range(len(values))]
        first = block[-1] + 1
    return over_blocks(np.concatenate([np.array(values, float) for values in seeds]), np.array(block), statistic).text(
        1
    )


def _others(outcomes: Sequence[Outcome], priority: int) -> str:
    values = [
        flow["fct_ms"]
        for outcome in outcomes
        for flow in outcome.others
        if flow["dscp"] == DSCPS[priority] and "fct_ms" in flow
    ]
    return f"{np.mean(values):.1f} ({np.quantile(values, 0.99):.0f})" if values else "none ended"


def row(ground: str, variant: str, outcomes: Sequence[Outcome]) -> tuple[str, ...]:
    """One line of the table, as text."""
    fct = [[flow["fct_ms"] for flow in outcome.flows] for outcome in outcomes]
    flows = sum(map(len, fct))

    def total(name: str) -> float:
        return sum(flow[name] for outcome in outcomes for flow in outcome.flows)

    return (
        VARIANTS[variant].title,
        interval(fct, "mean"),
        interval(fct, "p99"),
        f"{total('sent_again') / flows:.2f}",
        f"{total('spurious') / flows:.2f}",
        _others(outcomes, 1),
        _others(outcomes, 2),
        f"{sum(outcome.dropped for outcome in outcomes) / flows:.2f}",
        f"{min(outcome.idle_share for outcome in outcomes):.0%}",
        PROBES.get((ground, variant), ""),
    )


def table(ground: str, results: Results) -> list[tuple[str, ...]]:
    """The lines of one ground."""
    return [row(ground, variant, results[ground, variant]) for variant in VARIANTS if (ground, variant) in results]


def receiver(ground: str, results: Results) -> list[tuple[str, ...]]:
    """What the receiver pays, a line a variant of one ground (QCLIMB, NSDI'24, Fig. 17 and Table 3)."""
    rows: list[tuple[str, ...]] = []
    for variant in VARIANTS:
        outcomes = results.get((ground, variant), ())
        flows = sum(len(outcome.flows) for outcome in outcomes)
        if not flows:
            continue
        whole = sum((Held(**outcome.held) for outcome in outcomes), Held())
        flows_s = sum(flow["fct_ms"] for outcome in outcomes for flow in outcome.flows) / 1000
        rows.append(
            (
                VARIANTS[variant].title,
                interval([[flow["out_of_order"] for flow in outcome.flows] for outcome in outcomes], "mean"),
                f"{whole.mean_bytes / 1000:.1f}",
                f"{whole.byte_s / max(whole.seconds, 1e-9) / 1000:.1f}",
                f"{whole.seconds / flows_s:.0%}",
                f"{1000 * sum(outcome.receiver_cpu_s for outcome in outcomes) / flows:.1f}",
                f"{1000 * sum(outcome.softirq_s for outcome in outcomes) / flows:.1f}",
            )
        )
    return rows


def markdown(results: Results, seeds: Sequence[int], flows: int, cost: Outcome | None) -> str:
    """The document."""
    lines = [WORDS.format(seeds=", ".join(map(str, seeds)), flows=flows)]
    for ground in GROUNDS:
        rows = table(ground, results)
        if rows:
            lines += [f"## {TITLES[ground]}", "", page.table(HEAD, rows), "", *_counts(results, ground), ""]
            lines += [RECEIVED, "", page.table(RECEIVER, receiver(ground, results)), ""]
    lines += ["![FCT](tagger.png)", ""]
    if cost:
        costs = [(name, f"{cost.cost_packets[name]:,}", f"{ns:.0f}") for name, ns in sorted(cost.cost_ns.items())]
        lines += ["## Cost", "", COST, "", page.table(("program", "packets", "ns a packet"), costs), ""]
    return "\n".join(lines)


def _counts(results: Results, ground: str) -> list[str]:
    outcomes = results.get((ground, "filter"), ())
    flows = sum(len(outcome.flows) for outcome in outcomes)
    total = {name: sum(outcome.tagger.get(name, 0) for outcome in outcomes) for name in ("hidden", "shown")}
    if not flows:
        return []
    return [f"The filter cut {total['hidden'] / flows:.1f} SACKs a flow, and left {total['shown'] / flows:.1f} whole."]


def plot(results: Results, path: Path) -> None:
    """Distributions of the FCT, a panel a ground."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    figure = Figure(figsize=(9, 3.6), layout="constrained")
    panels = figure.subplots(1, len(GROUNDS))
    look = looks(variant.title for variant in VARIANTS.values())
    for panel, ground in zip(panels, GROUNDS, strict=True):
        for variant in VARIANTS:
            outcomes = results.get((ground, variant), ())
            values = np.sort([flow["fct_ms"] for outcome in outcomes for flow in outcome.flows])
            if len(values):
                share = np.arange(1, len(values) + 1) / len(values)
                title = VARIANTS[variant].title
                colour, line, _ = look[title]
                panel.plot(values, share, label=title, color=colour, ls=line, drawstyle="steps-post")
        panel.set(title=TITLES[ground].split(":")[0], xlabel="FCT, ms", ylabel="share of flows", xscale="log")
        # Left to itself, an axis of about a decade names 2 x 10^1, 3 x 10^1, ... over one another.
        low, high = panel.get_xlim()
        panel.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 1000 * low else (1,)))
        panel.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
        panel.xaxis.set_minor_formatter(NullFormatter())
        panel.grid(alpha=0.3)
    panels[0].legend(fontsize=7, loc="lower right")
    figure.savefig(path, dpi=120)


WORDS = """# The tagger: flows that climb without overtaking themselves

`qclimb lab run tagger`, seeds {seeds}, {flows} flows a seed and line; kernel 6.18, two shared cores; *CPU idle* says
how busy they were.

A sends flows one after another, each a connection of its own and one write; bounds L = U by footprint, so that each
climbs from priority 3 to 0 in four equal chunks. C sends Poisson arrivals past them: 50 KB flows at priority 1 (57 % of
the rate), 200 KB flows at priority 2 (12 %). All go to one host through one port of 100 Mb/s with strict priorities
(HTB, one queue a priority). TCP cubic, quick ACKs, `gso_max_segs 1`, receive on one CPU.
*Sent again* is TCP's own count; without loss all of it is spurious. *Seen twice* counts the DSACKs that came before a
flow's end. In brackets: 95 % bootstrap intervals over blocks of ten flows one after another, which meet about the same
cross traffic.
The probes' numbers come from another program, other cross traffic and a hold of 5 ms tuned by hand: orders, not a
reference.
"""
RECEIVED = """At the receiver. *Held*: payload that came out of order and waits for a gap to be filled, the length of
the flow's queue, from what arrived. Others' flows are in the CPU's times, each divided by the flows under test:"""
COST = """By the kernel's own clock (`bpf_stats_enabled`, whose readings are in the number), over a run of its own,
each program on every packet that it saw:"""
