"""What a rollout of a revision would change, device by device; nothing is changed.

Each switch is asked what it holds. Hosts have one policy: what would change is the same at each.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import FleetError
from ..plan.revision import Revision
from ..store.store import Store, Switch
from .attempts import attempt_each
from .switches import Fleet

Json = dict[str, Any]

KEYS = ("priority", "name")
"""By which entries of qclimb.yang's lists are named."""
GENERATION = "generation"


@dataclass(frozen=True)
class Change:
    """A value at a path; None: it is not there."""

    path: str
    before: Any
    after: Any


@dataclass(frozen=True)
class SwitchChanges:
    """What would change at a switch, or why that is not known."""

    changes: tuple[Change, ...]
    error: str | None = None


@dataclass(frozen=True)
class Changes:
    """What would change at each switch, and at every host."""

    switches: Mapping[str, SwitchChanges]
    hosts: tuple[Change, ...]


def would_change(store: Store, fleet: Fleet, revision_id: int) -> Changes:
    """Asks all switches. Raises MissingError, StoreError."""
    revision = Revision.from_json(store.revision(revision_id).document)

    def changes_at(switch: Switch) -> SwitchChanges:
        with fleet.at(switch) as door:
            held = door.intent()
        found = {} if held is None else held.to_gnmi()
        return SwitchChanges(difference(found, revision.intent_of(switch.role).to_gnmi()))

    asked = attempt_each(store.switches(), changes_at)
    told = {
        name: SwitchChanges((), str(found)) if isinstance(found, FleetError) else found for name, found in asked.items()
    }
    return Changes(told, difference(store.setting("policy") or {}, revision.policy.to_json()))


def difference(before: Json, after: Json) -> tuple[Change, ...]:
    """The values that differ, by path; generations are no difference. Pure."""
    old, new = dict(_leaves(before)), dict(_leaves(after))
    paths = [*new, *(path for path in old if path not in new)]
    return tuple(
        Change(path, old.get(path), new.get(path))
        for path in paths
        if old.get(path) != new.get(path) and path.rpartition("/")[2] != GENERATION
    )


def _leaves(tree: Any, at: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(tree, Mapping):
        for name, below in tree.items():
            yield from _leaves(below, f"{at}/{name.rpartition(':')[2]}")
    elif isinstance(tree, list | tuple) and any(isinstance(entry, Mapping) for entry in tree):
        for index, entry in enumerate(tree):
            key = next((f"{name}={entry[name]}" for name in KEYS if name in entry), index)
            yield from _leaves(entry, f"{at}[{key}]")
    else:
        yield at, list(tree) if isinstance(tree, tuple) else tree
