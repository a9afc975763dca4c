"""When the bounds in force are switched off, and when they are on again. Pure: what was found in, what is due out.

Off where the model is older than the limit, or where a whole window of flows (drift.WINDOW_FLOWS) has a coverage below
the model's target that can't be chance. Off is a policy without `use_forest`: hosts go on as with flows that the model
never saw (PIAS; what system calls prove of a size still counts), and keep the model's file. The other kind of drift,
flows never seen, switches nothing off, for each of these falls back by itself.

Off stays off for that model, however well it would do later: hosts have no bounds then that could be counted, and what
comes and goes with the traffic would take the whole fabric with it. On again is a rollout that says `use_forest`: of a
better model that the watch offers, or of any revision that an operator takes; then flows are counted anew.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Self

from ..defaults import DAY_S
from ..models.drift import WINDOW_FLOWS, Window, outside


class Due(Enum):
    """What is to be done."""

    NOTHING = auto()
    SWITCH_OFF = auto()
    """Bring a policy without bounds into force."""
    FORGET = auto()
    """Somebody switched them on again since: count anew."""


@dataclass(frozen=True)
class Off:
    """Bounds that are off, or are to be.

    why         a sentence
    at          s since 1970
    generation  of the policy whose bounds they are
    """

    why: str
    at: float
    generation: int

    @classmethod
    def from_json(cls, found: dict[str, Any] | None) -> Self | None:
        """As `vars` gives it."""
        return None if found is None else cls(**found)


def why_off(
    windows: Sequence[Window],
    others: Sequence[Window],
    target: float,
    age_s: float,
    max_age_s: float,
    window_flows: int = WINDOW_FLOWS,
) -> str | None:
    """Why the bounds in force are not to be used any more, as a sentence; None while they are.

    `others`: the newest window without one host (drift.without_worst), which has to agree. `age_s`: of the model, since
    its training.
    """
    if age_s > max_age_s:
        return f"the model was trained {age_s / DAY_S:.3g} days ago, expected at most {max_age_s / DAY_S:g}"
    if windows and windows[-1].flows >= window_flows and outside(others[-1], target):
        return outside(windows[-1], target)
    return None


def due(off: Off | None, use_forest: bool, generation: int, running: int | None) -> Due:
    """What follows from what is remembered (`off`) and the policy in force.

    `running`: the rollout that is under way. One of ours that did not come into force (the orchestrator was stopped
    before it did) is begun again; a later policy that has the bounds on is somebody's will.
    """
    if off is None or not use_forest or running is not None:
        return Due.NOTHING
    return Due.FORGET if generation > off.generation else Due.SWITCH_OFF
