"""What thresholds are tried on: eight hosts of the lab's fabric under its own traffic, and a fabric of 10 Gb/s.

The lab's traces are those that `qclimb lab run` plays (lab.workload.trace, lab.workload.replay), flow for flow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from lab.sim import Experiment, FlowList, Tcp, Topology, Workload
from lab.sim.sizes import size_table
from lab.workload.replay import read
from lab.workload.replay import replay as played
from lab.workload.services import MEDIUM_BYTES as LAB_MEDIUM
from lab.workload.services import SERVICES
from lab.workload.services import SMALL_BYTES as LAB_SMALL
from lab.workload.sources import SOURCES, Source
from lab.workload.trace import Trace, make_trace

HOSTS = [f"h{n + 1}" for n in range(8)]
SLOW = Topology(2, 2, 4, 16_000_000, 32_000_000, 20_000, 20_000)
"""The lab replays recordings at 15 Mb/s; a byte has to take whole picoseconds."""
LAB = replace(SLOW, host_rate_bps=25_000_000, uplink_rate_bps=50_000_000)
FAST = Topology(2, 2, 8)
LAB_SECONDS = 25.0
LEARNT_LOAD = 0.6
"""Of what thresholds are computed from: a recording's part 0, the lab's mix by another seed."""
LAB_TCP = Tcp(
    "tcp",
    dctcp=False,
    initial_window=10,
    max_window=300,
    least_timeout_us=10_000.0,
    first_timeout_us=200_000.0,
    buffer_bytes=64 * 1514,
    host_buffer_bytes=4 * 64 * 1514,
    dynamic_alpha=8.0,
)
"""As lab.fabric has it: plain TCP, 64 packets a port, a queue at most 8 times what is free, RTO from 10 ms on."""


@dataclass(frozen=True)
class Case:
    """A workload and where it runs."""

    topology: Topology
    scheme: Tcp
    recording: str = ""
    windows: tuple[int, ...] = ()
    """Of a recording, one a seed."""
    table: str = ""
    share: float = 1.0
    """Of a scale's flows: of a table with large flows fewer are run."""
    small_bytes: int = 100_000
    medium_bytes: int = 10_000_000

    def experiment(self, tagging: str, thresholds: tuple[int, ...], load: float, count: int, seed: int) -> Experiment:
        """One point."""
        scheme = replace(self.scheme, tagging=tagging, thresholds_bytes=thresholds)
        workload = (
            Workload(self.table) if self.table else self.flows(load, self.windows[seed - 1] if self.windows else seed)
        )
        flows = round(count * self.share) if self.table else None
        return Experiment(self.topology, scheme, workload, load=load, flows=flows, seed=seed)

    def flows(self, load: float, seed: int) -> FlowList:
        """What the lab plays."""
        return _played(self.recording, load, seed, float(self.topology.host_rate_bps))

    def learnt_bytes(self) -> Sequence[int]:
        """Sizes that thresholds are computed from. Not for tables."""
        return [int(size) for size in self.flows(LEARNT_LOAD, 0 if self.recording else 9).size_bytes]


CASES = {
    "web": Case(SLOW, LAB_TCP, "web", (1, 2, 3)),
    "Spark": Case(SLOW, LAB_TCP, "spark", (3, 4, 5)),
    "training": Case(SLOW, LAB_TCP, "training", (2, 3, 4)),
    "bulk": Case(SLOW, LAB_TCP, "bulk", (1, 2, 3)),
    "the lab's mix": Case(LAB, LAB_TCP, small_bytes=LAB_SMALL, medium_bytes=LAB_MEDIUM),
    "web search": Case(FAST, Tcp(), table="websearch_bytes", share=0.15),
    "data mining": Case(FAST, Tcp(), table="datamining_bytes", share=0.1),
    "web server": Case(FAST, Tcp(), table="fbwebserver_cw_bytes"),
    "Hadoop": Case(FAST, Tcp(), table="fbhadoop2015_bytes", share=0.75),
}


@cache
def _played(recording: str, load: float, seed: int, host_rate_bps: float) -> FlowList:
    if not recording:
        return _flows(make_trace(load, seed, LAB_SECONDS, HOSTS, host_rate_bps))
    source = SOURCES.get(recording) or Source(recording, both_ways=True, services=6)
    return _flows(played(read(recording), source, seed, load, HOSTS, host_rate_bps))


def _flows(trace: Trace) -> FlowList:
    """As the simulator takes them."""
    pushes = {service.name for service in SERVICES if service.how == "push"}
    flows = sorted(trace.flows, key=lambda flow: flow.time_us)
    pushed = np.array([flow.service in pushes or flow.service.startswith("push") for flow in flows])
    client, server = (
        np.array([HOSTS.index(getattr(flow, end)) for flow in flows], np.int64) for end in ("client", "server")
    )
    return FlowList(
        np.array([flow.time_us for flow in flows], np.int64) * 10**6,
        np.array([flow.bytes for flow in flows], np.int64),
        np.where(pushed, client, server),
        np.where(pushed, server, client),
    )


def sizes_of(case: Case) -> tuple[str, Sequence[tuple[float, float]] | Sequence[int]]:
    """What thresholds are computed from: ("cdf", points) or ("sizes", bytes)."""
    if case.table:
        table = size_table(case.table)
        return "cdf", list(zip(table.size_bytes.tolist(), table.share.tolist(), strict=True))
    return "sizes", case.learnt_bytes()
