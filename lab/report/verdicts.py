"""What qclimb claims of its lab, each claim beside what was measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import sqrt

from lab.metrics import Interval, Packets
from lab.report.comparison import Comparison

BUSY_LOAD = 0.5
"""At a load above this QCLIMB must be better than PIAS, at one below not worse."""
LARGE_LIMIT = 1.15
"""Large flows' mean FCT may be this much of plain TCP's."""
NOT_WORSE = 1.05
"""A ratio up to this counts as not worse where the interval contains 1."""


class Outcome(StrEnum):
    """Whether a claim was seen to hold."""

    HOLDS = "holds"
    FAILS = "does not hold"
    UNRESOLVED = "not resolved"


@dataclass(frozen=True)
class Verdict:
    """One claim and what was seen."""

    outcome: Outcome
    claim: str
    seen: str

    def __str__(self) -> str:
        return f"{self.outcome}: {self.claim} ({self.seen})"


def _shown(value: Interval) -> str:
    return f"ratio {value.value:.2f} [{value.low:.2f}, {value.high:.2f}]"


def _better(value: Interval) -> Outcome:
    """Better beyond doubt, worse beyond doubt, or neither."""
    return Outcome.HOLDS if value.high < 1 else Outcome.FAILS if value.low > 1 else Outcome.UNRESOLVED


def _not_worse(value: Interval) -> Outcome:
    if value.value <= NOT_WORSE and value.low <= 1:
        return Outcome.HOLDS
    return Outcome.FAILS if value.low > 1 else Outcome.UNRESOLVED


def verdicts(comparison: Comparison) -> list[Verdict]:
    """The claims that this comparison can judge."""
    have, load, found = set(comparison.results), comparison.load, []
    for statistic in ("mean", "p99"):
        if {"tcp", "pias"} <= have:
            value = comparison.ratio("pias", "tcp", "small", statistic)
            found.append(
                Verdict(
                    _better(value),
                    f"load {load:g}: small flows' {statistic} FCT is better in PIAS than in plain TCP",
                    _shown(value),
                )
            )
    for statistic in ("mean", "p99"):
        if {"pias", "qclimb"} <= have:
            value = comparison.ratio("qclimb", "pias", "small", statistic)
            busy = load > BUSY_LOAD
            wanted = "better" if busy else "not worse"
            found.append(
                Verdict(
                    _better(value) if busy else _not_worse(value),
                    f"load {load:g}: small flows' {statistic} FCT is {wanted} in QCLIMB than in PIAS",
                    _shown(value),
                )
            )
    if {"tcp", "qclimb"} <= have:
        value = comparison.ratio("qclimb", "tcp", "large", "mean")
        outcome = Outcome.HOLDS if value.value <= LARGE_LIMIT else Outcome.FAILS
        found.append(
            Verdict(
                outcome if not value.low <= LARGE_LIMIT < value.value else Outcome.UNRESOLVED,
                f"load {load:g}: large flows' mean FCT in QCLIMB is at most {LARGE_LIMIT - 1:.0%} above plain TCP's",
                _shown(value),
            )
        )
        found.append(_spurious(load, comparison.packets))
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
