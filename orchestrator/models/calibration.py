"""Calibration of a forest's bounds with a guarantee: conformalised quantile regression.

Romano, Patterson and Candes (NeurIPS 2019), each end by itself, in the form of nested sets (Gupta, Kuchibhotla and
Ramdas, 2022): a leaf's interval in log(size) is stretched by s of its own width, so that intervals grow with s, and a
flow's *score* is the least s that covers it. With the k-th smallest score of n flows that no tree was grown on,
k = ceil((n + 1)(1 - alpha)), a further flow is beyond that end with a probability of at most alpha, **if it is
exchangeable with the n**. Later flows of a drifting traffic are not; so coverage is measured on later windows, too.

The n flows end up in the leaves' extremes, as all flows do that were seen. So each is scored against leaves that know
the n - 1 others: the further flow will meet leaves that know n. Leaves that knew none of the n would ask for a stretch
on top of what learning them widens. The guarantee stands: full conformal prediction scores each of the n against the
others *and* the further flow, whose part can only widen an interval and lower a score.

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
    """The least stretch of the lower, and of the upper end, that covers each row once all others are learned.

    0 within, infinite where no stretch does. The trees stay as they are.
    """
    log = np.log(size_bytes)
    below, above = np.full(len(rows), np.inf), np.full(len(rows), np.inf)
    for tree in trees:
        leaf = tree.leaves(rows, depth)
        least, most = _others(leaf, size_bytes)
        low, high = np.minimum(tree.lower[leaf], least), np.maximum(tree.upper[leaf], most)
        lower, upper = (np.log(np.maximum(end, 1)) for end in (low, high))
        with np.errstate(divide="ignore", invalid="ignore"):
            for found, far in ((below, lower - log), (above, log - upper)):
                # A tree whose leaf no other row fell in says nothing: its interval is (inf, 0).
                far = np.where(low <= high, far, np.inf)
                np.minimum(found, np.where(far <= 0, 0.0, far / np.maximum(upper - lower, 0)), out=found)
    return below, above


def _others(leaf: npt.NDArray[np.intp], size_bytes: Floats) -> tuple[Floats, Floats]:
    """The least and the largest size of the other rows in each row's leaf; inf and 0 where it is alone."""
    order = np.lexsort((size_bytes, leaf))
    size, begins = size_bytes[order], np.flatnonzero(np.diff(leaf[order], prepend=-1))
    counts = np.diff(begins, append=len(order))
    ends = begins + counts - 1
    least, most = np.repeat(size[begins], counts), np.repeat(size[ends], counts)
    alone = counts == 1
    least[begins] = np.where(alone, np.inf, size[np.minimum(begins + 1, ends)])
    most[ends] = np.where(alone, 0.0, size[np.maximum(ends - 1, begins)])
    found = np.empty(len(order)), np.empty(len(order))
    found[0][order], found[1][order] = least, most
    return found


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
    """The least stretch of each end for a coverage of `target`, from flows that no tree was grown on.

    They must be learned afterwards (`Tree.learn`). `footprint_bytes`: what system calls prove of each size: an upper
    bound is never below it.
    """
    below, above = scores(trees, rows, size_bytes, depth)
    if footprint_bytes is not None:
        above = np.where(footprint_bytes >= size_bytes, 0.0, above)
    return least(below, above, target)


def least(below: Floats, above: Floats, target: float) -> Stretch:
    """The least stretch of each end for a coverage of `target`, from scores."""
    alpha = (1 - target) / 2
    reached = quantile(below, alpha) <= MOST, quantile(above, alpha) <= MOST
    return Stretch(_useful(below, alpha), _useful(above, alpha), reached)


def _useful(score: Floats, alpha: float) -> float:
    """The quantile; where it promises too much, the stretch that covers every flow that a stretch can cover."""
    wanted = quantile(score, alpha)
    return wanted if wanted <= MOST else float(np.max(score[score <= MOST], initial=0.0))
