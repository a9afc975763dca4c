"""How often one token, or one address without a known token, may ask.

Hosts are not counted: what they may send is bounded by ingest.deliveries.
"""

import time
from collections import Counter
from collections.abc import Callable

from starlette.exceptions import HTTPException

WINDOW_S = 10
REQUESTS = 5000
"""Of one token in a window: 500 a second, some sixth of what one process answers."""
UNKNOWN = 200
"""Of one address that shows no known token."""


class Rates:
    """Counts requests in windows that all share. The event loop alone touches it."""

    def __init__(
        self, requests: int = REQUESTS, unknown: int = UNKNOWN, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`clock`: s, nobody sets it."""
        self._requests, self._unknown, self._clock = requests, unknown, clock
        self._counts: Counter[str] = Counter()
        self._ends_s = 0.0

    def known(self, name: str) -> None:
        """A request with a token of that name; 429 where there were too many."""
        self._count(self._requests, f"token {name!r}")

    def unknown(self, address: str) -> None:
        """One from that address without a known token; 429 where there were too many."""
        self._count(self._unknown, f"address {address}")

    def _count(self, most: int, who: str) -> None:
        now = self._clock()
        if now >= self._ends_s:
            self._counts.clear()
            self._ends_s = now + WINDOW_S
        self._counts[who] += 1
        if self._counts[who] <= most:
            return
        wait_s = max(int(self._ends_s - now) + 1, 1)
        said = f"{who}: more than {most} requests in {WINDOW_S} s, expected fewer; ask again in {wait_s} s"
        raise HTTPException(429, said, {"Retry-After": str(wait_s)})
