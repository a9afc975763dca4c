"""What a claim needs in order to hold, and the judgement of what was measured against it.

A claim is about a ratio of two schemes' statistics, and is always judged against an interval: a value without one
proves nothing. Needs of our own (`Below`, `AtMost`, `NotWorse`, `AtLeast`) hold, do not hold, or are not resolved.
`AsPaper` holds ours against a paper's numbers. Reproduced means: the paper's sign, beyond doubt; within TOLERANCE of
its numbers, of both ends of a range; at the same loads. No difference reproduces nothing. A ratio that the paper itself
has near 1 can hardly fail that test, so it is a bound, and is said to be kept or broken.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import StrEnum

from lab.experiment.intervals import Interval

TOLERANCE = 0.1
"""So much of a paper's number, either way, is called reproduced."""
NOTICED = 0.02
"""A ratio nearer to 1 than this shows no difference."""
NEAR = 0.1
"""A paper's range that lies this near to 1 as a whole, either way, is a bound."""


class Outcome(StrEnum):
    """What a judgement comes to."""

    HOLDS = "holds"
    FAILS = "does not hold"
    REPRODUCED = "reproduced"
    AT_SOME_LOADS = "as in the paper, at some of its loads"
    DIRECTION = "the direction only"
    NOT_REPRODUCED = "not reproduced"
    KEPT = "bound kept"
    BROKEN = "bound broken"
    UNRESOLVED = "not resolved"
    NOT_MEASURED = "not measured"


@dataclass(frozen=True)
class Below:
    """Less than `limit`, beyond doubt."""

    limit: float = 1.0

    def outcome(self, seen: Interval) -> Outcome:
        """Of one interval."""
        return _either(seen.high < self.limit, seen.low >= self.limit)


@dataclass(frozen=True)
class AtMost:
    """No more than `limit`."""

    limit: float

    def outcome(self, seen: Interval) -> Outcome:
        """Of one interval."""
        return _either(seen.high <= self.limit, seen.low > self.limit)


@dataclass(frozen=True)
class AtLeast:
    """No less than `limit`."""

    limit: float

    def outcome(self, seen: Interval) -> Outcome:
        """Of one interval."""
        return _either(seen.low >= self.limit, seen.high < self.limit)


@dataclass(frozen=True)
class NotWorse:
    """Longer by no more than `margin`; what is longer beyond doubt, and may be by more than that, fails."""

    margin: float = 0.05

    def outcome(self, seen: Interval) -> Outcome:
        """Of one interval."""
        return _either(seen.high <= 1 + self.margin, seen.low > 1)


@dataclass(frozen=True)
class AsPaper:
    """Between `low` and `high` (equal: one number), as the paper has it over `loads` (empty: it names none)."""

    low: float
    high: float
    loads: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if not 0 < self.low <= self.high:
            raise ValueError(f"a paper's range must go up from above 0: {self.low} to {self.high}")

    @property
    def is_bound(self) -> bool:
        """Whether the paper itself has next to no difference."""
        return max(1 / self.low, self.high) <= 1 + NEAR + 1e-9

    @property
    def is_less(self) -> bool:
        """The paper's sign."""
        return self.low * self.high < 1

    @property
    def is_up_to(self) -> bool:
        """Whether its range goes from a clear difference to none: `up to`."""
        return self.high > 1 - NOTICED - 1e-9 if self.is_less else self.low < 1 + NOTICED + 1e-9

    def __str__(self) -> str:
        return f"{self.low:.2f}" if self.low == self.high else f"{self.low:.2f} to {self.high:.2f}"


Need = Below | AtMost | AtLeast | NotWorse | AsPaper


@dataclass(frozen=True)
class Claim:
    """`scheme` / `base` of a statistic (`mean`, `p99`) of a class of flows, and what that needs in order to hold."""

    scheme: str
    base: str
    size_class: str
    statistic: str
    needs: Need
    where: str = ""
    """In the paper, or in our own words."""
    cases: tuple[str, ...] = ()
    """Of those only; empty: all."""


@dataclass(frozen=True)
class Verdict:
    """What a judgement comes to, and why where the outcome alone does not tell."""

    outcome: Outcome
    why: str = ""

    def __str__(self) -> str:
        return f"{self.outcome}, {self.why}" if self.why else str(self.outcome)


def judge(needs: Need, seen: Sequence[Interval], loads: Iterable[float] = ()) -> Verdict:
    """All that was seen against what is needed. `loads`: at which it was measured; of a paper's own only."""
    if not seen or not all(each.is_measured for each in seen):
        return Verdict(Outcome.NOT_MEASURED, "no such flows" if seen else "none of its loads was run")
    if not isinstance(needs, AsPaper):
        found = [needs.outcome(each) for each in seen]
        return Verdict(next((one for one in (Outcome.FAILS, Outcome.UNRESOLVED) if one in found), Outcome.HOLDS))
    return _bound(needs, seen, set(loads)) if needs.is_bound else _against_paper(needs, seen, set(loads))


def said(claim: Claim, seen: Sequence[Interval], loads: Iterable[float] = ()) -> str:
    """The sentence."""
    loads = sorted(set(loads))
    which = "overall" if claim.size_class == "all" else claim.size_class
    what = f"{claim.scheme} / {claim.base}, {which} {claim.statistic}"
    there = f", the paper {claim.needs}{over(claim.needs.loads)}" if isinstance(claim.needs, AsPaper) else ""
    verdict = judge(claim.needs, seen, loads)
    return f"{f'{claim.where}, ' if claim.where else ''}{what}: here {span(seen)}{over(loads)}{there}: {verdict}."


def span(seen: Sequence[Interval]) -> str:
    """One with its interval; of several the least and the most."""
    measured = [each for each in seen if each.is_measured]
    if len(measured) < 2:
        return measured[0].text() if measured else "nothing"
    values = [each.value for each in measured]
    return f"{min(values):.2f} to {max(values):.2f}"


def over(loads: Sequence[float]) -> str:
    """` at 0.5 and 0.7`, ` over 7 loads, 0.3 to 0.9`, or nothing."""
    if len(loads) < 3:
        return f" at {' and '.join(f'{load:g}' for load in loads)}" if loads else ""
    return f" over {len(loads)} loads, {min(loads):g} to {max(loads):g}"


ONE_RUN = "one run has no interval"
COUNTED = {
    Outcome.REPRODUCED: f"reproduced (the sign, within {TOLERANCE:.0%}, at the same loads)",
    Outcome.AT_SOME_LOADS: "as in the paper at some of its loads",
    Outcome.DIRECTION: "in direction only",
    Outcome.KEPT: "bounds kept",
    Outcome.BROKEN: "bounds broken",
    Outcome.UNRESOLVED: "not resolved",
    Outcome.NOT_REPRODUCED: "not reproduced",
    Outcome.NOT_MEASURED: "not measured",
    Outcome.HOLDS: "hold",
    Outcome.FAILS: "do not hold",
}


def tally(outcomes: Sequence[Outcome]) -> str:
    """How many came to what: `of 6 claims 1 reproduced (...), 2 not resolved, 3 not reproduced.`"""
    parts = [f"{outcomes.count(one)} {words}" for one, words in COUNTED.items() if one in outcomes]
    return f"of {len(outcomes)} claims {', '.join(parts)}."


def _either(holds: bool, fails: bool) -> Outcome:
    """An interval without ends is neither."""
    return Outcome.HOLDS if holds else Outcome.FAILS if fails else Outcome.UNRESOLVED


def _bound(needs: AsPaper, seen: Sequence[Interval], loads: AbstractSet[float]) -> Verdict:
    """No farther from 1 than the paper's farthest, and what is not noticed."""
    low, high = min(needs.low, 1) / (1 + NOTICED), max(needs.high, 1) * (1 + NOTICED)
    there = len(loads & set(needs.loads))
    of = f", at {there} of its {len(needs.loads)} loads" if there < len(needs.loads) else ""
    if any(each.low > high or each.high < low for each in seen):
        return Verdict(Outcome.BROKEN, f"{low:.2f} to {high:.2f}")
    if all(low <= each.low and each.high <= high for each in seen):
        return Verdict(Outcome.KEPT, f"{low:.2f} to {high:.2f}{of}")
    bound = f"a bound of {low:.2f} to {high:.2f}"
    return Verdict(Outcome.UNRESOLVED, bound if all(each.is_bounded for each in seen) else ONE_RUN)


def _against_paper(needs: AsPaper, seen: Sequence[Interval], loads: AbstractSet[float]) -> Verdict:
    """The sign first, then the numbers, then the loads. Turned over where the paper's sign is `more`."""
    if not needs.is_less:
        turned = AsPaper(1 / needs.high, 1 / needs.low, needs.loads)
        return _against_paper(turned, [Interval(1 / each.value, 1 / each.high, 1 / each.low) for each in seen], loads)
    best, worst = min(each.value for each in seen), max(each.value for each in seen)
    shows = [each for each in seen if each.value < 1 - NOTICED]
    if needs.is_up_to:  # a difference somewhere, and nowhere the other way
        others = [each for each in seen if each.value > 1 + NOTICED]
        if not shows or any(each.low > 1 for each in others):
            return Verdict(Outcome.NOT_REPRODUCED)
        sure = min(seen, key=lambda each: each.value).high < 1 and not others
    else:
        if len(shows) < len(seen):
            return Verdict(Outcome.NOT_REPRODUCED)
        sure = all(each.high < 1 for each in seen)
    if not sure:
        is_one_run = not all(each.is_bounded for each in seen)
        return Verdict(Outcome.UNRESOLVED, ONE_RUN if is_one_run else "the interval reaches 1")
    away = max(0.0, needs.low / best - 1, worst / needs.high - 1)
    lacking = [load for load in needs.loads if load not in loads]
    if not lacking:  # then the paper's ends were measured too: ours have to come near to them
        away = max(away, best / needs.low - 1, 0 if needs.is_up_to else needs.high / worst - 1)
    if away > TOLERANCE:
        return Verdict(Outcome.DIRECTION)
    if lacking:
        return Verdict(Outcome.AT_SOME_LOADS, f"{len(needs.loads) - len(lacking)} of {len(needs.loads)}")
    return Verdict(Outcome.REPRODUCED, f"within {100 * away:.0f} %" if away >= 0.005 else "")
