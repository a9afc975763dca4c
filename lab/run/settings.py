"""The settings of every experiment, as data: each field is an option of its command, the docstring is its help.

Nothing heavy is imported here: every `qclimb` command loads this file.
"""

# ruff: noqa: RUF009 (what is called in a class gives a field)

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import click
from qclimb.options import BufferShares, Finite, Output, ParamType

from lab.scheduler import SCHEDULERS, Scheduler

COMPARED = ("tcp", "pias", "qclimb", "qclimb-no-forest", "qclimb-no-footprint")
"""Schemes, unless told otherwise."""
SCHEMES = (*COMPARED, "qclimb-lengths", "pias-shares", "qclimb-shares", "qclimb-paper-slack")
TRACES = ("web", "spark", "kv")
MORE_TRACES = ("training", "bulk", "mix")
"""Replayed where they are asked for."""
BOUNDS_FIGURES = (7, 8, 9, 10, 11, 12, 14, 16, 18, 19, 20, 21, 22, 27)
SPINE_SCHEMES = ("mlfq-2", "mp-2", "mp-2-drain", "mlfq-5", "qclimb-2", "mp-qclimb-2", "qclimb-5")
OPTAX_FIGURES = ("base", "bulk", "slow", "fig10", "fig11", "fig12", "fig13", "blocks")


class Numbers(ParamType[Any]):
    """A list of numbers with commas; when `ordinal`, one without a comma is how many (`3`: 1,2,3; `3,`: only 3)."""

    name = "NUMBERS"

    def __init__(self, kind: type[int] | type[float], ordinal: bool = False, below: float = float("inf")) -> None:
        self._kind, self._ordinal, self._below = kind, ordinal, below

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[float, ...]:
        """The numbers, none twice."""
        if isinstance(value, tuple):
            return value
        try:
            found = tuple(self._kind(part) for part in str(value).removesuffix(",").split(","))
        except ValueError:
            self.fail(f"{value!r} is not a list of numbers with commas, like 1,2,3", param, ctx)
        if self._ordinal and "," not in str(value):
            found = tuple(range(1, int(found[0]) + 1))
        if not found or len(set(found)) != len(found) or not all(number > 0 for number in found):
            self.fail(f"{value!r}: expected numbers above 0, none twice", param, ctx)
        if not all(number < self._below for number in found):
            self.fail(f"{value!r}: each must be below {self._below:g}", param, ctx)
        return found


class Names(ParamType[Any]):
    """Names with commas."""

    name = "NAMES"

    def __init__(self, known: tuple[Any, ...]) -> None:
        self._known = known

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[Any, ...]:
        """The names, in order, none twice."""
        if isinstance(value, tuple):
            return value
        of = {str(each): each for each in self._known}
        names = [name for name in str(value).split(",") if name]
        for name in names:
            if of and name not in of:
                self.fail(f"{name!r} is none of {', '.join(of)}", param, ctx)
        if len(set(names)) != len(names):
            self.fail(f"{value!r}: a name stands there twice", param, ctx)
        return tuple(of.get(name, name) for name in names)


def setting(default: Any, words: str, kind: Any = None, option: str = "") -> Any:
    """A field: its default, its help, which values it takes, and its option where that is not the field's name."""
    return field(default=default, metadata={"help": words, "kind": kind, "option": option})


def results(folder: str) -> Any:
    """Where results go."""
    return setting(Path(folder), "Folder for what is measured and reported.", Output(folder=True), "--results")


prefix = partial(setting, words="Of the network namespaces' names.")
document = partial(setting, None, "The Markdown file to write.", Output())
seeds = partial(setting, (1, 2, 3), "How many, or a list; `31,` is one.", Numbers(int, ordinal=True))
limit = partial(setting, 0.0, "Stop after so long; the next run goes on. 0: when all is done.", Finite(0))
stored = partial(setting, False, "Measure nothing: report what earlier runs left.")
as_json = partial(setting, False, "For programs.", option="--json")
schemes = partial(
    setting, COMPARED, f"What is compared, with commas; there are also {', '.join(SCHEMES[5:])}.", Names(SCHEMES)
)
arrivals = partial(setting, 25.0, "Of arrivals in a pass.", Finite(1, 600))
by = partial(
    setting,
    SCHEDULERS[:1],
    "What schedules the programs: libqclimb.so, or hostd's kernel mode without it, or both in turn.",
    Names(SCHEDULERS),
)


@dataclass(frozen=True)
class Demo:
    """Short flows finish first in a fabric of real TCP: see it.

    Plain TCP, PIAS and QCLIMB over one trace, and a report. Each pass tells what told the flows' sizes.
    """

    keep: bool = setting(False, "Leave the fabric up and print commands to look around.")
    load: float = setting(0.6, "Of the hosts' links.", Finite(0.05, 0.95))
    seed: int = setting(1, "Of the replayed trace.", click.IntRange(1, 999))
    seconds: float = arrivals()
    schemes: tuple[str, ...] = setting(
        (*COMPARED[:3], "qclimb-lengths", *COMPARED[3:]), "What is compared, with commas.", Names(SCHEMES)
    )
    by: Scheduler = setting(
        "library",
        "What schedules the programs: libqclimb.so, or hostd's kernel mode without it, which reads no lengths.",
        click.Choice(SCHEDULERS),
    )
    prefix: str = prefix("qc")
    results: Path = results("lab-results")


@dataclass(frozen=True)
class Fct:
    """Flow completion times over seeds and loads.

    With bootstrap intervals. A rerun goes on where it stopped.
    """

    seeds: tuple[int, ...] = seeds()
    loads: tuple[float, ...] = setting((0.4, 0.6, 0.8), "Of the hosts' links.", Numbers(float, below=1))
    schemes: tuple[str, ...] = schemes()
    seconds: float = arrivals()
    host_rate_mbps: int = setting(
        25, "Of hosts' links; uplinks have twice that. Slower links ask less of the machine.", click.IntRange(1, 500)
    )
    buffer_shares: tuple[int, ...] | None = setting(
        None,
        "Of schemes with chosen shares, in place of the choice: dynamic_th of each queue, served first to last.",
        BufferShares(),
    )
    by: tuple[Scheduler, ...] = by()
    prefix: str = prefix("qc")
    folder: Path = results("lab-results/fct")
    as_json: bool = setting(False, "Print results.json instead of tables.", option="--json")


@dataclass(frozen=True)
class Bounds:
    """Recorded traffic replayed under PIAS and QCLIMB's variants.

    Spark, web and kv; PIAS, QCLIMB, QCLIMB-FP, -PP and -PS: the paper's Figures 7 to 12, 14, 16, 18 to 22 and 27, a
    verdict a claim. A rerun goes on where it stopped.
    """

    traces: tuple[str, ...] = setting(
        TRACES,
        f"Which recordings; there are also {', '.join(MORE_TRACES)}, some of them for --sources.",
        Names(TRACES + MORE_TRACES),
    )
    figures: tuple[int, ...] = setting(BOUNDS_FIGURES, "Of the paper.", Names(BOUNDS_FIGURES))
    loads: tuple[float, ...] = setting((0.5, 0.7), "Where a figure has it.", Numbers(float, below=1))
    seeds: tuple[int, ...] = seeds()
    schemes: tuple[str, ...] = setting((), "Only these, with commas.", Names(()))
    quick: bool = setting(False, "Two minutes: web, load 0.5, PIAS, QCLIMB and QCLIMB-PS, one window.")
    own: bool = setting(
        True, "Also by the orchestrator's thresholds, beside the published ones.", option="--own/--no-own"
    )
    sources: bool = setting(False, "Also what forest, footprint and announced lengths give, each by itself.")
    by: tuple[Scheduler, ...] = by()
    dctcp: bool = setting(False, "Hosts use DCTCP, and queues mark, as in the paper; else cubic, unmarked.")
    seconds: float = limit()
    stored: bool = stored()
    document: Path | None = document()
    prefix: str = prefix("qb")
    folder: Path = results("lab-results/bounds")


@dataclass(frozen=True)
class Optax:
    """Task completion with OPTAX, against fair sharing.

    OPTAX stands at the receiver alone. A rerun goes on where it stopped.
    """

    runs: int | None = setting(
        None, "Of every point; default: base 5, bulk and slow 3, others 2.", click.IntRange(1, 100)
    )
    only: tuple[str, ...] = setting(OPTAX_FIGURES, "Which of the figures.", Names(OPTAX_FIGURES))
    quick: bool = setting(False, "A minute: the base case, two runs.")
    rate_mbps: int = setting(100, "Of the receiver's port.", click.IntRange(1, 500))
    by: tuple[Scheduler, ...] = by()
    stored: bool = stored()
    prefix: str = prefix("ox")
    folder: Path = results("lab-results/optax")


@dataclass(frozen=True)
class Deadline:
    """Share of deadlines met by flows that meet at one port.

    Earliest deadline first by priorities, against none. PDQ's query aggregation (SIGCOMM'12): sizes U[2, 198] KB,
    deadlines exponential of mean 20 ms and 3 ms at the least, at 1 Gb/s; at a slower port times are longer by as much.
    A rerun goes on where it stopped.
    """

    trials: int = setting(30, "Of each number of flows.", click.IntRange(1, 1000))
    flows: tuple[int, ...] = setting((4, 8, 12, 16, 20, 24, 32), "At once, to 64.", Numbers(int, below=65))
    seed: int = setting(1, "Of sizes and deadlines.", click.IntRange(0))
    rate_mbps: int = setting(50, "Of the receiver's port.", click.IntRange(1, 200))
    step_us: int = setting(25_000, "deadline_step_us.", click.IntRange(1))
    prefix: str = prefix("qcdl")
    folder: Path = results("lab-results/deadline")
    as_json: bool = as_json()


@dataclass(frozen=True)
class Tagger:
    """Flows that climb, by the library and by the tagger.

    Default kernel, drain, tagger, tagger and filter; without loss and with real drops.
    """

    seeds: tuple[int, ...] = seeds()
    flows: int = setting(100, "In each cell.", click.IntRange(1, 10_000))
    folder: Path = results("lab-results/tagger")
    document: Path | None = document()
    seconds: float = limit()


@dataclass(frozen=True)
class BigSpine:
    """MP-MLFQ over real spines, against MLFQ over ECMP.

    Both with QCLIMB's bounds, too. One rack sends to another by K uplinks, which are the bottleneck; the paper's sizes
    and thresholds, to scale. A rerun goes on where it stopped.
    """

    seeds: tuple[int, ...] = seeds()
    loads: tuple[float, ...] = setting((0.8,), "Of the uplinks together: 0.4 to 0.8.", Numbers(float, below=0.81))
    spines: tuple[int, ...] = setting((4, 2), "How many, 2 and 4 have thresholds.", Names((4, 2)))
    schemes: tuple[str, ...] = setting(SPINE_SCHEMES, f"Which of {', '.join(SPINE_SCHEMES)}.", Names(SPINE_SCHEMES))
    seconds: float = arrivals()
    seconds_at_most: float = setting(
        0.0, "Stop after so long; the next run goes on. 0: when all is done.", Finite(0), "--at-most"
    )
    stored: bool = stored()
    document: Path | None = document()
    prefix: str = prefix("qbs")
    folder: Path = results("lab-results/bigspine")


@dataclass(frozen=True)
class SpineLoss:
    """A spine is lost under a connection that is pinned to it.

    Its link, the spine itself, or the route by it; and back. The longest wait of an application, median and worst.
    """

    trials: int = setting(10, "Of each way to lose it.", click.IntRange(1, 100))
    stored: bool = stored()
    document: Path | None = document()
    prefix: str = prefix("qsl")
    folder: Path = results("lab-results/spineloss")


@dataclass(frozen=True)
class Drift:
    """Traffic that changes under a model in force.

    Coverage falls, the orchestrator flags it, trains, rolls out.

    Four minutes. Exit 1 where a claim of the report does not hold (with --on-drift flag only the first two are made).
    """

    on_drift: str = setting(
        "rollout",
        "How far the orchestrator goes by itself to a new model; what it offers is then accepted as by an operator.",
        click.Choice(["flag", "offer", "rollout"]),
    )
    flows_per_s: float = setting(350.0, "Asked for.", Finite(10, 5000))
    observe_s: float = setting(30.0, "s recorded; then a model is trained and rolled out.", Finite(2), "--observe")
    before_s: float = setting(80.0, "s to the change.", Finite(5), "--before")
    after_s: float = setting(120.0, "s after it.", Finite(5), "--after")
    model_max_age_s: float = setting(
        2_592_000.0, "s; the bounds of an older model are switched off.", Finite(0, min_open=True), "--model-max-age"
    )
    seed: int = setting(1, "Of the traffic.", click.IntRange(0, 9999))
    prefix: str = prefix("qdr")
    document: Path | None = document()
    stored: bool = stored()
    folder: Path = results("lab-results/drift")
    as_json: bool = as_json()
    trees: int | None = None
    """None: as many as the orchestrator chooses."""
    hosts_per_leaf: int = 2


@dataclass(frozen=True)
class Control:
    """Thresholds follow the traffic, a bad revision is undone.

    Sizes go from WebSearch's to DataMining's; hosts' histograms show it, and new thresholds are rolled out. Then two
    bad revisions are rolled out, and the orchestrator's gates undo each: thresholds by which no flow is ever served
    later, and 2 % of a port for the first queue.

    Seven minutes. Exit 1 where a claim of the report does not hold.
    """

    load: float = setting(0.6, "Of the hosts' links.", Finite(0.1, 0.9))
    recorded_s: float = setting(20.0, "s of WebSearch, for the first thresholds.", Finite(5), "--recorded")
    before_s: float = setting(40.0, "s to the change.", Finite(5), "--before")
    after_s: float = setting(305.0, "s after it.", Finite(5), "--after")
    bad_s: float = setting(170.0, "s to the first bad revision.", Finite(10), "--bad")
    calm_s: float = setting(75.0, "From its end to the second one, s.", Finite(0), "--calm")
    soak_s: float = setting(35.0, "After the second one's first wave, s.", Finite(0, 600))
    differs: float = setting(0.15, "By so much sizes differ before thresholds follow, 0 to 1.", Finite(0, 1))
    seed: int = setting(1, "Of the traffic.", click.IntRange(0, 9999))
    prefix: str = prefix("qct")
    document: Path | None = document()
    stored: bool = stored()
    folder: Path = results("lab-results/control")
    as_json: bool = as_json()
    hosts_per_leaf: int = 2
