"""The data tree of the model as nested dicts, and its JSON.

A container is a dict by name, a list a dict by key tuple (texts) of entry dicts, a leaf-list a list; a 64-bit integer
is an int, other leaves are what JSON had. Values are judged by libyang, not here. `delete`, `merge` and `prune` change
the tree that they are given, so that a Set of many operations costs what they touch; nothing else changes anything.
"""

from collections.abc import Iterator
from typing import Any

from qclimb.checks import digits_of, shown

from switchd.gnmi.errors import NOT_FOUND, RpcError, invalid
from switchd.gnmi.paths import ANY, WHOLE, Place, Step, canonical_key, text_of
from switchd.gnmi.schema import NARROW, WIDE, Node

Tree = dict[Any, Any]


def from_json(node: Node, value: Any, module: str, path: str) -> Any:
    """JSON (with or without module prefixes) of a node -> tree. Raises RpcError naming the path."""
    if node.kind == "leaf":
        return _leaf(node, value, path)
    if node.kind == "leaf-list":
        if not isinstance(value, list):
            raise invalid(f"{path}: expected an array")
        return [_leaf(node, one, path) for one in value]
    if node.kind == "list":
        if not isinstance(value, list):
            raise invalid(f"{path}: expected an array of entries")
        entries: Tree = {}
        for one in value:
            keys, entry = entry_from_json(node, one, None, module, path)
            if keys in entries:
                raise invalid(f"{path}: the entry {', '.join(keys)} is there twice")
            entries[keys] = entry
        return entries
    return _members(node, value, module, path)


def entry_from_json(
    node: Node, value: Any, keys: tuple[str, ...] | None, module: str, path: str
) -> tuple[tuple[str, ...], Tree]:
    """One list entry.

    `keys` are those of the path, which its key leaves must not contradict. The leaves that mirror a key are filled
    in.
    """
    if not isinstance(value, dict) or not value:
        raise invalid(f"{path}: expected an object with the entry's members")
    entry = _members(node, value, module, path)
    if keys is None:
        if missing := [name for name in node.keys if name not in entry]:
            raise invalid(f"{path}: an entry without its key {missing[0]!r}")
        keys = tuple(canonical_key(node.children[name], entry[name]) for name in node.keys)
    fill_keys(node, entry, keys, path)
    return keys, entry


def fill_keys(node: Node, entry: Tree, keys: tuple[str, ...], path: str) -> None:
    """Set the key leaves and their twins under config; refuse what contradicts them. Changes `entry`."""
    for name, text in zip(node.keys, keys, strict=True):
        leaf = node.children[name]
        value: Any = int(text) if leaf.base in WIDE | NARROW and WHOLE.fullmatch(text) else text
        twin = node.children.get("config")
        holders = [entry]
        if twin is not None and name in twin.children:
            holders.append(entry.setdefault("config", {}))
        for holder in holders:
            if canonical_key(leaf, holder.setdefault(name, value)) != text:
                raise invalid(
                    f"{path}: {name} is {shown(holder[name])}, which contradicts the key {text!r} of the path"
                )


def _members(node: Node, value: Any, module: str, path: str) -> Tree:
    if not isinstance(value, dict):
        raise invalid(f"{path}: expected an object")
    members: Tree = {}
    for given, inner in value.items():
        name = given.removeprefix(f"{module}:")
        child = node.children.get(name)
        here = f"{path.rstrip('/')}/{name}"
        if child is None:
            raise RpcError(NOT_FOUND, f"{here}: no {given!r} under {path} in the schema")
        if not child.config:
            raise invalid(f"{here} is state, it can't be set")
        if name in members:
            raise invalid(f"{here} is there twice")
        members[name] = from_json(child, inner, module, here)
    return members


def _leaf(node: Node, value: Any, path: str) -> Any:
    if isinstance(value, dict | list):
        raise invalid(f"{path}: expected one value")
    if node.base in WIDE and isinstance(value, str) and WHOLE.fullmatch(value):
        return int(value)
    return value


def to_json(node: Node, tree: Any, prefix: str = "", *, wide_as_text: bool = True) -> Any:
    """Tree -> JSON.

    `prefix` ("qclimb:") goes before the outermost names, as RFC 7951 has it; 64-bit integers and decimals as strings
    there.
    """
    if node.kind == "leaf":
        return _leaf_json(node, tree, wide_as_text)
    if node.kind == "leaf-list":
        return [_leaf_json(node, one, wide_as_text) for one in tree]
    if node.kind == "list":
        return [entry_json(node, entry, wide_as_text=wide_as_text) for entry in tree.values()]
    return entry_json(node, tree, prefix, wide_as_text=wide_as_text)


def entry_json(node: Node, tree: Tree, prefix: str = "", *, wide_as_text: bool = True) -> dict[str, Any]:
    """One container or list entry as a JSON object."""
    return {
        f"{prefix}{name}": to_json(node.children[name], inner, wide_as_text=wide_as_text)
        for name, inner in tree.items()
    }


def _leaf_json(node: Node, value: Any, wide_as_text: bool) -> Any:
    if wide_as_text:
        if node.base == "decimal64" and isinstance(value, float):
            return digits_of(value)
        return str(value) if node.base in WIDE | {"decimal64"} and not isinstance(value, bool | None) else value
    return float(value) if node.base == "decimal64" and isinstance(value, str) else value


def instances(place: Place, tree: Tree) -> Iterator[tuple[tuple[Step, ...], Any]]:
    """What the path names in the tree, wildcards and left-out keys expanded: exact steps and the subtree."""
    yield from _instances(place, 0, (), tree)


def _instances(place: Place, depth: int, done: tuple[Step, ...], tree: Any) -> Iterator[tuple[tuple[Step, ...], Any]]:
    if depth == len(place.steps):
        yield done, tree
        return
    step, node = place.steps[depth], place.nodes[depth + 1]
    if step.name not in tree:
        return
    inner = tree[step.name]
    if node.kind != "list":
        yield from _instances(place, depth + 1, (*done, step), inner)
        return
    if step.keys is not None and ANY not in step.keys:
        if step.keys in inner:
            yield from _instances(place, depth + 1, (*done, step), inner[step.keys])
        return
    for keys, entry in inner.items():
        if step.keys is None or all(want in (ANY, have) for want, have in zip(step.keys, keys, strict=True)):
            yield from _instances(place, depth + 1, (*done, Step(step.name, keys)), entry)


def shallow(node: Node, tree: Any, depth: int) -> Any:
    """A tree as far as its leaves at most `depth` levels below it; 0: all of it (gNMI depth extension).

    An entry of a list is one level below the list's container.
    """
    if not depth or node.is_leaf:
        return tree
    found: Tree = {}
    for name, inner in tree.items():
        child = node.children[name]
        if child.is_leaf:
            found[name] = inner
        elif depth > 1:
            if child.kind == "list":
                below = {keys: shallow(child, entry, depth - 1) for keys, entry in inner.items()}
            else:
                below = shallow(child, inner, depth - 1)
            found |= {name: below} if below else {}
    return found


def delete(place: Place, tree: Tree) -> None:
    """Take away what the path names. What is left empty goes too; deleting what is not there is no error."""
    for steps, _ in list(instances(place, tree)):
        if not steps:
            tree.clear()
            return
        _delete(tree, steps, place.nodes)


def _delete(tree: Tree, steps: tuple[Step, ...], nodes: tuple[Node, ...]) -> None:
    step, node = steps[0], nodes[1]
    holder, key = (tree[step.name], step.keys) if node.kind == "list" else (tree, step.name)
    if len(steps) == 1:
        del holder[key]
    else:
        _delete(holder[key], steps[1:], nodes[1:])
        if not holder[key]:
            del holder[key]
    if node.kind == "list" and not holder:
        del tree[step.name]


def merge(place: Place, tree: Tree, value: Any) -> None:
    """Lay `value` (a tree of the place's node, exact path) over what is there. Leaves and leaf-lists are replaced."""
    current = tree
    for index, (step, node) in enumerate(zip(place.steps, place.nodes[1:], strict=True)):
        if node.is_leaf:
            current[step.name] = value
            return
        current = current.setdefault(step.name, {})
        if node.kind == "list" and step.keys is not None:
            current = current.setdefault(step.keys, {})
            fill_keys(node, current, step.keys, text_of(place.steps[: index + 1], place.nodes[: index + 2]))
    _overlay(current, value)


def _overlay(under: Tree, over: Tree) -> None:
    for name, value in over.items():
        if isinstance(value, dict) and isinstance(under.get(name), dict):
            _overlay(under[name], value)
        else:
            under[name] = value


def prune(tree: Tree) -> None:
    """Take away what holds nothing: a container without content says as much as none."""
    for name, inner in list(tree.items()):
        if isinstance(inner, dict):
            prune(inner)
            if not inner:
                del tree[name]


def conflict(one: Any, other: Any) -> tuple[Any, ...] | None:
    """Where two trees of one node say different values of one leaf, as names and keys; None: nowhere."""
    if not (isinstance(one, dict) and isinstance(other, dict)):
        return None if one == other else ()
    for name in one.keys() & other.keys():
        if (below := conflict(one[name], other[name])) is not None:
            return (name, *below)
    return None


def leaves(node: Node, tree: Any, steps: tuple[Step, ...] = ()) -> Iterator[tuple[tuple[Step, ...], Node, Any]]:
    """Every leaf under a node (a list: one entry): exact steps, schema node, value."""
    if node.is_leaf:
        yield steps, node, tree
        return
    for name, inner in tree.items():
        child = node.children[name]
        if child.kind == "list":
            for keys, entry in inner.items():
                yield from leaves(child, entry, (*steps, Step(name, keys)))
        else:
            yield from leaves(child, inner, (*steps, Step(name)))
