"""The control experiment's page: small flows' slowdown by time with what happened marked, and by phase."""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import click
import matplotlib.pyplot as plt
import numpy as np
from rich.console import Console

from lab.experiment import page
from lab.experiment.intervals import Interval, over_blocks
from lab.experiment.plots import svg_of
from lab.experiment.store import replace_text
from lab.run.control.run import Seen, mistakes, run_control
from lab.run.settings import Control
from lab.workload.programs import WorkloadError
from lab.workload.services import MEDIUM_BYTES, SMALL_BYTES

BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
BIN_S = 5.0
COLOURS = {"change": "black", "in force": "#00803a", "bad": "#c03020", "undone": "#2457c5"}
FIRST, CHANGED, FOLLOWED = "WebSearch, its thresholds", "DataMining, WebSearch's thresholds", "DataMining, its own"


def load(path: Path) -> Seen:
    """What `run_control` wrote."""
    values = json.loads(path.read_text(encoding="utf-8"))
    for name in ("events", "differences", "felt", "flows"):
        values[name] = [tuple(row) for row in values[name]]
    return Seen(**{each.name: values[each.name] for each in fields(Seen)})


def phases(seen: Seen) -> list[tuple[str, float, float]]:
    """Name, begin and end of each stretch of time between two events that change what the fabric does."""
    edges, errors = [(0.0, FIRST)], 0
    for at, what, about in seen.events:
        if what == "change":
            edges.append((at, CHANGED))
        elif what == "in force" and edges[-1][1] != FOLLOWED:
            edges.append((at, FOLLOWED))
        elif what == "bad":
            errors += 1
            edges.append((at, f"bad: {about.partition(', ')[2].partition(':')[0]}"))
        elif what == "undone":
            edges.append((at, f"undone ({errors})"))
    end_s = float(seen.settings["before_s"]) + float(seen.settings["after_s"])
    ends = [at for at, _ in edges[1:]] + [end_s]
    return [(name, at, end) for (at, name), end in zip(edges, ends, strict=True) if end > at]


def slowdowns(seen: Seen, begin_s: float, end_s: float, above: int, upto: float) -> np.ndarray:
    """Of the flows of these sizes that were due then, in order of time."""
    rows = [slow for due, size, slow in seen.flows if begin_s <= due < end_s and above < size <= upto]
    return np.array(rows, np.float64)


def mean_of(seen: Seen, begin_s: float, end_s: float, above: int = 0, upto: float = SMALL_BYTES) -> Interval:
    """The mean of flows of these sizes, its 95 % interval over blocks of a second, for flows of one share queues."""
    found = [(due, slow) for due, size, slow in seen.flows if begin_s <= due < end_s and above < size <= upto]
    due, slow = np.array(found, np.float64).reshape(-1, 2).T
    return over_blocks(slow, (due - begin_s).astype(np.int64))


def parted(seen: Seen) -> tuple[int, int] | None:
    """From the last threshold of before to that of the new ones: flows of these bytes were served with all larger ones.

    None where the new one is not larger, or there are no new ones.
    """
    before, after = (seen.thresholds.get(name, [0])[-1] for name in ("before", "in force"))
    return (before, after) if before < after else None


def judged(seen: Seen) -> list[tuple[str, bool]]:
    """What the experiment is to show, and whether it did. A mean is above another where their intervals don't meet."""
    change_s = float(seen.settings["before_s"])
    found, force = seen.first("seen"), seen.first("in force")
    spans = {name: (begin, end) for name, begin, end in phases(seen)}
    by_name = {name: mean_of(seen, begin, end) for name, (begin, end) in spans.items()}

    def above(one: str, other: str) -> bool:
        return one in by_name and other in by_name and by_name[one].low > by_name[other].high

    claims = [
        ("hosts' histograms show the change, and nothing before it", found is not None and found >= change_s),
        ("new thresholds are in force on all hosts", force is not None and force >= change_s),
    ]
    if (between := parted(seen)) is not None and FOLLOWED in spans:
        by_old, by_new = (mean_of(seen, *spans[name], *between) for name in (CHANGED, FOLLOWED))
        words = f"flows of {between[0]:,} to {between[1]:,.0f} bytes, which the new ones part from larger flows"
        claims.append((f"{words}, are slowed down less by them", by_old.low > by_new.high))
    names = list(by_name)
    for number, each in enumerate(mistakes(float(seen.settings["soak_s"])), start=1):
        bad, undone = f"bad: {each.name}", f"undone ({number})"
        before = names[names.index(bad) - 1] if bad in names else bad
        claims += [
            (f"{each.name}: slows small flows down", above(bad, before)),
            (f"{each.name}: the orchestrator undoes it by itself", undone in by_name),
            (f"{each.name}: small flows are then faster again", above(bad, undone)),
        ]
    return claims


def followed(seen: Seen) -> str:
    """What the new thresholds did to small flows, whether or not that is what one hopes for."""
    spans = {name: (begin, end) for name, begin, end in phases(seen)}
    if not {CHANGED, FOLLOWED} <= spans.keys():
        return "No new thresholds came into force while the traffic was as it is after its change."
    before, after = (mean_of(seen, *spans[name]) for name in (CHANGED, FOLLOWED))
    better = "better" if after.high < before.low else "worse" if after.low > before.high else "the same, as far as seen"
    words = f"{before.text()} with the thresholds of before, {after.text()} with the new ones"
    return f"Small flows' mean slowdown: {words}: {better}."


def table(seen: Seen) -> str:
    """Markdown: slowdowns by phase."""
    head = ["", "seconds of the traffic", "small flows", "their mean slowdown [95 %]", "p99", "medium, mean"]
    head += ["large, mean"]
    between = parted(seen)
    if between is not None:
        head.append(f"{between[0] / 1e3:.0f} to {between[1] / 1e3:.0f} KB, mean [95 %]")
    rows = []
    for name, begin_s, end_s in phases(seen):
        small = slowdowns(seen, begin_s, end_s, 0, SMALL_BYTES)
        others = [(SMALL_BYTES, MEDIUM_BYTES), (MEDIUM_BYTES, np.inf)]
        row = [name, f"{begin_s:.0f} to {end_s:.0f}", f"{len(small):,}", mean_of(seen, begin_s, end_s).text()]
        row.append(f"{np.percentile(small, 99):.1f}" if len(small) else "-")
        for above, upto in others:
            found = slowdowns(seen, begin_s, end_s, above, upto)
            row.append(f"{found.mean():.2f}" if len(found) else "-")
        if between is not None:
            row.append(mean_of(seen, begin_s, end_s, *between).text())
        rows.append(row)
    return page.table(head, rows)


def plot(seen: Seen) -> str:
    """SVG, by time: small flows' slowdown, what the orchestrator's gates know of it, and how far sizes have moved."""
    figure, panels = plt.subplots(3, 1, figsize=(10, 7), sharex=True, layout="constrained", height_ratios=(2.2, 1.2, 1))
    end_s = float(seen.settings["before_s"]) + float(seen.settings["after_s"])
    at, means, tails = [], [], []
    for begin_s in np.arange(0, end_s, BIN_S):
        found = slowdowns(seen, begin_s, begin_s + BIN_S, 0, SMALL_BYTES)
        if len(found) >= 5:
            at.append(begin_s + BIN_S / 2)
            means.append(found.mean())
            tails.append(np.percentile(found, 99))
    panels[0].plot(at, means, lw=1.8, color="#222222", label="mean")
    panels[0].plot(at, tails, lw=1, color="#888888", label="99th percentile")
    panels[0].set_ylabel("small flows' slowdown")
    panels[0].legend(loc="upper left", fontsize=8, frameon=False)
    panels[1].step(*_columns([(at, felt) for at, felt in seen.felt if at >= 0]), where="post", lw=1.4, color="#222222")
    panels[1].set_ylabel("stretch that\nhosts report")
    for panel in panels[:2]:
        panel.set_yscale("log")
        panel.yaxis.set_major_formatter("{x:g}")
    panels[2].plot(*_columns(seen.differences), lw=1.2, marker=".", color="#222222")
    panels[2].axhline(float(seen.settings["differs"]), color="gray", lw=0.8, ls=":")
    panels[2].set_ylabel("sizes differ\nfrom thresholds' by")
    panels[2].set_xlabel(f"s of the traffic (slowdowns: {BIN_S:g} s a point; stretch: 10 s)")
    panels[2].set_xlim(0, end_s)
    _mark(seen, panels, end_s)
    text = svg_of(figure)
    plt.close(figure)
    return text


def _columns(points: list[tuple[float, float]]) -> tuple[list[float], list[float]]:
    return [at for at, _ in points], [value for _, value in points]


def _mark(seen: Seen, panels: Any, end_s: float) -> None:
    """Lines and words where something happened; a bad revision's time is shaded."""
    for panel in panels:
        panel.grid(alpha=0.25)
        for at_s, what, _ in seen.events:
            if what in COLOURS:
                panel.axvline(at_s, color=COLOURS[what], lw=1.2)
        for name, begin_s, upto_s in phases(seen):
            if name.startswith("bad: "):
                panel.axvspan(begin_s, upto_s, color=COLOURS["bad"], alpha=0.08, lw=0)
    for number, (at_s, what, about) in enumerate(one for one in seen.events if one[1] in COLOURS):
        revision = about.partition(",")[0] if about.startswith("revision") else ""
        words = {"in force": f"{revision} in force", "bad": f"bad {revision}", "change": "DataMining begins"}.get(
            what, what
        )
        is_late = at_s > 0.9 * end_s
        place = (at_s, 1.03 + 0.09 * (number % 2))
        panels[0].annotate(
            words.strip(),
            place,
            xycoords=("data", "axes fraction"),
            color=COLOURS[what],
            fontsize=8,
            ha="right" if is_late else "left",
            annotation_clip=False,
        )


def measured(seen: Seen, picture: str) -> str:
    """The part of the page that a run writes."""
    settings = seen.settings
    words = (
        f"{len(seen.flows):,} flows over {settings['before_s'] + settings['after_s']:.0f} s, load {settings['load']}, "
        f"seed {settings['seed']}; {sum(seen.failures.values())} failed; {100 * seen.late_share:.1f} % began more than "
        f"5 ms late; the machine was {100 * seen.idle_share:.0f} % idle."
    )
    verdicts = "\n".join(f"- {'yes' if good else '**no**'}: {what}" for what, good in judged(seen))
    steps = page.table(
        ["s of the traffic", "what", ""], [[f"{at:.1f}", what, about] for at, what, about in seen.events]
    )
    cuts = page.table(
        ["thresholds", "bytes"], [[name, ", ".join(map(str, found))] for name, found in seen.thresholds.items()]
    )
    return "\n\n".join([words, verdicts, followed(seen), table(seen), f"![slowdown by time]({picture})", steps, cuts])


def write(seen: Seen, to: Path) -> str:
    """Writes the plot beside the page and the measured part into it; what stands around that part stays."""
    to.parent.mkdir(parents=True, exist_ok=True)
    picture = to.with_suffix(".svg")
    replace_text(picture, plot(seen) + "\n")
    made = measured(seen, picture.name)
    page.rewrite(to, "The control loop, live", BEGIN, END, made)
    return made


def main(settings: Control) -> int:
    """Runs it, writes the page and shows it. Raises: WorkloadError."""
    if not settings.before_s < settings.bad_s < settings.before_s + settings.after_s:
        raise WorkloadError(f"--bad: {settings.bad_s:g} s, expected after the change and before the traffic's end")
    path = settings.folder / "seen.json"
    if settings.stored and not path.exists():
        raise WorkloadError(f"{path} is missing, expected what an earlier run left")
    seen = load(path) if settings.stored else run_control(settings, Console(stderr=True))
    told = write(seen, settings.document or settings.folder / "control.md")
    found = judged(seen)
    if settings.as_json:
        click.echo(json.dumps({**asdict(seen), "judged": [{"claim": claim, "holds": good} for claim, good in found]}))
    else:
        click.echo(told)
    return 0 if all(good for _, good in found) else 1
