"""The ASIC as this daemon follows it: when to look, what was seen, what waits."""

import time
from collections.abc import Collection
from dataclasses import replace

from switchd.db import Database
from switchd.plan import OBJECT_TABLES, Bound
from switchd.previous import FIELDS, PREVIOUS, is_own
from switchd.progress import Progress, Wait
from switchd.readback import Readback
from switchd.rows import Change, Put, Row, Rows
from switchd.schedulers import Baseline, Content, Members, baseline, content_of, digest, scheduled
from switchd.seen import compared
from switchd.wanted import ours

LOOK_S = (0.05, 2.0)
"""first and longest pause between looks at what is not there yet"""
WHOLE_S = 300.0
"""between looks at everything"""
SHOWN_S = 1.0
"""orchagent takes milliseconds: what waits for so long is told reference by reference"""
UNREADABLE_S = 5.0
"""between tries to read an ASIC_DB that is not there"""


class AsicView:
    """`reason`: why ASIC_DB can't be read; empty where it can."""

    def __init__(self, db: Database) -> None:
        self._readback = Readback(db)
        self.progress = Progress()
        self.reason = "nothing was read yet"
        self._whole_at_s = self._look_at_s = 0.0
        self._pause_s = LOOK_S[0]
        self._ports: Row = {}
        self._touched: set[tuple[str, str]] = set()
        self._members, self._baselines = Members(), dict[Content, Baseline]()
        self._settled: tuple[Rows, frozenset[str]] | None = None
        """rows, and who had left their names, with which there was nothing more to plan"""

    def look(self, rows: Rows, ports: Collection[str], has_queues: bool, is_whole: bool = False) -> None:
        """Compare the rows of these ports with the ASIC, of all of ours where whole. Raises DatabaseLost."""
        now_s = time.monotonic()
        if is_whole or self.reason or self.progress.is_fresh:
            is_whole, ports = True, {key.partition("|")[0] for _, key in ours(rows)}
            self._whole_at_s = now_s + WHOLE_S
        # a port's name may be there before its groups: what waits for long searches again
        late = any(wait.tries for (_, _, field), wait in self.progress.waits.items() if field == "scheduler")
        asic = self._readback.read(rows, ports, has_queues, is_whole or late)
        self.reason = asic.why_unreadable
        if any(asic.ports.get(name, oid) != oid for name, oid in self._ports.items()):
            self.progress.known.clear()  # orchagent began anew: its object ids mean something else
            self._baselines.clear()
        self._ports = asic.ports
        if self.reason:
            self.progress = Progress()
            self.progress.is_fresh = False
            self._look_at_s = now_s + UNREADABLE_S
            return
        of_groups = scheduled(rows, asic, self._baselines)
        self.progress.learn(rows, compared(rows, asic, ports, self.progress.known, of_groups), now_s)
        if not self.progress.waits:
            self._members.leavers.clear()
        self._pause_s = min(2 * self._pause_s, LOOK_S[1]) if self.progress.waits else LOOK_S[0]
        self._look_at_s = now_s + self._pause_s

    def begin(self, rows: Rows, settled: str) -> None:
        """Look for the first time; `settled`: digest of the schedulers seen last, empty where nobody knows."""
        self.look(rows, (), has_queues=True, is_whole=True)
        if settled and settled != digest(rows):
            self._members.doubt(rows)

    def before(self, rows: Rows, changes: Collection[Change]) -> None:
        """What groups carry before these changes make a scheduler. Raises DatabaseLost."""
        made = [one.row for one in changes if isinstance(one, Put) and one.table == "SCHEDULER"]
        if made and not self.reason:
            stood = baseline(rows, self._readback.read(rows, (), has_queues=True))
            self._baselines |= {content_of(row): stood for row in made}

    def expect(self, before: Rows, rows: Rows, changes: Collection[Change]) -> None:
        """References that were just written wait until a look sees them: whoever wrote them does not look himself.

        Where ASIC_DB could not be read it is tried at once: that costs little, and nobody can look later.
        """
        if self.reason:
            self.look(rows, (), has_queues=True)
            return
        now_s, is_waiting = time.monotonic(), bool(self.progress.waits)
        self.progress.expect(before, rows, {(one.table, one.key) for one in changes}, now_s)
        self._pause_s = LOOK_S[0]
        self._look_at_s = min(self._look_at_s if is_waiting else now_s + LOOK_S[0], now_s + LOOK_S[0])

    def touched(self, rows: Collection[tuple[str, str]]) -> None:
        """Rows, (table, key), that somebody wrote: what they are now may be what they were, and the ASIC's not.

        A row that is deleted and set again reads as before, and orchagent may not have taken it again.
        """
        new = {(table, key) for table, key in rows if table in FIELDS or (table in OBJECT_TABLES and is_own(key))}
        if new and not self.reason:
            self._touched |= new
            soon_s = time.monotonic() + LOOK_S[0]
            self._look_at_s = min(self._look_at_s, soon_s) if self.progress.waits else soon_s

    def due_in_s(self) -> float:
        """Seconds until the next look."""
        is_awaited = self.reason or self.progress.waits or self._touched
        at_s = min(self._whole_at_s, self._look_at_s) if is_awaited else self._whole_at_s
        return max(0.0, at_s - time.monotonic())

    def look_if_due(self, rows: Rows) -> bool:
        """Look at what waits, or at everything when it is time; whether it was."""
        if self.due_in_s() > 0:
            return False
        waits, touched = self.progress.waits, self._touched
        self._touched = set()
        ports = {port for _, key in touched for port in key.partition("|")[0].split(",")}
        ports |= {key.partition("|")[0] for _, key, _ in waits}
        is_whole = time.monotonic() >= self._whole_at_s or any(table in OBJECT_TABLES for table, _ in touched)
        has_queues = any(field == "scheduler" for _, _, field in waits) or any(table == "QUEUE" for table, _ in touched)
        self.look(rows, ports, has_queues, is_whole)
        return True

    def bound(self, rows: Rows) -> Bound:
        """What `plan` must know."""
        if self.reason:
            return Bound()
        doubted = self._members.doubted(rows)
        bound = self.progress.bound(rows, time.monotonic(), self._members.leavers)
        return replace(bound, spoiled={*bound.spoiled, *doubted})

    def has_more(self, rows: Rows) -> bool:
        """Whether planning again would give something: to be tried, or to be deleted now that nothing waits."""
        if self.reason or self.progress.waits:
            return not self.reason and self.progress.is_due(time.monotonic())
        if self._settled is not None and self._settled[0] is rows and self._settled[1] == self._members.leavers:
            return False  # asked several times a second, of the same rows
        has = self._has_left_over(rows)
        self._settled = None if has else (rows, frozenset(self._members.leavers))
        return has

    def _has_left_over(self, rows: Rows) -> bool:
        if rows.get(PREVIOUS, {}).keys() - {key for _, key in ours(rows)} - self._members.leavers:
            return True
        used = {value for table in FIELDS for row in rows.get(table, {}).values() for value in row.values()}
        return any(is_own(name) and name not in used for table in OBJECT_TABLES for name in rows.get(table, {}))

    def lasting(self) -> set[str]:
        """Ports that wait for longer than orchagent takes."""
        return {key.partition("|")[0] for (_, key, _), wait in self.progress.waits.items() if self._lasts(wait)}

    @staticmethod
    def _lasts(wait: Wait) -> bool:
        return time.monotonic() - wait.since_s >= SHOWN_S

    def differences(self) -> dict[str, Row]:
        """Each reference that the ASIC lastingly does not have, `<table>|<key>|<field>`: what is wanted, and found."""
        return {
            "|".join(place): {
                "status": wait.verdict.state,
                "wanted": wait.verdict.wanted or wait.name,
                "found": wait.verdict.found or wait.verdict.reason,
                "reason": wait.reason,
            }
            for place, wait in self.progress.waits.items()
            if self._lasts(wait)
        }

    def ports(self) -> tuple[dict[str, str], dict[str, tuple[str, str]]]:
        """Ports refused by somebody else's row; ports that wait."""
        return self.progress.ports(time.monotonic())
