"""The disciplines that the engine knows, as settings; engine/schemes/*.h says what each does.

`settings()` is what the engine is told; lab.sim.experiment adds the rest.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from itertools import pairwise
from typing import Any, ClassVar

from lab.sim import rated, tasks
from lab.sim.errors import ExperimentError, Settings, check, check_kinds
from lab.sim.ports import strict_ports
from lab.sim.rated import FlowLevel, Rated
from lab.sim.tcp import Tcp

MOST_WEIGHT, MOST_GROUPS = 1_000, 64


@dataclass(frozen=True)
class Pfabric:
    """pFabric: priority drop, priority dequeue, minimal rate control. Defaults: YAPS's for 10G and a round trip of
    14.6 us (buffers of 24 packets, two bandwidth-delay products)."""

    name: ClassVar[str] = "pfabric"
    initial_window: int = 12
    """Packets."""
    max_window: int = 15
    """Packets."""
    timeout_us: float = 45.0
    buffer_bytes: int = 36_864
    """Of each port, hosts' ports too."""
    probe_after: int = 0
    """Timeouts in a row after which a flow sends headers only; 0: never (YAPS). The paper's authors use 5."""
    sender_sees_arrivals: bool = True
    """YAPS: what the receiver holds is known when a packet is to be sent again. False: by ACKs only."""
    sizes_are_forecasts: bool = False
    """Ranks come from the flows' forecasts, not from their sizes."""
    group_weights: tuple[int, ...] = ()
    """Groups of flows (`FlowList.group`) share each port by these weights, pFabric within each, with a buffer for each
    (engine/queues/groups.h; section 7 of the paper). Empty: one pFabric for all."""

    def __post_init__(self) -> None:
        check_kinds("scheme.", self)
        for group, weight in enumerate(self.group_weights):
            check(f"scheme.group_weights[{group}]", weight, 1, MOST_WEIGHT)
        if len(self.group_weights) > MOST_GROUPS:
            raise ExperimentError(
                f"scheme.group_weights has {len(self.group_weights)} weights, expected at most {MOST_GROUPS}"
            )
        check("scheme.initial_window", self.initial_window, 1, 10**6)
        check("scheme.max_window", self.max_window, self.initial_window, 10**6)
        check("scheme.timeout_us", self.timeout_us, 0.001, 10**7)
        check("scheme.buffer_bytes", self.buffer_bytes, 1, 10**12)
        check("scheme.probe_after", self.probe_after, 0, 10**6)

    def settings(self) -> Settings:
        """As the engine reads them."""
        return {
            "scheme": self.name,
            "initial_window": self.initial_window,
            "max_window": self.max_window,
            "timeout_ps": round(self.timeout_us * 1e6),
            "buffer_bytes": self.buffer_bytes,
            "host_buffer_bytes": self.buffer_bytes,
            "probe_after": self.probe_after,
            "sender_sees_arrivals": int(self.sender_sees_arrivals),
            "sizes_are_forecasts": int(self.sizes_are_forecasts),
            "group_weights": ",".join(map(str, self.group_weights)),
            "priorities": 1,
        }


@dataclass(frozen=True)
class Homa:
    """Receivers schedule by grants. Defaults: for 10G and a round trip of 14.6 us; unscheduled cut-offs are ours."""

    name: ClassVar[str] = "homa"
    rtt_packets: int = 13
    """Unscheduled, and granted ahead of arrivals."""
    priorities: int = 8
    unscheduled: int = 4
    """How many of the priorities are for unscheduled packets."""
    unscheduled_bytes: tuple[int, ...] = (2_000, 10_000, 100_000)
    """Where the second, third, ... unscheduled priority begins, by message size."""
    overcommitment: int = 4
    """Messages that a receiver grants at once."""
    timeout_us: float = 2_000.0
    buffer_bytes: int = 1_000_000
    """Of each switch port."""
    sizes_are_forecasts: bool = False

    def __post_init__(self) -> None:
        check_kinds("scheme.", self)
        check("scheme.rtt_packets", self.rtt_packets, 1, 10**6)
        check("scheme.priorities", self.priorities, 2, 64)
        check("scheme.unscheduled", self.unscheduled, 1, self.priorities - 1)
        begin = self.unscheduled_bytes
        if not (len(begin) == self.unscheduled - 1 and all(a < b for a, b in pairwise((0, *begin)))):
            raise ExperimentError(
                f"scheme.unscheduled_bytes are {begin}, expected {self.unscheduled - 1} ascending numbers above 0"
            )
        check("scheme.overcommitment", self.overcommitment, 1, 10**6)
        check("scheme.timeout_us", self.timeout_us, 0.001, 10**7)
        check("scheme.buffer_bytes", self.buffer_bytes, 1, 10**12)

    def settings(self) -> Settings:
        """As the engine reads them."""
        return {
            "scheme": self.name,
            "rtt_packets": self.rtt_packets,
            "unscheduled": self.unscheduled,
            "thresholds": ",".join(str(n) for n in self.unscheduled_bytes),
            "overcommitment": self.overcommitment,
            "timeout_ps": round(self.timeout_us * 1e6),
            "sizes_are_forecasts": int(self.sizes_are_forecasts),
            **strict_ports(self.buffer_bytes, 2**50, self.priorities),
        }


Scheme = Pfabric | Tcp | Homa | Rated | FlowLevel

NAMED: dict[str, Scheme] = {
    "pfabric": Pfabric(),
    "pfabric-forecast": Pfabric(sizes_are_forecasts=True),
    "homa": Homa(),
    "homa-forecast": Homa(sizes_are_forecasts=True),
    "tcp": Tcp(dctcp=False),
    "dctcp": Tcp("dctcp"),
    "pias": Tcp("pias", tagging="pias"),
    "qclimb": Tcp("qclimb", tagging="qclimb", reordering="receiver", again_first=True),
    "qclimb-drain": Tcp("qclimb-drain", tagging="qclimb", reordering="drain", again_first=True),
    "qclimb-tcp": Tcp("qclimb-tcp", tagging="qclimb", reordering="tcp"),
    "qclimb-ps": Tcp("qclimb-ps", tagging="qclimb-ps", reordering="receiver", again_first=True),
    "qclimb-pp": Tcp("qclimb-pp", tagging="qclimb-pp", reordering="receiver", again_first=True),
    "qclimb-fp": Tcp("qclimb-fp", tagging="qclimb-fp", reordering="receiver", again_first=True),
    "deadline": Tcp("deadline", tagging="deadline", reordering="drain", again_first=True),
    **rated.NAMED,
    **rated.FLOW_LEVEL,
    **tasks.NAMED,
}
"""The schemes by name. qclimb-tcp: default TCP reordering (the paper's Fig. 15); -drain: qclimb's own; -ps, -pp, -fp:
perfect sizes, promotion by a point prediction, a priority fixed by one."""


def scheme_named(name: str) -> Scheme:
    """A scheme with its default settings. Raises: ExperimentError."""
    if name not in NAMED:
        raise ExperimentError(f"scheme is {name!r}, expected one of {', '.join(NAMED)}")
    return NAMED[name]


def changed(scheme: Scheme, changes: Iterable[str]) -> Scheme:
    """The scheme with settings given as NAME=VALUE words. Raises: ExperimentError."""
    known = {field.name: field for field in fields(scheme)}
    found: dict[str, Any] = {}
    for change in changes:
        name, _, text = change.partition("=")
        if name not in known:
            near = get_close_matches(name, known, 1)
            hint = f"; did you mean {near[0]}?" if near else "."
            raise ExperimentError(f"scheme.{name}: {scheme.name} has no such setting{hint} Known: {', '.join(known)}")
        now = getattr(scheme, name)
        try:
            found[name] = _read(text, now)
        except ValueError:
            raise ExperimentError(f"scheme.{name} is {text!r}, expected something like {now!r}") from None
    return replace(scheme, **found)


def with_shares(scheme: Scheme, shares: Iterable[int]) -> Scheme:
    """The scheme with SONiC's `dynamic_th` of each queue, served first to last, or one for all; a queue may then hold
    2^dynamic_th times what is free of a port's buffer.

    Raises: ExperimentError.
    """
    if not isinstance(scheme, Tcp):
        raise ExperimentError(f"buffer_shares: {scheme.name} has no queues that share a buffer")
    return replace(scheme, dynamic_alpha=tuple(2.0**share for share in shares))


def _read(text: str, like: object) -> object:
    """Text as the type of a value. Raises: ValueError."""
    if isinstance(like, bool):
        if text.lower() not in ("true", "false", "0", "1"):
            raise ValueError
        return text.lower() in ("true", "1")
    if isinstance(like, tuple):
        return tuple(int(part) for part in text.split(",") if part)
    if isinstance(like, str):
        return text
    return type(like)(text)  # type: ignore[call-arg]


def described(scheme: Scheme) -> dict[str, object]:
    """A scheme's name and settings, for tables and caches."""
    return {"name": scheme.name} | {field.name: getattr(scheme, field.name) for field in fields(scheme)}
