"""Subscribe: ONCE, POLL and STREAM (gNMI specification 3.5).

Leaf values only, each in an Update of its own. Readers see committed snapshots only.
"""

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from pygnmi.spec.v080 import gnmi_pb2 as pb

from switchd.gnmi.errors import UNIMPLEMENTED, RpcError, invalid
from switchd.gnmi.extensions import check_fields, extensions_of
from switchd.gnmi.get import path_of
from switchd.gnmi.limits import MAX_PATHS, check_count
from switchd.gnmi.model import MODULE, Model
from switchd.gnmi.moment import Moment, Round, Same
from switchd.gnmi.paths import Place, answer_prefix, resolve
from switchd.gnmi.schema import Node
from switchd.gnmi.set import check_models
from switchd.gnmi.stream import Gone, Leaves, Part, Steps, Watched, part_of, told_by, watched
from switchd.gnmi.tree import Tree, instances, leaves, shallow, to_json
from switchd.gnmi.values import check_encoding, encoded

SYNCED = bytes(pb.SubscribeResponse(sync_response=True).SerializeToString())


@dataclass(frozen=True)
class Subscription:
    """A checked SubscriptionList."""

    places: tuple[Place, ...]
    prefix: pb.Path
    encoding: int
    mode: int
    updates_only: bool
    parts: tuple[Part, ...] = ()
    """of a STREAM"""
    depth: int = 0


def checked(model: Model, request: pb.SubscribeRequest) -> Subscription:
    """The first message of a stream. Raises RpcError."""
    depth = extensions_of(request, "depth").depth
    check_fields(request)
    if request.WhichOneof("request") != "subscribe":
        raise invalid("the first message of Subscribe must be a SubscriptionList")
    wanted = request.subscribe
    check_models(wanted.use_models)
    check_encoding(wanted.encoding)
    if wanted.mode not in pb.SubscriptionList.Mode.values():
        raise invalid(f"mode is {wanted.mode}, expected STREAM, ONCE or POLL")
    if not wanted.subscription:
        raise invalid("a SubscriptionList without a subscription")
    check_count(wanted.subscription, MAX_PATHS, "subscriptions")
    if wanted.use_aliases:
        raise RpcError(UNIMPLEMENTED, "use_aliases is not supported")
    named = [
        (one, place) for one in wanted.subscription for place in resolve(model.root, MODULE, wanted.prefix, one.path)
    ]
    check_count(named, MAX_PATHS, "paths that wildcards stand for")
    parts: tuple[Part, ...] = ()
    if wanted.mode == pb.SubscriptionList.STREAM:
        parts = tuple(part_of(one, place) for one, place in named)
    places = tuple(place for _, place in named)
    prefix = answer_prefix(wanted.prefix)
    return Subscription(places, prefix, wanted.encoding, wanted.mode, wanted.updates_only, parts, depth)


def leaves_of(model: Model, places: tuple[Place, ...], data: Tree, wide_as_text: bool, depth: int = 0) -> Leaves:
    """The leaves that the paths cover, at most `depth` levels below them; 0: all."""
    found: Leaves = {}
    for place in places:
        for steps, tree in instances(place, data):
            for tail, leaf, value in leaves(place.node, shallow(place.node, tree, depth)):
                exact = (*steps, *tail)
                found[exact] = (_nodes(model.root, exact), to_json(leaf, value, wide_as_text=wide_as_text))
    return found


def _nodes(root: Node, steps: Steps) -> tuple[Node, ...]:
    nodes = [root]
    for step in steps:
        nodes.append(nodes[-1].children[step.name])
    return tuple(nodes)


def notification(update: Leaves, delete: Gone, wanted: Subscription) -> bytes:
    """One message with these."""
    prefix = wanted.prefix
    updates = [
        pb.Update(path=path_of(steps, nodes, prefix), val=encoded(value, wanted.encoding))
        for steps, (nodes, value) in update.items()
    ]
    deletes = [path_of(steps, nodes, prefix) for steps, nodes in delete.items()]
    told = pb.Notification(timestamp=time.time_ns(), prefix=prefix, update=updates, delete=deletes)
    return bytes(pb.SubscribeResponse(update=told).SerializeToString())


def initial(model: Model, wanted: Subscription, moment: Moment) -> list[bytes]:
    """The messages that tell the state now: everything, then exactly one sync_response."""
    found: Leaves = {}
    for place in () if wanted.updates_only else wanted.places:
        found |= _shared(model, wanted, place, moment)
    return [*([notification(found, {}, wanted)] if found else []), SYNCED]


def _shared(model: Model, wanted: Subscription, place: Place, moment: Moment) -> Leaves:
    """The leaves of one path, the same object for all who ask for them as this one does."""
    as_text, depth = wanted.encoding == pb.JSON_IETF, wanted.depth
    return moment.once((place.steps, as_text, depth), lambda: leaves_of(model, (place,), moment.tree, as_text, depth))


class Telling:
    """What one STREAM has told its client, and tells next; no clock or wire of its own.

    Streams with the same `Round` tell the same things in the same bytes.
    """

    def __init__(self, model: Model, wanted: Subscription, round: Round) -> None:
        self._model, self._wanted, self._round = model, wanted, round
        self._watch = watched(wanted.parts)
        self._wire = (wanted.encoding, wanted.prefix.SerializeToString(deterministic=True))
        self._whole = (self._wire, wanted.depth, wanted.updates_only, *(place.steps for place in wanted.places))
        self.version = -1
        """of the snapshot that it told last"""

    @property
    def needs_counters(self) -> bool:
        """Whether what it tells first has counters."""
        return any(one.needs_counters for one in self._watch)

    def begin(self, moment: Moment, now_s: float) -> list[bytes]:
        """The first messages."""
        self.version = moment.snapshot.version
        for one in self._watch:
            one.begin(self._leaves(one, moment), now_s, partial(self._round.once, now_s))
        key = (self._whole, Same(moment))
        messages: list[bytes] = self._round.once(now_s, key, lambda: initial(self._model, self._wanted, moment))
        return messages

    def due_s(self) -> float:
        """When there is something to look at, a newer snapshot apart."""
        return min(one.due_s() for one in self._watch)

    def due(self, version: int, now_s: float) -> list[Watched]:
        """What is to be looked at now, that being the version of the snapshot that is there."""
        return [one for one in self._watch if one.is_due(now_s, version != self.version)]

    def tell(self, due: Iterable[Watched], moments: Mapping[bool, Moment], now_s: float) -> list[bytes]:
        """The messages about what is due, none if nothing has to be told.

        moments  without (False) and with counters (True); where the latter is not there, it couldn't be read
        """
        once, looked = partial(self._round.once, now_s), []
        for one in due:
            if (moment := moments.get(one.needs_counters)) is None:
                one.put_off(now_s)
            else:
                looked.append((one, self._leaves(one, moment)))
        update, delete = told_by(looked, now_s, once)
        if not (update or delete):
            return []
        key = (self._wire, Same(update), Same(delete))
        message: bytes = once(key, lambda: notification(update, delete, self._wanted))
        return [message]

    def _leaves(self, one: Watched, moment: Moment) -> Leaves:
        return _shared(self._model, self._wanted, one.part.place, moment)
