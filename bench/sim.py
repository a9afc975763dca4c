"""The simulator's speed: data packets delivered a CPU second, pFabric on the two fixed flow lists.

The reference, in the same run and interleaved: events a CPU second of a bare std::priority_queue of heap-allocated
events (sim_hold.cpp), the core of most peers, which does nothing but queue. The peer's figure is YAPS's on the same
web-search list (12.1 M data packets in 53 CPU s), from another day on a machine of this kind; the goal is five times
that, the ambition ten. Where the lists are not there, flows are drawn from the same table at the same load.
"""

import statistics
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from lab.sim import Experiment, Pfabric, Workload
from lab.sim import run as simulate
from lab.sim.flowlist import read_flow_list

from .beside import built

LISTS = Path(__file__).parents[2] / "shared/data/flowlists"
CASES = {"web search 0.6": "websearch", "data mining 0.6": "datamining"}
PEER_PACKETS = 228_000
ROUNDS = 3
HOLDS, POPULATION = 3_000_000, 3_000


def experiment_of(name: str) -> tuple[Experiment, str]:
    """The run, and where its flows are from."""
    path = LISTS / f"{name}_load0.6_10000flows_10g.txt.gz"
    if path.exists():
        return Experiment(workload=read_flow_list(path), routing="spray"), "list"
    return Experiment(workload=Workload(f"{name}_pkts"), routing="spray"), "drawn"


def events_per_second(hold: Path) -> float:
    """Of the reference."""
    words = [str(hold), str(HOLDS), str(POPULATION)]
    return 1e6 / float(subprocess.run(words, check=True, capture_output=True, text=True).stdout)


def run() -> list[dict[str, Any]]:
    """The rows of the table."""
    table = []
    with tempfile.TemporaryDirectory() as folder:
        hold = built(Path(folder), "sim_hold.cpp", "-std=c++17", "-O3")
        for case, name in CASES.items():
            experiment, source = experiment_of(name)
            assert isinstance(experiment.scheme, Pfabric)
            rounds = [(simulate(experiment).counters, events_per_second(hold)) for _ in range(ROUNDS)]
            counters = rounds[0][0]
            seconds = statistics.median(found.cpu_seconds for found, _ in rounds)
            events = statistics.median(found.events / found.cpu_seconds / holds for found, holds in rounds)
            packets = counters.delivered_packets / seconds
            table.append(
                {
                    "flows": f"{case} ({source})",
                    "data packets": counters.delivered_packets,
                    "CPU s": round(seconds, 2),
                    "packets/CPU s": round(packets),
                    "x YAPS's 228 k": round(packets / PEER_PACKETS, 1),
                    "events/packet": round(counters.events / counters.delivered_packets, 1),
                    "events/CPU s over bare heap's": round(events, 2),
                    "MB": round(counters.peak_rss_kib / 1024, 1),
                }
            )
    return table
