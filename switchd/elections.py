"""Who among several clients of one role may write (gNMI's master arbitration): the one with the largest election id.

Kept in STATE_DB, QCLIMB_ELECTION|<role>, so that a daemon that restarts goes on refusing whoever lost; and here, so
that a redis that restarts empty does not let him in.
"""

from qclimb.errors import QclimbError
from qclimb.gnmi_ext import Election

from switchd.db import STATE, Database
from switchd.holder import Holder
from switchd.rows import Put

ELECTION_TABLE, DEFAULT_ROLE = "QCLIMB_ELECTION", "default"
ROLES_MOST = 64


class NotMaster(QclimbError):
    """Somebody with a larger election id has written."""


class TooManyRoles(QclimbError):
    """No further role is kept."""


class Elections:
    """The largest election id of each role."""

    def __init__(self, db: Database, holder: Holder) -> None:
        self._db, self._holder = db, holder
        self._largest: dict[str, int] = {}

    def check(self, election: Election) -> None:
        """Remember a larger id. Raises NotMaster naming the largest where it is smaller, TooManyRoles, DatabaseLost."""
        role = election.role or DEFAULT_ROLE
        (row,) = self._db.hashes(STATE, [f"{ELECTION_TABLE}|{role}"])
        told = row.get("election_id", "")
        stored = int(told) if told.isdecimal() and len(told) < 40 else -1
        largest = max(stored, self._largest.get(role, -1))
        if election.id < largest:
            raise NotMaster(
                f"election_id is {election.id}, and role {role!r} has seen {largest}: another one is master"
            )
        if role not in self._largest and len(self._largest) >= ROLES_MOST:
            raise TooManyRoles(f"role {role!r}: {ROLES_MOST} roles are known already, the most that are kept")
        if election.id != stored:
            put = Put(ELECTION_TABLE, role, {"election_id": str(election.id)})
            self._holder.holding(lambda: self._db.write_state([put], self._holder.name))
        self._largest[role] = election.id
