"""Open subscriptions: a coroutine each, that waits for a newer snapshot, its time, its client, or its end.

A client that reads slowly waits in its own coroutine, and is told the newest values when it goes on; nothing is kept
for it but the message that it does not take. What streams tell, `subscribe` and `stream` say.
"""

import asyncio
import logging
import time
from contextlib import suppress
from functools import partial
from math import ceil, inf
from typing import Any, TypeAlias

import grpc
from pygnmi.spec.v080 import gnmi_pb2 as pb

from switchd.board import Snapshot
from switchd.db import DatabaseLost
from switchd.gnmi import subscribe
from switchd.gnmi.access import Client, known
from switchd.gnmi.errors import DEADLINE_EXCEEDED, RpcError, invalid
from switchd.gnmi.limits import Limits, Places
from switchd.gnmi.loop import Loop
from switchd.gnmi.model import counts
from switchd.gnmi.moment import ROUND_S, Moment, Round
from switchd.gnmi.service import Service, check_poll

log = logging.getLogger("switchd.gnmi")

KNOWN_FOR_S = 2.0
"""how long streams go on before their clients' rows are read again"""
END_GRACE_S = 3.0
"""for what is on its way to a client whose stream is to end; who reads nothing is cut off then"""
Wire: TypeAlias = grpc.aio.ServicerContext


class Moments:
    """The data that streams tell of, read once for all who ask at the same time."""

    def __init__(self, service: Service, loop: Loop) -> None:
        self._service, self._loop = service, loop
        self._reading: dict[bool, asyncio.Task[Moment]] = {}
        self._next: dict[bool, asyncio.Task[Moment]] = {}
        self._last: Moment | None = None

    async def at(self, snapshot: Snapshot) -> Moment:
        """Without counters."""
        if self._last is None or self._last.snapshot.version < snapshot.version:
            found = await self._read(False)
            if self._last is None or self._last.snapshot.version < found.snapshot.version:
                self._last = found
        return self._last

    async def counted(self) -> Moment:
        """Now, with counters. Raises DatabaseLost."""
        return await self._read(True)

    async def _read(self, counted: bool) -> Moment:
        """A reading that begins after this call: one runs, and whoever comes meanwhile shares the next."""
        if counted not in self._next:
            self._next[counted] = asyncio.create_task(self._after(counted, self._reading.get(counted)))
            self._next[counted].add_done_callback(_looked_at)
        return await asyncio.shield(self._next[counted])

    async def _after(self, counted: bool, before: asyncio.Task[Moment] | None) -> Moment:
        if before is not None:
            await asyncio.wait([before])
        self._reading[counted] = self._next.pop(counted)
        where = self._loop.read if counted else self._loop.look
        return await where(lambda: self._service.moment(counted))


class Open:
    """One open subscription, made in its own task.

    name  its client's, None over plain loopback
    why   it is to end, with this error
    """

    def __init__(self, name: str | None, wire: Wire) -> None:
        self.name, self._wire = name, wire
        self.woken = asyncio.Event()
        self.why: Exception | None = None
        self._next: asyncio.Task[Any] | None = None
        self._task = asyncio.current_task()
        self._cut: asyncio.TimerHandle | None = None

    def end(self, why: Exception) -> None:
        """End it, as soon as its client has taken what is on its way, or after a grace."""
        self.why = self.why or why
        self.woken.set()
        if self._cut is None and self._task is not None:
            self._cut = asyncio.get_running_loop().call_later(END_GRACE_S, self._task.cancel)

    def ended(self) -> None:
        """It has ended: nobody needs to cut it off."""
        if self._cut is not None:
            self._cut.cancel()

    def listen(self) -> None:
        """Begin to wait for the client's next message."""
        self._next = asyncio.create_task(self._wire.read())
        self._next.add_done_callback(self._heard)

    def _heard(self, read: asyncio.Task[Any]) -> None:
        _looked_at(read)
        self.woken.set()

    @property
    def message(self) -> Any:
        """What has come: bytes, EOF where the client sends no more, None where nothing has."""
        if self._next is None or not self._next.done():
            return None
        return grpc.aio.EOF if self._next.cancelled() or self._next.exception() else self._next.result()

    async def next(self, timeout_s: float, what: str) -> bytes | None:
        """The next message, None where the client sends no more. Raises RpcError DEADLINE_EXCEEDED, or `why`."""
        self.listen()
        end_s = time.monotonic() + timeout_s
        while (message := self.message) is None:
            if time.monotonic() >= end_s:
                raise RpcError(DEADLINE_EXCEEDED, f"no {what} came within {timeout_s:g} s")
            await self.wait(end_s)
        return None if message is grpc.aio.EOF else message

    def check_quiet(self, mode: str) -> None:
        """Raises RpcError where the client has sent more than its SubscriptionList (gNMI specification 3.5.1.1)."""
        if self.message not in (None, grpc.aio.EOF):
            raise invalid(f"a {mode} subscription takes one SubscriptionList and no further message")

    async def wait(self, until_s: float) -> None:
        """Until it is woken or the time is over. Raises `why`."""
        with suppress(TimeoutError):
            async with asyncio.timeout(None if until_s == inf else max(until_s - time.monotonic(), 0)):
                await self.woken.wait()
        self.woken.clear()
        if self.why is not None:
            raise self.why


class Streams:
    """All of a daemon's subscriptions. Lives on the loop."""

    def __init__(self, service: Service, loop: Loop, limits: Limits, places: Places) -> None:
        self._service, self._loop, self._limits = service, loop, limits
        self._moments, self._round = Moments(service, loop), Round()
        self._places = places
        self._open: set[Open] = set()
        self._watching: asyncio.Task[None] | None = None
        service.switch.board.listen(lambda: loop.tell(self._wake))

    def _wake(self) -> None:
        for one in self._open:
            one.woken.set()

    async def serve(self, client: Client, one: Open, wire: Wire) -> None:
        """ONCE, POLL, STREAM: from the first message to the end."""
        with self._places.place(client):
            self._open.add(one)
            if self._watching is None and one.name is not None:
                self._watching = asyncio.create_task(self._watch())
            try:
                await self._serve(one, wire)
            finally:
                self._open.discard(one)
                one.ended()

    async def _serve(self, one: Open, wire: Wire) -> None:
        first = await one.next(self._limits.first_message_s, "SubscriptionList")
        if first is None:
            return
        wanted = await self._loop.look(lambda: self._service.subscription(first))
        if wanted.mode == pb.SubscriptionList.STREAM:
            await self._stream(one, wire, subscribe.Telling(self._service.model, wanted, self._round))
            return
        counted = any(counts(place) for place in wanted.places)
        if wanted.mode == pb.SubscriptionList.ONCE:
            one.listen()
            await self._tell_all(wanted, counted, wire)
            one.check_quiet("ONCE")
            return
        await self._tell_all(wanted, counted, wire)
        while wanted.mode == pb.SubscriptionList.POLL:
            message = await one.next(self._limits.poll_idle_s, "Poll")
            if message is None:
                return
            check_poll(message)
            await self._tell_all(wanted, counted, wire)

    async def _tell_all(self, wanted: subscribe.Subscription, counted: bool, wire: Wire) -> None:
        moment = await self._moment(counted)
        for message in await self._loop.read(lambda: subscribe.initial(self._service.model, wanted, moment)):
            await wire.write(message)

    async def _stream(self, one: Open, wire: Wire, telling: subscribe.Telling) -> None:
        one.listen()
        moment = await self._moment(telling.needs_counters)
        messages = telling.begin(moment, time.monotonic())
        while True:
            del moment  # not kept while the client takes its time
            for message in messages:
                await wire.write(message)
            await one.wait(0 if self._service.switch.snapshot.version != telling.version else in_round(telling.due_s()))
            one.check_quiet("STREAM")
            moment = await self._moments.at(self._service.switch.snapshot)
            due = telling.due(moment.snapshot.version, time.monotonic())
            moments = {False: moment}
            if any(each.needs_counters for each in due):
                with suppress(DatabaseLost):  # what needs none goes on
                    moments[True] = await self._moments.counted()
            telling.version = moment.snapshot.version
            messages = telling.tell(due, moments, time.monotonic())

    async def _moment(self, counted: bool) -> Moment:
        return await (self._moments.counted() if counted else self._moments.at(self._service.switch.snapshot))

    async def _watch(self) -> None:
        """End the streams of clients that may no longer read; nobody is sent away because redis is."""
        while names := {one.name for one in self._open if one.name is not None}:
            await asyncio.sleep(KNOWN_FOR_S)
            refused = await self._loop.look(partial(self._refused, names))
            for one in self._open:
                if one.name is not None and one.name in refused:
                    one.end(refused[one.name])
        self._watching = None

    def _refused(self, names: set[str]) -> dict[str, RpcError]:
        refused = {}
        for name in names:
            try:
                known(name, self._service.switch.host)
            except RpcError as error:
                refused[name] = error
            except DatabaseLost as error:
                log.debug("watch error=%r", error)
                break
            except Exception as error:  # whatever one row has, the others are looked at
                log.debug("watch client=%s error=%r", name, error)
        return refused


def in_round(due_s: float) -> float:
    """When what is due then is looked at: together with others."""
    return due_s if due_s == inf else ceil(due_s / ROUND_S) * ROUND_S


def _looked_at(task: asyncio.Task[Any]) -> None:
    """Nobody may wait for it any more."""
    if not task.cancelled():
        task.exception()
