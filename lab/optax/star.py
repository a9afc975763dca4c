"""A star: senders and one receiver around a switch with strict-priority queues towards the receiver.

Not the leaf-spine of `lab.fabric`: OPTAX is about the last port before a receiver, and one shaped hop instead of four
leaves the CPU to the applications. It is made of the same parts: namespaces, `lab.fabric.queues`, one packet a buffer.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from lab.fabric import netns
from lab.fabric.commands import Command, Ip, Tc, Write, run_all, sysctl
from lab.fabric.detect import require_root_and_tools, shaper
from lab.fabric.queues import QueueProgram, Service, Shaper, shape, u32_filters

RTO_MIN_MS = 10
RECEIVER_ADDRESS = "198.19.100.1"


@dataclass(frozen=True)
class Star:
    """`senders` hosts that send to one receiver through a port of `rate_bps` with `buffer_packets` a queue."""

    prefix: str = "ox"
    senders: int = 8
    rate_bps: int = 100_000_000
    buffer_packets: int = 300
    first_dscp: int | None = None
    """Packets with this DSCP are served first; None: all packets in one queue."""

    @property
    def receiver(self) -> str:
        """The receiver's namespace."""
        return f"{self.prefix}-r"

    @property
    def switch(self) -> str:
        """The switch's namespace."""
        return f"{self.prefix}-sw"

    @property
    def sender_names(self) -> list[str]:
        """The senders' namespaces."""
        return [f"{self.prefix}-s{n + 1}" for n in range(self.senders)]

    @property
    def hosts(self) -> dict[str, str]:
        """Address by namespace, of all hosts."""
        return {self.receiver: RECEIVER_ADDRESS} | {
            name: f"198.19.100.{10 + n}" for n, name in enumerate(self.sender_names)
        }

    @property
    def program(self) -> QueueProgram:
        """The port's queues: one, or two by DSCP."""
        if self.first_dscp is None:
            return QueueProgram()
        queues = tuple(7 if dscp == self.first_dscp else 0 for dscp in range(64))
        return QueueProgram(queues, (Service(),) * 7 + (Service(strict=True),))


def build(star: Star, kind: Shaper) -> list[Command]:
    """The commands that make it."""
    names = list(star.hosts)
    commands: list[Command] = [Ip("", f"netns add {name}") for name in (star.switch, *names)]
    commands.append(Ip(star.switch, "link add name br0 type bridge"))
    commands.append(Ip(star.switch, "link set br0 up"))
    for number, name in enumerate(names):
        commands.append(
            Ip("", f"link add name p{number} netns {star.switch} type veth peer name eth0 netns {name}"),
        )
    for number, name in enumerate(names):
        address = star.hosts[name]
        commands += [
            Ip(star.switch, f"link set p{number} gso_max_segs 1 master br0 up"),
            Ip(name, "link set eth0 gso_max_segs 1 up"),
            Ip(name, "link set lo up"),
            Ip(name, f"addr add {address}/32 dev eth0"),
            Ip(
                name,
                f"route add 198.19.100.0/24 dev eth0 src {address} quickack 1 rto_min {RTO_MIN_MS}ms congctl cubic",
            ),
            sysctl(name, "net.ipv4.tcp_no_metrics_save", 1),
            sysctl(name, "net.ipv4.tcp_rto_min_us", RTO_MIN_MS * 1000, optional=True),
            Write(name, "/sys/class/net/eth0/queues/rx-0/rps_cpus", "1", optional=True),
            Write(star.switch, f"/sys/class/net/p{number}/queues/rx-0/rps_cpus", "1", optional=True),
        ]
        commands += [Tc(name, line) for line in shape("eth0", star.rate_bps, QueueProgram(), kind, 1000)]
    commands += [Tc(star.switch, line) for line in shape("p0", star.rate_bps, star.program, kind, star.buffer_packets)]
    if star.first_dscp is not None:
        commands += [Tc(star.switch, line) for line in u32_filters("p0", star.program, kind, 1)]
    return commands


@contextmanager
def up(star: Star) -> Iterator[Star]:
    """The star while the block runs; SIGTERM takes it down too.

    Raises:
        FabricError: no root, a tool is missing, or the kernel refused.
    """
    require_root_and_tools()
    names = [star.switch, *star.hosts]
    kind, _notes = shaper(f"{star.prefix}-probe")

    def end(_signal: int, _frame: object) -> None:
        raise SystemExit(128 + signal.SIGTERM)

    before = signal.signal(signal.SIGTERM, end)
    try:
        take_down(names)
        run_all(build(star, kind))
        yield star
    finally:
        take_down(names)
        signal.signal(signal.SIGTERM, before)


def take_down(names: list[str]) -> None:
    """Ends what lives in these namespaces, and removes them."""
    netns.end_processes([name for name in names if netns.exists(name)])
    netns.remove(names)


def in_netns(name: str, argv: list[str], variables: dict[str, str]) -> list[str]:
    """The command that runs `argv` in a namespace, with variables that `ip` itself does not see."""
    return ["ip", "netns", "exec", name, "env", *(f"{key}={value}" for key, value in variables.items()), *argv]
