"""Four hosts' worth of namespaces around one bottleneck: a (the flows under test) and c (others) send to b through s.

    a ----+
          s ==== rate, strict priorities ==== b
    c ----+

Only s's port to b is shaped, as a switch's is: HTB with a leaf a priority, in which packets wait (HOST.md's recipe:
8 bit/s of its own for each leaf, all else borrowed in the order of `prio`). One packet is one skb (`gso_max_segs 1`),
and one CPU takes what a device receives, or the emulation itself would reorder.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from lab.fabric.commands import Command, Ip, Tc, Write, run_all, sysctl
from lab.fabric.detect import require_root_and_tools

ADDRESS = {"a": "198.19.241.1", "c": "198.19.242.1", "b": "198.19.243.1"}
GATEWAY = {"a": "198.19.241.254", "c": "198.19.242.254", "b": "198.19.243.254"}
PACKET_BYTES = 1514


@dataclass(frozen=True)
class Bed:
    """A bed that is up."""

    prefix: str
    directory: Path

    def netns(self, host: str) -> str:
        """The namespace of a, b, c or s."""
        return f"{self.prefix}-{host}"

    def run_dir(self, host: str) -> Path:
        """QCLIMB_RUN of a host, with a BPF file system in it."""
        return self.directory / host

    def start(self, host: str, argv: list[str], env: dict[str, str]) -> subprocess.Popen[str]:
        """A program on a host; `env` is its own, not that of `ip`."""
        words = [f"{name}={value}" for name, value in env.items()]
        return subprocess.Popen(
            ["ip", "netns", "exec", self.netns(host), "env", *words, *argv],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )


def _links(prefix: str) -> Iterator[Command]:
    names = {host: f"{prefix}-{host}" for host in (*ADDRESS, "s")}
    for netns in names.values():
        yield Ip("", f"netns add {netns}")
    for host, address in ADDRESS.items():
        yield Ip("", f"link add e0 netns {names[host]} type veth peer name {host} netns {names['s']}")
        yield Ip(names[host], f"addr add {address}/24 dev e0")
        yield Ip(names["s"], f"addr add {GATEWAY[host]}/24 dev {host}")
        for netns, device in ((names[host], "e0"), (names["s"], host)):
            yield Ip(netns, f"link set dev {device} gso_max_segs 1 up")
            yield Write(netns, f"/sys/class/net/{device}/queues/rx-0/rps_cpus", "1")
        yield Ip(names[host], "link set lo up")
        # bbr, the default of some machines, hardly minds losses; quick ACKs as hostd sets them.
        yield Ip(names[host], f"route add default via {GATEWAY[host]} congctl cubic quickack 1")
        yield sysctl(names[host], "net.ipv4.tcp_no_metrics_save", 1)
    yield sysctl(names["s"], "net.ipv4.ip_forward", 1)


def _bottleneck(netns: str, rate_mbit: int, buffer_packets: int, dscps: tuple[int, ...]) -> Iterator[Command]:
    ceil = f"ceil {rate_mbit}mbit cburst 1600"
    yield Tc(netns, f"qdisc add dev b root handle 1: htb default {len(dscps)}")
    yield Tc(netns, f"class add dev b parent 1: classid 1:99 htb rate {rate_mbit}mbit burst 1600 {ceil} quantum 1514")
    for priority, dscp in enumerate(dscps):
        leaf = f"1:{priority + 1}"
        yield Tc(
            netns,
            f"class add dev b parent 1:99 classid {leaf} htb rate 8bit burst 1 {ceil} prio {priority} quantum 1514",
        )
        yield Tc(netns, f"qdisc add dev b parent {leaf} pfifo limit {buffer_packets}")
        yield Tc(
            netns,
            f"filter add dev b parent 1: protocol ip prio 1 u32 match ip tos {dscp << 2:#x} 0xfc flowid {leaf}",
        )


@contextmanager
def bed(prefix: str, directory: Path, rate_mbit: int, buffer_packets: int, dscps: tuple[int, ...]) -> Iterator[Bed]:
    """Builds it, and takes it away whatever happens.

    Raises:
        FabricError: no root, a tool or a kernel feature is missing.
    """
    require_root_and_tools()
    made = Bed(prefix, directory)
    mounted = []
    try:
        run_all([*_links(prefix), *_bottleneck(made.netns("s"), rate_mbit, buffer_packets, dscps)])
        for host in ("a", "b"):
            point = made.run_dir(host) / "bpf"
            point.mkdir(parents=True, exist_ok=True)
            # Here, and not by the tagger within a namespace: `ip netns exec` would hide it from the programs.
            subprocess.run(["mount", "-t", "bpf", "-o", "mode=0755", "qclimb", str(point)], check=True)
            mounted.append(point)
        yield made
    finally:
        for point in mounted:
            subprocess.run(["umount", "-l", str(point)], check=False)
        for host in (*ADDRESS, "s"):
            with suppress(subprocess.CalledProcessError):
                subprocess.run(["ip", "netns", "del", made.netns(host)], check=True, capture_output=True)
