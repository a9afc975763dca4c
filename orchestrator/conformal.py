"""Calibration of a forest's bounds with a guarantee: conformalised quantile regression.

Romano, Patterson and Candes (NeurIPS 2019), each end by itself, in the form of nested sets (Gupta, Kuchibhotla and
Ramdas, 2022): a leaf's interval in log(size) is stretched by s of its own width, so that intervals grow with s, and a
flow's *score* is the least s that covers it. With the k-th smallest score of n flows that no tree has seen,
k = ceil((n + 1)(1 - alpha)), a further flow is beyond that end with a probability of at most alpha, **if it is
exchangeable with the n**. Later flows of a drifting traffic are not; so coverage is measured on later windows, too.

What a leaf knows exactly (width 0) stays exact: such a flow's score is infinite where the leaf was wrong. Where the
k-th score is infinite, or there are fewer than k, no stretch can promise the target: that is said, and the one is taken
that covers all flows that any could cover.
"""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from .trees import Float32s, Floats, Stretch, Tree

MOST = 1.0
"""No end is moved by more than the interval's width: what needs more is not learnt, and wide bounds help nobody."""


def needed(target: float) -> int:
    """The least number of flows with which a coverage (half of 1 - target beyond each end) can be guaranteed."""
    return math.ceil(2 / (1 - target)) - 1


def scores(trees: Sequence[Tree], rows: Float32s, size_bytes: Floats, depth: int) -> tuple[Floats, Floats]:
    """The least stretch of the lower, and of the upper end, that covers each row; 0 within, infinite: none does."""
    log = np.log(size_bytes)
    below, above = np.full(len(rows), np.inf), np.full(len(rows), np.inf)
    for tree in trees:
        lower, upper = (np.log(np.maximum(end, 1)) for end in (tree.lower, tree.upper))
        leaf = tree.leaves(rows, depth)
        width = (upper - lower)[leaf]
        with np.errstate(divide="ignore", invalid="ignore"):
            for found, far in ((below, lower[leaf] - log), (above, log - upper[leaf])):
                # A tree whose leaf no row fell in says nothing: its interval is (inf, 0).
                far = np.where(tree.lower[leaf] <= tree.upper[leaf], far, np.inf)
                np.minimum(found, np.where(far <= 0, 0.0, far / np.maximum(width, 0)), out=found)
    return below, above


def quantile(score: Floats, alpha: float) -> float:
    """The k-th smallest of n scores, k = ceil((n + 1)(1 - alpha)); infinite where there are too few."""
    k = math.ceil((len(score) + 1) * (1 - alpha) - 1e-9)
    return float(np.partition(score, k - 1)[k - 1]) if k <= len(score) else math.inf


def calibrated(
    trees: Sequence[Tree],
    rows: Float32s,
    size_bytes: Floats,
    depth: int,
    target: float,
    footprint_bytes: npt.NDArray[np.uint64] | None = None,
) -> Stretch:
    """The least stretch of each end for a coverage of `target`, from flows that no tree has seen.

    `footprint_bytes`: what system calls prove of each size: an upper bound is never below it.
    """
    below, above = scores(trees, rows, size_bytes, depth)
    if footprint_bytes is not None:
        above = np.where(footprint_bytes >= size_bytes, 0.0, above)
    alpha = (1 - target) / 2
    reached = quantile(below, alpha) <= MOST, quantile(above, alpha) <= MOST
    return Stretch(_useful(below, alpha), _useful(above, alpha), reached)


def _useful(score: Floats, alpha: float) -> float:
    """The quantile; where it promises too much, the stretch that covers every flow that a stretch can cover."""
    wanted = quantile(score, alpha)
    return wanted if wanted <= MOST else float(np.max(score[score <= MOST], initial=0.0))
