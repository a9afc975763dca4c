"""One finished flow, as libqclimb saw it on one host; the unit of training and of the flow statistics."""

import ipaddress
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any, Self

from .checks import UINT16_MAX, UINT32_MAX, UINT64_MAX, integer, mapping, only_known, required, sequence, shown
from .errors import RecordError
from .features import address_number
from .policy import MAX_PRIORITIES, Mode

ENDED_BY_CLOSE = 1
WAIT_RAN_OUT = 2
HAD_FOREST_BOUNDS = 4
HAD_SIZE_HINT = 8
PARTLY_UNOBSERVED = 16
HAD_DEADLINE = 32

_LARGEST = {
    "pid": UINT32_MAX,
    "flow_index": UINT32_MAX,
    "promotions": UINT32_MAX,
    "demotions": UINT32_MAX,
    "local_port": UINT16_MAX,
    "peer_port": UINT16_MAX,
    "role": 1,
    "last_priority": MAX_PRIORITIES - 1,
    "flags": 255,
}


@dataclass(frozen=True, kw_only=True)
class FlowRecord:
    """One flow, in one direction of one connection (`struct qclimb_record`, same names and units).

    start_ns, last_write_ns, drained_ns   CLOCK_MONOTONIC of the host; drained 0: not seen
    size_bytes                  what the flow turned out to be, >= 1
    lower_bytes, upper_bytes    the forest's bounds at the start; 0 and 2^64-1 without
    footprint_lower_bytes       bytes that the application had asked to send when the first ACK was seen, at a call; in
                                all where none was seen (observe looks at each call, qclimb past a burst, pias never)
    start_us, gap_us, last_size_bytes   the features 0, 1 and 2..6 (features.py), latest size first
    wait_ns                     time that the application's data waited at boundaries
    role                        1: this side accepted the connection, 0: it connected
    flags                       ENDED_BY_CLOSE, WAIT_RAN_OUT, HAD_FOREST_BOUNDS, HAD_SIZE_HINT, PARTLY_UNOBSERVED: of
                                size_bytes, some went past the library, by the kernel's count; one flow or many;
                                HAD_DEADLINE: one that the application told, honoured or not
    local_addr, peer_addr       text; IPv4 in dotted form, also where the socket was a v4-mapped IPv6 one
    comm                        the process's name, at most 15 bytes
    """

    start_ns: int
    last_write_ns: int
    drained_ns: int = 0
    size_bytes: int
    lower_bytes: int = 0
    upper_bytes: int = UINT64_MAX
    first_write_bytes: int = 0
    footprint_lower_bytes: int = 0
    start_us: int = 0
    gap_us: int = 0
    last_size_bytes: tuple[int, int, int, int, int] = (0, 0, 0, 0, 0)
    connection: int = 0
    wait_ns: int = 0
    pid: int = 0
    flow_index: int = 0
    promotions: int = 0
    demotions: int = 0
    local_addr: str = "0.0.0.0"
    peer_addr: str = "0.0.0.0"
    local_port: int = 0
    peer_port: int = 0
    role: int = 0
    mode: Mode = Mode.OBSERVE
    last_priority: int = 0
    flags: int = 0
    comm: str = ""

    def __post_init__(self) -> None:
        for name, largest in _INTEGERS.items():
            integer(getattr(self, name), name, 0, largest, RecordError)
        if not (isinstance(self.last_size_bytes, tuple) and len(self.last_size_bytes) == 5):
            raise RecordError(f"last_size_bytes is {shown(self.last_size_bytes)}, expected a tuple of 5 sizes")
        for index, size in enumerate(self.last_size_bytes):
            integer(size, f"last_size_bytes[{index}]", 0, UINT64_MAX, RecordError)
        if not isinstance(self.mode, Mode):
            raise RecordError(f"mode is {shown(self.mode)}, expected one of {', '.join(Mode)}")
        object.__setattr__(self, "local_addr", _address(self.local_addr, "local_addr"))
        object.__setattr__(self, "peer_addr", _address(self.peer_addr, "peer_addr"))
        if not isinstance(self.comm, str) or "\0" in self.comm or len(self.comm.encode("utf-8", "replace")) > 15:
            raise RecordError(f"comm is {shown(self.comm)}, expected a name of at most 15 bytes")
        self._check_order()

    def _check_order(self) -> None:
        if not self.size_bytes >= 1:
            raise RecordError(f"size_bytes is {self.size_bytes}, expected at least 1: a flow starts with a byte")
        if not self.start_ns <= self.last_write_ns:
            raise RecordError(f"last_write_ns is {self.last_write_ns}, expected start_ns = {self.start_ns} or later")
        if not (self.drained_ns == 0 or self.last_write_ns <= self.drained_ns):
            raise RecordError(f"drained_ns is {self.drained_ns}, expected 0 or >= last_write_ns = {self.last_write_ns}")
        if not self.lower_bytes <= self.upper_bytes:
            raise RecordError(f"lower_bytes is {self.lower_bytes}, expected at most upper_bytes = {self.upper_bytes}")

    @property
    def service_port(self) -> int:
        """The listening side's port: the local one of accepted connections, the peer's of connected ones."""
        return self.local_port if self.role else self.peer_port

    def features(self) -> tuple[int, ...]:
        """The values of `features.FEATURES`, by id, as the host knew them when the flow started."""
        return (
            self.start_us,
            self.gap_us,
            *self.last_size_bytes,
            self.service_port,
            self.role,
            address_number(self.peer_addr),
            address_number(self.local_addr),
            self.first_write_bytes,
        )

    def to_json(self) -> dict[str, Any]:
        """Plain JSON: the fields by name."""
        return {**vars(self), "mode": self.mode.value, "last_size_bytes": list(self.last_size_bytes)}

    @classmethod
    def from_json(cls, obj: object) -> Self:
        """The record of `to_json`; raises RecordError, also for a key it does not know."""
        found = dict(mapping(obj, "record", RecordError))
        only_known(found, _NAMES, "record", RecordError)
        for name in ("start_ns", "last_write_ns", "size_bytes"):
            required(found, name, "record", RecordError)
        if "mode" in found:
            if found["mode"] not in list(Mode):
                raise RecordError(f"mode is {shown(found['mode'])}, expected one of {', '.join(Mode)}")
            found["mode"] = Mode(found["mode"])
        if "last_size_bytes" in found:
            found["last_size_bytes"] = tuple(sequence(found["last_size_bytes"], "last_size_bytes", RecordError))
        return cls(**found)


_NAMES = tuple(field.name for field in fields(FlowRecord))
_NOT_INTEGERS = ("last_size_bytes", "local_addr", "peer_addr", "mode", "comm")
_INTEGERS = {name: _LARGEST.get(name, UINT64_MAX) for name in _NAMES if name not in _NOT_INTEGERS}


@dataclass(frozen=True)
class RecordBatch:
    """One datagram of records.

    dropped     records that the sender could not deliver since its last datagram
    generation  of the policy in force at the sender
    """

    records: tuple[FlowRecord, ...]
    dropped: int = 0
    generation: int = 0

    def __post_init__(self) -> None:
        integer(self.dropped, "dropped", 0, UINT32_MAX, RecordError)
        integer(self.generation, "generation", 0, UINT64_MAX, RecordError)


def _address(value: object, place: str) -> str:
    try:
        return _spelling(value if isinstance(value, str) else "")
    except ValueError:
        raise RecordError(f"{place} is {shown(value)}, expected an IPv4 or IPv6 address") from None


@lru_cache(4096)
def _spelling(address: str) -> str:
    """The one spelling of an address: v4-mapped as IPv4, no zone. ValueError when it is none."""
    parsed = ipaddress.ip_address(address)
    if isinstance(parsed, ipaddress.IPv6Address):
        return str(parsed.ipv4_mapped or ipaddress.IPv6Address(int(parsed)))
    return str(parsed)
