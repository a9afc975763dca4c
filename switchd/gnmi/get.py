"""Get: one Notification a path, in the order asked (gNMI specification 3.3)."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pygnmi.spec.v080 import gnmi_pb2 as pb

from switchd.gnmi.errors import NOT_FOUND, RESOURCE_EXHAUSTED, RpcError, invalid
from switchd.gnmi.extensions import check_fields, extensions_of
from switchd.gnmi.limits import MAX_ANSWER_BYTES, MAX_PATHS, check_count
from switchd.gnmi.model import MODULE, PREFIX, Model, counts
from switchd.gnmi.paths import PLACES_MOST, Place, Step, answer_prefix, raw_text, resolve
from switchd.gnmi.schema import Node
from switchd.gnmi.set import check_models
from switchd.gnmi.tree import Tree, entry_json, instances, shallow, to_json
from switchd.gnmi.values import check_encoding, encoded


@dataclass(frozen=True)
class Asked:
    """A checked GetRequest.

    named    by path, the places that it stands for
    counted  whether counters have to be read for it
    """

    request: pb.GetRequest
    depth: int
    paths: Sequence[pb.Path]
    named: tuple[tuple[Place, ...], ...]
    counted: bool


def checked(model: Model, request: pb.GetRequest) -> Asked:
    """What a request asks for, if it may be asked for at all. Raises RpcError."""
    depth = extensions_of(request, "depth").depth
    check_fields(request)
    check_count(request.path, MAX_PATHS, "paths")
    check_models(request.use_models)
    check_encoding(request.encoding)
    if request.type not in pb.GetRequest.DataType.values():
        raise invalid(f"type is {request.type}, expected ALL, CONFIG, STATE or OPERATIONAL")
    paths = request.path or [pb.Path()]
    named = tuple(resolve(model.root, MODULE, request.prefix, path) for path in paths)
    check_count([place for places in named for place in places], PLACES_MOST, "paths that wildcards stand for")
    counted = request.type != pb.GetRequest.CONFIG and any(counts(place) for places in named for place in places)
    return Asked(request, depth, paths, named, counted)


def answer(model: Model, asked: Asked, data: Tree, check: Callable[[], None]) -> pb.GetResponse:
    """What the request names of the data. Raises RpcError, and what `check` raises between paths."""
    request, depth = asked.request, asked.depth
    prefix = answer_prefix(request.prefix)
    kept = filtered(model.root, data, request.type)
    found, size = [], 0
    for path, places in zip(asked.paths, asked.named, strict=True):
        check()
        updates = [
            pb.Update(
                path=path_of(steps, place.nodes, prefix),
                val=encoded(_json(place.node, shallow(place.node, tree, depth), request.encoding), request.encoding),
            )
            for place in places
            for steps, tree in instances(place, kept)
        ]
        if not updates and len(places) == 1 and places[0].is_exact:
            if places[0].node.kind != "container":
                raise RpcError(NOT_FOUND, f"{places[0]}: nothing there")
            updates = [pb.Update(path=path, val=encoded({}, request.encoding))]
        found.append(pb.Notification(timestamp=time.time_ns(), prefix=prefix, update=updates))
        size += found[-1].ByteSize()
        if size > MAX_ANSWER_BYTES:
            text = f"{raw_text(path.elem)}: the answer is over {MAX_ANSWER_BYTES >> 20} MiB"
            raise RpcError(RESOURCE_EXHAUSTED, f"{text}; ask for fewer paths at once")
    return pb.GetResponse(notification=found)


def filtered(node: Node, tree: Any, kind: int, mirrored: frozenset[str] = frozenset()) -> Any:
    """The part of a tree that a GetRequest's type asks for.

    OPERATIONAL is the state that mirrors no config leaf (`mirrored`).
    """
    if kind == pb.GetRequest.ALL:
        return tree
    result: Tree = {}
    for name, inner in tree.items():
        child = node.children[name]
        if child.is_leaf:
            wanted = child.config == (kind == pb.GetRequest.CONFIG) and name not in mirrored
            below = inner if wanted or name in node.keys else None
        elif child.kind == "list":
            entries = {keys: filtered(child, entry, kind) for keys, entry in inner.items()}
            below = {keys: entry for keys, entry in entries.items() if entry.keys() - set(child.keys)}
        else:
            twin = node.children.get("config") if kind == pb.GetRequest.OPERATIONAL and name == "state" else None
            below = filtered(child, inner, kind, frozenset(twin.children if twin else ()))
        if below is not None and (child.is_leaf or below):
            result[name] = below
    return result


def path_of(steps: tuple[Step, ...], nodes: tuple[Node, ...], prefix: pb.Path) -> pb.Path:
    """Exact steps as a gNMI path, less those that the prefix has already."""
    elems = [
        pb.PathElem(name=step.name, key=dict(zip(node.keys, step.keys or (), strict=False)))
        for step, node in zip(steps, nodes[1:], strict=True)
    ]
    return pb.Path(elem=elems[len(prefix.elem) :])


def _json(node: Node, tree: Any, encoding: int) -> Any:
    ietf = encoding == pb.JSON_IETF
    prefix = PREFIX if ietf else ""
    if node.kind == "list":
        return entry_json(node, tree, prefix, wide_as_text=ietf)
    return to_json(node, tree, prefix, wide_as_text=ietf)
