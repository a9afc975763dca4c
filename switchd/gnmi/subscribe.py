"""Subscribe: ONCE, POLL, and STREAM by ON_CHANGE (gNMI specification 3.5).

Leaf values only, each in an Update of its own.
TARGET_DEFINED means ON_CHANGE here; SAMPLE is refused by name. Readers see committed snapshots only.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from pygnmi.spec.v080 import gnmi_pb2 as pb

from switchd.board import Snapshot
from switchd.gnmi.errors import UNIMPLEMENTED, RpcError, invalid
from switchd.gnmi.get import path_of
from switchd.gnmi.limits import MAX_PATHS, check_count
from switchd.gnmi.model import MODULE, Model
from switchd.gnmi.paths import Place, Step, resolve
from switchd.gnmi.schema import Node
from switchd.gnmi.set import check_known, check_models
from switchd.gnmi.tree import Tree, instances, leaves, to_json
from switchd.gnmi.values import check_encoding, encoded

Steps = tuple[Step, ...]
Leaves = dict[Steps, tuple[tuple[Node, ...], Any]]
"""by exact steps: the schema nodes on the way, and the JSON value"""


@dataclass(frozen=True)
class Subscription:
    """A checked SubscriptionList."""

    places: tuple[Place, ...]
    prefix: pb.Path
    encoding: int
    mode: int
    updates_only: bool


def checked(model: Model, request: pb.SubscribeRequest) -> Subscription:
    """The first message of a stream. Raises RpcError."""
    check_known(request)
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
    places = []
    for one in wanted.subscription:
        place = resolve(model.root, MODULE, wanted.prefix, one.path)
        if wanted.mode == pb.SubscriptionList.STREAM:
            _check_stream(one, str(place))
        places.append(place)
    return Subscription(tuple(places), wanted.prefix, wanted.encoding, wanted.mode, wanted.updates_only)


def _check_stream(one: pb.Subscription, path: str) -> None:
    if one.mode not in pb.SubscriptionMode.values():
        raise invalid(f"{path}: mode is {one.mode}, expected ON_CHANGE or TARGET_DEFINED")
    if one.mode == pb.SAMPLE:
        raise RpcError(UNIMPLEMENTED, f"{path}: SAMPLE is not supported yet, expected ON_CHANGE or TARGET_DEFINED")
    if one.sample_interval:
        raise invalid(f"{path}: a sample_interval without SAMPLE")
    if one.heartbeat_interval:
        raise RpcError(UNIMPLEMENTED, f"{path}: heartbeat_interval is not supported yet")


def leaves_of(model: Model, places: tuple[Place, ...], data: Tree, wide_as_text: bool) -> Leaves:
    """The leaves that the paths cover."""
    found: Leaves = {}
    for place in places:
        for steps, tree in instances(place, data):
            for tail, leaf, value in leaves(place.node, tree):
                exact = (*steps, *tail)
                found[exact] = (_nodes(model.root, exact), to_json(leaf, value, wide_as_text=wide_as_text))
    return found


def _nodes(root: Node, steps: Steps) -> tuple[Node, ...]:
    nodes = [root]
    for step in steps:
        nodes.append(nodes[-1].children[step.name])
    return tuple(nodes)


def difference(before: Leaves, after: Leaves, wanted: Subscription) -> pb.Notification | None:
    """One Notification of what changed, None if nothing did."""
    prefix = wanted.prefix
    delete = [path_of(steps, nodes, prefix) for steps, (nodes, _) in before.items() if steps not in after]
    update = [
        pb.Update(path=path_of(steps, nodes, prefix), val=encoded(value, wanted.encoding))
        for steps, (nodes, value) in after.items()
        if steps not in before or before[steps][1] != value
    ]
    if not delete and not update:
        return None
    return pb.Notification(timestamp=time.time_ns(), prefix=prefix, update=update, delete=delete)


def initial(model: Model, wanted: Subscription, data: Tree) -> tuple[Leaves, list[pb.SubscribeResponse]]:
    """The state now, and the messages that tell it: everything, then exactly one sync_response."""
    now = leaves_of(model, wanted.places, data, wanted.encoding == pb.JSON_IETF)
    first = None if wanted.updates_only else difference({}, now, wanted)
    messages = [pb.SubscribeResponse(update=first)] if first else []
    return now, [*messages, pb.SubscribeResponse(sync_response=True)]


def stream(
    model: Model, wanted: Subscription, first: Snapshot, newer: Callable[[int], Snapshot], active: Callable[[], bool]
) -> Iterator[pb.SubscribeResponse]:
    """ON_CHANGE until the client is gone, without counters. `newer(version)` waits for a snapshot past `version`."""
    known, messages = initial(model, wanted, model.data(first))
    yield from messages
    version = first.version
    while active():
        snapshot = newer(version)
        if snapshot.version == version:
            continue
        version = snapshot.version
        now = leaves_of(model, wanted.places, model.data(snapshot), wanted.encoding == pb.JSON_IETF)
        change = difference(known, now, wanted)
        known = now
        if change:
            yield pb.SubscribeResponse(update=change)
