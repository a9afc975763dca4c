"""The balanced class's share at each spine, so that all spines have the same load (MP-MLFQ, HPSR'24, III-B). Pure.

Spine s has the part c_s of the capacity and carries the share S_s of all bytes in classes that are pinned to it; the
balanced class carries B of them. Its share at s is (c_s - S_s) / B: then each spine carries c_s of the bytes, whatever
the load. There is none where S_s > c_s: the threshold that ends the class at fault lies too far out.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ..errors import ThresholdError
from .sizes import SizeDistribution

CLOSE = 1e-6
"""Of all bytes: what rounding may add to a spine."""


@dataclass(frozen=True)
class Spread:
    """Where bytes go.

    carried  share of all bytes by class, P of them
    share    of the balanced class by spine; all sum to 1
    """

    carried: tuple[float, ...]
    share: Mapping[str, float]


@dataclass(frozen=True)
class Fault:
    """A spine that is full before the last class. `fits`: the largest threshold that would do; None: none would."""

    index: int
    threshold_bytes: int
    spine: str
    carried: float
    part: float
    fits: int | None

    def __str__(self) -> str:
        fits = "no smaller one would do" if self.fits is None else f"{self.fits} fits"
        return (
            f"threshold_bytes[{self.index}] is {self.threshold_bytes}: spine {self.spine!r} would carry "
            f"{self.carried:.4f} of all bytes before the last priority, expected at most {self.part:.4f}; {fits}"
        )


def parts_of(rates: Mapping[str, float]) -> dict[str, float]:
    """Each spine's part of the capacity, by its links' rate (any unit). Raises ThresholdError."""
    for name, rate in rates.items():
        if not 0 < rate < float("inf"):  # refuses NaN too
            raise ThresholdError(f"rate of spine {name!r} is {rate:g}, expected more than 0")
    total = sum(rates.values())
    return {name: rate / total for name, rate in rates.items()}


def spread(sizes: SizeDistribution, threshold_bytes: Sequence[int], rates: Mapping[str, float]) -> Spread:
    """The shares for spines `rates`, in their order in the table. Raises ThresholdError where there are none."""
    found = fault(sizes, threshold_bytes, rates)
    if found is not None:
        raise ThresholdError(str(found))
    parts, carried = parts_of(rates), _carried(sizes, threshold_bytes)
    room = {
        name: max(part - sum(carried[:-1][place :: len(parts)]), 0.0)
        for place, (name, part) in enumerate(parts.items())
    }
    total = sum(room.values())
    return Spread(carried, {name: room[name] / total if total > CLOSE else part for name, part in parts.items()})


def fault(sizes: SizeDistribution, threshold_bytes: Sequence[int], rates: Mapping[str, float]) -> Fault | None:
    """The first threshold at which a spine is full, counted from the first class on; None: weights exist."""
    parts = parts_of(rates)
    names = list(parts)
    if len(threshold_bytes) % len(names):
        raise ThresholdError(f"{len(threshold_bytes)} thresholds on {len(names)} spines, expected whole rows")
    carried = _carried(sizes, threshold_bytes)
    upto = dict.fromkeys(names, 0.0)
    for k, threshold in enumerate(threshold_bytes):
        name = names[k % len(names)]
        upto[name] += carried[k]
        if upto[name] > parts[name] + CLOSE:
            begin = threshold_bytes[k - 1] if k else 0
            left = parts[name] - (upto[name] - carried[k])
            fits = _furthest(sizes, begin, threshold, left)
            return Fault(k, threshold, name, upto[name], parts[name], fits)
    return None


def mended(
    sizes: SizeDistribution, threshold_bytes: Sequence[int], rates: Mapping[str, float], segment_bytes: int = 1
) -> tuple[int, ...]:
    """The thresholds, those at fault moved down to whole segments that fit. Raises ThresholdError where none would."""
    found = list(threshold_bytes)
    while (wrong := fault(sizes, found, rates)) is not None:
        begin = found[wrong.index - 1] if wrong.index else 0
        fits = (wrong.fits or 0) // segment_bytes * segment_bytes
        if not begin < fits:
            raise ThresholdError(str(wrong))
        found[wrong.index] = fits
    return tuple(found)


def _carried(sizes: SizeDistribution, threshold_bytes: Sequence[int]) -> tuple[float, ...]:
    for before, after in pairwise((0, *threshold_bytes)):
        if not before < after:
            raise ThresholdError(f"thresholds are {list(threshold_bytes)}, expected ascending numbers above 0")
    _, upto, _ = sizes.at(np.array(threshold_bytes, dtype=np.float64))
    return tuple(float(each) for each in np.diff(np.concatenate([[0.0], upto, [1.0]])))


def _furthest(sizes: SizeDistribution, begin: int, end: int, part: float) -> int | None:
    """The largest whole byte above `begin`, below `end`, up to which no more than `part` of all bytes lie."""
    least = float(sizes.at([begin])[1][0])
    low, high = begin, end
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if sizes.at([middle])[1][0] - least <= part else (low, middle)
    return low if low > begin else None
