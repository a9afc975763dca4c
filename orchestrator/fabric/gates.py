"""What a wave has to pass before the next one begins: its switches' word, their drops, and what hosts feel."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from qclimb.errors import QclimbError

from ..store.store import Switch
from .door import ClassCount
from .felt import Felt
from .rollout import Plan
from .switches import Fleet

log = logging.getLogger(__name__)

PACKETS_LEAST = 1000
"""Of fewer nothing is concluded."""


@dataclass(frozen=True)
class Wave:
    """A wave that soaks: its number, the switches that confirmed, and since when all of them have (s, monotonic)."""

    number: int
    generation: int
    switches: Sequence[Switch]
    since_s: float


class Gates:
    """Looks at waves. `begin` and `reason` may take as long as their switches do."""

    def __init__(self, fleet: Fleet, felt: Felt) -> None:
        self.fleet, self.felt = fleet, felt
        self._counted: dict[str, ClassCount] = {}

    def begin(self, wave: Wave) -> None:
        """Counts what the first priority's queues have sent and dropped so far."""
        found: dict[str, ClassCount] = {}
        for switch in wave.switches:
            counted = self._count(switch)
            if counted is not None:
                found[switch.name] = counted
        self._counted = found

    def reason(self, wave: Wave, plan: Plan, felt_before: Mapping[str, float]) -> str | None:
        """Why the wave is to be undone; None where it passes."""
        for switch in wave.switches:
            try:
                with self.fleet.at(switch) as door:
                    found = door.unwell(wave.generation)
            except QclimbError as error:
                found = str(error)
            except Exception as error:
                found = f"switch {switch.name}: {error!r}"
            found = found or self._drops(switch, plan)
            if found is not None:
                return found
        if plan.slowdown_most is None:
            return None
        return self.felt.slower(felt_before, wave.since_s, plan.slowdown_most).reason

    def _drops(self, switch: Switch, plan: Plan) -> str | None:
        """Whether the first priority's queues, which should be nearly empty, dropped too many since `begin`."""
        before = self._counted.get(switch.name)
        if plan.drops_most is None or before is None:
            return None
        now = self._count(switch)
        if now is None:
            return None
        counts = (now.packets, before.packets, now.dropped_packets, before.dropped_packets)
        if any(count is None for count in counts):
            return None
        sent, dropped = (counts[0] or 0) - (counts[1] or 0), (counts[2] or 0) - (counts[3] or 0)
        if sent < 0 or dropped < 0 or sent + dropped < PACKETS_LEAST:  # counters that began anew, or too few
            return None
        share = dropped / (sent + dropped)
        if share <= plan.drops_most:
            return None
        return (
            f"switch {switch.name}: dropped {share:.2%} of the first priority's packets "
            f"({dropped} of {sent + dropped}), expected at most {plan.drops_most:.2%}"
        )

    def _count(self, switch: Switch) -> ClassCount | None:
        try:
            with self.fleet.at(switch) as door:
                return door.told().classes.get(0)
        except Exception as error:  # no reason to undo anything: whether it is well is asked apart
            log.info("switch name=%s event=not-counted reason=%r", switch.name, str(error))
            return None
