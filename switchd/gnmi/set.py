"""Set: delete, then replace, then update over a copy of the configuration (gNMI specification 3.4).

The result is validated, planned, and written whole or not at all.
"""

from collections.abc import Callable, Iterable
from typing import Any

from google.protobuf.unknown_fields import UnknownFieldSet
from pygnmi.spec.v080 import gnmi_pb2 as pb

from switchd.gnmi.errors import NOT_FOUND, UNIMPLEMENTED, RpcError, invalid
from switchd.gnmi.limits import MAX_OPERATIONS, check_count
from switchd.gnmi.model import MODULE, PREFIX, Model
from switchd.gnmi.paths import Place, exact, resolve
from switchd.gnmi.tree import Tree, deleted, entry_from_json, from_json, merged
from switchd.gnmi.values import decoded

UNION_REPLACE = 6  # SetRequest's field number in gNMI 0.10, unknown to our stubs


def check_known(request: Any) -> None:
    """Refuse what would otherwise be ignored in silence: extensions, and fields newer than our stubs."""
    for extension in request.extension:
        unknown = [f"number {field.field_number}" for field in UnknownFieldSet(extension)]
        name = extension.WhichOneof("ext") or ", ".join(unknown) or "without content"
        raise RpcError(UNIMPLEMENTED, f"extension {name} is not supported")
    for field in UnknownFieldSet(request):
        name = "union_replace" if field.field_number == UNION_REPLACE else f"field {field.field_number}"
        raise RpcError(UNIMPLEMENTED, f"{name} of {request.DESCRIPTOR.name} is not supported")


def check_models(wanted: Iterable[pb.ModelData]) -> None:
    """Refuse a `use_models` that narrows an answer to a model that is not served; ours is all there is."""
    for one in wanted:
        if one.name != MODULE:
            raise RpcError(UNIMPLEMENTED, f"use_models: {one.name!r} is not served, expected {MODULE!r} or none")


def changed(model: Model, request: pb.SetRequest, config: Tree, check: Callable[[], None]) -> Tree:
    """The configuration tree after the request.

    Raises RpcError naming the path, and what `check` raises between operations.
    """
    for path in request.delete:
        check()
        config = deleted(_place(model, request.prefix, path), config)
    for replaces, updates in ((True, request.replace), (False, request.update)):
        for update in updates:
            check()
            place = _place(model, request.prefix, update.path)
            exact(place, "a replace or an update")
            value = _value(place, update.val)
            if replaces:
                config = deleted(place, config)
            config = merged(place, config, value)
    return config


def operations(request: pb.SetRequest) -> list[pb.UpdateResult]:
    """The parts of a Set's answer, one an operation in the order they are done; none: nothing is to be changed.

    Raises RpcError for a request that asks for what is not supported, or too much of it.
    """
    check_known(request)
    results = [pb.UpdateResult(path=path, op=pb.UpdateResult.DELETE) for path in request.delete]
    results += [pb.UpdateResult(path=one.path, op=pb.UpdateResult.REPLACE) for one in request.replace]
    results += [pb.UpdateResult(path=one.path, op=pb.UpdateResult.UPDATE) for one in request.update]
    check_count(results, MAX_OPERATIONS, "operations")
    return results


def _place(model: Model, prefix: pb.Path, path: pb.Path) -> Place:
    place = resolve(model.root, MODULE, prefix, path, NOT_FOUND)
    if not place.node.config:
        raise invalid(f"{place} is state, it can't be set")
    return place


def _value(place: Place, typed: pb.TypedValue) -> Any:
    path = str(place)
    value = decoded(typed, place.node, path)
    if place.node.kind == "list":
        return entry_from_json(place.node, value, place.steps[-1].keys, MODULE, path)[1]
    if isinstance(value, dict) and [name.removeprefix(PREFIX) for name in value] == [place.node.name]:
        (value,) = value.values()  # the container brought along inside the value, as several clients do
    return from_json(place.node, value, MODULE, path)
