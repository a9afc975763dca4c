"""Hosts' deliveries, many to a transaction: what is acknowledged is in the database, and a commit serves all who wait.

A host's delivery has its flows, a sign of life with the policy generation that it follows, and mostly an
Idempotency-Key. Of the keys of a host the last is remembered: a host has one delivery under way at a time, and a key a
delivery would be some 86,000 rows a day and host. Other flows under the same key are refused; the policy generation may
be another, and the form (JSON, or rows as they lie).
"""

import asyncio
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from qclimb.histogram import SizeHistogram
from qclimb.record_rows import Rows
from qclimb.stretch import Stretch

from ..defaults import LINK_GBPS
from ..errors import BusyError, ReusedKeyError, StoreError, TooManyError
from ..metrics import Metrics
from ..store.store import Store, Taken
from .credible import Allowance, believed
from .quota import RECORDS_MOST, RECORDS_PER_S, RECORDS_UNTOLD, Quota
from .recordings import Arrived, Recordings

log = logging.getLogger(__name__)

Json = dict[str, Any]

GROUP_S = 0.1
"""From one transaction's begin to the next one's, at least: 500 hosts' deliveries then are 10 of them a second. A
delivery that comes alone is not held up."""

IN_HAND_BYTES = 64 << 20
"""Of deliveries' content that is being read or waits to be kept; a full one of 4,096 records has 0.85 MB."""
AT_ONCE = 2
"""Deliveries of one host, or such that it has given up."""
RETRY_AFTER_S = 2
"""Hosts add a part at random, and double their own pause with each refusal."""


@dataclass(frozen=True)
class Delivery:
    """What a host saw since its last one.

    sizes       of all its flows, also of those that have no row
    dropped     flows without a row, as the host counted them
    unobserved  rows of flows that are in no histogram, since a part of them bypassed the library
    generation  of the policy that the host follows
    asked       a digest of what is delivered under the key (rest.idempotency.fingerprint)
    stretch     what its connections measure now; not always told
    """

    host: str
    label: str
    rows: Rows
    sizes: SizeHistogram
    dropped: int = 0
    unobserved: int = 0
    generation: int = 0
    key: str | None = None
    asked: str = ""
    stretch: Stretch | None = None


class Intake:
    """Takes deliveries on the event loop and keeps them in a thread, one transaction after another."""

    def __init__(
        self,
        store: Store,
        recordings: Recordings,
        metrics: Metrics,
        host_reported: Callable[[str, int], None],
        records_per_s: int = RECORDS_PER_S,
        link_gbps: float = LINK_GBPS,
        host_felt: Callable[[str, Stretch], None] = lambda host, stretch: None,
    ) -> None:
        """`host_reported`: told of each host and generation once its flows are kept; those were bounded before.
        `host_felt`: told of each host's stretch, where it tells of it.

        `link_gbps`: Gb/s of a host's link.
        """
        self._records_per_s = records_per_s
        self._quota: Quota | None = None
        self._store, self._recordings, self._metrics = store, recordings, metrics
        self._host_reported, self._host_felt = host_reported, host_felt
        self._keeping = threading.RLock()
        self._waiting: list[tuple[Delivery, asyncio.Future[Json]]] = []
        self._task: asyncio.Task[None] | None = None
        self._last: dict[str, Taken] = {}
        self._in_hand_bytes = 0
        self._in_hand: Counter[str] = Counter()
        self._link_bytes_per_s = link_gbps * 1e9 / 8
        self._allowances: dict[str, Allowance] = {}
        self._wanted: dict[str, tuple[int, int]] = {}
        self.not_believed: Counter[str] = Counter()
        self.unobserved: Counter[str] = Counter()

    def check_records(self, host: str, records: int) -> None:
        """That a host sends no more than its answers said: the last, or the one before, which a lost one left it with.

        A host that was restarted knows none. Raises TooManyError.
        """
        most = max(RECORDS_UNTOLD, *self._wanted.get(host, (RECORDS_MOST,)))
        if records > most:
            raise TooManyError(f"records: {records} in one delivery, expected at most {most}, by next_records")

    @contextmanager
    def room_for(self, host: str, content_bytes: int) -> Iterator[None]:
        """Holds room for a delivery's content, to be asked for before it is read; raises BusyError.

        Who is refused has everything still, and comes again: memory is bounded, whoever was away for how long. A host
        has one under way; one that gave up waiting may come again meanwhile.
        """
        if self._in_hand[host] >= AT_ONCE:
            raise BusyError(f"deliveries: {AT_ONCE} of {host} are under way, deliver one at a time", RETRY_AFTER_S)
        if self._in_hand_bytes and self._in_hand_bytes + content_bytes > IN_HAND_BYTES:
            raise BusyError(f"deliveries: {self._in_hand_bytes >> 20} MiB of them wait, deliver again", RETRY_AFTER_S)
        self._in_hand_bytes += content_bytes
        self._in_hand[host] += 1
        try:
            yield
        finally:
            self._in_hand_bytes -= content_bytes
            self._in_hand[host] -= 1
            if not self._in_hand[host]:
                del self._in_hand[host]

    async def take(self, delivery: Delivery) -> Json:
        """The answer, once it is kept; of a delivery that was taken before under its key, the same answer."""
        loop = asyncio.get_running_loop()
        kept: asyncio.Future[Json] = loop.create_future()
        self._waiting.append((delivery, kept))
        if self._task is None or self._task.done():
            self._task = loop.create_task(self._keep_all())
        return await kept

    async def _keep_all(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            group, self._waiting = self._waiting, []
            begun = loop.time()
            answers = await asyncio.to_thread(self.keep, [delivery for delivery, _ in group])
            for (_, kept), answer in zip(group, answers, strict=True):
                if kept.done():  # its client went away
                    continue
                if isinstance(answer, Exception):
                    kept.set_exception(answer)
                else:
                    kept.set_result(answer)
            await asyncio.sleep(max(0.0, begun + GROUP_S - loop.time()))

    def keep(self, group: Sequence[Delivery]) -> list[Json | Exception]:
        """Keeps deliveries in one transaction, else each in one of its own; each one's answer, or error."""
        with self._keeping:
            return self._keep_or_say(group)

    def keep_with(self, group: Sequence[Delivery], also: Callable[[], None]) -> list[Json | Exception]:
        """Keeps deliveries, and what `also` writes, in one transaction: all of it or nothing. Raises what that raises.

        Each one's answer, or why it is none (ReusedKeyError).
        """
        with self._keeping:
            try:
                answers = self._keep(group, also)
            except Exception:
                self._forget()
                raise
            self._tell(group)
        return answers

    def _forget(self) -> None:
        """Reads anew what is in memory when it is needed next: after a transaction that failed."""
        self._recordings.forget()
        self._last.clear()

    def _keep_or_say(self, group: Sequence[Delivery]) -> list[Json | Exception]:
        try:
            answers = self._keep(group)
        except Exception as error:
            self._forget()
            if len(group) > 1 and not isinstance(error, StoreError):  # a full disk is everybody's
                return [answer for delivery in group for answer in self.keep([delivery])]
            log.error("deliveries count=%d host=%s event=failed reason=%r", len(group), group[0].host, error)
            return [error] * len(group)
        self._tell(group)
        return answers

    def _tell(self, group: Sequence[Delivery]) -> None:
        for delivery in group:
            try:
                self._host_reported(delivery.host, delivery.generation)
                if delivery.stretch is not None:
                    self._host_felt(delivery.host, delivery.stretch)
            except Exception:  # its flows are kept all the same
                log.exception("host name=%s generation=%d event=not-noted", delivery.host, delivery.generation)

    def _keep(self, group: Sequence[Delivery], also: Callable[[], None] = lambda: None) -> list[Json | Exception]:
        answers: list[Json | Exception] = []
        fresh: list[Delivery] = []
        alive: dict[str, int] = {}
        taken: dict[str, Taken] = {}
        now = time.monotonic()
        allowances: dict[str, Allowance] = {}
        left_out: Counter[str] = Counter()
        told: list[tuple[str, int]] = []
        if self._quota is None:
            self._begin(now)
        assert self._quota is not None
        for delivery in group:
            last = None if delivery.key is None else taken.get(delivery.host) or self._last_of(delivery.host)
            if last is not None and last.key == delivery.key:
                if last.asked not in (delivery.asked, None):
                    answers.append(ReusedKeyError(last.key))
                    continue
                answers.append(last.answer)
            else:
                of_host = allowances.get(delivery.host) or self._allowances.get(delivery.host)
                if of_host is None:
                    of_host = Allowance.at_first(self._link_bytes_per_s, now)
                found = believed(delivery.sizes, delivery.dropped, of_host.after(self._link_bytes_per_s, now))
                allowances[delivery.host] = found.allowance
                left_out[delivery.host] += found.left_out
                delivery = replace(delivery, sizes=found.sizes, dropped=found.dropped)
                self._quota.came([(len(delivery.rows), delivery.dropped)], now)
                wanted = self._quota.next_of(len(delivery.rows), delivery.dropped)
                answer = {"label": delivery.label, "records": len(delivery.rows), "next_records": wanted}
                answers.append(answer)
                told.append((delivery.host, wanted))
                fresh.append(delivery)
                if delivery.key is not None:
                    taken[delivery.host] = Taken(delivery.key, delivery.asked, answer)
            alive[delivery.host] = delivery.generation
        with self._store.writing(cached=False) as connection:
            self._recordings.add_all(
                connection, [Arrived(each.label, each.host, each.rows, each.sizes, each.dropped) for each in fresh]
            )
            self._store.hosts_seen(connection, alive, time.time())
            self._store.keep_deliveries(connection, taken)
            also()
        self._last |= taken
        self._allowances |= allowances
        for host, count in left_out.items():
            if count:
                self._not_believed(host, count)
        for host, wanted in told:  # an answer that is given again tells nothing new
            self._told(host, wanted)
        for each in fresh:
            if each.unobserved:
                self.unobserved[each.host] += each.unobserved
            self._metrics.flows(each.host, len(each.rows), each.dropped, each.unobserved)
        return answers

    def _told(self, host: str, wanted: int) -> None:
        """A host is told how many records its next delivery may hold."""
        self._wanted[host] = (self._wanted.get(host, (RECORDS_MOST,))[-1], wanted)

    def _begin(self, now: float) -> None:
        """What hosts may tell of after a start: of the time for which nobody listened."""
        hosts = self._store.hosts()
        self._quota = Quota(self._records_per_s, len(hosts))
        for host in hosts.values():
            silent_s = self._store.silent_s(host) or 0.0
            self._allowances[host.name] = Allowance.at_first(self._link_bytes_per_s, now, silent_s)

    def _not_believed(self, host: str, count: int) -> None:
        if host not in self.not_believed:
            log.warning("host name=%s event=not-believed flows=%d; further ones are in /metrics", host, count)
        self.not_believed[host] += count
        self._metrics.not_believed(host, count)

    def _last_of(self, host: str) -> Taken | None:
        if host not in self._last:
            found = self._store.delivery(host)
            if found is None:
                return None
            self._last[host] = found
        return self._last[host]
