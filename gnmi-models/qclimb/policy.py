"""What every host follows: the demotion thresholds, the DSCP of each priority, and which forecasts to use.

The value only; `hostfile` knows its binary form.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from typing import Any, Self

from .checks import UINT32_MAX, UINT64_MAX, boolean, integer, mapping, only_known, required, sequence, shown
from .errors import PolicyError

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


@dataclass(frozen=True)
class Policy:
    """What the hosts of one fabric do, one generation of it.

    threshold_bytes  bytes at which priorities 1..P-1 begin, strictly ascending, > 0 (the first's 0 is implicit)
    dscp             DSCP 0..63 of each of the P priorities, served-first order, distinct; P from 1 to 64
    slack_bytes      bytes that a flow may send at priority 0 past its lower bound (QCLIMB Algorithm 1)
    small_coflow_bytes   a coflow is small while none of its flows has a larger footprint (OPTAX)
    flow_gap_us      a pause after which a drained connection's next write starts a new flow
    promote_wait_us  longest wait for the drain before a promotion, at most 10 s
    use_forest, use_footprint   which of the two forecasts count in mode `qclimb`
    quickack         receivers re-arm TCP_QUICKACK, so that drains are short
    model_generation the forest that belongs to it, 0: none
    deadline_step_us deadlines that applications tell are honoured in mode `qclimb`: the last so many us before one
                     belong to priority 0, and each later priority begins where twice as much time is left (deadline.h);
                     0: not honoured, for who tells false ones is served before others
    optax            receivers serve one small task after another in modes `pias` and `qclimb`, in processes that start
                     while it holds
    """

    generation: int
    mode: Mode
    threshold_bytes: tuple[int, ...]
    dscp: tuple[int, ...]
    slack_bytes: int
    small_coflow_bytes: int = 1 << 20
    flow_gap_us: int = 5_000
    promote_wait_us: int = 100_000
    use_forest: bool = True
    use_footprint: bool = True
    quickack: bool = True
    model_generation: int = 0
    deadline_step_us: int = 0
    optax: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.mode, Mode):
            raise PolicyError(f"mode is {shown(self.mode)}, expected one of {', '.join(Mode)}")
        for name in ("generation", "slack_bytes", "small_coflow_bytes", "model_generation"):
            integer(getattr(self, name), name, 0, UINT64_MAX, PolicyError)
        integer(self.flow_gap_us, "flow_gap_us", 0, UINT32_MAX, PolicyError)
        integer(self.deadline_step_us, "deadline_step_us", 0, UINT32_MAX, PolicyError)
        integer(self.promote_wait_us, "promote_wait_us", 0, MAX_PROMOTE_WAIT_US, PolicyError)
        for name in ("use_forest", "use_footprint", "quickack", "optax"):
            boolean(getattr(self, name), name, PolicyError)
        for name in ("threshold_bytes", "dscp"):
            if not isinstance(getattr(self, name), tuple):
                raise PolicyError(f"{name} is {shown(getattr(self, name))}, expected a tuple of integers")
        check_dscp(self.dscp)
        check_thresholds(self.threshold_bytes, len(self.dscp))

    @property
    def priorities(self) -> int:
        """P, the number of priorities."""
        return len(self.dscp)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON: the fields by name, tuples as lists.

        deadline_step_us and optax only where they are used: a hostd that doesn't know them reads other policies.
        """
        found = asdict(self)
        for name in ("deadline_step_us", "optax"):
            if not found[name]:
                del found[name]
        return {
            **found,
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
