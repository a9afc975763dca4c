"""One finished flow, as libqclimb saw it on one host; the unit of training and of the flow statistics."""

import ipaddress
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, Self

from .checks import UINT32_MAX, UINT64_MAX, integer, mapping, only_known, required, sequence, shown
from .errors import RecordError
from .features import address_number
from .layout import CHAR, U8, U16, U32, U64, kinds_of
from .policy import MAX_PRIORITIES, Mode
from .text import check_printable

ENDED_BY_CLOSE = 1
WAIT_RAN_OUT = 2
HAD_FOREST_BOUNDS = 4
HAD_SIZE_HINT = 8
PARTLY_UNOBSERVED = 16
HAD_DEADLINE = 32
HAD_LENGTH_BOUND = 64
CUT = 128
FOR_MANY = 256
MANY_FLOWS = 64
"""That a record tells of where FOR_MANY is set."""

FLAGS = {
    "CLOSED": (ENDED_BY_CLOSE, "ended by close or shutdown, not by a next flow"),
    "WAIT_RAN_OUT": (WAIT_RAN_OUT, "promote_wait_us passed before a drain at least once"),
    "FOREST": (HAD_FOREST_BOUNDS, "had bounds from a forest"),
    "HINT": (HAD_SIZE_HINT, "had the application's own size"),
    "UNOBSERVED": (PARTLY_UNOBSERVED, "some bytes went past the library, by the kernel's count: one flow or many"),
    "DEADLINE": (HAD_DEADLINE, "had the application's own deadline, honoured or not"),
    "LENGTH": (HAD_LENGTH_BOUND, "what its bytes announced was a bound of its size"),
    "CUT": (CUT, "ended amid the message that was announced; the next flow of the connection goes on with it"),
    "FOR_MANY": (
        FOR_MANY,
        f"tells of {MANY_FLOWS} small flows, this one among them; in a sample it is one as any other",
    ),
}
"""The bits of `flags`: the name in C (QCLIMB_RECORD_...), the number, and what it says."""

BY_NOBODY, BY_HTTP, BY_RULE, BY_TRIAL = range(4)
ANNOUNCERS = {
    "BY_NOBODY": (BY_NOBODY, ""),
    "BY_HTTP": (BY_HTTP, "Content-Length, as HTTP/1.x has it"),
    "BY_RULE": (BY_RULE, "a rule in force for the service (lengths.py)"),
    "BY_TRIAL": (BY_TRIAL, "a rule on trial: told, not used"),
}
"""What `announced_by` says: the name in C (QCLIMB_...), the number, and what it is."""

Sizes = tuple[int, int, int, int, int]


@dataclass(frozen=True, kw_only=True)
class FlowRecord:
    """One flow, in one direction of one connection; the one place of what a record holds, in the order of its bytes.

    `struct qclimb_record`, the rows of numpy (`record_rows`) and the ranges follow from the types here. Addresses are
    text, IPv4 in dotted form also where the socket was a v4-mapped IPv6 one; `comm` has at most 15 bytes.
    """

    start_ns: Annotated[int, U64, "CLOCK_MONOTONIC of the host, as the next two"]
    last_write_ns: Annotated[int, U64]
    drained_ns: Annotated[int, U64, "0: not seen"] = 0
    size_bytes: Annotated[int, U64, "what the flow turned out to be, at least 1"]
    lower_bytes: Annotated[int, U64, "the forest's bounds at the start; 0 and 2^64-1 without"] = 0
    upper_bytes: Annotated[int, U64] = UINT64_MAX
    first_write_bytes: Annotated[int, U64, "what the first call asked to send"] = 0
    footprint_lower_bytes: Annotated[
        int,
        U64,
        "asked for at the first ACK seen, at a call (observe: at each; qclimb: past a burst; pias: never), or in all",
    ] = 0
    announced_bytes: Annotated[int, U64, "what its first bytes, or those of the message before, said; 0: nothing"] = 0
    start_us: Annotated[int, U64, "since the process started"] = 0
    gap_us: Annotated[int, U64, "since the history's previous flow ended"] = 0
    last_size_bytes: Annotated[Sizes, U64.table(5), "the history's, newest first; 0: none"] = (0, 0, 0, 0, 0)
    connection: Annotated[int, U64, "SO_COOKIE"] = 0
    wait_ns: Annotated[int, U64, "that the application's data waited at boundaries"] = 0
    pid: Annotated[int, U32] = 0
    flow_index: Annotated[int, U32, "on its connection"] = 0
    promotions: Annotated[int, U16] = 0
    demotions: Annotated[int, U16] = 0
    flags: Annotated[int, U32, "enum qclimb_record_flag, or-ed"] = 0
    local_addr: Annotated[str, U8.table(16), "IPv4 as v4-mapped"] = "0.0.0.0"
    peer_addr: Annotated[str, U8.table(16)] = "0.0.0.0"
    local_port: Annotated[int, U16, "host order"] = 0
    peer_port: Annotated[int, U16] = 0
    role: Annotated[int, U8.up_to(1), "1: this side accepted the connection, 0: it connected"] = 0
    mode: Annotated[Mode, U8.up_to(len(Mode) - 1), "enum qclimb_mode"] = Mode.OBSERVE
    last_priority: Annotated[int, U8.up_to(MAX_PRIORITIES - 1)] = 0
    announced_by: Annotated[int, U8.up_to(len(ANNOUNCERS) - 1), "enum qclimb_announced_by"] = BY_NOBODY
    comm: Annotated[str, CHAR.table(16), "the process's name"] = ""

    def __post_init__(self) -> None:
        for name, largest in _NUMBERS.items():
            integer(getattr(self, name), name, 0, largest, RecordError)
        if not (isinstance(self.last_size_bytes, tuple) and len(self.last_size_bytes) == 5):
            raise RecordError(f"last_size_bytes is {shown(self.last_size_bytes)}, expected a tuple of 5 sizes")
        for index, size in enumerate(self.last_size_bytes):
            integer(size, f"last_size_bytes[{index}]", 0, UINT64_MAX, RecordError)
        if not isinstance(self.mode, Mode):
            raise RecordError(f"mode is {shown(self.mode)}, expected one of {', '.join(Mode)}")
        object.__setattr__(self, "local_addr", _address(self.local_addr, "local_addr"))
        object.__setattr__(self, "peer_addr", _address(self.peer_addr, "peer_addr"))
        if len(check_printable(self.comm, "comm", RecordError).encode()) > 15:
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


_NAMES = tuple(kinds_of(FlowRecord))
_NUMBERS = {name: kind.highest for name, kind in kinds_of(FlowRecord).items() if not kind.count and name != "mode"}


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
