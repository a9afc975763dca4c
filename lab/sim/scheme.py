"""What a scheme is to an experiment, whichever module has its settings; lab.sim.schemes has the table."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

from lab.sim.errors import Settings, check_kinds


@dataclass(frozen=True)
class Can:
    """What a scheme does beside sending flows packet by packet, to those who ask what it can be run with."""

    deadlines: bool = False
    """It goes by `FlowList.deadline_ps`."""
    tasks: bool = False
    """It goes by `FlowList.task`."""
    rated: bool = False
    """Switches tell hosts at which rate to send: a flow keeps to one path, and headers have 16 bytes more."""
    flow_level: bool = False
    """It has rates and no packets: nothing is lost, and no port can be watched."""

    def __post_init__(self) -> None:
        check_kinds("scheme.can.", self)


@dataclass(frozen=True)
class Scheme(ABC):
    """Settings of a scheme, a row of the table."""

    name: str
    """What tables call it."""

    @property
    def can(self) -> Can:
        """With these settings."""
        return Can()

    @property
    def priorities(self) -> int:
        """Of packets, each with a queue at every port, served in order; 0: what they have are ranks or rates."""
        return 0

    @property
    def alphas(self) -> tuple[float, ...]:
        """Times its port's free buffer that a queue may hold, one for all queues or one for each; 0: all of it."""
        return (0.0,)

    @abstractmethod
    def settings(self) -> Settings:
        """As the engine reads them."""


@dataclass(frozen=True)
class Told(Scheme):
    """A scheme with no dataclass of its own: the row has what its header asks for, word by word. The engine refuses
    what is missing, unknown or out of range."""

    words: Mapping[str, int | str]
    can: Can = Can()
    priorities: int = 0

    def __post_init__(self) -> None:
        check_kinds("scheme.", self)

    def settings(self) -> Settings:
        """As the engine reads them."""
        return {"scheme": self.name, **self.words}
