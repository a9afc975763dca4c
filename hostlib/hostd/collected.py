"""What hostd knows of finished flows until the orchestrator has it: all sizes, and a bounded sample of the records.

Pure values, no I/O. Its invariant: every record that arrived is in the histogram once, or counted as unobserved in
part (where its flows end is then not known, so that its size is none), and it is either in the sample or counted as
left out.
"""

import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from uuid import uuid4

from qclimb.histogram import SizeHistogram, bucket_of
from qclimb.record import PARTLY_UNOBSERVED, FlowRecord


@dataclass
class Shipment:
    """What goes to the orchestrator in one piece. Counts are since the shipment before it."""

    counts: Counter[int] = field(default_factory=Counter)
    total_bytes: int = 0
    #: records of flows that bypassed the library in part: in the sample, not in the histogram.
    unobserved: int = 0
    records: list[FlowRecord] = field(default_factory=list)
    #: records that were offered to the sample: those in it, and those that it left out for want of room.
    offered: int = 0
    #: records that the shims could not hand over, by their own count.
    dropped_by_shims: int = 0
    #: names the delivery, so that one whose answer got lost is not counted twice.
    key: str = field(default_factory=lambda: uuid4().hex)

    @property
    def histogram(self) -> SizeHistogram:
        """The sizes of all offered records but the unobserved."""
        return SizeHistogram(self.counts, self.total_bytes)

    @property
    def empty(self) -> bool:
        """Whether it says nothing but that the host lives."""
        return not (self.offered or self.dropped_by_shims)

    @property
    def left_out(self) -> int:
        """Offered records that are not in the sample."""
        return self.offered - len(self.records)

    @property
    def dropped(self) -> int:
        """Records that the orchestrator will not see."""
        return self.dropped_by_shims + self.left_out


class Collected:
    """Gathers flow records in bounded memory.

    The sample is Vitter's reservoir (Algorithm R, 1985): when the orchestrator is away for long, what is kept is a
    uniform choice of all flows since, which serves training better than the latest only.
    """

    def __init__(self, capacity: int = 4096, seed: int | None = None) -> None:
        if not capacity > 0:
            raise ValueError(f"capacity of the sample: {capacity}; expected at least 1 record")
        self.capacity = capacity
        self._random = random.Random(seed)
        self._waiting = Shipment()

    @property
    def waiting(self) -> Shipment:
        """What has not been taken yet."""
        return self._waiting

    def add(self, records: Iterable[FlowRecord], dropped_by_shims: int = 0) -> None:
        """Takes a datagram's records."""
        waiting = self._waiting
        waiting.dropped_by_shims += dropped_by_shims
        for record in records:
            if record.flags & PARTLY_UNOBSERVED:
                waiting.unobserved += 1
            else:
                waiting.counts[bucket_of(record.size_bytes)] += 1
                waiting.total_bytes += record.size_bytes
            waiting.offered += 1
            if len(waiting.records) < self.capacity:
                waiting.records.append(record)
            elif (place := self._random.randrange(waiting.offered)) < self.capacity:
                waiting.records[place] = record

    def take(self) -> Shipment:
        """Hands out all that waits; the caller keeps it until it is delivered, or refused for good."""
        taken, self._waiting = self._waiting, Shipment()
        return taken
