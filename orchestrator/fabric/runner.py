"""Carries rollouts out: takes the steps that rollout.py names, keeps each outcome in the store before the next step.

One rollout at a time, in a thread of its own; switches are spoken to by a few threads at once. While the store can't
keep an outcome (a full disk), no further step is taken: it is tried again until it can.
"""

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from qclimb.loops import service_thread
from qclimb.stretch import Stretch

from ..actors import Actor
from ..defaults import HOSTS_DEADLINE_S, RESTORE_FOR_S, SWITCH_DEADLINE_S
from ..errors import ConflictError
from ..plan.revision import Revision
from ..store import generations
from ..store.off import SwitchedOff
from ..store.store import Store, Switch
from .devices import Devices
from .felt import Felt
from .gates import Gates, Wave
from .ledger import Ledger
from .pushes import Pushes
from .rollout import HELD, OPEN, HostStep, Pace, Phase, Rollout, SwitchStep
from .switches import Fleet

log = logging.getLogger(__name__)

UNSTORED_RETRY_S = 1.0
ONE_WAVE = Pace()


class Runner:
    """The only one that changes switches or puts a policy in force."""

    def __init__(
        self,
        store: Store,
        fleet: Fleet,
        *,
        switches_at_once: int = 16,
        switch_deadline_s: float = SWITCH_DEADLINE_S,
        hosts_deadline_s: float = HOSTS_DEADLINE_S,
        restore_for_s: float = RESTORE_FOR_S,
        observe_push: Callable[[float, bool], None] = lambda seconds, good: None,
    ) -> None:
        self.store = store
        self.hosts_deadline_s = hosts_deadline_s
        self.felt = Felt()
        self._gates = Gates(fleet, self.felt)
        self._ledger = Ledger(store)
        self._lock, self._changed = self._ledger.lock, self._ledger.changed
        self._pool = ThreadPoolExecutor(switches_at_once, thread_name_prefix="switch")
        self._under_way: dict[tuple[str, str], Future[None]] = {}
        """Of switches by what and name, and the look at a wave's."""
        self._thread: threading.Thread | None = None
        self._ends = threading.Event()
        deadlines = switch_deadline_s, restore_for_s
        self.pushes = Pushes(fleet, self._ledger, switches_at_once, *deadlines, self._ends, observe_push)

    def start(
        self,
        revision_id: int,
        actor: str,
        *,
        instead_of: int | None = None,
        without: Collection[str] = (),
        pace: Pace = ONE_WAVE,
        undoes: int | None = None,
        also: Callable[[int, int], object] = lambda number, generation: None,
    ) -> int:
        """Begins a rollout of a stored revision; returns its id. ConflictError while another one runs.

        `instead_of`: the generation in force, whose intent the revision shares. No switch is spoken to then, so that
        none that is away can hold up what is for hosts alone; ConflictError where another one is in force by now.

        `without`: switches that are left out, for they are known to be away and nothing of it depends on them.

        `pace`: by waves, and how many switches may be away; default all at once, and one in twenty.

        `undoes`: the rollout that this one undoes; what hosts feel of it undoes nothing then.

        Where hosts are switched off, they are on again once its policy is in force; ConflictError where `actor` is a
        part of the orchestrator's own.

        `also`: what else the store keeps once there is a rollout of that number and generation; all of it or nothing.
        """
        revision = Revision.from_json(self.store.revision(revision_id).document)
        if revision.policy.use_forest:  # a damaged model must not keep bounds from being switched off
            self._check_model(revision.policy.model_generation)
        with self._lock:
            if self.running is not None:
                raise ConflictError(f"rollout {self.running} is still running, wait for its end")
            off = self.store.off
            if off is not None and isinstance(actor, Actor):
                raise ConflictError(f"hosts are switched off by {off.by}, expected an operator to switch them on first")
            if instead_of is not None:
                self._check_in_force(instead_of, revision)
            spoken_to = [name for name in self.store.switches() if instead_of is None and name not in without]
            now = time.monotonic()
            first = Rollout(
                0,
                undoes=undoes,
                lifts_off=None if off is None else off.generation,
                plan=pace.plan(len(spoken_to)),
                switches=Devices.of({name: SwitchStep() for name in spoken_to}),
                hosts=Devices.of(
                    {name: HostStep(felt_before=self.felt.worst(name, now)) for name in self.store.hosts()}
                ),
            )
            with self.store.writing():
                number = self.store.add_rollout(revision_id, actor, {})
                rollout = replace(first, generation=generations.new(number))
                self.store.save_rollout(number, rollout.phase.value, rollout.to_json())
                also(number, rollout.generation)
            self._begin(number, rollout.saved(), revision_id)
        log.info("rollout id=%d revision=%d event=started by=%s", number, revision_id, actor)
        return number

    def _check_model(self, generation: int) -> None:
        """What is stored of a model is still what was made, by onnxruntime's answers too; ModelError, TrainingError."""
        if generation:
            from ..models.onnx_export import validated  # onnxruntime: 50 MB, only where there is a model

            model = self.store.model_files(generation)
            told = validated(model.onnx, model.forest)
            log.info("model generation=%d event=validated coverage=%s", generation, told["coverage"])

    def _check_in_force(self, generation: int, revision: Revision) -> None:
        """That it is in force with the intent of `revision`; ConflictError."""
        found = (self.store.setting("policy") or {}).get("generation")
        if found != generation:
            raise ConflictError(f"policy {found} is in force, expected {generation}")
        present = self.store.revision(self.store.rollout(generations.number_of(generation)).revision).document
        if Revision.from_json(present).intent != revision.intent:
            raise ConflictError(f"the revision's intent is not that of policy {generation}, expected the same")

    def _in_force(self) -> int | None:
        """The revision whose policy hosts are to have now."""
        policy = self.store.setting("policy")
        return None if policy is None else self.store.rollout(generations.number_of(policy["generation"])).revision

    def recover(self) -> None:
        """At start-up: goes on, in the background, with what an orchestrator that died left open (at most one).

        Switches are told from now on that this process came last: one that it replaced, and that lives, changes no more
        of them. By the clock, so that a database that is restored does not make it an earlier one.
        """
        self.fleet.term = max((self.store.setting("term") or 0) + 1, int(time.time()))
        self.store.set_setting("term", self.fleet.term)
        for row in self.store.rollouts():
            if row.phase not in OPEN:
                continue
            try:
                found = {**row.document, **self.store.steps(row.id), "phase": row.phase, "generation": row.generation}
                rollout = Rollout.from_json(found).restarted()
            except (
                KeyError,
                TypeError,
                ValueError,
            ) as error:  # damaged: nobody knows any more what switches had before
                reason = f"its document in the database can't be read ({error!r}); nothing was given back"
                log.error("rollout id=%d event=unreadable reason=%r", row.id, reason)
                lost = Rollout(row.generation, phase=Phase.FAILED, error=reason)
                self.store.save_rollout(row.id, lost.phase.value, lost.to_json())
                continue
            if (off := self.store.off) is not None and rollout.lifts_off != off.generation:
                rollout = rollout.stopped(_off_by(off.by))
            log.warning("rollout id=%d event=resumed phase=%s reason=%r", row.id, rollout.phase, rollout.error)
            with self._lock:
                self._begin(row.id, rollout, row.revision)
                self._ledger.save()

    def host_reported(self, name: str, generation: int) -> None:
        """A host's heartbeat."""
        with self._lock:
            if self._ledger.is_open:
                of = self._rollout.generation
                self._ledger.take(of, lambda rollout: rollout.host_reported(name, generation), later=True)

    def pause(self, number: int) -> None:
        """No further switch is begun until `resume`. ConflictError where it is not running, or past its switches."""
        self._ask(number, Rollout.paused, "paused", "pushes to switches")

    def resume(self, number: int) -> None:
        """It goes on. ConflictError where it is not paused."""
        self._ask(number, Rollout.resumed, "resumed", "is paused")

    def abort(self, number: int, actor: str) -> None:
        """Switches get back what they had. ConflictError where it has ended, or its policy is in force."""
        self._ask(number, partial(Rollout.turned, reason=f"aborted by {actor}"), "aborted", "pushes to switches")

    def switch_off(self, actor: str) -> SwitchedOff:
        """Has hosts marked by nothing from their next polls on; waits for nothing. `end_off` follows."""
        return self.store.switch_off(actor, renew=self._ledger.is_open)

    def end_off(self, actor: str) -> None:
        """Ends the rollout that runs, and has the database know that hosts are off, each as soon as it can be."""
        with self._lock:
            if self._ledger.is_open:
                stop = partial(Rollout.stopped, reason=_off_by(actor))
                self._ledger.take(self._rollout.generation, stop)
        self.store.keep_off()

    def _ask(self, number: int, change: Callable[[Rollout], Rollout], event: str, expected: str) -> None:
        phase = self.store.rollout(number).phase
        with self._lock:
            is_current = self.running == number
            if not is_current or not self._ledger.take(self._rollout.generation, change, needed=True):
                is_open = is_current and not self._rollout.ended
                now = "its policy is in force" if is_open and self._rollout.active else f"it is {phase}"
                raise ConflictError(f"rollout {number}: {now}, expected one that {expected}")
        log.warning("rollout id=%d event=%s", number, event)

    @property
    def fleet(self) -> Fleet:
        """Whoever speaks to switches."""
        return self.pushes.fleet

    @property
    def running(self) -> int | None:
        """The id of the running rollout."""
        with self._lock:
            return self._ledger.number

    @property
    def now(self) -> tuple[int, Rollout] | None:
        """The running rollout and its id, as it was last; no lock is waited for."""
        return self._ledger.seen

    @contextmanager
    def idle(self) -> Iterator[None]:
        """No rollout runs, and none begins meanwhile; ConflictError while one runs."""
        with self._lock:
            if self.running is not None:
                raise ConflictError(f"rollout {self.running} is running, wait for its end")
            yield

    def close(self) -> None:
        """Stops after the calls that are under way; the store then knows what was left running."""
        with self._lock:
            self._ends.set()
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(timeout=5)
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _begin(self, number: int, rollout: Rollout, revision_id: int) -> None:
        self._ledger.open(number, rollout)
        self._under_way.clear()
        self._thread = service_thread(f"rollout-{number}", self._run, revision_id)
        self._thread.start()

    def _run(self, revision_id: int) -> None:
        number, rollout = self._ledger.current
        replaced = None
        try:
            replaced = self._in_force()
            revision = Revision.from_json(self.store.revision(revision_id).document).at(rollout.generation)
            self._carry_out(revision)
        except Exception as error:
            log.exception("rollout id=%d event=broke", number)
            reason = f"internal: {error!r}"
            self._ledger.take(rollout.generation, lambda now: replace(now, phase=Phase.FAILED, error=reason))
        finally:
            if revision_id != replaced:
                self.felt.begin(self._rollout.felt_before, time.monotonic())
            rollout = self._ledger.close()
            log.info("rollout id=%d event=ended phase=%s error=%r", number, rollout.phase, rollout.error)

    def _carry_out(self, revision: Revision) -> None:
        devices = self.store.switches()
        works = {"push": self.pushes.push, "confirm": self.pushes.confirm, "restore": self.pushes.restore}
        end: float | None = None
        look_at: float | None = None
        with self._lock:
            while (not self._rollout.ended or self._ledger.is_unstored) and not self._ends.is_set():
                now = time.monotonic()
                if self._ledger.is_unstored:
                    self._changed.wait(UNSTORED_RETRY_S)
                    self._ledger.save()
                    continue
                if self._ledger.keep_at is not None and now >= self._ledger.keep_at:
                    self._ledger.save()
                    continue
                if self._rollout.active and end is None:  # here or in a process before this one
                    end = now + self.hosts_deadline_s
                steps = self._rollout.next_steps()
                if steps.activate:
                    self._ledger.activate(revision.policy)
                    continue
                for what, names in (("push", steps.push), ("confirm", steps.confirm), ("restore", steps.restore)):
                    for name in names:
                        self._submit(what, name, works[what], devices[name], revision)
                if not steps.open_wave:
                    look_at = None
                elif look_at is None:
                    look_at = now + self._rollout.plan.soak_s
                    wave = self._wave(devices, now)
                    if now < look_at:
                        self._submit("count", str(wave.number), self._gates.begin, wave)
                if look_at is not None and now >= look_at:
                    wave = self._wave(devices, look_at - self._rollout.plan.soak_s)
                    self._submit("look", str(wave.number), self._look, wave)
                if end is not None and now >= end:
                    self._ledger.take(revision.intent.generation, lambda now: now.hosts_ran_out(self.hosts_deadline_s))
                    continue
                waits = [at for at in (end, look_at, self._ledger.keep_at) if at is not None and at > now]
                self._changed.wait(min(waits) - now if waits else None)

    def _submit(self, what: str, name: str, work: Callable[..., None], *of: object) -> None:
        """Has a thread do it, unless one does."""
        if (what, name) in self._under_way:
            return
        future = self._under_way[what, name] = self._pool.submit(work, *of)
        future.add_done_callback(partial(self._done, what, name))

    def _done(self, what: str, name: str, future: Future[None]) -> None:
        with self._lock:
            if self._under_way.get((what, name)) is future:
                del self._under_way[what, name]
            self._changed.notify_all()

    def host_felt(self, name: str, stretch: Stretch) -> None:
        """What a host's connections measure now."""
        self.felt.add(name, stretch, time.monotonic())

    def _wave(self, devices: dict[str, Switch], since_s: float) -> Wave:
        """The one that soaks."""
        rollout = self._rollout
        names = rollout.switches.named(*HELD)
        return Wave(rollout.wave, rollout.generation, [devices[name] for name in names], since_s)

    def _look(self, wave: Wave) -> None:
        """Opens the next wave where this one passes the gates; else turns back."""
        with self._lock:
            if not self.pushes.goes_forward(wave.generation):
                return
            plan, felt_before = self._rollout.plan, self._rollout.felt_before
        reason = self._gates.reason(wave, plan, felt_before)
        if reason is not None:
            said = f"after wave {wave.number + 1}: {reason}"
            self._ledger.take(wave.generation, partial(Rollout.turned, reason=said))
            log.warning("rollout generation=%d event=unwell reason=%r", wave.generation, said)
            return
        self._ledger.take(wave.generation, partial(Rollout.wave_opened, wave=wave.number))
        log.info("rollout generation=%d event=wave-opened wave=%d", wave.generation, wave.number + 2)

    @property
    def _rollout(self) -> Rollout:
        return self._ledger.current[1]


def _off_by(actor: str) -> str:
    return f"hosts were switched off by {actor}"
