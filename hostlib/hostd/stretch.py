"""What TCP connections of this host measure now: one dump of the kernel's socket table (sock_diag(7)).

Counted is a connection that the policy marks, that goes first now, that sent data lately, and that leads to another
host of the fabric. What the policy does not mark (hostd's own connection, backups, metrics) says nothing of it. Any
user may dump; what the tagger marks is seen by root. In a container the kernel tells of the network namespace's own
connections.
"""

import contextlib
import math
import socket
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from pathlib import Path

from qclimb.policy import Mode, Policy
from qclimb.stretch import LOG_MOST, Stretch

from hostlib.hostd import bpf
from hostlib.hostd.bpf import BpfError

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

NETLINK_SOCK_DIAG, SOCK_DIAG_BY_FAMILY = 4, 20
NLM_F_REQUEST, NLM_F_DUMP, NLA_F_NESTED = 0x1, 0x300, 0x8000
NLMSG_ERROR, NLMSG_DONE = 2, 3
ESTABLISHED = 1 << 1
INFO, TOS, TCLASS, STORAGES = 2, 5, 6, 20
"""INET_DIAG_INFO, _TOS, _TCLASS (asked for by bit n - 1, answered as attributes of these numbers), _SK_BPF_STORAGES"""
ASK_STORAGES, ASK_MAP_FD = 2, 1
MAP_ID, MAP_VALUE = 2, 3
HEADER = struct.Struct("=IHHII")
REQUEST = struct.Struct("=BBBxI48x")
MESSAGE_BYTES = 72
PORTS, LOCAL_AT, PEER_AT = struct.Struct("!HH"), 8, 24
"""of struct inet_diag_msg: family, state, timer, retrans, then ports, source and destination"""
ATTRIBUTE = struct.Struct("=HH")
LAST_DATA_SENT_MS = (44, "=I")
RTT_US, MIN_RTT_US = (68, "=I"), (148, "=I")
"""of struct tcp_info"""
ORDER_PRIORITY_AT, ORDER_CHANGES_AT, ORDER_CHANGES = 64, 128, 8
"""of struct order (tagger/order.h): the priorities at which bytes went, and how often that changed"""
CONNECTIONS_MOST, DUMPED_MOST = 4096, 16_384
"""Counted in all, and read of each family; of more, those that the kernel tells of first."""
LATELY_MS = 5000
DEADLINE_S = 1.0


@dataclass(frozen=True)
class Connection:
    """One established connection.

    dscp      of its socket
    ratio     round-trip time over the least one; None where it sent nothing lately, or has measured nothing
    priority  at which the tagger sends it now; None where the tagger has no rule for it
    """

    local: Address
    peer: Address
    peer_port: int
    dscp: int
    ratio: float | None
    priority: int | None = None


@dataclass(frozen=True)
class Fabric:
    """Which connections are the fabric's.

    networks      where its hosts are; none: anywhere
    orchestrator  address and port of hostd's own connection, which is not the fabric's, whoever marks it
    """

    networks: Sequence[Network] = ()
    orchestrator: tuple[Address, int] | None = None

    def has(self, connection: Connection) -> bool:
        """Whether it leads to another host of the fabric."""
        peer = connection.peer
        if peer.is_loopback or peer == connection.local or (peer, connection.peer_port) == self.orchestrator:
            return False
        return not self.networks or any(peer in network for network in self.networks)


def first_dscps(policy: Policy | None) -> frozenset[int]:
    """The DSCPs of what goes first. DSCP 0 is everybody's, so it marks nothing."""
    if policy is None or policy.mode not in (Mode.PIAS, Mode.QCLIMB):
        return frozenset()
    return frozenset({policy.dscp[0], policy.unpinned_dscp} - {0})


def stretch_of(connections: Iterable[Connection], policy: Policy | None, fabric: Fabric) -> Stretch | None:
    """What those that carry small flows measure; None where there are none, or the policy marks nothing. Pure."""
    first = first_dscps(policy)
    if not first:
        return None
    logs: list[float] = []
    for each in connections:
        goes_first = each.dscp in first or (each.dscp == 0 and each.priority == 0)
        if goes_first and each.ratio is not None and fabric.has(each):
            logs.append(min(math.log(each.ratio), LOG_MOST))
            if len(logs) == CONNECTIONS_MOST:
                break
    return Stretch(len(logs), math.fsum(logs) / len(logs)) if logs else None


def measure_stretch(policy: Policy | None, fabric: Fabric, bpf_place: Path) -> Stretch | None:
    """`stretch_of` this network namespace's connections. `bpf_place`: of the tagger's maps. Raises OSError."""
    if not first_dscps(policy):
        return None
    with _tagger_maps(bpf_place) as maps:
        if maps:
            with contextlib.suppress(OSError):  # this kernel, or this user, has no dump of socket storage
                return stretch_of(dump_connections(maps), policy, fabric)
    return stretch_of(dump_connections(TaggerMaps()), policy, fabric)


@dataclass(frozen=True)
class TaggerMaps:
    """Open maps of the tagger's socket storage: by descriptor its map's number. Empty: there is no tagger."""

    flows: Mapping[int, int] = field(default_factory=dict)
    orders: Mapping[int, int] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.flows)

    def priority(self, storage: Mapping[int, bytes]) -> int | None:
        """At which the tagger sends the connection that has these values, by map number.

        One without an order never left 0.
        """
        if not any(number in storage for number in self.flows.values()):
            return None
        for number in self.orders.values():
            if number in storage:
                (changes,) = struct.unpack_from("=Q", storage[number], ORDER_CHANGES_AT)
                at = ORDER_PRIORITY_AT + 8 * ((changes - 1) % ORDER_CHANGES)
                return int(struct.unpack_from("=Q", storage[number], at)[0])
        return 0


@contextlib.contextmanager
def _tagger_maps(place: Path) -> Iterator[TaggerMaps]:
    with contextlib.ExitStack() as stack:
        found = TaggerMaps()
        if (place / "flows").exists() and (place / "orders").exists():
            with contextlib.suppress(BpfError, OSError):
                flows, orders = (stack.enter_context(bpf.pinned(place / name)) for name in ("flows", "orders"))
                found = TaggerMaps({flows: _map_number(flows)}, {orders: _map_number(orders)})
        yield found


def _map_number(fd: int) -> int:
    lines = Path(f"/proc/self/fdinfo/{fd}").read_text().splitlines()
    return next(int(line.partition(":")[2]) for line in lines if line.startswith("map_id:"))


def dump_connections(maps: TaggerMaps) -> Iterator[Connection]:
    """This network namespace's established TCP connections. Raises OSError."""
    for family in (socket.AF_INET, socket.AF_INET6):
        for content in _messages(family, [*maps.flows, *maps.orders]):
            yield _connection(content, maps)


def _messages(family: int, map_fds: Sequence[int]) -> Iterator[bytes]:
    """A struct inet_diag_msg with its attributes of each established connection."""
    asked = 1 << (INFO - 1) | 1 << (TOS - 1) | 1 << (TCLASS - 1)
    body = REQUEST.pack(family, socket.IPPROTO_TCP, asked, ESTABLISHED)
    if map_fds:
        fds = b"".join(ATTRIBUTE.pack(8, ASK_MAP_FD) + struct.pack("=I", fd) for fd in map_fds)
        body += ATTRIBUTE.pack(ATTRIBUTE.size + len(fds), ASK_STORAGES | NLA_F_NESTED) + fds
    kind = socket.SOCK_RAW | socket.SOCK_CLOEXEC
    with socket.socket(socket.AF_NETLINK, kind, NETLINK_SOCK_DIAG) as asks:
        asks.settimeout(DEADLINE_S)
        asks.send(HEADER.pack(HEADER.size + len(body), SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST | NLM_F_DUMP, 1, 0) + body)
        left = DUMPED_MOST
        while left > 0:
            content = asks.recv(1 << 16)
            at = 0
            while at + HEADER.size <= len(content):
                length, what, _, _, _ = HEADER.unpack_from(content, at)
                if what == NLMSG_DONE or length < HEADER.size:
                    return
                if what == NLMSG_ERROR:
                    (number,) = struct.unpack_from("=i", content, at + HEADER.size)
                    raise OSError(-number, "sock_diag")
                yield content[at + HEADER.size : at + length]
                left -= 1
                at += (length + 3) & ~3


def _connection(content: bytes, maps: TaggerMaps) -> Connection:
    size = 4 if content[0] == socket.AF_INET else 16
    attributes = dict(_attributes(content[MESSAGE_BYTES:]))
    local, peer = (_address(content[at : at + size]) for at in (LOCAL_AT, PEER_AT))
    marks = attributes.get(TOS if peer.version == 4 else TCLASS) or b"\0"
    storage: dict[int, bytes] = {}
    for _, each in _attributes(attributes.get(STORAGES, b"")):
        of = dict(_attributes(each))
        storage[int.from_bytes(of.get(MAP_ID, b""), "little")] = of.get(MAP_VALUE, b"")
    (_, peer_port) = PORTS.unpack_from(content, LOCAL_AT - PORTS.size)
    return Connection(local, peer, peer_port, marks[0] >> 2, _ratio(attributes.get(INFO, b"")), maps.priority(storage))


def _attributes(content: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + ATTRIBUTE.size <= len(content):
        length, kind = ATTRIBUTE.unpack_from(content, at)
        if length < ATTRIBUTE.size:
            return
        yield kind & ~NLA_F_NESTED, content[at + ATTRIBUTE.size : at + length]
        at += (length + 3) & ~3


def _address(packed: bytes) -> Address:
    found = ip_address(packed)
    return getattr(found, "ipv4_mapped", None) or found


def _ratio(info: bytes) -> float | None:
    if len(info) < MIN_RTT_US[0] + 4:
        return None
    sent_ms, rtt_us, least_us = (
        struct.unpack_from(form, info, at)[0] for at, form in (LAST_DATA_SENT_MS, RTT_US, MIN_RTT_US)
    )
    if sent_ms > LATELY_MS or not 0 < least_us <= rtt_us:
        return None
    return float(rtt_us / least_us)
