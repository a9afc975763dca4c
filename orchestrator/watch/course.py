"""What hosts felt of the fabric over the last hour: their small flows' stretch, by the policy in force.

`fabric.felt` decides by it; this remembers it for people, so that a revision's before and after can be seen.
"""

import threading
from collections import deque
from dataclasses import dataclass
from statistics import median

from qclimb.stretch import Stretch, StretchSum

WINDOW_S = 10
KEPT = 360
"""Windows: an hour."""


@dataclass(frozen=True)
class Point:
    """One window, that began `at` (s since 1970).

    generation  of the policy that was in force then; 0: none
    hosts       that reported small flows in it
    connections that they measured at one look, all hosts together
    stretch     median of the hosts' own: round-trip time over the least one, geometric mean over a host's connections
    """

    at: float
    generation: int
    hosts: int
    connections: int
    stretch: float


class Course:
    """Any thread may call."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._whole: deque[Point] = deque(maxlen=KEPT)
        self._at, self._generation = 0.0, 0
        self._hosts: dict[str, StretchSum] = {}

    def add(self, host: str, stretch: Stretch, at: float, generation: int) -> None:
        """A host told, at a time (s since 1970), under a policy. A new policy begins a window of its own."""
        begin = at - at % WINDOW_S
        with self._lock:
            is_other = generation != self._generation
            if is_other or begin > self._at or at < self._at:
                self._close()
                self._at, self._generation = (at if is_other else begin), generation
            self._hosts[host] = self._hosts.get(host, StretchSum()).plus(stretch)

    def forget(self, host: str) -> None:
        """It is registered no more: the open window goes without it."""
        with self._lock:
            self._hosts.pop(host, None)

    def points(self) -> list[Point]:
        """Whole windows, the newest last."""
        with self._lock:
            return list(self._whole)

    def _close(self) -> None:
        if self._hosts:
            connections = sum(each.connections_each for each in self._hosts.values())
            stretch = median(each.mean for each in self._hosts.values())
            self._whole.append(Point(self._at, self._generation, len(self._hosts), connections, stretch))
        self._hosts = {}
