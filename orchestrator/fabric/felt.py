"""What hosts feel of the fabric: their small flows' stretch (qclimb.stretch), against what it was before. Pure.

A host's stretch is averaged over windows. Its baseline is the worst window of the last minutes, so that what traffic
does by itself is in it; but of the revision in force alone, so that what another one did to flows excuses nothing. A
host is slower where two windows in a row are, each by a factor: one burst is no reason.

Hosts may err or lie: each is compared with itself alone, and no one host is a reason. A revision that reached a few
switches first is felt by the few hosts behind them, so it is a number of hosts that counts, not the fabric's median.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median

from qclimb.stretch import Stretch, StretchSum

STRETCH_S = 5.0
"""From one look of a host to its next."""
WINDOW_S = 10.0
PART_WINDOWS = 15
"""The baseline goes back one to two parts of so many windows: 150 to 300 s."""
WINDOWS_LEAST = 3
"""Of a baseline; from fewer nothing is concluded."""
FRESH_LEAST = 6
"""Windows of a new revision that replace what was known before it."""
SLOWDOWN_MOST = 3.0
HOSTS_LEAST, SHARE_OF_HOSTS = 2, 50
"""At least so many must be slower, and one in so many: a canary's hosts are few."""


@dataclass(frozen=True, slots=True)
class _Whole:
    """A window that is over: its number, its mean stretch, and the connections of one look."""

    number: int
    mean: float
    connections: int


@dataclass(slots=True)
class _Host:
    """One host's windows: the open one, the last two whole ones, and the worst of this part and the last.

    `earlier`: the baseline before the revision in force, until enough is known of this one; 0: none.
    """

    window: int = 0
    open: StretchSum = field(default_factory=StretchSum)
    last: tuple[_Whole, ...] = ()
    part: int = 0
    worst: list[float] = field(default_factory=lambda: [0.0, 0.0])
    windows: list[int] = field(default_factory=lambda: [0, 0])
    earlier: float = 0.0

    def close(self) -> None:
        """The open window is whole."""
        whole, self.open = self.open, StretchSum()
        if not whole.looks:
            return
        self.last = (*self.last[-1:], _Whole(self.window, whole.mean, whole.connections_each))
        self.turn(self.window // PART_WINDOWS)
        self.worst[1] = max(self.worst[1], whole.mean)
        self.windows[1] += 1
        if sum(self.windows) >= FRESH_LEAST:
            self.earlier = 0.0

    def turn(self, part: int) -> None:
        """That part begins."""
        if part == self.part + 1:
            self.worst, self.windows = [self.worst[1], 0.0], [self.windows[1], 0]
        elif part > self.part:
            self.worst, self.windows, self.earlier = [0.0, 0.0], [0, 0], 0.0
        self.part = max(part, self.part)


class Felt:
    """All hosts'; times are seconds of a clock that nobody sets. Not for several threads at once in one host's name."""

    def __init__(self, window_s: float = WINDOW_S) -> None:
        self.window_s = window_s
        self._hosts: dict[str, _Host] = {}
        self._begun = -1  # the window in which the revision in force came
        self._swept = -1  # the window in which silent hosts were last forgotten

    def add(self, name: str, stretch: Stretch, now_s: float) -> None:
        """A host looked."""
        host = self._hosts.setdefault(name, _Host())
        window = int(now_s // self.window_s)
        if window != host.window:
            if host.window <= self._begun:  # another revision's in part
                host.open = StretchSum()
            host.close()
            host.window = window
        host.open = host.open.plus(stretch)
        if window != self._swept:
            self._swept = window
            for silent in [each for each, of in list(self._hosts.items()) if window - of.window > 2 * PART_WINDOWS]:
                self.forget(silent)

    def forget(self, name: str) -> None:
        """A host is registered no more: nothing rests on what it said."""
        self._hosts.pop(name, None)

    def __len__(self) -> int:
        """Of how many hosts anything is known."""
        return len(self._hosts)

    def worst(self, name: str, now_s: float) -> float:
        """The worst window's mean stretch of late; 0 where too little is known."""
        host = self._hosts.get(name)
        if host is None:
            return 0.0
        window = int(now_s // self.window_s)
        host.turn(window // PART_WINDOWS)
        known = sum(host.windows)
        if window - self._begun > 2 * PART_WINDOWS:
            host.earlier = 0.0
        if host.earlier:
            return host.earlier
        return max(host.worst) if known >= WINDOWS_LEAST else 0.0

    def begin(self, before: Mapping[str, float], now_s: float) -> None:
        """Another revision is in force, or one was undone: baselines begin anew; `before`: those from before it.

        They begin with the next window, as this one's flows were another revision's in part.
        """
        self._begun = int(now_s // self.window_s)
        for name, host in list(self._hosts.items()):
            host.worst, host.windows, host.earlier = [0.0, 0.0], [0, 0], before.get(name, 0.0)

    def slower(self, before: Mapping[str, float], since_s: float, factor: float) -> "Compared":
        """The hosts that are, in two whole windows after `since_s`; `before`: each one's baseline, 0: unknown."""
        first = math.ceil(since_s / self.window_s)
        compared, connections, found = 0, 0, {}
        for name, baseline in before.items():
            host = self._hosts.get(name)
            if not baseline or host is None or len(host.last) < 2 or host.last[0].number < first:
                continue
            compared += 1
            connections += host.last[-1].connections
            least = min(whole.mean for whole in host.last)
            if least > factor * baseline:
                found[name] = least / baseline
        return Compared(compared, connections, found)


@dataclass(frozen=True)
class Compared:
    """How many hosts could be compared, by how many connections of a look, and by which factor some are slower."""

    hosts: int
    connections: int
    slower: Mapping[str, float]

    @property
    def reason(self) -> str | None:
        """Why the fabric is worse than before; None where it is not."""
        if len(self.slower) < max(HOSTS_LEAST, math.ceil(self.hosts / SHARE_OF_HOSTS)):
            return None
        return (
            f"small flows of {len(self.slower)} of {self.hosts} hosts are slower than before "
            f"({median(self.slower.values()):.1f} times in their median; {self.connections} connections measured)"
        )
