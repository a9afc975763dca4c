"""Schemes whose receivers know tasks, or windows at least: OPTAX, ICTCP, and priority for small tasks alone.

engine/schemes/optax.h and ictcp.h say what each does. Flows have their tasks from `FlowList.task`. Defaults: a switch
at 10 Gb/s with kernels at its hosts, some 83 us a round trip; two strict priorities, small tasks' flows first, where
the scheme knows tasks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from lab.sim.errors import Settings, check
from lab.sim.tcp import Tcp

SMALL_BYTES = 1 << 20
"""OPTAX: a task is small while each of its flows is no larger."""
DELAY_US = 20
"""Of a link one way, propagation and kernels: with packets of 1,500 bytes at 10 Gb/s a round trip of 83 us."""
BASE_RTT_US = 83.0


@dataclass(frozen=True)
class Ictcp(Tcp):
    """ICTCP: receive windows that grow only into bandwidth that is there. Fair sharing without tasks."""

    name: str = "ictcp"
    scheme: ClassVar[str] = "ictcp"
    dctcp: bool = False
    initial_window: int = 10
    least_timeout_us: float = 200_000.0
    """Linux's, as the first one: who loses the last packets of a window waits."""
    first_timeout_us: float = 200_000.0
    buffer_bytes: int = 2_000_000
    """What one port of a switch with 9 MB for 48 ports may take (Pronto 3780; the paper states no share)."""
    host_buffer_bytes: int = 2_000_000
    base_rtt_us: float = BASE_RTT_US
    """Half a slot."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check("scheme.base_rtt_us", self.base_rtt_us, 0.001, 10**6)

    def settings(self) -> Settings:
        """As the engine reads them."""
        return super().settings() | {"scheme": self.scheme, "base_rtt_ps": round(self.base_rtt_us * 1e6)}


@dataclass(frozen=True)
class Optax(Ictcp):
    """OPTAX: small tasks first, and one after another by arrival at each receiver."""

    name: str = "optax"
    scheme: ClassVar[str] = "optax"
    tagging: str = "task"
    thresholds_bytes: tuple[int, ...] = (SMALL_BYTES,)
    least_window: int = 2
    """W_min, packets; the paper states no value. Hosts have the same."""
    most_window: int = 64
    """Packets, of each of the head's flows; as hosts."""
    first_window: int = 2
    """Of who finds the line empty. As ICTCP's flows begin, so that what is compared is order (hosts: 10)."""
    interval_us: float = BASE_RTT_US
    """Over which rates are measured, and after which the window of the head moves."""
    delay_most_us: float = 10_000.0
    """Delay_max; below the least timeout, as the paper demands."""
    patience_us: float = 20_000.0
    """A task that was quiet for longer is passed over; as hosts."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check("scheme.least_window", self.least_window, 1, 10**6)
        check("scheme.most_window", self.most_window, self.least_window, 10**6)
        check("scheme.first_window", self.first_window, self.least_window, self.most_window)
        check("scheme.interval_us", self.interval_us, 0.001, 10**6)
        check("scheme.delay_most_us", self.delay_most_us, 0, self.least_timeout_us)
        check("scheme.patience_us", self.patience_us, 0.001, 10**6)

    def settings(self) -> Settings:
        """As the engine reads them."""
        return super().settings() | {
            "small_coflow_bytes": self.thresholds_bytes[0],
            "least_window": self.least_window,
            "most_window": self.most_window,
            "first_window": self.first_window,
            "interval_ps": round(self.interval_us * 1e6),
            "delay_most_ps": round(self.delay_most_us * 1e6),
            "patience_ps": round(self.patience_us * 1e6),
        }
