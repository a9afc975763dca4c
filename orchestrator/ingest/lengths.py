"""Keeps what the fabric knows of announced lengths, and adds up what hosts tell."""

import threading
import time
from collections.abc import Iterable

from qclimb.lengths import Announced, Service

from ..errors import MissingError
from ..plan.lengths import Fabric
from ..store.store import Store

KEY = "lengths"
WRITE_S = 10.0
"""Scores are written at most so often: a restart forgets what hosts told since."""


class Lengths:
    """Any thread may ask."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._fabric: Fabric | None = None
        self._written_at_s = float("-inf")

    @property
    def fabric(self) -> Fabric:
        """What is known now."""
        with self._lock:
            return self._now

    @property
    def _now(self) -> Fabric:
        if self._fabric is None:
            kept = self._store.setting(KEY)
            self._fabric = Fabric() if kept is None else Fabric.from_json(kept)
        return self._fabric

    def heard(self, host: str, told: Iterable[Announced]) -> list[Announced]:
        """Takes what a host saw since it last told; what it is to go by."""
        with self._lock:
            before = self._now
            fabric = before.heard(host, told)
            new = fabric.found.keys() != before.found.keys()
            if fabric != before and (new or time.monotonic() - self._written_at_s >= WRITE_S):
                self._write(fabric)
            self._fabric = fabric
            return fabric.given

    def pin(self, each: Announced, actor: str) -> Announced:
        """An operator's word on a service."""
        with self._lock:
            fabric = self._now.pin(each)
            with self._store.writing():
                self._write(fabric)
                self._store.note(actor, "pin-lengths", f"{each.service.name} {each.use} {each.rule or ''}".strip())
            self._fabric = fabric
            return fabric.known[each.service]

    def unpin(self, service: Service, actor: str) -> None:
        """Takes it back, with what is known of the service; raises MissingError."""
        with self._lock:
            if service not in self._now.known and service not in self._now.found:
                raise MissingError(f"lengths: none are known of {service.name!r}")
            fabric = self._now.unpin(service)
            with self._store.writing():
                self._write(fabric)
                self._store.note(actor, "unpin-lengths", service.name)
            self._fabric = fabric

    def _write(self, fabric: Fabric) -> None:
        self._store.set_setting(KEY, fabric.to_json())
        self._written_at_s = time.monotonic()
