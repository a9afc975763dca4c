"""How a rollout goes, as a value: switches first, hosts only when every switch has confirmed. Pure.

`next_steps` says what is to be done now, `with_switch` and the like take in what came of it. Invariants:
- the policy is put in force only when all switches are applied;
- after a switch has failed nothing new is pushed, and each switch that changed, or may have, gets back what it had;
- what a switch had before is part of the value, thus in the store, before anything is pushed to it.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any, Self


class Phase(StrEnum):
    """Of a whole rollout; only running may still change."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    ROLLED_BACK = "rolled-back"


class SwitchPhase(StrEnum):
    """Of one switch in it."""

    PENDING = "pending"
    PUSHING = "pushing"
    APPLIED = "applied"
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


@dataclass(frozen=True)
class HostStep:
    """How far a rollout is at a host."""

    phase: HostPhase = HostPhase.PENDING
    error: str | None = None
    applied_generation: int = 0


@dataclass(frozen=True)
class Steps:
    """What is to be done now."""

    push: tuple[str, ...] = ()
    restore: tuple[str, ...] = ()
    activate: bool = False


GIVING_BACK = "; then, giving back its former intent: "
TO_RESTORE = {SwitchPhase.APPLIED, SwitchPhase.UNSURE}


@dataclass(frozen=True)
class Rollout:
    """One rollout of `generation`."""

    generation: int
    phase: Phase = Phase.RUNNING
    error: str | None = None
    active: bool = False
    """The hosts' policy is in force."""
    turned_back: bool = False
    """A switch failed, or the orchestrator restarted: nothing is pushed any more."""
    switches: Mapping[str, SwitchStep] = field(default_factory=dict)
    hosts: Mapping[str, HostStep] = field(default_factory=dict)

    def next_steps(self) -> Steps:
        """Everything that may start now; empty while something is awaited, and at the end."""
        if self.phase is not Phase.RUNNING:
            return Steps()
        if self.turned_back:
            if self._any(SwitchPhase.PUSHING):
                return Steps()
            return Steps(restore=tuple(name for name, step in self.switches.items() if step.phase in TO_RESTORE))
        if all(step.phase is SwitchPhase.APPLIED for step in self.switches.values()):
            return Steps(activate=not self.active)
        return Steps(push=tuple(name for name, step in self.switches.items() if step.phase is SwitchPhase.PENDING))

    def pushing(self, name: str, previous: dict[str, Any] | None) -> "Rollout":
        """A push is about to start; `previous` is what the switch has. The same rollout where nothing is pushed now."""
        if self.turned_back or self.phase is not Phase.RUNNING:
            return self
        return self._switch(name, SwitchStep(SwitchPhase.PUSHING, previous=previous))

    def pushed(self, name: str, generation: int) -> "Rollout":
        """The switch confirmed."""
        applied = replace(self.switches[name], phase=SwitchPhase.APPLIED, applied_generation=generation)
        return self._switch(name, applied)._settled()

    def push_failed(self, name: str, error: str, *, changed: bool) -> "Rollout":
        """The switch refused (not `changed`), or did not confirm."""
        phase = SwitchPhase.UNSURE if changed else SwitchPhase.FAILED
        failed = self._switch(name, replace(self.switches[name], phase=phase, error=error))
        return replace(failed, turned_back=True, error=failed.error or error)._settled()

    def restoring(self, name: str) -> "Rollout":
        """The switch is about to get back what it had."""
        return self._switch(name, replace(self.switches[name], phase=SwitchPhase.RESTORING))

    def still_restoring(self, name: str, error: str) -> "Rollout":
        """A try to give it back failed; another one follows."""
        before = self.switches[name]
        return self._switch(name, replace(before, error=_and_then(before.error, error)))

    def restored(self, name: str, generation: int) -> "Rollout":
        """The switch confirmed what it had before."""
        step = replace(self.switches[name], phase=SwitchPhase.RESTORED, applied_generation=generation)
        return self._switch(name, step)._settled()

    def restore_failed(self, name: str, error: str) -> "Rollout":
        """The switch could not be given back what it had."""
        before = self.switches[name]
        stranded = replace(before, phase=SwitchPhase.STRANDED, error=_and_then(before.error, error))
        return self._switch(name, stranded)._settled()

    def activated(self) -> "Rollout":
        """The policy is in force: hosts may fetch it."""
        waiting = {name: replace(step, phase=HostPhase.WAITING) for name, step in self.hosts.items()}
        return replace(self, active=True, hosts=waiting)._settled()

    def host_reported(self, name: str, generation: int) -> "Rollout":
        """A host says which policy it follows."""
        step = self.hosts.get(name)
        if step is None or (step.phase is HostPhase.APPLIED and generation == self.generation):
            return self
        phase = HostPhase.APPLIED if self.active and generation == self.generation else step.phase
        step = replace(step, phase=phase, applied_generation=generation)
        return replace(self, hosts={**self.hosts, name: step})._settled()

    def hosts_ran_out(self, deadline_s: float) -> "Rollout":
        """The hosts that have not reported by now count as failed; the policy stays in force for the others."""
        late = {name for name, step in self.hosts.items() if step.phase is HostPhase.WAITING}
        if not late:
            return self
        error = f"no report of generation {self.generation} within {deadline_s:g} s"
        hosts = {
            name: replace(step, phase=HostPhase.FAILED, error=error) if name in late else step
            for name, step in self.hosts.items()
        }
        return replace(
            self,
            hosts=hosts,
            phase=Phase.FAILED,
            error=f"hosts {', '.join(sorted(late))}: {error}; the policy is in force for when they come back",
        )

    def interrupted(self) -> "Rollout":
        """The orchestrator was restarted: what was in the making is undone, or left to the hosts if it was in force."""
        if self.phase is not Phase.RUNNING:
            return self
        error = "the orchestrator restarted during this rollout"
        if self.active:
            left = "; all switches had confirmed and the policy is in force"
            return replace(self, phase=Phase.FAILED, error=error + left)
        unsure = {SwitchPhase.PUSHING, SwitchPhase.RESTORING}
        switches = {
            name: replace(step, phase=SwitchPhase.UNSURE, error=error) if step.phase in unsure else step
            for name, step in self.switches.items()
        }
        return replace(self, switches=switches, turned_back=True, error=self.error or error)._settled()

    def to_json(self) -> dict[str, Any]:
        """Plain JSON, for the store."""
        return asdict(self)

    @classmethod
    def from_json(cls, found: dict[str, Any]) -> Self:
        """The rollout of `to_json`."""
        switches = {
            name: SwitchStep(**{**step, "phase": SwitchPhase(step["phase"])})
            for name, step in found["switches"].items()
        }
        hosts = {name: HostStep(**{**step, "phase": HostPhase(step["phase"])}) for name, step in found["hosts"].items()}
        return cls(**{**found, "phase": Phase(found["phase"]), "switches": switches, "hosts": hosts})

    def _switch(self, name: str, step: SwitchStep) -> "Rollout":
        return replace(self, switches={**self.switches, name: step})

    def _any(self, phase: SwitchPhase) -> bool:
        return any(step.phase is phase for step in self.switches.values())

    def _settled(self) -> "Rollout":
        """The same, ended where nothing is left to do or to wait for."""
        if self.phase is not Phase.RUNNING:
            return self
        if self.turned_back:
            open_phases = {*TO_RESTORE, SwitchPhase.PUSHING, SwitchPhase.RESTORING}
            if any(step.phase in open_phases for step in self.switches.values()):
                return self
            return replace(self, phase=Phase.FAILED if self._any(SwitchPhase.STRANDED) else Phase.ROLLED_BACK)
        if self.active and all(step.phase is HostPhase.APPLIED for step in self.hosts.values()):
            return replace(self, phase=Phase.DONE)
        return self


def _and_then(before: str | None, error: str) -> str:
    """Why a switch had to be given back what it had, and what came of the last try."""
    first = (before or "").partition(GIVING_BACK)[0]
    return f"{first}{GIVING_BACK}{error}" if first else error
