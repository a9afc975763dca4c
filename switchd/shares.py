"""Which BUFFER_QUEUE rows get a profile of ours, so that each queue has its class's share of a port's buffer; purely.

A row that covers queues of one share gets the platform's profile with another `dynamic_th`. A range whose queues differ
stands and is written over: its own profile is for its lowest queue, a single row for each of the others wins over it,
for orchagent reads the rows of a table in the order of keys, deletions first (docs/design/switch.md). Two rules follow.
A range that is written over refers to an object of ours, be it a plain copy: only a row that changes is applied again,
so to give back is to delete the single rows and to name the platform's profile in the range, at once. And a range that
moves to another object takes its single rows along (`plan`).
"""

import re
from collections.abc import Collection, Iterable, Mapping

from switchd.ports import RowsNow, numbers_in, range_over
from switchd.previous import before_us, is_own, with_plain_pool
from switchd.references import row_named
from switchd.rows import Row

TABLE = "BUFFER_QUEUE"
_TH = re.compile("-?[0-9]{1,3}")


def shared(port: str, th_of: Mapping[int, int], rows: RowsNow, keys: Iterable[str]) -> tuple[dict[str, Row], str]:
    """The BUFFER_PROFILE that each BUFFER_QUEUE row should refer to, by key, and why some queue of `th_of` keeps the
    platform's share; "" where none does.

    `keys`: of the rows that name the port. Left alone: rows that cover other ports, too, rows that overlap, and
    profiles without a dynamic threshold. Raises Refused where a profile could not be given back.
    """
    found: dict[str, Row] = {}
    left = {queue: f"no {TABLE} row of {port} covers queue {queue}" for queue in th_of}
    single = {key for key in keys if is_single(key, rows)}
    covering = {key: numbers_in(key.partition("|")[2]) or frozenset() for key in keys if key not in single}
    for key, numbers in covering.items():
        if not numbers & th_of.keys():
            continue
        before = before_us(TABLE, key, "profile", rows)
        profile = with_plain_pool(row_named(before, "BUFFER_PROFILE", rows) or {})
        reason = _why_not(port, key, numbers, covering, before, profile)
        if reason:
            left |= dict.fromkeys(numbers & th_of.keys(), reason)
            continue
        for queue in numbers:
            left.pop(queue, None)
        th = int(profile["dynamic_th"])
        wanted = {queue: th_of.get(queue, th) for queue in sorted(numbers)}
        lowest, *others = wanted
        is_split = len(set(wanted.values())) > 1 or any(f"{port}|{queue}" in single for queue in others)
        if is_split or wanted[lowest] != th:
            found[key] = {**profile, "dynamic_th": str(wanted[lowest])}
        if is_split:
            found |= {f"{port}|{queue}": {**profile, "dynamic_th": str(wanted[queue])} for queue in others}
    return found, next(iter(left.values()), "")


def _why_not(
    port: str,
    key: str,
    numbers: frozenset[int],
    covering: Mapping[str, frozenset[int]],
    before: str | None,
    profile: Row,
) -> str:
    """Why a row keeps the platform's share; "" where it need not."""
    if key.partition("|")[0] != port:
        return f"{TABLE}|{key} covers other ports, too; split it first"
    if other := next((one for one, its in covering.items() if one != key and its & numbers), None):
        return f"{TABLE}|{key} and {TABLE}|{other} overlap; which one counts depends on who wrote last"
    if max(numbers) > 9:
        return f"{TABLE}|{key} covers queue {max(numbers)}, expected 0 to 9: later ones sort before it"
    if not _TH.fullmatch(profile.get("dynamic_th", "")):
        return f"profile {before!r} of {TABLE}|{key} has no dynamic_th"
    lacks = next((field for field in ("pool", "size") if not profile.get(field)), None)
    return f"profile {before!r} of {TABLE}|{key} has no {lacks}: orchagent would refuse a copy" if lacks else ""


def is_single(key: str, rows: RowsNow) -> bool:
    """Whether a row is one that we wrote over a range: ours, nothing stood there before us, and a range covers it."""
    if not is_own(rows.get(TABLE, {}).get(key, {}).get("profile", "")):
        return False
    return before_us(TABLE, key, "profile", rows) is None and range_over(key, rows[TABLE]) is not None


def bared(back: Collection[tuple[str, str]], references: Collection[tuple[str, str]], rows: RowsNow) -> dict[str, Row]:
    """Ranges that do not change though rows of ours over them are to go, by key, each with its profile: their queues
    would be left without any. Somebody wrote the range while ours stood; it gets a copy first (`is_partial`)."""
    found: dict[str, Row] = {}
    for table, key in back:
        over = range_over(key, rows.get(TABLE, {})) if table == TABLE else None
        if over is None or (TABLE, over) in back or (TABLE, over) in references:
            continue
        profile = row_named(rows[TABLE][over].get("profile"), "BUFFER_PROFILE", rows)
        if profile:
            found[over] = with_plain_pool(profile)
    return found
