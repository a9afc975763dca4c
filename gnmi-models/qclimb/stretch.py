"""How much longer packets of small flows travel than they could: what a host feels of a fabric's queues.

A flow of a few segments takes about one round-trip time. So the slowdown of small flows follows the round-trip time
that TCP measures, divided by the least that it measured on the same connection. It is taken over connections that carry
small flows: those that are not marked for a later priority at that moment.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from .checks import integer, mapping, only_known, required, shown
from .errors import RecordError

LOG_MOST = math.log(1e6)
CONNECTIONS_MOST = 8192
"""Of one look: no hostd measures more, so more is no measurement."""


@dataclass(frozen=True)
class Stretch:
    """Of some connections at one moment.

    connections  how many, 1..CONNECTIONS_MOST
    log_mean     mean of log(round-trip time / least round-trip time), 0..log(10^6)
    """

    connections: int
    log_mean: float

    def __post_init__(self) -> None:
        integer(self.connections, "connections", 1, CONNECTIONS_MOST, RecordError)
        if type(self.log_mean) not in (int, float) or not 0 <= self.log_mean <= LOG_MOST:
            raise RecordError(f"log_mean is {shown(self.log_mean)}, expected a number in [0, {LOG_MOST:.4g}]")

    @property
    def mean(self) -> float:
        """The geometric mean of the ratios, at least 1."""
        return math.exp(self.log_mean)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON."""
        return {"connections": self.connections, "log_mean": self.log_mean}

    @classmethod
    def from_json(cls, obj: object) -> Self:
        """The value of `to_json`; raises RecordError."""
        found: Mapping[str, Any] = mapping(obj, "stretch", RecordError)
        only_known(found, ["connections", "log_mean"], "stretch", RecordError)
        return cls(*(required(found, name, "stretch", RecordError) for name in ("connections", "log_mean")))


@dataclass(frozen=True)
class StretchSum:
    """Of any number of looks of one host: a mean over their connections.

    looks        how many
    connections  of all of them together, each as often as it was looked at
    log_sum      sum of log(round-trip time / least round-trip time) over these
    """

    looks: int = 0
    connections: int = 0
    log_sum: float = 0.0

    def plus(self, one: Stretch) -> Self:
        """With another look."""
        log_sum = self.log_sum + one.connections * one.log_mean
        return type(self)(self.looks + 1, self.connections + one.connections, log_sum)

    @property
    def mean(self) -> float:
        """The geometric mean of the ratios, at least 1; 1 without a look."""
        return math.exp(self.log_sum / self.connections) if self.connections else 1.0

    @property
    def connections_each(self) -> int:
        """Connections of one look, in the mean of all."""
        return round(self.connections / self.looks) if self.looks else 0
