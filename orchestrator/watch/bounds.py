"""Whether the bounds in force still hold; where they don't, trains on the newest flows and offers what is better.

One look at a time, in a thread of its own: the windows of flows that had the present model's bounds (drift.py); if they
drifted, a model like the one in force is trained on the newest flows, held beside it on the newest window, and kept
with a revision that differs from the one in force in nothing else, if it is better. What was found stands under
`drift` in the state. An operator rolls the revision out, or `OnDrift.ROLLOUT` does.

Bounds that are too old or demonstrably wrong are switched off meanwhile (bounds_off.py), by a rollout to hosts alone.

Windows begin `SETTLE_S` after the first look that sees the rollout at its end: until then hosts report flows of the
model before, too. That wait is by a clock that nobody sets, and where windows begin is the number of a batch, not a
time: a clock that is set back hides no flows. A restart waits anew.

The newest window alone tells nothing new of a traffic that has just changed, for it is what is tested on. So a try that
led to no offer is made again with each further window, and after an offer only when all that it learned from is older.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from enum import StrEnum
from typing import Any

from ..actors import Actor
from ..defaults import DAY_S, DRIFT_EVERY_S, MAX_AGE_DAYS
from ..errors import TrainingError
from ..fabric.rollout import Phase
from ..fabric.runner import Runner
from ..ingest.recordings import Recordings
from ..models import drift
from ..models.bounds import TARGET_COVERAGE
from ..models.trainer import Trainer
from ..plan.revision import Revision
from ..store.generations import number_of
from ..store.store import Store
from .bounds_off import Due, Off, due, why_off
from .looking import Looking

log = logging.getLogger(__name__)

Json = dict[str, Any]

LEARNED_FLOWS = 10 * drift.WINDOW_FLOWS
"""The newest so many are trained and tested on: two windows test, and 3,200 flows calibrate, which needs 1,999."""

SETTLE_S = 3.0
"""A host's programs follow a policy within 0.2 s; what they had under way comes with hostd's next deliveries, which are
a second apart. Seen live: a third of the first second's flows had the old model's bounds."""


class OnDrift(StrEnum):
    """How far the orchestrator goes by itself towards a new model.

    Switching off bounds that are too old or demonstrably wrong is no part of it: that is a fall-back, as a host's that
    has no policy, whoever looks after new models.
    """

    FLAG = "flag"
    OFFER = "offer"
    ROLLOUT = "rollout"


class Watch(Looking):
    """Keeps the setting `drift`: {model, trained_at, target, after, windows, drifted, off, tried: {batch, at, why},
    offer}.

    after: flows count that came after the batch of that number; None until hosts have taken the model up.

    off: {why, at, generation}, of bounds that were switched off; windows and drifted then stay as they were.

    An offer: {model, revision, why, rollout}; rollout is None until this rolls it out itself.
    """

    name = "drift"

    def __init__(
        self,
        store: Store,
        recordings: Recordings,
        runner: Runner,
        trainer: Trainer,
        on_drift: OnDrift = OnDrift.OFFER,
        every_s: float = DRIFT_EVERY_S,
        settle_s: float = SETTLE_S,
        max_age_s: float | None = MAX_AGE_DAYS * DAY_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`max_age_s`: None never switches bounds off, whatever is found. `clock`: s, runs on whatever is set."""
        super().__init__(every_s)
        self.store, self.recordings, self.runner, self.trainer = store, recordings, runner, trainer
        self.on_drift, self.settle_s = on_drift, settle_s
        self.max_age_s = max_age_s
        self._clock = clock
        self._settling: tuple[int, float] | None = None  # the generation that hosts take up, and the time when they did

    def wait_s(self) -> float:
        """How long until the next look: the one that finds the hosts settled is not late."""
        left_s = 0.0 if self._settling is None else self._settling[1] - self._clock()
        return min(left_s, self.every_s) if left_s > 0 else self.every_s

    def look(self) -> Json | None:
        """What is found now, also kept; None while no model is in force, or hosts are switched off.

        Raises what training and rollouts raise.
        """
        if self.store.off is not None:
            return None
        policy = self.store.setting("policy")
        if policy is None or not policy["model_generation"] or policy["mode"] != "qclimb":
            if self.store.setting("drift") is not None:
                self.store.set_setting("drift", None)
            return None
        found = self._remembered(policy)
        if found["off"] is None:
            self._count(policy, found)
        self._switch_off(policy, found)
        if (found["drifted"] or found["off"]) and self.on_drift is not OnDrift.FLAG and self._due(found):
            self._try(policy, found)
        waits = found["offer"] and found["offer"]["rollout"] is None and self.on_drift is OnDrift.ROLLOUT
        if waits and self.runner.running is None:  # else the next look will do it
            found["offer"]["rollout"] = self.runner.start(found["offer"]["revision"], Actor.DRIFT)
            self.store.set_setting("drift", found)
        return dict(found)

    def _remembered(self, policy: Json) -> Json:
        """What is known of the model in force; nothing yet where it is new, or was switched on again."""
        found = self.store.setting("drift")
        number = policy["model_generation"]
        if found is not None and found["model"] == number and "off" in found:
            found = {"after": None} | {
                key: value for key, value in found.items() if key != "since"
            }  # of older versions
            off = Off.from_json(found["off"])
            if self._due_of(off, policy) is not Due.FORGET:
                return dict(found)
            log.warning("bounds model=%d event=on-again generation=%d", number, policy["generation"])
        model = self.store.model(number)
        told: Json = {
            "model": number,
            "trained_at": model.created_at,
            "target": model.report.get("target_coverage", TARGET_COVERAGE),
        }
        return told | dict.fromkeys(("after", "drifted", "off", "tried", "offer")) | {"windows": []}

    def _due_of(self, off: Off | None, policy: Json) -> Due:
        return due(off, policy["use_forest"], policy["generation"], self.runner.running)

    def _count(self, policy: Json, found: Json) -> None:
        """The windows of what hosts reported, and whether bounds are to be off."""
        if found["after"] is None and self._settled(policy["generation"]):
            found["after"] = self.recordings.last_batch()
        after = found["after"]
        windows, others = list[drift.Window](), list[drift.Window]()
        if after is not None:
            rows, hosts = self.recordings.newest(LEARNED_FLOWS, after)
            windows = drift.reported(rows)
            others = [drift.without_worst(rows, hosts, windows[-1])] if windows else []
        agreed = drift.drifted(others, found["target"])
        was, found["drifted"] = found["drifted"], agreed and drift.drifted(windows, found["target"])
        found["windows"] = [each.to_json() for each in windows]
        if found["drifted"] and not was:
            log.warning("drift model=%d event=flagged reason=%r", found["model"], found["drifted"])
        if policy["use_forest"] and self.max_age_s is not None:
            age_s = time.time() - found["trained_at"]
            why = why_off(windows, others, found["target"], age_s, self.max_age_s)
            found["off"] = None if why is None else vars(Off(why, time.time(), policy["generation"]))
        self.store.set_setting("drift", found)

    def _settled(self, generation: int) -> bool:
        """Whether it is `settle_s` since this first saw the rollout of that policy at its end."""
        if self.store.rollout(number_of(generation)).phase == Phase.RUNNING.value:
            return False
        if self._settling is None or self._settling[0] != generation:
            self._settling = (generation, self._clock() + self.settle_s)
        return self._clock() >= self._settling[1]

    def _switch_off(self, policy: Json, found: Json) -> None:
        """Brings the policy in force without bounds into force, where that is due. Raises ConflictError."""
        off = Off.from_json(found["off"])
        if off is None or self.max_age_s is None or self._due_of(off, policy) is not Due.SWITCH_OFF:
            return
        revision = self._revised(policy, found["model"], use_forest=False)

        def also(number: int, _: int) -> None:
            self.store.note(Actor.DRIFT, "bounds-off", f"model {found['model']} rollout {number}")

        number = self.runner.start(revision, Actor.DRIFT, instead_of=policy["generation"], also=also)
        log.warning("bounds model=%d event=off rollout=%d reason=%r", found["model"], number, off.why)

    def _due(self, found: Json) -> bool:
        """Whether enough flows came since the last try for another one to come out differently."""
        if found["tried"] is None:
            return True
        fresh = LEARNED_FLOWS if found["offer"] else drift.WINDOW_FLOWS
        return self.recordings.received_after(found["tried"]["batch"]) >= fresh

    def _try(self, policy: Json, found: Json) -> None:
        """Trains, and offers what beats the model in force."""
        old = self.store.model(found["model"])
        batch = self.recordings.last_batch()
        rows, hosts = self.recordings.newest(LEARNED_FLOWS)
        wanted = {
            "trees": old.report["trees"],
            "depth": old.report["depth"],
            "features": list(old.report["importance"]),
            "rival": self.store.model_files(found["model"]).forest,
            "rival_in_use": found["off"] is None,
        }
        generation = self.store.reserve_model()
        try:
            made = self.trainer.train(rows, hosts, generation, wanted)
        except TrainingError as error:
            log.warning("drift model=%d event=failed reason=%r", generation, str(error))
            found["tried"] = {"batch": batch, "at": time.time(), "why": str(error)}
            self.store.set_setting("drift", found)
            return
        offer = made.report["offer"]
        log.info("drift model=%d event=tried offered=%s reason=%r", generation, offer["offered"], offer["why"])
        found["tried"] = {"batch": batch, "at": time.time(), "why": offer["why"]}
        if offer["offered"]:
            with self.store.writing():
                self.store.add_model(generation, f"drift of {found['model']}", made.report, made.onnx, made.forest)
                revision = self._revised(policy, generation, use_forest=True)
                self.store.note(Actor.DRIFT, "offer-model", f"{generation} revision {revision}")
                found["offer"] = {"model": generation, "revision": revision, "why": offer["why"], "rollout": None}
                self.store.set_setting("drift", found)
        else:
            self.store.set_setting("drift", found)

    def _revised(self, policy: Json, generation: int, use_forest: bool) -> int:
        """The revision in force with another model, or without bounds."""
        document = self.store.revision(self.store.rollout(number_of(policy["generation"])).revision).document
        old = Revision.from_json(document)
        made = Revision(replace(old.policy, model_generation=generation, use_forest=use_forest), old.intent)
        return self.store.add_revision(Actor.DRIFT, {**document, **made.to_json()})
