"""PDQ's speed beside pFabric's in the same run: data packets delivered a CPU second, on the same flows.

Fat-trees of 128 and 1,024 servers at 1 Gb/s, web-search sizes cut off at 1 MB, load 0.5, ECMP. A PDQ packet does more
than a pFabric packet: each link looks through its list on the way out and on the way back, and each packet has its own
ACK. The goal is half of pFabric's.
"""

from dataclasses import replace
from statistics import median
from typing import Any

import numpy as np

from lab.sim import Experiment, FatTree, FlowList, Pdq, Pfabric
from lab.sim import run as simulate
from lab.sim.scheme import Scheme
from lab.sim.sizes import size_table

FABRICS = {128: 8, 1_024: 16}
FLOWS_PER_SERVER, LOAD, ROUNDS = 20, 0.5, 3
MOST_BYTES = 1_000_000
SCHEMES: dict[str, tuple[Scheme, int]] = {
    "pFabric": (replace(Pfabric(), timeout_us=900.0), 40),
    "PDQ": (Pdq(), 56),
}


def flows(fabric: FatTree) -> FlowList:
    """Drawn once for both."""
    random = np.random.default_rng(fabric.hosts)
    count = FLOWS_PER_SERVER * fabric.hosts
    size = np.clip(size_table("websearch_bytes").quantile(random.random(count)), 1, MOST_BYTES).astype(np.int64)
    gap_ps = 8e12 * size.mean() / (LOAD * fabric.hosts * fabric.rate_bps)
    start = np.cumsum(random.exponential(gap_ps, count)).astype(np.int64)
    source = random.integers(0, fabric.hosts, count)
    other = random.integers(0, fabric.hosts - 1, count)
    return FlowList(start, size, source, other + (other >= source))


def run() -> list[dict[str, Any]]:
    """The rows of the table."""
    table = []
    for servers, k in FABRICS.items():
        fabric = FatTree(k=k)
        found = flows(fabric)
        runs: dict[str, list[Any]] = {name: [] for name in SCHEMES}
        for _ in range(ROUNDS):
            for name, (scheme, header) in SCHEMES.items():
                runs[name].append(simulate(Experiment(fabric, scheme, found, header_bytes=header)).counters)
        speed = {name: median(one.delivered_packets / one.cpu_seconds for one in all_) for name, all_ in runs.items()}
        for name, all_ in runs.items():
            table.append(
                {
                    "servers": servers,
                    "scheme": name,
                    "data packets": all_[0].delivered_packets,
                    "CPU s": round(median(one.cpu_seconds for one in all_), 2),
                    "packets/CPU s": round(speed[name]),
                    "of pFabric's": round(speed[name] / speed["pFabric"], 2),
                    "events/packet": round(all_[0].events / all_[0].delivered_packets, 1),
                    "MB": round(all_[0].peak_rss_kib / 1024, 1),
                }
            )
    return table
