"""One daemon writes at a time: a lock in STATE_DB that expires, and who holds it.

Every write goes through a script that looks at the lock first, so a daemon that slept through its lock's end writes
nothing. Where the holder was a process of this very container and is gone (kill -9), its lock is taken over at once.
"""

import os
import socket
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

from switchd.db import Database, NotHolder

LOCK_S = 15.0
BEAT_S = 5.0
"""how often it is renewed; the heartbeat in QCLIMB_STATUS, too"""


class Holder:
    """This process as one that wants to write."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self.name = f"{_home()}:{os.getpid()}:{uuid4().hex[:8]}"

    def hold(self) -> None:
        """Take the lock or keep it. Raises NotHolder naming who has it, or DatabaseLost."""
        found = self._db.hold(self.name, round(LOCK_S * 1000))
        if found != self.name and _is_dead(found):
            found = self._db.hold(self.name, round(LOCK_S * 1000), instead_of=found)
        if found != self.name:
            raise NotHolder(f"another switchd writes here: {found}; waiting until it leaves or its lock expires")

    def holding(self, write: Callable[[], None]) -> None:
        """Write; where our lock's time is over and nobody has taken it, take it again first."""
        try:
            write()
        except NotHolder:
            self.hold()
            write()

    def release(self) -> None:
        """Let the next one at it."""
        self._db.release(self.name)


def _home() -> str:
    """Host name and PID namespace: only there a PID means the same process."""
    return f"{socket.gethostname()}:{Path('/proc/self/ns/pid').stat().st_ino}"


def _is_dead(name: str) -> bool:
    home, _, pid = name.rpartition(":")[0].rpartition(":")
    if home != _home() or not pid.isdecimal():
        return False
    try:
        return Path("/proc", pid, "stat").read_text().rpartition(")")[2].split()[0] in "ZX"  # nobody waited for it yet
    except OSError:
        return True
