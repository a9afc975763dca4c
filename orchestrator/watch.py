"""Whether the bounds in force still hold; where they don't, trains on the newest flows and offers what is better.

One look at a time, in a thread of its own: the windows of flows that had the present model's bounds (drift.py); if they
drifted, a model like the one in force is trained on the newest flows, held beside it on the newest window, and kept
with a revision that differs from the one in force in nothing else, if it is better. What was found stands under
`drift` in the state. An operator rolls the revision out, or `OnDrift.ROLLOUT` does.

Windows begin `SETTLE_S` after the first look that sees the rollout at its end: until then hosts report flows of the
model before, too.

The newest window alone tells nothing new of a traffic that has just changed, for it is what is tested on. So a try that
led to no offer is made again with each further window, and after an offer only when all that it learned from is older.
"""

import logging
import threading
import time
from dataclasses import replace
from enum import StrEnum
from typing import Any

from qclimb.errors import QclimbError

from . import drift
from .errors import ConflictError, TrainingError
from .flows import Recordings
from .revision import Revision
from .rollout import Phase
from .runner import Runner
from .store import Store
from .trainer import Trainer

log = logging.getLogger(__name__)

Json = dict[str, Any]

LEARNED_FLOWS = 10 * drift.WINDOW_FLOWS
"""The newest so many are trained and tested on: two windows test, and 3,200 flows calibrate, which needs 1,999."""

SETTLE_S = 3.0
"""A host's programs follow a policy within 0.2 s; what they had under way comes with hostd's next deliveries, which are
a second apart. Seen live: a third of the first second's flows had the old model's bounds."""

ACTOR = "drift"
"""Who made the revision, in lists and in the audit log."""


class OnDrift(StrEnum):
    """How far the orchestrator goes by itself."""

    FLAG = "flag"
    OFFER = "offer"
    ROLLOUT = "rollout"


class Watch:
    """Keeps the setting `drift`: {model, since, windows, drifted, tried: {batch, at, why}, offer}.

    since: flows that arrived later count, s since 1970; None while the model is being rolled out.

    An offer: {model, revision, why, rollout}; rollout is None until this rolls it out itself.
    """

    def __init__(
        self,
        store: Store,
        recordings: Recordings,
        runner: Runner,
        trainer: Trainer,
        on_drift: OnDrift = OnDrift.OFFER,
        every_s: float = 30.0,
        settle_s: float = SETTLE_S,
    ) -> None:
        self.store, self.recordings, self.runner, self.trainer = store, recordings, runner, trainer
        self.on_drift, self.every_s, self.settle_s = on_drift, every_s, settle_s
        self._ends = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Looks every so often from now on."""
        self._thread = threading.Thread(target=self._run, name="drift", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends with the look that is under way; a training is let go by its owner."""
        self._ends.set()
        if self._thread is not None:
            self._thread.join(timeout=5)

    def _run(self) -> None:
        while not self._ends.wait(self.every_s):
            try:
                self.look()
            except ConflictError as error:  # somebody trains or rolls out: the next look will do
                log.info("drift event=waits reason=%r", str(error))
            except QclimbError as error:
                log.warning("drift event=failed reason=%r", str(error))
            except Exception:
                log.exception("drift event=failed")

    def look(self) -> Json | None:
        """What is found now, also kept; None while no model is in force. Raises what training and rollouts raise."""
        policy = self.store.setting("policy")
        if policy is None or not policy["model_generation"] or policy["mode"] != "qclimb":
            if self.store.setting("drift") is not None:
                self.store.set_setting("drift", None)
            return None
        found = self.store.setting("drift")
        if found is None or found["model"] != policy["model_generation"]:
            nothing: Json = {"since": None, "windows": [], "drifted": None, "tried": None, "offer": None}
            found = {"model": policy["model_generation"], **nothing}
        if found.get("since") is None and self.store.rollout(policy["generation"])["phase"] != Phase.RUNNING.value:
            found["since"] = time.time() + self.settle_s
        since = found.get("since")
        windows = [] if since is None else drift.reported(self.recordings.newest(LEARNED_FLOWS, since)[0])
        was, found["drifted"] = found["drifted"], drift.drifted(windows)
        found["windows"] = [each.to_json() for each in windows]
        self.store.set_setting("drift", found)
        if found["drifted"] and not was:
            log.warning("drift model=%d event=flagged reason=%r", found["model"], found["drifted"])
        if found["drifted"] and self.on_drift is not OnDrift.FLAG and self._due(found):
            self._try(policy, found)
        if found["offer"] and found["offer"]["rollout"] is None and self.on_drift is OnDrift.ROLLOUT:
            found["offer"]["rollout"] = self.runner.start(found["offer"]["revision"], ACTOR)
            self.store.set_setting("drift", found)
        return dict(found)

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
            "trees": old["report"]["trees"],
            "depth": old["report"]["depth"],
            "features": list(old["report"]["importance"]),
            "rival": bytes(old["forest"]),
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
            self.store.add_model(generation, f"drift of {found['model']}", made.report, made.onnx, made.forest)
            revision = self._revised(policy, generation)
            self.store.note(ACTOR, "offer-model", f"{generation} revision {revision}")
            found["offer"] = {"model": generation, "revision": revision, "why": offer["why"], "rollout": None}
        self.store.set_setting("drift", found)

    def _revised(self, policy: Json, generation: int) -> int:
        """The revision in force with another model."""
        document = self.store.revision(self.store.rollout(policy["generation"])["revision"])["document"]
        old = Revision.from_json(document)
        made = Revision(replace(old.policy, model_generation=generation), old.intent)
        return self.store.add_revision(ACTOR, {**document, **made.to_json()})
