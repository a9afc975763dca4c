"""What is said to one switch over an open gNMI session, at qclimb's own gNMI server.

An intent goes out as ONE Set replace of /qclimb, which a switch takes whole or not at all, and counts as applied only
when the switch reads back its generation. Every failure is a FleetError: one sentence with switch, path and reason.

In a rollout the Set is a commit that has to be confirmed (gNMI's extension): a switch that can't be reached afterwards
goes back to what it had by itself.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from qclimb.checks import UINT64_MAX
from qclimb.errors import IntentError
from qclimb.gnmi_ext import Commit, Election, written
from qclimb.intent import SwitchIntent
from qclimb.policy import MAX_PRIORITIES
from qclimb.switch_state import SwitchState

from ..errors import FleetError
from ..store.store import Switch
from .session import CALL_TIMEOUT_S, Session, Update, code_of, reason_of, short

MODEL = "qclimb"
TOP = "qclimb:qclimb"
ROOT = f"/{TOP}"
APPLIED = f"{ROOT}/state/applied-generation"
POLL_S = 0.05
UNSURE = ("DEADLINE_EXCEEDED", "UNAVAILABLE", "CANCELLED", "INTERNAL", "UNKNOWN", "")
"""codes after which nobody knows whether a Set was done"""
ROLE = "qclimb-orchestrator"
COUNTED = ("bytes", "packets", "dropped-packets")
PORT_STATUSES = ("applied", "pending", "unverified", "refused")
"""of qclimb.yang"""
OTHER_STATUS = "other"
"""what a port with none of these counts as: a label is nothing that a switch may choose"""
Found = TypeVar("Found")


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
    warning       what its intent does to traffic that is not qclimb's; empty: nothing
    """

    verification: str
    ports: Mapping[str, int]
    classes: Mapping[int, ClassCount] = field(default_factory=dict)
    alarms: Mapping[int, str] = field(default_factory=dict)
    warning: str = ""


class Door:
    """An open session with one switch. `term`: of this orchestrator, by master arbitration; 0: it takes no part."""

    def __init__(self, switch: Switch, session: Session, term: int = 0) -> None:
        self.switch, self._session, self._term = switch, session, term

    @staticmethod
    def longest_commit_s(deadline_s: float) -> float:
        """How long `commit` takes at most: a Set, and until the switch reports it as applied."""
        return CALL_TIMEOUT_S + deadline_s

    def intent(self) -> SwitchIntent | None:
        """What the switch was last told; None when it holds nothing of qclimb."""
        found = self._get("", "CONFIG")
        if not found:
            return None
        try:
            return SwitchIntent.from_stored(found)
        except IntentError as error:
            if isinstance(found, dict) and not local(local(found).get("config", {})).get("generation"):
                return None  # never configured
            raise FleetError(_of_another_kind(self.switch, error), changed=False) from error

    def state(self) -> SwitchState:
        """What the switch tells of spines. Raises FleetError."""
        try:
            return SwitchState.from_gnmi(self._get("", "STATE"))
        except IntentError as error:
            raise FleetError(f"switch {self.switch.name}: its state can't be read: {error}", changed=False) from error

    def apply(self, intent: SwitchIntent | None, deadline_s: float) -> int:
        """Sets the intent (None: takes everything of qclimb away) and waits until the switch reports it as applied.

        Returns the applied generation. FleetError.changed tells whether the switch may have changed all the same.
        """
        if intent is None:
            self._set("Set", delete=[[TOP]])
            return 0
        return self._applied(intent, None, deadline_s)

    def commit(self, intent: SwitchIntent, token: str, rollback_s: float, deadline_s: float) -> bool:
        """As `apply`, but the switch undoes it unless `confirm` comes within `rollback_s`. True: that is so.

        Said again it gives the same commit that long anew. False where the switch knows no such commits: it stays.
        """
        if self._pending() == token:
            if (now := self.intent()) is not None and now.generation == intent.generation:
                self._set("Set", Commit(token, "set_rollback_duration", rollback_s))
                self._await_applied(intent.generation, deadline_s)
                return True
            self._set("Set", Commit(token, "cancel"))
        try:
            self._applied(intent, Commit(token, "commit", rollback_s), deadline_s)
        except FleetError as error:
            if code_of(error.__cause__) != "UNIMPLEMENTED":  # type: ignore[arg-type]
                raise
            self._applied(intent, None, deadline_s)
            return False
        return True

    def confirm(self, token: str) -> None:
        """The commit of that token stays. Raises FleetError, `refused` where the switch has no such commit (any more).

        Said again it is no error.
        """
        status = self._get("/state/commit", "STATE")
        told = local(status) if isinstance(status, dict) else {}
        if (told.get("id"), told.get("status")) == (token, "confirmed"):
            return
        self._set("confirm", Commit(token, "confirm"))

    def give_back(self, intent: SwitchIntent | None, token: str, deadline_s: float) -> int:
        """The intent of before: by cancelling the commit of that token where it is still pending, else by a Set."""
        if self._pending() != token:
            return self.apply(intent, deadline_s)
        self._set("cancel", Commit(token, "cancel"))
        return 0 if intent is None else self._await_applied(intent.generation, deadline_s)

    def told(self) -> Told:
        """How far the switch's ASIC has come with what it was last told. Raises FleetError."""
        found = self._get("/state", "STATE")
        top = local(found) if isinstance(found, dict) else {}
        told = (str(state.get("status", "")) for _, state in self._states("ports"))
        statuses = Counter(each if each in PORT_STATUSES else OTHER_STATUS for each in told)
        numbered = ((_number(one.get("priority"), MAX_PRIORITIES - 1), state) for one, state in self._states("classes"))
        classes = {priority: state for priority, state in numbered if priority is not None}
        counted = {
            each: ClassCount(*(_number(state.get(leaf), UINT64_MAX) for leaf in COUNTED))
            for each, state in classes.items()
        }
        alarms = {each: short(state["alarm"]) for each, state in classes.items() if state.get("alarm")}
        verification, warning = (short(top.get(leaf, "")) for leaf in ("verification", "warning"))
        return Told(verification, dict(statuses), counted, alarms, warning)

    def _states(self, of: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        """The entries of a list, and the state of each."""
        found = self._get(f"/{of}", "STATE")
        entries: list[Any] = [] if not isinstance(found, dict) else next(iter(found.values()), [])
        told = [local(one) for one in entries if isinstance(one, dict)]
        return [(one, local(one["state"])) for one in told if isinstance(one.get("state"), dict)]

    def unwell(self, generation: int) -> str | None:
        """Why the switch does not follow that generation, None where it does."""
        found = self._get("/state/applied-generation", "STATE")
        return None if str(found) == str(generation) else self._differs(f"is {short(found or 'not there')}", generation)

    def _pending(self) -> str | None:
        """The id of the commit that waits to be confirmed."""
        try:
            found = self._get("/state/commit", "STATE")
        except FleetError as error:
            if code_of(error.__cause__) == "INVALID_ARGUMENT":  # type: ignore[arg-type]
                return None  # its schema has no such thing
            raise
        told = local(found) if isinstance(found, dict) else {}
        return str(told.get("id")) if told.get("status") == "pending" else None

    def _applied(self, intent: SwitchIntent, commit: Commit | None, deadline_s: float) -> int:
        (tree,) = intent.to_gnmi().values()
        self._set("Set", commit, replace=[Update([TOP], tree)])
        return self._await_applied(intent.generation, deadline_s)

    def _set(self, what: str, commit: Commit | None = None, **operations: Any) -> None:
        extensions = [] if commit is None else [written(commit)]
        if self._term:
            extensions.append(written(Election(ROLE, self._term)))
        try:
            self._session.set(**operations, extensions=extensions)
        except Exception as error:
            unsure = code_of(error) in UNSURE
            said = f"switch {self.switch.name}: {what} {ROOT}: {reason_of(error)}"
            raise FleetError(said, changed=unsure, refused=not unsure) from error

    def _get(self, below: str, kind: str) -> Any:
        return got(self.switch, f"{ROOT}{below}", lambda: self._session.get([TOP, *below.split("/")[1:]], kind))

    def _await_applied(self, generation: int, deadline_s: float) -> int:
        """Polls the applied generation until it is the wanted one."""
        read = lambda: self._get("/state/applied-generation", "STATE")  # noqa: E731
        end = time.monotonic() + deadline_s
        return awaited(polled(read, end, POLL_S), generation, deadline_s, self._differs)

    def _differs(self, seen: str, generation: int) -> str:
        try:
            said = self._get("/state/last-error", "STATE")
        except FleetError:
            said = None
        because = f"; it says: {short(said)}" if said else ""
        return f"switch {self.switch.name}: {APPLIED} {seen}, expected {generation}{because}"


def polled(read: Callable[[], Found], end: float, poll_s: float) -> Iterator[Found]:
    """What is read now, and again until `end` (time.monotonic)."""
    while True:
        yield read()
        if time.monotonic() >= end:
            return
        time.sleep(poll_s)


def awaited(found: Iterable[Any], generation: int, deadline_s: float, differs: Callable[[str, int], str]) -> int:
    """Takes generations, which end after the deadline, until one is the wanted one. Raises FleetError `changed`."""
    last = None
    try:
        for last in found:
            if str(last) == str(generation):
                return generation
    except FleetError as error:
        raise FleetError(str(error), changed=True) from error
    raise FleetError(differs(f"is {short(last or 'not there')} after {deadline_s:g} s", generation), changed=True)


def _number(value: object, highest: int) -> int | None:
    """A number from 0 on as JSON_IETF has it, decimal text or not; None for what is none, or more than `highest`."""
    text = str(value)
    return int(text) if len(text) <= len(str(highest)) and text.isdecimal() and int(text) <= highest else None


def local(members: Mapping[str, Any]) -> dict[str, Any]:
    """Members by their names without module prefixes."""
    return {name.rpartition(":")[2]: value for name, value in members.items()}


def got(switch: Switch, place: str, read: Callable[[], Any]) -> Any:
    """What `read` gets; its failure as a FleetError."""
    try:
        return read()
    except Exception as error:
        raise FleetError(f"switch {switch.name}: Get {place}: {reason_of(error)}", changed=False) from error


def _of_another_kind(switch: Switch, error: IntentError) -> str:
    return f"switch {switch.name}: has an intent of another kind: {error}; so it could not be given back"
