"""A warm restart as SONiC's finalizer sees it (WARM_RESTART_TABLE; sonic-swss-common, warm_restart.cpp).

While the control plane restarts the ASIC goes on, and orchagent takes up what stands in the databases: a row that comes
meanwhile may make its restoring fail (`warmRestoreValidation`). So nothing is written before it has, not even what our
door is asked for. Then this daemon compares rows and ASIC, finds them as they were, and says `reconciled`.
"""

import logging
import time

from switchd.apply import Switch
from switchd.db import STATE, Database
from switchd.rows import Merge
from switchd.status import PENDING

log = logging.getLogger("switchd")

ENABLE_TABLE, TABLE = "WARM_RESTART_ENABLE_TABLE", "WARM_RESTART_TABLE"
NAME = "qclimb-switchd"
OTHER, ITS_SERVICE = "orchagent", "swss"
UNDER_WAY = ("initialized", "restored", "replayed")
LONGEST_S = 300.0
"""after which SONiC's finalizer gives up, too"""
WAITS = f"{OTHER} has not reconciled after a warm restart"


class WarmStart:
    """`feature`: SONiC's name of our service."""

    def __init__(self, db: Database, feature: str) -> None:
        self._db, self._feature = db, feature
        self._since_s: float | None = None
        self._is_begun = self._is_told = self._is_late = False

    def _begin(self) -> None:
        """Look whether this is a warm start, and count it as `WarmStart::checkWarmStart` does. Raises DatabaseLost."""
        (row,) = self._db.hashes(STATE, [f"{TABLE}|{NAME}"])
        count = row.get("restore_count", "")
        if not (any(self._enabled("system", self._feature)) and count.isdecimal()):  # flushed databases: a cold start
            self._db.write_state([Merge(TABLE, NAME, {"restore_count": "0", "state": "disabled"})])
            self._is_told = True
            return
        told = {"restore_count": str(int(count) + 1), "state": "initialized"}
        self._db.write_state([Merge(TABLE, NAME, told)])
        log.info("warm start count=%s", told["restore_count"])

    def follow(self, switch: Switch) -> None:
        """At each beat: nothing is written while orchagent restores; then say `reconciled`, too, once the ASIC was
        compared and nothing is waited for. Raises DatabaseLost.
        """
        if not self._is_begun:
            self._begin()
            self._is_begun = True
        if self._waits():
            switch.quiet.stop(WAITS)
            return
        switch.quiet.go()
        if not self._is_told and switch.board.is_known and switch.snapshot.status.verified != PENDING:
            self._db.write_state([Merge(TABLE, NAME, {"state": "reconciled"})])
            self._is_told = True
            log.info("warm start reconciled")

    def _waits(self) -> bool:
        """Whether orchagent is restoring, but not for ever.

        A warm reboot takes its state away before it goes down, so none is that of before it began.
        """
        state = self._db.hashes(STATE, [f"{TABLE}|{OTHER}"])[0].get("state", "")
        system, *others = self._enabled("system", ITS_SERVICE, self._feature)
        if not ((state in UNDER_WAY and (system or any(others))) or (system and not state)):
            self._since_s, self._is_late = None, False
            return False
        if self._since_s is None:
            self._since_s = time.monotonic()
        late_s = time.monotonic() - self._since_s
        if late_s >= LONGEST_S and not self._is_late:
            log.warning("warm start %s has not reconciled in %.0f s", OTHER, late_s)
            self._is_late = True
        return not self._is_late

    def _enabled(self, *services: str) -> list[bool]:
        rows = self._db.hashes(STATE, [f"{ENABLE_TABLE}|{one}" for one in services])
        return [row.get("enable") == "true" for row in rows]
