"""What a STREAM subscription says and when (gNMI specification 3.5.1.5.2), without a clock or a wire of its own.

A subscription becomes one or two `Watched`. SAMPLE tells all its leaves at each interval, with suppress_redundant those
that changed. ON_CHANGE and TARGET_DEFINED tell a leaf when a newer snapshot has another value; counters are in no
snapshot, so those that changed are told every COUNTERS_EVERY_S. A leaf that was told nothing for a heartbeat is told
again.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from math import inf
from typing import Any

from pygnmi.spec.v080 import gnmi_pb2 as pb

from switchd.gnmi.errors import invalid
from switchd.gnmi.model import COUNTERS, counts
from switchd.gnmi.paths import Place, Step
from switchd.gnmi.schema import Node

Steps = tuple[Step, ...]
Leaves = dict[Steps, tuple[tuple[Node, ...], Any]]
"""by exact steps: the schema nodes on the way, and the JSON value"""

MIN_EVERY_S = 1.0
"""the shortest sample_interval; also what 0 means"""
COUNTERS_EVERY_S = 10.0
NS = 1e-9


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
        return Part(place, every_s, heartbeat_s if one.suppress_redundant else None, one.suppress_redundant)
    if one.sample_interval:
        raise invalid(f"{place}: a sample_interval without SAMPLE")
    return Part(place, None, heartbeat_s)


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

    def begin(self, leaves: Leaves, now_s: float) -> None:
        """The client has been told these."""
        self.known = self._own(leaves)
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

    def look(self, leaves: Leaves, now_s: float) -> tuple[Leaves, list[tuple[Steps, tuple[Node, ...]]]]:
        """What is to be told of these leaves now, and what is gone."""
        found = self._own(leaves)
        is_sample = now_s >= self.sample_at_s
        if is_sample and self.every_s is not None:
            while self.sample_at_s <= now_s:  # samples that were missed are not made up for
                self.sample_at_s += self.every_s
        told = {
            steps: (nodes, value)
            for steps, (nodes, value) in found.items()
            if (is_sample and not self.is_sparse) or self._is_due(steps, value, now_s, is_sample)
        }
        gone = [(steps, nodes) for steps, (nodes, _) in self.known.items() if steps not in found]
        self.told_at_s = {steps: now_s if steps in told else self.told_at_s[steps] for steps in found}
        self.known = {steps: told.get(steps) or self.known[steps] for steps in found}
        return told, gone

    def _is_due(self, steps: Steps, value: Any, now_s: float, is_sample: bool) -> bool:
        before = self.known.get(steps)
        if before is None:
            return True
        if (is_sample or self.every_s is None) and before[1] != value:
            return True
        return self.part.heartbeat_s is not None and now_s >= self.told_at_s[steps] + self.part.heartbeat_s

    def _own(self, leaves: Leaves) -> Leaves:
        if self.counters is None:
            return leaves
        return {at: found for at, found in leaves.items() if is_counter(found[0][-1]) == self.counters}


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


def told_by(due: Iterable[tuple[Watched, Leaves]], now_s: float) -> tuple[Leaves, dict[Steps, tuple[Node, ...]]]:
    """What all that is due tells together of its leaves now: each leaf once."""
    update: Leaves = {}
    delete: dict[Steps, tuple[Node, ...]] = {}
    for one, leaves in due:
        told, gone = one.look(leaves, now_s)
        update |= told
        delete |= gone
    return update, delete
