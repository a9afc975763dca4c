"""What a wave has to pass before the next one begins: its switches' word, their drops, and what hosts feel."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..errors import FleetError
from ..store.store import Switch
from .attempts import attempt_each
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
        self._counted = {}
        for name, counted in attempt_each(_by_name(wave), self._count).items():
            if isinstance(counted, FleetError):  # no reason to undo anything: whether it is well is asked apart
                log.info("switch name=%s event=not-counted reason=%r", name, str(counted))
            elif counted is not None:
                self._counted[name] = counted

    def reason(self, wave: Wave, plan: Plan, felt_before: Mapping[str, float]) -> str | None:
        """Why the wave is to be undone; None where it passes."""

        def reason_at(switch: Switch) -> str | None:
            with self.fleet.at(switch) as door:
                return door.unwell(wave.generation)

        def drops_at(switch: Switch) -> str | None:
            before = self._counted.get(switch.name)
            return None if plan.drops_most is None or before is None else self._drops(switch, before, plan.drops_most)

        for found in attempt_each(_by_name(wave), reason_at).values():
            if found is not None:
                return str(found)
        for name, dropped in attempt_each(_by_name(wave), drops_at).items():
            if isinstance(dropped, FleetError):
                log.info("switch name=%s event=not-counted reason=%r", name, str(dropped))
            elif dropped is not None:
                return dropped
        if plan.slowdown_most is None:
            return None
        return self.felt.slower(felt_before, wave.since_s, plan.slowdown_most).reason

    def _drops(self, switch: Switch, before: ClassCount, most: float) -> str | None:
        """Whether the first priority's queues, which should be nearly empty, dropped too many since `begin`."""
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
        if share <= most:
            return None
        return (
            f"switch {switch.name}: dropped {share:.2%} of the first priority's packets "
            f"({dropped} of {sent + dropped}), expected at most {most:.2%}"
        )

    def _count(self, switch: Switch) -> ClassCount | None:
        with self.fleet.at(switch) as door:
            return door.told().classes.get(0)


def _by_name(wave: Wave) -> dict[str, Switch]:
    return {switch.name: switch for switch in wave.switches}
