"""Recorded flows in a simulated fabric: order, sizes and (rescaled) gaps as they were, bounds as forests gave them.

Hosts. A recording has a handful of hosts; the fabric has many. The recording is played as often as there are hosts,
each time (a *copy*) from another moment on, on hosts of its own draw: a random order of all hosts stands in a ring, and
the recorded host k of copy c is the ring's host c + k m. So a copy's hosts differ, every host plays each recorded
host once, and whom it shares its link with is chance, as where jobs are placed freely.

Time. Copies play windows of equal recorded length; one factor for all of them brings the load about: bytes with headers
on the hosts' links, on average over hosts and the whole length. Gaps within a copy keep their proportions.

Sizes may be multiplied (recorded ones are of a small fabric); bounds then are multiplied alike.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lab.sim.errors import ExperimentError, check_kinds, check_whole
from lab.sim.topology import Topology
from lab.sim.workload import FlowList


@dataclass(frozen=True, eq=False)
class Recorded:
    """Flows of a recording, ascending in start; sizes and bounds in bytes; hosts numbered from 0.

    proven_bytes        what the application had asked to send by the first ACK: the size is at least that
    threshold_bytes     what the orchestrator chose for the flows before these, for 8 priorities
    """

    name: str
    start_ns: NDArray[np.uint64]
    size_bytes: NDArray[np.uint64]
    source: NDArray[np.int64]
    target: NDArray[np.int64]
    lower_bytes: NDArray[np.uint64]
    upper_bytes: NDArray[np.uint64]
    forecast_bytes: NDArray[np.uint64]
    proven_bytes: NDArray[np.uint64]
    threshold_bytes: tuple[int, ...]

    def __post_init__(self) -> None:
        check_kinds("recorded.", self)
        for name in (each.name for each in fields(self) if each.name not in ("name", "threshold_bytes")):
            check_whole(
                f"recorded.{name}", getattr(self, name), len(self.start_ns) if name != "start_ns" else None, "flows"
            )
        if not len(self.start_ns):
            raise ExperimentError("recorded.start_ns is empty: there are no flows")

    @property
    def hosts(self) -> int:
        """How many there are."""
        return int(max(self.source.max(), self.target.max())) + 1


def replay(
    recorded: Recorded,
    topology: Topology,
    load: float,
    count: int,
    seed: int,
    times: int = 1,
    proven: bool = False,
    payload_bytes: int = 1460,
    header_bytes: int = 40,
) -> FlowList:
    """About `count` flows, each `times` as large as recorded; `proven`: bounds are at least what system calls proved.

    Raises: ExperimentError.
    """
    n, copies = len(recorded.size_bytes), topology.hosts
    if recorded.hosts > topology.hosts:
        raise ExperimentError(f"{recorded.name} has {recorded.hosts} hosts, the topology {topology.hosts}")
    if not 1 <= times <= 10**6:
        raise ExperimentError(f"times is {times}, expected 1 to 1000000")
    random = np.random.default_rng([seed, 0])
    start = recorded.start_ns.astype(np.float64) - float(recorded.start_ns[0])
    whole = start[-1] * (1 + 1 / n)  # a mean gap behind the last flow, before the recording begins anew
    length = whole * min(1.0, count / (n * copies))
    ring = random.permutation(copies)
    step = copies // recorded.hosts
    rows, moments, sources, targets = [], [], [], []
    for copy, begin in enumerate(random.random(copies) * whole):
        since = (start - begin) % whole
        mine = np.flatnonzero(since < length)
        rows.append(mine)
        moments.append(since[mine])
        sources.append(ring[(copy + recorded.source[mine] * step) % copies])
        targets.append(ring[(copy + recorded.target[mine] * step) % copies])
    row, moment = np.concatenate(rows), np.concatenate(moments)
    if not row.size:
        raise ExperimentError(f"flows is {count}: none of {recorded.name} begins in windows that short")
    size = recorded.size_bytes[row].astype(np.int64) * times
    wire = float((size + header_bytes * -(-size // payload_bytes)).sum())
    played_ps = 8e12 * wire / (load * topology.hosts * topology.host_rate_bps)
    order = np.argsort(moment, kind="stable")
    row = row[order]
    return FlowList(
        (moment[order] * (played_ps / length)).astype(np.int64),
        size[order],
        np.concatenate(sources)[order].astype(np.int64),
        np.concatenate(targets)[order].astype(np.int64),
        *(values * np.uint64(times) for values in bounds(recorded, row, proven)),
    )


def bounds(recorded: Recorded, row: NDArray[Any], proven: bool) -> tuple[NDArray[np.uint64], ...]:
    """Lower, upper and the one number; with what was proven, none is below it."""
    found = (recorded.lower_bytes[row], recorded.upper_bytes[row], recorded.forecast_bytes[row])
    return tuple(np.maximum(values, recorded.proven_bytes[row]) for values in found) if proven else found
