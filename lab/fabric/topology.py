"""A leaf-spine fabric as values: names, addresses, ports and rates. Knows nothing of Linux commands.

Every cable has a number k; its two ends get the interface indices 1000 + 2k and 1000 + 2k + 1, unique in the whole
fabric, so that one table in the kernel can hold the state of all ports and `ifindex ^ 1` is the other end.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from qclimb.leaves import LARGEST_TH, LEAST_TH

Role = Literal["host", "leaf", "spine", "mgmt"]

QUEUES = 8
FIRST_IFINDEX = 1000
MAX_HOSTS, MAX_SWITCHES, MAX_CABLES = 100, 80, 512


class FabricError(Exception):
    """The fabric can't be built or used as asked; the text is one sentence for the person at the terminal."""


@dataclass(frozen=True)
class Node:
    """A network namespace with a place in the fabric."""

    name: str
    role: Role
    mgmt_address: str
    address: str = ""
    """Data address of a host, IPv4; empty for switches."""

    @property
    def is_switch(self) -> bool:
        """Leaf or spine."""
        return self.role in ("leaf", "spine")


@dataclass(frozen=True)
class Port:
    """One end of a cable; `node` transmits into it at `rate_bps` (wire bits, Ethernet header included)."""

    node: str
    name: str
    ifindex: int
    rate_bps: int
    peer_node: str
    peer_name: str
    is_switch: bool
    peer_is_switch: bool

    @property
    def peer_ifindex(self) -> int:
        """The other end of the cable."""
        return self.ifindex ^ 1

    @property
    def mac(self) -> str:
        """Locally administered, from the interface index."""
        return mac_of(self.ifindex)

    @property
    def peer_mac(self) -> str:
        """Of the other end."""
        return mac_of(self.peer_ifindex)


def mac_of(ifindex: int) -> str:
    """A locally administered MAC address for an interface of the fabric."""
    return "02:71:" + ":".join(f"{octet:02x}" for octet in ifindex.to_bytes(4, "big"))


@dataclass(frozen=True)
class Topology:
    """Sizes, rates and the buffer of a fabric; the defaults are what two cores carry honestly.

    `buffer_bytes` is the whole buffer of one port, shared by its queues, the same for every scheme. Testbeds: 350 KB a
    port at 25 Gb/s (QCLIMB), 240 packets at 10 Gb/s (PIAS). Divided by the lab's size factor of 20, 350 KB would be 12
    packets, less than two initial windows (10 packets each), since packets do not scale; PIAS's count would be 116 ms
    at 25 Mb/s. The default of 64 full packets lies between them on a logarithmic scale: 31 ms at a host's port, three
    times the minimum RTO, as a busy port in those testbeds holds several initial windows.

    `dynamic_th` is SONiC's: one queue may hold at most 2^dynamic_th times what is free of the buffer; 3 is the value of
    SONiC's lossy profiles, and leaves 8/9 of the port to a queue that is alone (plain TCP is not cut short).

    `host_clock_skew`: hosts transmit that share faster than switch ports. With exactly equal clocks a lone sender at
    line rate keeps a full buffer full without ever losing a packet, and shuts everybody else out: phase effects of
    drop-tail (Floyd and Jacobson 1992). Measured: 10 KB flows into one queue with two bulk flows of another host took
    2.9 s at p99 with 0, 0.2 s with 0.01, which is also what they take beside bulk flows of two hosts. Real clocks
    drift through a packet's phase within an RTO (100 ppm at 25 Gb/s: 5 ms); here it takes 100 packets, 48 ms. Without
    it plain TCP would look worse than it is.
    """

    leaves: int = 2
    spines: int = 2
    hosts_per_leaf: int = 4
    host_rate_bps: int = 25_000_000
    uplink_rate_bps: int = 50_000_000
    buffer_bytes: int = 64 * 1514
    dynamic_th: int = 3
    host_clock_skew: float = 0.01

    def __post_init__(self) -> None:
        sizes = {"leaves": self.leaves, "spines": self.spines, "hosts_per_leaf": self.hosts_per_leaf}
        for name, size in sizes.items():
            if not size >= 1:
                raise FabricError(f"topology: {name} is {size}, expected at least 1")
        if not self.leaves * self.hosts_per_leaf <= MAX_HOSTS:
            raise FabricError(f"topology: {self.leaves * self.hosts_per_leaf} hosts, expected at most {MAX_HOSTS}")
        if not self.leaves + self.spines <= MAX_SWITCHES:
            raise FabricError(f"topology: {self.leaves + self.spines} switches, expected at most {MAX_SWITCHES}")
        cables = self.leaves * (self.hosts_per_leaf + self.spines)
        if not cables <= MAX_CABLES:
            raise FabricError(f"topology: {cables} cables, expected at most {MAX_CABLES}")
        for name, rate in {"host_rate_bps": self.host_rate_bps, "uplink_rate_bps": self.uplink_rate_bps}.items():
            if not 1_000_000 <= rate <= 1_000_000_000 or rate % 1_000_000:
                raise FabricError(f"topology: {name} is {rate}, expected whole Mb/s from 1 Mb/s to 1 Gb/s")
        if not self.buffer_bytes >= 2 * 1514:
            raise FabricError(
                f"topology: buffer_bytes is {self.buffer_bytes}, expected at least two full packets (3028)"
            )
        if not 0 <= self.host_clock_skew <= 0.1:
            raise FabricError(f"topology: host_clock_skew is {self.host_clock_skew}, expected 0 to 0.1")
        if not LEAST_TH <= self.dynamic_th <= LARGEST_TH:  # a row of the switches' BUFFER_PROFILE
            raise FabricError(f"topology: dynamic_th is {self.dynamic_th}, expected {LEAST_TH} to {LARGEST_TH}")

    @cached_property
    def nodes(self) -> dict[str, Node]:
        """All nodes by name: mgmt, leaves, spines, hosts."""
        found = [Node("mgmt", "mgmt", "198.18.0.1")]
        found += [Node(name, "leaf", f"198.18.0.{11 + n}") for n, name in enumerate(self.leaf_names)]
        found += [Node(name, "spine", f"198.18.0.{11 + self.leaves + n}") for n, name in enumerate(self.spine_names)]
        for n in range(self.leaves * self.hosts_per_leaf):
            leaf, place = divmod(n, self.hosts_per_leaf)
            found.append(Node(f"h{n + 1}", "host", f"198.18.0.{101 + n}", f"198.19.{leaf + 1}.{place + 1}"))
        return {node.name: node for node in found}

    @property
    def leaf_names(self) -> list[str]:
        """l1, l2, ..."""
        return [f"l{n + 1}" for n in range(self.leaves)]

    @property
    def spine_names(self) -> list[str]:
        """s1, s2, ..."""
        return [f"s{n + 1}" for n in range(self.spines)]

    @property
    def hosts(self) -> dict[str, str]:
        """Data address of each host by name, in order."""
        return {node.name: node.address for node in self.nodes.values() if node.role == "host"}

    @property
    def switches(self) -> list[str]:
        """Names of leaves, then spines."""
        return self.leaf_names + self.spine_names

    def leaf_of(self, host: str) -> str:
        """The leaf that a host hangs on."""
        return f"l{(int(host[1:]) - 1) // self.hosts_per_leaf + 1}"

    def hosts_of(self, leaf: str) -> list[str]:
        """The hosts of one rack."""
        first = (int(leaf[1:]) - 1) * self.hosts_per_leaf
        return [f"h{first + n + 1}" for n in range(self.hosts_per_leaf)]

    @staticmethod
    def gateway_of(leaf: str) -> str:
        """The address that a rack's hosts send to."""
        return f"198.19.{leaf[1:]}.254"

    @staticmethod
    def rack_of(leaf: str) -> str:
        """The prefix of a rack."""
        return f"198.19.{leaf[1:]}.0/24"

    @cached_property
    def ports(self) -> tuple[Port, ...]:
        """Both ends of every data cable: hosts first, then uplinks; even index = the leaf's end."""
        return tuple(self._ports())

    def _ports(self) -> Iterator[Port]:
        cable = 0
        for leaf in self.leaf_names:
            for n, host in enumerate(self.hosts_of(leaf)):
                yield from self._cable(cable, leaf, f"Ethernet{4 * n}", host, "eth0", self.host_rate_bps)
                cable += 1
        for leaf_number, leaf in enumerate(self.leaf_names):
            for n, spine in enumerate(self.spine_names):
                up, down = f"Ethernet{4 * (self.hosts_per_leaf + n)}", f"Ethernet{4 * leaf_number}"
                yield from self._cable(cable, leaf, up, spine, down, self.uplink_rate_bps)
                cable += 1

    def _cable(self, cable: int, node: str, port: str, peer: str, peer_port: str, rate: int) -> Iterator[Port]:
        index, peer_switch = FIRST_IFINDEX + 2 * cable, not peer.startswith("h")
        peer_rate = rate if peer_switch else round(rate * (1 + self.host_clock_skew))
        yield Port(node, port, index, rate, peer, peer_port, True, peer_switch)
        yield Port(peer, peer_port, index + 1, peer_rate, node, port, peer_switch, True)

    def ports_of(self, node: str) -> list[Port]:
        """The data ports of one node, in order."""
        return [port for port in self.ports if port.node == node]

    @property
    def switch_ports(self) -> list[Port]:
        """Every port whose queue is in a switch."""
        return [port for port in self.ports if port.is_switch]
