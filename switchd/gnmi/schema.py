"""The YANG schema as a small tree of plain nodes, read once from libyang: enough to walk paths and to shape JSON.

Knows nothing of values; `qclimb.schema` validates those.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import libyang
from qclimb.schema import yang_directory

Kind = Literal["container", "list", "leaf", "leaf-list"]
WIDE = frozenset({"uint64", "int64"})
NARROW = frozenset({"uint8", "uint16", "uint32", "int8", "int16", "int32"})
ORGANIZATION = "The qclimb project"


@dataclass(frozen=True)
class Node:
    """One schema node. `base` is the YANG base type of a leaf; `keys` the key leaves of a list."""

    name: str
    kind: Kind
    config: bool
    base: str = ""
    keys: tuple[str, ...] = ()
    children: dict[str, "Node"] = field(default_factory=dict)

    @property
    def is_leaf(self) -> bool:
        """A leaf or leaf-list."""
        return self.kind in ("leaf", "leaf-list")

    def walk(self) -> Iterator["Node"]:
        """This node and all below."""
        yield self
        for child in self.children.values():
            yield from child.walk()


@dataclass(frozen=True)
class Schema:
    """One module: its identity for Capabilities, and its data nodes below a nameless root."""

    module: str
    organization: str
    version: str
    root: Node


def load(module: str) -> Schema:
    """Read a module of the contract; the libyang context is not kept, values are validated by `qclimb.schema`."""
    with libyang.Context(str(yang_directory())) as context:
        found = context.load_module(module)
        revision = next((one.date() for one in found.revisions()), "")
        top = {child.name(): _node(child) for child in found.children()}
    return Schema(module, ORGANIZATION, revision, Node("", "container", True, children=top))


def _node(found: Any) -> Node:
    kind = found.keyword()
    config = not found.config_false()
    if kind in ("leaf", "leaf-list"):
        return Node(found.name(), kind, config, base=_base(found.type()))
    listed = found.keys() if kind == "list" else ()
    keys = tuple(key.name() for key in listed)
    return Node(found.name(), kind, config, keys=keys, children={c.name(): _node(c) for c in found.children()})


def _base(kind: Any) -> str:
    """The base type, through leafrefs."""
    while kind.basename() == "leafref":
        kind = kind.leafref_type()
    return str(kind.basename())
