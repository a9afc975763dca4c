"""From passes to numbers: samples over the seeds that all schemes of a cell have, ratios, and each claim's verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from lab.experiment import flows
from lab.experiment.claims import Below, Claim, NotWorse, judge
from lab.experiment.flows import Flows
from lab.experiment.intervals import Interval
from lab.run.bounds.figures import Figure, Job, of_figure
from lab.run.bounds.schemes import VARIANTS, is_told
from lab.workload.mixture import part_of
from lab.workload.passes import PassResult
from lab.workload.services import PUBLISHED
from lab.workload.sources import SOURCES

STATISTICS = (("small", "mean"), ("small", "p99"), ("medium", "mean"), ("all", "mean"))


@dataclass(frozen=True)
class Cell:
    """A figure's passes at one trace and load: the seeds that every variant has, which are all that is compared."""

    figure: Figure
    trace: str
    load: float
    seeds: tuple[int, ...]
    samples: Mapping[str, Flows]
    ids: NDArray[np.int64]
    """Of the flows, in the samples' order."""

    @property
    def variants(self) -> tuple[str, ...]:
        """Those that were measured, in the figure's order."""
        return tuple(name for name in self.figure.variants if name in self.samples)

    def ratio(self, scheme: str, against: str, size_class: str, statistic: str) -> Interval:
        """Of FCTs, over the same flows."""
        return flows.ratio(self.samples[scheme], self.samples[against], size_class, statistic)

    def flows(self, size_class: str) -> int:
        """How many there are of a class."""
        return int(next(iter(self.samples.values())).of_class(size_class).sum())


BINS = ((0, 1448, "one packet"), (1448, 14_600, "one initial window"), (14_600, 67_160, "below the first threshold"),
        (67_160, 100_000, "to 100 KB"), (100_000, 1_000_000, "to 1 MB"), (1_000_000, 2**62, "above"))  # fmt: skip
"""Sizes in bytes, above the first and up to the second: where a scheme could make a difference at all."""


def part(sample: Flows, above: int, to: int) -> Flows:
    """The flows of some sizes."""
    chosen = (sample.bytes > above) & (sample.bytes <= to)
    return where(sample, chosen)


def where(sample: Flows, chosen: NDArray[np.bool_]) -> Flows:
    """The chosen flows."""
    names = ("fct_ms", "slowdown", "bytes", "block", "service")
    return replace(sample, **{name: getattr(sample, name)[chosen] for name in names})


def told(cell: Cell, name: str) -> NDArray[np.bool_]:
    """Which of a cell's flows a variant's senders may tell of."""
    services = next(iter(cell.samples.values())).service
    flows_of = zip(cell.ids, services, strict=True)
    return np.array([is_told(VARIANTS[name], int(flow_id), str(service)) for flow_id, service in flows_of], bool)


def cells(figure: Figure, results: Mapping[Job, PassResult], wanted: Sequence[Job]) -> list[Cell]:
    """The cells of a figure of which at least two variants were measured over a common seed."""
    found = []
    for trace in figure.traces:
        for load in figure.loads:
            mine = [job for job in wanted if (job.trace, job.load) == (trace, load) and of_figure(job, figure)]
            seeds_of = {
                name: {job.seed for job in mine if job.variant == name and job in results} for name in figure.variants
            }
            measured = {name: seeds for name, seeds in seeds_of.items() if seeds}
            if len(measured) < 2:
                continue
            seeds = sorted(set.intersection(*measured.values()))
            if not seeds:
                continue
            passes = {
                name: [results[Job(trace, load, seed, name, figure.optimised, figure.measured)] for seed in seeds]
                for name in measured
            }
            base = next(iter(passes.values()))
            samples = {name: flows.flows_of(results_of, PUBLISHED, base) for name, results_of in passes.items()}
            ids = np.concatenate([result.id for result in next(iter(passes.values()))]).astype(np.int64)
            whole = Cell(figure, trace, load, tuple(seeds), samples, ids)
            found += [whole, *(of_part(whole, name) for name, _ in SOURCES[trace].parts)]
    return found


def of_part(cell: Cell, name: str) -> Cell:
    """The flows of one part of a mixture."""
    services = next(iter(cell.samples.values())).service
    chosen = np.array([part_of(str(service)) == name for service in services], bool)
    samples = {variant: where(sample, chosen) for variant, sample in cell.samples.items()}
    return replace(cell, trace=f"{name} in {cell.trace}", samples=samples, ids=cell.ids[chosen])


def verdicts(cell: Cell) -> list[str]:
    """What is seen of the figure's claims in a cell, a sentence each: the limit is judged, the paper's number told."""
    return [
        verdict(claim, cell.ratio(claim.scheme, claim.base, claim.size_class, claim.statistic))
        for claim in cell.figure.claims
        if {claim.scheme, claim.base} <= set(cell.samples) and cell.flows(claim.size_class)
    ]


def verdict(claim: Claim, seen: Interval) -> str:
    """One claim, and what was seen."""
    limit = 1 + claim.needs.margin if isinstance(claim.needs, NotWorse) else 1.0
    limit = claim.needs.limit if isinstance(claim.needs, Below) else limit
    is_less = limit == 1
    than = "less than in" if is_less else f"less than {limit:g} times in"
    words = f"{claim.size_class} flows' {claim.statistic} FCT in {VARIANTS[claim.scheme].title} is {than} "
    shown = seen.change() if is_less else f"{seen.value:.2f} times [{seen.low:.2f}, {seen.high:.2f}]"
    outcome = judge(claim.needs, [seen])
    return f"{outcome}: {words}{VARIANTS[claim.base].title} (here {shown}; paper {claim.where})"
