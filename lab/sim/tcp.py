"""TCP over strict-priority queues, as settings; engine/schemes/tcp.h says what it does."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from lab.sim.errors import ExperimentError, Settings, check, check_kinds
from lab.sim.scheme import Can, Scheme

PIAS_2015_WEB_SEARCH = tuple(1460 * n for n in (46, 1084, 1717, 1943, 1989, 1999, 2001))
"""Demotion thresholds of the PIAS authors' ns-2 scripts of October 2015, closest to the NSDI'15 text; bytes."""
PIAS_2016_WEB_SEARCH = tuple(1460 * n for n in (956, 1381, 1718, 2028, 2297, 2551, 2660))
"""Those of their later scripts, for load 0.6; bytes."""
PIAS_2015_DATA_MINING = tuple(1460 * n for n in (257, 2107, 24703, 28915, 28984, 29000, 29016))
"""The data-mining set of the same scripts of October 2015; bytes."""
TAGGINGS = ("none", "pias", "qclimb", "qclimb-ps", "qclimb-pp", "qclimb-fp", "deadline", "task", "qclimb-mixed")
REORDERINGS = ("tcp", "receiver", "drain")


@dataclass(frozen=True)
class Tcp(Scheme):
    """TCP over strict-priority queues: plain, DCTCP, PIAS and QCLIMB's variants are settings of it.

    Defaults: DCTCP as pFabric's authors ran it in a fabric of 14.6 us: 150-packet ports, marks from 15 packets on at
    10G and in proportion to the rate on uplinks. Their least timeout of 200 us is for one queue: where low priorities
    starve, PIAS's authors take 2 ms.
    """

    name: str = "tcp"
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
        check_kinds("scheme.", self)
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
    def can(self) -> Can:
        """What it tags by."""
        return Can(deadlines=self.tagging == "deadline", tasks=self.tagging == "task")

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
