"""The drift experiment's page: coverage and fallbacks by time with the events marked, and how long each step took."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import click
import matplotlib.pyplot as plt
from rich.console import Console

from lab.experiment import page
from lab.experiment.claims import AtLeast, AtMost, Below, Need, Outcome, judge
from lab.experiment.intervals import Interval, proportion
from lab.experiment.plots import svg_of
from lab.experiment.store import replace_text
from lab.run.drift.run import COUNTS, Seen, run_drift
from lab.run.settings import Drift
from lab.workload.programs import WorkloadError

BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
BIN_S = 2.0
SETTLED_S = 10.0
"""The last model is judged if it was in force for so long, else the one before."""
COLOURS = {
    "training": "#888888",
    "change": "black",
    "flagged": "#c03020",
    "bounds off": "#7a1fa2",
    "offered": "#e08a00",
    "in force": "#00803a",
}


def load(path: Path) -> Seen:
    """What `run_drift` wrote."""
    values = json.loads(path.read_text(encoding="utf-8"))
    values["events"] = [(at, what, about) for at, what, about in values["events"]]
    return Seen(**{field.name: values[field.name] for field in fields(Seen)})


def counted(seen: Seen, begin_s: float, end_s: float) -> dict[str, int]:
    """What hosts reported between two times."""
    inside = [row for row in seen.samples if begin_s <= row["at_s"] <= end_s]
    if len(inside) < 2:
        return dict.fromkeys(COUNTS, 0)
    return {name: int(inside[-1][name] - inside[0][name]) for name in COUNTS}


def exact(misses: int, flows: int) -> str:
    """Coverage in per cent with Clopper and Pearson's 95 % interval."""
    found = proportion(flows - misses, flows)
    return Interval(*(100 * each for each in (found.value, found.low, found.high))).text() if flows else "-"


def phases(seen: Seen) -> list[tuple[str, float, float]]:
    """Name, begin and end of each stretch of time in which one model met one traffic, or the last one settled."""
    change_s, end_s = seen.first("change"), seen.samples[-1]["at_s"]
    if change_s is None:
        return [("before the change", 0.0, end_s)]
    loaded = [(at, about) for at, what, about in seen.events if what == "in force" and at > change_s]
    found = [("before the change", 0.0, change_s)]
    edges = [(change_s, "after it, the old model"), *((at, f"after it, {about}") for at, about in loaded)]
    for (begin_s, name), (upto_s, _) in zip(edges, [*edges[1:], (end_s, "")], strict=True):
        found.append((name, begin_s + 2 * (begin_s != change_s), upto_s))  # what is under way comes a delivery later
    return found


def table(seen: Seen) -> str:
    """Markdown: what hosts reported, by phase."""
    head = ["", "seconds of the traffic", "flows", "with bounds", "misses", "of all flows not outside % [95 %]"]
    head += ["of those with bounds %", "with bounds, never seen by the model %"]
    rows = []
    for name, begin_s, end_s in phases(seen):
        found = counted(seen, begin_s, end_s)
        share = f"{100 * found['fallbacks'] / found['bounded']:.1f}" if found["bounded"] else "-"
        row = [name, f"{begin_s:.0f} to {end_s:.0f}", f"{found['flows']:,}", f"{found['bounded']:,}"]
        row += [str(found["misses"]), *(exact(found["misses"], found[of]) for of in ("flows", "bounded")), share]
        rows.append(row)
    return page.table(head, rows)


def steps(seen: Seen) -> str:
    """Markdown: what happened when."""
    return page.table(["s of the traffic", "what", ""], [[f"{at:.1f}", what, about] for at, what, about in seen.events])


def judged(seen: Seen) -> list[tuple[str, bool]]:
    """What the experiment is to show, and whether it did; told only to flag, the orchestrator owes the first two."""
    change_s = seen.first("change") or 0.0
    _, begin_s, end_s = max(
        phases(seen)[1:] or phases(seen), key=lambda phase: (phase[2] - phase[1] > SETTLED_S, phase[1])
    )
    after = counted(seen, begin_s, end_s)
    new = after["fallbacks"] / after["bounded"] if after["bounded"] else float("nan")
    asked: list[tuple[str, Need, Interval]] = [
        ("no drift is flagged before the change", AtLeast(change_s), _at(seen, "flagged")),
        ("the change is flagged", BY_THE_END, _at(seen, "flagged", change_s)),
        ("a better model is offered", BY_THE_END, _at(seen, "offered", change_s)),
        ("it is in force on all hosts", BY_THE_END, _at(seen, "in force", change_s)),
        (
            "the last model holds: its misses are within 0.1 % of all flows, or can't be told from it",
            AtMost(0.001),
            proportion(after["misses"], after["flows"] if after["bounded"] else 0, confidence=0.98),
        ),
        ("hardly a flow with bounds is then new to it (< 2 %)", Below(0.02), _exactly(new)),
    ]
    found = [(what, judge(needs, [each]).outcome in (Outcome.HOLDS, Outcome.UNRESOLVED)) for what, needs, each in asked]
    return found[: 2 if seen.settings["on_drift"] == "flag" else None]


BY_THE_END = Below(float("inf"))
"""Of when something happened, which is never where it did not."""


def _exactly(value: float) -> Interval:
    """What was counted, and not estimated."""
    return Interval(value, value, value)


def _at(seen: Seen, what: str, after_s: float = 0.0) -> Interval:
    """When it happened first, after a time; infinity: never."""
    found = seen.first(what, after_s)
    return _exactly(float("inf") if found is None else found)


def plot(seen: Seen) -> str:
    """SVG: coverage, and below it the share of fallbacks, by time; events as lines."""
    figure, panels = plt.subplots(2, 1, figsize=(9, 5), sharex=True, layout="constrained")
    at, covered, novel = _series(seen.samples)
    panels[0].plot(at, covered, lw=1.2)
    panels[1].plot(at, novel, lw=1.2)
    panels[0].set_ylabel("of flows with bounds: within, %")
    panels[1].set_ylabel("never seen, %")
    panels[1].set_xlabel(f"s of the traffic (points: {BIN_S:g} s, as hosts reported)")
    for panel in panels:
        panel.grid(alpha=0.3)
        for at_s, what, _ in seen.events:
            if what in COLOURS:
                panel.axvline(at_s, color=COLOURS[what], lw=1, ls="--", label=what)
    shown = dict(zip(*reversed(panels[0].get_legend_handles_labels()), strict=True))
    figure.legend(shown.values(), shown.keys(), loc="outside upper center", ncols=5, fontsize=8)
    text = svg_of(figure)
    plt.close(figure)
    return text


def _series(samples: Sequence[dict[str, float]]) -> tuple[list[float], list[float], list[float]]:
    at, covered, novel = [], [], []
    last = samples[0]
    for row in samples:
        flows = row["bounded"] - last["bounded"]
        if row["at_s"] - last["at_s"] >= BIN_S:
            if flows:
                at.append((row["at_s"] + last["at_s"]) / 2)
                covered.append(100 * (1 - (row["misses"] - last["misses"]) / flows))
                novel.append(100 * (row["fallbacks"] - last["fallbacks"]) / flows)
            last = row
    return at, covered, novel


def measured(seen: Seen, picture: str) -> str:
    """The part of the page that a run writes."""
    settings: dict[str, Any] = seen.settings
    change_s = seen.first("change") or 0.0
    words = [
        f"{seen.flows:,} flows asked for over {settings['before_s'] + settings['after_s']:.0f} s, seed "
        f"{settings['seed']}, `--on-drift {settings['on_drift']}`; {sum(seen.failures.values())} failed; "
        f"{100 * seen.late_share:.1f} % began more than 5 ms late; the machine was {100 * seen.idle_share:.0f} % idle."
    ]
    for what in ("flagged", "offered", "in force"):
        found = seen.first(what, change_s)
        words.append(
            f"{what.capitalize()}: {'never' if found is None else f'{found - change_s:.1f} s'} after the change."
        )
    verdicts = "\n".join(f"- {'yes' if good else '**no**'}: {what}" for what, good in judged(seen))
    parts = [" ".join(words), verdicts, table(seen), f"![coverage and fallbacks by time]({picture})", steps(seen)]
    return "\n\n".join(parts)


def write(seen: Seen, to: Path) -> str:
    """Writes the plot beside the page and the measured part into it; what stands around that part stays."""
    to.parent.mkdir(parents=True, exist_ok=True)
    picture = to.with_suffix(".svg")
    replace_text(picture, plot(seen) + "\n")
    made = measured(seen, picture.name)
    page.rewrite(to, "Drift, live", BEGIN, END, made)
    return made


def main(settings: Drift) -> int:
    """Runs it, writes the page and shows it. Raises: WorkloadError."""
    if settings.observe_s >= settings.before_s:
        raise WorkloadError(f"--observe: {settings.observe_s:g} s, expected less than --before {settings.before_s:g} s")
    path = settings.folder / "seen.json"
    if settings.stored and not path.exists():
        raise WorkloadError(f"{path} is missing, expected what an earlier run left")
    seen = load(path) if settings.stored else run_drift(settings, Console(stderr=True))
    told = write(seen, settings.document or settings.folder / "drift.md")
    found = judged(seen)
    if settings.as_json:
        click.echo(json.dumps({**asdict(seen), "judged": [{"claim": claim, "holds": good} for claim, good in found]}))
    else:
        click.echo(told)
    return 0 if all(good for _, good in found) else 1
