"""Whose requests are in threads, of which REST has 40: no token has more than half, so that there is room for others.

Who has that many waits for a turn on the event loop, where a request costs little.
"""

import asyncio
from dataclasses import dataclass, field
from inspect import isasyncgenfunction, iscoroutinefunction
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send

OF_ONE = 20
HELD = "qclimb.turn"
"""The key of a request's scope under which its turn is."""


@dataclass
class _Share:
    """One token's; `users` have a turn or wait for one."""

    free: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(OF_ONE))
    users: int = 0


class Turns:
    """The event loop alone touches it."""

    def __init__(self) -> None:
        self._shares: dict[str, _Share] = {}

    @property
    def holders(self) -> frozenset[str]:
        """Who has a turn or waits for one."""
        return frozenset(self._shares)

    async def take(self, scope: Scope, who: str) -> None:
        """A turn for a request, until `InTurn` sees its end."""
        if HELD in scope:
            return
        share = self._shares.setdefault(who, _Share())
        share.users += 1
        try:
            await share.free.acquire()
        except BaseException:
            self._leave(who, share)
            raise
        scope[HELD] = (who, share)

    def give_back(self, scope: Scope) -> None:
        """The turn, where the request has one."""
        held = scope.pop(HELD, None)
        if held is not None:
            held[1].free.release()
            self._leave(*held)

    def _leave(self, who: str, share: _Share) -> None:
        share.users -= 1
        if not share.users:
            del self._shares[who]


class InTurn:
    """Gives turns back at the ends of requests. Plain ASGI."""

    def __init__(self, app: ASGIApp, turns: Turns) -> None:
        self.app, self.turns = app, turns

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """A request, or whatever else the server has to say."""
        try:
            await self.app(scope, receive, send)
        finally:
            self.turns.give_back(scope)


def is_in_thread(endpoint: Any) -> bool:
    """Whether FastAPI runs it in a thread."""
    return not (iscoroutinefunction(endpoint) or isasyncgenfunction(endpoint))
