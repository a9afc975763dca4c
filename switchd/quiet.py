"""When CONFIG_DB may be written without being asked: not while somebody else's patch is under way.

SONiC's patcher (`config apply-patch`, `config rollback`, SONiC's own gNMI Set) reads all of CONFIG_DB, writes row by
row with a second or more between them, reads all again and compares: whatever another writer changed meanwhile fails
the patch, although it was applied (sonic-utilities, generic_config_updater). It takes no lock. So rows that follow
from an intent are written once CONFIG_DB has been left alone for longer than the patcher's longest pause, and no client
of redis is there that may be a patch which has read and not yet written (`patchers`).
"""

import time
from collections.abc import Callable

from switchd.patchers import PATCH_S, patchers

QUIET_S = 10.0
"""the patcher sleeps 1 s after each row, restarts a service for some, and reads CONFIG_DB twice at the end of a
rollback, 0.5 to 1 s each by its own comment"""
LOOK_S = 0.5
"""how often it is looked whether what is waited for, beside quiet, is over"""
PATCHED = "somebody changed CONFIG_DB, and a patch of it may be under way"


class Quiet:
    """When it is quiet.

    quiet_s      how long CONFIG_DB must have been left alone by others; 0: nobody else patches it
    patch_s      how long after that a client is waited for that may be a patch; 0: not at all
    client_list  what redis answers to CLIENT LIST; it may raise DatabaseLost
    stopped      why nothing at all may be written; empty where it may
    """

    def __init__(self, quiet_s: float, client_list: Callable[[], str], patch_s: float = PATCH_S) -> None:
        self._quiet_s, self._client_list, self._patch_s = quiet_s, client_list, patch_s
        self._since_s = time.monotonic()  # before that nobody knows what was under way
        self._look_at_s = 0.0
        self._why = PATCHED
        self.stopped = ""

    def disturbed(self) -> None:
        """Somebody else wrote."""
        self._since_s, self._why = time.monotonic(), PATCHED

    def stop(self, why: str) -> None:
        """Nothing may be written, not even what we are asked for, until `go`."""
        self.stopped = why

    def go(self) -> None:
        """No more of that; rows that follow wait until it is quiet."""
        if self.stopped:
            self.disturbed()
        self.stopped = ""

    @property
    def why(self) -> str:
        """The reason to wait."""
        return self.stopped or self._why

    def left_s(self) -> float:
        """Seconds until it is quiet, or until the next look where something else is waited for; 0 where it is."""
        now_s = time.monotonic()
        return max(0.0, self._quiet_at_s - now_s, self._look_at_s - now_s, LOOK_S if self.stopped else 0.0)

    def may_write(self) -> bool:
        """Whether it is quiet, and nobody is there who may be patching. Raises DatabaseLost."""
        now_s = time.monotonic()
        if self.left_s():
            return False
        if not self._quiet_s or now_s - self._quiet_at_s >= self._patch_s:
            return True
        found = patchers(self._client_list(), self._patch_s)
        if found:
            self._look_at_s = now_s + LOOK_S
            self._why = f"client {found[0]} of redis is connected to CONFIG_DB as a patch of it would be"
        return not found

    @property
    def _quiet_at_s(self) -> float:
        return self._since_s + self._quiet_s
