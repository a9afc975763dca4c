"""What every host follows: the demotion thresholds, the DSCP of each priority, and which forecasts to use.

The value only; `hostfile` knows its binary form.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Annotated, Any, Self

from .checks import UINT64_MAX, boolean, integer, mapping, only_known, required, sequence, shown
from .errors import PolicyError
from .layout import U8, U32, U64, Bit, bits_of, kinds_of, marks_of

LATER = object()
"""Marks a field that came after the first hostd: an older one refuses words of JSON that it doesn't know."""

MAX_PRIORITIES = 64
MAX_PROMOTE_WAIT_US = 10_000_000  # an application never waits longer for us, whatever a policy says


class Mode(StrEnum):
    """What libqclimb does on a host; the order is the number on the wire (policy.h, record.h)."""

    OFF = "off"
    OBSERVE = "observe"
    PIAS = "pias"
    QCLIMB = "qclimb"

    @property
    def number(self) -> int:
        """`enum qclimb_mode` of policy.h."""
        return list(Mode).index(self)

    @classmethod
    def of_number(cls, number: int) -> "Mode":
        """The mode of `enum qclimb_mode`; IndexError when there is none."""
        if number < 0:
            raise IndexError(number)
        return list(cls)[number]


def default_dscp(priorities: int) -> tuple[int, ...]:
    """47 - 4p for p = 0..P-1: local use codepoints (RFC 2474 pool 2), served-first in descending IP precedence.

    Only up to 8 priorities; more need an explicit list.
    """
    if not 1 <= priorities <= 8:
        raise PolicyError(f"priorities is {priorities}, expected 1..8 for the default DSCPs, or an explicit list")
    return tuple(47 - 4 * priority for priority in range(priorities))


# The one place of these fields: ranges, JSON, what REST takes, the policy file and its struct in C (layout.h, which
# `make layout` writes) follow from the types here.
@dataclass(frozen=True)
class Policy:
    """What the hosts of one fabric do, one generation of it."""

    generation: Annotated[int, U64]
    mode: Annotated[Mode, U32.up_to(len(Mode) - 1), "enum qclimb_mode"]
    threshold_bytes: Annotated[
        tuple[int, ...],
        U64.table(MAX_PRIORITIES),
        "[p]: where priority p begins, strictly ascending; in files [0] = 0 and the unused ones are 2^64-1",
    ]
    dscp: Annotated[
        tuple[int, ...],
        U8.table(MAX_PRIORITIES),
        "[p]: of priority p, served-first order; 0..63, distinct, P of them from 1 to 64",
    ]
    slack_bytes: Annotated[int, U64, "that a flow may send at priority 0 past its lower bound (QCLIMB, Algorithm 1)"]
    small_coflow_bytes: Annotated[
        int, U64, "a coflow is small while none of its flows has a larger footprint (OPTAX)"
    ] = 1 << 20
    flow_gap_us: Annotated[int, U32, "a pause after which a drained connection's next write starts a new flow"] = 5_000
    promote_wait_us: Annotated[int, U32.up_to(MAX_PROMOTE_WAIT_US), "longest wait for the drain before a promotion"] = (
        100_000
    )
    use_forest: Annotated[bool, Bit(1), "the forest's bounds count in mode `qclimb`"] = True
    use_footprint: Annotated[bool, Bit(2), "what was asked to be sent counts in mode `qclimb`"] = True
    quickack: Annotated[bool, Bit(4), "receivers re-arm TCP_QUICKACK, so that drains are short"] = True
    model_generation: Annotated[int, U64, "the forest that belongs to it; 0: none"] = 0
    deadline_step_us: Annotated[
        int,
        U32,
        "the last so many us before a deadline that the application told belong to priority 0 in mode `qclimb`, twice"
        " as many to each later one (deadline.h); 0: not honoured, for who tells false ones is served before others",
        LATER,
    ] = 0
    optax: Annotated[
        bool,
        Bit(8),
        "receivers serve one small task after another in modes `pias` and `qclimb`, in processes that start while it"
        " holds (coflow.h)",
        LATER,
    ] = False
    without_lengths: Annotated[
        bool,
        Bit(32),
        "lengths that applications write into their messages don't count, and no byte of theirs is looked at",
        LATER,
    ] = False
    spines: Annotated[
        int,
        U8.up_to(MAX_PRIORITIES - 1),
        "that priorities are pinned to, row by row: p to number p mod spines, the last one to none (Big-Spine); 0, 1:"
        " all priorities take one path",
        LATER,
    ] = 0
    drain_paths: Annotated[
        bool,
        Bit(16),
        "on several spines a demotion to another one waits until what went before is ACKed, so that nothing overtakes",
        LATER,
    ] = False
    unpinned_dscp: Annotated[
        int,
        U8.up_to(63),
        "of packets that carry no flow's bytes for the first time (SYN, pure ACK, retransmission): served as priority"
        " 0, pinned to no spine; 0: none, they carry priority 0's",
        LATER,
    ] = 0

    def __post_init__(self) -> None:
        if not isinstance(self.mode, Mode):
            raise PolicyError(f"mode is {shown(self.mode)}, expected one of {', '.join(Mode)}")
        for name, kind in _NUMBERS.items():
            integer(getattr(self, name), name, 0, kind.highest, PolicyError)
        for name in _BITS:
            boolean(getattr(self, name), name, PolicyError)
        for name in ("threshold_bytes", "dscp"):
            if not isinstance(getattr(self, name), tuple):
                raise PolicyError(f"{name} is {shown(getattr(self, name))}, expected a tuple of integers")
        check_dscp(self.dscp)
        check_thresholds(self.threshold_bytes, len(self.dscp))
        check_spines(self.spines, len(self.dscp))
        if self.unpinned_dscp and self.unpinned_dscp in self.dscp:
            raise PolicyError(f"unpinned_dscp is {self.unpinned_dscp}, expected a DSCP that no priority has")

    @property
    def priorities(self) -> int:
        """P, the number of priorities."""
        return len(self.dscp)

    def path_of(self, priority: int) -> int | None:
        """The number of the spine that a priority's packets take; None: balanced over all, or there is one path."""
        return None if self.spines < 2 or priority == self.priorities - 1 else priority % self.spines

    def to_json(self) -> dict[str, Any]:
        """Plain JSON: the fields by name, tuples as lists."""
        found = {name: value for name, value in vars(self).items() if value != LATER_DEFAULTS.get(name)}
        return found | {
            "mode": self.mode.value,
            "threshold_bytes": list(self.threshold_bytes),
            "dscp": list(self.dscp),
        }

    @classmethod
    def from_json(cls, obj: object) -> Self:
        """The policy of `to_json`; raises PolicyError, also for a key it does not know."""
        found = mapping(obj, "policy", PolicyError)
        only_known(found, [field.name for field in fields(cls)], "policy", PolicyError)
        for name in ("generation", "mode", "threshold_bytes", "dscp", "slack_bytes"):
            required(found, name, "policy", PolicyError)
        return cls(**{**found, **_typed(found)})


_NUMBERS = {name: kind for name, kind in kinds_of(Policy).items() if not kind.count and name != "mode"}
_BITS = tuple(bits_of(Policy))
LATER_DEFAULTS = {field.name: field.default for field in fields(Policy) if LATER in marks_of(Policy)[field.name]}
"""The fields that JSON leaves out at these values."""


def _typed(found: Mapping[str, Any]) -> dict[str, Any]:
    """The fields whose JSON type is not the Python one."""
    if found["mode"] not in list(Mode):
        raise PolicyError(f"mode is {shown(found['mode'])}, expected one of {', '.join(Mode)}")
    return {
        "mode": Mode(found["mode"]),
        "threshold_bytes": tuple(sequence(found["threshold_bytes"], "threshold_bytes", PolicyError)),
        "dscp": tuple(sequence(found["dscp"], "dscp", PolicyError)),
    }


def check_dscp(dscp: tuple[int, ...]) -> None:
    """Refuses a list that is empty, longer than 64, out of 0..63, or names a DSCP twice."""
    if not 1 <= len(dscp) <= MAX_PRIORITIES:
        raise PolicyError(f"dscp has {len(dscp)} values, expected one a priority, 1..{MAX_PRIORITIES}")
    for priority, value in enumerate(dscp):
        integer(value, f"dscp[{priority}]", 0, 63, PolicyError)
        if value in dscp[:priority]:
            raise PolicyError(f"dscp[{priority}] is {value}, expected a DSCP that no priority before it has")


def check_spines(spines: int, priorities: int) -> None:
    """Refuses spines whose rows the priorities before the last do not fill."""
    if spines > 1 and (priorities == 1 or (priorities - 1) % spines):
        raise PolicyError(
            f"spines is {spines} with {priorities} priorities, expected whole rows of {spines}, and the last"
        )


def check_thresholds(threshold_bytes: tuple[int, ...], priorities: int) -> None:
    """Refuses anything but P - 1 strictly ascending numbers in 1..2^64-2 (2^64-1 marks the unused ones in files)."""
    if len(threshold_bytes) != priorities - 1:
        raise PolicyError(
            f"threshold_bytes has {len(threshold_bytes)} values, expected {priorities - 1} for {priorities} priorities"
        )
    begin = 0
    for index, value in enumerate(threshold_bytes):
        integer(value, f"threshold_bytes[{index}]", 1, UINT64_MAX - 1, PolicyError)
        if not value > begin:
            raise PolicyError(f"threshold_bytes[{index}] is {value}, expected more than the one before it, {begin}")
        begin = value
