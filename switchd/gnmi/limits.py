"""What one client may take, so that there is always room for the others, and for whoever may write first of all."""

import queue
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import grpc

from switchd.gnmi.access import Client
from switchd.gnmi.errors import CANCELLED, DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED, RpcError, invalid

MAX_PATHS = 1024
"""of one Get or Subscribe: each may be answered with the whole tree"""
MAX_OPERATIONS = 4096
"""deletes, replaces and updates of one Set"""
MAX_ANSWER_BYTES = 16 << 20
"""of one Get; clients refuse more than 4 MiB unless told otherwise"""


@dataclass(frozen=True)
class Limits:
    """Of one listening port. Each open subscription holds two threads."""

    streams: int = 64
    streams_of_readers: int = 48
    """the rest is kept for clients that may write: the orchestrator gets in whatever readers do"""
    streams_of_one: int = 16
    first_message_s: float = 10.0
    """from the start of a Subscribe to its SubscriptionList"""
    poll_idle_s: float = 600.0
    """between two Polls"""


class Streams:
    """The open subscriptions, by client. Threads share it."""

    def __init__(self, limits: Limits, plain: bool) -> None:
        self._limits, self._plain = limits, plain
        self._open: Counter[str] = Counter()
        self._lock = threading.Lock()

    @contextmanager
    def place(self, client: Client) -> Iterator[None]:
        """One subscription of this client while it lasts. Raises RpcError RESOURCE_EXHAUSTED where there is no room."""
        with self._lock:
            own, of_all = self._open[client.name], self._open.total()
            most = self._limits.streams if client.may_write else self._limits.streams_of_readers
            if not self._plain and own >= self._limits.streams_of_one:
                raise RpcError(
                    RESOURCE_EXHAUSTED, f"{client.name} has {own} subscriptions open, the most for one client"
                )
            if of_all >= most:
                raise RpcError(RESOURCE_EXHAUSTED, f"{of_all} subscriptions are open already")
            self._open[client.name] += 1
        try:
            yield
        finally:
            with self._lock:
                self._open[client.name] -= 1
                if not self._open[client.name]:
                    del self._open[client.name]


class Requests:
    """A stream's messages, read by a thread of its own, so that whoever awaits one need not wait for ever."""

    def __init__(self, requests: Iterator[bytes], context: grpc.ServicerContext) -> None:
        self._context = context
        self._read: queue.Queue[bytes | None] = queue.Queue(1)  # a client that floods waits in its own socket
        threading.Thread(target=self._copy, args=(requests,), daemon=True, name="subscribe-requests").start()

    def _copy(self, requests: Iterator[bytes]) -> None:
        with suppress(Exception):  # however the stream ended: the client is gone, or the RPC is over
            for message in requests:
                self._put(message)
        self._put(None)

    def _put(self, message: bytes | None) -> None:
        while self._context.is_active():
            with suppress(queue.Full):
                self._read.put(message, timeout=1.0)
                return

    def next(self, timeout_s: float, what: str) -> bytes | None:
        """The next message, None where the client sends no more. Raises RpcError DEADLINE_EXCEEDED."""
        try:
            return self._read.get(timeout=timeout_s)
        except queue.Empty:
            raise RpcError(DEADLINE_EXCEEDED, f"no {what} came within {timeout_s:g} s") from None

    def none_came(self) -> bool:
        """True while the client has sent nothing more. Raises RpcError INVALID_ARGUMENT where it has."""
        with suppress(queue.Empty):
            if self._read.get_nowait() is not None:
                raise invalid("a STREAM subscription takes one SubscriptionList and no further message")
        return True


def check_awaited(context: grpc.ServicerContext) -> None:
    """Raises RpcError where the caller waits no longer: what it asked for must not be done behind its back."""
    remaining_s = context.time_remaining()
    if remaining_s is not None and remaining_s <= 0:
        raise RpcError(
            DEADLINE_EXCEEDED, "the deadline passed before the request was carried out; it will not be later"
        )
    if not context.is_active():
        raise RpcError(CANCELLED, "the caller went away before the request was carried out; it will not be later")


def check_count(things: Any, most: int, what: str) -> None:
    """Raises RpcError INVALID_ARGUMENT where a request names more than `most` of something."""
    if len(things) > most:
        raise invalid(f"{len(things)} {what} in one request, expected at most {most}")
