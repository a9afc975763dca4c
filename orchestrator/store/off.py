"""The emergency exit: marking is switched off at all hosts, whatever policy is in force.

It is held in memory first, so that it counts while the database can't be written, and kept as the setting `off`.
"""

from dataclasses import asdict, dataclass
from typing import Any, Self

from qclimb.policy import Mode, Policy

SETTING = "off"


@dataclass(frozen=True)
class SwitchedOff:
    """Since when (s since 1970), by whom, and the generation of the policy that says so to hosts."""

    generation: int
    at: float
    by: str

    @property
    def policy(self) -> Policy:
        """What hosts get: it needs no sizes, no model and no DSCPs, so that nothing can keep them from following it."""
        return Policy(self.generation, Mode.OFF, threshold_bytes=(), dscp=(0,), slack_bytes=0)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON."""
        return asdict(self)

    @classmethod
    def from_json(cls, found: dict[str, Any] | None) -> Self | None:
        """As `to_json` gives it; None: hosts are not switched off."""
        return None if found is None else cls(**found)
