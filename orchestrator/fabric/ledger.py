"""The rollout that runs, and what the store has of it: an outcome is taken in, and kept, before anything follows.

Hosts' reports are kept some at a time: each host says again what it follows.
"""

import logging
import threading
import time
from collections.abc import Callable

from qclimb.policy import Policy

from ..errors import StoreError
from ..store.store import Store
from .rollout import Rollout

log = logging.getLogger(__name__)

REPORTS_KEPT_S = 0.5
"""So much later hosts' reports are kept."""


class Ledger:
    """Of one rollout at a time. `changed` is told of each change; whoever reads more than once holds `lock`.

    is_unstored  the store could not keep the last outcome
    keep_at      when hosts' reports are to be kept (the clock that nobody sets), None: there are none
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self.lock = threading.RLock()
        self.changed = threading.Condition(self.lock)
        self._current: tuple[int, Rollout] | None = None
        self.is_unstored = False
        self.keep_at: float | None = None

    @property
    def is_open(self) -> bool:
        """A rollout runs."""
        return self._current is not None

    @property
    def number(self) -> int | None:
        """Its id."""
        return None if self._current is None else self._current[0]

    @property
    def seen(self) -> tuple[int, Rollout] | None:
        """Its id, and where it is; None: none runs. A value, which any thread may take without the lock."""
        return self._current

    @property
    def current(self) -> tuple[int, Rollout]:
        """Its id, and where it is."""
        assert self._current is not None
        return self._current

    def open(self, number: int, rollout: Rollout) -> None:
        """It runs from now on."""
        self._current = (number, rollout)

    def close(self) -> Rollout:
        """No rollout runs any more; how the last one ended."""
        with self.lock:
            rollout = self.current[1]
            self._current = None
            self.changed.notify_all()
            return rollout

    def take(
        self, generation: int, change: Callable[[Rollout], Rollout], *, needed: bool = False, later: bool = False
    ) -> bool:
        """Takes an outcome in, and keeps it, or has `save` called later; False where it changes nothing.

        `generation`: of the rollout that it is of. One that has ended, or that this process lets go of, changes no
        more, nor does the next one: a switch may answer after another one's failure has ended the rollout.

        `needed`: what follows must not be done before it is kept; else nothing is taken in, and StoreError.
        `later`: it need not be kept at once, unless it ends the rollout.
        """
        with self.lock:
            if self._current is None or self._current[1].generation != generation:
                return False
            number, before = self._current
            after = change(before)
            if after is before:
                return False
            if needed:
                self.store.save_rollout(number, after.phase.value, after.to_json())
                after = after.saved()
            self._current = (number, after)
            if later and not after.ended:
                if self.keep_at is not None:
                    return True
                self.keep_at = time.monotonic() + REPORTS_KEPT_S
            elif not needed:
                self.save()
            self.changed.notify_all()
            return True

    def save(self) -> None:
        """Keeps the rollout as it stands, or remembers that it is not kept."""
        number, rollout = self.current
        try:
            self.store.save_rollout(number, rollout.phase.value, rollout.to_json())
            self._current = (number, rollout.saved())
            self.is_unstored, self.keep_at = False, None
        except StoreError as error:
            self._say_unstored(error)

    def _say_unstored(self, error: StoreError) -> None:
        if not self.is_unstored:
            log.error("rollout id=%d event=unstored reason=%r; trying again", self.current[0], str(error))
        self.is_unstored = True

    def activate(self, policy: Policy) -> None:
        """The policy is in force from here on; after the switches, before any host."""
        number, rollout = self.current[0], self.current[1].activated(time.time())
        try:
            document = rollout.to_json()
            self.store.activate(policy.to_json(), number, rollout.phase.value, document, lifts_off=rollout.lifts_off)
        except StoreError as error:
            self._say_unstored(error)
            return
        self._current = (number, rollout.saved())
        log.info("policy generation=%d mode=%s event=in-force", policy.generation, policy.mode)
