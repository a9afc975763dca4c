"""What each request of a host asks of the store, in memory: whose token it is, whether it is registered, the policy.

The store has one process, this one, and counts its changes to any of these; what was read is forgotten at the next.
Only what is there is remembered, so that guessed tokens take no room.
"""

import json
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from qclimb.policy import Policy

from ..store.off import SwitchedOff
from ..store.store import Store
from . import tokens
from .tokens import Caller


@dataclass(frozen=True)
class InForce:
    """The policy as hosts get it: its ETag and its JSON."""

    etag: str
    content: bytes


def _in_force(policy: Policy) -> InForce:
    return InForce(f'"{policy.generation}"', json.dumps(policy.to_json(), separators=(",", ":")).encode())


@lru_cache(maxsize=1)
def _of_off(off: SwitchedOff) -> InForce:
    return _in_force(off.policy)


@dataclass
class _Read:
    """What was read since the store's change of that number."""

    store: Store
    changes: int
    callers: dict[str, Caller] = field(default_factory=dict)

    @cached_property
    def hosts(self) -> frozenset[str]:
        return frozenset(self.store.hosts())

    @cached_property
    def policy(self) -> InForce | None:
        found = self.store.setting("policy")
        return None if found is None else _in_force(Policy.from_json(found))

    @cached_property
    def label(self) -> str | None:
        found = self.store.setting("recording")
        return None if found is None else str(found)


class HostCache:
    """Any thread may ask; a change is seen by whoever asks after it was answered."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._last = _Read(store, -1)

    @property
    def _read(self) -> _Read:
        read = self._last
        if read.changes != self._store.changes:
            read = self._last = _Read(self._store, self._store.changes)
        return read

    def caller(self, authorization: str | None) -> Caller | None:
        """The caller of an Authorization header, None for no, an unknown or an expired token."""
        read = self._read
        key = tokens.digest(authorization or "")
        found = read.callers.get(key) or tokens.identify(self._store, authorization)
        if found is None or found.is_expired:
            return None
        read.callers[key] = found
        return found

    def has_host(self, name: str) -> bool:
        """Whether this host is registered."""
        return name in self._read.hosts

    @property
    def policy(self) -> InForce | None:
        """What hosts are to follow: that they are switched off, which nothing is read for, or the policy in force.

        None before the first rollout.
        """
        off = self._store.off
        return self._read.policy if off is None else _of_off(off)

    @property
    def label(self) -> str | None:
        """Under which label flows are filed now; None: under no name."""
        return self._read.label
