"""What a port's eight queues do, as a value, and the tc lines that make it so.

`QueueProgram` is all that a virtual ASIC knows of a port: which queue a DSCP goes to, and in which order queues are
served. The tc lines come in two flavours: HTB (everywhere; a strict order by HTB's `prio`, each leaf borrowing the
whole rate), and TBF with ets below it where the kernel has ets (there a queue's own `pir` is not followed). Packets are
put into a queue by `skb->priority` = the class's handle, set by the BPF program at the port, or by u32 filters where
BPF can't be loaded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from lab.fabric.topology import QUEUES

Shaper = Literal["htb", "ets"]

FULL_PACKET_BYTES = 1514
NEVER_BINDING_PACKETS = 4000
TBF_BURST_BYTES = 1600
"""One packet and a little: TBF drops what is larger than its burst."""
DSCPS = 64


@dataclass(frozen=True)
class Service:
    """How one queue is served."""

    strict: bool = False
    weight: int = 1
    """Share among the queues that are not strict (DWRR), 1..100."""
    pir_bytes_per_s: int = 0
    """Shaper of the queue alone; 0 = the port's rate."""

    def __post_init__(self) -> None:
        if not 1 <= self.weight <= 100:
            raise ValueError(f"weight is {self.weight}, expected 1..100")
        if not self.pir_bytes_per_s >= 0:
            raise ValueError(f"pir is {self.pir_bytes_per_s}, expected 0 or more bytes/s")


@dataclass(frozen=True)
class Buffer:
    """A port's buffer and how its queues share it (Choudhury and Hahne 1998, as SONiC's dynamic_th).

    A packet of n bytes enters queue q while occupancy + n <= total_bytes and
    queue_bytes[q] + n <= reserved_bytes[q] + 2^dynamic_th[q] x (total_bytes - occupancy).
    """

    total_bytes: int
    dynamic_th: tuple[int, ...] = (3,) * QUEUES
    reserved_bytes: tuple[int, ...] = (0,) * QUEUES

    def __post_init__(self) -> None:
        if not (len(self.dynamic_th) == len(self.reserved_bytes) == QUEUES):
            raise ValueError(f"a buffer has {QUEUES} queues")
        if not all(-8 <= th <= 8 for th in self.dynamic_th):
            raise ValueError(f"dynamic_th is {self.dynamic_th}, expected -8..8")


@dataclass(frozen=True)
class Ecn:
    """When a queue marks packets that can carry a mark: never up to min_bytes in the queue, always from max_bytes on,
    in between with a chance that grows to `percent` (WRED without its averaging)."""

    min_bytes: int
    max_bytes: int
    percent: int = 100

    def __post_init__(self) -> None:
        if not 0 <= self.min_bytes <= self.max_bytes < 1 << 32 or not self.max_bytes:
            raise ValueError(f"ECN marks from {self.min_bytes} to {self.max_bytes} bytes, expected 0 <= min <= max")
        if not 0 <= self.percent <= 100:
            raise ValueError(f"ECN marks with {self.percent} %, expected 0..100")


@dataclass(frozen=True)
class QueueProgram:
    """One port: DSCP -> queue, how queues are served, and which of them mark ECN."""

    queue_of_dscp: tuple[int, ...] = (0,) * DSCPS
    services: tuple[Service, ...] = (Service(),) * QUEUES
    ecn: Mapping[int, Ecn] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if len(self.queue_of_dscp) != DSCPS or not all(0 <= queue < QUEUES for queue in self.queue_of_dscp):
            raise ValueError(f"a program maps {DSCPS} DSCPs to queues 0..{QUEUES - 1}")
        if len(self.services) != QUEUES:
            raise ValueError(f"a program serves {QUEUES} queues")

    @property
    def order(self) -> tuple[int, ...]:
        """Place of each queue in the order of service: strict queues first, the larger index before the smaller;
        all the others share the place after them."""
        strict = sorted((queue for queue in range(QUEUES) if self.services[queue].strict), reverse=True)
        place = {queue: n for n, queue in enumerate(strict)}
        return tuple(place.get(queue, len(strict)) for queue in range(QUEUES))

    def band_of_queue(self) -> tuple[int, ...]:
        """For ets: bands in the order of service, each its own."""
        served = sorted(range(QUEUES), key=lambda queue: (self.order[queue], -queue))
        return tuple(served.index(queue) for queue in range(QUEUES))

    def class_of_queue(self, shaper: Shaper) -> tuple[int, ...]:
        """The tc handle (major << 16 | minor) of each queue's class."""
        if shaper == "htb":
            return tuple(1 << 16 | 0x10 + queue for queue in range(QUEUES))
        return tuple(0x10 << 16 | 1 + band for band in self.band_of_queue())


def shape(dev: str, rate_bps: int, program: QueueProgram, shaper: Shaper, limit_packets: int) -> Iterator[str]:
    """tc lines for a port that has no queues yet; `limit_packets` of each queue (BPF bounds the bytes)."""
    if shaper == "htb":
        # An unclassified packet goes to queue 0, SONiC's default for a port without maps.
        yield f"qdisc add dev {dev} root handle 1: htb default 10 r2q 10"
        yield (
            f"class add dev {dev} parent 1: classid 1:1 htb rate {rate_bps}bit ceil {rate_bps}bit "
            f"burst {FULL_PACKET_BYTES} cburst {FULL_PACKET_BYTES} quantum {FULL_PACKET_BYTES}"
        )
        yield from _htb_leaves(dev, rate_bps, program, "add")
    else:
        limit = limit_packets * QUEUES * FULL_PACKET_BYTES
        yield f"qdisc add dev {dev} root handle 1: tbf rate {rate_bps}bit burst {TBF_BURST_BYTES} limit {limit}"
        yield f"qdisc add dev {dev} parent 1:1 handle 10: {_ets(program)}"
    for parent, handle in leaf_queues(shaper):
        yield f"qdisc add dev {dev} parent {parent} handle {handle:x}: pfifo limit {limit_packets}"


def credit_bytes(shaper: Shaper) -> int:
    """How many bytes after a pause a port lets a full packet follow without making it wait: HTB sends unless its bucket
    has a debt, TBF only what is in its bucket whole."""
    return FULL_PACKET_BYTES if shaper == "htb" else TBF_BURST_BYTES - FULL_PACKET_BYTES


def leaf_queues(shaper: Shaper) -> list[tuple[str, int]]:
    """Parent class and handle of each of the eight waiting lines of a port."""
    if shaper == "htb":
        return [(f"1:{0x10 + queue:x}", 0x20 + queue) for queue in range(QUEUES)]
    return [(f"10:{band + 1}", 0x20 + band) for band in range(QUEUES)]


def reshape(dev: str, rate_bps: int, program: QueueProgram, shaper: Shaper) -> Iterator[str]:
    """tc lines that change the order of service in place: nothing that waits in a queue is lost."""
    if shaper == "htb":
        yield from _htb_leaves(dev, rate_bps, program, "change")
    else:
        yield f"qdisc change dev {dev} parent 1:1 handle 10: {_ets(program)}"


def _htb_leaves(dev: str, rate_bps: int, program: QueueProgram, verb: str) -> Iterator[str]:
    # A rate of 8 bit/s keeps every leaf over its own rate, so that packets are borrowed, and borrowing goes by prio.
    # But for one a minute: a leaf's first packet, and the first one 60 s (HTB's limit) after such a packet, is of its
    # own rate and passes all that waits: a flow that has just been demoted may overtake itself, once a port and queue.
    for queue, service in enumerate(program.services):
        ceil = min(rate_bps, service.pir_bytes_per_s * 8 or rate_bps)
        yield (
            f"class {verb} dev {dev} parent 1:1 classid 1:{0x10 + queue:x} htb rate 8bit burst 1 "
            f"ceil {ceil}bit cburst {FULL_PACKET_BYTES} prio {min(program.order[queue], 7)} "
            f"quantum {FULL_PACKET_BYTES * service.weight}"
        )


def _ets(program: QueueProgram) -> str:
    """Strict bands first, the rest by quanta; a kernel with ets has no use for prio beside it."""
    shared = [service.weight for service in program.services if not service.strict]
    strict = QUEUES - len(shared)
    served = sorted(range(QUEUES), key=lambda queue: (program.order[queue], -queue))
    quanta = " ".join(str(FULL_PACKET_BYTES * program.services[queue].weight) for queue in served[strict:])
    last = program.band_of_queue()[0]
    priomap = " ".join([str(last)] * 16)
    return f"ets bands {QUEUES} strict {strict}" + (f" quanta {quanta}" if quanta else "") + f" priomap {priomap}"


def u32_filters(dev: str, program: QueueProgram, shaper: Shaper, pref: int) -> Iterator[str]:
    """One filter a DSCP that does not go to queue 0, all at one `pref` so that they can be removed together."""
    parent = "1:" if shaper == "htb" else "10:"
    handles = program.class_of_queue(shaper)
    for dscp, queue in enumerate(program.queue_of_dscp):
        if queue:
            major, minor = divmod(handles[queue], 1 << 16)
            yield (
                f"filter add dev {dev} parent {parent} protocol ip pref {pref} u32 "
                f"match ip tos {dscp << 2:#x} 0xfc flowid {major:x}:{minor:x}"
            )
