"""The recordings that are replayed, and how. Without slow imports: their names stand in the command's help."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lab.workload.services import Endpoint

FIRST_PORT = 7100
PART_PORTS = 40
"""Between the ports of a mixture's parts."""


@dataclass(frozen=True)
class Source:
    """A recording and how it is replayed."""

    name: str
    host_rate_mbps: int = 15
    """25, the lab's usual rate, made 5 to 9 % of web's flows begin more than 5 ms late: they come in bursts."""
    both_ways: bool = False
    """Flows of the side that connected, too."""
    services: int = 1
    """Recorded service ports become so many services, in turn of their first flow."""
    windows: int = 5
    at_once: int = 1
    """A window is cut into so many pieces of as many bytes, which run side by side, each on an image of the recorded
    hosts of its own: where one recorded host is the end of most flows, or few flows carry most bytes."""

    parts: tuple[tuple[str, float], ...] = ()
    """Of a mixture: other sources, each with its share of the load; they have one link rate."""

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """What is served: answers are pulled, the connecting side's flows pushed, each way on ports of its own."""
        from lab.workload.mixture import part_service
        from lab.workload.services import Endpoint  # numpy, only where it is asked for

        if self.parts:
            return tuple(
                replace(each, name=part_service(name, each.name), port=each.port + PART_PORTS * n)
                for n, (name, _) in enumerate(self.parts)
                for each in SOURCES[name].endpoints
            )
        hows = ("pull", "push") if self.both_ways else ("pull",)
        return tuple(
            Endpoint(f"{how}{n}", FIRST_PORT + (20 if how == "push" else 0) + n, how, "one")  # type: ignore[arg-type]
            for how in hows
            for n in range(self.services)
        )


SOURCES = {
    source.name: source
    for source in (
        Source("web"),
        Source("spark", both_ways=True, services=6),
        # With 381 bytes in the mean, 15 Mb/s would be 17,000 flows a second at load 0.5.
        Source("kv", host_rate_mbps=2, windows=1),
        # All flows begin or end at one server; 4 KB in the mean, and 15 Mb/s would be 2,400 flows a second at load 0.7.
        Source("training", host_rate_mbps=6, both_ways=True, windows=3, at_once=8),
        # Uploads of up to 34 MB; 150 of them carry most bytes.
        Source("bulk", host_rate_mbps=30, both_ways=True, services=2, windows=3, at_once=8),
        # Loads 0.3 and 0.5 of together 0.8, as in QCLIMB's Fig. 19.
        Source("mix", both_ways=True, parts=(("web", 0.375), ("spark", 0.625))),
    )
}
