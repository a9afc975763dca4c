"""Which spines carry traffic, from what leaves tell of them; and what of a revision that forbids. Pure."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from qclimb.switch_state import SwitchState

from ..errors import ConflictError
from .revision import Revision

UP = "up"


@dataclass(frozen=True)
class Health:
    """What is held of spines: one that leaves tell otherwise of for long enough changes sides.

    down     those held to be down
    turning  those that leaves tell otherwise of now, and since when (s)
    """

    down: frozenset[str] = frozenset()
    turning: Mapping[str, float] = field(default_factory=dict)

    def after(
        self, names: Collection[str], reached: Collection[str], now_s: float, down_after_s: float, up_after_s: float
    ) -> "Health":
        """After a look that found packets to get to the spines `reached` of `names`."""
        down, turning = set(self.down & frozenset(names)), {}
        for name in names:
            is_down = name in down
            if is_down == (name not in reached):
                continue
            since = self.turning.get(name, now_s)
            if now_s - since < (up_after_s if is_down else down_after_s):
                turning[name] = since
            elif is_down:
                down.remove(name)
            else:
                down.add(name)
        return Health(frozenset(down), turning)


def reached(names: Collection[str], leaves: Mapping[str, SwitchState]) -> frozenset[str]:
    """The spines that no leaf has trouble with; a leaf that does not answer has no say.

    One that a single leaf can't reach counts as down for all: its priority would be served by other rules there.
    """
    return frozenset(
        name
        for name in names
        if all(name not in leaf.spines or leaf.spines[name].status == UP for leaf in leaves.values())
    )


def check_names(spines: Sequence[str], pinned: int, leaves: Mapping[str, SwitchState]) -> None:
    """Refuses spines that a leaf does not know, leaves that disagree on names, and more classes than a leaf can pin."""
    known = {leaf: state for leaf, state in leaves.items() if state.spines}
    for leaf, state in known.items():
        first = next(iter(known))
        if set(state.spines) != set(known[first].spines):
            raise ConflictError(
                f"switches {first} and {leaf} disagree on spines: {_listed(known[first].spines)} and "
                f"{_listed(state.spines)}, expected the same names"
            )
        for index, name in enumerate(spines):
            if name not in state.spines:
                raise ConflictError(
                    f"spines[{index}] is {name!r}: no uplink of switch {leaf} leads there, expected one of "
                    f"{_listed(state.spines)}"
                )
    for leaf, state in leaves.items():
        if state.path_backend == "none" and pinned:
            raise ConflictError(f"switch {leaf} pins no classes to spines, expected the path backend acl or cbf there")
        if state.pinned_classes_max is not None and pinned > state.pinned_classes_max:
            raise ConflictError(
                f"{pinned} classes are pinned to spines, switch {leaf} has entries for {state.pinned_classes_max}, "
                f"expected at most so many"
            )


def check_up(revision: Revision, leaves: Mapping[str, SwitchState]) -> None:
    """Refuses a class or a weight at a spine that a leaf can't reach now."""
    check_names(revision.intent.spines, _pinned(revision), leaves)
    weights = {} if revision.intent.path_weights is None else revision.intent.path_weights.share
    for leaf, state in leaves.items():
        for name in revision.intent.spines:
            seen = state.spines.get(name)
            if seen is not None and seen.status != UP:
                what = f"has the weight {weights[name]:.4f}" if weights.get(name) else "has classes"
                raise ConflictError(
                    f"spine {name!r} {what} and is {seen.status} at switch {leaf}"
                    f"{f' ({seen.reason})' if seen.reason else ''}, expected a spine that is up"
                )


def _pinned(revision: Revision) -> int:
    return sum(each.path in revision.intent.spines for each in revision.intent.classes)


def _listed(names: Collection[str]) -> str:
    return ", ".join(sorted(names))
