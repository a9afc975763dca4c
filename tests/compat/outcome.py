"""What one run of a program showed, and what is new of it under the library. Values only: nothing runs here.

Its invariant: no difference is kept quiet but one for the better (`x -> passed`), and no time is compared.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

PASSED = "passed"
SKIPPED = "skipped"
FAILED = "failed"
ABSENT = "absent"
"""A result that one of two runs does not have: a suite that crashed or hung tells nothing of its tests."""


@dataclass(frozen=True)
class Outcome:
    """One run of one program.

    results  the word of each check by its name: PASSED, SKIPPED, FAILED (a reason may follow: `failed: ...`), or any
             text that must be the same in every run, e.g. the number of its errors
    rate     what the run itself says it did in a second; shown as a ratio, never judged
    rate_of  its unit, e.g. `requests/s`
    """

    results: Mapping[str, str]
    rate: float | None = None
    rate_of: str = ""

    def __post_init__(self) -> None:
        if not self.results:
            raise ValueError(
                "an outcome holds no result, expected at least one: a run that checks nothing passes nothing"
            )
        if not (self.rate is None or 0 <= self.rate < float("inf")):
            raise ValueError(f"rate is {self.rate}, expected a finite number >= 0")

    def counts(self) -> Counter[str]:
        """How many results begin with which word; what is none of the three words counts as passed: it is a value."""
        words = (word.split(":")[0] for word in self.results.values())
        return Counter(word if word in (SKIPPED, FAILED) else PASSED for word in words)

    def failed(self) -> tuple[str, ...]:
        """The names of what failed, with the reasons."""
        return tuple(f"{name}: {word}" for name, word in self.results.items() if _has_failed(word))


@dataclass(frozen=True)
class Difference:
    """A result that is not what it was without the library."""

    name: str
    bare: str
    under: str

    def __str__(self) -> str:
        return f"{self.name}: {self.bare} -> {self.under}"


@dataclass(frozen=True)
class Comparison:
    """`failures` are what the library is to blame for until somebody shows otherwise; `mended` passes only with it."""

    failures: tuple[Difference, ...]
    mended: tuple[Difference, ...]
    rate_ratio: float | None = field(default=None)


def compare(bare: Outcome, under: Outcome) -> Comparison:
    """Result by result, by name; a reason behind `failed:` may differ, as reasons name ports and addresses."""
    failures: list[Difference] = []
    mended: list[Difference] = []
    for name in sorted({*bare.results, *under.results}):
        was, now = bare.results.get(name, ABSENT), under.results.get(name, ABSENT)
        if was == now or (_has_failed(was) and _has_failed(now)):
            continue
        difference = Difference(name, was, now)
        (mended if now == PASSED else failures).append(difference)
    ratio = under.rate / bare.rate if under.rate is not None and bare.rate else None
    return Comparison(tuple(failures), tuple(mended), ratio)


def verdict(holds: bool, reason: object = "") -> str:
    """PASSED, or FAILED with its reason on one line."""
    if holds:
        return PASSED
    said = " ".join(str(reason).split())
    return f"{FAILED}: {said[:200]}" if said else FAILED


def _has_failed(word: str) -> bool:
    return word.split(":")[0] == FAILED
