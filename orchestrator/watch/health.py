"""After a rollout: whether hosts' small flows are slower than before it; then what was in force before comes back.

For as long as its waves soak, and a minute at least, hosts' stretch (fabric.felt) is held against what it was when the
rollout began. That is kept with the rollout, so a restart changes nothing; a process that begins later than that does
not judge it, for what hosts felt long ago is no measure of today's traffic.

Going back is a rollout of the revision that was in force before, and is watched by nobody: it ends where it was.
"""

import logging
import math
import time
from collections.abc import Callable

from ..actors import Actor
from ..fabric.rollout import HostStep, Plan, Rollout
from ..fabric.runner import Runner
from ..store import generations
from ..store.store import Store, StoredRollout
from .looking import Looking

log = logging.getLogger(__name__)

EVERY_S = 2.0
WATCHED_LEAST_S = 60.0


class HealthWatch(Looking):
    """Of the rollout whose policy is in force."""

    name = "health"

    def __init__(
        self,
        store: Store,
        runner: Runner,
        every_s: float = EVERY_S,
        watched_least_s: float = WATCHED_LEAST_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`clock`: s, nobody sets it; the one by which the runner's `felt` counts."""
        super().__init__(every_s)
        self.store, self.runner, self.watched_least_s = store, runner, watched_least_s
        self._clock = clock
        self._of: int | None = None
        self._since_s = 0.0
        self._before: dict[str, float] = {}
        self._plan = Plan()

    def look(self) -> None:
        """One look. Raises what the store and rollouts raise."""
        policy = self.store.setting("policy")
        if policy is None or self.runner.running is not None or self.store.off is not None:
            return
        number = generations.number_of(policy["generation"])
        row = self.store.rollout(number)
        if is_undoing(row):
            return
        if self._of != number:
            self._begin(row)
        most = self._plan.slowdown_most
        if most is None or self._clock() - self._since_s > self._watched_s:
            return
        reason = self.runner.felt.slower(self._before, self._since_s, most).reason
        if reason is not None:
            self._go_back(row, reason)

    def _begin(self, row: StoredRollout) -> None:
        steps = self.store.steps(row.id)["hosts"]
        self._of, self._since_s = row.id, self._clock()
        self._before = {name: step.get("felt_before", HostStep().felt_before) for name, step in steps.items()}
        rollout = Rollout.from_json({**row.document, "phase": row.phase, "switches": {}, "hosts": {}})
        age_s = math.inf if rollout.active_at is None else time.time() - rollout.active_at
        self._plan = rollout.plan
        if age_s > self._watched_s + self.runner.hosts_deadline_s:
            self._plan = Plan()

    @property
    def _watched_s(self) -> float:
        return max(self._plan.soak_s, self.watched_least_s)

    def _go_back(self, row: StoredRollout, reason: str) -> None:
        earlier = [
            each
            for each in self.store.rollouts()
            if each.id < row.id and each.revision != row.revision and each.document.get("active")
        ]
        self._plan = Plan()  # whatever comes of it, it is done once
        if not earlier:
            log.error("rollout id=%d event=unwell reason=%r; nothing was in force before it", row.id, reason)
            return
        back = earlier[-1].revision
        number = self.runner.start(
            back, Actor.HEALTH, undoes=row.id, also=lambda made, _: self._note(made, row, back, reason)
        )
        log.warning("rollout id=%d event=rolled-back reason=%r by=%d", row.id, reason, number)

    def _note(self, made: int, row: StoredRollout, back: int, reason: str) -> None:
        self.store.note(Actor.HEALTH, "roll-back", f"{row.id} by {made} to revision {back}: {reason}")


def is_undoing(row: StoredRollout) -> bool:
    """Whether it brought back what was in force before another one. Versions that kept no `undoes` knew it by name."""
    if "undoes" in row.document:
        return row.document["undoes"] is not None
    return row.created_by == Actor.HEALTH
