"""Set: delete, then replace, then update over the configuration (gNMI specification 3.4), or union_replace alone.

The result is validated, planned, and written whole or not at all.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from google.protobuf.message import DecodeError
from pygnmi.spec.v080 import gnmi_pb2 as pb
from qclimb.gnmi_ext import union_replace_of

from switchd.gnmi.errors import NOT_FOUND, UNIMPLEMENTED, RpcError, invalid
from switchd.gnmi.extensions import Extensions, check_fields, extensions_of
from switchd.gnmi.limits import MAX_OPERATIONS, check_count
from switchd.gnmi.model import MODULE, PREFIX, Model
from switchd.gnmi.paths import NAME_WILDCARDS, Place, exact, raw_text, resolve
from switchd.gnmi.tree import Tree, conflict, delete, entry_from_json, from_json, merge, prune
from switchd.gnmi.values import decoded

UNION_REPLACE = 6  # number of SetRequest's field and value of UpdateResult's op in gNMI 0.10, unknown to our stubs
UNION_REPLACED = 4


@dataclass(frozen=True)
class Wanted:
    """A checked SetRequest. `union`: its union_replace."""

    request: pb.SetRequest
    extensions: Extensions
    union: tuple[pb.Update, ...]
    results: tuple[pb.UpdateResult, ...]
    """one an operation, in the order in which they are done"""


def checked(request: pb.SetRequest) -> Wanted:
    """Raises RpcError for a request that asks for what is not supported, or too much, or things that don't fit."""
    extensions = extensions_of(request, "commit", "master_arbitration")
    numbers = check_fields(request, UNION_REPLACE)
    union = tuple(map(_update, union_replace_of(request.SerializeToString()))) if numbers else ()
    results = [pb.UpdateResult(path=path, op=pb.UpdateResult.DELETE) for path in request.delete]
    results += [pb.UpdateResult(path=one.path, op=pb.UpdateResult.REPLACE) for one in request.replace]
    results += [pb.UpdateResult(path=one.path, op=pb.UpdateResult.UPDATE) for one in request.update]
    if union and results:
        raise invalid("union_replace is to be the only operation of a request")
    results += [pb.UpdateResult(path=one.path, op=UNION_REPLACED) for one in union]
    check_count(results, MAX_OPERATIONS, "operations")
    commit = extensions.commit
    if commit is not None and commit.action != "commit" and results:
        raise invalid(f"commit {commit.id!r}: {commit.action} takes no operation beside it")
    return Wanted(request, extensions, union, tuple(results))


def check_models(wanted: Iterable[pb.ModelData]) -> None:
    """Refuse a `use_models` that narrows an answer to a model that is not served; ours is all there is."""
    for one in wanted:
        if one.name != MODULE:
            raise RpcError(UNIMPLEMENTED, f"use_models: {one.name!r} is not served, expected {MODULE!r} or none")


def is_whole(model: Model, wanted: Wanted) -> bool:
    """Whether nothing of the present configuration stays. Raises RpcError naming the path."""
    request = wanted.request
    paths = [*request.delete, *(one.path for one in (*request.replace, *wanted.union))]
    return any(len(place.steps) <= 1 for path in paths for place in _places(model, request.prefix, path))


def change(model: Model, wanted: Wanted, config: Tree, check: Callable[[], None]) -> None:
    """Make the configuration tree what it is after the request.

    Raises RpcError naming the path, and what `check` raises between operations.
    """
    request = wanted.request
    for path in request.delete:
        check()
        for place in _places(model, request.prefix, path):
            delete(place, config)
    for replaces, updates in ((True, request.replace), (False, request.update)):
        for update in updates:
            check()
            place, value = _told(model, request.prefix, update)
            if replaces:
                delete(place, config)
            merge(place, config, value)
    _unite(model, request.prefix, wanted.union, config)
    prune(config)


def _unite(model: Model, prefix: pb.Path, union: Iterable[pb.Update], config: Tree) -> None:
    """union_replace (gnmi-union_replace.md 5.3.2): all that is named goes first, then all values together come.

    Two that say different values of one leaf are a conflict.
    """
    told = [_told(model, prefix, update) for update in union]
    for place, _ in told:
        delete(place, config)
    united: Tree = {}
    for place, value in told:
        own: Tree = {}
        merge(place, own, value)
        if (where := conflict(united, own)) is not None:
            text = "/".join(",".join(name) if isinstance(name, tuple) else name for name in where)
            raise invalid(f"{place}: union_replace tells two values of /{text}")
        merge(_root(model), united, own)
    merge(_root(model), config, united)


def _root(model: Model) -> Place:
    return Place((), (model.root,))


def _told(model: Model, prefix: pb.Path, update: pb.Update) -> tuple[Place, Any]:
    (place, *_) = _places(model, prefix, update.path)
    if any(elem.name in NAME_WILDCARDS for elem in (*prefix.elem, *update.path.elem)):
        raise invalid(f"{raw_text(update.path.elem)}: a replace or an update takes no wildcard")
    exact(place, "a replace or an update")
    return place, _value(place, update.val)


def _update(serialized: bytes) -> pb.Update:
    try:
        return pb.Update.FromString(serialized)
    except DecodeError:  # our stubs passed it over
        raise invalid(f"union_replace: {len(serialized)} bytes can't be parsed as an Update") from None


def _places(model: Model, prefix: pb.Path, path: pb.Path) -> tuple[Place, ...]:
    found = resolve(model.root, MODULE, prefix, path, NOT_FOUND)
    settable = tuple(place for place in found if place.node.config)
    if not settable:
        raise invalid(f"{found[0]} is state, it can't be set")
    return settable


def _value(place: Place, typed: pb.TypedValue) -> Any:
    path = str(place)
    value = decoded(typed, place.node, path)
    if place.node.kind == "list" and (keys := place.steps[-1].keys) is not None:
        return entry_from_json(place.node, value, keys, MODULE, path)[1]
    if isinstance(value, dict) and [name.removeprefix(PREFIX) for name in value] == [place.node.name]:
        (value,) = value.values()  # the container brought along inside the value, as several clients do
    return from_json(place.node, value, MODULE, path)
