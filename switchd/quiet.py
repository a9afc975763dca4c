"""When CONFIG_DB may be written without being asked: not while somebody else's patch is under way.

SONiC's patcher (`config apply-patch`, `config rollback`, SONiC's own gNMI Set) reads all of CONFIG_DB, writes row by
row with a second or more between them, reads all again and compares: whatever another writer changed meanwhile fails
the patch, although it was applied (sonic-utilities, generic_config_updater). It takes no lock. So rows that follow
from an intent are written once CONFIG_DB has been left alone for longer than the patcher's longest pause.
"""

import time

QUIET_S = 10.0
"""the patcher sleeps 1 s after each row, restarts a service for some, and reads CONFIG_DB twice at the end of a
rollback, 0.5 to 1 s each by its own comment"""


PATCHED = "somebody changed CONFIG_DB, and a patch of it may be under way"


class Quiet:
    """`quiet_s`: how long CONFIG_DB must have been left alone by others; 0: nobody else patches it."""

    def __init__(self, quiet_s: float) -> None:
        self._quiet_s = quiet_s
        self._since_s = time.monotonic()  # before that nobody knows what was under way
        self.why = PATCHED

    def disturbed(self, why: str = PATCHED) -> None:
        """Somebody else wrote, or another reason to wait."""
        self._since_s, self.why = time.monotonic(), why

    def left_s(self) -> float:
        """Seconds until it is quiet; 0 where it is."""
        return max(0.0, self._since_s + self._quiet_s - time.monotonic())
