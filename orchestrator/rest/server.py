"""The HTTP server: uvicorn behind door.py, and what it has no limits for: silent clients, heads that do not end.

uvicorn limits a kept connection's idle time, and nothing before a request's head is whole. A client that says nothing,
or a head byte by byte, would keep its connection, and a thousand of them the door.
"""

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from . import door

log = logging.getLogger(__name__)

HEAD_S = 10.0
"""For a request's head, from the connection's begin or its first byte on."""
HEAD_BYTES = 64 << 10


def configure_server(
    app: Any,
    certificate: Path | None = None,
    key: Path | None = None,
    client_ca: Path | None = None,
    trusted_proxies: Sequence[str] = (),
) -> uvicorn.Config:
    """Settings of each HTTP server of ours: none is left to uvicorn's environment variables.

    `trusted_proxies`: networks. A client's address and scheme are what its peer's are; where that is one of these, they
    are what X-Forwarded-For (its rightmost address that is no such proxy) and X-Forwarded-Proto say.
    """
    return uvicorn.Config(
        app,
        ssl_certfile=certificate,
        ssl_keyfile=key,
        ssl_ca_certs=None if client_ca is None else str(client_ca),
        ssl_cert_reqs=ssl.CERT_NONE if client_ca is None else ssl.CERT_REQUIRED,
        proxy_headers=bool(trusted_proxies),
        forwarded_allow_ips=list(trusted_proxies),
        workers=1,
        ws="none",
        access_log=False,
        log_config=None,
        server_header=False,
        timeout_keep_alive=60,  # past httpx's 5 s: where both ends give up at once, a request is lost on the way
        timeout_graceful_shutdown=1,  # an idle TLS client does not answer the good-bye
    )


class Protocol(HttpToolsProtocol):
    """One connection."""

    def __init__(self, *words: Any, **named: Any) -> None:
        super().__init__(*words, **named)
        self._head_bytes = 0
        self._in_head = False
        self._late: asyncio.TimerHandle | None = None
        self.turn = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client is there, behind TLS."""
        super().connection_made(transport)
        self._await_head()

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

    @property
    def is_silent(self) -> bool:
        """Its client owes a request's head."""
        return self._late is not None

    def make_room(self) -> None:
        """Ends it at once."""
        self.transport.abort()
        self.connections.discard(self)

    def _await_head(self) -> None:
        self.turn = next(door.turns)
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

    def __init__(self, config: uvicorn.Config, listening: socket.socket, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._listening, self._ready = listening, ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """As uvicorn's, behind a door of ours."""
        await self.lifespan.startup()
        if self.lifespan.should_exit:
            raise SystemExit(3)
        connections = self.server_state.connections
        opened = door.Door(
            self._listening, self.config.ssl, self._connection, lambda: len(connections), self._silent_longest
        )
        opened.open(self.config.backlog)
        self.servers = [opened]  # type: ignore[list-item]
        self.started = True
        self._ready()

    def _connection(self) -> Protocol:
        return Protocol(config=self.config, server_state=self.server_state, app_state=self.lifespan.state)

    def _silent_longest(self) -> tuple[int, Callable[[], None]] | None:
        silent = (each for each in self.server_state.connections if isinstance(each, Protocol) and each.is_silent)
        oldest = min(silent, key=lambda each: each.turn, default=None)
        return (oldest.turn, oldest.make_room) if oldest else None
