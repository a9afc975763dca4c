"""Between rollouts: what switches see of what they were told, and whether they still hold it.

One switch after the other, in a thread of its own. A switch that holds another intent than the one in force drifted:
that is shown. Where a rollout left switches out because they were away, the revision in force is rolled out once more
when they answer again; where an operator allows repairs, for any drift. A rollout tells all switches, as any other:
those that hold the intent change nothing but its generation.
"""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import fields
from functools import partial

from qclimb.errors import QclimbError
from qclimb.intent import SwitchIntent
from qclimb.loops import service_thread

from ..actors import Actor
from ..errors import ConflictError, FleetError, StoreError
from ..fabric.attempts import attempt
from ..fabric.door import Told
from ..fabric.rollout import SwitchPhase
from ..fabric.runner import Runner
from ..metrics import Metrics
from ..plan.revision import Revision
from ..store import generations
from ..store.store import Store, Switch
from .traffic import Looks

log = logging.getLogger(__name__)

ROUND_S = 60.0
"""from one look at a switch to the next; with more than 200 switches longer, as each look is a TLS handshake"""
GAP_S = 0.3
"""least time from one switch to the next"""
CERTIFICATE_S = 3600.0
"""from one look at a switch's certificate to the next"""
REPAIR_S = 60.0
"""least time between two rollouts for drift; doubled with each that did not mend it"""


def drift(wanted: SwitchIntent, found: SwitchIntent | None) -> str | None:
    """How a switch's intent differs from the wanted one, whatever their generations; None where it does not. Pure."""
    if found is None:
        return "it holds nothing of qclimb"
    differ = [
        each.name
        for each in fields(wanted)
        if each.name != "generation" and getattr(wanted, each.name) != getattr(found, each.name)
    ]
    return f"it differs in {', '.join(differ)}" if differ else None


class SwitchWatch:
    """Reads each switch's state and intent now and then."""

    def __init__(
        self,
        store: Store,
        runner: Runner,
        metrics: Metrics,
        repairs: bool = False,
        round_s: float = ROUND_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`repairs`: any drift is rolled back; else only switches that were away are told."""
        self._store, self._runner, self._metrics, self._round_s = store, runner, metrics, round_s
        self._repairs, self._clock = repairs, clock
        self._pause_s, self._next_s = REPAIR_S, 0.0
        self.drifts: dict[str, str] = {}
        self.looks: dict[str, Looks] = {}
        self.certificate_ends: dict[str, float] = {}
        """s since 1970"""
        self._certificates_next_s: dict[str, float] = {}
        self._ends = threading.Event()
        self._thread = service_thread("switch-watch", self._run)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def close(self) -> None:
        """End after the look that is under way."""
        self._ends.set()
        if self._thread.is_alive():
            self._thread.join(timeout=5)

    def look(self) -> None:
        """One round. Raises StoreError."""
        switches, drifts, answered = self._store.switches(), dict[str, str](), set[str]()
        for name, switch in switches.items():
            revision = self._in_force()
            found = attempt(switch, partial(self._ask, revision))
            if isinstance(found, FleetError):
                log.debug("switch name=%s event=unread reason=%r", name, str(found))
                self._metrics.switch_told(name, None, self.drifts.get(name))
                self.looks[name] = self.looks.get(name, Looks()).missed(str(found))
                if name in self.drifts:
                    drifts[name] = self.drifts[name]
            else:
                told, reason = found
                answered.add(name)
                self._see_certificate(switch)
                self.looks[name] = self.looks.get(name, Looks()).and_then(time.time(), self._clock(), told)
                if self._runner.running is None and revision == self._in_force() and reason:
                    drifts[name] = reason
                self._metrics.switch_told(name, told, drifts.get(name))
            if self._ends.wait(max(self._round_s / len(switches), GAP_S)):
                return
        for gone in (self.looks.keys() | self._certificates_next_s.keys()) - switches.keys():
            for known in (self.looks, self.certificate_ends, self._certificates_next_s):
                known.pop(gone, None)
        for name in drifts.keys() - self.drifts.keys():
            log.warning("switch name=%s event=drifted reason=%r", name, drifts[name])
        self.drifts = drifts
        self._repair(drifts.keys() & answered)

    def _ask(self, revision: Revision | None, switch: Switch) -> tuple[Told, str | None]:
        """What a switch says of itself, and how it differs from the revision."""
        with self._runner.fleet.at(switch) as door:
            told, found = door.told(), door.intent()
        return told, None if revision is None else drift(revision.intent_of(switch.role), found)

    def _see_certificate(self, switch: Switch) -> None:
        """When the certificate that a switch shows ends, now and then."""
        now = self._clock()
        if now < self._certificates_next_s.get(switch.name, now):
            return
        self._certificates_next_s[switch.name] = now + CERTIFICATE_S
        found = attempt(switch, self._runner.fleet.certificate_ends)
        if isinstance(found, FleetError):
            log.info("switch name=%s event=certificate-unread reason=%r", switch.name, str(found))
        else:
            self.certificate_ends[switch.name] = found

    def _repair(self, drifted: set[str]) -> None:
        """Rolls out what is in force once more, where that is due."""
        policy = self._store.setting("policy")
        if policy is None or not drifted or self._store.off is not None:
            self._pause_s = REPAIR_S
            return
        number = generations.number_of(policy["generation"])
        steps = self._store.steps(number)["switches"]
        absent = {name for name in drifted if steps.get(name, {}).get("phase") == SwitchPhase.ABSENT.value}
        due = drifted if self._repairs else absent
        if not due or self._clock() < self._next_s:
            return
        revision = self._store.rollout(number).revision
        try:
            started = self._runner.start(revision, Actor.SWITCHES)
        except (ConflictError, QclimbError) as error:
            log.info("switch-watch event=waits reason=%r", str(error))
            return
        self._next_s, self._pause_s = self._clock() + self._pause_s, 2 * self._pause_s
        self._store.note(Actor.SWITCHES, "repair-switches", f"{', '.join(sorted(due))} rollout {started}")
        log.warning("switches drifted=%r event=rolled-out rollout=%d", ", ".join(sorted(due)), started)

    def _in_force(self) -> Revision | None:
        policy = self._store.setting("policy")
        if policy is None:
            return None
        row = self._store.rollout(generations.number_of(policy["generation"]))
        return Revision.from_json(self._store.revision(row.revision).document)

    def _run(self) -> None:
        while not self._ends.is_set():
            try:
                self.look()
            except StoreError as error:
                log.warning("switch-watch event=no-store reason=%r", str(error))
            except Exception:
                log.exception("switch-watch event=failed")
            self._ends.wait(GAP_S if self._round_s < 1 else 1.0)
