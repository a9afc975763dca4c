"""How much longer packets of small flows travel than they could: what a host feels of a fabric's queues.

A flow of a few segments takes about one round-trip time. So the slowdown of small flows follows the round-trip time
that TCP measures, divided by the least that it measured on the same connection. It is taken over connections that carry
small flows: those that are not marked for a later priority at that moment.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from .checks import UINT32_MAX, integer, mapping, only_known, required, shown
from .errors import RecordError

LOG_MOST = math.log(1e6)


@dataclass(frozen=True)
class Stretch:
    """Of some connections at one moment.

    connections  how many, at least 1
    log_mean     mean of log(round-trip time / least round-trip time), 0..log(10^6)
    """

    connections: int
    log_mean: float

    def __post_init__(self) -> None:
        integer(self.connections, "connections", 1, UINT32_MAX, RecordError)
        if type(self.log_mean) not in (int, float) or not 0 <= self.log_mean <= LOG_MOST:
            raise RecordError(f"log_mean is {shown(self.log_mean)}, expected a number in [0, {LOG_MOST:.4g}]")

    @property
    def mean(self) -> float:
        """The geometric mean of the ratios, at least 1."""
        return math.exp(self.log_mean)

    def __add__(self, other: "Stretch") -> "Stretch":
        connections = self.connections + other.connections
        weighed = self.connections * self.log_mean + other.connections * other.log_mean
        return Stretch(connections, weighed / connections)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON."""
        return {"connections": self.connections, "log_mean": self.log_mean}

    @classmethod
    def from_json(cls, obj: object) -> Self:
        """The value of `to_json`; raises RecordError."""
        found: Mapping[str, Any] = mapping(obj, "stretch", RecordError)
        only_known(found, ["connections", "log_mean"], "stretch", RecordError)
        return cls(*(required(found, name, "stretch", RecordError) for name in ("connections", "log_mean")))
