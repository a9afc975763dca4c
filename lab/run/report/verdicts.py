"""What qclimb claims of its lab, each claim beside what was measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

from lab.experiment.claims import AtMost, Below, Claim, NotWorse, Outcome, judge
from lab.experiment.flows import Packets
from lab.run.report.comparison import Comparison, title_of
from lab.workload.schemes import BY_KERNEL

BUSY_LOAD = 0.5
"""At a load above this QCLIMB must be better than PIAS, at one below not worse."""
LARGE_LIMIT = 1.15
"""Large flows' mean FCT may be this much of plain TCP's."""


@dataclass(frozen=True)
class Verdict:
    """One claim and what was seen."""

    outcome: Outcome
    claim: str
    seen: str

    def __str__(self) -> str:
        return f"{self.outcome}: {self.claim} ({self.seen})"


def verdicts(comparison: Comparison) -> list[Verdict]:
    """The claims that this comparison can judge."""
    at = f"load {comparison.load:g}"
    needs, wanted = (Below(), "better") if comparison.load > BUSY_LOAD else (NotWorse(), "not worse")
    claims = [
        (Claim("pias", "tcp", "small", name, Below()), f"small flows' {name} FCT is better in PIAS than in plain TCP")
        for name in ("mean", "p99")
    ]
    claims += [
        (Claim("qclimb", "pias", "small", name, needs), f"small flows' {name} FCT is {wanted} in QCLIMB than in PIAS")
        for name in ("mean", "p99")
    ]
    words = f"large flows' mean FCT in QCLIMB is at most {LARGE_LIMIT - 1:.0%} above plain TCP's"
    claims.append((Claim("qclimb", "tcp", "large", "mean", AtMost(LARGE_LIMIT)), words))
    for scheme in comparison.results:
        if scheme.endswith(BY_KERNEL) and (served := scheme.removesuffix(BY_KERNEL)) in comparison.results:
            claims += [
                (
                    Claim(scheme, served, size_class, "mean", NotWorse()),
                    f"{size_class} flows' mean FCT is not worse in "
                    f"{title_of(served)} by the kernel than by the library",
                )
                for size_class in ("small", "all")
            ]
    found = []
    for claim, words in claims:
        if {claim.scheme, claim.base} <= set(comparison.results):
            seen = comparison.ratio(claim.scheme, claim.base, claim.size_class, claim.statistic)
            found.append(Verdict(judge(claim.needs, [seen]).outcome, f"{at}: {words}", f"ratio {seen}"))
    if {"tcp", "qclimb"} <= set(comparison.results):
        found.append(_spurious(comparison.load, comparison.packets))
    return found


def _spurious(load: float, packets: Sequence[Packets]) -> Verdict:
    """Counts of rare events: within three standard deviations of a difference of Poisson counts, as shares of
    segments."""
    by_name = {row.scheme: row for row in packets}
    tcp, ours = by_name["tcp"], by_name["qclimb"]
    noise = 3 * sqrt(tcp.spurious + ours.spurious + 1) / max(1, ours.segments)
    return Verdict(
        Outcome.HOLDS if ours.spurious_share <= tcp.spurious_share + noise else Outcome.FAILS,
        f"load {load:g}: QCLIMB's spurious retransmissions are within noise of plain TCP's",
        f"{ours.spurious} of {ours.segments} segments, plain TCP {tcp.spurious} of {tcp.segments}",
    )
