"""pFabric against YAPS on lists that are not in shared/: made here from seeds, YAPS's results as numbers.

YAPS (NetSys/simulator) was run on each with the parameters of the fixed lists; for sizes that are not whole packets its
reader was made to take bytes. Lists with many flows at one moment, or with few events about, are held to a YAPS that
keeps the order of events of one moment: as it stands, it hands a burst's packets over in the order in which a binary
heap gives up equals, which no host does (docs/results/simulator-yaps.md has both).
"""

from collections.abc import Callable

import numpy as np
import pytest

from lab.sim import Experiment, FlowList, Pfabric, Workload
from lab.sim.runner import flows_of

PACKET = 1460
HOSTS = 144


def drawn(table: str, load: float, count: int, seed: int, whole: bool = True) -> FlowList:
    """Poisson arrivals, uniform pairs; sizes in whole packets."""
    flows = np.concatenate(list(flows_of(Experiment(workload=Workload(table), load=load, flows=count, seed=seed))))
    size = flows["size_bytes"].astype(np.int64)
    ends = flows["source"].astype(np.int64), flows["target"].astype(np.int64)
    return FlowList(flows["start_ps"].astype(np.int64), -(-size // PACKET) * PACKET if whole else size, *ends)


def listed(start_us: np.ndarray, size: np.ndarray, source: np.ndarray, target: np.ndarray) -> FlowList:
    """In order of starts."""
    start = np.rint(np.asarray(start_us) * 1e6).astype(np.int64)
    order = np.argsort(start, kind="stable")
    return FlowList(start[order], np.asarray(size)[order], np.asarray(source)[order], np.asarray(target)[order])


def pairs(random: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
    source, other = random.integers(0, HOSTS, count), random.integers(0, HOSTS - 1, count)
    return source, other + (other >= source)


def poisson(sizes: list[int], load: float, count: int) -> FlowList:
    """Each flow one of these sizes in bytes."""
    random = np.random.default_rng([1, 7])
    size = random.choice(sizes, count)
    wire = size.mean() + 40 * np.ceil(size / PACKET).mean()
    start = np.cumsum(random.exponential(1e6 / (load * HOSTS * 1e10 / 8 / wire), count))
    return listed(start, size, *pairs(random, count))


def incast(senders: int, packets: int, bursts: int, gap_us: float, jitter_us: float = 0) -> FlowList:
    """Bursts of flows from other hosts to one, another one each time."""
    random = np.random.default_rng([1, 9])
    rows = []
    for burst in range(bursts):
        to = int(random.integers(0, HOSTS))
        who = random.permutation([host for host in range(HOSTS) if host != to])[:senders]
        start = burst * gap_us + random.random(senders) * jitter_us
        rows.append(np.stack([start, np.full(senders, packets * PACKET), who, np.full(senders, to)]))
    start, size, source, target = np.concatenate(rows, 1)
    return listed(start, size.astype(np.int64), source.astype(np.int64), target.astype(np.int64))


def at_one_moment(count: int, each: int, gap_us: float) -> FlowList:
    """`each` flows at a moment, between any pairs."""
    random = np.random.default_rng([1, 8])
    source, target = pairs(random, count)
    size = random.choice([1, 5, 20, 100, 400], count) * PACKET
    return listed((np.arange(count) // each) * gap_us, size, source, target)


def of_one_pair(count: int, each: int, gap_us: float) -> FlowList:
    """`each` flows at a moment from one host to another."""
    random = np.random.default_rng([1, 6])
    source, target = pairs(random, count // each)
    size = random.choice([1, 5, 20, 100, 400], count) * PACKET
    start = np.repeat(np.arange(count // each) * gap_us, each)
    return listed(start, size, np.repeat(source, each), np.repeat(target, each))


SMALL = [packets * PACKET for packets in (1, 2, 3, 5, 10, 20, 60)]
AROUND = [packets * PACKET + by for packets in (1, 2, 5, 12, 13, 15, 40) for by in (-1, 0, 1)]
NONE = float("nan")

# The list, routing; YAPS's mean FCT us (until the last ACK) of all and small, small p99, mean of medium and large.
LISTS: dict[str, tuple[Callable[[], FlowList], str, tuple[float, ...]]] = {
    "web search 0.8": (lambda: drawn("websearch_pkts", 0.8, 3000, 6), "spray", (3379.8, 44.0, 99.4, 4771.2, 40668.6)),
    "IMC10 0.8": (lambda: drawn("imc10_pkts", 0.8, 10_000, 3), "spray", (521.8, 18.2, 72.8, 2857.5, NONE)),
    "IMC10 0.6, ECMP": (lambda: drawn("imc10_pkts", 0.6, 10_000, 2), "ecmp", (375.4, 18.0, 78.3, 2116.9, NONE)),
    "Homa W3 0.6": (
        lambda: drawn("homa_w3_googleall_bytes", 0.6, 20_000, 2, whole=False),
        "spray",
        (14.9, 13.8, 33.8, 331.3, NONE),
    ),
    "Homa W4 0.8": (
        lambda: drawn("homa_w4_fbhadoop_bytes", 0.8, 10_000, 3, whole=False),
        "spray",
        (234.5, 24.7, 112.8, 1824.5, NONE),
    ),
    "small ones 0.8": (lambda: poisson(SMALL, 0.8, 20_000), "spray", (107.6, 107.6, 1090.9, NONE, NONE)),
    "one byte 0.6": (lambda: poisson([1], 0.6, 30_000), "spray", (12.0, 12.0, 15.3, NONE, NONE)),
    "whole packets, and one byte less or more": (
        lambda: poisson(AROUND, 0.6, 20_000),
        "spray",
        (62.7, 62.7, 487.8, NONE, NONE),
    ),
    "500 packets 0.6": (lambda: poisson([500 * PACKET], 0.6, 3000), "spray", (1943.7, NONE, NONE, 1943.7, NONE)),
    "incast of 40 within 20 us": (lambda: incast(40, 20, 60, 1000, 20), "spray", (567.3, 567.3, 1088.0, NONE, NONE)),
    "incast of 100 at one moment": (lambda: incast(100, 3, 60, 600), "spray", (217.7, 217.7, 427.2, NONE, NONE)),
    "50 flows at each moment": (lambda: at_one_moment(10_000, 50, 60), "spray", (587.4, 27.4, 65.3, 1415.3, NONE)),
    "4 flows of one pair at each moment": (
        lambda: of_one_pair(4000, 4, 10),
        "spray",
        (350.8, 33.6, 133.6, 822.0, NONE),
    ),
}
WITHIN = (0.015, 0.05, 0.15, 0.02, 0.02)
LONG = {"web search 0.8", "IMC10 0.8", "Homa W4 0.8", "500 packets 0.6", "50 flows at each moment"}


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.system] * (name in LONG)) for name in LISTS])
def test_fcts_on_lists_made_here_are_those_of_yaps(summary_of: Callable[[Experiment], list], name: str) -> None:
    make, routing, expected = LISTS[name]
    every, small, medium, large = summary_of(Experiment(scheme=Pfabric(), workload=make(), routing=routing))
    got = [every["acked_mean_us"], small["acked_mean_us"], small["acked_p99_us"]]
    got += [medium["acked_mean_us"], large["acked_mean_us"]]
    for mine, theirs, tolerance in zip(got, expected, WITHIN, strict=True):
        assert mine == pytest.approx(theirs, rel=tolerance, nan_ok=True)
