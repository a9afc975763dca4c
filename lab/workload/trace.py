"""Arrival traces: when which client begins a flow of how many bytes with which server.

The file is text: `#` lines with `key value` settings, then one flow a line in order of time:

    id time_us service client server bytes [first_write_bytes footprint_bytes]

The last two are of replays (lab/workload/replay.py): what the first write asks to send, and what is asked for before
the first ACK.

Load, exactly: the bytes that the trace's flows put on the wire towards their receivers, payload and headers (66 bytes
for every 1448 of payload: Ethernet, IP, TCP with timestamps), divided by the trace's length and by the hosts' link
capacity, averaged over all hosts. Requests, ACKs and retransmissions are not counted. As in QCLIMB's replay, order
and sizes are drawn first and the gaps are then scaled so that the trace carries exactly the load it is named for.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lab.workload.services import MIN_FLOW_BYTES, SCALE, SERVICES, Service

MSS_BYTES = 1448
HEADER_BYTES = 66
"""Of one data packet: 14 Ethernet, 20 IP, 32 TCP with timestamps."""
DEPLOYMENTS = 500
DRAWS, MOST_DRAWN = 32, 200_000
"""A trace is the most even of DRAWS draws (fewer where that would be more than MOST_DRAWN flows): in half a minute of
heavy-tailed flows single hosts would else be offered up to 1.4 times the average, and at high load more than they can
carry. The same trace serves every scheme, so none gains by it."""


@dataclass(frozen=True)
class Flow:
    """One arrival: `client` begins it at `time_us`; who sends the bytes is the service's matter."""

    id: int
    time_us: int
    service: str
    client: str
    server: str
    bytes: int
    first_write_bytes: int = 0
    """0: as the service is wont to write."""
    footprint_bytes: int = 0
    announced_bytes: int = 0
    """What the recorded flow's own bytes had said of its size; 0: nothing. No part of the trace's file."""

    def __post_init__(self) -> None:
        if not (self.id >= 0 and self.time_us >= 0 and self.bytes >= MIN_FLOW_BYTES):
            raise ValueError(f"flow {self.id}: time_us must be >= 0 and bytes >= {MIN_FLOW_BYTES}")
        if self.client == self.server:
            raise ValueError(f"flow {self.id}: client and server are both {self.client}")
        scripted = 0 < self.first_write_bytes <= self.footprint_bytes <= self.bytes
        if not (scripted or self.first_write_bytes == self.footprint_bytes == 0):
            raise ValueError(f"flow {self.id}: expected 0 < first_write_bytes <= footprint_bytes <= bytes")

    def to_text(self) -> str:
        """Its line of a trace file."""
        line = f"{self.id} {self.time_us} {self.service} {self.client} {self.server} {self.bytes}"
        return f"{line} {self.first_write_bytes} {self.footprint_bytes}" if self.first_write_bytes else line


@dataclass(frozen=True)
class Trace:
    """Flows in order of time, with the settings that made them."""

    flows: tuple[Flow, ...]
    settings: Mapping[str, str] = field(default_factory=dict)

    def to_text(self) -> str:
        """The file's content; equal traces give equal text."""
        head = ["# qclimb arrival trace: id time_us service client server bytes"]
        head += [f"# {key} {value}" for key, value in self.settings.items()]
        rows = (flow.to_text() for flow in self.flows)
        return "\n".join([*head, *rows]) + "\n"

    @staticmethod
    def from_text(text: str, where: str = "trace") -> Trace:
        """Reads a trace file's content; ValueError names the line that is wrong."""
        settings: dict[str, str] = {}
        flows: list[Flow] = []
        for number, line in enumerate(text.splitlines(), 1):
            if line.startswith("#"):
                key, _, value = line[1:].strip().partition(" ")
                if number > 1:
                    settings[key] = value
                continue
            try:
                flow_id, time_us, service, client, server, size, *scripted = line.split()
                flow = Flow(int(flow_id), int(time_us), service, client, server, int(size), *map(int, scripted))
            except (ValueError, TypeError) as error:
                raise ValueError(
                    f"{where}:{number}: expected id, time_us, service, client, server, bytes: {error}"
                ) from None
            if flows and flow.time_us < flows[-1].time_us:
                raise ValueError(f"{where}:{number}: time_us {flow.time_us} is before the line above")
            flows.append(flow)
        return Trace(tuple(flows), settings)

    @staticmethod
    def read(path: Path) -> Trace:
        """Reads a trace file."""
        return Trace.from_text(path.read_text(encoding="utf-8"), str(path))

    @property
    def digest(self) -> str:
        """SHA-256 of the file's content, hexadecimal."""
        return hashlib.sha256(self.to_text().encode()).hexdigest()

    @property
    def seconds(self) -> float:
        """The time over which the arrivals are spread."""
        return float(self.settings.get("seconds", self.flows[-1].time_us / 1e6 if self.flows else 0))


def wire_bytes(size_bytes: NDArray[np.int64] | int) -> NDArray[np.int64]:
    """Bytes on the wire of flows of these sizes, headers included."""
    size = np.asarray(size_bytes, np.int64)
    return size + HEADER_BYTES * -(-size // MSS_BYTES)


def load_of(trace: Trace, hosts: int, host_rate_bps: float) -> float:
    """The load of a trace, as this module's docstring defines it."""
    total = int(wire_bytes(np.array([flow.bytes for flow in trace.flows], np.int64)).sum())
    return total * 8 / (trace.seconds * hosts * host_rate_bps)


def make_trace(
    load: float,
    seed: int,
    seconds: float,
    hosts: Sequence[str],
    host_rate_bps: float,
    services: Sequence[Service] = SERVICES,
) -> Trace:
    """Poisson arrivals over uniform ordered pairs of distinct hosts; the same arguments give the same trace."""
    if not 0 < load < 1.5:
        raise ValueError(f"load is {load}, expected in (0, 1.5)")
    if not seconds > 0:
        raise ValueError(f"seconds is {seconds}, expected more than 0")
    if not len(hosts) >= 2:
        raise ValueError(f"a trace needs at least two hosts, got {list(hosts)}")
    random = np.random.default_rng([seed, 0x71])
    shares = np.array([found.flow_share for found in services])
    shares = shares / shares.sum()
    mean = float(shares @ [wire_bytes(int(found.mean_bytes)) for found in services])
    count = max(1, round(load * len(hosts) * host_rate_bps / 8 * seconds / mean))
    draws = (_draw(random, count, shares, len(hosts), services) for _ in range(max(1, min(DRAWS, MOST_DRAWN // count))))
    kind, client, server, size = min(draws, key=lambda draw: _busiest(draw, len(hosts), services))
    gaps = random.exponential(1.0, size=count + 1)
    # A Poisson process seen over [0, T] given its count: order statistics of uniforms, which scaling T keeps.
    times = np.cumsum(gaps)[:-1] / gaps.sum()
    length = float(wire_bytes(size).sum()) * 8 / (load * len(hosts) * host_rate_bps)
    time_us = (times * length * 1e6).astype(np.int64)
    flows = tuple(
        Flow(n + 1, int(time_us[n]), services[kind[n]].name, hosts[client[n]], hosts[server[n]], int(size[n]))
        for n in range(count)
    )
    settings = {
        "load": f"{load:g}",
        "seed": f"{seed}",
        "seconds": f"{length:.6f}",
        "hosts": ",".join(hosts),
        "host_rate_bps": f"{host_rate_bps:.0f}",
        "scale": f"{SCALE}",
        "interpolation": "linear",
        "services": ",".join(found.name for found in services),
    }
    return Trace(flows, settings)


Draw = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]
"""Service (index), client, server (host numbers) and size in bytes of each flow."""


def _draw(
    random: np.random.Generator, count: int, shares: NDArray[np.float64], hosts: int, services: Sequence[Service]
) -> Draw:
    kind = random.choice(len(services), size=count, p=shares)
    client, server = _pairs(random, kind, hosts, services)
    size = np.zeros(count, np.int64)
    for index, found in enumerate(services):
        at = np.flatnonzero(kind == index)
        size[at] = _sizes(found, random, client[at], server[at], hosts)
    return kind, client, server, size


def _busiest(draw: Draw, hosts: int, services: Sequence[Service]) -> float:
    """What the busiest host sends or receives, as a share of all bytes."""
    kind, client, server, size = draw
    pushed = np.array([found.how == "push" for found in services])[kind]
    ends = (np.where(pushed, client, server), np.where(pushed, server, client))
    return max(float(np.bincount(end, size, minlength=hosts).max()) / float(size.sum()) for end in ends)


def _pairs(
    random: np.random.Generator, kind: NDArray[np.int64], hosts: int, services: Sequence[Service]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Clients and servers: uniform over ordered pairs of distinct hosts, servers among those that serve."""
    every = np.array([found.servers_every for found in services])[kind]
    server = random.integers(0, -(-hosts // every)) * every
    other = random.integers(0, hosts - 1, size=kind.size)
    client = other + (other >= server)
    for index, found in enumerate(services):
        if found.partners:
            of_it = kind == index
            distance = random.choice(partner_distances(found, hosts), size=int(of_it.sum()))
            server[of_it] = (client[of_it] + distance) % hosts
    return client, server


def _sizes(
    found: Service,
    random: np.random.Generator,
    client: NDArray[np.int64],
    server: NDArray[np.int64],
    hosts: int,
) -> NDArray[np.int64]:
    """Flow sizes in bytes of one service, in order of arrival, by the rule in services.py."""
    if found.catalogue:
        files = catalogue(found)
        return np.array(files, np.int64)[random.integers(0, len(files), size=client.size)]
    pair = client * hosts + server
    peer = pair_constants(found, hosts)[pair]
    u = np.empty(client.size)
    runs: dict[int, tuple[int, float]] = {}
    for n in range(client.size):
        left, run = runs.get(int(pair[n]), (0, 0.0))
        if left == 0:
            left = int(random.geometric(1 / found.run_length))
            run = _reflect(float(peer[n] + found.peer_width * (random.random() - 0.5)))
        runs[int(pair[n])] = (left - 1, run)
        # A run of one flow has no second draw: its own place is the run's.
        width = found.run_width if found.run_length > 1 else 0.0
        u[n] = _reflect(run + width * (random.random() - 0.5))
    return found.size_bytes(u)


def partner_distances(found: Service, hosts: int) -> list[int]:
    """How many hosts further the servers of a service with fixed partners are: spread around the hosts."""
    count = min(found.partners, hosts - 1)
    return [1 + n * (hosts - 1) // count for n in range(count)]


@cache
def pair_constants(found: Service, hosts: int) -> NDArray[np.float64]:
    """The deployment's constant of each ordered pair (client x hosts + server), evenly spread over [0, 1].

    Of the service's name and not of a seed: the same in every trace. Of DEPLOYMENTS random ones, the one is taken in
    which the busiest host sends or receives the least, as an operator places jobs.
    """
    random = np.random.default_rng(int.from_bytes(hashlib.sha256(found.name.encode()).digest()[:8], "big"))
    client, server = np.divmod(np.arange(hosts * hosts), hosts)
    used = client != server
    if found.partners:
        used = np.isin((server - client) % hosts, partner_distances(found, hosts))
    even = (np.arange(int(used.sum())) + 0.5) / used.sum()

    def busiest(constants: NDArray[np.float64]) -> float:
        size = found.size_bytes(constants)
        sums = (np.bincount(end[used], size, minlength=hosts).max() for end in (client, server))
        return float(max(sums))

    found_constants = min((random.permutation(even) for _ in range(DEPLOYMENTS)), key=busiest)
    constants = np.full(hosts * hosts, 0.5)
    constants[used] = found_constants
    return constants


def _reflect(x: float) -> float:
    """Folds x in [-1, 2] back into [0, 1]."""
    return -x if x < 0 else 2 - x if x > 1 else x


def catalogue(found: Service) -> list[int]:
    """The sizes in bytes of a file service's files: evenly spaced quantiles of its table, so the mean stays near."""
    at = (np.arange(found.catalogue) + 0.5) / found.catalogue
    return sorted({int(size) for size in found.size_bytes(at)})


def describe(flows: Iterable[Flow]) -> dict[str, dict[str, float]]:
    """Flows and bytes of each size class and service, as shares."""
    from lab.workload.services import size_class

    found = list(flows)
    total = sum(flow.bytes for flow in found)
    result: dict[str, dict[str, float]] = {}
    for name in ("small", "medium", "large", *dict.fromkeys(flow.service for flow in found)):
        some = [flow.bytes for flow in found if name in (size_class(flow.bytes), flow.service)]
        result[name] = {"flows": len(some) / len(found), "bytes": sum(some) / total}
    return result
