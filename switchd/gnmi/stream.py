"""What a STREAM subscription says and when (gNMI specification 3.5.1.5.2), without a clock or a wire of its own.

A subscription becomes one or two `Watched`. SAMPLE tells all its leaves at each interval, with suppress_redundant those
that changed. ON_CHANGE and TARGET_DEFINED tell a leaf when a newer snapshot has another value; counters are in no
snapshot, so those that changed are told every COUNTERS_EVERY_S. A leaf that was told nothing for a heartbeat is told
again.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from math import inf
from typing import Any

from pygnmi.spec.v080 import gnmi_pb2 as pb

from switchd.gnmi.errors import invalid
from switchd.gnmi.model import COUNTERS, counts
from switchd.gnmi.moment import Same
from switchd.gnmi.paths import Place, Step
from switchd.gnmi.schema import Node

Steps = tuple[Step, ...]
Leaves = dict[Steps, tuple[tuple[Node, ...], Any]]
"""by exact steps: the schema nodes on the way, and the JSON value"""

MIN_EVERY_S = 1.0
"""the shortest sample_interval; also what 0 means"""
COUNTERS_EVERY_S = 10.0
NS = 1e-9
Gone = dict[Steps, tuple[Node, ...]]
Once = Callable[[Any, Callable[[], Any]], Any]
"""once(key, make): what others have made with this key, or what `make` makes"""


def each_time(_key: Any, make: Callable[[], Any]) -> Any:
    """For who is alone."""
    return make()


@dataclass(frozen=True)
class Part:
    """One checked subscription of a STREAM.

    every_s      seconds between two samples; None: on change
    heartbeat_s  after which a leaf is told again; None: never
    is_sparse    a sample leaves out what did not change
    """

    place: Place
    every_s: float | None = None
    heartbeat_s: float | None = None
    is_sparse: bool = False


def part_of(one: pb.Subscription, place: Place) -> Part:
    """A subscription as its client wrote it. Raises RpcError INVALID_ARGUMENT naming the path."""
    if one.mode not in pb.SubscriptionMode.values():
        raise invalid(f"{place}: mode is {one.mode}, expected ON_CHANGE, SAMPLE or TARGET_DEFINED")
    heartbeat_s = _interval("heartbeat_interval", one.heartbeat_interval, place) if one.heartbeat_interval else None
    if one.mode == pb.SAMPLE:
        every_s = _interval("sample_interval", one.sample_interval, place) if one.sample_interval else MIN_EVERY_S
        if heartbeat_s is not None and not one.suppress_redundant and heartbeat_s >= every_s:
            heartbeat_s = None  # samples tell all as often
        return Part(place, every_s, heartbeat_s, one.suppress_redundant)
    if one.mode == pb.TARGET_DEFINED and one.sample_interval:
        raise invalid(f"{place}: TARGET_DEFINED with a sample_interval, expected none: the target chooses it")
    return Part(place, None, heartbeat_s)  # of ON_CHANGE the specification gives a sample_interval no meaning


def _interval(what: str, nanoseconds: int, place: Place) -> float:
    if nanoseconds * NS < MIN_EVERY_S:
        raise invalid(f"{place}: {what} is {nanoseconds} ns, expected at least {MIN_EVERY_S / NS:.0f} ns")
    return nanoseconds * NS


@dataclass
class Watched:
    """Leaves of one subscription that are told together: what its client knows, and what is due when.

    counters  True: these alone; False: all but these; None: both
    """

    part: Part
    every_s: float | None
    is_sparse: bool
    counters: bool | None
    known: Leaves = field(default_factory=dict)
    told_at_s: dict[Steps, float] = field(default_factory=dict)
    sample_at_s: float = inf

    @property
    def needs_counters(self) -> bool:
        """Whether counters have to be read for it."""
        return self.counters is not False and counts(self.part.place)

    def begin(self, leaves: Leaves, now_s: float, once: Once = each_time) -> None:
        """The client has been told these."""
        self.known = self._own(leaves, once)
        if self.part.heartbeat_s is not None:
            self.told_at_s = dict.fromkeys(self.known, now_s)
        if self.every_s is not None:
            self.sample_at_s = now_s + self.every_s

    def due_s(self) -> float:
        """When there is something to look at, a newer snapshot apart."""
        heartbeat_s = self.part.heartbeat_s
        beat_s = min(self.told_at_s.values(), default=inf) + heartbeat_s if heartbeat_s is not None else inf
        return min(self.sample_at_s, beat_s)

    def is_due(self, now_s: float, is_newer: bool) -> bool:
        """Whether to look now."""
        return now_s >= self.due_s() or (is_newer and self.every_s is None)

    def put_off(self, now_s: float) -> None:
        """Nothing can be read now: the next try comes with the next interval."""
        if self.every_s is not None:
            self.sample_at_s = now_s + self.every_s
        self.told_at_s = dict.fromkeys(self.told_at_s, now_s)

    def look(self, leaves: Leaves, now_s: float, once: Once = each_time) -> tuple[Leaves, Gone]:
        """What is to be told of these leaves now, and what is gone. Neither may be changed: others may be told it."""
        found, known = self._own(leaves, once), self.known
        is_sample = now_s >= self.sample_at_s
        if is_sample and self.every_s is not None:
            while self.sample_at_s <= now_s:  # samples that were missed are not made up for
                self.sample_at_s += self.every_s
        told, gone = once((Same(known), Same(found)), lambda: difference(known, found))
        kept = found
        if is_sample and not self.is_sparse:
            told = found
        elif not is_sample and self.every_s is not None:  # a heartbeat came between two samples
            told = {steps: leaf for steps, leaf in told.items() if steps not in known}
            kept = {steps: known.get(steps, leaf) for steps, leaf in found.items()}
        if beats := self._beats(found, now_s):
            told = told | {steps: found[steps] for steps in beats}
            kept = kept if kept is found else kept | told
        if self.part.heartbeat_s is not None:
            self.told_at_s = {steps: now_s if steps in told else self.told_at_s[steps] for steps in found}
        self.known = kept
        return told, gone

    def _beats(self, found: Leaves, now_s: float) -> list[Steps]:
        """The leaves that were told nothing for a heartbeat."""
        if self.part.heartbeat_s is None:
            return []
        before_s = now_s - self.part.heartbeat_s
        return [steps for steps, at_s in self.told_at_s.items() if at_s <= before_s and steps in found]

    def _own(self, leaves: Leaves, once: Once) -> Leaves:
        if self.counters is None:
            return leaves
        own: Leaves = once(
            (Same(leaves), self.counters),
            lambda: {at: found for at, found in leaves.items() if is_counter(found[0][-1]) == self.counters},
        )
        return own


def difference(known: Leaves, found: Leaves) -> tuple[Leaves, Gone]:
    """The leaves that are new or have another value, and those that are gone."""
    if known is found:
        return {}, {}
    told = {at: leaf for at, leaf in found.items() if at not in known or known[at][1] != leaf[1]}
    return told, {at: nodes for at, (nodes, _) in known.items() if at not in found}


def is_counter(leaf: Node) -> bool:
    """Whether a leaf counts packets or bytes."""
    return not leaf.config and leaf.name in COUNTERS


def watched(parts: Collection[Part]) -> list[Watched]:
    """What has to be looked at for these subscriptions."""
    found = []
    for part in parts:
        if part.every_s is not None:
            found.append(Watched(part, part.every_s, part.is_sparse, None))
            continue
        found.append(Watched(part, None, True, False))
        if counts(part.place):
            found.append(Watched(part, COUNTERS_EVERY_S, True, True))
    return found


def told_by(due: Iterable[tuple[Watched, Leaves]], now_s: float, once: Once = each_time) -> tuple[Leaves, Gone]:
    """What all that is due tells together of its leaves now: each leaf once. Not to be changed."""
    update: Leaves = {}
    delete: Gone = {}
    for one, leaves in due:
        told, gone = one.look(leaves, now_s, once)
        update = update | told if update and told else update or told
        delete = delete | gone if delete and gone else delete or gone
    return update, delete
