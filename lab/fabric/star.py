"""A star: hosts around one switch, whose port to one of them, the receiver, is the bottleneck.

    with up(Star("ox", ("s1", "s2"), rate_bps=100_000_000, queue_packets=300)) as star:
        server = subprocess.Popen(argv_in(star.netns("s1"), ["iperf3", "-s"], {"QCLIMB_RUN": "/run/qclimb"}))

Not the leaf-spine of `lab.fabric.plan`: some experiments are about the last port before a receiver, and one shaped hop
instead of four leaves the CPU to the applications. It is made of the same parts: namespaces, `lab.fabric.queues`, one
packet a buffer, one CPU for all that is received, cubic by route.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from lab.fabric import state
from lab.fabric.commands import Command, Ethtool, Ip, Tc, Write, run_all, sysctl
from lab.fabric.detect import require_root_and_tools, shaper
from lab.fabric.plan import netns_of
from lab.fabric.queues import DSCPS, QueueProgram, Service, Shaper, shape, u32_filters
from lab.fabric.sigterm import exits_on_sigterm
from lab.fabric.topology import QUEUES, FabricError

HOST_DEVICE = "eth0"
"""Each host's one interface but lo."""
NETWORK = "198.19.240"
"""The first three bytes of all addresses, of RFC 2544's benchmark networks."""
HOST_QUEUE_PACKETS = 1000
"""What waits at a shaped host, in one queue: Linux's txqueuelen."""


@dataclass(frozen=True)
class Star:
    """What is built. `senders` and `receiver` are the hosts' names; a namespace is `prefix`-name, the switch's
    `prefix`-sw."""

    prefix: str
    senders: tuple[str, ...]
    rate_bps: int
    """Of the switch's port to the receiver."""
    queue_packets: int
    """What each of that port's queues holds."""
    receiver: str = "r"
    dscps: tuple[int, ...] = ()
    """Each has a queue of its own at that port, strictly served in this order; all others share the one after them."""
    rto_min_ms: int | None = None
    """Of the hosts' routes; None: the kernel's, 200 ms in stock Linux."""
    quickack: bool = True
    metrics_save: bool = False
    """Whether a connection begins with what TCP remembers of the last one between the same hosts."""
    hosts_shaped: bool = False
    """Whether hosts send at `rate_bps` too, or as fast as the CPU can."""

    def __post_init__(self) -> None:
        if not self.senders or len({*self.hosts, "sw", "probe"}) != len(self.hosts) + 2 or len(self.hosts) > 250:
            raise FabricError(f"a star's hosts are {self.hosts}, expected 2 to 250 names, none twice, none sw or probe")
        if not (self.rate_bps > 0 and self.queue_packets > 0):
            raise FabricError(f"a port of {self.rate_bps} bit/s and {self.queue_packets} packets, expected more than 0")
        if not len(set(self.dscps)) == len(self.dscps) < QUEUES or not all(0 <= dscp < DSCPS for dscp in self.dscps):
            raise FabricError(f"dscps is {self.dscps}, expected at most {QUEUES - 1} different ones in 0..{DSCPS - 1}")

    @property
    def hosts(self) -> tuple[str, ...]:
        """The receiver, then the senders."""
        return (self.receiver, *self.senders)

    def netns(self, name: str) -> str:
        """The namespace of a host, or of the switch `sw`."""
        return netns_of(self.prefix, name)

    def address(self, host: str) -> str:
        """Of a host."""
        return f"{NETWORK}.{self.hosts.index(host) + 1}"

    @property
    def port(self) -> str:
        """The switch's interface to the receiver."""
        return _port(self.receiver)

    def argv(self, host: str, argv: Sequence[str], environment: Mapping[str, str]) -> list[str]:
        """The command that runs `argv` on a host."""
        return argv_in(self.netns(host), argv, environment)

    @property
    def namespaces(self) -> list[str]:
        """All of them."""
        return [self.netns(name) for name in ("sw", *self.hosts)]

    @property
    def program(self) -> QueueProgram:
        """The queues of the port to the receiver: DSCP n of `dscps` in queue 7 - n, all others in queue 0."""
        queues = {dscp: QUEUES - 1 - place for place, dscp in enumerate(self.dscps)}
        return QueueProgram(tuple(queues.get(dscp, 0) for dscp in range(DSCPS)), (Service(strict=True),) * QUEUES)


def build(star: Star, kind: Shaper) -> list[Command]:
    """The commands that make it."""
    switch = star.netns("sw")
    commands: list[Command] = [Ip("", f"netns add {name}") for name in star.namespaces]
    commands += [Ip(switch, "link add name br0 type bridge"), Ip(switch, "link set br0 up")]
    commands += [
        Ip("", f"link add name {_port(host)} netns {switch} type veth peer name {HOST_DEVICE} netns {star.netns(host)}")
        for host in star.hosts
    ]
    commands += [Ip(switch, f"link set {_port(host)} gso_max_segs 1 master br0 up") for host in star.hosts]
    for host in star.hosts:
        commands += _offloads(switch, _port(host))
    commands += [Tc(switch, line) for line in shape(star.port, star.rate_bps, star.program, kind, star.queue_packets)]
    commands += [Tc(switch, line) for line in u32_filters(star.port, star.program, kind, 1)]
    for host in star.hosts:
        commands += _host(star, host, kind)
    return commands


def _port(host: str) -> str:
    return f"to-{host}"


def _host(star: Star, host: str, kind: Shaper) -> Iterator[Command]:
    name, address = star.netns(host), star.address(host)
    # Cubic by route: a machine whose default is another, such as bbr, may refuse the sysctl.
    options = " congctl cubic" + (" quickack 1" if star.quickack else "")
    options += f" rto_min {star.rto_min_ms}ms" if star.rto_min_ms else ""
    yield Ip(name, f"link set {HOST_DEVICE} gso_max_segs 1 up")
    yield Ip(name, "link set lo up")
    yield Ip(name, f"addr add {address}/32 dev {HOST_DEVICE}")
    yield Ip(name, f"route add {NETWORK}.0/24 dev {HOST_DEVICE} src {address}{options}")
    yield from _offloads(name, HOST_DEVICE)
    yield sysctl(name, "net.ipv4.tcp_no_metrics_save", int(not star.metrics_save))
    if star.hosts_shaped:
        for line in shape(HOST_DEVICE, star.rate_bps, QueueProgram(), kind, HOST_QUEUE_PACKETS):
            yield Tc(name, line)


def _offloads(name: str, device: str) -> Iterator[Command]:
    """One packet a buffer, and one CPU for what a device receives: else packets of one flow overtake each other."""
    yield Ethtool(name, f"-K {device} gro off")
    yield Write(name, f"/sys/class/net/{device}/queues/rx-0/rps_cpus", "1", optional=True)


@contextmanager
def up(star: Star) -> Iterator[Star]:
    """The star while the block runs; an exception, Ctrl-C and SIGTERM take it down too, and what a killed owner left
    under the same prefix goes first; `qclimb lab down` removes it too.

    Raises:
        FabricError: no root, a tool is missing, or the kernel refused.
    """
    require_root_and_tools()
    probe = star.netns("probe")
    names = [*star.namespaces, probe]
    with exits_on_sigterm():
        try:
            state.take_down_star(star.prefix)
            state.save_star(star.prefix, names)
            kind, _notes = shaper(probe)
            run_all(build(star, kind))
            yield star
        finally:
            state.take_down_star(star.prefix)


def argv_in(name: str, argv: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    """The command that runs `argv` in a namespace; the environment is its own, `ip` does not see it."""
    return ["ip", "netns", "exec", name, "env", *(f"{key}={value}" for key, value in environment.items()), *argv]
