"""A switch intent as JSON_IETF of qclimb.yang (RFC 7951): 64-bit integers and decimals leave as strings."""

import re
from collections.abc import Mapping
from typing import Any

from .checks import UINT64_MAX, decimal, integer, mapping, only_known, required, sequence, shown
from .errors import IntentError
from .policy import MAX_PRIORITIES
from .switch import (
    BALANCED,
    LARGEST_TH,
    LAST_QUEUE,
    LEAST_TH,
    SHARE_DIGITS,
    SHARES,
    IntentFields,
    PathWeights,
    QueueClass,
)

MODULE = "qclimb"
LEAF = "leaf"
"""The tier that is left out: switches of before know no other."""


def tree_of(intent: IntentFields) -> dict[str, Any]:
    """`{"qclimb:qclimb": {...}}` with the leaves that have a value."""
    config: dict[str, Any] = {"generation": str(intent.generation), "admin-state": intent.admin_state}
    if intent.ports:
        config["ports"] = list(intent.ports)
    if intent.ecn_min_bytes is not None:
        config |= {"ecn-min-bytes": str(intent.ecn_min_bytes), "ecn-max-bytes": str(intent.ecn_max_bytes)}
    if intent.unpinned_dscp is not None:
        config["unpinned-dscp"] = intent.unpinned_dscp
    if intent.tier != LEAF:
        config["tier"] = intent.tier
    tree: dict[str, Any] = {"config": config}
    if intent.classes:
        tree["classes"] = {
            "class": [
                {
                    "priority": each.priority,
                    "config": {
                        "priority": each.priority,
                        "dscp": each.dscp,
                        "queue": each.queue,
                        "path": each.path,
                        "threshold-bytes": str(each.threshold_bytes),
                        **({} if each.dynamic_th is None else {"dynamic-th": each.dynamic_th}),
                        **{name.replace("_", "-"): text for name, text in share_texts(each).items()},
                    },
                }
                for each in intent.classes
            ]
        }
    if intent.path_weights:
        tree["paths"] = {
            "path": [
                {"name": name, "config": {"name": name, "share": share_text(share)}}
                for name, share in intent.path_weights.share.items()
            ]
        }
    return {f"{MODULE}:qclimb": tree}


def fields_of_tree(obj: object) -> dict[str, Any]:
    """The arguments of SwitchIntent; raises IntentError with the data path."""
    tree = _members(unwrapped(obj), "/qclimb", {"config", "state", "classes", "ports", "paths", "spines"})
    known = {"generation", "admin-state", "ports", "ecn-min-bytes", "ecn-max-bytes", "unpinned-dscp", "tier"}
    config = _members(tree.get("config", {}), "/qclimb/config", known)
    place = "/qclimb/config"
    fields: dict[str, Any] = {
        "generation": number(required(config, "generation", place, IntentError), f"{place}/generation"),
        "admin_state": config.get("admin-state", "disabled"),
        "tier": config.get("tier", LEAF),
        "ports": tuple(sequence(config.get("ports", []), f"{place}/ports", IntentError)),
        "classes": _classes(tree.get("classes", {})),
        "path_weights": _paths(tree.get("paths", {})),
    }
    for name in ("ecn-min-bytes", "ecn-max-bytes"):
        if name in config:
            fields[name.replace("-", "_")] = number(config[name], f"{place}/{name}")
    if "unpinned-dscp" in config:
        fields["unpinned_dscp"] = _small(config["unpinned-dscp"], f"{place}/unpinned-dscp", 0, 63)
    return fields


def unwrapped(obj: object) -> Mapping[str, Any]:
    """What stands in the container `qclimb`: a Set at `/` brings the container along, one at `/qclimb` does not."""
    outer = mapping(obj, "/", IntentError)
    if [_local(key) for key in outer] == ["qclimb"]:
        (inner,) = outer.values()
        return mapping(inner, "/qclimb", IntentError)
    return outer


def number(value: object, place: str, largest: int = UINT64_MAX) -> int:
    """An unsigned integer: 64-bit ones are strings in RFC 7951, but numbers are what people write."""
    return decimal(value, place, 0, largest, IntentError)


def _small(value: object, place: str, lowest: int, highest: int) -> int:
    """An integer of at most 32 bits, which is a number in RFC 7951, never a string."""
    return integer(value, place, lowest, highest, IntentError)


def dynamic_th(value: object, place: str) -> int | None:
    """A share of the buffer, where one is told."""
    return None if value is None else decimal(value, place, LEAST_TH, LARGEST_TH, IntentError)


def share_texts(each: QueueClass) -> dict[str, str]:
    """A class's shares that are told, by name."""
    return {name: share_text(share) for name in SHARES if (share := getattr(each, name)) is not None}


def shares_of(row: Mapping[str, Any], place: str) -> dict[str, float]:
    """A class's shares by name, from leaves or fields."""
    leaf_of = {name: name if name in row else name.replace("_", "-") for name in SHARES}
    return {name: share_of_text(row[leaf], f"{place} {name}") for name, leaf in leaf_of.items() if leaf in row}


def share_text(share: float) -> str:
    """A share as decimal64 with 9 digits, so that rounding keeps the sum of a thousand within 1e-6."""
    return f"{share:.{SHARE_DIGITS}f}"


def share_of_text(value: object, place: str) -> float:
    """The share of a decimal64, a string (RFC 7950 section 9.3.1) or a number."""
    if isinstance(value, str) and re.fullmatch(rf"[+-]?[0-9]+(\.[0-9]{{1,{SHARE_DIGITS}}}0*)?", value):
        return float(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return round(float(value), SHARE_DIGITS)
    raise IntentError(f"{place} is {shown(value)}, expected a decimal number of at most {SHARE_DIGITS} digits")


def _classes(obj: object) -> tuple[QueueClass, ...]:
    leaves = {"dscp", "queue", "path", "threshold-bytes", "dynamic-th", *(name.replace("_", "-") for name in SHARES)}
    found = []
    for place, key, config in _entries(obj, "/qclimb/classes", "class", "priority", leaves):
        here = f"{place}/config"
        found.append(
            QueueClass(
                priority=_small(key, f"{place}/priority", 0, MAX_PRIORITIES - 1),
                dscp=_small(required(config, "dscp", here, IntentError), f"{here}/dscp", 0, 63),
                queue=_small(required(config, "queue", here, IntentError), f"{here}/queue", 0, LAST_QUEUE),
                path=config.get("path", BALANCED),
                threshold_bytes=number(config.get("threshold-bytes", 0), f"{here}/threshold-bytes"),
                dynamic_th=(
                    _small(config["dynamic-th"], f"{here}/dynamic-th", LEAST_TH, LARGEST_TH)
                    if "dynamic-th" in config
                    else None
                ),
                **shares_of(config, here),
            )
        )
    return tuple(sorted(found, key=lambda each: each.priority))


def _paths(obj: object) -> PathWeights | None:
    share = {}
    for place, name, config in _entries(obj, "/qclimb/paths", "path", "name", {"share"}):
        if name in share:
            raise IntentError(f"{place} is there twice, expected each path once")
        share[name] = share_of_text(required(config, "share", f"{place}/config", IntentError), f"{place}/config/share")
    return PathWeights(share) if share else None


def _entries(
    obj: object, place: str, list_name: str, key_name: str, leaves: set[str]
) -> list[tuple[str, Any, Mapping[str, Any]]]:
    """(data path, key, config) of each entry of an OpenConfig list, whose key must equal config's."""
    found: list[tuple[str, Any, Mapping[str, Any]]] = []
    outer = _members(obj, place, {list_name})
    for entry in sequence(outer.get(list_name, []), f"{place}/{list_name}", IntentError):
        members = _members(entry, f"{place}/{list_name}", {key_name, "config", "state"})
        key = required(members, key_name, f"{place}/{list_name}", IntentError)
        here = f"{place}/{list_name}[{key_name}='{key}']"
        config = _members(members.get("config", {}), f"{here}/config", leaves | {key_name})
        if (own := required(config, key_name, f"{here}/config", IntentError)) != key or type(own) is not type(key):
            raise IntentError(
                f"{here}/config/{key_name} is {shown(config[key_name])}, expected the list's key {shown(key)}"
            )
        found.append((here, key, config))
    return found


def _members(obj: object, place: str, known: set[str]) -> dict[str, Any]:
    """Members by local name: the module's prefix may stand before any of them (RFC 7951 section 4)."""
    found = {_local(key): value for key, value in mapping(obj, place, IntentError).items()}
    only_known(found, known, place, IntentError)
    return found


def _local(name: str) -> str:
    return name.removeprefix(f"{MODULE}:")
