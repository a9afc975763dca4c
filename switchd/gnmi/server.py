"""The gRPC face: mutual TLS, asyncio, every RPC's errors turned into a status with the path in its message."""

import asyncio
import logging
import socket
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import NoReturn

import grpc
from qclimb.errors import NewerRows

from switchd.apply import Switch
from switchd.commits import CommitError, OtherCommit
from switchd.db import DatabaseLost, RowsChanged
from switchd.elections import NotMaster, TooManyRoles
from switchd.gnmi.access import Client, common_names
from switchd.gnmi.errors import (
    ABORTED,
    DEADLINE_EXCEEDED,
    FAILED_PRECONDITION,
    INTERNAL,
    INVALID_ARGUMENT,
    PERMISSION_DENIED,
    RESOURCE_EXHAUSTED,
    UNAVAILABLE,
    RpcError,
    details,
    sendable,
)
from switchd.gnmi.limits import Call, Limits, Places
from switchd.gnmi.loop import Loop
from switchd.gnmi.service import Names, Service
from switchd.gnmi.streams import Open, Streams, Wire
from switchd.plan import Refused

log = logging.getLogger("switchd.gnmi")

UNTOLD_MOST = 2048
"""RPCs at once at one address beside those that have a place: they are being told so. What comes beyond is refused by
gRPC (RESOURCE_EXHAUSTED), not queued."""
OPTIONS = {
    "grpc.so_reuseport": 0,
    "grpc.server_handshake_timeout_ms": 20_000,
    "grpc.keepalive_time_ms": 30_000,
    "grpc.keepalive_timeout_ms": 10_000,
    "grpc.keepalive_permit_without_calls": 1,
    "grpc.http2.min_ping_interval_without_data_ms": 5_000,
    "grpc.max_connection_idle_ms": 600_000,
}
"""A peer that is silent, or gone without a word, keeps nothing."""
ABORT_S = 3.0
"""until an error is left to gRPC to bring: a client that reads nothing keeps its call no longer"""
ENDS = "this server ends"


class Servers:
    """The gNMI servers of one daemon, at any number of addresses: they share limits, streams and the loop."""

    def __init__(self, switch: Switch, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self.service = Service(switch)
        self._loop = Loop()
        self._places = Places(self.limits)
        self._streams = self._loop.do(self._made())

    async def _made(self) -> Streams:
        return Streams(self.service, self._loop, self.limits, self._places)

    def start(self, address: str, credentials: grpc.ServerCredentials | None) -> "Listening":
        """Serve at ADDR:PORT, without credentials for all who come. Raises OSError where it can't."""
        return self._loop.do(self._start(address, credentials))

    async def _start(self, address: str, credentials: grpc.ServerCredentials | None) -> "Listening":
        if why := _why_not(address):  # before a server is made: grpcio keeps each that was never started
            raise OSError(f"can't listen at {address}: {why}")
        most = self.limits.streams + self.limits.unary + UNTOLD_MOST
        options = {**OPTIONS, "grpc.max_concurrent_streams": self.limits.of_one}  # of one connection
        server = grpc.aio.server(options=list(options.items()), maximum_concurrent_rpcs=most)
        face = Face(self.service, self._streams, self._places, self._loop, self.limits, credentials is None)
        server.add_generic_rpc_handlers((face.handlers(),))
        try:
            if credentials is None:
                port = server.add_insecure_port(address)
            else:
                port = server.add_secure_port(address, credentials)
        except RuntimeError as error:
            raise OSError(f"can't listen at {address}: {error}") from error
        if not port:
            raise OSError(f"can't listen at {address}")
        await server.start()
        return Listening(port, server, face, self._loop)

    def close(self) -> None:
        """End the loop; what listened has been stopped."""
        self._loop.close()


class Listening:
    """One address that is served; `port` is the one that was found for port 0."""

    def __init__(self, port: int, server: grpc.aio.Server, face: "Face", loop: Loop) -> None:
        self.port = port
        self._server, self._face, self._loop = server, face, loop

    def stop(self, grace_s: float) -> None:
        """End it: its streams at once, what else runs after a moment's grace."""
        self._loop.do(self._stop(grace_s))

    async def _stop(self, grace_s: float) -> None:
        self._face.end_streams()
        await self._server.stop(grace_s)


class Face:
    """The RPCs as gRPC calls them, of one address.

    To gRPC every request is a stream of messages: else it would call us only when the first has come whole, and a
    client that never sends it would hold a call that nobody counts.
    """

    def __init__(
        self, service: Service, streams: Streams, places: Places, loop: Loop, limits: Limits, plain: bool
    ) -> None:
        self._service, self._streams, self._loop, self._plain = service, streams, loop, plain
        self._places, self._limits = places, limits
        self._own: set[Open] = set()

    def handlers(self) -> grpc.GenericRpcHandler:
        """What a gRPC server is given; requests come and answers go as bytes."""
        return grpc.method_handlers_generic_handler(
            "gnmi.gNMI",
            {
                "Capabilities": grpc.stream_unary_rpc_method_handler(self.capabilities),
                "Get": grpc.stream_unary_rpc_method_handler(self.get),
                "Set": grpc.stream_unary_rpc_method_handler(self.set),
                "Subscribe": grpc.stream_stream_rpc_method_handler(self.subscribe),
            },
        )

    async def capabilities(self, _: object, wire: Wire) -> bytes:
        """Capabilities."""
        return await self._answered(
            wire, lambda message, _, call: self._loop.read(lambda: self._service.capabilities(message, call))
        )

    async def get(self, _: object, wire: Wire) -> bytes:
        """Get; what is short is answered here."""

        async def answer(message: bytes, _: Client, call: Call) -> bytes:
            found = self._service.get_at_once(message, call)
            return found if found is not None else await self._loop.read(lambda: self._service.get(message, call))

        return await self._answered(wire, answer)

    async def set(self, _: object, wire: Wire) -> bytes:
        """Set: whoever may not do it waits behind nobody who may."""

        async def answer(message: bytes, client: Client, call: Call) -> bytes:
            client.check_write()
            wanted = await self._loop.read(lambda: self._service.wanted(message))
            return await self._loop.write(lambda: self._service.set(client, wanted, call, wire.peer()))

        return await self._answered(wire, answer)

    async def subscribe(self, _: object, wire: Wire) -> None:
        """Subscribe."""
        names = self._names(wire)
        one = Open(None if names is None else b"".join(names).decode("utf-8", "replace"), wire)
        self._own.add(one)
        try:
            await self._streams.serve(await self._client(names), one, wire)
        except asyncio.CancelledError:
            if one.why is None:
                raise
            await _abort(wire, one.why)
        except Exception as error:
            await _abort(wire, error)
        finally:
            self._own.discard(one)

    def end_streams(self) -> None:
        """All that are open at this address."""
        for one in self._own:
            one.end(RpcError(UNAVAILABLE, ENDS))

    def _names(self, wire: Wire) -> Names:
        return None if self._plain else common_names(b"".join(wire.auth_context().get("x509_pem_cert", ())))

    async def _client(self, names: Names) -> Client:
        if names is None:
            return self._service.client(names)
        return await self._loop.look(lambda: self._service.client(names))

    async def _answered(self, wire: Wire, answer: Callable[[bytes, Client, Call], Awaitable[bytes]]) -> bytes:
        left_s = wire.time_remaining()
        call = Call(None if left_s is None else time.monotonic() + left_s)
        try:
            client = await self._client(self._names(wire))
            with self._places.call(client):
                return await answer(await self._request(wire), client, call)
        except asyncio.CancelledError:
            call.is_gone = True
            raise
        except Exception as error:
            await _abort(wire, error)

    async def _request(self, wire: Wire) -> bytes:
        """The one message. Raises RpcError where it does not come in time, or never will."""
        within_s = self._limits.first_message_s
        try:
            async with asyncio.timeout(within_s):
                found = await wire.read()
        except TimeoutError:
            raise RpcError(DEADLINE_EXCEEDED, f"no request came within {within_s:g} s") from None
        if found is grpc.aio.EOF:
            raise RpcError(INVALID_ARGUMENT, "the call ended without a request")
        message: bytes = found
        return message


def status_of(error: Exception) -> tuple[grpc.StatusCode, str]:
    """The status that an error stands for; what nobody foresaw is INTERNAL, and logged whole."""
    match error:
        case RpcError():
            return error.code, error.text
        case OtherCommit():
            return INVALID_ARGUMENT, str(error)
        case Refused() | CommitError() | NewerRows():
            return FAILED_PRECONDITION, str(error)
        case NotMaster():
            return PERMISSION_DENIED, str(error)
        case TooManyRoles():
            return RESOURCE_EXHAUSTED, str(error)
        case RowsChanged():
            return ABORTED, f"{error}, again and again; try once more"
        case DatabaseLost():
            return UNAVAILABLE, str(error)
    log.error("internal error=%r", error, exc_info=error)
    return INTERNAL, "internal error; the switch's log has it"


async def _abort(wire: Wire, error: Exception) -> NoReturn:
    """End the RPC with the error's status; where nobody is there to be told, it ends without a word in the log."""
    if isinstance(error, grpc.aio.AbortError):
        raise error
    if isinstance(error, grpc.aio.BaseError) and not isinstance(error, grpc.aio.UsageError):
        log.debug("client left error=%r", error)
    elif not wire.done():
        code, text = status_of(error)
        text = sendable(text)
        with suppress(TimeoutError, grpc.aio.InternalError):  # the client has just left
            async with asyncio.timeout(ABORT_S):
                await wire.abort(code, text, (details(code, text),))
    raise asyncio.CancelledError from error


def _why_not(address: str) -> str | None:
    """What the kernel says to a socket at ADDR:PORT, since gRPC keeps that to itself; None where it takes it.

    None, too, for what is no number to it: that is left to gRPC.
    """
    host, _, port = address.rpartition(":")
    family = socket.AF_INET6 if host.startswith("[") else socket.AF_INET
    try:
        socket.create_server((host.strip("[]"), int(port)), family=family).close()
    except (socket.gaierror, ValueError):
        return None
    except OSError as error:
        return error.strerror
    return None
