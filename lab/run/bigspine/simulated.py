"""The same arrivals, rates and buffers in the packet simulator: what of a result is the fabric's, and what is packets'.

A byte must take whole picoseconds there, so that links are 1/24 faster, and arrivals with them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lab.fabric import Topology
from lab.run.bigspine.traffic import MEDIUM_BYTES, SCHEMES, SMALL_BYTES, Scheme, topology_of, trace_of
from lab.sim import Experiment, FlowList, Tcp
from lab.sim import Topology as Simulated
from lab.sim.runner import run

FASTER = 62_500_000 / 60_000_000
DELAY_NS = 20_000
RTO_US = 10_000.0
CLASSES = {"all": (0, 1 << 62), "small": (0, SMALL_BYTES), "medium": (SMALL_BYTES, MEDIUM_BYTES)}
CLASSES["large"] = (MEDIUM_BYTES, 1 << 62)


def slowdowns(name: str, load: float, spines: int, seeds: Sequence[int], seconds: float) -> dict[str, float]:
    """Mean slowdown of each class of size under a scheme without bounds; its flows are those of the fabric's passes."""
    scheme, topology = SCHEMES[name], topology_of(spines)
    done = [run(_experiment(scheme, load, topology, seed, seconds)) for seed in seeds]
    size, slowdown = (np.concatenate([getattr(one, of) for one in done]) for of in ("size_bytes", "slowdown"))
    return {of: float(slowdown[(size > low) & (size <= high)].mean()) for of, (low, high) in CLASSES.items()}


def _experiment(scheme: Scheme, load: float, topology: Topology, seed: int, seconds: float) -> Experiment:
    spines = topology.spines
    simulated = Simulated(
        topology.leaves,
        spines,
        topology.hosts_per_leaf,
        round(topology.host_rate_bps * FASTER),
        round(topology.uplink_rate_bps * FASTER),
        DELAY_NS,
        DELAY_NS,
    )
    tcp = Tcp(
        scheme.name,
        dctcp=False,
        tagging="pias",
        thresholds_bytes=tuple(scheme.thresholds(spines, load)),
        initial_window=10,
        max_window=300,
        least_timeout_us=RTO_US,
        first_timeout_us=RTO_US,
        buffer_bytes=topology.buffer_bytes,
        host_buffer_bytes=4 * topology.buffer_bytes,
        dynamic_alpha=2.0**topology.dynamic_th,
    )
    flows = _flows(load, topology, seed, seconds)
    if not scheme.is_pinned:
        return Experiment(simulated, tcp, flows, load=load, seed=seed)
    by_spine = tuple(round(10_000 * share) for share in scheme.shares(spines, load))
    return Experiment(simulated, tcp, flows, load=load, seed=seed, routing="priority", spine_shares=by_spine)


def _flows(load: float, topology: Topology, seed: int, seconds: float) -> FlowList:
    number = {name: n for n, name in enumerate(topology.hosts)}
    flows = sorted(trace_of(load, seed, seconds, topology).flows, key=lambda flow: flow.time_us)
    return FlowList(
        np.array([round(flow.time_us * 1e6 / FASTER) for flow in flows], np.int64),
        np.array([flow.bytes for flow in flows], np.int64),
        np.array([number[flow.client] for flow in flows], np.int64),
        np.array([number[flow.server] for flow in flows], np.int64),
    )
