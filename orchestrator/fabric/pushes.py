"""What a rollout says to one switch: push, confirm, give back; and what the ledger is told came of it.

Called by a few threads at once, each about a switch of its own.
"""

import logging
import threading
import time
from collections.abc import Callable
from functools import partial
from heapq import nlargest

from qclimb.gnmi_ext import ROLLBACK_MOST_S
from qclimb.intent import SwitchIntent

from ..errors import FleetError, StoreError
from ..plan.revision import Revision
from ..store.store import Switch
from .attempts import reason_of
from .ledger import Ledger
from .rollout import Rollout
from .switches import Fleet

log = logging.getLogger(__name__)

ROLLBACK_S = 600.0
"""A switch that nobody confirms goes back by itself so long after its wave should have been confirmed."""
RESTORE_RETRY_S, RESTORE_RETRY_MOST_S = 1.0, 30.0
"""From one try to give back to the next: doubled with each."""


class Pushes:
    """Of the rollout that the ledger has open.

    switches_at_once  so many are spoken to at one time
    switch_deadline_s, restore_for_s
                      how long a switch may take to apply, and for how long giving back is tried
    ends              set when the process lets go: what is not done then is the next start's
    observe           told of each push, how long it took and whether it was applied
    """

    def __init__(
        self,
        fleet: Fleet,
        ledger: Ledger,
        switches_at_once: int,
        switch_deadline_s: float,
        restore_for_s: float,
        ends: threading.Event,
        observe: Callable[[float, bool], None],
    ) -> None:
        self.fleet, self._ledger, self._switches_at_once = fleet, ledger, switches_at_once
        self._switch_deadline_s, self._restore_for_s = switch_deadline_s, restore_for_s
        self._ends, self._observe = ends, observe

    def goes_forward(self, generation: int) -> bool:
        """Whether that rollout still does."""
        with self._ledger.lock:
            if not self._ledger.is_open or self._ends.is_set():
                return False
            return self._rollout.generation == generation and not self._rollout.turned_back

    def push(self, switch: Switch, revision: Revision) -> None:
        """What it has is read and kept, then it is told, and what it applied is read back."""
        name, wanted, begun, sent = switch.name, revision.intent.generation, time.monotonic(), False
        if not self.goes_forward(wanted):
            return
        try:
            with self.fleet.at(switch) as door:
                before = door.intent()
                told = None if before is None else before.to_gnmi()
                if not self._ledger.take(wanted, lambda rollout: rollout.pushing(name, told), needed=True):
                    log.info("switch name=%s generation=%d event=not-pushed", name, wanted)
                    return
                sent = True
                intent = revision.intent_of(switch.role)
                is_pending = door.commit(intent, token(wanted), self._rollback_s(), self._switch_deadline_s)
        except Exception as error:
            changed, absent = sent, False
            if isinstance(error, FleetError):
                changed, absent = sent and error.changed, error.absent and not sent
            reason = reason_of(switch, error)
            self._ledger.take(wanted, lambda rollout: rollout.push_failed(name, reason, changed=changed, absent=absent))
            self._observe(time.monotonic() - begun, False)
            log.warning("switch name=%s generation=%d event=failed reason=%r", name, wanted, reason)
            return
        self._ledger.take(wanted, lambda rollout: rollout.pushed(name, intent.generation, is_pending=is_pending))
        self._note_applied(name, intent.generation)
        self._observe(time.monotonic() - begun, True)
        log.info("switch name=%s generation=%d event=applied", name, intent.generation)

    def _rollback_s(self) -> float:
        """How long a switch waits to be told that what it has stays, before it goes back by itself.

        It is told once all switches of its wave have been pushed to, each by its own server, and the wave has soaked.
        """
        with self._ledger.lock:
            rollout = self._rollout
        pushes = (self.fleet.longest_push_s(name, self._switch_deadline_s) for name in rollout.unpushed)
        longest = nlargest(rollout.unpushed_most, pushes)
        pushed_s = sum(longest) / self._switches_at_once + max(longest, default=0.0)
        return min(ROLLBACK_S + rollout.plan.soak_s + self._switch_deadline_s + pushed_s, ROLLBACK_MOST_S)

    def confirm(self, switch: Switch, revision: Revision) -> None:
        """Over a session of its own: that it can be opened is what has to be shown."""
        name, wanted = switch.name, revision.intent.generation
        end, pause_s = time.monotonic() + self._switch_deadline_s, RESTORE_RETRY_S
        while self.goes_forward(wanted):
            try:
                with self.fleet.at(switch) as door:
                    door.confirm(token(wanted))
            except Exception as error:
                is_final = isinstance(error, FleetError) and error.refused
                if not is_final and time.monotonic() + pause_s < end and not self._ends.wait(pause_s):
                    continue
                if self._ends.is_set():
                    return  # the next start goes on from here
                reason = reason_of(switch, error)
                self._ledger.take(wanted, partial(Rollout.confirm_failed, name=name, error=reason))
                log.warning("switch name=%s generation=%d event=not-confirmed reason=%r", name, wanted, reason)
                return
            self._ledger.take(wanted, lambda rollout: rollout.confirmed(name))
            log.info("switch name=%s generation=%d event=confirmed", name, wanted)
            return

    def restore(self, switch: Switch, revision: Revision) -> None:
        """It gets back what it had before the rollout of `revision`."""
        name, wanted = switch.name, revision.intent.generation
        try:
            if not self._ledger.take(wanted, lambda rollout: rollout.restoring(name)):
                return
            previous = self._rollout.switches[name].previous
            intent = None if previous is None else SwitchIntent.from_stored(previous)
            generation = self._give_back(switch, intent, wanted)
        except Exception as error:
            if self._ends.is_set():
                return  # the next start goes on from here
            reason = reason_of(switch, error)
            self._ledger.take(wanted, lambda rollout: rollout.restore_failed(name, reason))
            log.error("switch name=%s event=stranded reason=%r", name, reason)
            return
        self._ledger.take(wanted, lambda rollout: rollout.restored(name, generation))
        self._note_applied(name, generation)
        log.warning("switch name=%s generation=%d event=restored", name, generation)

    def _give_back(self, switch: Switch, intent: SwitchIntent | None, wanted: int) -> int:
        """Tries for `restore_for_s`: a switch that hung in a Set, or restarts, is there again some time later."""
        end, pause_s = time.monotonic() + self._restore_for_s, RESTORE_RETRY_S
        while True:
            try:
                with self.fleet.at(switch) as door:
                    return door.give_back(intent, token(wanted), self._switch_deadline_s)
            except Exception as error:
                is_final = isinstance(error, FleetError) and error.refused
                if is_final or time.monotonic() + pause_s >= end or self._ends.wait(pause_s):
                    raise
                reason = reason_of(switch, error)
                self._ledger.take(wanted, partial(Rollout.still_restoring, name=switch.name, error=reason))
                log.warning("switch name=%s event=not-restored reason=%r; trying again", switch.name, reason)
            pause_s = min(2 * pause_s, RESTORE_RETRY_MOST_S)

    def _note_applied(self, name: str, generation: int) -> None:
        """For lists of switches; a rollout does not depend on it."""
        try:
            self._ledger.store.switch_applied(name, generation)
        except StoreError as error:
            log.error("switch name=%s generation=%d event=unstored reason=%r", name, generation, str(error))

    @property
    def _rollout(self) -> Rollout:
        return self._ledger.current[1]


def token(generation: int) -> str:
    """What a rollout's commits are called on switches; the generation has a random part."""
    return f"qclimb-{generation}"
