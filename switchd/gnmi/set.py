"""Set: delete, then replace, then update over a copy of the configuration (gNMI specification 3.4).

The result is validated, planned, and written whole or not at all.
"""

import time
from collections.abc import Iterable
from typing import Any

from google.protobuf.unknown_fields import UnknownFieldSet
from pygnmi.spec.v080 import gnmi_pb2 as pb
from qclimb.intent import SwitchIntent

from switchd.gnmi.errors import NOT_FOUND, UNIMPLEMENTED, RpcError, invalid
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


def changed(model: Model, request: pb.SetRequest, config: Tree) -> tuple[Tree, list[pb.UpdateResult]]:
    """The configuration tree after the request, and the answer's parts. Raises RpcError naming the path."""
    results = []
    for path in request.delete:
        config = deleted(_place(model, request.prefix, path), config)
        results.append(pb.UpdateResult(path=path, op=pb.UpdateResult.DELETE))
    for op, updates in ((pb.UpdateResult.REPLACE, request.replace), (pb.UpdateResult.UPDATE, request.update)):
        for update in updates:
            place = _place(model, request.prefix, update.path)
            exact(place, "a replace or an update")
            value = _value(place, update.val)
            if op == pb.UpdateResult.REPLACE:
                config = deleted(place, config)
            config = merged(place, config, value)
            results.append(pb.UpdateResult(path=update.path, op=op))
    return config, results


def requested(model: Model, request: pb.SetRequest, config: Tree) -> tuple[SwitchIntent | None, pb.SetResponse]:
    """The intent that the request asks for, over `config`, and the answer to give once it is committed.

    Raises RpcError.
    """
    check_known(request)
    tree, results = changed(model, request, config)
    response = pb.SetResponse(prefix=request.prefix, response=results, timestamp=time.time_ns())
    return model.intent(tree), response


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
