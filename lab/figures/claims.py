"""A claim of a paper as a ratio of two schemes' statistics, and the sentence that holds ours against it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

NEAR = 0.1
"""What is this close to the paper's range, as a share of the range's nearer end, is called reproduced within it."""


@dataclass(frozen=True)
class Claim:
    """`scheme` / `base` of a statistic: between `low` and `high` in the paper's `where` (equal: one number)."""

    where: str
    scheme: str
    base: str
    name: str
    size_class: str
    low: float
    high: float
    cases: tuple[str, ...] = ()
    """Of those only; empty: all."""
    loads: tuple[float, ...] = ()
    """Of those only, as far as they were run; empty: all."""


CROSSED = 0.05
"""What lies beyond 1 by more than this, where the paper's range does not, is not called reproduced within anything."""
NOTICED = 0.02
"""A ratio nearer to 1 than this has no direction, and reproduces no claim that has one, however near that begins."""


ALLOWED = "no difference, which the paper's `up to` allows"
"""Of a range that ends at 1: ours is in it, and shows nothing of what the paper shows."""


def distance(low: float, high: float, found: Sequence[float]) -> float:
    """By how much of the nearer end the farthest of ours lies outside; 0: all inside."""
    over = max(found) / high - 1
    under = 1 - min(found) / low
    return max(0.0, over, under)


def judged(claim: Claim, found: Sequence[float]) -> str:
    """The sentence."""
    what = "overall" if claim.size_class == "all" else claim.size_class
    here = f"{min(found):.2f}" if max(found) - min(found) < 0.005 else f"{min(found):.2f} to {max(found):.2f}"
    there = f"{claim.low:.2f}" if claim.low == claim.high else f"{claim.low:.2f} to {claim.high:.2f}"
    return (
        f"{claim.where}, {claim.scheme} / {claim.base}, {what} {claim.name}: here {here}, the paper {there}: "
        f"{status(claim, found)}."
    )


def status(claim: Claim, found: Sequence[float]) -> str:
    """Reproduced; within so much; the direction; or not."""
    if not all(value == value for value in found):
        return "not measured (no such flows)"
    away = distance(claim.low, claim.high, found)
    if away <= NEAR and _is_allowed(claim, found):
        return ALLOWED
    if away < 0.005:
        return "reproduced"
    crossed = (claim.high <= 1 and max(found) > 1 + CROSSED) or (claim.low >= 1 and min(found) < 1 - CROSSED)
    lost = (claim.high < 1 - NOTICED <= max(found)) or (claim.low > 1 + NOTICED >= min(found))
    if away <= NEAR and not crossed and not lost:
        return f"reproduced within {100 * away:.0f} %"
    if (claim.high < 1 and max(found) < 1 - NOTICED) or (claim.low > 1 and min(found) > 1 + NOTICED):
        return "the direction only"
    return "not reproduced"


def _is_allowed(claim: Claim, found: Sequence[float]) -> bool:
    """Whether ours show no difference where the paper's range goes from a clear one to none."""
    less = claim.high == 1 and claim.low < 1 - CROSSED and min(found) > 1 - NOTICED
    more = claim.low == 1 and claim.high > 1 + CROSSED and max(found) < 1 + NOTICED
    return less or more


def in_a_line(claims: Sequence[Claim], found: Sequence[Sequence[float]]) -> str:
    """How many of the claims were reproduced, for the index."""
    each = [status(claim, values) for claim, values in zip(claims, found, strict=True)]
    good = sum(one.startswith("reproduced") for one in each)
    half = sum(one == "the direction only" for one in each)
    none = each.count(ALLOWED)
    rest = len(each) - good - half - none
    between = f" {none} without a difference where the paper says `up to`," if none else ""
    return f"of {len(each)} claims {good} reproduced (within 10 %),{between} {half} in direction only, {rest} not."
