"""A star of network namespaces: a few senders, a switch, and one receiver whose port is the bottleneck.

The switch's port to the receiver has eight strict queues (lab.fabric.queues); all other links have no shaper. Every
namespace and process goes when the context is left.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from qclimb.policy import default_dscp

from lab.fabric import detect, netns
from lab.fabric.commands import Command, Ethtool, Ip, Tc, Write, run_all, sysctl
from lab.fabric.queues import QueueProgram, Service, shape, u32_filters
from lab.fabric.topology import QUEUES

SENDERS = 4
RTO_MIN_MS = 20
"""Of the routes between hosts; stock Linux has 200 ms."""
QUEUE_PACKETS = 300


@dataclass(frozen=True)
class Star:
    """Names of the namespaces, and the receiver's address."""

    senders: tuple[str, ...]
    receiver: str
    address: str = "198.19.240.2"


def _program() -> QueueProgram:
    """DSCP of priority p -> queue 7 - p; all queues strict; DSCP 0 in the one that is served last."""
    queues = [0] * 64
    for priority, dscp in enumerate(default_dscp(QUEUES)):
        queues[dscp] = QUEUES - 1 - priority
    return QueueProgram(tuple(queues), (Service(strict=True),) * QUEUES)


def _host(name: str, switch: str, port: str, net: int) -> Iterator[Command]:
    """A host with its cable; /30 networks 198.19.240.4n, the switch has .1, the host .2."""
    base = f"198.19.240.{net * 4}"
    here, there = f"198.19.240.{net * 4 + 2}", f"198.19.240.{net * 4 + 1}"
    yield Ip("", f"link add name {port} netns {switch} type veth peer name e0 netns {name}")
    for where, device, address in ((switch, port, there), (name, "e0", here)):
        yield Ip(where, f"addr add {address}/30 dev {device}")
        yield Ip(where, f"link set dev {device} gso_max_segs 1 up")
        yield Ethtool(where, f"-K {device} gro off")
        yield Write(where, f"/sys/class/net/{device}/queues/rx-0/rps_cpus", "1", optional=True)
    yield Ip(name, "link set dev lo up")
    # cubic by route: a machine whose default is another may refuse the sysctl
    yield Ip(name, f"route replace {base}/30 dev e0 congctl cubic")
    yield Ip(name, f"route add default via {there} congctl cubic rto_min {RTO_MIN_MS}ms")


@contextmanager
def star(prefix: str, rate_bps: int) -> Iterator[Star]:
    """The star, up. Raises FabricError."""
    detect.require_root_and_tools()
    shaper, _ = detect.shaper(f"{prefix}-probe")
    switch, receiver = f"{prefix}-sw", f"{prefix}-rx"
    senders = tuple(f"{prefix}-tx{n + 1}" for n in range(SENDERS))
    names = (switch, receiver, *senders)
    netns.end_processes([name for name in names if netns.exists(name)])
    netns.remove(names)
    program = _program()
    try:
        run_all([Ip("", f"netns add {name}") for name in names])
        run_all([sysctl(switch, "net.ipv4.ip_forward", 1)])
        for net, name in enumerate((receiver, *senders)):
            run_all(_host(name, switch, f"p{net}", net))
        run_all(Tc(switch, line) for line in shape("p0", rate_bps, program, shaper, QUEUE_PACKETS))
        run_all(Tc(switch, line) for line in u32_filters("p0", program, shaper, 1))
        yield Star(senders, receiver)
    finally:
        netns.end_processes([name for name in names if netns.exists(name)])
        netns.remove(names)


def argv_in(name: str, argv: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    """A command inside a namespace; the environment counts for it alone, not for `ip`."""
    return ["ip", "netns", "exec", name, "env", *(f"{key}={value}" for key, value in environment.items()), *argv]
