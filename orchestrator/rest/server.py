"""The HTTP server: uvicorn, and what it has no limits for: silent clients, and heads that do not end.

uvicorn limits a kept connection's idle time, and nothing before a request's head is whole. A client that says nothing,
or a head byte by byte, would keep its connection, and a thousand of them the door.
"""

import asyncio
import itertools
import logging
import resource
import socket
from collections.abc import Callable
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

log = logging.getLogger(__name__)

HEAD_S = 10.0
"""For a request's head, from the connection's begin or its first byte on."""
HEAD_BYTES = 64 << 10
HANDSHAKE_S = 5.0
"""For TLS's."""
FILES_MOST = 65_536
FILES_APART = 128
"""Of the files that the process may have open: not for connections."""


def connections_most() -> int:
    """Raises the limit of open files as far as it goes; what is left of it for connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES_MOST if hard == resource.RLIM_INFINITY else min(hard, FILES_MOST)
    if wanted > soft:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return max(wanted, soft) - FILES_APART


class Protocol(HttpToolsProtocol):
    """One connection. Where there are too many, the one goes that has been silent for longest."""

    most = FILES_MOST
    _turns = itertools.count()
    """Who waits for longer: the loop's clock stands still for all that it does at once."""

    def __init__(self, *words: Any, **named: Any) -> None:
        super().__init__(*words, **named)
        self._head_bytes = 0
        self._in_head = False
        self._late: asyncio.TimerHandle | None = None
        self._turn = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client is there, behind TLS."""
        super().connection_made(transport)
        self._await_head()
        if len(self.connections) > self.most:
            silent = [each for each in self.connections if isinstance(each, Protocol) and each._late is not None]
            oldest = min(silent, key=lambda each: each._turn)
            oldest.transport.abort()
            self.connections.discard(oldest)

    def connection_lost(self, exc: Exception | None) -> None:
        """It is gone."""
        self._forget_head()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Something of a request, or what is left of a body that nobody reads."""
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._in_head:
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_BYTES:
                self._end(f"head of more than {HEAD_BYTES} bytes")
                return
        if self._late is None and (self._in_head or self.cycle is None or self.cycle.response_complete):
            self._await_head()

    def on_message_begin(self) -> None:
        """The first byte of a request."""
        super().on_message_begin()
        self._in_head, self._head_bytes = True, 0

    def on_headers_complete(self) -> None:
        """Its head is whole."""
        self._in_head = False
        self._forget_head()
        super().on_headers_complete()

    def _await_head(self) -> None:
        self._turn = next(self._turns)
        self._late = self.loop.call_later(HEAD_S, self._end, f"no whole head of a request within {HEAD_S:g} s")

    def _forget_head(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _end(self, why: str) -> None:
        log.info("connection client=%s event=ended reason=%r", self.client and self.client[0], why)
        self._forget_head()
        self.transport.abort()


class Server(uvicorn.Server):
    """Serves an open socket; says so once connections are taken."""

    def __init__(self, config: uvicorn.Config, door: socket.socket, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._door, self._ready = door, ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """As uvicorn's, with a limit to TLS handshakes."""
        await self.lifespan.startup()
        if self.lifespan.should_exit:
            raise SystemExit(3)
        Protocol.most = connections_most()
        loop = asyncio.get_running_loop()
        self.servers = [
            await loop.create_server(
                self._connection,
                sock=self._door,
                ssl=self.config.ssl,
                backlog=self.config.backlog,
                ssl_handshake_timeout=HANDSHAKE_S if self.config.ssl else None,
            )
        ]
        self.started = True
        self._ready()

    def _connection(self) -> Protocol:
        return Protocol(config=self.config, server_state=self.server_state, app_state=self.lifespan.state)
