"""A warm restart as SONiC's finalizer sees it (WARM_RESTART_TABLE; sonic-swss-common, warm_restart.cpp).

While the control plane restarts the ASIC goes on, and orchagent takes up what stands in the databases. Nothing is to be
written before it has. Then this daemon compares rows and ASIC, finds them as they were, and says `reconciled`.
"""

import logging
import time

from switchd.apply import Switch
from switchd.db import Database
from switchd.rows import Merge
from switchd.status import PENDING

log = logging.getLogger("switchd")

ENABLE_TABLE, TABLE = "WARM_RESTART_ENABLE_TABLE", "WARM_RESTART_TABLE"
NAME = "qclimb-switchd"
OTHER = "orchagent"
LONGEST_S = 300.0
"""after which SONiC's finalizer gives up, too"""


WAITS = "orchagent has not reconciled after a warm restart"


class WarmStart:
    """`feature`: SONiC's name of our service."""

    def __init__(self, db: Database, feature: str) -> None:
        self._db, self._feature = db, feature
        self._since_s: float | None = None
        self._is_begun = self._is_told = False

    def _begin(self) -> None:
        """Look whether this is a warm start, and count it as `WarmStart::checkWarmStart` does. Raises DatabaseLost."""
        enabled = self._db.get_state(ENABLE_TABLE)
        row = self._db.get_state(TABLE).get(NAME, {})
        is_warm = any(enabled.get(one, {}).get("enable") == "true" for one in ("system", self._feature))
        count = row.get("restore_count", "")
        if not (is_warm and count.isdecimal()):  # the databases were flushed: a cold start
            self._db.write_state([Merge(TABLE, NAME, {"restore_count": "0", "state": "disabled"})])
            self._is_told = True
            return
        self._since_s = time.monotonic()
        told = {"restore_count": str(int(count) + 1), "state": "initialized"}
        self._db.write_state([Merge(TABLE, NAME, told)])
        log.info("warm start count=%s", told["restore_count"])

    def follow(self, switch: Switch) -> None:
        """At each beat: nothing is written until orchagent has reconciled; then say `reconciled`, too, once the ASIC
        was compared and nothing is waited for. Raises DatabaseLost.
        """
        if not self._is_begun:
            self._begin()
            self._is_begun = True
        if self._is_told:
            return
        if self._since_s is not None:
            late_s = time.monotonic() - self._since_s
            if self._db.get_state(TABLE).get(OTHER, {}).get("state") in ("initialized", "restored", "replayed"):
                if late_s < LONGEST_S:
                    switch.quiet.disturbed(WAITS)
                    return
                log.warning("warm start %s has not reconciled in %.0f s", OTHER, late_s)
            self._since_s = None
        if switch.board.is_known and switch.snapshot.status.verified != PENDING:
            self._db.write_state([Merge(TABLE, NAME, {"state": "reconciled"})])
            self._is_told = True
            log.info("warm start reconciled")
