"""Limits of served-first queues as a share of a port's speed, and whom queues without one may starve; purely.

A strict queue takes what it wants: whatever is served after it (routing protocols on DSCP 48, lossless queues) gets the
rest. A limit is the scheduler's `pir`; SONiC's YANG wants a `cir` beside it (sonic-scheduler.yang).
"""

from collections.abc import Collection, Iterable, Mapping
from itertools import accumulate

from qclimb.intent import SwitchIntent

from switchd.ports import RowsNow, numbers_in
from switchd.references import row_named
from switchd.rows import Row

STRICT: Row = {"type": "STRICT"}
BYTES_PER_S = 125_000
"""of 1 Mb/s"""


def limits_of(intent: SwitchIntent) -> dict[int, float]:
    """The share of a port's speed that a queue may take, of those that have a limit."""
    return {one.queue: one.max_share for one in intent.classes if one.max_share is not None}


def speed_of(port: str, rows: RowsNow) -> tuple[int, str]:
    """A port's speed, bytes/s, or that to which its own scheduler shapes it; 0 where no row tells, and why."""
    mbps = _number(rows.get("PORT", {}).get(port, {}).get("speed", ""))
    if not 0 < mbps < 10**9:
        return 0, f"PORT|{port} has no speed, of which the limit is a share"
    name = rows.get("PORT_QOS_MAP", {}).get(port, {}).get("scheduler", "")
    shaper = rows.get("SCHEDULER", {}).get(name, {})
    rate = _number(shaper.get("pir", ""))
    if rate and shaper.get("meter_type", "bytes") != "bytes":
        return 0, f"SCHEDULER|{name} shapes {port} in packets, and the limit is a share of bytes"
    return min(mbps * BYTES_PER_S, rate or mbps * BYTES_PER_S), ""


def _number(text: str) -> int:
    """Decimal digits of at most 20; else 0."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 20 else 0


def scheduled(port: str, keys: Iterable[str], limits: Mapping[int, float], rows: RowsNow) -> tuple[dict[str, Row], str]:
    """The scheduler of each QUEUE row of a port, by key; and why some queue has no limit though it is to have one."""
    found, why = dict[str, Row](), ""
    speed, untold = speed_of(port, rows)
    for key in keys:
        shares = {limits.get(queue) for queue in numbers_in(key.partition("|")[2]) or ()}
        found[key] = STRICT
        if shares <= {None}:
            continue
        (share, *others) = shares
        if others:
            why = why or f"QUEUE|{key} covers queues with different limits; split it into single queues first"
        elif untold:
            why = why or untold
        elif share is not None:
            rate = max(1, round(share * speed))
            found[key] = {**STRICT, "meter_type": "bytes", "cir": "1", "pir": str(rate)}
    return found, why


def strict_queues(port: str, keys: Iterable[str], rows: RowsNow) -> frozenset[int]:
    """The queues of a port that its QUEUE rows, `keys`, make strict; a single row counts before a range."""
    of: dict[int, bool] = {}
    for key in sorted(keys, key=lambda one: -len(numbers_in(one.partition("|")[2]) or ())):
        scheduler = row_named(rows.get("QUEUE", {}).get(key, {}).get("scheduler"), "SCHEDULER", rows)
        is_strict = scheduler is not None and scheduler.get("type") == "STRICT"
        of |= dict.fromkeys(numbers_in(key.partition("|")[2]) or (), is_strict)
    return frozenset(queue for queue, is_strict in of.items() if is_strict)


def starved(
    granted: Iterable[int], limits: Mapping[int, float], protected: Mapping[int, str], strict: Collection[int]
) -> str:
    """Which queue may get nothing, and from whom; empty where each is left something.

    Strict queues are served before all others, whatever their numbers, and among themselves the larger number first.

    protected  what each queue that is not ours carries, for the text
    strict     queues that are not ours and strict
    """
    for queue, what in sorted(protected.items(), reverse=True):
        before = sorted((one for one in granted if one > queue or queue not in strict), reverse=True)
        taken = list(accumulate(limits.get(one, 1.0) for one in before))
        if taken and taken[-1] >= 1:
            names = ", ".join(str(one) for one, share in zip(before, [0.0, *taken], strict=False) if share < 1)
            return f"queue {names} may take all of a port, and leave nothing to queue {queue} ({what})"
    return ""
