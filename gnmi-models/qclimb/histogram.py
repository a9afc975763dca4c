"""Flow sizes of a host or a whole fabric in a few hundred numbers: DDSketch's logarithmic buckets.

Bucket i holds the sizes in (gamma^(i-1), gamma^i]; with gamma = 1.02 the middle of a bucket is within 1 % of every
size in it, at any scale, and sketches add up without loss (Masson, Rim, Lee: DDSketch, VLDB 2019, section 2).
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Self

from .checks import UINT64_MAX, decimal, integer, mapping, only_known, required
from .errors import RecordError

GAMMA = 1.02
_LOG_GAMMA = math.log(GAMMA)


def bucket_of(size_bytes: int) -> int:
    """The bucket of a size >= 1: ceil(log(size) / log(gamma))."""
    return math.ceil(math.log(size_bytes) / _LOG_GAMMA)


LAST_BUCKET = bucket_of(UINT64_MAX)
_BUCKET_OF_TEXT = {str(bucket): bucket for bucket in range(LAST_BUCKET + 1)}


def middle_of(bucket: int) -> float:
    """The size in bytes that is relatively nearest to all of a bucket's: 2 gamma^i / (gamma + 1)."""
    return float(2 * GAMMA**bucket / (GAMMA + 1))


@dataclass(frozen=True)
class SizeHistogram:
    """Counts of flows by size bucket, and their bytes in total. A value: adding makes a new one.

    counts       bucket -> flows, only where there are some
    total_bytes  the sum of all sizes, exact
    """

    counts: Mapping[int, int] = field(default_factory=dict)
    total_bytes: int = 0

    def __post_init__(self) -> None:
        if not all(
            type(bucket) is int and 0 <= bucket <= LAST_BUCKET and type(count) is int and 1 <= count <= UINT64_MAX
            for bucket, count in self.counts.items()
        ):
            self._name_the_first_wrong()
        integer(self.total_bytes, "total_bytes", 0, UINT64_MAX * max(self.flows, 1), RecordError)
        if not self.total_bytes >= self.flows:
            raise RecordError(
                f"total_bytes is {self.total_bytes}, expected at least a byte for each of {self.flows} flows"
            )
        object.__setattr__(self, "counts", MappingProxyType(dict(sorted(self.counts.items()))))

    def _name_the_first_wrong(self) -> None:
        for bucket, count in self.counts.items():
            integer(bucket, "bucket", 0, LAST_BUCKET, RecordError)
            integer(count, f"counts[{bucket}]", 1, UINT64_MAX, RecordError)

    def __hash__(self) -> int:
        return hash((tuple(self.counts.items()), self.total_bytes))

    @classmethod
    def of(cls, sizes_bytes: Iterable[int]) -> Self:
        """The histogram of sizes, each >= 1."""
        sizes = [integer(size, "size_bytes", 1, UINT64_MAX, RecordError) for size in sizes_bytes]
        return cls(Counter(map(bucket_of, sizes)), sum(sizes))

    def __add__(self, other: "SizeHistogram") -> "SizeHistogram":
        counts = Counter(self.counts)
        counts.update(other.counts)
        return SizeHistogram(counts, self.total_bytes + other.total_bytes)

    @property
    def flows(self) -> int:
        """How many flows it counts."""
        return sum(self.counts.values())

    def __iter__(self) -> Iterator[tuple[float, int]]:
        """(middle of the bucket in bytes, flows), ascending."""
        return ((middle_of(bucket), count) for bucket, count in self.counts.items())

    def quantile(self, share: float) -> float:
        """The size in bytes of the flow at rank floor(share * (flows - 1)), within 1 %; share in [0, 1]."""
        if not 0 <= share <= 1:
            raise RecordError(f"share is {share}, expected a number in [0, 1]")
        if not self.counts:
            raise RecordError("counts is empty, expected at least one flow for a quantile")
        rank = min(math.floor(share * (self.flows - 1)), self.flows - 1)  # a float may round a large rank up
        seen = 0
        for bucket, count in self.counts.items():
            seen += count
            if seen > rank:
                return middle_of(bucket)
        raise AssertionError("a rank below the number of flows lies in some bucket")

    def cdf(self, size_bytes: int) -> float:
        """The share of flows up to `size_bytes`, exact for some size within 2 % of it; 0 when empty."""
        if size_bytes < 1 or not self.counts:
            return 0.0
        last = bucket_of(size_bytes)
        return sum(count for bucket, count in self.counts.items() if bucket <= last) / self.flows

    def to_json(self) -> dict[str, Any]:
        """`{"gamma": 1.02, "counts": {"<bucket>": flows}, "total_bytes": n}`."""
        counts = {str(bucket): count for bucket, count in self.counts.items()}
        return {"gamma": GAMMA, "counts": counts, "total_bytes": self.total_bytes}

    @classmethod
    def from_json(cls, obj: object) -> Self:
        """The histogram of `to_json`; raises RecordError, also for another gamma (its buckets would not add up)."""
        found = mapping(obj, "histogram", RecordError)
        only_known(found, ["gamma", "counts", "total_bytes"], "histogram", RecordError)
        if not required(found, "gamma", "histogram", RecordError) == GAMMA:
            raise RecordError(f"gamma is {found['gamma']!r}, expected {GAMMA}")
        counts = mapping(required(found, "counts", "histogram", RecordError), "counts", RecordError)
        read = {
            _BUCKET_OF_TEXT[bucket]
            if bucket in _BUCKET_OF_TEXT
            else decimal(bucket, "bucket", 0, LAST_BUCKET, RecordError): count
            for bucket, count in counts.items()
        }
        return cls(read, required(found, "total_bytes", "histogram", RecordError))
