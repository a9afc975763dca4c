"""What hostd knows of finished flows until the orchestrator has it: all sizes, and a bounded sample of the records.

Pure values, no I/O. Its invariant: every record that arrived is in the histogram once, or counted as unobserved in
part (where its flows end is then not known, so that its size is none), and it is either in the sample or counted as
left out.
"""

from random import Random
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray
from qclimb.histogram import SizeHistogram
from qclimb.record import PARTLY_UNOBSERVED, FlowRecord
from qclimb.record_rows import BUCKETS, ROW, Rows, count_sizes, to_records

CAPACITY = 4096
FIRST_RECORDS = 64
"""In a delivery before the orchestrator said how many it wants: a fabric's hosts may all begin at once. Its first
answer comes with the first heartbeat, so that more than this is left out only where it was away when hostd began."""


class Shipment:
    """What goes to the orchestrator in one piece. Counts are since the shipment before it."""

    def __init__(self, capacity: int) -> None:
        #: at most so many records
        self.capacity = capacity
        #: records of flows that bypassed the library in part: in the sample, not in the histogram.
        self.unobserved = 0
        #: records that were offered to the sample: those in it, and those that it left out for want of room.
        self.offered = 0
        #: records that the shims could not hand over, by their own count.
        self.dropped_by_shims = 0
        #: names the delivery, so that one whose answer got lost is not counted twice.
        self.key = uuid4().hex
        self._counts = np.zeros(BUCKETS, dtype=np.int64)
        self._total_bytes = 0
        #: the sample while there is room, as it came, and once there is none
        self._parts: list[Rows] = []
        self._full: Rows | None = None

    def add(self, rows: Rows, random: Random) -> None:
        """Takes some records; once there is no more room, each replaces another with the chance that it should have."""
        counts, total_bytes = count_sizes(rows)
        self._counts += counts
        self._total_bytes += total_bytes
        self.unobserved += int(np.count_nonzero(rows["flags"] & PARTLY_UNOBSERVED))
        room = max(0, self.capacity - self.offered)
        if room and len(rows):
            self._parts.append(rows[:room])
        self.offered += min(room, len(rows))
        late = rows[room:]
        if len(late):
            places = _drawn(random, len(late)) % np.arange(
                self.offered + 1, self.offered + len(late) + 1, dtype=np.uint64
            )
            taken = places < self.capacity
            self.offered += len(late)
            if self._full is None:
                self._full = np.concatenate(self._parts)
            self._full[places[taken]] = late[taken]  # of several at one place, the last

    def thin(self, limit: int, random: Random) -> None:
        """Leaves so many records at most, each with the same chance: a uniform choice of a uniform choice."""
        if limit < min(self.offered, self.capacity):
            rows = self.rows
            self._full, self._parts = rows[np.sort(np.argsort(_drawn(random, len(rows)))[:limit])], []
        self.capacity = min(self.capacity, limit)

    @property
    def rows(self) -> Rows:
        """The sample; not to be asked for at each turn."""
        if self._full is not None:
            return self._full
        return np.concatenate(self._parts) if self._parts else np.empty(0, dtype=ROW)

    @property
    def records(self) -> list[FlowRecord]:
        """The sample, one by one."""
        return to_records(self.rows)

    @property
    def histogram(self) -> SizeHistogram:
        """The sizes of all offered records but the unobserved."""
        return SizeHistogram(
            {int(bucket): int(self._counts[bucket]) for bucket in np.flatnonzero(self._counts)}, self._total_bytes
        )

    @property
    def empty(self) -> bool:
        """Whether it says nothing but that the host lives."""
        return not (self.offered or self.dropped_by_shims)

    @property
    def left_out(self) -> int:
        """Offered records that are not in the sample."""
        return max(0, self.offered - self.capacity)

    @property
    def dropped(self) -> int:
        """Records that the orchestrator will not see."""
        return self.dropped_by_shims + self.left_out


def _drawn(random: Random, count: int) -> NDArray[np.uint64]:
    """Random numbers below 2^64, of Python's generator: numpy's are 3 MiB more of a process's memory."""
    return np.frombuffer(random.randbytes(8 * count), dtype="<u8")


class Collected:
    """Gathers flow records in bounded memory.

    The sample is Vitter's reservoir (Algorithm R, 1985), many records at a time: when the orchestrator is away for
    long, what is kept is a uniform choice of all flows since, which serves training better than the latest only.
    """

    def __init__(self, capacity: int = CAPACITY, seed: int | None = None) -> None:
        if not capacity > 0:
            raise ValueError(f"capacity of the sample: {capacity}; expected at least 1 record")
        self._capacity = capacity
        #: records in the next shipment that is taken, at most: as the orchestrator wants
        self.limit = FIRST_RECORDS
        self._random = Random(seed)
        self._waiting = Shipment(capacity)

    @property
    def waiting(self) -> Shipment:
        """What has not been taken yet."""
        return self._waiting

    def add(self, rows: Rows, dropped_by_shims: int = 0) -> None:
        """Takes some datagrams' records."""
        self._waiting.dropped_by_shims += dropped_by_shims
        self._waiting.add(rows, self._random)

    def take(self) -> Shipment:
        """Hands out all that waits; the caller keeps it until it is delivered, or refused for good."""
        taken, self._waiting = self._waiting, Shipment(self._capacity)
        taken.thin(self.limit, self._random)
        return taken

    def with_few(self, taken: Shipment) -> bool:
        """Leaves of a shipment that was too much what any host may deliver; False: it has no more than that."""
        had = min(taken.offered, taken.capacity)
        taken.thin(FIRST_RECORDS, self._random)
        return had > FIRST_RECORDS
