"""How far the ASIC has come with what was written: what is not there yet, what to try, and which names to leave alone.

Pure but for the clock that it is handed. What waits behind a row that is not ours is that port's refusal after a
while; what waits for no cause that is to be seen is written again, then put under a fresh name, ever more slowly.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from switchd.plan import OBJECT_TABLES, Bound
from switchd.ports import RowsNow
from switchd.previous import FIELDS, is_own
from switchd.seen import PENDING, SEEN, Cause, Causes, Place, Verdict

GRACE_S = 3.0
"""how long somebody else's row may stand in the way before it counts as a refusal"""
HEAL_S = (1.0, 60.0)
"""first and longest pause before the next try to heal a reference"""
NAMES_TRIED = 6
"""fresh names for one reference; then its row is only written again now and then"""
FILL_TRIES = 3
"""tries, written again and under fresh names, after which a row is taken to wait for a field that it had"""


@dataclass
class Wait:
    """One reference that is not in the ASIC."""

    name: str
    since_s: float
    verdict: Verdict
    cause: Cause | None
    heal_at_s: float
    tries: int = 0

    @property
    def reason(self) -> str:
        """In one sentence."""
        return self.cause.reason if self.cause else self.verdict.reason


class Progress:
    """References of ours by place."""

    def __init__(self) -> None:
        self.waits: dict[Place, Wait] = {}
        self.is_fresh = True
        """nothing was ever compared"""
        self.known: dict[str, str] = {}
        self._at: dict[Place, str] = {}  # the name that the ASIC was last seen to have there
        self._spoiled: set[str] = set()  # names that were given up; until nothing waits

    def expect(self, before: RowsNow, rows: RowsNow, written: Collection[tuple[str, str]], now_s: float) -> None:
        """References in rows that were just written, (table, key): nothing was seen of them yet.

        before  the rows until then: what was seen counts for a reference that stood all the while
        """
        self._keep_standing(rows)
        for table, key in written:
            for field in FIELDS.get(table, ()):
                name = rows.get(table, {}).get(key, {}).get(field, "")
                old = self.waits.get((table, key, field))
                stood = before.get(table, {}).get(key, {}).get(field) == name
                is_there = stood and self._at.get((table, key, field)) == name and not old
                if not is_own(name) or is_there or (old and old.name == name):
                    continue
                verdict = Verdict(PENDING, "written, not looked at yet")
                new = Wait(name, now_s, verdict, None, now_s + HEAL_S[0])
                self.waits[table, key, field] = replace(old, name=name, verdict=verdict, cause=None) if old else new

    def learn(self, rows: RowsNow, verdicts: Mapping[Place, Verdict], now_s: float) -> None:
        """Take in what was compared."""
        self.is_fresh, causes = False, Causes(rows)
        for place, verdict in verdicts.items():
            table, key, field = place
            name, old = rows[table][key][field], self.waits.pop(place, None)
            if verdict.state == SEEN:
                self._at[place] = name
                if field != "scheduler":
                    self.known |= dict.fromkeys(verdict.oids, name)
                continue
            cause = None
            if verdict.state == PENDING:
                cause = Cause(verdict.reason, True) if verdict.is_foreign else causes.of(place, name)
            if old is None:
                old = Wait(name, now_s, verdict, cause, now_s + HEAL_S[0])
            elif old.name != name:  # a fresh name: the pause stays what it was
                old = replace(old, name=name)
            old.verdict, old.cause = verdict, cause
            self.waits[place] = old
        self._keep_standing(rows)
        if not self.waits:
            self._spoiled.clear()

    def _keep_standing(self, rows: RowsNow) -> None:
        standing = {
            (table, key, field)
            for table, fields in FIELDS.items()
            for key, row in rows.get(table, {}).items()
            for field in fields
            if is_own(row.get(field, ""))
        }
        self.waits = {place: wait for place, wait in self.waits.items() if place in standing}
        self._at = {place: name for place, name in self._at.items() if place in standing}

    def bound(self, rows: RowsNow, now_s: float, leavers: Collection[str] = ()) -> Bound:
        """What `plan` must know, with what is due to be tried.

        leavers  keys of QUEUE that were given back: while schedulers wait they are written again, too
        """
        held, again = set[str](), set[tuple[str, str]]()
        for place, wait in self.waits.items():
            table, key, field = place
            target = FIELDS[table][field]
            held |= {self._at[place]} if place in self._at else set(rows.get(target, {}))
            if self._may_heal(wait) and now_s >= wait.heal_at_s:
                wait.heal_at_s = now_s + min(HEAL_S[0] * 2 ** (wait.tries + 1), HEAL_S[1])
                wait.tries += 1
                if wait.tries % 2 or wait.tries > 2 * NAMES_TRIED:
                    again.add((table, key))
                    again |= {(table, one) for one in leavers if field == "scheduler"}
                else:  # the row waits as a whole: any name in it may be the one that is parked
                    row = rows.get(table, {}).get(key, {})
                    self._spoiled |= {row[name] for name in FIELDS[table] if is_own(row.get(name, ""))}
        filled, is_late = set[str](), False
        for (table, key, field), wait in self.waits.items():
            if table == "QUEUE" and wait.tries >= FILL_TRIES and self._may_heal(wait):
                filled.add(key)
                is_late |= field == "scheduler"
        filled |= set(leavers) if is_late else set()
        held -= {wait.cause.blocker for wait in self.waits.values() if wait.cause}  # malformed: whatever refers to it
        if self.is_fresh:
            held = {name for table in OBJECT_TABLES for name in rows.get(table, {})}
        return Bound(held, self._spoiled, again, filled, leavers)

    def is_due(self, now_s: float) -> bool:
        """Whether something is to be tried now."""
        return any(self._may_heal(wait) and now_s >= wait.heal_at_s for wait in self.waits.values())

    @staticmethod
    def _may_heal(wait: Wait) -> bool:
        return wait.verdict.state == PENDING and not (wait.cause and wait.cause.is_foreign)

    def ports(self, now_s: float) -> tuple[dict[str, str], dict[str, tuple[str, str]]]:
        """Ports that somebody else's row refuses, with the reason; ports that wait, with state and reason."""
        refused, waiting = dict[str, str](), dict[str, tuple[str, str]]()
        for (_, key, _), wait in sorted(self.waits.items()):
            port = key.partition("|")[0]
            if wait.cause and wait.cause.is_foreign and now_s - wait.since_s >= GRACE_S:
                refused.setdefault(port, wait.reason)
            else:
                waiting.setdefault(port, (wait.verdict.state, wait.reason))
        return refused, {port: told for port, told in waiting.items() if port not in refused}
