"""What is said to one switch over an open gNMI session.

An intent goes out as ONE Set replace of /qclimb, which a switch takes whole or not at all, and counts as applied only
when the switch reads back its generation. Every failure is a FleetError: one sentence with switch, path and reason.
"""

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from qclimb.errors import IntentError
from qclimb.intent import SwitchIntent

from ..errors import FleetError
from ..store.store import Switch

ROOT = "/qclimb:qclimb"
APPLIED = f"{ROOT}/state/applied-generation"
LAST_ERROR = f"{ROOT}/state/last-error"
POLL_S = 0.05
COUNTED = ("bytes", "packets", "dropped-packets")


@dataclass(frozen=True)
class ClassCount:
    """What a switch counted of one priority over all its granted ports; None: its platform does not count that."""

    bytes: int | None
    packets: int | None
    dropped_packets: int | None


@dataclass(frozen=True)
class Told:
    """What a switch says of itself.

    verification  how it knows that the applied generation holds: seen, pending, unverified; empty: it does not say
    ports         how many ports have each status
    classes       what was counted, by priority
    alarms        of priorities that take much more of a port than is foretold: the switch's sentence
    """

    verification: str
    ports: Mapping[str, int]
    classes: Mapping[int, ClassCount] = field(default_factory=dict)
    alarms: Mapping[int, str] = field(default_factory=dict)


class Door:
    """An open session with one switch."""

    def __init__(self, switch: Switch, session: Any) -> None:
        self.switch, self._session = switch, session

    def intent(self) -> SwitchIntent | None:
        """What the switch was last told; None when it holds nothing of qclimb."""
        found = get(self.switch, self._session, ROOT, "config")
        if not found:
            return None
        try:
            return SwitchIntent.from_gnmi(found)
        except IntentError as error:
            if isinstance(found, dict) and not local(local(found).get("config", {})).get("generation"):
                return None  # never configured
            reason = f"switch {self.switch.name}: has an intent of another kind: {error}; so it could not be given back"
            raise FleetError(reason, changed=False) from error

    def apply(self, intent: SwitchIntent | None, deadline_s: float) -> int:
        """Sets the intent (None: takes everything of qclimb away) and waits until the switch reports it as applied.

        Returns the applied generation. FleetError.changed tells whether the switch may have changed all the same.
        """
        try:
            if intent is None:
                self._session.set(delete=[ROOT], encoding="json_ietf")
                return 0
            (tree,) = intent.to_gnmi().values()
            self._session.set(replace=[(ROOT, tree)], encoding="json_ietf")
        except Exception as error:
            unsure = "DEADLINE" in repr(error).upper() or "UNAVAILABLE" in repr(error).upper()
            said = f"switch {self.switch.name}: Set {ROOT}: {reason_of(error)}"
            raise FleetError(said, changed=unsure, refused=not unsure) from error
        return self._await_applied(intent.generation, deadline_s)

    def told(self) -> Told:
        """How far the switch's ASIC has come with what it was last told. Raises FleetError."""
        verification = get(self.switch, self._session, f"{ROOT}/state/verification", "state")
        statuses = Counter(str(state.get("status", "")) for _, state in self._states("ports"))
        classes = {
            int(one["priority"]): state
            for one, state in self._states("classes")
            if str(one.get("priority", "")).isdecimal()
        }
        counted = {each: ClassCount(*(_count(state.get(leaf)) for leaf in COUNTED)) for each, state in classes.items()}
        alarms = {each: str(state["alarm"]) for each, state in classes.items() if state.get("alarm")}
        return Told(str(verification or ""), dict(statuses), counted, alarms)

    def _states(self, of: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        """The entries of a list, and the state of each."""
        found = get(self.switch, self._session, f"{ROOT}/{of}", "state")
        entries: list[Any] = [] if not isinstance(found, dict) else next(iter(found.values()), [])
        told = [local(one) for one in entries if isinstance(one, dict)]
        return [(one, local(one["state"])) for one in told if isinstance(one.get("state"), dict)]

    def unwell(self, generation: int) -> str | None:
        """Why the switch does not follow that generation, None where it does."""
        found = get(self.switch, self._session, APPLIED, "state")
        return None if str(found) == str(generation) else self._differs(f"is {found or 'not there'}", generation)

    def _await_applied(self, generation: int, deadline_s: float) -> int:
        """Polls the applied generation until it is the wanted one."""
        end = time.monotonic() + deadline_s
        while True:
            try:
                found = get(self.switch, self._session, APPLIED, "state")
            except FleetError as error:
                raise FleetError(str(error), changed=True) from error
            if str(found) == str(generation):
                return generation
            if time.monotonic() >= end:
                seen = f"is {found or 'not there'} after {deadline_s:g} s"
                raise FleetError(self._differs(seen, generation), changed=True)
            time.sleep(POLL_S)

    def _differs(self, seen: str, generation: int) -> str:
        try:
            said = get(self.switch, self._session, LAST_ERROR, "state")
        except FleetError:
            said = None
        because = f"; it says: {said}" if said else ""
        return f"switch {self.switch.name}: {APPLIED} {seen}, expected {generation}{because}"


def _count(value: Any) -> int | None:
    """A counter as JSON_IETF has it, decimal text."""
    return int(value) if str(value).isdecimal() else None


def local(members: Mapping[str, Any]) -> dict[str, Any]:
    """Members by their names without module prefixes."""
    return {name.rpartition(":")[2]: value for name, value in members.items()}


def get(switch: Switch, session: Any, path: str, datatype: str) -> Any:
    """The value at a path, None when there is none."""
    try:
        answer = session.get(path=[path], datatype=datatype, encoding="json_ietf")
    except Exception as error:
        if "NOT_FOUND" in repr(error) or "NOT_FOUND" in repr(getattr(error, "orig_exc", "")):
            return None
        raise FleetError(f"switch {switch.name}: Get {path}: {reason_of(error)}", changed=False) from error
    values = [
        update["val"]
        for notification in answer.get("notification", [])
        for update in notification.get("update", []) or []
    ]
    return values[0] if values else None


def reason_of(error: Exception) -> str:
    """What a gRPC or pygnmi exception has to say, in one line."""
    origin = getattr(error, "orig_exc", None) or error.__cause__ or error
    if hasattr(origin, "code") and hasattr(origin, "details"):
        return f"{origin.code().name}: {' '.join(str(origin.details()).split())}"
    return " ".join(str(error).split()) or type(error).__name__
