"""How a simulation's CPU time and memory grow with flows (144 hosts), with hosts and flows in proportion; pFabric, 0.6.

Small messages (Google RPCs, 2.9 KB on average), so that ten million flows are a run of minutes. `of n log n`: CPU time
over n log2 n, n the flows or the hosts, as a ratio to the first row of its kind; at most 1: no faster.
Results are streamed: what the engine keeps is in its own column. Below two million flows: the median of three.
"""

from math import log2
from pathlib import Path
from statistics import median
from typing import Any

from lab.sim import Counters, Experiment, Topology, Workload, stream

FLOWS = (10_000, 100_000, 1_000_000, 10_000_000)
LEAVES = (9, 18, 36, 72)
FLOWS_PER_HOST = 1_400
ROUNDS, ONCE_FROM_FLOWS = 3, 2_000_000


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
        runs = [measured(experiment) for _ in range(1 if experiment.count >= ONCE_FROM_FLOWS else ROUNDS)]
        found, seconds = runs[0], median(run.cpu_seconds for run in runs)
        per = seconds / (n * log2(n))
        first = first or per
        table.append(
            {
                "grows": what,
                "n": n,
                "flows": experiment.count,
                "data packets": found.delivered_packets,
                "CPU s": round(seconds, 3),
                "packets/CPU s": round(found.delivered_packets / seconds),
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
    hosts = [Topology(leaves=leaves) for leaves in LEAVES]
    by_hosts = [(one.hosts, Experiment(one, workload=small, flows=FLOWS_PER_HOST * one.hosts)) for one in hosts]
    return rows_of("flows", by_flows) + rows_of("hosts", by_hosts)


def plot(rows: list[dict[str, Any]], path: Path) -> None:
    """CPU time beside n log n through the first run of each kind."""
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    titles = {"flows": "144 hosts", "hosts": f"{FLOWS_PER_HOST:,} flows a host"}
    figure, axes = plt.subplots(1, 2, figsize=(8.8, 3.4))
    for axis, (what, title) in zip(axes, titles.items(), strict=True):
        mine = [row for row in rows if row["grows"] == what]
        n = [row["n"] for row in mine]
        per = mine[0]["CPU s"] / (n[0] * log2(n[0]))
        axis.loglog(n, [per * one * log2(one) for one in n], color="#999999", ls="--", lw=1.2, label="n log n")
        axis.loglog(n, [row["CPU s"] for row in mine], color="#0060c0", marker="o", ms=4, lw=1.3, label="measured")
        axis.set_title(title, loc="left", fontsize=10)
        axis.set_xlabel(what)
        axis.set_ylabel("CPU seconds")
        axis.set_xticks(n, [f"{one:,}" for one in n])
        axis.minorticks_off()
        axis.grid(True, color="#eeeeee")
        axis.legend(fontsize=8, frameon=False)
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    with plt.rc_context({"svg.hashsalt": "qclimb"}):
        figure.savefig(path, format="svg", metadata={"Date": None})
