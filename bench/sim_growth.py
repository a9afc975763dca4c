"""How a simulation's CPU time and memory grow: with flows (144 hosts), with hosts (200,000 flows), pFabric at 0.6.

Small messages (Google RPCs, 2.9 KB on average), so that ten million flows are a run of minutes. `of n log n`: CPU time
over flows times the logarithm of flows times hosts, as a ratio to the first row of its kind: at most 1 means it grows
no faster. Results are streamed: what the engine keeps is in its own column.
"""

from math import log2
from typing import Any

from lab.sim import Counters, Experiment, Topology, Workload, stream

FLOWS = (10_000, 100_000, 1_000_000, 10_000_000)
LEAVES = (9, 18, 36, 72)
HOST_FLOWS = 200_000


def measured(experiment: Experiment) -> Counters:
    """The counters of a run whose records are thrown away."""
    for found in stream(experiment):
        if isinstance(found, Counters):
            return found
    raise AssertionError("a run ends with its counters")


def rows_of(what: str, experiments: list[tuple[int, Experiment]]) -> list[dict[str, Any]]:
    """A row a run."""
    table: list[dict[str, Any]] = []
    first = 0.0
    for n, experiment in experiments:
        found = measured(experiment)
        per = found.cpu_seconds / (experiment.count * log2(experiment.count * experiment.topology.hosts))
        first = first or per
        table.append(
            {
                "grows": what,
                "n": n,
                "flows": experiment.count,
                "data packets": found.delivered_packets,
                "CPU s": round(found.cpu_seconds, 2),
                "packets/CPU s": round(found.delivered_packets / found.cpu_seconds),
                "of n log n": round(per / first, 2),
                "peak flows": found.peak_flows,
                "MB": round(found.peak_rss_kib / 1024, 1),
            }
        )
    return table


def run() -> list[dict[str, Any]]:
    """The rows of the table."""
    small = Workload("homa_w3_googleall_bytes")
    by_flows = [(n, Experiment(workload=small, flows=n)) for n in FLOWS]
    by_hosts = [
        (16 * leaves, Experiment(Topology(leaves=leaves), workload=small, flows=HOST_FLOWS)) for leaves in LEAVES
    ]
    return rows_of("flows", by_flows) + rows_of("hosts", by_hosts)
