"""The disciplines that the engine knows, as settings; engine/schemes/*.h says what each does.

`settings()` is what the engine is told; lab.sim.experiment adds the rest.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from itertools import pairwise
from typing import Any, ClassVar

from lab.sim import rated
from lab.sim.errors import ExperimentError, Settings, check
from lab.sim.rated import FlowLevel, Rated


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

    def __post_init__(self) -> None:
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
            "priorities": 1,
        }


PIAS_2015_WEB_SEARCH = tuple(1460 * n for n in (46, 1084, 1717, 1943, 1989, 1999, 2001))
"""Demotion thresholds of the PIAS authors' ns-2 scripts of October 2015, closest to the NSDI'15 text; bytes."""
PIAS_2016_WEB_SEARCH = tuple(1460 * n for n in (956, 1381, 1718, 2028, 2297, 2551, 2660))
"""Those of their later scripts, for load 0.6; bytes."""
PIAS_2015_DATA_MINING = tuple(1460 * n for n in (257, 2107, 24703, 28915, 28984, 29000, 29016))
"""The data-mining set of the same scripts of October 2015; bytes."""
TAGGINGS = ("none", "pias", "qclimb", "qclimb-ps", "qclimb-pp", "qclimb-fp", "deadline", "qclimb-mixed")
REORDERINGS = ("tcp", "receiver", "drain")


@dataclass(frozen=True)
class Tcp:
    """TCP over strict-priority queues: plain, DCTCP, PIAS and QCLIMB's variants are settings of it (`NAMED`).

    Defaults: DCTCP as pFabric's authors ran it in a fabric of 14.6 us: 150-packet ports, marks from 15 packets on at
    10G and in proportion to the rate on uplinks. Their least timeout of 200 us is for one queue: where low priorities
    starve, PIAS's authors take 2 ms.
    """

    name: str = "tcp"
    """What tables call it."""
    dctcp: bool = True
    dctcp_alpha: float = 1.0
    """DCTCP's alpha before the first window was weighed: 1 as in RFC 8257 and Linux, 0 as in ns-2, which PIAS and
    pFabric used. In 1024ths."""
    tagging: str = "none"
    thresholds_bytes: tuple[int, ...] = PIAS_2015_WEB_SEARCH
    """Where priorities 1, 2, ... begin; one fewer than priorities. Unused, and one queue, where tagging is none."""
    slack_bytes: int = 100_000
    deadline_step_us: int = 1_000
    """Tagging `deadline`: the last so many before it are priority 0's, twice as many each later one's."""
    reordering: str = "tcp"
    again_first: bool = False
    """What is sent again has priority 0."""
    duplicate_acks: int = 3
    """Selectively acknowledged packets beyond a gap that make it a loss, 1 to 3; 0: the timeout alone finds losses."""
    promote_wait_us: float = 1_000.0
    """Longest wait of reordering `drain`."""
    initial_window: int = 12
    """Packets."""
    max_window: int = 1_000
    """Packets; stands for the receiver's window."""
    least_timeout_us: float = 2_000.0
    first_timeout_us: float = 2_000.0
    """Before a round trip was measured."""
    buffer_bytes: int = 225_000
    """Of each switch port, shared by its queues."""
    host_buffer_bytes: int = 225_000
    """Of each host's port, likewise."""
    reserved_bytes: int = 0
    """Of each queue's own, out of the port's buffer."""
    dynamic_alpha: float | tuple[float, ...] = 0.0
    """A queue may hold this many times the free shared bytes (in 256ths); 0: all that is free. One for all queues, or
    one for each."""
    mark_bytes: int = 22_500
    """ECN marks where a packet finds so much waiting at a leaf's port to a host."""
    uplink_mark_bytes: int = 90_000
    hosts_mark: bool = True
    """Hosts' own ports mark too, at `mark_bytes`, as in ns-2. False: they do not, as Linux's."""
    mark_per_queue: bool = False

    def __post_init__(self) -> None:
        if self.tagging not in TAGGINGS:
            raise ExperimentError(f"scheme.tagging is {self.tagging!r}, expected one of {', '.join(TAGGINGS)}")
        if self.reordering not in REORDERINGS:
            raise ExperimentError(f"scheme.reordering is {self.reordering!r}, expected one of {', '.join(REORDERINGS)}")
        begin = self.thresholds_bytes
        if not (0 < len(begin) <= 63 and begin[0] > 0 and all(a < b for a, b in pairwise(begin))):
            raise ExperimentError(f"scheme.thresholds_bytes are {begin}, expected 1 to 63 ascending numbers above 0")
        check("scheme.dctcp_alpha", self.dctcp_alpha, 0, 1)
        check("scheme.slack_bytes", self.slack_bytes, 0, 2**62)
        check("scheme.deadline_step_us", self.deadline_step_us, 1, 10**9)
        check("scheme.duplicate_acks", self.duplicate_acks, 0, 3)
        check("scheme.promote_wait_us", self.promote_wait_us, 0, 10**7)
        check("scheme.initial_window", self.initial_window, 1, 10**6)
        check("scheme.max_window", self.max_window, self.initial_window, 10**6)
        check("scheme.least_timeout_us", self.least_timeout_us, 0.001, 10**7)
        check("scheme.first_timeout_us", self.first_timeout_us, 0.001, 10**7)
        for name in ("buffer_bytes", "host_buffer_bytes"):
            check(f"scheme.{name}", getattr(self, name), 1, 10**12)
            if self.reserved_bytes * self.priorities > getattr(self, name):
                raise ExperimentError(
                    f"scheme.reserved_bytes is {self.reserved_bytes}: {self.priorities} queues of it do not fit into "
                    f"{name}, {getattr(self, name)}"
                )
        check("scheme.reserved_bytes", self.reserved_bytes, 0, 10**12)
        for alpha in self.alphas:
            check("scheme.dynamic_alpha", alpha, 0, 256)
        check("scheme.mark_bytes", self.mark_bytes, 0, 10**12)
        check("scheme.uplink_mark_bytes", self.uplink_mark_bytes, 0, 10**12)

    @property
    def priorities(self) -> int:
        """How many queues each port has."""
        return 1 if self.tagging == "none" else len(self.thresholds_bytes) + 1

    @property
    def alphas(self) -> tuple[float, ...]:
        """One for all queues, or one for each."""
        return self.dynamic_alpha if isinstance(self.dynamic_alpha, tuple) else (self.dynamic_alpha,)

    def settings(self) -> Settings:
        """As the engine reads them."""
        return {
            "scheme": "tcp",
            "dctcp": int(self.dctcp),
            "dctcp_alpha_1024ths": round(self.dctcp_alpha * 1024),
            "tagging": self.tagging,
            "thresholds": ",".join(str(n) for n in self.thresholds_bytes[: self.priorities - 1]),
            "slack_bytes": self.slack_bytes,
            "deadline_step_us": self.deadline_step_us,
            "reordering": self.reordering,
            "again_first": int(self.again_first),
            "duplicate_acks": self.duplicate_acks,
            "promote_wait_ps": round(self.promote_wait_us * 1e6),
            "initial_window": self.initial_window,
            "max_window": self.max_window,
            "least_timeout_ps": round(self.least_timeout_us * 1e6),
            "first_timeout_ps": round(self.first_timeout_us * 1e6),
            "buffer_bytes": self.buffer_bytes,
            "host_buffer_bytes": self.host_buffer_bytes,
            "reserved_bytes": self.reserved_bytes,
            "dynamic_alpha_256ths": ",".join(str(round(alpha * 256)) for alpha in self.alphas),
            "mark_bytes": self.mark_bytes if self.dctcp else 0,
            "host_mark_bytes": self.mark_bytes if self.dctcp and self.hosts_mark else 0,
            "uplink_mark_bytes": self.uplink_mark_bytes if self.dctcp else 0,
            "mark_per_queue": int(self.mark_per_queue),
            "priorities": self.priorities,
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
            "priorities": self.priorities,
            "unscheduled": self.unscheduled,
            "thresholds": ",".join(str(n) for n in self.unscheduled_bytes),
            "overcommitment": self.overcommitment,
            "timeout_ps": round(self.timeout_us * 1e6),
            "buffer_bytes": self.buffer_bytes,
            "host_buffer_bytes": 2**50,
            "sizes_are_forecasts": int(self.sizes_are_forecasts),
            "reserved_bytes": 0,
            "dynamic_alpha_256ths": 0,
            "mark_bytes": 0,
            "host_mark_bytes": 0,
            "uplink_mark_bytes": 0,
            "mark_per_queue": 0,
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
