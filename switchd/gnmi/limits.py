"""What one client may take, so that there is always room for the others, and for whoever may write first of all."""

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from switchd.gnmi.access import Client
from switchd.gnmi.errors import CANCELLED, DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED, RpcError, invalid

MAX_PATHS = 1024
"""of one Get or Subscribe: each may be answered with the whole tree"""
MAX_OPERATIONS = 4096
"""deletes, replaces and updates of one Set"""
MAX_SET_BYTES = 1 << 20
"""of a SetRequest: the largest intent that there can be takes a tenth. gRPC itself takes 4 MiB"""
MAX_ANSWER_BYTES = 16 << 20
"""of one Get; clients refuse more than 4 MiB unless told otherwise"""


@dataclass(frozen=True)
class Limits:
    """Of one daemon, at all its addresses together.

    streams         open subscriptions
    streams_of_one  of one client
    unary           Capabilities, Get and Set under way
    unary_of_one    of one client
    """

    streams: int = 1200
    streams_of_one: int = 1000
    unary: int = 256
    unary_of_one: int = 64
    first_message_s: float = 10.0
    """from the start of a call to its request, or to its SubscriptionList"""
    poll_idle_s: float = 600.0
    """between two Polls"""

    @property
    def of_one(self) -> int:
        """Calls of any kind that one client may have open."""
        return self.streams_of_one + self.unary_of_one


def _room(most: int, client: Client) -> int:
    """How many calls may be open for one more of this client.

    A tenth is kept for clients that may write: the orchestrator gets in whatever readers do.
    """
    return most if client.may_write else most - most // 10


class Places:
    """The open subscriptions and the other calls under way, by client. The gNMI loop alone touches it."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._open: Counter[tuple[bool, str]] = Counter()
        self._unary: Counter[tuple[bool, str]] = Counter()

    @contextmanager
    def place(self, client: Client) -> Iterator[None]:
        """One subscription of this client while it lasts. Raises RpcError RESOURCE_EXHAUSTED where there is no room."""
        own, of_all = self._open[client.key], self._open.total()
        if own >= self._limits.streams_of_one:
            raise RpcError(RESOURCE_EXHAUSTED, f"{client.name} has {own} subscriptions open, the most for one client")
        if of_all >= _room(self._limits.streams, client):
            raise RpcError(RESOURCE_EXHAUSTED, f"{of_all} subscriptions are open already, the most for all clients")
        with _counted(self._open, client):
            yield

    @contextmanager
    def call(self, client: Client) -> Iterator[None]:
        """One call of this client beside subscriptions. Raises RpcError RESOURCE_EXHAUSTED where there is no room."""
        if (own := self._unary[client.key]) >= self._limits.unary_of_one:
            raise RpcError(RESOURCE_EXHAUSTED, f"{client.name} has {own} calls under way, the most for one client")
        if (of_all := self._unary.total()) >= _room(self._limits.unary, client):
            raise RpcError(RESOURCE_EXHAUSTED, f"{of_all} calls are under way already, the most for all clients")
        with _counted(self._unary, client):
            yield


@contextmanager
def _counted(places: Counter[tuple[bool, str]], client: Client) -> Iterator[None]:
    places[client.key] += 1
    try:
        yield
    finally:
        places[client.key] -= 1
        if not places[client.key]:
            del places[client.key]


@dataclass
class Call:
    """Whether somebody still waits for an RPC. The gNMI loop writes it, threads that work for the RPC read it.

    until_s  its deadline on the monotonic clock; None: it has none
    """

    until_s: float | None = None
    is_gone: bool = False

    def check(self) -> None:
        """Raises RpcError where the caller waits no longer: what it asked for must not be done behind its back."""
        if self.until_s is not None and time.monotonic() >= self.until_s:
            raise RpcError(
                DEADLINE_EXCEEDED, "the deadline passed before the request was carried out; it will not be later"
            )
        if self.is_gone:
            raise RpcError(CANCELLED, "the caller went away before the request was carried out; it will not be later")


def check_count(things: Any, most: int, what: str) -> None:
    """Raises RpcError INVALID_ARGUMENT where a request names more than `most` of something."""
    if len(things) > most:
        raise invalid(f"{len(things)} {what} in one request, expected at most {most}")


def check_size(message: bytes) -> None:
    """Raises RpcError RESOURCE_EXHAUSTED where a SetRequest is larger than any intent."""
    if len(message) > MAX_SET_BYTES:
        text = f"the SetRequest has {len(message)} bytes, expected at most {MAX_SET_BYTES}"
        raise RpcError(RESOURCE_EXHAUSTED, text)
