"""The poll of a host that has the policy in force, answered in front of the framework: it is every second request.

Plain ASGI. It knows one answer, 304; whatever else is asked, or is not as it should be, goes on to the routes, which
say why. So nothing is decided here that they would decide otherwise.
"""

import re
import time

from starlette.types import ASGIApp, Receive, Scope, Send

from ..errors import StoreError
from ..metrics import Metrics
from .host_cache import HostCache
from .tokens import Role

ROUTE = "/v1/hosts/{name}/policy"
PATH = re.compile(r"/v1/hosts/([^/]+)/policy")


class PolicyPoll:
    """Stands before an application."""

    def __init__(self, app: ASGIApp, cache: HostCache, metrics: Metrics) -> None:
        self.app, self.cache, self.metrics = app, cache, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """A request, or whatever else the server has to say."""
        begun = time.monotonic()
        try:
            etag = self._etag(scope)
        except StoreError:
            etag = None
        if etag is None:
            await self.app(scope, receive, send)
            return
        await send({"type": "http.response.start", "status": 304, "headers": [(b"etag", etag)]})
        await send({"type": "http.response.body", "body": b""})
        self.metrics.request("GET", ROUTE, 304, time.monotonic() - begun)

    def _etag(self, scope: Scope) -> bytes | None:
        """The policy's ETag, where this is a registered host that asks for its own policy by just this one."""
        if scope["type"] != "http" or scope["method"] != "GET":
            return None
        path = PATH.fullmatch(scope["path"])
        policy = self.cache.policy if path else None
        if path is None or policy is None:
            return None
        headers = dict(scope["headers"])
        if headers.get(b"if-none-match") != policy.etag.encode():
            return None
        caller = self.cache.caller(headers.get(b"authorization", b"").decode("latin-1"))
        if caller is None or caller.role is not Role.HOST or caller.name != path[1]:
            return None
        return policy.etag.encode() if self.cache.has_host(caller.name) else None
