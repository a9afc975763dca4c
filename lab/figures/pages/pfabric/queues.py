"""What pFabric's pages 16 and 17 share: its fabric, its flows, and a port with a few priority queues by flow size."""

from __future__ import annotations

from lab.sim import Exact, Experiment, Tcp, Topology, Workload
from lab.sim.scheme import Scheme

TABLE = "websearch_pkts"
WORKLOAD = Workload(TABLE, forecast=Exact())
PORT_BYTES, RESERVED_BYTES = 225_000, 15_000
"""Of a port, shared by its queues (150 packets), and of each queue's own (10 packets)."""
LONG = 1_000
"""Packets of a window: no bound on what a flow may have in a port."""


def by_size(ends_bytes: tuple[int, ...], dctcp: bool = False, max_window: int = 23) -> Tcp:
    """Queues that part at these flow sizes: a flow has one priority from its first packet to its last."""
    return Tcp(
        f"{len(ends_bytes) + 1} queues",
        dctcp=dctcp,
        tagging="qclimb-fp",
        thresholds_bytes=ends_bytes,
        buffer_bytes=PORT_BYTES,
        host_buffer_bytes=PORT_BYTES,
        reserved_bytes=RESERVED_BYTES,
        max_window=LONG if dctcp else max_window,
        least_timeout_us=2_000 if dctcp else 200,
        first_timeout_us=2_000 if dctcp else 200,
    )


def experiment(scheme: Scheme, load: float, count: int, seed: int) -> Experiment:
    """The same flows for every scheme."""
    return Experiment(Topology(), scheme, WORKLOAD, load=load, flows=count, seed=seed)


SETTINGS = (
    "144 hosts at 10 Gb/s below 9 leaves, 4 spines at 40 Gb/s, 14.6 us round trip; web search (pFabric's 12-point "
    "table in packets, linear interpolation, mean 1.67 MB), Poisson arrivals, uniform pairs, one path a flow (ECMP).",
    "Load: bytes with headers on the hosts' links.",
    "Ports: 225 KB (150 packets) shared by the queues, 15 KB (10 packets) reserved for each, hosts' ports too; strict "
    "priority. A flow's priority follows from its size, which the host knows, and stays.",
    "What the hosts run over these queues is not known to us. Here: TCP with pFabric's windows (12 packets at first, "
    "23 at most: a round trip holds 12), no marks, least timeout 200 us, which comes near its minimal rate control. "
    "Chosen among four transports after a trial of 2,000 flows, for small flows' p99: what depends on it most is "
    "Fig. 17b.",
    "Normalised FCT: FCT over that of the same flow alone. FCT: first byte at the sender to last at the receiver.",
)
