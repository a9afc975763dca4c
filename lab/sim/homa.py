"""Homa's priorities for a workload, by the rule of its paper (SIGCOMM'18, section 3.4).

Of P priorities unscheduled packets get the share that unscheduled bytes have of all bytes, at least one and at most
P - 1; their cut-offs part the unscheduled bytes equally; and a receiver grants as many messages at once as there are
priorities left for scheduled packets, each message one of its own.
"""

from __future__ import annotations

import numpy as np

from lab.sim.schemes import Homa
from lab.sim.sizes import size_table
from lab.sizes import SizeTable

GRID = 200_000


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
