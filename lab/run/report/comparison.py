"""A comparison as values: passes by scheme over the same traces at one load, and all that is computed from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from lab.experiment import flows
from lab.experiment.flows import Flows, Packets, SchemeRow, ServiceRow
from lab.experiment.intervals import Interval
from lab.workload.passes import PassResult
from lab.workload.schemes import BASE, BY_KERNEL, SCHEMES
from lab.workload.services import SCALED


def title_of(scheme: str) -> str:
    """A scheme's name for people."""
    served = scheme.removesuffix(BY_KERNEL)
    title = SCHEMES[served].title if served in SCHEMES else served
    return title if served == scheme else f"{title}, by the kernel"


@dataclass(frozen=True)
class Comparison:
    """Passes of each scheme at one load, one per seed and in the same order of seeds."""

    load: float
    results: Mapping[str, Sequence[PassResult]]
    settings: Mapping[str, Any] = field(default_factory=dict)
    """What a reader needs to repeat it, as text or nested mappings of text."""
    notes: Sequence[str] = ()
    """Sentences on what was missing or went wrong."""

    def __post_init__(self) -> None:
        digests = {name: [result.trace_digest for result in results] for name, results in self.results.items()}
        if not digests or not all(digests.values()):
            raise ValueError("a comparison needs at least one pass of each scheme")
        if len({tuple(each) for each in digests.values()}) != 1:
            raise ValueError("schemes were run over different traces and can't be compared flow by flow")

    @property
    def base(self) -> str:
        """The scheme that ratios are against: plain TCP, or the first where it was not run."""
        return BASE if BASE in self.results else next(iter(self.results))

    @cached_property
    def samples(self) -> dict[str, Flows]:
        """Flows by scheme."""
        base = self.results[self.base]
        return {name: flows.flows_of(results, SCALED, base) for name, results in self.results.items()}

    @cached_property
    def rows(self) -> list[SchemeRow]:
        """FCT and slowdown by size class and scheme."""
        return flows.rows(self.samples, self.base)

    @cached_property
    def services(self) -> list[ServiceRow]:
        """By service and scheme."""
        return flows.service_rows(self.samples)

    @cached_property
    def packets(self) -> list[Packets]:
        """Retransmissions and the like, by scheme."""
        return [flows.packets(name, results) for name, results in self.results.items()]

    def ratio(self, scheme: str, against: str, size_class: str, statistic: str) -> Interval:
        """FCT of one scheme divided by another's."""
        return flows.ratio(self.samples[scheme], self.samples[against], size_class, statistic)

    @cached_property
    def gains(self) -> list[str]:
        """How much of QCLIMB's gain over PIAS comes from the forest and how much from the footprint, a sentence
        each."""
        if not {"pias", "qclimb"} <= set(self.results):
            return []
        parts = {
            "qclimb": "forest and footprint",
            "qclimb-no-footprint": "forest alone",
            "qclimb-no-forest": "footprint alone",
        }
        sentences = []
        for size_class, statistic in (("small", "mean"), ("small", "p99"), ("medium", "mean"), ("all", "mean")):
            words = []
            for scheme, part in parts.items():
                if scheme in self.results:
                    words.append(f"{part} {self.ratio(scheme, 'pias', size_class, statistic).change()}")
            sentences.append(f"{size_class} flows, {statistic} FCT against PIAS: " + ", ".join(words) + ".")
        return sentences

    def to_json(self) -> dict[str, Any]:
        """The numbers, without the flows."""

        def interval(value: Interval) -> list[float | None]:
            return [x if x == x else None for x in (value.value, value.low, value.high)]

        return {
            "load": self.load,
            "base": self.base,
            "seeds": [result.seed for result in next(iter(self.results.values()))],
            "rows": [
                {key: interval(value) if isinstance(value, Interval) else value for key, value in vars(row).items()}
                for row in self.rows
            ],
            "services": [
                {k: (None if isinstance(v, float) and v != v else v) for k, v in vars(row).items()}
                for row in self.services
            ],
            "packets": [vars(row) for row in self.packets],
            "gains": self.gains,
            "settings": dict(self.settings),
            "notes": list(self.notes),
        }
