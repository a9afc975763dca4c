"""What hundreds of subscribers have in common is made once: a moment's data and leaves, a round's messages.

A moment may last for days, and clients choose the keys, so what is kept is bounded: so many things a moment, and a
round's things until the next round.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from switchd.board import Snapshot
from switchd.gnmi.tree import Tree

KEPT_MOST = 256
"""things made of one moment; what is asked for beyond is made each time"""
ROUND_S = 0.25
"""what is due within so long is told together, of one reading of the counters"""
Made = TypeVar("Made")


class Same:
    """A key that is equal to another for the very same object only; it keeps the object, so no other takes its id."""

    __slots__ = ("_of",)

    def __init__(self, of: object) -> None:
        self._of = of

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self._of is other._of

    def __hash__(self) -> int:
        return id(self._of)


@dataclass(frozen=True, eq=False)
class Moment:
    """Configuration and state of a snapshot as one tree, not to be changed."""

    snapshot: Snapshot
    tree: Tree
    _made: dict[Any, Any] = field(default_factory=dict)

    def once(self, key: Any, make: Callable[[], Made]) -> Made:
        """What `make` makes of this moment, once for all who ask with this key."""
        if key in self._made:
            known: Made = self._made[key]
            return known
        made = make()
        if len(self._made) < KEPT_MOST:
            self._made[key] = made
        return made


class Round:
    """What is made in one round: subscribers that hear of the same change hear it in the same bytes."""

    def __init__(self) -> None:
        self._until_s = 0.0
        self._made: dict[Any, Any] = {}

    def once(self, now_s: float, key: Any, make: Callable[[], Made]) -> Made:
        """What `make` makes, once a round for all who ask with this key."""
        if now_s >= self._until_s:
            self._until_s, self._made = now_s + ROUND_S, {}
        if key not in self._made:
            self._made[key] = make()
        made: Made = self._made[key]
        return made
