"""What thresholds are foretold to do to small, medium and large flows: the mean slowdown of processor sharing inside
each priority (MP-MLFQ, HPSR'24), the model by which thresholds are chosen. Pure.

A flow's byte b waits as its priority does: T_l = 1 / (1 - load * G(a_l)), as plan.thresholds has it, so that a flow of
x bytes is slowed down by (1 / x) * integral of T over its bytes. Without thresholds T = 1 / (1 - load) for all. It is a
forecast for one queue at this load, not a measurement: ratios between revisions mean more than the numbers.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .sizes import Floats, SizeDistribution
from .thresholds import check_wishes

SMALL_BYTES, MEDIUM_BYTES = 100_000, 10_000_000
"""PIAS's classes of flows."""


@dataclass(frozen=True)
class Slowdowns:
    """Mean slowdown of flows up to 100 KB, up to 10 MB, above; None where there are none."""

    small: float | None
    medium: float | None
    large: float | None


def slowdown_of(sizes: SizeDistribution, load: float, threshold_bytes: Sequence[int]) -> Floats:
    """The foretold slowdown of a flow of each cell's mean size."""
    check_wishes(load, 0, 1)
    ends = np.array([*threshold_bytes, np.inf])
    begins = np.array([0, *threshold_bytes], dtype=np.float64)
    _, before, _ = sizes.at(np.minimum(ends, float(sizes.upper_bytes[-1])))
    waits = 1 / (1 - load * before)
    size = sizes.mean_bytes[:, None]
    sent = np.clip(size - begins, 0, ends - begins)
    return np.asarray((sent * waits).sum(axis=1) / sizes.mean_bytes)


def slowdowns(sizes: SizeDistribution, load: float, threshold_bytes: Sequence[int]) -> Slowdowns:
    """The mean of each class of sizes."""
    each, size, share = slowdown_of(sizes, load, threshold_bytes), sizes.mean_bytes, sizes.share

    def mean(low: float, high: float) -> float | None:
        chosen = (size > low) & (size <= high)
        return float((each * share)[chosen].sum() / share[chosen].sum()) if chosen.any() else None

    return Slowdowns(mean(0, SMALL_BYTES), mean(SMALL_BYTES, MEDIUM_BYTES), mean(MEDIUM_BYTES, np.inf))
