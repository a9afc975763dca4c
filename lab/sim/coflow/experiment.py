"""One run of coflows over a big switch, rate by rate (engine/coflow/*.h): policy, flows, results."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from lab.sim.coflow.coflows import Coflows
from lab.sim.engine import Process, Records
from lab.sim.errors import ExperimentError, Settings, check, check_kinds
from lab.sim.topology import PS_PER_BYTE_AT_1_BPS
from lab.sim.wire import FLOW, UNKNOWN_BYTES

Small = Literal["none", "fair", "fifo", "shortest"]
Large = Literal["fair", "fifo", "shortest", "varys", "deadlines", "aalo"]
SMALLS: tuple[Small, ...] = ("none", "fair", "fifo", "shortest")
LARGES: tuple[Large, ...] = ("fair", "fifo", "shortest", "varys", "deadlines", "aalo")
CHUNK = 65_536
MOST_SECONDS = 10**6
"""Times are in picoseconds, in 63 bits."""
LATE_PS = 1_000_000
"""A microsecond late is rounding."""


@dataclass(frozen=True)
class Aalo:
    """D-CLAS's queues; defaults are its paper's, and of the weights what engine/coflow/aalo.h says."""

    queues: int = 10
    first_bytes: int = 10 * 2**20
    """What a coflow has sent when it leaves the first queue."""
    factor: int = 10
    """From one queue's end to the next one's."""
    weights: Literal["falling", "strict"] = "falling"
    interval_ms: float = 10.0
    """Of the coordinator: coflows change their queues at its multiples alone. 0: at once, which nobody can."""

    def __post_init__(self) -> None:
        check_kinds("policy.aalo.", self)
        check("policy.aalo.queues", self.queues, 1, 64)
        check("policy.aalo.first_bytes", self.first_bytes, 1, 2**50)
        check("policy.aalo.factor", self.factor, 2, 1000)
        check("policy.aalo.interval_ms", self.interval_ms, 0, 10_000)
        if self.weights not in ("falling", "strict"):
            raise ExperimentError(f"policy.aalo.weights is {self.weights!r}, expected falling or strict")


AT_ONCE = Aalo(interval_ms=0)


@dataclass(frozen=True)
class Policy:
    """Who goes first. The default is fair sharing of all flows."""

    large: Large = "fair"
    """How coflows share: all, or those that are not small."""
    small: Small = "none"
    """How small coflows go, before the others; none: they go with the others. fifo is OPTAX's, fair plain priority."""
    small_bytes: int = 1 << 20
    """A coflow is small while its largest flow is no larger."""
    aalo: Aalo = field(default_factory=Aalo)

    def __post_init__(self) -> None:
        check_kinds("policy.", self)
        if self.large not in LARGES:
            raise ExperimentError(f"policy.large is {self.large!r}, expected one of {', '.join(LARGES)}")
        if self.small not in SMALLS:
            raise ExperimentError(f"policy.small is {self.small!r}, expected one of {', '.join(SMALLS)}")
        check("policy.small_bytes", self.small_bytes, 1, 2**50)


NAMED: dict[str, Policy] = {
    "fair": Policy(),
    "fifo": Policy("fifo"),
    "shortest": Policy("shortest"),
    "varys": Policy("varys"),
    "varys-deadlines": Policy("deadlines"),
    "aalo": Policy("aalo"),
    "aalo-at-once": Policy("aalo", aalo=AT_ONCE),
    "priority": Policy("fair", "fair"),
    "optax": Policy("fair", "fifo"),
    "priority-varys": Policy("varys", "fair"),
    "optax-varys": Policy("varys", "fifo"),
    "priority-aalo": Policy("aalo", "fair"),
    "optax-aalo": Policy("aalo", "fifo"),
    "optax-aalo-at-once": Policy("aalo", "fifo", aalo=AT_ONCE),
}
"""By name: OPTAX and plain priority for small coflows, each joined with fair sharing, Varys or Aalo for the others.
At once: what Aalo's coordinator costs is the difference to these."""


def policy_named(name: str) -> Policy:
    """Raises: ExperimentError."""
    if name not in NAMED:
        raise ExperimentError(f"policy is {name!r}, expected one of {', '.join(NAMED)}")
    return NAMED[name]


@dataclass(frozen=True)
class CoflowExperiment:
    """Defaults: 1 Gb/s a port, as CoflowSim's racks; rates anew at flows' ends too."""

    coflows: Coflows
    policy: Policy = field(default_factory=Policy)
    rate_bps: int = 10**9
    flow_ends_ms: float | None = 0.0
    """Rates are set anew when a coflow begins, ends or changes its queue, and at flows' ends: at each (0), at most
    every so often, or never (None: Varys's own rule)."""

    def __post_init__(self) -> None:
        check_kinds("", self)
        if not (self.rate_bps > 0 and PS_PER_BYTE_AT_1_BPS % self.rate_bps == 0):
            raise ExperimentError(f"rate_bps is {self.rate_bps}: a byte must take whole picoseconds (8e12 / rate)")
        if self.flow_ends_ms is not None:
            check("flow_ends_ms", self.flow_ends_ms, 0, 10_000)
        flows = self.coflows
        busiest = max(np.bincount(end, flows.size_bytes).max() for end in (flows.source, flows.target))
        check("coflows.size_bytes, s of the busiest port", 8 * busiest / self.rate_bps, 0, MOST_SECONDS)

    def settings(self) -> Settings:
        """As the engine reads them."""
        policy, never = self.policy, self.flow_ends_ms is None
        return {
            "scheme": "coflow",
            "hosts": self.coflows.hosts,
            "host_ps_per_byte": PS_PER_BYTE_AT_1_BPS // self.rate_bps,
            "small": policy.small,
            "large": policy.large,
            "small_coflow_bytes": policy.small_bytes,
            "flow_ends_ps": -1 if never else round((self.flow_ends_ms or 0.0) * 1e9),
            "queues": policy.aalo.queues,
            "queue_first_bytes": policy.aalo.first_bytes,
            "queue_factor": policy.aalo.factor,
            "queue_weights": policy.aalo.weights,
            "queue_interval_ps": round(policy.aalo.interval_ms * 1e9),
        }


@dataclass(frozen=True)
class CoflowResults:
    """A row a coflow; NaN where Varys dropped one for its deadline."""

    cct_s: NDArray[np.float64]
    """From its start to its last flow's end."""
    slowdown: NDArray[np.float64]
    """CCT over what its fullest port needs for it alone."""
    in_time: NDArray[np.bool_]
    """Where it has a deadline, met; where it has none, true."""
    flow_end_s: NDArray[np.float64]
    """A row a flow, on the clock of the starts."""
    counters: dict[str, Any]


def _flows(coflows: Coflows) -> Iterator[Records]:
    for begun in range(0, len(coflows.coflow), CHUNK):
        part = slice(begun, begun + CHUNK)
        of = coflows.coflow[part]
        flows = np.zeros(len(of), FLOW)
        flows["start_ps"] = coflows.start_ps[of]
        flows["size_bytes"] = coflows.size_bytes[part]
        flows["upper_bytes"] = UNKNOWN_BYTES
        flows["task"] = of + 1
        flows["source"] = coflows.source[part]
        flows["target"] = coflows.target[part] + coflows.hosts  # where hosts receive
        if coflows.deadline_ps is not None:
            flows["deadline_ps"] = coflows.deadline_ps[of]
        yield flows


def run_coflows(experiment: CoflowExperiment) -> CoflowResults:
    """Runs it. Raises: SimulationError."""
    coflows = experiment.coflows
    end_ps = np.full(len(coflows.coflow), -1, np.int64)
    process = Process(experiment.settings(), _flows(coflows))
    for records in process:
        end_ps[records["index"].astype(np.int64)] = records["received_ps"]
    last_ps = coflows.last_of(end_ps)
    cct_s = np.where(last_ps >= 0, last_ps - coflows.start_ps, np.nan) / 1e12
    due = np.zeros_like(coflows.start_ps) if coflows.deadline_ps is None else coflows.deadline_ps
    return CoflowResults(
        cct_s,
        cct_s / coflows.bottleneck_s(experiment.rate_bps),
        (last_ps >= 0) & ((due == 0) | (last_ps <= due + LATE_PS)),
        np.where(end_ps >= 0, end_ps, np.nan) / 1e12,
        process.counters,
    )
