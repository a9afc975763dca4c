"""The two threads of hostd: one reads flow records as they come, one talks to the orchestrator and then sleeps."""

import contextlib
import logging
import random
import select
import selectors
import signal
import socket
import threading
import time
from collections.abc import Iterator

from qclimb.errors import QclimbError

from hostlib.hostd.applied import Applied
from hostlib.hostd.collected import Collected, Shipment
from hostlib.hostd.errors import FleetError, HostdError
from hostlib.hostd.inbox import TURN, Inbox
from hostlib.hostd.orchestrator import Away, Orchestrator, Refused
from hostlib.hostd.place import Place
from hostlib.hostd.state import State
from hostlib.hostd.tagger import Tagger

log = logging.getLogger("qclimb-hostd")

#: Longest pause between two tries while the orchestrator is away.
BACKOFF_MAX_S = 10.0
#: Records may wait this long on their socket, so that many datagrams cost one wake-up; not where the queue is short.
GATHER_S = 0.05
QUEUE_AMPLE = 256
#: How long the end of the process may wait for the last delivery.
FAREWELL_S = 2.0
#: A shipment refused with one of these will be taken later; with any other 4xx it never will.
TRY_AGAIN = (401, 403, 404, 408, 425, 429)


class Daemon:
    """One host's hostd, from `run` to SIGTERM."""

    def __init__(self, place: Place, orchestrator: Orchestrator, state: State, tagger: Tagger) -> None:
        self._place = place
        self._orchestrator = orchestrator
        self._state = state
        self._tagger = tagger
        self._collected = Collected()
        self._collected_lock = threading.Lock()
        self._undelivered: Shipment | None = None
        self._stop = threading.Event()
        self._applied = Applied(place)
        self._inbox = Inbox(place.records)
        state.records_queue_datagrams = self._inbox.queue_datagrams
        if self._applied.problem:
            state.fails(self._applied.problem)
            log.warning("start problem=%r", self._applied.problem)

    def run(self) -> None:
        """Serves until SIGTERM or SIGINT; leaves every file where it is."""
        talker = threading.Thread(target=self._talk, name="orchestrator", daemon=True)
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
            while not any(key.fileobj is woken for key, _ in selector.select()):
                self._read()
                if self._inbox.queue_datagrams >= QUEUE_AMPLE and select.select([woken], [], [], GATHER_S)[0]:
                    break
        self._read()
        self._stop.set()
        talker.join(FAREWELL_S)
        self._inbox.close()
        log.info("stopped name=%s shipped=%d waiting=%d", self._state.name, self._state.shipped, self._state.waiting)

    def _read(self) -> None:
        """Empties the socket, in turns, so that the other thread gets at what was collected."""
        more = True
        while more and not self._stop.is_set():
            with self._collected_lock:
                more = self._inbox.read(into=self._collected) == TURN

    def _talk(self) -> None:
        delay = 0.0
        while not self._stop.wait(delay):
            delay = self._poll_once()
        if not self._state.failures_in_a_row:
            self._poll_once()

    def _poll_once(self) -> float:
        """One exchange; returns the seconds to the next."""
        state = self._state
        before, tagger_before = state.error, self._tagger.problem
        self._tagger.follow(self._applied.policy)
        try:
            problem = self._exchange()
        except Exception as error:  # a defect of ours must not end the host's records: it stands in the status instead
            log.exception("defect")
            problem = f"{type(error).__name__}: {error}"
        self._tagger.follow(self._applied.policy)
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
        return pause_s(state.poll_interval_s, state.failures_in_a_row)

    def _exchange(self) -> str:
        """Policy first, so that the heartbeat already names what it changed; returns what went wrong, or nothing."""
        problem = ""
        try:
            if self._applied.follow(self._orchestrator):
                log.info(
                    "policy generation=%d mode=%s model=%d",
                    self._applied.generation,
                    self._applied.mode,
                    self._applied.model_generation,
                )
        except Away as error:
            return str(error)
        except QclimbError as error:
            problem = str(error)
        try:
            self._deliver()
            self._state.last_contact_at = time.time()
        except FleetError as error:
            problem = problem or str(error)
        return problem

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
        body = {
            "histogram": shipment.histogram.to_json(),
            "records": [record.to_json() for record in shipment.records],
            "dropped": shipment.dropped,
            "unobserved": shipment.unobserved,
            "policy_generation": self._applied.generation,
            "label": None,
        }
        try:
            self._orchestrator.deliver(body, None if shipment.empty else shipment.key)
        except Refused as error:
            if 400 <= error.status < 500 and error.status not in TRY_AGAIN:
                self._undelivered = None
                self._state.refused += shipment.offered
            raise
        self._undelivered = None
        self._state.shipped += len(shipment.records)
        self._state.left_out += shipment.left_out
        self._state.unobserved += shipment.unobserved

    def _write_state(self) -> None:
        state, inbox, applied = self._state, self._inbox, self._applied
        state.policy_generation = applied.generation
        state.mode, state.model_generation = applied.mode, applied.model_generation
        state.bounds_off = applied.bounds_off
        state.policy_written_at = applied.written_at
        state.datagrams, state.records, state.dropped_by_shims = inbox.datagrams, inbox.records, inbox.dropped_by_shims
        state.malformed, state.last_malformed = inbox.malformed, inbox.last_malformed
        state.tagger = self._tagger.status
        state.shim_policy_generation = inbox.shim_policy_generation
        with self._collected_lock:
            state.waiting = self._collected.waiting.offered
        if self._undelivered is not None:
            state.waiting += self._undelivered.offered
        try:
            state.write(self._place.status)
        except HostdError as error:
            log.warning("status reason=%r", str(error))


def pause_s(interval_s: float, failures: int) -> float:
    """The time to the next poll: the interval, doubled with each failure up to 10 s.

    A random part of up to half is taken off then, lest all hosts of a fabric come back at once.
    """
    if not failures:
        return interval_s
    longest = max(interval_s, min(BACKOFF_MAX_S, interval_s * (1 << min(failures, 16))))
    return longest * random.uniform(0.5, 1.0)


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
