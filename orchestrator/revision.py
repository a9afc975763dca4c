"""A revision: what the fabric is to do, whole and for good. Pure: values in, values out.

Its policy and intent carry generation 0; the rollout that brings it into force gives both the same new generation, so
that going back to an old revision is a step forward in generations too.
"""

from dataclasses import dataclass, replace
from typing import Any, Self

from qclimb.errors import PolicyError
from qclimb.intent import QueueClass, SwitchIntent
from qclimb.policy import Mode, Policy, default_dscp

MAX_QUEUES = 8


@dataclass(frozen=True)
class Revision:
    """What hosts (policy) and switches (intent) get."""

    policy: Policy
    intent: SwitchIntent

    def at(self, generation: int) -> "Revision":
        """The same, as the given generation."""
        return Revision(replace(self.policy, generation=generation), replace(self.intent, generation=generation))

    def to_json(self) -> dict[str, Any]:
        """Plain JSON."""
        return {"policy": self.policy.to_json(), "intent": self.intent.to_gnmi()}

    @classmethod
    def from_json(cls, found: dict[str, Any]) -> Self:
        """The revision of `to_json`."""
        return cls(Policy.from_json(found["policy"]), SwitchIntent.from_gnmi(found["intent"]))


def compose(
    mode: Mode,
    threshold_bytes: tuple[int, ...],
    priorities: int,
    queues: tuple[int, ...] | None = None,
    ports: tuple[str, ...] = (),
    ecn_bytes: tuple[int, int] | None = None,
    **policy: Any,
) -> Revision:
    """One path (K = 1): each priority has its own queue, `queues` in served-first order, by default P-1 down to 0.

    `policy` are Policy's other fields. Raises PolicyError and IntentError.
    """
    if not 1 <= priorities <= MAX_QUEUES:
        raise PolicyError(f"priorities is {priorities}, expected 1..{MAX_QUEUES}: a queue each on one path")
    queues = tuple(range(priorities - 1, -1, -1)) if queues is None else queues
    if len(queues) != priorities:
        raise PolicyError(f"queues has {len(queues)} entries, expected {priorities}, one a priority")
    dscp = default_dscp(priorities)
    begin = (0, *threshold_bytes)
    told = Policy(generation=0, mode=mode, threshold_bytes=threshold_bytes, dscp=dscp, **policy)
    classes = tuple(
        QueueClass(priority=p, dscp=dscp[p], queue=queues[p], threshold_bytes=begin[p]) for p in range(priorities)
    )
    least, most = ecn_bytes or (None, None)
    return Revision(told, SwitchIntent(0, "enabled", classes, ports, least, most))
