"""What a run gave: an array a column, a row a flow in order of its start; and the network's counters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

SMALL_BYTES, MEDIUM_BYTES = 100_000, 10_000_000
CLASSES = ("all", "small", "medium", "large")
PLACES = ("host", "leaf to spine", "spine to leaf", "leaf to host")


@dataclass(frozen=True)
class Counters:
    """Of the whole network."""

    data_packets: int
    """Sent by hosts, retransmissions included."""
    delivered_packets: int
    """Data packets that reached their receiver."""
    control_packets: int
    drops_at: dict[str, int]
    """Data packets lost, by the kind of port."""
    control_drops: int
    marks: int
    """ECN marks given."""
    waiting_sum: int
    """Over arrivals of data packets under TCP's schemes: packets that then waited at the receiver beyond a gap."""
    losses_told: int
    """Packets held for lost by what receivers said (duplicate ACKs, QCLIMB's receiver), and not by a timeout."""
    priority_packets: NDArray[np.int64]
    """Packets launched by priority; all 0 where a scheme has ranks and not priorities."""
    priority_drops: NDArray[np.int64]
    events: int
    end_ps: int
    peak_packets: int
    """In the network at once."""
    peak_flows: int
    """Under way at once: all that the engine keeps."""
    peak_rss_kib: int
    cpu_seconds: float
    watched: dict[str, Any] | None = None
    """Of the watched port, a number a step: `queue_bytes` (the most), `sent_bytes`, and `of_flow`, by flow (the
    first 64)."""

    @staticmethod
    def of(found: dict[str, Any]) -> Counters:
        """From the engine's words."""
        names = ["data_packets", "delivered_packets", "control_packets", "control_drops", "marks", "events", "end_ps"]
        names += ["waiting_sum", "losses_told"]
        names += ["peak_packets", "peak_flows", "peak_rss_kib", "cpu_seconds"]
        return Counters(
            drops_at=dict(zip(PLACES, found["drops_at"], strict=True)),
            priority_packets=np.array(found["rank_packets"], np.int64),
            priority_drops=np.array(found["rank_drops"], np.int64),
            watched=found.get("watched"),
            **{name: found[name] for name in names},
        )


@dataclass(frozen=True)
class Results:
    """Times in ps; what has not happened by the end of the run is -1 there and NaN as an FCT."""

    start_ps: NDArray[np.int64]
    size_bytes: NDArray[np.int64]
    source: NDArray[np.int64]
    target: NDArray[np.int64]
    received_ps: NDArray[np.int64]
    """When the last byte stood at the receiver."""
    acked_ps: NDArray[np.int64]
    """When the sender knew."""
    ideal_ps: NDArray[np.int64]
    """From start to the last byte's arrival, alone in the network (Topology.ideal_ps)."""
    sent: NDArray[np.int64]
    """Data packets, retransmissions included."""
    retransmissions: NDArray[np.int64]
    drops: NDArray[np.int64]
    timeouts: NDArray[np.int64]
    duplicates: NDArray[np.int64]
    """Data packets that the receiver had already."""
    counters: Counters

    @property
    def fct_us(self) -> NDArray[np.float64]:
        """Start to last byte at the receiver."""
        return np.where(self.received_ps >= 0, self.received_ps - self.start_ps, np.nan) / 1e6

    @property
    def acked_fct_us(self) -> NDArray[np.float64]:
        """Start to the sender's last ACK: what ns-2 and YAPS report."""
        return np.where(self.acked_ps >= 0, self.acked_ps - self.start_ps, np.nan) / 1e6

    @property
    def slowdown(self) -> NDArray[np.float64]:
        """FCT divided by the ideal one."""
        return np.where(self.received_ps >= 0, (self.received_ps - self.start_ps) / self.ideal_ps, np.nan)

    def of_class(self, name: str) -> NDArray[np.bool_]:
        """Flows of a size class: small up to 100 KB, medium up to 10 MB, large above, all."""
        size = self.size_bytes
        classes = {
            "all": np.ones(size.shape, bool),
            "small": size <= SMALL_BYTES,
            "medium": (size > SMALL_BYTES) & (size <= MEDIUM_BYTES),
            "large": size > MEDIUM_BYTES,
        }
        return np.asarray(classes[name])

    def summary(self) -> list[dict[str, Any]]:
        """A row a size class: flows, unfinished ones, mean and p99 FCT (us, both readings), slowdown."""
        rows = []
        for name in CLASSES:
            chosen = self.of_class(name)
            fct, acked, slowdown = (values[chosen] for values in (self.fct_us, self.acked_fct_us, self.slowdown))
            done = np.isfinite(fct)
            rows.append(
                {
                    "class": name,
                    "flows": int(chosen.sum()),
                    "unfinished": int((~done).sum()),
                    "fct_mean_us": _of(fct[done], "mean"),
                    "fct_p99_us": _of(fct[done], "p99"),
                    "acked_mean_us": _of(acked[np.isfinite(acked)], "mean"),
                    "acked_p99_us": _of(acked[np.isfinite(acked)], "p99"),
                    "slowdown_mean": _of(slowdown[done], "mean"),
                    "slowdown_p99": _of(slowdown[done], "p99"),
                    "retransmissions": int(self.retransmissions[chosen].sum()),
                    "drops": int(self.drops[chosen].sum()),
                    "timeouts": int(self.timeouts[chosen].sum()),
                }
            )
        return rows


def _of(values: NDArray[np.float64], name: str) -> float:
    if not values.size:
        return float("nan")
    return float(values.mean() if name == "mean" else np.quantile(values, 0.99))
