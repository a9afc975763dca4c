"""What tests of rollouts have in common: a fleet that takes all, and what the store has of a rollout."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any

from qclimb.intent import QueueClass, SwitchIntent

from orchestrator.errors import StoreError
from orchestrator.fabric.door import Told
from tests.waiting import wait_until

FULL = StoreError("database a.db: database or disk is full")
OLD = SwitchIntent(3, "enabled", (QueueClass(0, dscp=47, queue=7),))
"""What a switch has before its first rollout."""


class Switches:
    """A fleet of switches that take all: what each was given, in order."""

    def __init__(self, broken: Exception | None = None) -> None:
        self.given: list[tuple[str, int | None]] = []
        self.confirmed: list[str] = []
        self.broken = broken

    @contextmanager
    def at(self, switch: Any) -> Iterator[Any]:
        names = ("intent", "apply", "unwell", "commit", "confirm", "give_back")
        own = {name: partial(getattr(self, name), switch) for name in names}
        yield SimpleNamespace(**own, told=partial(self.counts, switch))

    def longest_push_s(self, name: str, deadline_s: float) -> float:
        return deadline_s

    def unwell(self, switch: Any, generation: int) -> str | None:
        return None

    def commit(self, switch: Any, intent: SwitchIntent, token: str, rollback_s: float, deadline_s: float) -> bool:
        self.apply(switch, intent, deadline_s)
        return True

    def confirm(self, switch: Any, token: str) -> None:
        self.confirmed.append(switch.name)

    def give_back(self, switch: Any, intent: SwitchIntent | None, token: str, deadline_s: float) -> int:
        return self.apply(switch, intent, deadline_s)

    def counts(self, switch: Any) -> Told:
        return Told("", {})

    def intent(self, switch: Any) -> SwitchIntent | None:
        if self.broken:
            raise self.broken
        return OLD

    def apply(self, switch: Any, intent: SwitchIntent | None, deadline_s: float) -> int:
        generation = None if intent is None else intent.generation
        self.given.append((switch.name, generation))
        return generation or 0


@dataclass(frozen=True)
class Kept:
    """What the store has of a rollout."""

    phase: str
    document: dict[str, Any]


def kept(store, number: int) -> Kept:
    row = store.rollout(number)
    return Kept(row.phase, {**row.document, **store.steps(number)})


def ended(store, number: int) -> Kept:
    return wait_until(lambda: row if (row := kept(store, number)).phase != "running" else None, "the rollout ends")


def failing(store, monkeypatch, when) -> list[str]:
    """Has the store refuse to keep a rollout's documents for which `when` holds; the phases of those that it kept."""
    keep, kept = store.save_rollout, []

    def save(number: int, phase: str, document: dict[str, Any]) -> None:
        if when(document):
            raise FULL
        keep(number, phase, document)
        kept.append(phase)

    monkeypatch.setattr(store, "save_rollout", save)
    return kept
