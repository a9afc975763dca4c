"""Subscribe: ONCE, POLL and STREAM (gNMI specification 3.5).

Leaf values only, each in an Update of its own. Readers see committed snapshots only.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from pygnmi.spec.v080 import gnmi_pb2 as pb

from switchd.board import Snapshot
from switchd.db import DatabaseLost
from switchd.gnmi.errors import UNIMPLEMENTED, RpcError, invalid
from switchd.gnmi.extensions import check_fields, extensions_of
from switchd.gnmi.get import path_of
from switchd.gnmi.limits import MAX_PATHS, check_count
from switchd.gnmi.model import MODULE, Model
from switchd.gnmi.paths import Place, answer_prefix, resolve
from switchd.gnmi.schema import Node
from switchd.gnmi.set import check_models
from switchd.gnmi.stream import Leaves, Part, Steps, part_of, told_by, watched
from switchd.gnmi.tree import Tree, instances, leaves, shallow, to_json
from switchd.gnmi.values import check_encoding, encoded


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


def notification(
    update: Leaves, delete: Mapping[Steps, tuple[Node, ...]], wanted: Subscription
) -> Iterator[pb.SubscribeResponse]:
    """One message with these, none if there is nothing."""
    prefix = wanted.prefix
    if update or delete:
        updates = [
            pb.Update(path=path_of(steps, nodes, prefix), val=encoded(value, wanted.encoding))
            for steps, (nodes, value) in update.items()
        ]
        deletes = [path_of(steps, nodes, prefix) for steps, nodes in delete.items()]
        told = pb.Notification(timestamp=time.time_ns(), prefix=prefix, update=updates, delete=deletes)
        yield pb.SubscribeResponse(update=told)


def initial(model: Model, wanted: Subscription, data: Tree) -> Iterator[pb.SubscribeResponse]:
    """The messages that tell the state now: everything, then exactly one sync_response."""
    if not wanted.updates_only:
        yield from notification(
            leaves_of(model, wanted.places, data, wanted.encoding == pb.JSON_IETF, wanted.depth), {}, wanted
        )
    yield pb.SubscribeResponse(sync_response=True)


def stream(
    model: Model,
    wanted: Subscription,
    first: Snapshot,
    newer: Callable[[int, float], Snapshot],
    read: Callable[[Snapshot, bool], Tree],
    active: Callable[[], bool],
) -> Iterator[pb.SubscribeResponse]:
    """What the client wanted, until it is gone.

    newer(version, seconds)   waits so long for a snapshot past `version`, and answers the one that is there
    read(snapshot, counted)   its data, with counters
    """
    watch, version = watched(wanted.parts), first.version
    data = read(first, any(one.needs_counters for one in watch))

    def told(place: Place, data: Tree) -> Leaves:
        as_text, depth = wanted.encoding == pb.JSON_IETF, wanted.depth
        key = (place.steps, as_text, depth)
        return model.shared(key, data, lambda: leaves_of(model, (place,), data, as_text, depth))

    for one in watch:
        one.begin(told(one.part.place, data), time.monotonic())
    yield from initial(model, wanted, data)
    while active():
        left_s = min(one.due_s() for one in watch) - time.monotonic()
        snapshot = newer(version, max(left_s, 0.0))
        now_s, is_newer = time.monotonic(), snapshot.version != version
        version = snapshot.version
        due = [one for one in watch if one.is_due(now_s, is_newer)]
        try:
            data_of = {counted: read(snapshot, counted) for counted in {one.needs_counters for one in due}}
        except DatabaseLost:  # counters can't be read: what needs none goes on
            for one in due:
                if one.needs_counters:
                    one.put_off(now_s)
            data_of = {False: read(snapshot, False)}
        looked = [
            (one, told(one.part.place, data_of[one.needs_counters])) for one in due if one.needs_counters in data_of
        ]
        yield from notification(*told_by(looked, now_s), wanted)
