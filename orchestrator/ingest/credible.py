"""How much of what a host tells can be: no more than its link could have carried since it told last. Pure.

A host may tell of flows that nobody else sees, and thresholds come from everybody's. So each has bytes to tell of.
They grow with time at its link's rate, up to `SAVED_S` of them, for a flow is told of at its end. A flow costs its
size, or a packet. What goes beyond is left out: of each bucket the same share, which bounds the weight and keeps the
shape.

A link carries more small flows than all other hosts have. So where thresholds are computed, a host's flows also weigh
no more than `OUTLIER` times those of the median host.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median_low

import numpy as np
from qclimb.histogram import GAMMA, LAST_BUCKET, SizeHistogram

SAVED_S = 600.0
"""A flow that lasts longer, at the link's whole rate, counts in part."""
OUTLIER = 10
PACKET_BYTES = 84
"""Ethernet's smallest frame with preamble and gap: what a flow takes at least."""

_UPPER = GAMMA ** np.arange(LAST_BUCKET + 1, dtype=np.float64)
_LOWER = np.maximum(_UPPER / GAMMA, 1.0)
_COST = np.maximum(_LOWER, PACKET_BYTES)


@dataclass(frozen=True)
class Allowance:
    """Bytes that a host may tell of, as of `at_s` of some clock that runs on."""

    left_bytes: float
    at_s: float

    @classmethod
    def at_first(cls, bytes_per_s: float, now_s: float, silent_s: float = 0.0) -> "Allowance":
        """Of a host of which nothing is known but how long it has been silent."""
        return cls(bytes_per_s * max(SAVED_S, silent_s), now_s)

    def after(self, bytes_per_s: float, now_s: float) -> "Allowance":
        """The same, some time later; a host that was away longer than SAVED_S tells of all that time."""
        passed_s = max(now_s - self.at_s, 0.0)
        most = bytes_per_s * max(SAVED_S, passed_s)
        return Allowance(min(self.left_bytes + bytes_per_s * passed_s, most), now_s)


@dataclass(frozen=True)
class Believed:
    """What is believed of a delivery, and how many flows more it told of."""

    sizes: SizeHistogram
    dropped: int
    left_out: int
    allowance: Allowance


def believed(sizes: SizeHistogram, dropped: int, allowance: Allowance) -> Believed:
    """The part of a delivery that the allowance covers; `dropped`: flows without a row, in `sizes` or not."""
    bucket = np.fromiter(sizes.counts, np.int64, len(sizes.counts))
    count = np.fromiter(sizes.counts.values(), np.float64, len(sizes.counts))
    flows = sizes.flows
    cost = float(count @ _COST[bucket]) + PACKET_BYTES * max(dropped - flows, 0)
    left = Allowance(max(allowance.left_bytes - cost, 0.0), allowance.at_s)
    if cost <= allowance.left_bytes:
        total_bytes = _possible(sizes.total_bytes, float(count @ _LOWER[bucket]), float(count @ _UPPER[bucket]))
        made = sizes if total_bytes == sizes.total_bytes else SizeHistogram(sizes.counts, max(total_bytes, flows))
        return Believed(made, dropped, 0, left)
    share = allowance.left_bytes / cost
    counts = {place: kept for place, told in sizes.counts.items() if (kept := math.floor(told * share))}
    least, most = (float(sum(kept * edge[place] for place, kept in counts.items())) for edge in (_LOWER, _UPPER))
    made = SizeHistogram(counts, max(_possible(sizes.total_bytes, least, most), sum(counts.values())))
    return Believed(made, math.floor(dropped * share), flows - made.flows, left)


def _possible(total_bytes: int, least: float, most: float) -> int:
    """A sum of sizes, within what the counts can have."""
    return min(max(total_bytes, math.ceil(least * (1 - 1e-9))), math.floor(most * (1 + 1e-9)))


def weights(flows_of: Mapping[str, int]) -> dict[str, float]:
    """Of the hosts that told of far more flows than the median one: what each of theirs weighs, below 1."""
    some = [flows for flows in flows_of.values() if flows]
    most = OUTLIER * median_low(some) if some else 0
    return {host: most / flows for host, flows in flows_of.items() if flows > most}
