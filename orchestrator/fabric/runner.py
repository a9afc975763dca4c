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

from qclimb.errors import QclimbError
from qclimb.intent import SwitchIntent

from ..defaults import HOSTS_DEADLINE_S, RESTORE_FOR_S, SWITCH_DEADLINE_S
from ..errors import ConflictError, FleetError, StoreError
from ..plan.revision import Revision
from ..store import generations
from ..store.store import Store, Switch
from .rollout import HostStep, Phase, Rollout, SwitchStep
from .switches import Fleet

log = logging.getLogger(__name__)

UNSTORED_RETRY_S = 1.0
RESTORE_RETRY_S, RESTORE_RETRY_MOST_S = 1.0, 30.0
"""From one try to give back to the next: doubled with each."""


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
        self.fleet = fleet
        self.switch_deadline_s = switch_deadline_s
        self.hosts_deadline_s = hosts_deadline_s
        self.restore_for_s = restore_for_s
        self._observe_push = observe_push
        self._lock = threading.RLock()
        self._pool = ThreadPoolExecutor(switches_at_once, thread_name_prefix="switch")
        self._changed = threading.Condition(self._lock)
        self._current: tuple[int, Rollout] | None = None
        self._unstored = False
        self._thread: threading.Thread | None = None
        self._stop = False
        self._ends = threading.Event()

    def start(
        self,
        revision_id: int,
        actor: str,
        *,
        instead_of: int | None = None,
        without: Collection[str] = (),
        also: Callable[[int, int], object] = lambda number, generation: None,
    ) -> int:
        """Begins a rollout of a stored revision; returns its id. ConflictError while another one runs.

        `instead_of`: the generation in force, whose intent the revision shares. No switch is spoken to then, so that
        none that is away can hold up what is for hosts alone; ConflictError where another one is in force by now.

        `without`: switches that are left out, for they are known to be away and nothing of it depends on them.

        `also`: what else the store keeps once there is a rollout of that number and generation; all of it or nothing.
        """
        revision = Revision.from_json(self.store.revision(revision_id).document)
        if revision.policy.use_forest:  # a damaged model must not keep bounds from being switched off
            self._check_model(revision.policy.model_generation)
        with self._lock:
            if self._current is not None:
                raise ConflictError(f"rollout {self._current[0]} is still running, wait for its end")
            if instead_of is not None:
                self._check_in_force(instead_of, revision)
            spoken_to = [name for name in self.store.switches() if instead_of is None and name not in without]
            first = Rollout(
                0,
                switches={name: SwitchStep() for name in spoken_to},
                hosts={name: HostStep() for name in self.store.hosts()},
            )
            with self.store.writing():
                number = self.store.add_rollout(revision_id, actor, first.to_json())
                rollout = replace(first, generation=generations.new(number))
                self.store.save_rollout(number, rollout.phase.value, rollout.to_json())
                also(number, rollout.generation)
            self._begin(number, rollout, revision_id)
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

    def recover(self) -> None:
        """At start-up: ends, in the background, what an orchestrator that died left running (at most one)."""
        for row in self.store.rollouts():
            if row.phase != Phase.RUNNING.value:
                continue
            try:
                rollout = Rollout.from_json({**row.document, "generation": row.generation}).interrupted()
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
            log.warning("rollout id=%d event=recovered phase=%s reason=%r", row.id, rollout.phase, rollout.error)
            with self._lock:
                self._begin(row.id, rollout, row.revision)

    def host_reported(self, name: str, generation: int) -> None:
        """A host's heartbeat."""
        with self._lock:
            if self._current is not None:
                of = self._current[1].generation
                self._take(of, lambda rollout: rollout.host_reported(name, generation))

    @property
    def running(self) -> int | None:
        """The id of the running rollout."""
        with self._lock:
            return None if self._current is None else self._current[0]

    @contextmanager
    def idle(self) -> Iterator[None]:
        """No rollout runs, and none begins meanwhile; ConflictError while one runs."""
        with self._lock:
            if self._current is not None:
                raise ConflictError(f"rollout {self._current[0]} is running, wait for its end")
            yield

    def close(self) -> None:
        """Stops after the calls that are under way; the store then knows what was left running."""
        with self._lock:
            self._stop = True
            self._ends.set()
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(timeout=5)
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _begin(self, number: int, rollout: Rollout, revision_id: int) -> None:
        self._current = (number, rollout)
        self._save()
        self._thread = threading.Thread(target=self._run, args=(revision_id,), name=f"rollout-{number}", daemon=True)
        self._thread.start()

    def _run(self, revision_id: int) -> None:
        assert self._current is not None
        number, rollout = self._current
        try:
            revision = Revision.from_json(self.store.revision(revision_id).document).at(rollout.generation)
            self._carry_out(revision)
        except Exception as error:
            log.exception("rollout id=%d event=broke", number)
            reason = f"internal: {error!r}"
            self._take(rollout.generation, lambda now: replace(now, phase=Phase.FAILED, error=reason))
        finally:
            with self._lock:
                rollout = self._current[1]
                self._current = None
                self._changed.notify_all()
            log.info("rollout id=%d event=ended phase=%s error=%r", number, rollout.phase, rollout.error)

    def _carry_out(self, revision: Revision) -> None:
        devices = self.store.switches()
        started: dict[tuple[str, str], Future[None]] = {}
        end: float | None = None
        with self._lock:
            while (self._rollout.phase is Phase.RUNNING or self._unstored) and not self._stop:
                if self._unstored:
                    self._changed.wait(UNSTORED_RETRY_S)
                    self._save()
                    continue
                steps = self._rollout.next_steps()
                if steps.activate:
                    self._activate(revision)
                    end = time.monotonic() + self.hosts_deadline_s if self._rollout.active else None
                    continue
                for what, names in (("push", steps.push), ("restore", steps.restore)):
                    for name in names:
                        if (what, name) not in started:
                            work = self._push if what == "push" else self._restore
                            started[what, name] = self._pool.submit(work, devices[name], revision)
                if end is not None and time.monotonic() >= end:
                    self._take(revision.intent.generation, lambda now: now.hosts_ran_out(self.hosts_deadline_s))
                    continue
                self._changed.wait(None if end is None else max(end - time.monotonic(), 0.01))

    def _activate(self, revision: Revision) -> None:
        """The policy is in force from here on; after the switches, before any host."""
        assert self._current is not None
        number, rollout = self._current[0], self._rollout.activated()
        try:
            self.store.activate(revision.policy.to_json(), number, rollout.phase.value, rollout.to_json())
        except StoreError as error:
            self._say_unstored(error)
            return
        self._current = (number, rollout)
        log.info("policy generation=%d mode=%s event=in-force", revision.policy.generation, revision.policy.mode)

    def _push(self, switch: Switch, revision: Revision) -> None:
        name, wanted, begun, sent = switch.name, revision.intent.generation, time.monotonic(), False
        if not self._pushes(wanted):
            return
        try:
            before = self.fleet.intent(switch)
            told = None if before is None else before.to_gnmi()
            if not self._take(wanted, lambda rollout: rollout.pushing(name, told), needed=True):
                log.info("switch name=%s generation=%d event=not-pushed", name, wanted)
                return
            sent = True
            generation = self.fleet.apply(switch, revision.intent_of(switch.role), self.switch_deadline_s)
        except Exception as error:
            changed = error.changed if isinstance(error, FleetError) else sent
            reason = _reason(switch, error)
            self._take(wanted, lambda rollout: rollout.push_failed(name, reason, changed=changed))
            self._observe_push(time.monotonic() - begun, False)
            log.warning("switch name=%s generation=%d event=failed reason=%r", name, wanted, reason)
            return
        self._take(wanted, lambda rollout: rollout.pushed(name, generation))
        self._note_applied(name, generation)
        self._observe_push(time.monotonic() - begun, True)
        log.info("switch name=%s generation=%d event=applied", name, generation)

    def _restore(self, switch: Switch, revision: Revision) -> None:
        name, wanted = switch.name, revision.intent.generation
        try:
            if not self._take(wanted, lambda rollout: rollout.restoring(name)):
                return
            previous = self._rollout.switches[name].previous
            intent = None if previous is None else SwitchIntent.from_gnmi(previous)
            generation = self._give_back(switch, intent, wanted)
        except Exception as error:
            if self._ends.is_set():
                return  # the next start goes on from here
            reason = _reason(switch, error)
            self._take(wanted, lambda rollout: rollout.restore_failed(name, reason))
            log.error("switch name=%s event=stranded reason=%r", name, reason)
            return
        self._take(wanted, lambda rollout: rollout.restored(name, generation))
        self._note_applied(name, generation)
        log.warning("switch name=%s generation=%d event=restored", name, generation)

    def _give_back(self, switch: Switch, intent: SwitchIntent | None, wanted: int) -> int:
        """Tries for `restore_for_s`: a switch that hung in a Set, or restarts, is there again some time later."""
        end, pause_s = time.monotonic() + self.restore_for_s, RESTORE_RETRY_S
        while True:
            try:
                return self.fleet.apply(switch, intent, self.switch_deadline_s)
            except FleetError as error:
                if error.refused or time.monotonic() + pause_s >= end or self._ends.wait(pause_s):
                    raise
                reason = _reason(switch, error)
                self._take(wanted, partial(Rollout.still_restoring, name=switch.name, error=reason))
                log.warning("switch name=%s event=not-restored reason=%r; trying again", switch.name, reason)
            pause_s = min(2 * pause_s, RESTORE_RETRY_MOST_S)

    def _note_applied(self, name: str, generation: int) -> None:
        """For lists of switches; a rollout does not depend on it."""
        try:
            self.store.switch_applied(name, generation)
        except StoreError as error:
            log.error("switch name=%s generation=%d event=unstored reason=%r", name, generation, str(error))

    def _pushes(self, generation: int) -> bool:
        """Whether that rollout still goes forward."""
        with self._lock:
            if self._current is None or self._stop:
                return False
            rollout = self._current[1]
            return rollout.generation == generation and not rollout.turned_back

    @property
    def _rollout(self) -> Rollout:
        assert self._current is not None
        return self._current[1]

    def _take(self, generation: int, change: Callable[[Rollout], Rollout], *, needed: bool = False) -> bool:
        """Takes an outcome in, and keeps it, or has `_carry_out` do so; False where it changes nothing.

        `generation`: of the rollout that it is of. One that has ended, or that this process lets go of, changes no
        more, nor does the next one: a switch may answer after another one's failure has ended the rollout.

        `needed`: what follows must not be done before it is kept; else nothing is taken in, and StoreError.
        """
        with self._lock:
            if self._current is None or self._current[1].generation != generation:
                return False
            number, before = self._current
            after = change(before)
            if after == before:
                return False
            if needed:
                self.store.save_rollout(number, after.phase.value, after.to_json())
                self._current = (number, after)
            else:
                self._current = (number, after)
                self._save()
            self._changed.notify_all()
            return True

    def _save(self) -> None:
        """Keeps the rollout as it stands, or remembers that it is not kept."""
        assert self._current is not None
        number, rollout = self._current
        try:
            self.store.save_rollout(number, rollout.phase.value, rollout.to_json())
            self._unstored = False
        except StoreError as error:
            self._say_unstored(error)

    def _say_unstored(self, error: StoreError) -> None:
        assert self._current is not None
        if not self._unstored:
            log.error("rollout id=%d event=unstored reason=%r; trying again", self._current[0], str(error))
        self._unstored = True


def _reason(switch: Switch, error: Exception) -> str:
    return str(error) if isinstance(error, QclimbError) else f"switch {switch.name}: {error!r}"
