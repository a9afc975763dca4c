"""A switch intent as JSON_IETF of qclimb.yang (RFC 7951): 64-bit integers and decimals leave as strings."""

from collections.abc import Mapping
from typing import Any

from .checks import mapping, only_known, required, sequence, shown
from .errors import IntentError
from .leaves import CLASS, INTENT, PATH, PRIORITY, SPINE, Leaf, Narrowed, from_json, to_json
from .switch import IntentFields, PathWeights, QueueClass

MODULE = "qclimb"
NARROWED = {leaf.name: leaf.kind for leaf in (*INTENT, *CLASS) if isinstance(leaf.kind, Narrowed)}
"""by name, which stands for one type throughout the module"""


def tree_of(intent: IntentFields) -> dict[str, Any]:
    """`{"qclimb:qclimb": {...}}` with the leaves that have a value."""
    tree: dict[str, Any] = {"config": to_json(INTENT, intent)}
    if intent.classes:
        classes = [{"priority": each.priority, "config": to_json((PRIORITY, *CLASS), each)} for each in intent.classes]
        tree["classes"] = {"class": classes}
    if intent.path_weights:
        (share,) = PATH
        tree["paths"] = {
            "path": [
                {"name": name, "config": {"name": name, share.name: share.kind.to_json(told)}}
                for name, told in intent.path_weights.share.items()
            ]
        }
    return {f"{MODULE}:qclimb": tree}


def fields_of_tree(obj: object) -> dict[str, Any]:
    """The arguments of SwitchIntent; raises IntentError with the data path."""
    tree = _members(unwrapped(obj), "/qclimb", {"config", "state", "classes", "ports", "paths", "spines"})
    config = _members(tree.get("config", {}), "/qclimb/config", {leaf.name for leaf in INTENT})
    classes = [
        QueueClass(key, **from_json(CLASS, config, f"{place}/config"))
        for place, key, config in _entries(tree.get("classes", {}), "/qclimb/classes", "class", PRIORITY, CLASS)
    ]
    return {
        **from_json(INTENT, config, "/qclimb/config"),
        "classes": tuple(sorted(classes, key=lambda each: each.priority)),
        "path_weights": _paths(tree.get("paths", {})),
    }


def of_today(obj: object, depth: int = 8) -> object:
    """What an earlier version stored, its numbers in the ranges of today; nothing is read deeper than the model."""
    if depth and isinstance(obj, Mapping):
        return {
            name: NARROWED[_local(name)].from_stored(value) if _local(name) in NARROWED else of_today(value, depth - 1)
            for name, value in obj.items()
        }
    return [of_today(one, depth - 1) for one in obj] if depth and isinstance(obj, list | tuple) else obj


def unwrapped(obj: object) -> Mapping[str, Any]:
    """What stands in the container `qclimb`: a Set at `/` brings the container along, one at `/qclimb` does not."""
    outer = mapping(obj, "/", IntentError)
    if [_local(key) for key in outer] == ["qclimb"]:
        (inner,) = outer.values()
        return mapping(inner, "/qclimb", IntentError)
    return outer


def _paths(obj: object) -> PathWeights | None:
    share: dict[str, float] = {}
    for place, name, config in _entries(obj, "/qclimb/paths", "path", SPINE, PATH):
        if name in share:
            raise IntentError(f"{place} is there twice, expected each path once")
        share[name] = from_json(PATH, config, f"{place}/config")["share"]
    return PathWeights(share) if share else None


def _entries(
    obj: object, place: str, list_name: str, key_leaf: Leaf, leaves: tuple[Leaf, ...]
) -> list[tuple[str, Any, Mapping[str, Any]]]:
    """(data path, key, config) of each entry of an OpenConfig list, whose key must equal config's."""
    found: list[tuple[str, Any, Mapping[str, Any]]] = []
    outer, key_name = _members(obj, place, {list_name}), key_leaf.name
    for entry in sequence(outer.get(list_name, []), f"{place}/{list_name}", IntentError):
        members = _members(entry, f"{place}/{list_name}", {key_name, "config", "state"})
        key = required(members, key_name, f"{place}/{list_name}", IntentError)
        here = f"{place}/{list_name}[{key_name}='{key if isinstance(key, str) else shown(key)}']"
        found_key = key_leaf.kind.from_json(key, f"{here}/{key_name}")
        config = _members(members.get("config", {}), f"{here}/config", {key_name, *(leaf.name for leaf in leaves)})
        if (own := required(config, key_name, f"{here}/config", IntentError)) != key or type(own) is not type(key):
            raise IntentError(f"{here}/config/{key_name} is {shown(own)}, expected the list's key {shown(key)}")
        found.append((here, found_key, config))
    return found


def _members(obj: object, place: str, known: set[str]) -> dict[str, Any]:
    """Members by local name: the module's prefix may stand before any of them (RFC 7951 section 4)."""
    found = {_local(key): value for key, value in mapping(obj, place, IntentError).items()}
    only_known(found, known, place, IntentError)
    return found


def _local(name: str) -> str:
    return name.removeprefix(f"{MODULE}:")
