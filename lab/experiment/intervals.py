"""How sure a measured number is: 95 % intervals, one way for each kind of repetition.

- Flows that share queues (one run, or several that are poured together): `over_blocks`, a bootstrap over blocks of
  neighbouring flows, paired where two schemes carried the same flows. A bootstrap over single flows would be too sure.
- Runs that share nothing (seeds, trials, passes): `over_runs`, Student's t. Ratios are averaged as logarithms, so that
  0.5 and 2 average to 1 and no interval of a ratio reaches 0.
- Successes among independent tries: `proportion`, Clopper and Pearson's exact interval.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

RESAMPLES = 2000
CONFIDENCE = 0.95
Floats = NDArray[np.float64]
Blocks = NDArray[np.int64]


@dataclass(frozen=True)
class Interval:
    """An estimate and its interval. `low` and `high` are NaN where there is nothing to tell them from (one run), and
    `value` too where nothing was measured."""

    value: float
    low: float
    high: float

    @property
    def is_measured(self) -> bool:
        """Whether there is a value at all."""
        return self.value == self.value

    @property
    def is_bounded(self) -> bool:
        """Whether it is known how sure the value is."""
        return self.low == self.low and self.high == self.high

    def text(self, digits: int = 2) -> str:
        """As in a table: `0.57 [0.50, 0.62]`, or the value alone."""
        value = f"{self.value:,.{digits}f}"
        return f"{value} [{self.low:,.{digits}f}, {self.high:,.{digits}f}]" if self.is_bounded else value

    def change(self) -> str:
        """A ratio as a change in per cent: `-43 % [-50, -38]`."""
        value = f"{100 * (self.value - 1):+.0f} %"
        return f"{value} [{100 * (self.low - 1):+.0f}, {100 * (self.high - 1):+.0f}]" if self.is_bounded else value

    def __str__(self) -> str:
        return self.text()


NOTHING = Interval(float("nan"), float("nan"), float("nan"))
"""Of what was not measured."""


def statistic(values: Floats, name: str) -> float:
    """`mean` or `p99` (linear interpolation); NaN of nothing."""
    if not values.size:
        return float("nan")
    return float(np.mean(values) if name == "mean" else np.quantile(values, 0.99))


def over_blocks(
    values: Floats, block: Blocks, name: str = "mean", base: Floats | None = None, blocks: int | None = None
) -> Interval:
    """The mean or p99 of flows, or its ratio to `base`'s, by bootstrap over blocks (percentiles of RESAMPLES draws).

    `block`: the number of each flow's block, from 0; `blocks`: how many there are, those without such flows too (else
    the highest number tells). `base`: the same flows in the same order under another scheme; both are drawn alike.
    The same numbers give the same interval.
    """
    if not values.size:
        return NOTHING
    count = int(block.max()) + 1 if blocks is None else blocks
    chance = np.random.default_rng(0)
    draws = chance.multinomial(count, np.full(count, 1 / count), size=RESAMPLES).astype(float)
    value, drawn = statistic(values, name), _resampled(values, block, draws, name)
    if base is not None:
        value, drawn = value / statistic(base, name), drawn / _resampled(base, block, draws, name)
    drawn = drawn[np.isfinite(drawn)]
    if not drawn.size or count < 2:
        return Interval(value, float("nan"), float("nan"))
    tail = 100 * (1 - CONFIDENCE) / 2
    low, high = np.percentile(drawn, [tail, 100 - tail])
    return Interval(value, float(low), float(high))


def over_runs(values: Iterable[float], ratios: bool = False) -> Interval:
    """The mean of one number a run, with Student's t; of `ratios` the geometric mean, with its interval on logarithms.

    NaNs (runs without such flows) are left out. One run has a value and no interval. Raises: ValueError (a ratio that
    is not above 0).
    """
    found = np.array([value for value in values if value == value], float)
    if not found.size:
        return NOTHING
    if ratios:
        if not (found > 0).all():
            raise ValueError(f"a ratio must be above 0: {found.tolist()}")
        found = np.log(found)
    middle, half = float(found.mean()), float("nan")
    if found.size > 1:
        from scipy.special import stdtrit

        t = float(stdtrit(found.size - 1, (1 + CONFIDENCE) / 2))
        half = t * float(np.std(found, ddof=1)) / found.size**0.5
    ends = (middle, middle - half, middle + half)
    return Interval(*(float(np.exp(end)) for end in ends)) if ratios else Interval(*ends)


def proportion(successes: int, tries: int, confidence: float = CONFIDENCE) -> Interval:
    """The share of successes with Clopper and Pearson's interval. Raises: ValueError."""
    if not 0 <= successes <= tries:
        raise ValueError(f"{successes} successes of {tries} tries")
    if not tries:
        return NOTHING
    from scipy.special import betaincinv

    tail = (1 - confidence) / 2
    low = float(betaincinv(successes, tries - successes + 1, tail)) if successes else 0.0
    high = float(betaincinv(successes + 1, tries - successes, 1 - tail)) if successes < tries else 1.0
    return Interval(successes / tries, low, high)


def _resampled(values: Floats, block: Blocks, draws: Floats, name: str) -> Floats:
    """The statistic under each resample; `draws` (resamples x blocks) says how often each block was drawn."""
    blocks = draws.shape[1]
    total = draws @ np.bincount(block, minlength=blocks).astype(float)
    total[total == 0] = np.nan
    if name == "mean":
        return np.asarray(draws @ np.bincount(block, values, minlength=blocks) / total)
    # Only the largest values can be the 99th percentile: count down from the top until 1 % is passed.
    order = np.argsort(values)[::-1]
    top = min(values.size, max(20, values.size // 16))
    while True:
        passed = np.cumsum(draws[:, block[order[:top]]], axis=1) > 0.01 * total[:, None]
        if top == values.size or passed[:, -1].all():
            return np.where(passed[:, -1], values[order[np.argmax(passed, axis=1)]], np.nan)
        top = min(values.size, 2 * top)
