"""Which of our queues the ASIC gave their scheduler, purely, though nobody says whose queue a scheduler group serves.

Groups are counted, for the whole switch. A count tells who, too, because of how names are used: queues only ever join a
name of ours; when one leaves it, the others move to a fresh name (`plan`), whose object is none of those that groups
had before (`Baseline`). So the groups that carry it belong to queues whose rows refer to it, and where they are as many
they are all of them. Where rows changed behind our back the name is doubted, and left for a fresh one.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from qclimb import orchagent

from switchd.ports import RowsNow, numbers_in
from switchd.previous import PREVIOUS, is_own
from switchd.rows import Row
from switchd.seen import GROUP_ATTRIBUTE, NO_OBJECT, PENDING, SEEN, Asic, Unreadable, Verdict, differs, shown

Content = tuple[tuple[str, str], ...]
"""a scheduler's row, as a value"""


@dataclass(frozen=True)
class Baseline:
    """What stood before a name of some content was made: objects that groups carried, names of schedulers."""

    oids: Collection[str] = frozenset()
    names: Collection[str] = frozenset()


NO_BASELINE = Baseline()


def content_of(row: Mapping[str, str]) -> Content:
    """A row as a value."""
    return tuple(sorted(row.items()))


def baseline(rows: RowsNow, asic: Asic) -> Baseline:
    """Of this moment."""
    carried = {row.get(GROUP_ATTRIBUTE, NO_OBJECT) for row in (asic.groups or {}).values()}
    return Baseline(frozenset(carried - {NO_OBJECT}), frozenset(rows.get("SCHEDULER", {})))


def scheduled(rows: RowsNow, asic: Asic, baselines: Mapping[Content, Baseline]) -> Verdict | None:
    """The verdict on all our references to schedulers at once; None where the groups were not read."""
    if asic.groups is None:
        return None
    rows_of, queues = rows.get("SCHEDULER", {}), Counter[str]()
    for key, row in rows.get("QUEUE", {}).items():
        port, _, span = key.partition("|")
        queues[row.get("scheduler", "")] += sum(f"{port}:{queue}" in asic.queues for queue in numbers_in(span) or ())
    verdict = Verdict(SEEN)
    for content in sorted({content_of(rows_of[name]) for name in queues if is_own(name) and name in rows_of}):
        alike = {name: queues[name] for name in queues if name in rows_of and _is_alike(content, rows_of[name])}
        verdict = _carried(content, alike, asic, baselines.get(content, NO_BASELINE))
        if verdict.state != SEEN:
            return verdict
    return verdict


def _is_alike(content: Content, row: Row) -> bool:
    """Whether a group that carries the object of `row`, anybody's, counts as one that carries this content."""
    try:
        return not differs("SCHEDULER", dict(content), dict(orchagent.scheduler(row)))
    except (orchagent.Malformed, Unreadable):
        return False


def _carried(content: Content, queues: Mapping[str, int], asic: Asic, before: Baseline) -> Verdict:
    """Whether as many groups carry a scheduler of this content as queues refer to one; `queues`: how many by name.

    Objects of before carry nothing that is not referred to by a name of before.
    """
    carried: Counter[str] = Counter()
    try:
        for attributes in (asic.groups or {}).values():
            oid = attributes.get(GROUP_ATTRIBUTE, NO_OBJECT)
            if oid != NO_OBJECT and not differs("SCHEDULER", dict(content), asic.objects.get(oid) or {}):
                carried[oid] += 1
    except Unreadable as error:
        return Verdict("unverified", str(error))
    new = {oid: count for oid, count in carried.items() if oid not in before.oids}
    names = {name: count for name, count in queues.items() if name not in before.names}
    have, expected, stale = sum(new.values()), sum(names.values()), carried.total() - sum(new.values())
    told = f"{have} of {expected} scheduler groups carry {shown(dict(content))}"
    if have < expected:
        return Verdict(PENDING, f"{told}; which queues lack it can't be told", wanted=str(expected), found=told)
    if have > expected and before is not NO_BASELINE:
        return Verdict(PENDING, f"{told}: more than refer to it", frozenset(new), str(expected), told)
    if len(new) > len(names):
        return Verdict(PENDING, f"{told} by {len(new)} objects, expected {len(names)}", frozenset(new))
    if stale > sum(count for name, count in queues.items() if name in before.names):
        return Verdict(PENDING, f"{told}; {stale} still carry one that was given up", frozenset(new))
    return Verdict(SEEN, f"{told}, for the whole switch", frozenset(carried))


def digest(rows: RowsNow) -> str:
    """Which queues refer to which scheduler of ours."""
    found = sorted((key, name) for name, keys in _members(rows).items() for key in keys)
    return hashlib.sha256(json.dumps(found).encode()).hexdigest()[:16] if found else ""


class Members:
    """Who ever referred to a name while it stood, as far as this daemon saw."""

    def __init__(self) -> None:
        self._of: dict[str, set[str]] = {}
        self._doubted: set[str] = set()
        self.leavers: set[str] = set()
        """keys of QUEUE that refer to none of ours any more, until no group carries what was given up"""

    def doubt(self, rows: RowsNow) -> None:
        """What became of the names that stand is not known, nor of rows that are remembered though they left."""
        self._doubted = set(_members(rows))
        self.leavers = {key for key in rows.get(PREVIOUS, {}) if key in rows.get("QUEUE", {})}

    def doubted(self, rows: RowsNow) -> set[str]:
        """Names that a queue of a port that is still there has left, while others stay."""
        now, ports = _members(rows), rows.get("PORT", {})
        ever = self.leavers.union(*self._of.values()) & rows.get("QUEUE", {}).keys()
        self.leavers = {key for key in ever.difference(*now.values()) if key.partition("|")[0] in ports}
        self._of = {name: self._of.get(name, set()) | keys for name, keys in now.items()}
        self._doubted &= now.keys()
        left = {n for n, ever in self._of.items() if any(key.partition("|")[0] in ports for key in ever - now[n])}
        return left | self._doubted


def _members(rows: RowsNow) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for key, row in rows.get("QUEUE", {}).items():
        if is_own(name := row.get("scheduler", "")):
            found.setdefault(name, set()).add(key)
    return found
