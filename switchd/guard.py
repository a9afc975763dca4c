"""Whether a class takes more of a port than is foretold: a host that marks its bulk as urgent starves the others there.

What flow sizes and thresholds foretell is a class's share of all bytes, so, at full load, of a port's speed (pFabric,
section 7, on gaming and starvation). The bytes of each queue are compared with it over a window; below full load a
class takes less, so a false alarm needs twice what the forecast says, and ACKS more.
"""

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass

from qclimb.intent import SwitchIntent

from switchd.counters import queue_bytes
from switchd.db import Database
from switchd.limits import speed_of
from switchd.ports import RowsNow

log = logging.getLogger("switchd")

WINDOW_S = 60.0
"""SONiC polls queue counters every 10 s"""
TOLERANCE = 2.0
ACKS = 0.1
"""ACKs, SYNs and retransmissions have the first priority, and no forecast knows them: an ACK of 66 bytes for each
packet of 1,514 would be 0.044"""


@dataclass(frozen=True)
class Excess:
    """A queue of a port that carried more than it may; both as shares of the port's speed."""

    port: str
    share: float
    most: float


def most_of(intent: SwitchIntent | None) -> dict[int, float]:
    """The share of a port that a queue may take before there is an alarm, of those of which anything is foretold.

    On a link to a spine a queue has the classes of that spine alone, but all they have of it: K times their share.
    """
    if intent is None or intent.admin_state != "enabled":
        return {}
    found: dict[int, float] = {}
    for queue in intent.queues:
        told = [(one.foretold_share, one.path) for one in intent.classes if one.queue == queue]
        shares = [share for share, _ in told if share is not None]
        if len(shares) == len(told):
            pinned = len(intent.spines) * max(shares) if told[0][1] in intent.spines else 0.0
            found[queue] = TOLERANCE * max(sum(shares), pinned) + ACKS
    return found


def exceeding(
    before: Mapping[str, int], now: Mapping[str, int], seconds: float, most: Mapping[int, float], rows: RowsNow
) -> dict[int, list[Excess]]:
    """By queue, the ports where it carried more than `most` in this time, the worst first.

    before, now  bytes by `<port>:<queue>`; a counter that went back was reset, and says nothing
    """
    found: dict[int, list[Excess]] = {}
    for name, count in now.items():
        port, _, number = name.rpartition(":")
        queue, (speed, _) = int(number), speed_of(port, rows)
        carried = count - before.get(name, count)
        if not speed or queue not in most or carried < 0:
            continue
        if (share := carried / seconds / speed) > most[queue]:
            found.setdefault(queue, []).append(Excess(port, share, most[queue]))
    return {queue: sorted(each, key=lambda one: -one.share) for queue, each in found.items()}


def sentence(found: list[Excess], seconds: float) -> str:
    """An alarm for people."""
    worst = found[0]
    others = f" ({len(found)} ports)" if len(found) > 1 else ""
    return (
        f"takes {worst.share:.2f} of {worst.port}{others} over {seconds:.0f} s, expected at most {worst.most:.2f}: "
        "a host marks too much, or the thresholds are old"
    )


class Guard:
    """`window_s`: over how many seconds bytes are compared; 0: never. `alarms`: by queue."""

    def __init__(self, db: Database, window_s: float = WINDOW_S) -> None:
        self._db, self._window_s = db, window_s
        self._before: tuple[float, Mapping[str, int]] | None = None
        self.alarms: Mapping[int, str] = {}

    def look_if_due(self, intent: SwitchIntent | None, ports: list[str], rows: RowsNow) -> bool:
        """Compare, if the window is over; whether the alarms are others now. Raises DatabaseLost."""
        most = most_of(intent)
        if not (most and self._window_s):
            was, self._before, self.alarms = bool(self.alarms), None, {}
            return was
        now_s = time.monotonic()
        if self._before is not None and now_s - self._before[0] < self._window_s:
            return False
        counts = queue_bytes(self._db, most, ports)
        at_s, before = self._before or (now_s, counts)
        seconds, self._before = now_s - at_s, (now_s, counts)
        found = exceeding(before, counts, seconds, most, rows) if seconds else {}
        old, self.alarms = self.alarms, {queue: sentence(each, seconds) for queue, each in found.items()}
        for queue in old.keys() ^ self.alarms.keys():
            if queue in self.alarms:
                log.warning("alarm queue=%d what=%r", queue, self.alarms[queue])
            else:
                log.info("alarm over queue=%d", queue)
        return old != self.alarms
