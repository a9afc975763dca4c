"""How far a rollout is at each of its devices: a persistent map, counted by phase.

A change of one device costs the same among ten as among twenty thousand, and says which row the store has to write.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, Generic, Protocol, Self, TypeVar

from immutables import Map


class Step(Protocol):
    """How far it is at one."""

    @property
    def phase(self) -> StrEnum:
        """Where it is."""


S = TypeVar("S", bound=Step)


@dataclass(frozen=True)
class Devices(Generic[S]):
    """Steps by name. `unsaved`: those that the store has not as they are here."""

    steps: Map[str, S] = field(default_factory=Map)
    counts: Map[StrEnum, int] = field(default_factory=Map, compare=False)
    unsaved: frozenset[str] = field(default=frozenset(), compare=False)

    @classmethod
    def of(cls, steps: Mapping[str, S]) -> Self:
        """All of them unsaved."""
        return cls().having(steps)

    def having(self, steps: Mapping[str, S]) -> Self:
        """The same with these steps new or changed."""
        of, counts = self.steps.mutate(), self.counts.mutate()
        for name, step in steps.items():
            if name in of:
                counts[of[name].phase] -= 1
            counts[step.phase] = counts.get(step.phase, 0) + 1
            of[name] = step
        return type(self)(of.finish(), counts.finish(), self.unsaved | steps.keys())

    def saved(self) -> Self:
        """The same, all of it in the store."""
        return type(self)(self.steps, self.counts)

    def count(self, *phases: StrEnum) -> int:
        """How many are in one of these phases."""
        return sum(self.counts.get(phase, 0) for phase in phases)

    def named(self, *phases: StrEnum) -> tuple[str, ...]:
        """Those in one of these phases, in order."""
        if not self.count(*phases):
            return ()
        return tuple(sorted(name for name, step in self.steps.items() if step.phase in phases))

    def unsaved_json(self) -> dict[str, Any]:
        """What the store has to write, as plain JSON."""
        return {name: asdict(self.steps[name]) for name in sorted(self.unsaved)}  # type: ignore[call-overload]

    def __len__(self) -> int:
        return len(self.steps)

    def __getitem__(self, name: str) -> S:
        return self.steps[name]
