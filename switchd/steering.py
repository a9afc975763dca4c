"""Keeps the path backend's rows as `paths` wants them: reads, decides, writes, again when the network changes.

Redis tells which rows of the network change. At rest nothing is read until one did, but for a look at everything now
and then, as for what no notification tells (ASIC_DB).
"""

import logging
import time
from collections.abc import Iterable
from contextlib import suppress

from qclimb.intent import SwitchIntent

from switchd import weights
from switchd.db import APPL, STATE, Database, DatabaseLost, Notices
from switchd.holder import Holder
from switchd.network import NetworkReader
from switchd.paths import APPL_TABLES, Steering, is_own, kept, steer
from switchd.ports import RowsNow
from switchd.rows import Change, Delete, Put, described
from switchd.status import Steered
from switchd.uplinks import Uplinks, uplinks_of

log = logging.getLogger("switchd")

LOOK_S, IDLE_LOOK_S = 0.1, 1.0
"""between looks at links, neighbours, known routes and our own rows: with pinned classes, without; at rest at whether
any of them was written"""
REST_S, SETTLE_S = 10.0, 3.0
"""between looks at rest; how long after a change there is one each second, as the ASIC has it later than APPL_DB"""
WATCHED = {APPL: "[NRIPLA]*_TABLE:*", STATE: "ACL_*_TABLE|*"}
"""keys that may concern us, and few others"""
OF_LINKS = ("PORT_TABLE", "LAG_TABLE", "NEIGH_TABLE")
OF_ALL = ("ROUTE_TABLE", "INTF_TABLE", "NEXTHOP_GROUP_TABLE")
SEARCH_S, KEYS_A_SECOND, IDLE = 1.0, 2000, 10
"""between searches for new routes and neighbours, longer where there are many, and ten times as long where no class is
pinned"""
HEAL_S = (1.0, 60.0)
"""first and longest pause before a rule that orchagent does not have is written once more"""


class Steerer:
    """One switch's redirects. Not shared between threads."""

    def __init__(self, db: Database, holder: Holder) -> None:
        self._db, self._holder, self._reader = db, holder, NetworkReader(db, lambda: time.monotonic())
        self._intent: SwitchIntent | None = None
        self._uplinks = self._kept = Uplinks()
        self._look_at_s = self._search_at_s = 0.0
        self._pause_s = LOOK_S
        self._is_clean = False
        self._notices: Notices | None = None
        self._busy_until_s = self._rest_until_s = 0.0
        self._has_new = False
        """something was written after the last search"""
        self._waits: dict[str, tuple[float, float]] = {}
        """rule that orchagent does not have -> when to write it again, and the pause after that"""
        self.told = Steered()

    def want(self, intent: SwitchIntent | None, rows: RowsNow) -> None:
        """From now on this intent holds, over these rows of CONFIG_DB."""
        uplinks = uplinks_of(intent, rows)
        if (intent, uplinks) != (self._intent, self._uplinks):
            self._intent, self._uplinks = intent, uplinks
            self._is_clean = False
            self._look_at_s = self._search_at_s = self._rest_until_s = 0.0

    def due_in_s(self) -> float:
        """Seconds until the next look; for ever where there is nothing to look at."""
        if self._is_clean and not self._uplinks.of:
            return float("inf")
        return max(0.0, self._look_at_s - time.monotonic())

    def look_if_due(self) -> bool:
        """Look, and write what has to be changed; whether something is told otherwise. Raises DatabaseLost."""
        if self.due_in_s() > 0:
            return False
        now_s = time.monotonic()
        if self._has_heard():
            self._busy_until_s, self._rest_until_s, self._has_new = now_s + SETTLE_S, 0.0, True
        if now_s < self._rest_until_s:
            self._look_at_s = now_s + self._pause_s
            return False
        if now_s >= self._search_at_s:
            count = self._reader.search(self._uplinks)
            self._has_new = False
            self._search_at_s = now_s + max(SEARCH_S, count / KEYS_A_SECOND) * (1 if self.told.classes else IDLE)
        shares = self._intent.path_weights if self._intent and self._intent.admin_state == "enabled" else None
        network = self._reader.read(self._uplinks, shares is not None)
        due = frozenset(key for key, (at_s, _) in self._waits.items() if now_s >= at_s)
        found = steer(self._intent, self._uplinks, network, due)
        self._write(found.changes)
        self._remember(found, due, now_s)
        self._is_clean = not any(network.acl.get(table) for table in APPL_TABLES) and not found.changes
        self._pause_s = LOOK_S if found.classes else IDLE_LOOK_S
        self._look_at_s = now_s + self._pause_s
        paths = weights.path_rows(shares, self._uplinks, found.spines, network)
        told = Steered(found.classes, found.spines, paths, found.differences)
        has_changed, self.told = told != self.told, told
        if has_changed or found.changes or found.waits or found.differences:
            self._busy_until_s = now_s + SETTLE_S
        self._rest_until_s = now_s + (REST_S if now_s >= self._busy_until_s else IDLE_LOOK_S)
        if self._has_new:
            self._rest_until_s = min(self._rest_until_s, self._search_at_s)
        return has_changed

    def keep_if_due(self) -> None:
        """Where nobody knows an intent: what stands stays, but for redirects that lead nowhere. Raises DatabaseLost."""
        now_s = time.monotonic()
        if now_s < self._look_at_s:
            return
        if now_s >= self._search_at_s:
            count = self._reader.search(self._kept)
            self._search_at_s = now_s + max(SEARCH_S, count / KEYS_A_SECOND) * (1 if self._kept.of else IDLE)
        links, dead = kept(self._reader.read(self._kept))
        self._look_at_s = now_s + (LOOK_S if links else IDLE_LOOK_S)
        uplinks = Uplinks({"": links}) if links else Uplinks()
        if uplinks != self._kept:  # neighbours of these have not been looked for
            self._kept, self._look_at_s, self._search_at_s = uplinks, 0.0, 0.0
        else:
            self._write(dead)

    def _has_heard(self) -> bool:
        """Whether something was written that may change what we do. Raises DatabaseLost."""
        if self._notices is None:
            self._notices = self._db.notices(WATCHED)
            return True
        try:
            heard = self._notices.take()
        except DatabaseLost:
            with suppress(DatabaseLost):
                self._notices.close()
            self._notices = None
            raise
        links = {link for of in self._uplinks.of.values() for link in of}
        return any(_concerns(key.replace("|", ":") if number == STATE else key, links) for number, key in heard)

    def _write(self, found: Iterable[Change]) -> None:
        changes = [one for one in found if isinstance(one, Put | Delete)]
        if not changes:
            return
        self._holder.holding(lambda: self._db.produce_all(changes, self._holder.name))
        self._reader.wrote((one.table, one.key) for one in changes)
        log.info("steered changes=%d %s", len(changes), "; ".join(described(one) for one in changes[:4]))

    def _remember(self, found: Steering, due: frozenset[str], now_s: float) -> None:
        """When to write once more what waits."""
        kept = {}
        for key in found.waits:
            at_s, pause_s = self._waits.get(key, (now_s + HEAL_S[0], HEAL_S[0]))
            if key in due:
                pause_s = min(2 * pause_s, HEAL_S[1])
                at_s = now_s + pause_s
            kept[key] = (at_s, pause_s)
        self._waits = kept


def _concerns(key: str, links: set[str]) -> bool:
    """Whether a row, `<table>:<key>`, is of the network as `steer` sees it; `links` lead to spines."""
    table, _, name = key.partition(":")
    if table in APPL_TABLES:
        return is_own(name)
    return table in OF_ALL or (table in OF_LINKS and name.partition(":")[0] in links)
