"""How often one token, or one address without a known token, may ask: the library `limits`, in memory.

Hosts are not counted: what they may send is bounded by ingest.deliveries.
"""

import time

from limits import RateLimitItemPerSecond
from limits.storage import MemoryStorage
from limits.strategies import FixedWindowRateLimiter
from starlette.exceptions import HTTPException

WINDOW_S = 10
REQUESTS = 5000
"""Of one token in a window: 500 a second, some sixth of what one process answers."""
UNKNOWN = 200
"""Of one address that shows no known token."""


class Rates:
    """Counts requests."""

    def __init__(self, requests: int = REQUESTS, unknown: int = UNKNOWN) -> None:
        self._limiter = FixedWindowRateLimiter(MemoryStorage())
        self._known = RateLimitItemPerSecond(requests, WINDOW_S)
        self._unknown = RateLimitItemPerSecond(unknown, WINDOW_S)

    def known(self, name: str) -> None:
        """A request with a token of that name; 429 where there were too many."""
        self._count(self._known, f"token {name!r}")

    def unknown(self, address: str) -> None:
        """One from that address without a known token; 429 where there were too many."""
        self._count(self._unknown, f"address {address}")

    def _count(self, item: RateLimitItemPerSecond, who: str) -> None:
        if self._limiter.hit(item, who):
            return
        wait_s = max(int(self._limiter.get_window_stats(item, who).reset_time - time.time()) + 1, 1)
        said = f"{who}: more than {item.amount} requests in {WINDOW_S} s, expected fewer; ask again in {wait_s} s"
        raise HTTPException(429, said, {"Retry-After": str(wait_s)})
