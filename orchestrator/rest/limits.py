"""What a body may be before anybody looks at it: how long, how late, and whose.

The framework reads bodies whole, and before it asks who sent them; the server has no limit.
"""

import asyncio
import re

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .host_cache import HostCache
from .rates import Rates
from .refusals import Refusals

BODY_BYTES_MAX = 1 << 20
DELIVERY_BYTES_MAX = 8 << 20
"""4,096 records have 0.85 MB as they lie, and up to 4 MB as JSON."""
DELIVERY = re.compile(r"/v1/hosts/[^/]+/records")
UNTOLD_BYTES_MAX = 4 << 20
"""Of a delivery that comes in chunks, without its length: more than any hostd's, and what it is taken to have."""
BODY_S = 20.0
"""For the whole of it."""
BODY_HEADERS = {b"content-length", b"transfer-encoding"}
CLOSE = {"Connection": "close"}
UNKNOWN = "Authorization: expected Bearer and a known token"


class Bounded:
    """Ends the reading of a body that is too long (413) or too slow (408), or that nobody known sends (401)."""

    def __init__(self, app: ASGIApp, cache: HostCache, refusals: Refusals, rates: Rates) -> None:
        self.app, self.cache, self.refusals, self.rates = app, cache, refusals, rates

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """A request, or whatever else the server has to say."""
        headers = dict(scope.get("headers", ()))
        if scope["type"] != "http" or (scope["method"] in ("GET", "HEAD") and not BODY_HEADERS & headers.keys()):
            await self.app(scope, receive, send)
            return
        most = DELIVERY_BYTES_MAX if DELIVERY.fullmatch(scope["path"]) else BODY_BYTES_MAX
        told = headers.get(b"content-length")
        length = None if told is None else int(told)
        if length is None:
            most = min(most, UNTOLD_BYTES_MAX)
        loop = asyncio.get_running_loop()
        end, came, is_whole = loop.time() + BODY_S, 0, False

        async def bounded() -> Message:
            nonlocal came, is_whole
            if is_whole:  # what comes now is that the client goes away
                return await receive()
            if length is not None and length > most:
                raise HTTPException(413, f"body: has {length} bytes, expected at most {most}", CLOSE)
            if not came and self.cache.caller(headers.get(b"authorization", b"").decode("latin-1")) is None:
                client = scope.get("client")
                address = client[0] if client else "unknown"
                self.rates.unknown(address)
                self.refusals.came(address, 401, f"{scope['method']} {scope['path']}")
                raise HTTPException(401, UNKNOWN, {"WWW-Authenticate": "Bearer", **CLOSE})
            try:
                async with asyncio.timeout_at(end):
                    message = await receive()
            except TimeoutError:
                raise HTTPException(
                    408, f"body: {came} bytes came in {BODY_S:g} s, expected all of it", CLOSE
                ) from None
            came += len(message.get("body", b""))
            is_whole = not message.get("more_body", False)
            if came > most:
                raise HTTPException(413, f"body: has more than {most} bytes, expected no more", CLOSE)
            return message

        await self.app(scope, bounded, send)
