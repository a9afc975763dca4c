"""Homa, as settings (engine/schemes/homa.h), and its priorities for a workload by its paper (SIGCOMM'18, section 3.4).

Of P priorities unscheduled packets get the share that unscheduled bytes have of all bytes, at least one and at most
P - 1; their cut-offs part the unscheduled bytes equally; and a receiver grants as many messages at once as there are
priorities left for scheduled packets, each message one of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from lab.sim.errors import ExperimentError, Settings, check, check_kinds
from lab.sim.ports import strict_ports
from lab.sim.scheme import Scheme
from lab.sim.sizes import size_table
from lab.sizes import SizeTable

GRID = 200_000


@dataclass(frozen=True)
class Homa(Scheme):
    """Receivers schedule by grants. Defaults: for 10G and a round trip of 14.6 us; unscheduled cut-offs are ours."""

    name: str = "homa"
    rtt_packets: int = 13
    """Unscheduled, and granted ahead of arrivals."""
    priorities: int = 8
    unscheduled: int = 4
    """How many of the priorities are for unscheduled packets."""
    unscheduled_bytes: tuple[int, ...] = (2_000, 10_000, 100_000)
    """Where the second, third, ... unscheduled priority begins, by message size."""
    overcommitment: int = 4
    """Messages that a receiver grants at once."""
    timeout_us: float = 2_000.0
    buffer_bytes: int = 1_000_000
    """Of each switch port."""
    sizes_are_forecasts: bool = False

    def __post_init__(self) -> None:
        check_kinds("scheme.", self)
        check("scheme.rtt_packets", self.rtt_packets, 1, 10**6)
        check("scheme.priorities", self.priorities, 2, 64)
        check("scheme.unscheduled", self.unscheduled, 1, self.priorities - 1)
        begin = self.unscheduled_bytes
        if not (len(begin) == self.unscheduled - 1 and all(a < b for a, b in pairwise((0, *begin)))):
            raise ExperimentError(
                f"scheme.unscheduled_bytes are {begin}, expected {self.unscheduled - 1} ascending numbers above 0"
            )
        check("scheme.overcommitment", self.overcommitment, 1, 10**6)
        check("scheme.timeout_us", self.timeout_us, 0.001, 10**7)
        check("scheme.buffer_bytes", self.buffer_bytes, 1, 10**12)

    def settings(self) -> Settings:
        """As the engine reads them."""
        return {
            "scheme": "homa",
            "rtt_packets": self.rtt_packets,
            "unscheduled": self.unscheduled,
            "thresholds": ",".join(str(n) for n in self.unscheduled_bytes),
            "overcommitment": self.overcommitment,
            "timeout_ps": round(self.timeout_us * 1e6),
            "sizes_are_forecasts": int(self.sizes_are_forecasts),
            **strict_ports(self.buffer_bytes, 2**50, self.priorities),
        }


def homa_for(sizes: str | SizeTable, rtt_packets: int, priorities: int = 8, payload_bytes: int = 1460) -> Homa:
    """For messages of these sizes, `rtt_packets` of each unscheduled. Raises: ExperimentError."""
    size = size_table(sizes).quantile((np.arange(GRID) + 0.5) / GRID)
    unscheduled = np.minimum(size, rtt_packets * payload_bytes)
    levels = int(np.clip(round(priorities * unscheduled.sum() / size.sum()), 1, priorities - 1))
    below = np.cumsum(unscheduled) / unscheduled.sum()
    places = np.minimum(np.searchsorted(below, np.arange(1, levels) / levels), GRID - 1)
    cuts = sorted({int(cut) for cut in size[places] if cut >= 1})  # sizes that many messages share part nothing
    return Homa(
        rtt_packets=rtt_packets,
        priorities=priorities,
        unscheduled=len(cuts) + 1,
        unscheduled_bytes=tuple(cuts),
        overcommitment=priorities - len(cuts) - 1,
    )
