"""What Big-Spine's packet-level pages share: a core that is the bottleneck, a spine a priority, the authors' flows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lab.sim import Experiment, Leaves, Tcp, Topology, Workload
from lab.sim.fluid import MLFQ_KB, MP_KB, BoundedPareto, FluidExperiment
from lab.sim.schemes import NAMED
from lab.sizes import SizeTable

SPINES = 4
NARROW = Topology(4, SPINES, 16, 10 * 10**9, 10 * 10**9)
"""16 hosts of 10 Gb/s over four uplinks of 10 Gb/s: flows meet at the uplinks, as in the paper's model."""
FULL = Topology(4, SPINES, 16, 10 * 10**9, 40 * 10**9)
"""The same with uplinks of 40 Gb/s: flows meet at the hosts' links, where a priority has no spine of its own."""
ECMP_2, BIG_SPINE, ECMP_5 = "ECMP, 2 queues", "Big-Spine, 2 queues", "ECMP, 5 queues"


def _sizes() -> SizeTable:
    share = np.arange(2001) / 2000
    return SizeTable("bigspine web search", np.ceil(BoundedPareto().quantile(share)) * 1000, share)


SIZES = _sizes()
OF_CORE = Workload(SIZES, load_of="core", forecast=Leaves(0.1, 0.001))
OF_HOSTS = Workload(SIZES, load_of="hosts", forecast=Leaves(0.1, 0.001))


def over(path: str, name: str, load: float, count: int, seed: int, topology: Topology = NARROW) -> Experiment:
    """A named scheme on ECMP or a Big-Spine with the authors' thresholds for the load."""
    scheme = NAMED[name]
    assert isinstance(scheme, Tcp)
    kb = {ECMP_2: MLFQ_KB[2, load], BIG_SPINE: MP_KB[SPINES, load], ECMP_5: MLFQ_KB[5, load]}[path]
    marks = 22_500 * topology.uplink_rate_bps // topology.host_rate_bps
    scheme = replace(scheme, thresholds_bytes=tuple(round(1000 * at) for at in kb), uplink_mark_bytes=marks)
    workload = OF_CORE if topology == NARROW else OF_HOSTS
    if path != BIG_SPINE:
        return Experiment(topology, scheme, workload, load, count, seed)
    shares = FluidExperiment("mp", SPINES, 2, MP_KB[SPINES, load], load).balanced_shares()
    by_spine = tuple(round(10_000 * share) for share in shares)
    return Experiment(topology, scheme, workload, load, count, seed, routing="priority", spine_shares=by_spine)


SETTINGS = (
    "4 racks of 16 hosts at 10 Gb/s, 4 spines; 1.45 us a link one way. `core`: uplinks of 10 Gb/s, so that flows meet "
    "there as in the paper's model (one ToR and its uplinks); load: bytes with headers over all uplinks' rate, flows "
    "between racks only counted (the hosts' links carry a third of it). `hosts`: uplinks of 40 Gb/s; load: bytes with "
    "headers on the hosts' links.",
    "Big-Spine: 5 logical priorities over 2 queues a port: priorities 0 to 3 are the first-served queue, each by a "
    "spine of its own; the last is the other queue, spread over the spines by the authors' shares. A port below the "
    "spines has only the 2 queues.",
    "Sizes: the authors' bounded Pareto (mean 1.94 MB), Poisson arrivals, uniform pairs; thresholds: those that their "
    "repository ships for each load and number of queues and spines.",
    "DCTCP: marks from 15 packets on a port at 10G (60 at 40G), 225 KB a port shared by its queues, initial window 12, "
    "least timeout 2 ms; alpha begins at 1, and hosts' own ports mark as the leaves' do. The paper has no packets: all "
    "of this is our choice.",
    "Slowdown: FCT over that of the same flow alone; FCT: first byte at the sender to last at the receiver.",
)
