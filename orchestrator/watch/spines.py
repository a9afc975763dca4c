"""Looks at leaves' spines; brings a revision for those that are up into force, and one for all when they are back.

One look at a time, in a thread of its own: each leaf's state by gNMI, over a session that stays open. A spine that a
leaf can't reach for `down_after_s` is left out: the wish of the revision in force (plan.paths) is decided anew for the
others, and rolled out as an operator's revision is. It is taken in again once every leaf reaches it for `up_after_s`,
which is longer, so that a link that comes and goes is left alone. Until the switches have it, those that lost a spine
let its priorities travel balanced by themselves.

A leaf that does not answer has no say, and where no spine is left nothing is changed. What could not be rolled out is
tried again after `RETRY_S`, sooner if other spines are up by then.
"""

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from qclimb.histogram import SizeHistogram
from qclimb.intent import BALANCED, SwitchIntent
from qclimb.switch_state import SwitchState

from ..actors import Actor
from ..defaults import SPINE_DOWN_S, SPINE_UP_S, SPINES_EVERY_S
from ..errors import FleetError
from ..fabric.attempts import AT_ONCE, attempt_each
from ..fabric.rollout import Phase
from ..fabric.runner import Runner
from ..fabric.switches import Fleet
from ..ingest.recordings import Recordings
from ..plan.health import Health, check_names, check_up, reached
from ..plan.paths import Wish
from ..plan.revision import Revision, adapted
from ..store.generations import number_of
from ..store.store import Store
from .looking import Looking

log = logging.getLogger(__name__)

Json = dict[str, Any]

RETRY_S = 60.0
IDLE_S = 5.0
"""Between looks while the revision in force has one path: they tell new revisions which spines there are."""


@dataclass(frozen=True)
class Seen:
    """What a leaf told last, and when (s since 1970); `error`: why it told nothing now."""

    at: float
    state: SwitchState | None
    error: str | None = None


class SpineWatch(Looking):
    """Keeps in memory what leaves tell; what is in use is the revision in force."""

    name = "spines"

    def __init__(
        self,
        store: Store,
        recordings: Recordings,
        runner: Runner,
        fleet: Fleet,
        every_s: float = SPINES_EVERY_S,
        down_after_s: float = SPINE_DOWN_S,
        up_after_s: float = SPINE_UP_S,
        observe: Callable[[Mapping[str, SwitchState], frozenset[str]], None] = lambda leaves, down: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`observe`: takes what leaves told, and which spines are held to be down. `clock`: s, nobody sets it."""
        super().__init__(every_s)
        self.store, self.recordings, self.runner, self.fleet = store, recordings, runner, fleet
        self.down_after_s, self.up_after_s = down_after_s, up_after_s
        self.seen: dict[str, Seen] = {}
        self.health: Health | None = None
        self.waits: str | None = None
        self._observe, self._clock = observe, clock
        self._follows = True
        self._tried: tuple[tuple[str, ...], float] | None = None

    def wait_s(self) -> float:
        """Until the next look: soon after the start, and while there is a revision to follow."""
        return self.every_s if self._follows else max(self.every_s, IDLE_S)

    @property
    def down(self) -> frozenset[str]:
        """The spines that are held to be down."""
        return frozenset() if self.health is None else self.health.down

    @property
    def leaves(self) -> dict[str, SwitchState]:
        """What the leaves that answered at the last look told."""
        return {name: seen.state for name, seen in self.seen.items() if seen.state is not None}

    def check_new(self, document: Json) -> None:
        """Refuses a revision whose spines the fabric does not have. ConflictError."""
        made = Revision.from_json(document)
        pinned = sum(each.path != BALANCED for each in made.intent.classes)
        if pinned:
            check_names(made.intent.spines, pinned, self.leaves)

    def check_rollout(self, revision_id: int) -> None:
        """Refuses to roll out what pins classes to spines that are down now. ConflictError, MissingError."""
        check_up(Revision.from_json(self.store.revision(revision_id).document), self.leaves)

    def look(self) -> None:
        """Asks all leaves; begins a rollout where other spines are to be used. Raises what rollouts raise."""
        in_force = self._in_force()
        wish = None if in_force is None else Wish.from_json(in_force["spines"]["wish"])
        names, self._follows = () if wish is None else wish.names, wish is not None
        self._ask()
        if self.health is None:  # a process before this one left them out: they are not back until seen for long
            self.health = Health(frozenset(names) - frozenset(() if in_force is None else in_force["spines"]["names"]))
        self.health = self.health.after(
            names, reached(names, self.leaves), self._clock(), self.down_after_s, self.up_after_s
        )
        self._observe(self.leaves, self.down)
        if in_force is not None and wish is not None:
            self._follow(in_force, wish)
        else:
            self.waits = None

    def _ask(self) -> None:
        leaves = {name: switch for name, switch in self.store.switches().items() if switch.role == "leaf"}
        self.fleet.keep_sessions(leaves.values())
        asked = attempt_each(leaves, self.fleet.state, AT_ONCE)
        self.seen = {
            name: Seen(time.time(), None, str(found)) if isinstance(found, FleetError) else Seen(time.time(), found)
            for name, found in asked.items()
        }

    def _in_force(self) -> Json | None:
        """The document of the revision in force, where it is of several spines."""
        policy = self.store.setting("policy")
        if policy is None:
            return None
        document = self.store.revision(self.store.rollout(number_of(policy["generation"])).revision).document
        return document if document.get("spines") else None

    def _follow(self, in_force: Json, wish: Wish) -> None:
        """Rolls out what is to be, where that is something else."""
        wanted = tuple(name for name in wish.names if name not in self.down)
        if wanted == tuple(in_force["spines"]["names"]):
            self._tried = self.waits = None
            return
        if not wanted:
            self._say("all spines are down")
            return
        if self.store.off is not None:
            self._say(f"hosts are switched off by {self.store.off.by}")
            return
        if self.runner.running is not None:
            self._say(f"rollout {self.runner.running} is running")
            return
        if self._tried is not None and self._tried[0] == wanted and self._clock() - self._tried[1] < RETRY_S:
            last = self.store.last_rollout()
            if last is not None and last.phase != Phase.DONE.value:
                self._say(f"rollout {last.id} for spines {', '.join(wanted)} ended as {last.phase}")
            return
        self._tried = (wanted, self._clock())
        self._roll_out(in_force, wish, wanted)

    def _roll_out(self, in_force: Json, wish: Wish, wanted: tuple[str, ...]) -> None:
        sizes, light = self.recordings.weighed(wish.label) if wish.needs_sizes else (SizeHistogram(), {})
        document = adapted(in_force, wanted, sizes, light)
        away = {name for name, each in self.store.switches().items() if each.role == "spine"} & self.down
        with self.store.writing():
            revision = self.store.add_revision(Actor.SPINES, document)
            self.store.note(Actor.SPINES, "use-spines", f"{', '.join(wanted)} revision {revision}")
        number = self.runner.start(revision, Actor.SPINES, without=away)
        self.waits = None
        out = ", ".join(sorted(self.down)) or "none"
        log.warning("spines used=%r left-out=%r event=rolled-out rollout=%d", ", ".join(wanted), out, number)

    def _say(self, why: str) -> None:
        if self.waits != why:
            log.warning("spines down=%r event=waits reason=%r", ", ".join(sorted(self.down)), why)
        self.waits = why

    def told(self) -> Json:
        """For REST: by spine what is used and what each leaf tells of it; by leaf what else it tells."""
        in_force = self._in_force()
        spined = None if in_force is None else in_force["spines"]
        intent = None if in_force is None else Revision.from_json(in_force).intent
        wished = [] if spined is None else list(spined["wish"]["names"])
        known = {name for state in self.leaves.values() for name in state.spines}
        return {
            "wished": wished,
            "used": [] if spined is None else spined["names"],
            "waits": self.waits,
            "spines": {name: self._told_of(name, intent) for name in [*wished, *sorted(known - set(wished))]},
            "leaves": {name: _told_by(seen) for name, seen in self.seen.items()},
        }

    def _told_of(self, name: str, intent: SwitchIntent | None) -> Json:
        weights = None if intent is None or intent.path_weights is None else intent.path_weights.share
        classes = [] if intent is None else [each.priority for each in intent.classes if each.path == name]
        return {
            "down": name in self.down,
            "share": None if weights is None else weights.get(name),
            "priorities": classes,
            "leaves": {
                leaf: {key: value for key, value in asdict(state.spines[name]).items() if key != "name"}
                for leaf, state in self.leaves.items()
                if name in state.spines
            },
        }


def _told_by(seen: Seen) -> Json:
    state = seen.state or SwitchState()
    told = {"path_backend": state.path_backend, "pinned_classes_max": state.pinned_classes_max}
    return {"seen_at": seen.at, "error": seen.error, **told}
