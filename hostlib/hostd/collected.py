"""What hostd knows of finished flows until the orchestrator has it: all sizes, and a bounded sample of the records.

Pure values, no I/O. Its invariant: every record that arrived is in the histogram once, or counted as unobserved in
part (where its flows end is then not known, so that its size is none), and it is either in the sample or counted as
left out.
"""

import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from qclimb.histogram import SizeHistogram, bucket_of
from qclimb.record import PARTLY_UNOBSERVED, FlowRecord


@dataclass
class Shipment:
    """What goes to the orchestrator in one piece. Counts are since the last accepted shipment."""

    counts: Counter[int] = field(default_factory=Counter)
    total_bytes: int = 0
    #: records of flows that bypassed the library in part: in the sample, not in the histogram.
    unobserved: int = 0
    records: list[FlowRecord] = field(default_factory=list)
    #: records that were offered to the sample: those in it, and those that it left out for want of room.
    offered: int = 0
    #: records that the shims could not hand over, by their own count.
    dropped_by_shims: int = 0

    @property
    def histogram(self) -> SizeHistogram:
        """The sizes of all offered records but the unobserved."""
        return SizeHistogram(self.counts, self.total_bytes)

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
        """Hands out all that waits; the caller ships it, or gives it back."""
        taken, self._waiting = self._waiting, Shipment()
        return taken

    def give_back(self, unsent: Shipment) -> None:
        """Joins an unsent shipment with what arrived meanwhile: two uniform samples become one uniform sample."""
        now = self._waiting
        now.counts.update(unsent.counts)
        now.total_bytes += unsent.total_bytes
        now.unobserved += unsent.unobserved
        now.dropped_by_shims += unsent.dropped_by_shims
        now.records = self._join(now, unsent)
        now.offered += unsent.offered

    def _join(self, one: Shipment, other: Shipment) -> list[FlowRecord]:
        if len(one.records) + len(other.records) <= self.capacity and not one.left_out and not other.left_out:
            return other.records + one.records  # the usual case, in order of arrival
        self._random.shuffle(one.records)
        self._random.shuffle(other.records)
        chosen: list[FlowRecord] = []
        # A record of the joint sample comes from either side with the probability that a record drawn from both
        # streams would.
        left_one, left_other = one.offered, other.offered
        while len(chosen) < self.capacity and left_one + left_other > 0:
            if self._random.randrange(left_one + left_other) < left_one:
                left_one -= 1
                side = one.records
            else:
                left_other -= 1
                side = other.records
            chosen.append(side.pop())
        return chosen
