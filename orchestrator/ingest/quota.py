"""How many records each host's next delivery may hold, so that all of them together are about so many a second.

Numbers in, numbers out. A host that leaves nothing out is told at least what it could have if every host had as much:
all of them may begin to be busy in one second. Of hosts that leave flows out each flow has the same chance, by what the
others leave over: a forest then sees a busy host's flows as often as there are. But nobody is told more than twice what
it just sent, so that the records of a second are bounded whoever begins to be busy; a host that is alone in it gets
from its part to all that a delivery may hold in some seconds.
"""

from collections.abc import Iterable

RECORDS_PER_S = 20_000
"""Of all hosts together: ten windows of the drift watch a second."""
RECORDS_LEAST, RECORDS_MOST = 16, 4096
RECORDS_UNTOLD = 64
"""From a host that knows no answer, since it was restarted: the FIRST_RECORDS of `hostlib.hostd.collected`."""
LEAST_PART = 1 / 4
"""Of an equal part: what a host that leaves flows out is told at least. Fewer flows say little about a host; more would
leave too little to hand out by how busy hosts are."""
RATE_OVER_S = 2.0


class Quota:
    """By the rates of the last seconds; how often a host delivers need not be known.

    A rate is known from its first moment on, since it is at least what came in this window already, and falls by half a
    window at most: after an outage hosts come back one by one.
    """

    def __init__(self, records_per_s: int, hosts: int) -> None:
        """`hosts`: as many are taken to deliver each second, and to be as busy as any, until something else is seen."""
        self._records_per_s = records_per_s
        self._deliveries, self._cut_flows, self._whole_flows = Rate(hosts), Rate(hosts * RECORDS_MOST), Rate(0)
        self._since: float | None = None

    def came(self, deliveries: Iterable[tuple[int, int]], now: float) -> None:
        """(records, flows left out) of each, at `now` (s, of any clock that runs on)."""
        if self._since is None:
            self._since = now
        for records, left_out in deliveries:
            self._deliveries.seen += 1
            flows = self._cut_flows if left_out else self._whole_flows
            flows.seen += records + left_out
        elapsed = now - self._since
        if elapsed >= RATE_OVER_S:
            for rate in (self._deliveries, self._cut_flows, self._whole_flows):
                rate.turn(elapsed)
            self._since = now

    def next_of(self, records: int, left_out: int) -> int:
        """What a host may send next that sent and left out so many now."""
        everybody = self._records_per_s / self._deliveries.least_per_s
        chance = (self._records_per_s - self._whole_flows.least_per_s) / self._cut_flows.least_per_s
        of_its_own = min(chance * (records + left_out), 2 * records)
        least = everybody * LEAST_PART if left_out else everybody
        return int(max(RECORDS_LEAST, min(RECORDS_MOST, max(least, of_its_own))))


class Rate:
    """Of something that is counted, a second."""

    def __init__(self, per_s: float) -> None:
        self._per_s = per_s
        self.seen = 0

    @property
    def least_per_s(self) -> float:
        """What it is at least; never nothing."""
        return max(self._per_s, self.seen / RATE_OVER_S, 1e-6)

    def turn(self, elapsed_s: float) -> None:
        """A window ends."""
        self._per_s, self.seen = max(self.seen / elapsed_s, self._per_s / 2), 0
