"""pFabric, as settings; engine/schemes/pfabric.h says what it does."""

from __future__ import annotations

from dataclasses import dataclass

from lab.sim.errors import ExperimentError, Settings, check, check_kinds
from lab.sim.scheme import Scheme

MOST_WEIGHT, MOST_GROUPS = 1_000, 64


@dataclass(frozen=True)
class Pfabric(Scheme):
    """pFabric: priority drop, priority dequeue, minimal rate control. Defaults: YAPS's for 10G and a round trip of
    14.6 us (buffers of 24 packets, two bandwidth-delay products)."""

    name: str = "pfabric"
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
            "scheme": "pfabric",
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
