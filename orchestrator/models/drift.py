"""Whether bounds still hold: coverage and fallbacks by window, drift, and whether a new model is better on the newest.

A window is so many flows in the order in which they arrived, whether they asked for bounds or ended before they had to:
the target is of all flows, and those that ask are the larger and harder ones (live, a sixth of the flows had all of the
misses). Drift is said when the newest window has more misses than the target explains: a binomial tail below `DOUBT`,
so that one window in ten thousand is blamed wrongly; or when, by the same test, more than `FALLBACK_LIMIT` of the flows
with bounds were never seen by the model.

A new model is offered only if it is better on the newest window, which neither has learned from, by the interval score
(Winkler 1972; Gneiting and Raftery 2007, section 6.2) on log10(size): the width in decades, plus 2 / alpha for each
decade by which a size lies outside, alpha = 1 - target. It is proper: neither wide bounds nor narrow ones can cheat it.
And only if that window would not flag it in turn: a model that learned next to nothing of the new traffic can be a
little better than the old one, and to roll it out changes nothing. Where the old one's bounds are switched off
(bounds_off.py) there is nothing to beat, and a new model need only hold.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from qclimb.forest import Forest
from qclimb.record import HAD_FOREST_BOUNDS
from qclimb.record_rows import Rows

from .bounds import TARGET_COVERAGE
from .novelty import is_fallback

WINDOW_FLOWS = 2000
"""As many as calibration needs, so that two misses a window are what 99.9 % means."""

DOUBT = 1e-4
FALLBACK_LIMIT = 0.2
HOSTS_LEAST = 3
"""Of fewer nobody knows which one errs."""


@dataclass(frozen=True)
class Window:
    """How bounds did on some flows that came one after another.

    flows       that ended
    bounded     of these, with a forest's bounds, those of a fallback included; others ended before they had to ask
    misses      outside their bounds
    fallbacks   never seen by the model: bounds that say nothing
    """

    flows: int
    bounded: int
    misses: int
    fallbacks: int
    mean_log10_ratio: float

    @property
    def coverage(self) -> float:
        """Of the flows with bounds, the share within them; 1 where there are none."""
        return 1 - self.misses / self.bounded if self.bounded else 1.0

    @property
    def fallback_share(self) -> float:
        """Of the flows with bounds, the share that the model knew nothing of."""
        return self.fallbacks / self.bounded if self.bounded else 0.0

    def to_json(self) -> dict[str, Any]:
        """Plain JSON."""
        return {**asdict(self), "coverage": self.coverage, "fallback_share": self.fallback_share}


def window_of(lower: npt.ArrayLike, upper: npt.ArrayLike, size_bytes: npt.ArrayLike, others: int = 0) -> Window:
    """One window from bounds and sizes in bytes, and the number of flows without bounds."""
    low, high, size = (np.asarray(each, np.float64) for each in (lower, upper, size_bytes))
    fallback = is_fallback(high)
    told = ~fallback
    ratio = np.log10(np.maximum(high[told], 1) / np.maximum(low[told], 1))
    misses = int(((size < low) | (size > high)).sum())
    return Window(
        len(size) + others, len(size), misses, int(fallback.sum()), float(ratio.mean()) if told.any() else 0.0
    )


def reported(rows: Rows) -> list[Window]:
    """What hosts told of the bounds in force, by window, from the first flow on that had any."""
    has_bounds = (rows["flags"] & HAD_FOREST_BOUNDS) != 0
    begin = int(np.argmax(has_bounds)) if has_bounds.any() else len(rows)
    rows, has_bounds = rows[begin:], has_bounds[begin:]
    # What is left over belongs to the newest window.
    cuts = list(range(WINDOW_FLOWS, len(rows) + 1, WINDOW_FLOWS))[:-1]
    return [_reported(part) for part in np.split(rows, cuts)] if len(rows) else []


def _reported(rows: Rows) -> Window:
    told = rows[(rows["flags"] & HAD_FOREST_BOUNDS) != 0]
    return window_of(told["lower_bytes"], told["upper_bytes"], told["size_bytes"], len(rows) - len(told))


def without_worst(rows: Rows, hosts: Sequence[str], newest: Window) -> Window:
    """The newest of the `reported` windows less the host that blames the bounds most, so that no one host can.

    The whole window where fewer than three hosts are in it, or that one has more than half of its flows: then nobody
    knows who errs. `hosts`: of each row.
    """
    rows, names = rows[len(rows) - newest.flows :], np.asarray(hosts[len(hosts) - newest.flows :])
    found, host_of = np.unique(names, return_inverse=True)
    low, high, size = (rows[name] for name in ("lower_bytes", "upper_bytes", "size_bytes"))
    blames = (rows["flags"] & HAD_FOREST_BOUNDS != 0) & ((size < low) | (size > high) | is_fallback(high))
    if len(found) < HOSTS_LEAST:
        return newest
    is_worst = host_of == np.argmax(np.bincount(host_of, weights=blames))
    return newest if 2 * is_worst.sum() > len(rows) else _reported(rows[~is_worst])


def foretold(forest: Forest, rows: Rows) -> list[Window]:
    """What a model would have said of recorded flows, by window; also of flows that were only observed."""
    found = []
    for begin in range(0, len(rows), WINDOW_FLOWS):
        part = rows[begin : begin + WINDOW_FLOWS]
        bounds = forest.predict_bytes(part["features"][:, list(forest.feature_ids)])
        found.append(window_of(*bounds, part["size_bytes"]))
    return found


def drifted(windows: Sequence[Window], target: float = TARGET_COVERAGE) -> str | None:
    """Why the newest window can't be chance, as a sentence; None while it can."""
    if not windows or not windows[-1].flows:
        return None
    from scipy.stats import binom  # 60 MB, only where it is asked for

    newest = windows[-1]
    missed = outside(newest, target)
    if missed is not None:
        return missed
    if binom.sf(newest.fallbacks - 1, newest.bounded, FALLBACK_LIMIT) < DOUBT:
        return (
            f"{newest.fallbacks} of the newest {newest.bounded} flows with bounds were never seen by the model "
            f"(more than {100 * FALLBACK_LIMIT:g} %)"
        )
    return None


def outside(window: Window, target: float = TARGET_COVERAGE) -> str | None:
    """Why a window's coverage can't have been the target by chance, as a sentence; None while it can.

    The same as: Clopper and Pearson's upper limit of its coverage, one side, at 1 - `DOUBT`, lies below the target.
    """
    from scipy.stats import binom

    if not binom.sf(window.misses - 1, window.flows, 1 - target) < DOUBT:
        return None
    return (
        f"{window.misses} of the newest {window.flows} flows lie outside their bounds "
        f"({window.bounded} had any), {(1 - target) * window.flows:.1f} are expected at {100 * target:g} %"
    )


def score(
    lower: npt.ArrayLike, upper: npt.ArrayLike, size_bytes: npt.ArrayLike, target: float = TARGET_COVERAGE
) -> float:
    """Mean interval score in decades; less is better."""
    low, high, size = (np.log10(np.maximum(np.asarray(each, np.float64), 1)) for each in (lower, upper, size_bytes))
    outside = np.maximum(low - size, 0) + np.maximum(size - high, 0)
    return float(np.mean(high - low + 2 / (1 - target) * outside))


def offered(old: Forest, new: Forest, newest: Rows, in_use: bool = True) -> tuple[bool, str]:
    """Whether the new model beats the old one on the newest window, and why, as a sentence.

    `in_use`: False where the old one's bounds are off: the new model is then offered if the window does not flag it.
    """
    if not len(newest):
        return False, "there are no flows that neither model learned from"
    sizes = newest["size_bytes"]
    bounds = [forest.predict_bytes(newest["features"][:, list(forest.feature_ids)]) for forest in (old, new)]
    was, now = (window_of(*each, sizes) for each in bounds)
    before, after = (score(*each, sizes) for each in bounds)
    told = (
        f"interval score {before:.3f} -> {after:.3f}, misses {was.misses} -> {now.misses}, "
        f"fallbacks {was.fallbacks} -> {now.fallbacks} on the newest {now.flows} flows"
    )
    asked = (newest["flags"] & HAD_FOREST_BOUNDS) != 0
    if asked.any():  # what hosts would report of the new model: bounds of the flows that ask
        lower, upper = bounds[1]
        now = window_of(lower[asked], upper[asked], sizes[asked], int((~asked).sum()))
    blamed = drifted([now])
    wanted = after < before or not in_use
    if wanted and blamed is not None:
        return False, f"{told}; it would be flagged itself: {blamed}"
    return wanted, told
