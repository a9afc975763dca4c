"""What a slack costs Spark's small flows, by the packet simulator: docs/results/bounds-fct.md's table.

Example: python bench/spark_slack.py

The flows are those that `qclimb lab run bounds --traces spark --loads 0.5 --seeds 3,5` plays, in the lab's fabric as
the simulator has it, under the published thresholds. Bounds are a forest's of 10 trees that learned earlier flows only
(`qclimb model foretell`), and what system calls prove before the first ACK, here known from the first byte on.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from lab.bounds.replay import part_of, read, replay, wire_bytes
from lab.bounds.schemes import PUBLISHED_SLACK_BYTES, PUBLISHED_THRESHOLDS
from lab.bounds.sources import SOURCES
from lab.figures.forests import recorded
from lab.figures.threshold_cases import CASES, HOSTS
from lab.sim import Experiment, FlowList, run
from lab.sim.wire import UNKNOWN_BYTES
from lab.workload.services import MIN_FLOW_BYTES

LOAD = 0.5
THRESHOLDS = PUBLISHED_THRESHOLDS[8]
Bytes = NDArray[np.uint64]


def flows_of(window: int) -> tuple[FlowList, Bytes, Bytes, Bytes]:
    """A window's flows; for each what the forest says (lower, upper) and what calls prove."""
    case, source, recording = CASES["Spark"], SOURCES["spark"], read("spark")
    known = recorded("spark", depth=10, trees=10)
    size = np.maximum(recording.numbers["size_bytes"].astype(np.int64), MIN_FLOW_BYTES)
    first = size.size - known.size_bytes.size
    row = np.arange(size.size)[part_of(wire_bytes(size), window, source.windows)] - first
    if row[0] < 0:
        raise SystemExit(f"window {window} begins before the flows that the forest speaks of")
    trace = replay(recording, source, window, LOAD, HOSTS, float(case.topology.host_rate_bps))
    order = np.argsort([flow.time_us for flow in trace.flows], kind="stable")
    proven = np.array([flow.footprint_bytes for flow in trace.flows], np.uint64)[order]
    return case.flows(LOAD, window), known.lower_bytes[row[order]], known.upper_bytes[row[order]], proven


def main() -> None:
    """Prints a line a window, slack and kind of bounds."""
    case = CASES["Spark"]
    for window in (3, 5):
        flows, lower, upper, proven = flows_of(window)
        nothing, unknown = np.zeros_like(lower), np.full_like(upper, UNKNOWN_BYTES)
        small = flows.size_bytes <= case.small_bytes

        def fct(
            tagging: str, low: Bytes, high: Bytes, slack_bytes: int, flows: FlowList = flows
        ) -> NDArray[np.float64]:
            scheme = replace(
                case.scheme, tagging=tagging, thresholds_bytes=THRESHOLDS, slack_bytes=slack_bytes, reordering="drain"
            )
            bounded = replace(flows, lower_bytes=low, upper_bytes=np.maximum(low, high))
            return run(Experiment(case.topology, scheme, bounded, load=LOAD, seed=1)).fct_us

        pias = fct("pias", nothing, unknown, 0)
        exact = flows.size_bytes.astype(np.uint64)
        rows = [("sizes known", 0, fct("qclimb-ps", exact, exact, 0))]
        for slack in (0, THRESHOLDS[0], PUBLISHED_SLACK_BYTES):
            for name, low, high in (
                ("forest and calls", np.maximum(lower, proven), np.maximum(upper, proven)),
                ("calls alone", proven, unknown),
                ("forest alone", lower, upper),
                ("nothing", nothing, unknown),
            ):
                rows.append((name, slack, fct("qclimb", low, high, slack)))
        for name, slack, found in rows:
            ratios = (found[which].mean() / pias[which].mean() for which in (small, ~small, small | ~small))
            shown = "  ".join(
                f"{what} {ratio:.3f}" for what, ratio in zip(("small", "medium", "all"), ratios, strict=True)
            )
            print(f"window {window}  S {slack:6}  {name:16}  mean FCT over PIAS's: {shown}", flush=True)


if __name__ == "__main__":
    main()
