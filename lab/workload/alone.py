"""What a flow takes alone on an idle fabric: the denominator of its slowdown, the same for every scheme.

A port is a token bucket that is full after a pause. A packet leaves as soon as the bucket has no debt, and its bytes
are the debt of the next one: nothing waits for a packet's own bits. So links' rates hold back a flow's later packets
only, and a flow of one or two packets takes what the machine needs to pass them on. That is measured on each fabric
(calibration.py). Slow start costs nothing: the initial window (10 packets) covers the lab's bandwidth-delay product.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

import numpy as np

from lab.workload.trace import HEADER_BYTES, MSS_BYTES


@cache
def paced_us(size_bytes: int, rates_bps: tuple[float, ...], credit_bytes: int) -> float:
    """From a flow's first write to its last packet's arrival, in us, by links' rates only: a port lets a packet go once
    all but `credit_bytes` of what the flow sent ahead of it have had their time."""
    ahead_bits = 8.0 * (MSS_BYTES + HEADER_BYTES) * np.arange(packets_of(size_bytes))
    at_s = np.zeros(ahead_bits.size)
    for rate in rates_bps:
        in_turn_s = np.maximum.accumulate(at_s - ahead_bits / rate) + (ahead_bits - 8.0 * credit_bytes) / rate
        at_s = np.maximum(at_s, in_turn_s)
    return float(at_s[-1]) * 1e6


def packets_of(size_bytes: int) -> int:
    """How many packets carry a flow that is written at once."""
    return -(-size_bytes // MSS_BYTES)


@dataclass(frozen=True)
class Alone:
    """FCTs of flows alone, written at once on an open connection.

    `credit_bytes` of a port (`paced_us`). `handling_us`: by number of links, and then by number of packets, ascending,
    what the machine takes beside links' rates; in between it goes by the logarithm of the number.
    """

    credit_bytes: int = 0
    handling_us: Mapping[int, Mapping[int, float]] = field(default_factory=dict)

    def fct_us(self, size_bytes: int, rates_bps: Sequence[float]) -> float:
        """Of a flow over links of these rates, in us."""
        measured = self.handling_us.get(len(rates_bps), {1: 0.0})
        handling = np.interp(np.log(packets_of(size_bytes)), np.log(list(measured)), list(measured.values()))
        return paced_us(size_bytes, tuple(rates_bps), self.credit_bytes) + float(handling)
