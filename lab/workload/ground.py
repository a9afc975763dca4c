"""What traffic runs on: named hosts in which programs can be started and counters read. The fabric, or loopback for
tests."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from lab.fabric import Fabric
from lab.fabric.queues import credit_bytes
from lab.workload.alone import Alone

TCP_COUNTERS: Mapping[str, str] = {
    "OutSegs": "segments sent, retransmissions aside",
    "RetransSegs": "segments retransmitted",
    "TCPDSACKRecv": "retransmissions that the receiver says it had already (spurious): DSACK blocks for in-order data",
    "TCPDSACKOfoRecv": "the same, for data above a gap",
    "TCPTimeouts": "retransmission timeouts",
    "TCPLossProbes": "tail loss probes sent",
    "TCPFastRetrans": "fast retransmissions",
    "TCPSACKReorder": "reorderings seen by SACK",
    "TCPDSACKUndo": "congestion windows given back, as every retransmission proved spurious",
}


class Ground(Protocol):
    """Hosts by name, each with an address of its own; programs of a host see only its network."""

    @property
    def hosts(self) -> Mapping[str, str]:
        """IPv4 address of each host by name."""

    @property
    def host_rate_bps(self) -> float:
        """Rate of a host's link."""

    def path_rates_bps(self, sender: str, receiver: str) -> Sequence[float]:
        """Rates of the links between two hosts, in order."""

    @property
    def alone(self) -> Alone:
        """What flows take alone here."""

    def start(self, host: str, argv: Sequence[str], output: Path, is_scheduled: bool = True) -> subprocess.Popen[bytes]:
        """Starts a program in a host, its output to a file; `is_scheduled`: its flows are, by what schedules here."""

    def tcp_counters(self, host: str) -> dict[str, int]:
        """The counters named in TCP_COUNTERS, of one host's network, since it began."""

    def queue_drops(self) -> dict[str, int]:
        """Packets dropped at switch ports since they began, by SONiC queue number as text."""

    def queued_bytes(self) -> dict[str, int]:
        """What waits at switch ports now, by SONiC queue number as text."""


class Loopback:
    """Addresses of 127.0.0.0/8 as hosts. For tests: one network, no rate, no shim unless `library` names it."""

    def __init__(
        self,
        hosts: int = 4,
        network: str = "127.0.1",
        library: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.hosts = {f"h{n + 1}": f"{network}.{n + 1}" for n in range(hosts)}
        self.host_rate_bps = 25e6
        self.alone = Alone()
        self._environment = dict(environment or {})
        if library:
            self._environment["LD_PRELOAD"] = str(library)

    def path_rates_bps(self, sender: str, receiver: str) -> Sequence[float]:
        """Two links, as in one rack."""
        return (self.host_rate_bps, self.host_rate_bps)

    def start(self, host: str, argv: Sequence[str], output: Path, is_scheduled: bool = True) -> subprocess.Popen[bytes]:
        """Starts a program here."""
        environment = {**os.environ, **(self._environment if is_scheduled else {})}
        with output.open("ab") as file:
            return subprocess.Popen(list(argv), stdout=file, stderr=file, stdin=subprocess.DEVNULL, env=environment)

    def tcp_counters(self, host: str) -> dict[str, int]:
        """Of the whole machine, counted at the first host only."""
        return read_tcp_counters(Path("/proc/thread-self/net")) if host == "h1" else dict.fromkeys(TCP_COUNTERS, 0)

    def queue_drops(self) -> dict[str, int]:
        """Loopback has no switch."""
        return {}

    def queued_bytes(self) -> dict[str, int]:
        """Loopback has no switch."""
        return {}


class FabricGround:
    """The hosts of a fabric of network namespaces."""

    def __init__(self, fabric: Fabric, alone: Alone | None = None) -> None:
        self._fabric = fabric
        self.hosts: Mapping[str, str] = fabric.hosts
        self.host_rate_bps = float(fabric.topology.host_rate_bps)
        self.alone = alone or Alone(credit_bytes(fabric.record.shaper))

    def path_rates_bps(self, sender: str, receiver: str) -> Sequence[float]:
        """Two host links in one rack, two uplinks more between racks."""
        topology = self._fabric.topology
        (port,) = topology.ports_of(sender)
        first, uplink = float(port.rate_bps), float(topology.uplink_rate_bps)
        same_rack = topology.leaf_of(sender) == topology.leaf_of(receiver)
        return (first, *(() if same_rack else (uplink, uplink)), self.host_rate_bps)

    def start(self, host: str, argv: Sequence[str], output: Path, is_scheduled: bool = True) -> subprocess.Popen[bytes]:
        """Starts a program in a host's namespace."""
        with output.open("ab") as file:
            return self._fabric.popen(
                host,
                argv,
                is_scheduled=is_scheduled,
                stdout=file,
                stderr=file,
                stdin=subprocess.DEVNULL,
            )

    def tcp_counters(self, host: str) -> dict[str, int]:
        """Of one host's namespace."""
        with self._fabric.entered(host):
            return read_tcp_counters(Path("/proc/thread-self/net"))

    def queue_drops(self) -> dict[str, int]:
        """Sum over switch ports; empty where the machine can't count them."""
        return self._over_ports("dropped_packets")

    def queued_bytes(self) -> dict[str, int]:
        """Sum over switch ports; empty where the machine can't count them."""
        return self._over_ports("queued_bytes")

    def _over_ports(self, counter: str) -> dict[str, int]:
        buffer = self._fabric.shared_buffer
        if buffer is None:
            return {}
        total: dict[str, int] = {}
        for port in self._fabric.topology.switch_ports:
            for number, queue in enumerate(buffer.state(port.ifindex).queue):
                total[str(number)] = total.get(str(number), 0) + getattr(queue, counter)
        return total


def read_tcp_counters(net: Path) -> dict[str, int]:
    """TCP_COUNTERS from the `snmp` and `netstat` files of a /proc/.../net directory; a counter the kernel lacks is
    0."""
    found: dict[str, int] = {}
    for name in ("snmp", "netstat"):
        lines = (net / name).read_text(encoding="ascii").splitlines()
        for keys, values in zip(lines[::2], lines[1::2], strict=True):
            table = keys.split()
            if table[0] in ("Tcp:", "TcpExt:"):
                found.update(zip(table[1:], (int(value) for value in values.split()[1:]), strict=True))
    return {key: found.get(key, 0) for key in TCP_COUNTERS}
