"""Leaf-spine fabrics, and the two that are special cases: a single-rooted tree (one spine), a star (one leaf).

Store and forward at every port. A link is a rate and a delay; the delay holds propagation and the processing at its
end. The host's delay is on its own link, both ways.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lab.sim.errors import ExperimentError, Settings, check_kinds

PS_PER_BYTE_AT_1_BPS = 8 * 10**12


@dataclass(frozen=True)
class Topology:
    """Hosts below leaves, each leaf with one link to each spine. Defaults: pFabric's 144 hosts at 10G/40G with a
    round trip of 14.6 us for a packet and its ACK."""

    leaves: int = 9
    spines: int = 4
    hosts_per_leaf: int = 16
    host_rate_bps: int = 10 * 10**9
    uplink_rate_bps: int = 40 * 10**9
    edge_delay_ns: int = 1450
    """Of a link between host and leaf, one way."""
    core_delay_ns: int = 1450
    """Of a link between leaf and spine, one way."""

    def __post_init__(self) -> None:
        check_kinds("topology.", self)
        for name in ("leaves", "hosts_per_leaf"):
            if not getattr(self, name) >= 1:
                raise ExperimentError(f"topology.{name} is {getattr(self, name)}, expected 1 or more")
        if not (self.spines >= 1 or (self.spines == 0 and self.leaves == 1)):
            raise ExperimentError(
                f"topology.spines is {self.spines}: {self.leaves} leaves are disconnected without a spine"
            )
        if not self.hosts >= 2:
            raise ExperimentError(f"topology.hosts_per_leaf is {self.hosts_per_leaf}: a flow needs two hosts")
        if not self.hosts <= 2**20:
            raise ExperimentError(f"topology.leaves times hosts_per_leaf is {self.hosts}, expected at most {2**20}")
        if not self.leaves * self.spines <= 2**20:
            raise ExperimentError(
                f"topology.leaves times spines is {self.leaves * self.spines}, expected at most {2**20}"
            )
        for name in ("host_rate_bps", "uplink_rate_bps"):
            rate = getattr(self, name)
            if not (rate > 0 and PS_PER_BYTE_AT_1_BPS % rate == 0):
                raise ExperimentError(
                    f"topology.{name} is {rate}: a byte must take whole picoseconds (8e12 / rate), as at 1, 10, 25, "
                    "40, 50, 100, 160, 200 or 400 Gb/s"
                )
        for name in ("edge_delay_ns", "core_delay_ns"):
            if not 0 <= getattr(self, name) <= 10**9:
                raise ExperimentError(f"topology.{name} is {getattr(self, name)}, expected 0 to 1e9")

    @property
    def hosts(self) -> int:
        """How many hosts there are; they are numbered rack by rack."""
        return self.leaves * self.hosts_per_leaf

    @property
    def host_ps_per_byte(self) -> int:
        """Of a host's link."""
        return PS_PER_BYTE_AT_1_BPS // self.host_rate_bps

    @property
    def uplink_ps_per_byte(self) -> int:
        """Of a link between leaf and spine."""
        return PS_PER_BYTE_AT_1_BPS // self.uplink_rate_bps

    def crosses_core(self, source: NDArray[np.integer[Any]], target: NDArray[np.integer[Any]]) -> NDArray[np.bool_]:
        """Whether a flow's hosts stand in different racks."""
        return np.asarray(source // self.hosts_per_leaf != target // self.hosts_per_leaf)

    def settings(self) -> Settings:
        """As the engine reads them."""
        return {
            "fabric": "leaf-spine",
            "leaves": self.leaves,
            "spines": self.spines,
            "hosts_per_leaf": self.hosts_per_leaf,
            "host_ps_per_byte": self.host_ps_per_byte,
            "uplink_ps_per_byte": self.uplink_ps_per_byte,
            "edge_delay_ps": self.edge_delay_ns * 1000,
            "core_delay_ps": self.core_delay_ns * 1000,
        }

    def ideal_between(
        self,
        source: NDArray[np.integer[Any]],
        target: NDArray[np.integer[Any]],
        size_bytes: NDArray[np.integer[Any]],
        payload_bytes: int,
        header_bytes: int,
    ) -> NDArray[np.int64]:
        """ideal_ps by pair of hosts."""
        crosses = self.crosses_core(np.asarray(source), np.asarray(target))
        return self.ideal_ps(np.asarray(size_bytes, np.uint64), crosses, payload_bytes, header_bytes)

    def ideal_ps(
        self,
        size_bytes: NDArray[np.uint64],
        crosses_core: NDArray[np.bool_],
        payload_bytes: int,
        header_bytes: int,
    ) -> NDArray[np.int64]:
        """From a flow's start to its last byte's arrival with the network to itself and no window in its way, ps."""
        size = np.asarray(size_bytes, np.int64)
        result = np.empty(size.shape, np.int64)
        edge, core = self.edge_delay_ns * 1000, self.core_delay_ns * 1000
        slow, fast = self.host_ps_per_byte, self.uplink_ps_per_byte
        for crosses, path in (
            (False, [(slow, edge), (slow, edge)]),
            (True, [(slow, edge), (fast, core), (fast, core), (slow, edge)]),
        ):
            at = np.asarray(crosses_core) == crosses
            result[at] = last_byte_ps(size[at], path, payload_bytes, header_bytes)
        return result


def last_byte_ps(
    size_bytes: NDArray[np.integer[Any]], path: Sequence[tuple[int, int]], payload_bytes: int, header_bytes: int
) -> NDArray[np.int64]:
    """When the last byte arrives over links of (ps a byte, delay in ps), alone, ps after the first one leaves.

    Exact: full packets leave hop h one after another at the pace of the slowest link so far; the last packet (which may
    be shorter) leaves hop h when it has come and the full one before it is gone.
    """
    size = np.asarray(size_bytes, np.int64)
    packets = -(-size // payload_bytes)
    full = payload_bytes + header_bytes
    last = size - (packets - 1) * payload_bytes + header_bytes
    arrived = np.zeros(size.shape, np.int64)  # the last packet, at this hop
    slowest = first_full = 0
    for rate, delay in path:
        slowest = max(slowest, rate)
        first_full += full * rate
        gone = np.where(packets > 1, first_full + (packets - 2) * full * slowest, 0)  # the full packet before it
        arrived = np.maximum(arrived, gone) + last * rate + delay
        first_full += delay
    return arrived


def star(hosts: int, rate_bps: int = 10 * 10**9, delay_ns: int = 1450) -> Topology:
    """Hosts on one switch; with many senders and one receiver, a single bottleneck."""
    return Topology(1, 0, hosts, rate_bps, rate_bps, delay_ns, delay_ns)


def single_rooted_tree(
    leaves: int = 4, hosts_per_leaf: int = 3, rate_bps: int = 10**9, uplink_rate_bps: int = 10**9, delay_ns: int = 25100
) -> Topology:
    """Two tiers with one root. Defaults: PDQ's 12 servers at 1 Gb/s (17 nodes)."""
    return Topology(leaves, 1, hosts_per_leaf, rate_bps, uplink_rate_bps, delay_ns, delay_ns)
