"""While another orchestrator leads the database: REST refuses, and says so, until this one leads.

Whoever spreads requests over several orchestrators asks each for /ready: it is 204 at the one that leads alone.
"""

import logging
import socket
import threading
from collections.abc import Callable

import uvicorn
from qclimb.loops import service_thread
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from ..errors import LedError, StoreError
from ..store.store import Store
from .problems import problem
from .server import Server

log = logging.getLogger(__name__)

EVERY_S = 1.0
"""From one try to lead to the next; hosts and switches stay as they are meanwhile."""
RETRY_AFTER_S = 2


class Refuses:
    """An application that knows one answer, but for /healthz."""

    def __init__(self, why: Callable[[], str]) -> None:
        self.why = why

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """A request."""
        if scope["type"] != "http":
            return
        alive = scope["method"] in ("GET", "HEAD") and scope["path"] == "/healthz"
        headers = {"Retry-After": str(RETRY_AFTER_S)}
        answer = Response(status_code=204) if alive else problem(503, f"stands by: {self.why()}", headers=headers)
        await answer(scope, receive, send)


def lead(
    open_store: Callable[[], Store],
    configured: Callable[[ASGIApp], uvicorn.Config],
    listening: socket.socket,
    ends: threading.Event,
) -> Store | None:
    """The store, once this process leads it; None where `ends` was set before. Raises StoreError at the first try."""
    try:
        return open_store()
    except LedError as error:
        why = str(error)
    log.info("standby listen=%s:%d event=waits reason=%r", *listening.getsockname()[:2], why)
    config = configured(Refuses(lambda: why))
    config.lifespan = "off"
    server = Server(config, listening.dup(), lambda: None)
    found: list[Store] = []

    def wait() -> None:
        nonlocal why
        while not ends.wait(EVERY_S) and not server.should_exit:
            try:
                found.append(open_store())
            except StoreError as error:
                if str(error) != why:
                    why = str(error)
                    log.warning("standby event=waits reason=%r", why)
            except Exception:
                log.exception("standby event=failed")
            else:
                log.warning("standby event=leads term=%d", found[0].term)
                server.should_exit = True

    thread = service_thread("standby", wait)
    thread.start()
    server.run()
    if not found:
        ends.set()
    thread.join()
    if ends.is_set():
        for store in found:
            store.close()
        return None
    return found[0]
