"""How a rollout goes, as a value: switches first, by waves; hosts when every switch that is there has confirmed. Pure.

`next_steps` says what is to be done now, `pushed` and the like take in what came of it. Invariants:
- the policy is put in force only when all switches are applied, but for as many absent ones as its plan allows;
- after a switch has failed nothing new is pushed, and each switch that changed, or may have, gets back what it had;
- what a switch had before is part of the value, thus in the store, before anything is pushed to it;
- a restart goes on: what was being pushed is pushed again, and what the switch had before stays what was read first.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any, Self

from .devices import Devices
from .felt import SLOWDOWN_MOST


class Phase(StrEnum):
    """Of a whole rollout; only running and paused may still change."""

    RUNNING = "running"
    PAUSED = "paused"
    """No switch is begun and no wave opened until it is resumed; what is under way ends."""
    DONE = "done"
    FAILED = "failed"
    ROLLED_BACK = "rolled-back"


OPEN = frozenset({Phase.RUNNING, Phase.PAUSED})


class SwitchPhase(StrEnum):
    """Of one switch in it."""

    PENDING = "pending"
    PUSHING = "pushing"
    COMMITTED = "committed"
    """Applied, and undone by the switch itself unless it hears soon that it is to stay."""
    APPLIED = "applied"
    ABSENT = "absent"
    """Can't be reached, and has not changed: the rollout went on without it."""
    FAILED = "failed"
    """Did not take it, and has not changed."""
    UNSURE = "unsure"
    """Did not confirm it, and may have changed."""
    RESTORING = "restoring"
    RESTORED = "restored"
    STRANDED = "stranded"
    """Could not be given back what it had; a person has to look."""


class HostPhase(StrEnum):
    """Of one host in it."""

    PENDING = "pending"
    WAITING = "waiting"
    APPLIED = "applied"
    FAILED = "failed"


@dataclass(frozen=True)
class SwitchStep:
    """How far a rollout is at a switch."""

    phase: SwitchPhase = SwitchPhase.PENDING
    error: str | None = None
    applied_generation: int = 0
    previous: dict[str, Any] | None = None
    """The intent that it had before, as gNMI JSON; None: none."""
    again: bool = False
    """A process that is gone may have pushed it: `previous` is what the switch had before that."""


@dataclass(frozen=True)
class HostStep:
    """How far a rollout is at a host."""

    phase: HostPhase = HostPhase.PENDING
    error: str | None = None
    applied_generation: int = 0
    felt_before: float = 0.0
    """Its small flows' stretch before the rollout (fabric.felt), 0: not known."""


@dataclass(frozen=True)
class Plan:
    """How a rollout goes on.

    waves          how many switches may have been begun after each wave, ascending; those beyond the last come after it
    soak_s         between a wave's last confirmation and the look at its switches that opens the next one, s
    absent_most    so many switches may be away: they are left out and told
    drops_most     which share of the first priority's packets a switch may drop; more undoes it. None: no matter
    slowdown_most  by which factor hosts' small flows may be slower than before; more undoes it. None: no matter
    """

    waves: tuple[int, ...] = ()
    soak_s: float = 0.0
    absent_most: int = 0
    slowdown_most: float | None = None
    drops_most: float | None = None


DROPS_MOST = 0.01
"""The first priority's queues should be nearly empty."""
ABSENT_SHARE = 20
"""One switch in so many may be away where nothing else is wished."""


@dataclass(frozen=True)
class Pace:
    """How an operator wishes a rollout to go on: `waves` as shares of the switches, ascending, each at least one."""

    waves: tuple[float, ...] = ()
    soak_s: float = 0.0
    absent_most: int | None = None
    slowdown_most: float | None = SLOWDOWN_MOST
    drops_most: float | None = DROPS_MOST

    def plan(self, switches: int) -> Plan:
        """For so many."""
        counts = sorted({max(math.ceil(share * switches), 1) for share in self.waves} - {switches})
        absent = switches // ABSENT_SHARE if self.absent_most is None else self.absent_most
        return Plan(tuple(counts), self.soak_s, absent, self.slowdown_most, self.drops_most)


@dataclass(frozen=True)
class Steps:
    """What is to be done now. `open_wave`: soak, and look at the switches of this wave, before the next one is opened.

    `confirm`: what these switches have is to stay.
    """

    push: tuple[str, ...] = ()
    confirm: tuple[str, ...] = ()
    restore: tuple[str, ...] = ()
    activate: bool = False
    open_wave: bool = False


GIVING_BACK = "; then, giving back its former intent: "
HELD = (SwitchPhase.COMMITTED, SwitchPhase.APPLIED)
"""What those have that took it."""
TO_RESTORE = (*HELD, SwitchPhase.UNSURE)
BEGUN = (SwitchPhase.PUSHING, *HELD)


@dataclass(frozen=True)
class Rollout:
    """One rollout of `generation`."""

    generation: int
    phase: Phase = Phase.RUNNING
    error: str | None = None
    active: bool = False
    """The hosts' policy is in force."""
    active_at: float | None = None
    """Since when (s since 1970)."""
    turned_back: bool = False
    """A switch failed, or a person aborted it: nothing is pushed any more."""
    wave: int = 0
    """Those of `plan.waves` that have been opened but for the first."""
    looked: int = 0
    """Those whose switches were looked at, and are well: what they have is confirmed."""
    undoes: int | None = None
    """The rollout that it undoes, by the orchestrator itself."""
    lifts_off: int | None = None
    """Hosts that are switched off by that generation are on again once its policy is in force."""
    plan: Plan = field(default_factory=Plan)
    switches: Devices[SwitchStep] = field(default_factory=Devices)
    hosts: Devices[HostStep] = field(default_factory=Devices)

    @property
    def ended(self) -> bool:
        """Nothing of it changes any more."""
        return self.phase not in OPEN

    @property
    def unpushed(self) -> Iterator[str]:
        """The switches that a push is under way to, or may still begin."""
        phases = (SwitchPhase.PUSHING, SwitchPhase.PENDING)
        return (name for name, step in self.switches.steps.items() if step.phase in phases)

    @property
    def unpushed_most(self) -> int:
        """How many of these at most come before this wave is confirmed: absent ones make room for others."""
        count = self.switches.count(SwitchPhase.PUSHING, SwitchPhase.PENDING)
        if self.wave >= len(self.plan.waves):
            return count
        return min(count, self.plan.waves[self.wave] - self.switches.count(*HELD) + self.plan.absent_most)

    def next_steps(self) -> Steps:
        """Everything that may start now; empty while something is awaited, and at the end."""
        if self.ended:
            return Steps()
        if self.turned_back:
            waits = self.switches.count(SwitchPhase.PUSHING)
            return Steps() if waits else Steps(restore=self.switches.named(*TO_RESTORE))
        if self.active:
            return Steps()
        committed = self.switches.named(SwitchPhase.COMMITTED)
        if self.phase is Phase.PAUSED:
            return Steps(confirm=committed)  # nobody knows for how long
        if self.switches.count(*HELD, SwitchPhase.ABSENT) == len(self.switches):
            return Steps(confirm=committed, activate=not committed)
        pending = self.switches.named(SwitchPhase.PENDING)
        if self.wave >= len(self.plan.waves):
            return Steps(push=pending)
        room = self.plan.waves[self.wave] - self.switches.count(*BEGUN)
        if room > 0:
            return Steps(push=pending[:room])
        if self.looked > self.wave:
            return Steps(confirm=committed)
        return Steps(open_wave=not self.switches.count(SwitchPhase.PUSHING))

    def pushing(self, name: str, previous: dict[str, Any] | None) -> Self:
        """A push is about to start; `previous` is what the switch has. The same rollout where nothing is pushed now.

        Of a switch that was asked before a restart the first answer counts: it may have the new intent by now.
        """
        if self.turned_back or self.phase is not Phase.RUNNING:
            return self
        before = self.switches[name]
        known = before.previous if before.again else previous
        return self._switch(name, SwitchStep(SwitchPhase.PUSHING, previous=known, again=before.again))

    def pushed(self, name: str, generation: int, *, is_pending: bool = False) -> Self:
        """The switch has it; `is_pending`: and undoes it unless it is confirmed."""
        phase = SwitchPhase.COMMITTED if is_pending else SwitchPhase.APPLIED
        applied = replace(self.switches[name], phase=phase, applied_generation=generation)
        return self._switch(name, applied)._settled()

    def confirmed(self, name: str) -> Self:
        """What the switch has stays; the next wave begins where this was the last of one."""
        step = self.switches[name]
        if step.phase is not SwitchPhase.COMMITTED:
            return self
        after = self._switch(name, replace(step, phase=SwitchPhase.APPLIED))
        return after if after.turned_back else after._opened()

    def confirm_failed(self, name: str, error: str) -> Self:
        """The switch did not take the confirmation, and may have gone back by itself."""
        step = self.switches[name]
        if step.phase is not SwitchPhase.COMMITTED:
            return self
        failed = self._switch(name, replace(step, phase=SwitchPhase.UNSURE, error=error))
        return failed if failed.turned_back else failed._back(error)

    def push_failed(self, name: str, error: str, *, changed: bool, absent: bool = False) -> Self:
        """The switch refused (not `changed`), did not confirm, or is `absent`: nothing was sent to it."""
        before = self.switches[name]
        if absent and not before.again and self.switches.count(SwitchPhase.ABSENT) < self.plan.absent_most:
            return self._switch(name, replace(before, phase=SwitchPhase.ABSENT, error=error))._settled()
        phase = SwitchPhase.UNSURE if changed or before.again else SwitchPhase.FAILED
        failed = self._switch(name, replace(before, phase=phase, error=error))
        return failed._back(error)

    def wave_opened(self, wave: int) -> Self:
        """All switches of that wave are well: what they have is confirmed, then the next one begins."""
        if self.turned_back or wave != self.wave or wave < self.looked:
            return self
        return replace(self, looked=wave + 1)._opened()

    def turned(self, reason: str) -> Self:
        """A person, or a look at the switches, has it undone; the same rollout once its policy is in force."""
        if self.ended or self.active:
            return self
        return self._back(reason)

    def stopped(self, reason: str) -> Self:
        """Hosts are switched off: it is undone, or no host is awaited any more where its policy is in force."""
        if self.ended or not self.active:
            return self.turned(reason)
        return self._without(self.hosts.named(HostPhase.WAITING), reason, reason)

    def paused(self) -> Self:
        """No further switch is begun."""
        stays = self.phase is not Phase.RUNNING or self.turned_back or self.active
        return self if stays else replace(self, phase=Phase.PAUSED)

    def resumed(self) -> Self:
        """It goes on."""
        return replace(self, phase=Phase.RUNNING) if self.phase is Phase.PAUSED else self

    def restoring(self, name: str) -> Self:
        """The switch is about to get back what it had."""
        return self._switch(name, replace(self.switches[name], phase=SwitchPhase.RESTORING))

    @property
    def felt_before(self) -> dict[str, float]:
        """Each host's stretch before it."""
        return {name: step.felt_before for name, step in self.hosts.steps.items()}

    def still_restoring(self, name: str, error: str) -> Self:
        """A try to give it back failed; another one follows."""
        before = self.switches[name]
        return self._switch(name, replace(before, error=_and_then(before.error, error)))

    def restored(self, name: str, generation: int) -> Self:
        """The switch confirmed what it had before."""
        step = replace(self.switches[name], phase=SwitchPhase.RESTORED, applied_generation=generation)
        return self._switch(name, step)._settled()

    def restore_failed(self, name: str, error: str) -> Self:
        """The switch could not be given back what it had."""
        before = self.switches[name]
        stranded = replace(before, phase=SwitchPhase.STRANDED, error=_and_then(before.error, error))
        return self._switch(name, stranded)._settled()

    def activated(self, at: float | None = None) -> Self:
        """The policy is in force, since then (s since 1970): hosts may fetch it."""
        waiting = {name: replace(step, phase=HostPhase.WAITING) for name, step in self.hosts.steps.items()}
        return replace(self, active=True, active_at=at, hosts=self.hosts.having(waiting))._settled()

    def host_reported(self, name: str, generation: int) -> Self:
        """A host says which policy it follows."""
        step = self.hosts.steps.get(name)
        if step is None or step.phase is HostPhase.APPLIED:
            return self
        phase = HostPhase.APPLIED if self.active and generation == self.generation else step.phase
        reported = replace(step, phase=phase, applied_generation=generation)
        if reported == step:
            return self
        return replace(self, hosts=self.hosts.having({name: reported}))._settled()

    def hosts_ran_out(self, deadline_s: float) -> Self:
        """The hosts that have not reported by now count as failed; the policy stays in force for the others."""
        late = self.hosts.named(HostPhase.WAITING)
        if not late:
            return self
        error = f"no report of generation {self.generation} within {deadline_s:g} s"
        whole = f"hosts {', '.join(late)}: {error}; the policy is in force for when they come back"
        return self._without(late, error, whole)

    def _without(self, names: Iterable[str], error: str, whole: str) -> Self:
        """The same, failed for want of these hosts: why at each, and why in all."""
        failed = {name: replace(self.hosts[name], phase=HostPhase.FAILED, error=error) for name in names}
        return replace(self, hosts=self.hosts.having(failed), phase=Phase.FAILED, error=whole)

    def restarted(self) -> Self:
        """The orchestrator was: what was being pushed, or given back, is so again."""
        again = dict.fromkeys((SwitchPhase.PUSHING, SwitchPhase.COMMITTED), SwitchPhase.PENDING)
        if self.turned_back:
            again = dict.fromkeys(again, SwitchPhase.UNSURE)
        again[SwitchPhase.RESTORING] = SwitchPhase.UNSURE
        steps = {name: self.switches[name] for name in self.switches.named(*again)}
        changed = {name: replace(step, phase=again[step.phase], again=True) for name, step in steps.items()}
        return replace(self, switches=self.switches.having(changed), looked=self.wave)._settled()

    def saved(self) -> Self:
        """The same, all of it in the store."""
        return replace(self, switches=self.switches.saved(), hosts=self.hosts.saved())

    def to_json(self) -> dict[str, Any]:
        """Plain JSON, for the store: of devices those that it has not."""
        return {
            "generation": self.generation,
            "phase": self.phase,
            "error": self.error,
            "active": self.active,
            "active_at": self.active_at,
            "turned_back": self.turned_back,
            "wave": self.wave,
            "looked": self.looked,
            "undoes": self.undoes,
            "lifts_off": self.lifts_off,
            "plan": asdict(self.plan) | {"waves": list(self.plan.waves)},
            "switches": self.switches.unsaved_json(),
            "hosts": self.hosts.unsaved_json(),
        }

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Self:
        """The rollout of `to_json`, with all its devices. Raises KeyError, TypeError, ValueError."""
        switches = {
            name: SwitchStep(**{**step, "phase": SwitchPhase(step["phase"])})
            for name, step in found["switches"].items()
        }
        hosts = {name: HostStep(**{**step, "phase": HostPhase(step["phase"])}) for name, step in found["hosts"].items()}
        plan = found.get("plan", {})
        own = {
            "phase": Phase(found["phase"]),
            "plan": Plan(**{**plan, "waves": tuple(plan.get("waves", ()))}),
            "switches": Devices.of(switches),
            "hosts": Devices.of(hosts),
        }
        return cls(**{**found, **own}).saved()

    def _opened(self) -> Self:
        """The same, with its next wave open where nothing of this one is to be confirmed any more."""
        waits = self.looked <= self.wave or self.switches.count(SwitchPhase.COMMITTED)
        return self if waits else replace(self, wave=self.wave + 1)

    def _back(self, reason: str) -> Self:
        return replace(self, turned_back=True, phase=Phase.RUNNING, error=self.error or reason)._settled()

    def _switch(self, name: str, step: SwitchStep) -> Self:
        return replace(self, switches=self.switches.having({name: step}))

    def _settled(self) -> Self:
        """The same, ended where nothing is left to do or to wait for."""
        if self.ended:
            return self
        if self.turned_back:
            if self.switches.count(*TO_RESTORE, SwitchPhase.PUSHING, SwitchPhase.RESTORING):
                return self
            return replace(self, phase=Phase.FAILED if self.switches.count(SwitchPhase.STRANDED) else Phase.ROLLED_BACK)
        if self.active and self.hosts.count(HostPhase.APPLIED) == len(self.hosts):
            return replace(self, phase=Phase.DONE)
        return self


def _and_then(before: str | None, error: str) -> str:
    """Why a switch had to be given back what it had, and what came of the last try."""
    first = (before or "").partition(GIVING_BACK)[0]
    return f"{first}{GIVING_BACK}{error}" if first else error
