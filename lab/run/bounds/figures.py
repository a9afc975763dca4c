"""The paper's panels as data: which passes each needs, what the paper says, and which claims are judged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

from lab.experiment.claims import Below, Claim, NotWorse
from lab.experiment.passes import interleaved
from lab.run.bounds.schemes import SHARES_PERCENT, VARIANTS
from lab.run.settings import BOUNDS_FIGURES, TRACES
from lab.scheduler import Scheduler
from lab.workload.schemes import BY_KERNEL, name_by

Measured = Literal["flows", "queries", "steps"]
"""The trace's flows; memcached's queries over the trace as background (fanin.py); what becomes of the flows' time
(lab/workload/steps.py), for which programs are watched."""

BASE = ("pias", "qclimb", "qclimb-forest", "qclimb-fp", "qclimb-pp", "qclimb-ps")

MIXED = tuple(f"told-{n}" for n in SHARES_PERCENT)


def less(scheme: str, base: str, size_class: str, statistic: str, paper: str, limit: float = 1.0) -> Claim:
    """One sentence of the paper as a ratio below a limit; `paper`: what it has, in its words and numbers (NSDI'24)."""
    return Claim(scheme, base, size_class, statistic, Below(limit), paper)


@dataclass(frozen=True)
class Figure:
    """A figure, or several of the same passes."""

    name: str
    title: str
    traces: tuple[str, ...]
    loads: tuple[float, ...]
    variants: tuple[str, ...]
    against: str
    claims: tuple[Claim, ...]
    paper: str
    optimised: bool = False
    """Thresholds and slack as the orchestrator chooses them; else PIAS's published ones and S = 100 KB."""
    measured: Measured = "flows"

    sources: bool = False
    """Made only where it is asked for."""

    by_share: bool = False
    """Also what becomes of the flows that are told of, and of those that are not."""

    kind: str = ""
    """Tells figures of one name apart."""

    @property
    def key(self) -> str:
        """Unique."""
        return self.name + ("-own" if self.optimised else "") + self.kind

    @property
    def numbers(self) -> set[int]:
        """Which figures of the paper it stands for: "7-11" is five of them."""
        first, _, last = self.name.partition("-")
        return set(range(int(first), int(last or first) + 1))

    @property
    def points(self) -> str:
        """What it is of."""
        return f"{', '.join(self.traces)} at load {', '.join(f'{load:g}' for load in self.loads)}"


FIGURES = (
    Figure(
        "7-11", "small, medium and all flows by load", ("web", "spark", "kv"), (0.5, 0.7), BASE, "pias",
        (
            less("qclimb", "pias", "small", "mean", "-44, -58, -88 % at best (K-Means, PageRank, SGD; Fig. 7)"),
            less("qclimb", "pias", "small", "p99", "-96, -96, -97 % at best (Fig. 8)"),
            less("qclimb-forest", "pias", "small", "mean", "as above; the paper's QCLIMB has no footprint"),
            less("qclimb-forest", "pias", "small", "p99", "as above"),
            less("qclimb", "pias", "medium", "mean", "-8, -24, -8 % at load 0.5 (Fig. 9)"),
            less("qclimb", "pias", "all", "mean", "up to -6, -15, -23 % (Fig. 11)"),
            less("qclimb", "qclimb-ps", "small", "mean", "at most 1.63 times QCLIMB-PS at load 0.7", 1.63),
        ),
        "8 hosts, one switch, 25 Gb/s, DCTCP, 8 queues, loads 0.3 to 0.9. Its Fig. 10 is of flows above 10 MB, of "
        "which these recordings have none.",
    ),
    Figure(
        "7-11", "the same by this project's own settings", ("web", "spark"), (0.7,),
        ("pias", "qclimb", "qclimb-forest", "qclimb-ps"), "pias",
        (
            less("qclimb", "pias", "small", "mean", "as above, by other thresholds"),
            less("qclimb", "pias", "small", "p99", "as above, by other thresholds"),
            less("qclimb", "pias", "all", "mean", "as above, by other thresholds"),
        ),
        "Thresholds that the orchestrator computes from each recording instead of the published ones; the slack is the "
        "first of them.",
        optimised=True,
    ),
    Figure(
        "12", "memcached queries over background traffic", ("web",), (0.3, 0.5, 0.7), ("tcp", "pias", "qclimb"), "pias",
        (
            less("qclimb", "pias", "small", "mean", "-70 to -97 %"),
            less("qclimb", "pias", "small", "p99", "-6 to -99.8 %"),
            less("qclimb", "pias", "medium", "mean", "-21 to -94 %"),
            less("qclimb", "pias", "all", "mean", "-70 to -97 %"),
        ),
        "A client asks seven servers, over web-search traffic at loads 0.3 to 0.9; overall, 0 to 100 KB and above. Its "
        "small and larger queries are our small and medium ones.",
        measured="queries",
    ),
    Figure(
        "14", "a priority fixed once (FP), promotion by a point (PP)", ("web", "spark"), (0.5,),
        ("qclimb", "qclimb-forest", "qclimb-fp", "qclimb-pp"), "qclimb-fp",
        (
            less("qclimb-forest", "qclimb-fp", "small", "mean", "up to -70 %"),
            less("qclimb-forest", "qclimb-fp", "small", "p99", "up to -97 %"),
            less("qclimb-forest", "qclimb-fp", "all", "mean", "up to -16 %"),
            less("qclimb", "qclimb-fp", "small", "mean", "as above; the paper's QCLIMB has no footprint"),
            less("qclimb", "qclimb-fp", "all", "mean", "as above"),
            less("qclimb-forest", "qclimb-pp", "small", "mean", "up to -60 %"),
            less("qclimb-forest", "qclimb-pp", "small", "p99", "up to -96 %"),
            less("qclimb-forest", "qclimb-pp", "all", "mean", "up to -12 %"),
            less("qclimb", "qclimb-pp", "small", "mean", "as above; the paper's QCLIMB has no footprint"),
            less("qclimb", "qclimb-pp", "all", "mean", "as above"),
        ),
        "Load 0.5.",
    ),
    Figure(
        "7-11", "what each source of bounds gives", ("web", "spark", "training", "bulk"), (0.5, 0.7),
        ("pias", "qclimb-forest", "qclimb-footprint", "qclimb-no-forest", "qclimb-lengths", "qclimb-ps"), "pias",
        (
            less("qclimb-lengths", "pias", "all", "mean", "has no such source; our goal for Spark is 0.90", 0.9),
            less("qclimb-lengths", "pias", "small", "mean", "nobody's small flows slower"),
            less("qclimb-lengths", "qclimb-ps", "all", "mean", "perfect sizes, our goal", 1.03),
            less("qclimb-no-forest", "qclimb-lengths", "all", "mean", "has no such source; what the forest adds"),
        ),
        "It has no such figure. Lengths: what the recorded flows' own bytes announced, as recordings of format 2 tell.",
        sources=True,
        kind="-sources",
    ),
    *(
        Figure(
            "16", f"what flows' time goes into, {words}", ("spark",), (0.7,), ("pias", "qclimb-forest"), "pias", (),
            "PageRank, load 0.7. Of small flows' FCT under QCLIMB 0.52 % is inference, 99.47 % climbing up, 0.01 % "
            "slack; an inference takes 3.1 us. Under PIAS flows only climb down.",
            optimised=optimised,
            measured="steps",
        )
        for optimised, words in ((False, "by the published thresholds"), (True, "by the orchestrator's"))
    ),
    Figure(
        "18", "the forest of another application", ("web", "spark"), (0.7,),
        ("pias", "qclimb-forest", "forest-wrong"), "qclimb-forest",
        (
            less("qclimb-forest", "forest-wrong", "small", "mean", "-57 % (SGD's model), -0.5 % (K-Means's)"),
            less("qclimb-forest", "forest-wrong", "all", "mean", "-72 % (SGD's model)"),
        ),
        "PageRank's traffic, load 0.7.",
    ),
    Figure(
        "19", "an application under QCLIMB, another under PIAS", ("mix",), (0.8,), ("pias", "told-spark"), "pias",
        (less("told-spark", "pias", "small", "mean", "-62.7 % (PageRank's), -10.1 % (WebSearch's)"),),
        "PageRank at load 0.5 under QCLIMB, web search at load 0.3 under PIAS. Here Spark's senders tell their sizes, "
        "and no bounds are foretold: web's flows are PIAS's.",
        by_share=True,
    ),
    Figure(
        "20", "a share of the flows under QCLIMB, the others under PIAS", ("web", "spark"), (0.7,),
        ("pias", *MIXED), "pias",
        tuple(
            less(scheme, base, "small", "mean", paper)
            for (base, scheme), paper in zip(
                pairwise(("pias", *MIXED)), ("about -10 %", *("lower with each step",) * (len(MIXED) - 1)), strict=True
            )
        ),
        "PageRank, load 0.7; of the flows 20 to 80 % under QCLIMB. Here their senders tell their sizes, and no bounds "
        "are foretold: the other flows are PIAS's.",
        by_share=True,
    ),
    Figure(
        "21", "two queues", ("web", "spark"), (0.7,), ("pias-2q", "qclimb-2q"), "pias-2q",
        (
            less("qclimb-2q", "pias-2q", "small", "mean", "-74.3 %"),
            less("qclimb-2q", "pias-2q", "small", "p99", "-96.3 %"),
            less("qclimb-2q", "pias-2q", "all", "mean", "-28.6 %"),
        ),
        "PageRank, load 0.7.",
    ),
    Figure(
        "22", "depth of the trees", ("web", "spark"), (0.5,),
        ("pias", "qclimb-forest", "forest-d5", "forest-d1"), "pias",
        (
            less("forest-d5", "pias", "small", "mean", "-50 %"),
            less("forest-d5", "pias", "small", "p99", "-93.8 %"),
            less("forest-d5", "pias", "all", "mean", "-16.3 %"),
            less("forest-d1", "pias", "small", "mean", "still far better"),
            less("forest-d1", "pias", "all", "mean", "about PIAS"),
        ),
        "PageRank, load 0.5.",
    ),
    Figure(
        "27", "slack S", ("web", "spark"), (0.7,),
        ("pias", "forest-s0", "forest-s20000", "forest-s50000", "qclimb-forest"), "pias",
        tuple(
            less(scheme, "pias", size_class, statistic, paper)
            for scheme in ("forest-s0", "forest-s20000", "forest-s50000", "qclimb-forest")
            for size_class, statistic, paper in (
                ("small", "mean", "-48.6 to -62.2 % over all S"),
                ("small", "p99", "-15.6 to -93.4 % over all S"),
                ("all", "mean", "-4.1 to -18.3 %, best at S = 100 KB"),
            )
        ),
        "PageRank, load 0.7. \"Forest alone\" without a slack named has S = 100 KB.",
    ),
    Figure(
        "27", "slack S beside the footprint, as the product has both", ("web", "spark"), (0.5, 0.7),
        ("pias", "qclimb-s0", "qclimb-s67160", "qclimb"), "pias",
        tuple(
            less(variant, "pias", size_class, statistic, "has no such figure; its QCLIMB has no footprint")
            for variant in ("qclimb-s0", "qclimb-s67160", "qclimb")
            for size_class, statistic in (("small", "mean"), ("small", "p99"), ("all", "mean"))
        ),
        "It has no such figure. S = 67 KB, the first threshold, is what the orchestrator chooses unless told; QCLIMB "
        "without a slack named has the paper's 100 KB.",
        kind="-product",
    ),
)  # fmt: skip


def by(figure: Figure, schedulers: Sequence[Scheduler]) -> Figure | None:
    """A figure of what schedules the programs; against the first of them, the kernel mode also against the library.
    None: it can't be had so. What steps time goes into is told by the library's log."""
    of = {
        each: tuple(name_by(name, each) for name in figure.variants if name_by(name, each) in VARIANTS)
        for each in schedulers
        if each == "library" or figure.measured != "steps"
    }
    schedulers = [each for each, names in of.items() if len(names) > 1]
    if not schedulers:
        return None
    variants = tuple(name for each in schedulers for name in of[each])
    claims = [
        replace(claim, scheme=name_by(claim.scheme, each), base=name_by(claim.base, each))
        for each in schedulers
        for claim in figure.claims
    ]
    if len(schedulers) > 1:
        claims += [
            Claim(name_by(name, "kernel"), name, size_class, "mean", NotWorse(), "has one way to schedule; our aim")
            for name in of["library"]
            for size_class in ("small", "all")
        ]
    held = tuple(claim for claim in claims if {claim.scheme, claim.base} <= set(variants))
    return replace(figure, variants=variants, claims=held, against=name_by(figure.against, schedulers[0]))


@dataclass(frozen=True)
class Job:
    """One pass that is wanted."""

    trace: str
    load: float
    seed: int
    variant: str
    optimised: bool = False
    measured: Measured = "flows"

    @property
    def name(self) -> str:
        """Of the file that its result is stored in."""
        own = "own-" if self.optimised else ""
        measured = "" if self.measured == "flows" else f"{self.measured}-"
        return f"{self.trace}-load{self.load:g}-seed{self.seed}-{own}{measured}{self.variant}"


@dataclass(frozen=True)
class Wanted:
    """What a command line asks for."""

    traces: tuple[str, ...] = TRACES
    numbers: tuple[int, ...] = BOUNDS_FIGURES
    loads: tuple[float, ...] = (0.5, 0.7)
    seeds: tuple[int, ...] = (1, 2, 3)
    variants: tuple[str, ...] = ()
    """None: all of the figures."""
    own: bool = True
    """Also by the orchestrator's thresholds."""
    sources: bool = False
    """Also what each source of bounds gives."""
    by: tuple[Scheduler, ...] = ("library",)
    """What schedules the programs."""

    def figures(self) -> list[Figure]:
        """Those of the wanted numbers."""
        asked = [f for f in FIGURES if (self.own or not f.optimised) and (self.sources or not f.sources)]
        return [found for f in asked if f.numbers & set(self.numbers) and (found := by(f, self.by)) is not None]


def jobs(wanted: Wanted) -> Iterator[Job]:
    """All passes in the order in which they run: trace by trace, then by seed; schemes rotated by one each time."""
    for trace in wanted.traces:
        points = [(load, needed(wanted, trace, load)) for load in wanted.loads]
        for load, (variant, optimised, measured), seed in interleaved(points, wanted.seeds):
            yield Job(trace, load, seed, variant, optimised, measured)


def needed(wanted: Wanted, trace: str, load: float) -> Sequence[tuple[str, bool, Measured]]:
    """What any wanted figure needs of a trace and load, each once: variants, by the own settings or not, and what is
    measured."""
    found: Mapping[tuple[str, bool, Measured], None] = dict.fromkeys(
        (variant, figure.optimised, figure.measured)
        for figure in wanted.figures()
        if trace in figure.traces and load in figure.loads
        for variant in figure.variants
        if not wanted.variants or variant.removesuffix(BY_KERNEL) in wanted.variants
    )
    return tuple(found)


def of_figure(job: Job, figure: Figure) -> bool:
    """Whether a pass belongs to a figure."""
    mine = job.trace in figure.traces and job.load in figure.loads and job.variant in figure.variants
    return mine and (job.optimised, job.measured) == (figure.optimised, figure.measured)
