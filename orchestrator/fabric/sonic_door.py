"""What is said to a switch by SONiC's own gNMI server, for sites that allow no other: rows of CONFIG_DB.

Measured of sonic-gnmi with native write: the origin is `sonic-db`; an update puts a whole row in place, a replace of a
row that is not there fails; all of one Set is one patch that SONiC's generic config updater writes row by row within
seconds to minutes, and may leave half done; a commit that has to be confirmed is done at once, its extension ignored.
switchd takes the rows once the digest says that they are whole and others leave CONFIG_DB alone, and tells the
generation in STATE_DB: by an ON_CHANGE subscription where the server has them, else it is asked again and again. Such a
subscription tells a row when one of its fields is set, but not when the row or a field is deleted.
"""

import logging
import time
from collections.abc import Generator, Mapping
from contextlib import closing
from typing import Any

from qclimb.config_db import TABLES, with_digest
from qclimb.errors import IntentError
from qclimb.intent import SwitchIntent
from qclimb.switch_state import SwitchState

from ..errors import FleetError
from ..store.store import Switch
from .door import Told, awaited, got, polled
from .session import Session, Update, reason_of, short

log = logging.getLogger(__name__)

MODEL = "sonic-db"
"""its name in Capabilities, and the origin of its paths"""
PLACE = ("CONFIG_DB", "localhost")
STATUS = ("QCLIMB_STATUS", "global")
SET_S = 600.0
"""what its patcher may take"""
APPLIED_S = 60.0
"""and switchd then, which waits until nobody patches"""
POLL_S = 0.5
Rows = Mapping[str, Mapping[str, Mapping[str, str]]]


class SonicDoor:
    """An open session with one switch. The same verbs as `Door`."""

    def __init__(self, switch: Switch, session: Session) -> None:
        self.switch, self._session = switch, session

    @staticmethod
    def longest_commit_s(deadline_s: float) -> float:
        """How long `commit` takes at most: its patcher, then switchd."""
        return SET_S + max(deadline_s, APPLIED_S)

    def intent(self) -> SwitchIntent | None:
        """What the switch was last told; None when it holds nothing of qclimb."""
        rows = self._rows()
        try:
            return SwitchIntent.from_config_db(rows) if any(rows.values()) else None
        except IntentError as error:
            said = f"switch {self.switch.name}: has an intent of another kind: {error}; so it could not be given back"
            raise FleetError(said, changed=False) from error

    def state(self) -> SwitchState:
        """Nothing: what switches tell of spines is read at their own server alone."""
        return SwitchState()

    def apply(self, intent: SwitchIntent | None, deadline_s: float) -> int:
        """Writes the rows that differ by one Set, and waits until switchd reports the intent as applied."""
        delete, update = operations(self._rows(), with_digest(intent.to_config_db()) if intent else {})
        try:
            if delete or update:
                self._session.set(delete=delete, update=update, origin=MODEL, timeout_s=SET_S)
        except Exception as error:  # also where it says no, it may have written some of it
            said = f"switch {self.switch.name}: Set {'/'.join(PLACE)}: {reason_of(error)}"
            raise FleetError(said, changed=True) from error
        if intent is None:
            return 0
        within_s = max(deadline_s, APPLIED_S)
        with closing(self._statuses(within_s)) as statuses:
            applied = (self._applied(status, intent.generation) for status in statuses)
            return awaited(applied, intent.generation, within_s, self._differs)

    def commit(self, intent: SwitchIntent, token: str, rollback_s: float, deadline_s: float) -> bool:
        """As `apply`: here is no commit that has to be confirmed."""
        self.apply(intent, deadline_s)
        return False

    def confirm(self, token: str) -> None:
        """There is nothing to confirm."""

    def give_back(self, intent: SwitchIntent | None, token: str, deadline_s: float) -> int:
        """As `apply`."""
        return self.apply(intent, deadline_s)

    def told(self) -> Told:
        """How far the switch's ASIC has come with what it was last told. Raises FleetError."""
        status = self._status()
        verified, warning = (short(status.get(name, "")) for name in ("verified", "warning"))
        return Told("unverified" if verified.startswith("written") else verified, {}, warning=warning)

    def unwell(self, generation: int) -> str | None:
        """Why the switch does not follow that generation, None where it does."""
        found = self._status().get("applied_generation")
        return None if str(found) == str(generation) else self._differs(f"is {short(found or 'not there')}", generation)

    def _rows(self) -> dict[str, dict[str, dict[str, str]]]:
        found = {}
        for table in TABLES:
            read = lambda table=table: self._session.get([*PLACE, table], origin=MODEL)  # noqa: E731
            found[table] = rows_of(got(self.switch, "/".join((*PLACE, table)), read))
        return found

    def _status(self) -> dict[str, Any]:
        found = got(self.switch, "STATE_DB/" + "/".join(STATUS), lambda: self._session.get(STATUS, target="STATE_DB"))
        return found if isinstance(found, dict) else {}

    def _statuses(self, within_s: float) -> Generator[dict[str, Any], None, None]:
        """switchd's status, now and as it changes; at the end asked for once more."""
        end = time.monotonic() + within_s
        try:
            for found in self._session.changes(STATUS, target="STATE_DB", timeout_s=within_s):
                yield found if isinstance(found, dict) else {}
        except Exception as error:
            if time.monotonic() < end:
                log.info("polls switch=%s on_change=%r", self.switch.name, reason_of(error))
        yield from polled(self._status, end, POLL_S)

    def _applied(self, status: Mapping[str, Any], wanted: int) -> Any:
        """The generation that holds. Raises FleetError where the switch refuses the wanted one."""
        if refusal(status, wanted):
            raise FleetError(
                self._differs(f"is {short(status.get('applied_generation', 'not there'))}", wanted), changed=True
            )
        return status.get("applied_generation")

    def _differs(self, seen: str, generation: int) -> str:
        try:
            said = self._status().get("last_error")
        except FleetError:
            said = None
        because = f"; it says: {short(said)}" if said else ""
        return (
            f"switch {self.switch.name}: {'|'.join(STATUS)} applied_generation {seen}, expected {generation}{because}"
        )


def refusal(status: Mapping[str, Any], generation: int) -> str:
    """Why the switch will not take that generation; empty where it has, or may yet."""
    is_asked = str(status.get("desired_generation")) == str(generation)
    return str(status.get("last_error", "")) if is_asked and status.get("outcome") == "refused" else ""


def rows_of(found: Any) -> dict[str, dict[str, str]]:
    """A table's rows as redis has them, of JSON in which a leaf-list is a list without the `@` behind its name."""
    if not isinstance(found, dict):
        return {}
    return {
        str(key): {
            (f"{name.removesuffix('@')}@" if isinstance(value, list) else name): ",".join(map(str, value))
            if isinstance(value, list)
            else str(value)
            for name, value in row.items()
        }
        for key, row in found.items()
        if isinstance(row, dict)
    }


def operations(now: Rows, wanted: Rows) -> tuple[list[list[str]], list[Update]]:
    """The deletes and updates of one Set that make the rows of an intent what is wanted. Pure.

    A table without rows is deleted whole, one that was not there is updated whole: its patcher knows no empty tables.
    """
    delete: list[list[str]] = []
    update: list[Update] = []
    for table in TABLES:
        before, after = now.get(table, {}), wanted.get(table, {})
        if not after:
            delete += [[*PLACE, table]] if before else []
        elif not before:
            update.append(Update([*PLACE, table], {key: _json(row) for key, row in after.items()}))
        else:
            delete += [[*PLACE, table, _element(key)] for key in before if key not in after]
            update += [
                Update([*PLACE, table, _element(key)], _json(row))
                for key, row in after.items()
                if before.get(key) != row
            ]
    return delete, update


def _element(key: str) -> str:
    """A key as an element of a path, which becomes a JSON pointer there."""
    return key.replace("~", "~0").replace("/", "~1")


def _json(row: Mapping[str, str]) -> dict[str, Any]:
    return {name.removesuffix("@"): value.split(",") if name.endswith("@") else value for name, value in row.items()}
