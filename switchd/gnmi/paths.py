"""gNMI paths as tuples of steps, checked against the schema.

Rules (gNMI specification 2.2.2, 2.4): origins '', openconfig, rfc7951, qclimb; not in both prefix and
path; `element` (deprecated) is ignored beside `elem`; an element may carry the module's prefix; absolute path =
prefix + path. `*` stands for any one name or key, `...` for any names, also none.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from qclimb.checks import shown

from switchd.gnmi.errors import NOT_FOUND, RpcError, invalid
from switchd.gnmi.schema import NARROW, WIDE, Node

ORIGINS = frozenset({"", "openconfig", "rfc7951", "qclimb"})
ANY = "*"
DEEP = "..."
NAME_WILDCARDS = frozenset({ANY, DEEP})
PLACES_MOST = 1024
"""that one path with wildcards may stand for"""
WHOLE = re.compile(r"-?[0-9]{1,20}")
"""A whole number as text: ASCII digits (str.isdecimal takes every script's), no more than 64 bits have."""


@dataclass(frozen=True)
class Step:
    """One element: a schema node's name, and for a list the key values in schema order; None: no key given."""

    name: str
    keys: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Place:
    """A resolved path: its steps and the schema node that it ends at."""

    steps: tuple[Step, ...]
    nodes: tuple[Node, ...]
    """root first, one more than steps"""

    @property
    def node(self) -> Node:
        """Where the path ends."""
        return self.nodes[-1]

    @property
    def is_exact(self) -> bool:
        """Whether it names one instance: every list has all its keys, none a wildcard."""
        return all(
            node.kind != "list" or (step.keys is not None and ANY not in step.keys)
            for step, node in zip(self.steps, self.nodes[1:], strict=True)
        )

    def __str__(self) -> str:
        return text_of(self.steps, self.nodes)


def text_of(steps: Iterable[Step], nodes: tuple[Node, ...]) -> str:
    """`/qclimb/classes/class[priority=0]/config`."""
    parts = []
    for step, node in zip(steps, nodes[1:], strict=True):
        keys = "".join(f"[{name}={value}]" for name, value in zip(node.keys, step.keys or (), strict=False))
        parts.append(f"/{step.name}{keys}")
    return "".join(parts) or "/"


def raw_text(elems: Iterable[Any]) -> str:
    """A path as the client wrote it, for messages about paths that resolve to nothing."""
    return "".join(f"/{e.name}" + "".join(f"[{k}={v}]" for k, v in sorted(e.key.items())) for e in elems) or "/"


def resolve(root: Node, module: str, prefix: Any, path: Any, unknown: Any = None) -> tuple[Place, ...]:
    """Walk prefix + path (gnmi_pb2.Path): one place, or those that wildcards for names stand for, in schema order.

    Raises RpcError: INVALID_ARGUMENT, or `unknown` (a status code) for a name not in the schema.
    """
    check_origin(prefix, path)
    for one in (prefix, path):
        if one.element and not one.elem:
            raise invalid(
                f"path element {'/'.join(one.element)!r}: the deprecated field 'element' is not supported, use 'elem'"
            )
    elems = [*prefix.elem, *path.elem]
    names = [elem.name.removeprefix(f"{module}:") for elem in elems]
    if not NAME_WILDCARDS.intersection(names):
        return (_walked(root, elems, names, unknown),)
    if names.count(DEEP) > 1:
        raise invalid(f"{raw_text(elems)}: {DEEP!r} is there {names.count(DEEP)} times, expected once at most")
    found = {place.steps: place for place in _matches(Place((), (root,)), elems, names)}
    places = [place for steps, place in found.items() if not any(steps[:above] in found for above in range(len(steps)))]
    if not places:
        raise RpcError(unknown or invalid("").code, f"{raw_text(elems)}: no name in the schema is like that")
    if len(places) > PLACES_MOST:
        raise invalid(f"{raw_text(elems)}: stands for {len(places)} paths, expected at most {PLACES_MOST}")
    return tuple(places)


def _walked(root: Node, elems: list[Any], names: list[str], unknown: Any) -> Place:
    steps: list[Step] = []
    nodes = [root]
    for elem, name in zip(elems, names, strict=True):
        child = nodes[-1].children.get(name)
        if child is None:
            raise RpcError(
                unknown or invalid("").code,
                f"{raw_text(elems)}: no {elem.name!r} under {_here(steps, nodes)} in the schema",
            )
        steps.append(Step(name, _keys(child, elem, elems)))
        nodes.append(child)
    return Place(tuple(steps), tuple(nodes))


def _matches(done: Place, elems: list[Any], names: list[str]) -> Iterator[Place]:
    """The places below one that the rest of a path names."""
    if not names:
        yield done
        return
    if names[0] == DEEP:
        yield from _matches(done, elems[1:], names[1:])
    for name, child in done.node.children.items():
        if names[0] == DEEP:
            yield from _matches(_below(done, Step(name), child), elems, names)
        elif (names[0] == ANY and set(elems[0].key) <= set(child.keys)) or names[0] == name:
            keys = _keys(child, elems[0], elems)
            yield from _matches(_below(done, Step(name, keys), child), elems[1:], names[1:])


def _below(place: Place, step: Step, node: Node) -> Place:
    return Place((*place.steps, step), (*place.nodes, node))


def answer_prefix(prefix: Any) -> Any:
    """The prefix of an answer: the request's (gnmi_pb2.Path) as far as it has no wildcard.

    What several instances have in common goes before their paths; in an answer no path may name several.
    """
    for index, elem in enumerate(prefix.elem):
        if elem.name in NAME_WILDCARDS or ANY in elem.key.values():
            told = type(prefix)()
            told.CopyFrom(prefix)
            del told.elem[index:]
            return told
    return prefix


def check_origin(prefix: Any, path: Any) -> None:
    """Refuse an origin that is not ours, and one in both places."""
    if prefix.origin and path.origin:
        raise invalid(f"{raw_text(path.elem)}: an origin in both prefix ({prefix.origin!r}) and path ({path.origin!r})")
    origin = prefix.origin or path.origin
    if origin not in ORIGINS:
        raise invalid(
            f"{raw_text(path.elem)}: origin {origin!r} is not known here, expected none or one of "
            + ", ".join(sorted(ORIGINS - {""}))
        )


def _keys(node: Node, elem: Any, elems: list[Any]) -> tuple[str, ...] | None:
    if node.kind != "list":
        if elem.key:
            raise invalid(f"{raw_text(elems)}: {elem.name!r} is no list, it takes no key")
        return None
    if not elem.key:
        return None
    given = {name.partition(":")[2] or name: value for name, value in elem.key.items()}
    if len(given) != len(elem.key) or set(given) != set(node.keys):
        raise invalid(
            f"{raw_text(elems)}: list {elem.name!r} has keys {', '.join(node.keys)}, got {', '.join(sorted(elem.key))}"
        )
    return tuple(canonical_key(node.children[name], given[name]) for name in node.keys)


def canonical_key(leaf: Node, value: Any) -> str:
    """The one text of a key value: integers without leading zeros."""
    text = value if isinstance(value, str) else shown(value)
    return str(int(text)) if leaf.base in WIDE | NARROW and WHOLE.fullmatch(text) else text


def _here(steps: list[Step], nodes: list[Node]) -> str:
    return text_of(steps, tuple(nodes))


def exact(place: Place, doing: str) -> None:
    """Refuse a path that names several instances. A list as a whole, at the end and without a key, is one."""
    is_whole = place.node.kind == "list" and place.steps[-1].keys is None
    holder = Place(place.steps[:-1], place.nodes[:-1]) if is_whole else place
    if not holder.is_exact:
        raise invalid(f"{place}: {doing} needs every list key, without wildcards")


__all__ = [
    "ANY",
    "NOT_FOUND",
    "PLACES_MOST",
    "Place",
    "Step",
    "answer_prefix",
    "canonical_key",
    "check_origin",
    "exact",
    "raw_text",
    "resolve",
    "text_of",
]
