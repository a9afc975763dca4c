"""What hosts felt of the fabric over the last hour: their small flows' stretch, by the policy in force.

`fabric.felt` decides by it; this remembers it for people, so that a revision's before and after can be seen.
"""

import math
import threading
from collections import deque
from dataclasses import dataclass

from qclimb.stretch import Stretch

WINDOW_S = 10
KEPT = 360
"""Windows: an hour."""


@dataclass(frozen=True)
class Point:
    """One window, that began `at` (s since 1970).

    generation  of the policy that was in force then; 0: none
    hosts       that told of small flows in it
    stretch     round-trip time over the least one of each connection, geometric mean over their connections
    """

    at: float
    generation: int
    hosts: int
    stretch: float


class Course:
    """Any thread may call."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._whole: deque[Point] = deque(maxlen=KEPT)
        self._at, self._generation = 0.0, 0
        self._hosts: set[str] = set()
        self._sum: Stretch | None = None

    def add(self, host: str, stretch: Stretch, at: float, generation: int) -> None:
        """A host told, at a time (s since 1970), under a policy. A new policy begins a window of its own."""
        begin = at - at % WINDOW_S
        with self._lock:
            is_other = generation != self._generation
            if is_other or begin > self._at or at < self._at:
                self._close()
                self._at, self._generation = (at if is_other else begin), generation
            self._hosts.add(host)
            self._sum = stretch if self._sum is None else self._sum + stretch

    def points(self) -> list[Point]:
        """Whole windows, the newest last."""
        with self._lock:
            return list(self._whole)

    def _close(self) -> None:
        if self._sum is not None:
            mean = math.exp(self._sum.log_mean)
            self._whole.append(Point(self._at, self._generation, len(self._hosts), mean))
        self._hosts, self._sum = set(), None
