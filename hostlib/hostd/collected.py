"""What hostd knows of finished flows until the orchestrator has it: all sizes, and a bounded sample of the records.

Pure values, no I/O. Its invariant: every record that arrived is in the histogram once, or counted as unobserved in
part (where its flows end is then not known, so that its size is none), and it is either in the sample or counted as
left out. One that stands for several flows counts as so many.
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
        #: flows that were offered to the sample: those in it, and those that it left out or that no record tells of.
        self.offered = 0
        #: records that the shims could not hand over, by their own count.
        self.dropped_by_shims = 0
        #: names the delivery, so that one whose answer got lost is not counted twice.
        self.key = uuid4().hex
        self._counts = np.zeros(BUCKETS, dtype=np.int64)
        self._total_bytes = 0
        #: the sample as it came, and of each record what it drew: the highest stay
        self._parts: list[Rows] = []
        self._draws: list[NDArray[np.float64]] = []
        self._held = 0
        self._least = -np.inf  # that may stay

    def add(self, rows: Rows, random: Random, flows: NDArray[np.uint64] | None = None) -> None:
        """Takes some records, each of which stands for so many flows (one, by itself)."""
        counts, total_bytes = count_sizes(rows, flows)
        self._counts += counts
        self._total_bytes += total_bytes
        self.unobserved += int(np.count_nonzero(rows["flags"] & PARTLY_UNOBSERVED))
        self.offered += len(rows) if flows is None else int(flows.sum())
        draws = _drawn(random, len(rows)) / (1 if flows is None else flows)
        stays = draws > self._least
        if stays.any():
            self._parts.append(rows[stays])
            self._draws.append(draws[stays])
            self._held += int(np.count_nonzero(stays))
            if self._held >= 2 * self.capacity:
                self._keep(self.capacity)

    def thin(self, limit: int) -> None:
        """Leaves so many records at most, each with the same chance for every flow that it stands for."""
        self._keep(min(self.capacity, limit))
        self.capacity = min(self.capacity, limit)

    def _keep(self, most: int) -> None:
        """Leaves those that drew highest, in their order."""
        if self._held <= most:
            return
        draws = np.concatenate(self._draws)
        kept = np.sort(np.argpartition(draws, -most)[-most:])
        self._parts, self._draws = [np.concatenate(self._parts)[kept]], [draws[kept]]
        self._held, self._least = most, float(self._draws[0].min())

    @property
    def rows(self) -> Rows:
        """The sample; not to be asked for at each turn."""
        self._keep(self.capacity)
        return np.concatenate(self._parts) if self._parts else np.empty(0, dtype=ROW)

    @property
    def records(self) -> list[FlowRecord]:
        """The sample, one by one."""
        return to_records(self.rows)

    @property
    def histogram(self) -> SizeHistogram:
        """The sizes of all offered flows but the unobserved."""
        return SizeHistogram(
            {int(bucket): int(self._counts[bucket]) for bucket in np.flatnonzero(self._counts)}, self._total_bytes
        )

    @property
    def empty(self) -> bool:
        """Whether it says nothing but that the host lives."""
        return not (self.offered or self.dropped_by_shims)

    @property
    def left_out(self) -> int:
        """Offered flows of which no record is in the sample."""
        return self.offered - min(self._held, self.capacity)

    @property
    def dropped(self) -> int:
        """Flows of which the orchestrator will see no record."""
        return self.dropped_by_shims + self.left_out


def _drawn(random: Random, count: int) -> NDArray[np.float64]:
    """Logarithms of random numbers in (0, 1], of Python's generator: numpy's are 3 MiB more of a process's memory."""
    return np.log((np.frombuffer(random.randbytes(8 * count), dtype="<u8") + 1.0) / 2.0**64)


class Collected:
    """Gathers flow records in bounded memory.

    The sample is a weighted reservoir (Efraimidis and Spirakis, 2006, algorithm A-Res), many records at a time: when
    the orchestrator is away for long, what is kept is a uniform choice of all flows since, which serves training better
    than the latest only. A record that stands for many flows is as likely to be chosen as one of them.
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

    def add(self, rows: Rows, dropped_by_shims: int = 0, flows: NDArray[np.uint64] | None = None) -> None:
        """Takes some records, each of which stands for so many flows."""
        self._waiting.dropped_by_shims += dropped_by_shims
        self._waiting.add(rows, self._random, flows)

    def take(self) -> Shipment:
        """Hands out all that waits; the caller keeps it until it is delivered, or refused for good."""
        taken, self._waiting = self._waiting, Shipment(self._capacity)
        taken.thin(self.limit)
        return taken

    def with_few(self, taken: Shipment) -> bool:
        """Leaves of a shipment that was too much what any host may deliver; False: it has no more than that."""
        had = len(taken.rows)
        taken.thin(FIRST_RECORDS)
        return had > FIRST_RECORDS
