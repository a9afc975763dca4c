"""What OPTAX's pages have in common: the switch, the schemes, tasks of one receiver, and how long they take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lab.experiment.intervals import Interval, over_runs
from lab.figures.page import Key, Points
from lab.figures.points import AnyExperiment, Point
from lab.sim import NAMED, Experiment, Scheme, star
from lab.sim.coflow import NAMED as POLICIES
from lab.sim.coflow import CoflowExperiment, Coflows
from lab.sim.tasks import DELAY_US

HOSTS, RATE_BPS, RECEIVER = 37, 10**10, 0
SWITCH = star(HOSTS, RATE_BPS, DELAY_US * 1000)
BASE, OURS, FIRST, ORACLE = "ICTCP", "OPTAX", "priority", "shortest first"
SCHEMES: dict[str, Scheme] = {BASE: NAMED["ictcp"], FIRST: NAMED["ictcp-priority"], OURS: NAMED["optax"]}
PAYLOAD, HEADER = 1460, 40
KIB, MIB = 1 << 10, 1 << 20
SPREAD_US = 100.0
"""Tasks that come together begin within so long."""
SWITCH_SAID = (
    "37 hosts at 10 Gb/s on one switch: 36 servers, and one host that all tasks read to. 20 us a link one way, kernels "
    "included (a round trip of 83 us; the paper states none), packets of 1,500 bytes, 2 MB a port (the paper's switch "
    "has 9 MB for 48 ports), a least timeout of 200 ms (Linux's). Packet by packet."
)
SCHEMES_SAID = (
    "ICTCP is fair sharing, the paper's baseline, by its own rule (engine/schemes/ictcp.h). OPTAX: Algorithms 1 to 3 "
    "by `coflow.h`, the hosts' own text, over two strict priorities (engine/schemes/optax.h). Of what its "
    "paper leaves open, W_min (2 packets) and the largest window (64) are hosts' own values. The others are chosen for "
    "this fabric: Delay_max 10 ms, below its least timeout (hosts: 200 ms), a first window of 2 packets, as ICTCP's "
    "flows begin (hosts: 10), and rates over a round trip. Priority: the same two priorities, small tasks first, with "
    "ICTCP."
)
GAIN_SAID = (
    "Gain: ICTCP's mean completion time of tasks over the scheme's, on the same tasks, seed by seed; a task ends with "
    "its last byte. Cells: mean over seeds with its 95 % interval (Student's t, on logarithms)."
)


@dataclass(frozen=True)
class Load:
    """Tasks to the one receiver: when each begins, how many flows it has, and how many bytes each of them has."""

    start_ps: NDArray[np.int64]
    width: NDArray[np.int64]
    flow_bytes: NDArray[np.int64]
    """Of each task's flows, all alike."""

    def coflows(self, random: np.random.Generator, on_wire: bool = False) -> Coflows:
        """Each task's flows from servers drawn for it. `on_wire`: sizes with their packets' headers."""
        task = np.repeat(np.arange(len(self.width)), self.width)
        source = np.concatenate([1 + random.permutation(HOSTS - 1)[: int(width)] for width in self.width])
        size = self.flow_bytes[task]
        if on_wire:
            size = size + HEADER * -(-size // PAYLOAD)
        return Coflows(HOSTS, self.start_ps, task, size, source, np.full(len(task), RECEIVER))


def together(count: int, width: int, flow_bytes: int, seed: int) -> Load:
    """Equal tasks that begin within SPREAD_US."""
    random = np.random.default_rng([seed, count, width, flow_bytes])
    start = np.sort(random.uniform(0, SPREAD_US * 1e6, count)).astype(np.int64)
    return Load(start, np.full(count, width), np.full(count, flow_bytes))


def packets(load: Load, scheme: str, seed: int) -> Experiment:
    """Packet by packet."""
    flows = load.coflows(np.random.default_rng(seed)).flows()
    return Experiment(SWITCH, SCHEMES[scheme], flows, payload_bytes=PAYLOAD, header_bytes=HEADER)


def fluid(load: Load, policy: str, seed: int) -> CoflowExperiment:
    """Rate by rate, of the bytes that are on the wire: no round trips, no losses."""
    return CoflowExperiment(load.coflows(np.random.default_rng(seed), on_wire=True), POLICIES[policy], RATE_BPS)


def experiment(load: Load, name: str, seed: int) -> AnyExperiment:
    """Of a scheme, or of the oracle: the fewest bytes left first, with no delay and no loss."""
    return fluid(load, "shortest", seed) if name == ORACLE else packets(load, name, seed)


def took_us(load: Load, point: Point) -> NDArray[np.float64]:
    """Each task's completion time, from a point of either level."""
    if len(point.fct_us) == len(load.width):
        return point.fct_us
    first = np.concatenate([[0], np.cumsum(load.width)[:-1]])
    return np.maximum.reduceat(point.fct_us, first)


def gain(pairs: Sequence[tuple[NDArray[np.float64], NDArray[np.float64]]], of: Sequence[NDArray[np.bool_]]) -> Interval:
    """Of two schemes' times (base, scheme) a seed, over the tasks chosen of each."""
    ratios = [base[at].mean() / ours[at].mean() for (base, ours), at in zip(pairs, of, strict=True) if at.any()]
    return over_runs(ratios, ratios=True)


def all_of(load: Load) -> NDArray[np.bool_]:
    """Every task."""
    return np.ones(len(load.width), bool)


def small_of(load: Load) -> NDArray[np.bool_]:
    """Tasks whose every flow is small."""
    return np.asarray(load.flow_bytes <= MIB)


Loads = dict[int, Load]
"""By seed."""


def gain_of(points: Points, key: Key, loads: Loads, scheme: str, base: str = BASE, which: str = "all") -> Interval:
    """Of a scheme at a place of the abscissa: points are kept by (*key, scheme, seed)."""
    chosen = {
        "all": [all_of(load) for load in loads.values()],
        "small": [small_of(load) for load in loads.values()],
        "large": [~small_of(load) for load in loads.values()],
    }[which]
    pairs = [
        (took_us(load, points[(*key, base, seed)]), took_us(load, points[(*key, scheme, seed)]))
        for seed, load in loads.items()
    ]
    return gain(pairs, chosen)
