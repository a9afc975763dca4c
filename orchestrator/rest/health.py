"""/healthz and /ready, which need no token: one check at a time, whoever asks how often, and none on the event loop."""

import asyncio
from collections.abc import Callable

from fastapi import FastAPI, Response

from ..store.store import Store


class SharedCheck:
    """Runs `check` in a thread; who asks meanwhile gets the outcome of the one that is under way."""

    def __init__(self, check: Callable[[], None]) -> None:
        self._check = check
        self._task: asyncio.Task[None] | None = None

    async def outcome(self) -> None:
        """Raises what the check raises."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(asyncio.to_thread(self._check))
        await asyncio.shield(self._task)  # who goes away ends no one else's


def add_health(app: FastAPI, store: Store) -> None:
    """`/healthz`."""
    alive = SharedCheck(store.check)

    @app.get("/healthz", status_code=204, tags=["state"], response_class=Response)
    async def get_health() -> Response:
        """204 while the store answers; no token needed."""
        await alive.outcome()
        return Response(status_code=204)


def add_ready(app: FastAPI, store: Store) -> None:
    """`/ready`."""
    ready = SharedCheck(store.check_ready)

    @app.get("/ready", status_code=204, tags=["state"], response_class=Response)
    async def get_ready() -> Response:
        """204 while the database is whole and keeps what it is given; no token needed."""
        await ready.outcome()
        return Response(status_code=204)
