"""OPTAX (TAAS), Table 1 and Figs. 13 and 14: small tasks mixed with large ones, and large ones under Varys or Aalo."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from lab.experiment.claims import AsPaper, Claim, said
from lab.experiment.intervals import Interval
from lab.figures.page import Page, Panel, Points, Runs, Scale, Series, Story
from lab.figures.pages.optax.tasks import (
    BASE,
    FIRST,
    GAIN_SAID,
    HEADER,
    KIB,
    MIB,
    OURS,
    PAYLOAD,
    RATE_BPS,
    SCHEMES_SAID,
    SWITCH_SAID,
    Load,
    experiment,
    fluid,
    gain_of,
)

TABLE_1: Mapping[str, tuple[float, float, float, float]] = {
    "Normal": (0.52, 0.16, 0.15, 0.17),
    "Mix-N": (0.48, 0.40, 0.02, 0.10),
    "Mix-W": (0.22, 0.15, 0.24, 0.39),
    "Mix-S": (0.50, 0.17, 0.10, 0.23),
    "Mix-L": (0.39, 0.27, 0.03, 0.31),
}
"""Shares of short and narrow, short and wide, long and narrow, long and wide tasks."""
SHORT, LONG, NARROW, WIDE = (128 * KIB, 512 * KIB), (MIB + 1, 8 * MIB), (2, 7), (8, 14)
"""Bytes of a flow, and flows: uniform between. Table 1 has the shares alone."""
LOAD, AT_ONCE, WITHIN_US = 0.6, 10, 100.0
"""So many tasks begin within so long; how often that happens is a Poisson process."""


def mixed(mix: str, count: int, seed: int) -> Load:
    """Tasks of a mix: each class has its share of them, to the nearest whole one, in random order."""
    random = np.random.default_rng([seed, *mix.encode()])
    ends = np.rint(np.cumsum(TABLE_1[mix]) * count).astype(int)
    kind = np.searchsorted(ends, np.arange(count), side="right").clip(max=3)
    random.shuffle(kind)
    is_long, is_wide = kind >= 2, kind % 2 == 1
    each = np.where(is_long, random.integers(*LONG, count), random.integers(*SHORT, count))
    width = np.where(
        is_wide,
        random.integers(*WIDE, count, endpoint=True),
        random.integers(*NARROW, count, endpoint=True),
    )
    wire_bytes = float((width * (each + HEADER * -(-each // PAYLOAD))).sum())
    batches = -(-count // AT_ONCE)
    batch_ps = np.cumsum(random.exponential(8e12 * wire_bytes / (LOAD * RATE_BPS) / batches, batches))
    start = np.repeat(batch_ps, AT_ONCE)[:count] + random.uniform(0, WITHIN_US * 1e6, count)
    return Load(np.sort(start).astype(np.int64), width, each)


SMALL, LARGE, ALL = "small", "large", "all"
NAMED = {SMALL: "small tasks", LARGE: "large tasks", ALL: "all tasks"}


def runs_13(scale: Scale) -> Runs:
    """A point a mix, scheme and seed."""
    return {
        (mix, name, seed): experiment(mixed(mix, scale.flows, seed), name, seed)
        for mix in TABLE_1
        for name in (BASE, FIRST, OURS)
        for seed in scale.seeds
    }


CLAIMS_13 = (
    ("all mixes", BASE, OURS, SMALL, AsPaper(2.0, 3.9)),
    ("all mixes", FIRST, OURS, SMALL, AsPaper(1.2, 1.2)),
    ("all mixes", BASE, OURS, LARGE, AsPaper(0.999, 1.0)),
    ("all mixes", BASE, FIRST, LARGE, AsPaper(0.999, 1.0)),
    ("all mixes", BASE, OURS, ALL, AsPaper(1.02, 1.02)),
)


def tell_13(scale: Scale, points: Points) -> Story:
    """A row a mix, a panel a class of tasks."""
    loads = {mix: {seed: mixed(mix, scale.flows, seed) for seed in scale.seeds} for mix in TABLE_1}

    def seen(mix: str, scheme: str, base: str, which: str) -> Interval:
        return gain_of(points, (mix,), loads[mix], scheme, base, which)

    rows = [
        {
            "mix": mix,
            "SN, SW, LN, LW": ", ".join(f"{100 * share:.0f}" for share in TABLE_1[mix]) + " %",
            "small, OPTAX (O/T)": seen(mix, OURS, BASE, SMALL).text(),
            "small, priority (F/T)": seen(mix, FIRST, BASE, SMALL).text(),
            "small, OPTAX over priority": seen(mix, OURS, FIRST, SMALL).text(),
            "large, OPTAX (O/L)": seen(mix, OURS, BASE, LARGE).text(3),
            "large, priority (F/L)": seen(mix, FIRST, BASE, LARGE).text(3),
            "all, OPTAX": seen(mix, OURS, BASE, ALL).text(3),
        }
        for mix in TABLE_1
    ]
    x = [float(at) for at in range(len(TABLE_1))]
    panels = [
        Panel(
            f"Gain of {NAMED[which]}",
            "",
            "gain over ICTCP",
            [Series(name, x, [seen(mix, name, BASE, which) for mix in TABLE_1]) for name in (OURS, FIRST)],
            list(TABLE_1),
        )
        for which in (SMALL, LARGE)
    ]
    verdicts = [
        said(
            Claim(base, scheme, which, "mean completion time", needs, where),
            [seen(mix, scheme, base, which) for mix in TABLE_1],
        )
        for where, base, scheme, which, needs in CLAIMS_13
    ]
    return Story(rows, panels, verdicts)


FAIR_FLUID = "fair"
JOINED = ("priority", "optax", "varys", "priority-varys", "optax-varys", "aalo", "priority-aalo", "optax-aalo")
PROMPT, BOTH_PROMPT = "aalo-at-once", "optax-aalo-at-once"
SHORTLY = {
    "priority": "priority",
    "optax": "OPTAX",
    "varys": "Varys",
    "priority-varys": "P+V",
    "optax-varys": "O+V",
    "aalo": "Aalo",
    "priority-aalo": "P+A",
    "optax-aalo": "O+A",
    PROMPT: "Aalo, at once",
    BOTH_PROMPT: "O+A, at once",
}
PACKETS = {"ICTCP, packets": BASE, "priority, packets": FIRST, "OPTAX, packets": OURS}
"""The same tasks packet by packet, where there is such a scheme."""
MIX = "Normal"


def runs_14(scale: Scale) -> Runs:
    """Rate by rate, a policy and seed; and the packets' schemes on the same tasks."""
    found = {
        (MIX, name, seed): fluid(mixed(MIX, scale.flows, seed), name, seed)
        for name in (FAIR_FLUID, *SHORTLY)
        for seed in scale.seeds
    }
    return found | {
        (MIX, name, seed): experiment(mixed(MIX, scale.flows, seed), scheme, seed)
        for name, scheme in PACKETS.items()
        for seed in scale.seeds
    }


CLAIMS_14 = (
    ("small tasks over priority", "priority", "optax", SMALL, AsPaper(1.38, 1.38)),
    ("OPTAX alone", FAIR_FLUID, "optax", ALL, AsPaper(1.03, 1.03)),
    ("priority alone", FAIR_FLUID, "priority", ALL, AsPaper(1.02, 1.02)),
    ("O+V", FAIR_FLUID, "optax-varys", ALL, AsPaper(1.93, 1.93)),
    ("P+V", FAIR_FLUID, "priority-varys", ALL, AsPaper(1.93, 1.93)),
)


def tell_14(scale: Scale, points: Points) -> Story:
    """A row a scheduler, beside the packets' gains where there are any."""
    loads = {seed: mixed(MIX, scale.flows, seed) for seed in scale.seeds}

    def seen(scheme: str, base: str, which: str) -> Interval:
        return gain_of(points, (MIX,), loads, scheme, base, which)

    def row(name: str, level: str, scheme: str, base: str, first: str) -> dict[str, str]:
        return {
            "scheduler": name,
            "level": level,
            "small": seen(scheme, base, SMALL).text(),
            "small, over priority": seen(scheme, first, SMALL).text(),
            "large": seen(scheme, base, LARGE).text(3),
            "all": seen(scheme, base, ALL).text(3),
        }

    rows = [row(SHORTLY[name], "rates", name, FAIR_FLUID, "priority") for name in SHORTLY]
    packets = {"priority, packets": FIRST, "OPTAX, packets": OURS}
    rows += [row(name, "packets", key, "ICTCP, packets", "priority, packets") for key, name in packets.items()]
    x = [float(at) for at in range(len(JOINED))]
    panels = [
        Panel(
            "Gain over fair sharing, rate by rate",
            "",
            "gain",
            [Series(NAMED[which], x, [seen(name, FAIR_FLUID, which) for name in JOINED]) for which in (SMALL, ALL)],
            [SHORTLY[name] for name in JOINED],
        )
    ]
    verdicts = [
        said(Claim(base, scheme, which, "mean completion time", needs, where), [seen(scheme, base, which)])
        for where, base, scheme, which, needs in CLAIMS_14
    ]
    apart = {
        key: seen(key, "ICTCP, packets", SMALL).value / seen(fluid_name, FAIR_FLUID, SMALL).value - 1
        for key, fluid_name in (("priority, packets", "priority"), ("OPTAX, packets", "optax"))
    }
    verdicts.append(
        f"With its coordinator's interval Aalo takes {seen(PROMPT, 'aalo', ALL).text(3)} of the mean completion time "
        f"that it had if sums were known at once (small tasks {seen(PROMPT, 'aalo', SMALL).text(3)}); behind OPTAX "
        f"{seen(BOTH_PROMPT, 'optax-aalo', ALL).text(3)}."
    )
    fair = gain_of(points, (MIX,), loads, FAIR_FLUID, "ICTCP, packets")
    verdicts.append(
        "The two levels on the same tasks: fair sharing packet by packet (ICTCP) takes "
        f"{fair.value:.2f} of its time rate by rate; small tasks' gains are "
        + " and ".join(f"{value:+.0%} ({key})" for key, value in apart.items())
        + " of what they are rate by rate."
    )
    return Story(rows, panels, verdicts)


MIXED_SAID = (
    "Tasks of Table 1's shares. The paper states neither sizes nor widths nor arrivals; ours: flows of 128 to 512 KB "
    "(short) or 1 to 8 MB (long), all of a task alike; 2 to 7 flows (narrow) or 8 to 14 (wide, Fig. 11's widest); each "
    "uniform. Ten tasks begin within 100 us, such batches are a Poisson process, at load 0.6 of the receiver's link. A "
    "short task is small by OPTAX's rule, and only those are."
)
SCALES = {
    name: Scale(name, tasks, tuple(range(1, 1 + seeds)), (LOAD,))
    for name, tasks, seeds in (("quick", 40, 2), ("medium", 100, 5), ("full", 200, 10))
}
PAGE_13 = Page(
    "optax-13",
    "OPTAX Fig. 13 and Table 1: small tasks mixed with large ones",
    (MIXED_SAID, SWITCH_SAID, SCHEMES_SAID, GAIN_SAID, "The scale's number of flows is that of tasks."),
    SCALES,
    runs_13,
    tell_13,
)
PAGE_14 = Page(
    "optax-14",
    "OPTAX Fig. 14: joined with Varys and with Aalo (the mix Normal)",
    (
        MIXED_SAID,
        "Rate by rate (lab.sim.coflow, engine/coflow): flows as liquids of their packets' bytes, no round trips and no "
        "losses, rates set anew whenever a flow begins or ends, schedulers that know all at once and cost nothing, as "
        "in the paper's test, but Aalo's. Fair: max-min fair. Priority (P): small tasks first, fairly among "
        "themselves; OPTAX (O): first, and by arrival. The others share fairly, by Varys (V: smallest bottleneck "
        "first, rates that let a task's flows end together, the rest given away) or by Aalo (A: ten queues, the first "
        "to 10 MB, each next ten times as long, first in first out within, shares of a link 10 to 1 by queue). Aalo's "
        "coordinator moves tasks every 10 ms; at once: it knows all at every moment. The delay of Varys's coordinator "
        "and the share that it keeps for starved coflows are 0: neither is built.",
        "Packets: Fig. 13's schemes on the same tasks.",
        GAIN_SAID,
        "The scale's number of flows is that of tasks.",
    ),
    SCALES,
    runs_14,
    tell_14,
)
PAGES = (PAGE_13, PAGE_14)
