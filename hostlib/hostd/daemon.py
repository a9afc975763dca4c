"""The two threads of hostd: one reads flow records as they come, one talks to the orchestrator and then sleeps."""

import contextlib
import logging
import math
import random
import select
import selectors
import signal
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from qclimb.errors import QclimbError
from qclimb.loops import service_thread

from hostlib.hostd.applied import Applied
from hostlib.hostd.collected import CAPACITY, Collected, Shipment
from hostlib.hostd.errors import FleetError, HostdError
from hostlib.hostd.inbox import TURN, Inbox
from hostlib.hostd.kernel import KernelMode
from hostlib.hostd.lengths import Lengths
from hostlib.hostd.orchestrator import Away, Orchestrator, Refused, Wanted
from hostlib.hostd.place import Place
from hostlib.hostd.reported import HeldRows
from hostlib.hostd.state import State
from hostlib.hostd.stretch import Fabric, Network, measure_stretch
from hostlib.hostd.tagger import Tagger

log = logging.getLogger("qclimb-hostd")

#: Longest pause between two tries while the orchestrator is away.
BACKOFF_MAX_S = 10.0
#: The policy is asked for this often, even where deliveries' answers say that it is the one on disk.
ASK_S = 30.0
#: A longer Retry-After is not believed.
RETRY_AFTER_MAX_S = 60.0
#: Records may wait on their socket, so that many datagrams cost one wake-up, and an application none: at most so long;
#: the first time after a silence; and until some are there. One application has room for 49 datagrams of 16 records
#: (its socket's send buffer, 208 KiB) and drops what comes after. Not where the queue is short.
GATHER_S = 0.1
GATHER_FIRST_S = 0.01
GATHER_LEAST_S = 0.001
GATHER_DATAGRAMS = 24
QUEUE_AMPLE = 256
#: The kernel mode's records wait in a buffer of 4 MiB, 15,000 of them. A look costs 0.3 ms, whatever is found: the
#: processor's caches are others' by then.
KERNEL_GATHER_S = 0.2
#: From one exchange of learned lengths to the next.
SHARE_S = 10.0
#: How long the end of the process may wait for the last delivery.
FAREWELL_S = 2.0
#: A shipment refused with one of these will be taken later; with any other 4xx it never will.
TRY_AGAIN = (401, 403, 404, 408, 425, 429)
#: So is one of too many records, with fewer of them and the sizes of all.
TOO_MUCH = 413


class Daemon:
    """One host's hostd, from `run` to SIGTERM."""

    def __init__(
        self,
        place: Place,
        orchestrator: Orchestrator,
        state: State,
        tagger: Tagger,
        kernel: KernelMode,
        networks: Sequence[Network] = (),
    ) -> None:
        """`networks`: of the fabric's hosts; none: any address may be one's."""
        self._place = place
        self._orchestrator = orchestrator
        self._state = state
        self._tagger = tagger
        self._kernel = kernel
        self._networks = networks
        self._collected = Collected()
        self._collected_lock = threading.Lock()
        self._undelivered: Shipment | None = None
        self._retry_after_s = 0.0
        self._wanted = Wanted()
        self._asked_at = self._looked_at = -ASK_S
        self._stop = threading.Event()
        self._applied = Applied(place)
        self._lengths = Lengths(place)
        self._share_at_s = 0.0
        self._inbox = Inbox(place.records, beside_kernel=kernel.is_wanted)
        self._held = HeldRows()
        self._kernel_unread = ""
        state.records_queue_datagrams = self._inbox.queue_datagrams
        for problem in filter(None, (self._applied.problem, self._lengths.problem)):
            state.fails(problem)
            log.warning("start problem=%r", problem)

    def run(self) -> None:
        """Serves until SIGTERM or SIGINT; leaves every file where it is."""
        self._kernel_reader = service_thread("kernel", self._listen_to_kernel)
        talker = service_thread("orchestrator", self._talk)
        with contextlib.ExitStack() as stack:
            selector = stack.enter_context(selectors.DefaultSelector())
            woken = stack.enter_context(_signals())
            selector.register(woken, selectors.EVENT_READ)
            selector.register(self._inbox, selectors.EVENT_READ)
            log.info(
                "ready name=%s run_dir=%s policy_generation=%d",
                self._state.name,
                self._place.directory,
                self._applied.generation,
            )
            talker.start()
            if self._kernel.is_wanted:
                self._kernel_reader.start()
            while not any(key.fileobj is woken for key, _ in selector.select()):
                self._read()
                if self._inbox.queue_datagrams >= QUEUE_AMPLE and self._gather(woken):
                    break
        self._read()
        self._stop.set()
        talker.join(FAREWELL_S)
        self._inbox.close()
        log.info("stopped name=%s shipped=%d waiting=%d", self._state.name, self._state.shipped, self._state.waiting)

    def _gather(self, woken: socket.socket) -> bool:
        """Reads now and then, and wakes up for no datagram, until none comes any more; True: told to end."""
        pause_s = GATHER_FIRST_S
        while True:
            if select.select([woken], [], [], pause_s)[0]:
                return True
            found = self._read()
            if not found:
                return False
            pause_s = gather_s(pause_s, found)

    def _read(self) -> int:
        """Empties the socket, in turns, so that the other thread gets at what was collected; how many datagrams."""
        count, more = 0, True
        while more and not self._stop.is_set():
            with self._collected_lock:
                found = self._inbox.read(self._collected, self._lengths.learner)
            count, more = count + found, found == TURN
        return count

    def _listen_to_kernel(self) -> None:
        """Reads what the kernel mode tells of; several flows at a time, as with datagrams."""
        while not self._stop.wait(KERNEL_GATHER_S):
            self._read_kernel()
            if self._kernel_unread:
                self._stop.wait(BACKOFF_MAX_S)
        self._read_kernel(at_end=True)

    def _read_kernel(self, *, at_end: bool = False) -> None:
        """Counts flows of which no library told meanwhile."""
        before, self._kernel_unread = self._kernel_unread, ""
        now = time.monotonic()
        try:
            self._held.add(*self._kernel.read(), now)
            rows, flows = self._held.take(math.inf if at_end else now)
            with self._collected_lock:
                reported = self._inbox.reported
                if len(rows) and reported is not None:
                    is_ours = ~reported.covers(rows)
                    rows, flows = rows[is_ours], flows[is_ours]
                    self._collected.add(rows, flows=flows)
                    self._lengths.learner.count(rows, now)
                    self._inbox.known.add(rows, flows)
        except Exception as error:
            self._kernel_unread = f"its records can't be read: {error or type(error).__name__}"
            if self._kernel_unread != before:
                log.warning("kernel records=%r", str(error), exc_info=not isinstance(error, QclimbError))

    def _talk(self) -> None:
        delay = 0.0
        while not self._stop.wait(delay):
            delay = self._poll_once()
        if self._kernel_reader.is_alive():
            self._kernel_reader.join(FAREWELL_S)
        if not self._state.failures_in_a_row:
            self._poll_once()
        self._write_lengths(at_end=True)

    def _poll_once(self) -> float:
        """One exchange; returns the seconds to the next."""
        state = self._state
        before, tagger_before = state.error, self._tagger.problem
        try:
            self._follow()
            problem = self._exchange()
            self._follow()
        except Exception as error:  # a defect of ours must not end the host's records: it stands in the status instead
            log.exception("defect")
            problem = f"{type(error).__name__}: {error}"
        if self._tagger.problem != tagger_before:
            log.warning("tagger status=%r", self._tagger.status)
        if problem:
            state.failures_in_a_row += 1
            state.fails(problem)
        else:
            state.failures_in_a_row, state.error = 0, ""
        if state.error != before:
            log.warning("error reason=%r", state.error) if state.error else log.info("recovered was=%r", before)
        self._write_state()
        return pause_s(state.poll_interval_s, state.failures_in_a_row, self._retry_after_s)

    def _follow(self) -> None:
        """Brings the kernel to where the policy wants it."""
        before = self._kernel.problem
        self._tagger.follow(self._applied.policy)
        self._kernel.follow(self._applied.policy)
        if self._kernel.problem != before:
            log.warning("kernel status=%r", self._kernel.status)

    def _exchange(self) -> str:
        """Policy first, so that the heartbeat already names what it changed; returns what went wrong, or nothing.

        Where the last answer named the policy that is on disk, it is not asked for. Where a delivery's answer names
        another one, that is fetched and told of at once.
        """
        problem, self._retry_after_s = "", 0.0
        for is_again in (False, True):
            try:
                if is_again or self._must_ask():
                    self._follow_policy()
            except Away as error:
                return str(error)
            except QclimbError as error:
                problem = str(error)
            try:
                self._deliver()
                self._state.last_contact_at = time.time()
                self._share_lengths()
            except FleetError as error:
                return problem or str(error)
            if problem or not self._applied.differs_from(self._wanted.policy_etag):
                break
        return problem

    def _must_ask(self) -> bool:
        """Whether the policy may be another one than is on disk, or the files may have been touched."""
        told = self._wanted.policy_etag
        is_known = told is not None and not self._applied.differs_from(told) and self._applied.is_intact()
        return not is_known or time.monotonic() - self._asked_at >= ASK_S

    def _follow_policy(self) -> None:
        self._asked_at = time.monotonic()
        if self._applied.follow(self._orchestrator):
            log.info(
                "policy generation=%d mode=%s model=%d",
                self._applied.generation,
                self._applied.mode,
                self._applied.model_generation,
            )

    def _share_lengths(self) -> None:
        """Tells what was learned since the last time, and hears what others did; an orchestrator may know neither."""
        if time.monotonic() < self._share_at_s:
            return
        self._share_at_s = time.monotonic() + SHARE_S * random.uniform(0.9, 1.1)
        learner = self._lengths.learner
        with self._collected_lock:
            untold = learner.take_untold()
        given = self._orchestrator.share_lengths(untold)
        if given is not None:
            with self._collected_lock:
                learner.follow(given)

    def _write_lengths(self, *, at_end: bool = False) -> None:
        learner = self._lengths.learner
        now_s = time.monotonic()
        with self._collected_lock:
            learner.tick(now_s)
            known, changes = learner.known, learner.changes
        self._state.lengths = tuple(each.to_json() for _, each in sorted(known.items()))
        try:
            self._lengths.follow(known, changes, now_s, at_end=at_end)
        except HostdError as error:
            log.warning("lengths reason=%r", str(error))

    def _deliver(self) -> None:
        """What is left of a delivery that failed goes out first, as it was and under its key; then what came since."""
        again = self._undelivered is not None
        self._deliver_one()
        if again:
            self._deliver_one()

    def _deliver_one(self) -> None:
        if self._undelivered is None:
            with self._collected_lock:
                self._undelivered = self._collected.take()
        shipment = self._undelivered
        rows = shipment.rows
        told = {
            "histogram": shipment.histogram.to_json(),
            "dropped": shipment.dropped,
            "unobserved": shipment.unobserved,
            "policy_generation": self._applied.generation,
            "label": None,
            **self._stretch(),
        }
        self._wanted = Wanted()
        try:
            self._wanted = self._orchestrator.deliver(told, rows, None if shipment.empty else shipment.key)
        except Refused as error:
            self._retry_after_s = error.retry_after_s
            if error.status == TOO_MUCH:
                with self._collected_lock:
                    again = self._collected.with_few(shipment)  # under the same key: it may have been taken before
            else:
                again = error.status in TRY_AGAIN
            if 400 <= error.status < 500 and not again:
                self._undelivered = None
                self._state.refused += shipment.offered
            raise
        self._undelivered = None
        with self._collected_lock:
            self._collected.limit = self._wanted.records or CAPACITY
        self._state.shipped += len(rows)
        self._state.left_out += shipment.left_out
        self._state.unobserved += shipment.unobserved

    def _stretch(self) -> dict[str, object]:
        """What TCP's connections measure now, where the orchestrator takes it, and as often as it wants it."""
        now, policy = time.monotonic(), self._applied.policy
        if not self._wanted.stretch_s or now - self._looked_at < self._wanted.stretch_s:
            return {}
        self._looked_at = now
        fabric = Fabric(self._networks, self._orchestrator.peer)
        try:
            found = measure_stretch(policy, fabric, self._place.directory / "bpf")
        except OSError as error:
            log.debug("stretch reason=%r", str(error))
            return {}
        return {} if found is None else {"stretch": found.to_json()}

    def _write_state(self) -> None:
        self._write_lengths()
        state, inbox, applied = self._state, self._inbox, self._applied
        state.policy_generation = applied.generation
        state.mode, state.model_generation = applied.mode, applied.model_generation
        state.bounds_off = applied.bounds_off
        state.policy_written_at = applied.written_at
        state.datagrams, state.records, state.dropped_by_shims = inbox.datagrams, inbox.records, inbox.dropped_by_shims
        state.known = asdict(inbox.known)
        state.malformed, state.last_malformed = inbox.malformed, inbox.last_malformed
        state.tagger = self._tagger.status
        state.kernel = "; ".join(filter(None, (self._kernel.status, self._kernel_unread)))
        state.kernel_cgroups, state.kernel_unmarked = self._kernel.cgroups, self._kernel.unmarked
        state.shim_policy_generation = inbox.shim_policy_generation
        with self._collected_lock:
            state.waiting = self._collected.waiting.offered
        if self._undelivered is not None:
            state.waiting += self._undelivered.offered
        try:
            state.write(self._place.status)
        except HostdError as error:
            log.warning("status reason=%r", str(error))


def gather_s(paused_s: float, datagrams: int) -> float:
    """How long to leave the socket alone, by how many datagrams came in the last pause: until enough should be there.

    Doubled at most, since a burst may follow; cut at once.
    """
    wanted = paused_s * min(2.0, GATHER_DATAGRAMS / datagrams)
    return min(GATHER_S, max(GATHER_LEAST_S, wanted))


def pause_s(interval_s: float, failures: int, retry_after_s: float = 0.0) -> float:
    """The time to the next poll: the interval, doubled with each failure up to 10 s; or what was asked for.

    Lest all hosts of a fabric come at once: the interval is up to a tenth more or less, so that hosts that began in one
    moment drift apart; after a failure a random part of up to half is taken off (of what was asked for: added).
    """
    if not failures:
        return interval_s * random.uniform(0.9, 1.1)
    longest = max(interval_s, min(BACKOFF_MAX_S, interval_s * (1 << min(failures, 16))))
    asked_s = min(retry_after_s, RETRY_AFTER_MAX_S)
    return max(longest * random.uniform(0.5, 1.0), asked_s * random.uniform(1.0, 1.5))


@contextlib.contextmanager
def _signals() -> Iterator[socket.socket]:
    """A socket that becomes readable at SIGTERM or SIGINT."""
    reader, writer = socket.socketpair()
    writer.setblocking(False)
    before = signal.set_wakeup_fd(writer.fileno())
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    try:
        yield reader
    finally:
        signal.set_wakeup_fd(before)
        writer.close()
        reader.close()
