"""How flows would do under several sets of buffer shares: one question in JSON, one answer in JSON.

    python -m lab.sim.shares < question.json

A program and no function to its caller, the orchestrator, which ranks sets by it and must not depend on the lab
(docs/design/simulator.md). Flows are drawn from the sizes that it knows; sixteen hosts below two leaves send all to
all; each set plays the same flows, so what differs is the shares.
"""

from __future__ import annotations

import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from lab.sim.errors import ExperimentError, SimulationError, check, check_kinds
from lab.sim.experiment import MOST_LOAD, Experiment
from lab.sim.forecast import Leaves
from lab.sim.results import Results
from lab.sim.runner import run
from lab.sim.sizes import mean_wire_bytes
from lab.sim.tcp import Tcp
from lab.sim.topology import Topology
from lab.sim.workload import Workload
from lab.sizes import SizeTable

CLASSES = ("first", "middle", "last")
"""Flows that end in the first-served queue, between, and in the one that is served last."""
MOST_FLOWS = 20_000
WINDOW_PACKETS = 1_000


@dataclass(frozen=True)
class Question:
    """What the fabric is like, and the sets to try."""

    cdf: list[list[float]]
    """(bytes, share of flows at most so large), ascending."""
    threshold_bytes: list[int]
    is_qclimb: bool
    slack_bytes: int
    load: float
    buffer_bytes: int
    """Of a port."""
    gbps: float
    initial_window: int
    """Packets."""
    least_timeout_ms: float
    dctcp: bool
    mark_bytes: int
    sets: list[list[int]]
    """SONiC's dynamic_th of each queue, served first to last."""
    seeds: int
    packets: int
    """About so many a run; fewer where that makes `MOST_FLOWS`."""

    def __post_init__(self) -> None:
        check_kinds("question.", self)
        if not (len(self.cdf) > 1 and all(len(row) == 2 for row in self.cdf)):
            raise ExperimentError(f"question.cdf is {self.cdf}, expected two rows or more of bytes and a share")
        if not self.threshold_bytes:
            raise ExperimentError(f"question.threshold_bytes is {self.threshold_bytes}, expected one or more")
        check("question.load", self.load, 0.001, MOST_LOAD)
        check("question.gbps", self.gbps, 0.001, 10_000)
        check("question.least_timeout_ms", self.least_timeout_ms, 1e-6, 10**4)
        check("question.seeds", self.seeds, 1, 1_000)
        check("question.packets", self.packets, 1, 10**9)

    @classmethod
    def of(cls, found: Any) -> Question:
        """From plain JSON. Raises: ExperimentError."""
        names = {field.name for field in fields(cls)}
        if not isinstance(found, dict) or set(found) != names:
            raise ExperimentError(f"question: expected an object with {', '.join(sorted(names))}")
        return cls(**found)

    def experiment(self, shares: list[int], seed: int) -> Experiment:
        """One run. Raises: ExperimentError."""
        begin = tuple(self.threshold_bytes)
        rate_bps = _possible_rate_bps(self.gbps * 1e9)
        scheme = Tcp(
            "shares",
            dctcp=self.dctcp,
            tagging="qclimb" if self.is_qclimb else "pias",
            thresholds_bytes=begin,
            slack_bytes=self.slack_bytes,
            reordering="drain" if self.is_qclimb else "tcp",
            initial_window=self.initial_window,
            max_window=max(WINDOW_PACKETS, self.initial_window),
            least_timeout_us=self.least_timeout_ms * 1e3,
            first_timeout_us=self.least_timeout_ms * 1e3,  # the handshake has measured a round trip
            buffer_bytes=self.buffer_bytes,
            host_buffer_bytes=4 * self.buffer_bytes,
            dynamic_alpha=tuple(2.0**share for share in shares),
            mark_bytes=self.mark_bytes,
            uplink_mark_bytes=4 * self.mark_bytes,
            hosts_mark=False,
        )
        table = SizeTable("measured", *np.array(self.cdf, float).T)
        workload = Workload(table, forecast=Leaves())
        mean_packets = max(1.0, mean_wire_bytes(table, 1460, 40) / 1500)
        flows = int(min(MOST_FLOWS, max(1, self.packets // mean_packets)))
        topology = Topology(2, 2, 8, rate_bps, 4 * rate_bps)
        return Experiment(topology, scheme, workload, load=self.load, flows=flows, seed=seed)


def answer(question: Question) -> list[dict[str, Any]]:
    """For each set: mean FCT in us by class and seed (None: no such flow), flows by class, mean slowdown by seed, share
    of packets dropped by class. Raises: SimulationError."""
    runs = [(shares, seed) for shares in question.sets for seed in range(1, question.seeds + 1)]
    with ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as pool:  # the work is done by the engine, a program
        told = list(pool.map(lambda one: _told(question, run(question.experiment(*one))), runs))
    return [
        {
            "shares": shares,
            "flows": {name: sum(one["flows"][name] for one in mine) for name in CLASSES},
            "fct_us": {name: [one["fct_us"][name] for one in mine] for name in CLASSES},
            "dropped": {name: float(np.mean([one["dropped"][name] for one in mine])) for name in CLASSES},
            "slowdown": [one["slowdown"] for one in mine],
        }
        for at, shares in enumerate(question.sets)
        for mine in [told[at * question.seeds : (at + 1) * question.seeds]]
    ]


def _told(question: Question, results: Results) -> dict[str, Any]:
    size, begin = results.size_bytes, question.threshold_bytes
    is_first, is_last = size <= begin[0], size > begin[-1]
    of = {"first": is_first, "middle": ~is_first & ~is_last, "last": is_last & ~is_first}
    return {
        "flows": {name: int(mask.sum()) for name, mask in of.items()},
        "fct_us": {name: float(results.fct_us[mask].mean()) if mask.any() else None for name, mask in of.items()},
        "dropped": {
            name: float(results.drops[mask].sum() / max(1, results.sent[mask].sum())) for name, mask in of.items()
        },
        "slowdown": float(results.slowdown.mean()),
    }


def _possible_rate_bps(wanted_bps: float) -> int:
    """The nearest rate at which a byte takes whole picoseconds, on a link and on one four times as fast."""
    possible: list[int] = [2**twos * 5**fives for twos in range(14) for fives in range(13)]
    return min(possible, key=lambda rate_bps: float(abs(rate_bps - wanted_bps)))


def main() -> int:
    """Reads the question, writes the answer. Exit 2 and one sentence where it makes no sense."""
    try:
        print(json.dumps(answer(Question.of(json.load(sys.stdin)))))
    except (SimulationError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
