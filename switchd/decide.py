"""What the one writer does about the rows that it finds, and what it tells of those that it wrote; purely."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

from qclimb.errors import HalfIntent, IntentError
from qclimb.intent import SwitchIntent

from switchd import status as state
from switchd.intents import intent_of, may_be_half
from switchd.plan import Plan, Refused
from switchd.previous import PREVIOUS
from switchd.quiet import Quiet
from switchd.rows import Delete, Put, Row, Rows
from switchd.schedulers import digest
from switchd.status import Status


@dataclass
class Written:
    """What was laid over the rows last: by it the ASIC is judged.

    planned  what was written for it, and what could not be
    is_new   not seen in the ASIC since it was written
    """

    intent: SwitchIntent | None
    status: Status
    rows: Rows
    ports: list[str]
    planned: Plan
    is_new: bool


@dataclass(frozen=True)
class Go:
    """Write what was planned."""

    status: Status
    intent: SwitchIntent | None
    planned: Plan


@dataclass(frozen=True)
class Hold:
    """Write nothing now.

    intent    what the rows say; None: no intent, or not known
    is_known  the rows could be read
    is_half   rows are still to come, so that quiet alone ends it not
    """

    status: Status
    reason: str
    intent: SwitchIntent | None = None
    is_known: bool = True
    is_half: bool = False


@dataclass(frozen=True)
class No:
    """Change nothing: this can't be applied. `intent` where the rows could be read."""

    status: Status
    error: IntentError | Refused
    intent: SwitchIntent | None = None


@dataclass(frozen=True)
class Told:
    """The status and rows of STATE_DB that readers see."""

    status: Status
    classes: Mapping[str, Row]
    ports: Mapping[str, Row]
    waiting: Mapping[str, tuple[str, str]]


def decide(
    rows: Rows, status: Status, quiet: Quiet, plan_it: Callable[[SwitchIntent | None, Rows], Plan]
) -> Go | Hold | No:
    """What to do about these rows, of which nobody asked us at our door. `quiet` looks at redis where it has to."""
    is_half, intent = bool(quiet.left_s()) and may_be_half(rows), None
    try:
        intent = intent_of(rows)
        if is_half:
            return Hold(status, f"waiting for a whole intent: {quiet.why}", intent)
        status = status.wants(intent)
        planned = plan_it(intent, rows)
    except HalfIntent as error:
        return Hold(status, f"waiting for a whole intent: {error}", is_known=False, is_half=True)
    except (IntentError, Refused) as error:
        if is_half:  # a patcher takes a row at a time, and that of the whole may go first
            return Hold(status, f"waiting for a whole intent: {error}", intent, is_known=isinstance(error, Refused))
        return No(status, error, intent)
    if not planned.changes or quiet.may_write():
        return Go(status, intent, planned)
    if not all(isinstance(change, Delete) for change in planned.changes):
        return Hold(status, f"waiting with {len(planned.changes)} changes: {quiet.why}", intent)
    planned = replace(planned, transactions=())  # what is left over can go later
    return Go(status, intent, planned)


def forgotten(rows: Rows, memory: Mapping[str, Row], standing: Collection[str]) -> dict[str, Row]:
    """Of what stood before us, what somebody removed while our references stand.

    Uninstalling takes the table of our memory away under a daemon that still runs.
    """
    known = rows.get(PREVIOUS, {})
    return {key: row for key, row in memory.items() if key in standing and key not in known}


def remembering(planned: Plan, gone: Mapping[str, Row]) -> Plan:
    """The plan, with what was forgotten written first."""
    if not gone:
        return planned
    first, *others = planned.transactions or ((),)
    again = tuple(Put(PREVIOUS, key, row) for key, row in gone.items())
    return replace(planned, transactions=((*again, *first), *others))


def judge(
    done: Written,
    refused: Mapping[str, str],
    waiting: Mapping[str, tuple[str, str]],
    unknown: str,
    has_rest: bool,
    now_s: float,
) -> Told:
    """What to tell of what was written.

    refused   ports where somebody else's row is in the way
    waiting   ports where the ASIC does not have it: pending or unverified, and why
    unknown   why the ASIC can't be believed; empty where it can
    has_rest  whether something waits for the ASIC anywhere
    """
    refused = {**refused, **done.planned.refused}
    waiting = {port: told for port, told in waiting.items() if port not in refused and port in done.ports}
    held = state.NOT_VERIFIED if unknown else state.APPLIED
    ports = state.port_rows(done.ports, refused, waiting, held, done.planned.unshared, done.planned.unlimited)
    if waiting:
        port, (_, reason) = next(iter(waiting.items()))
        status = done.status.waits(f"{port}: {reason}" + (f" ({len(waiting)} ports)" if len(waiting) > 1 else ""))
        return Told(status, state.class_rows(done.intent, state.PENDING), ports, waiting)
    status = done.status.applied(now_s if done.is_new else None, state.NOT_VERIFIED if unknown else "seen")
    if not (unknown or has_rest):
        status = replace(status, schedulers=digest(done.rows))
    return Told(status, state.class_rows(done.intent), ports, waiting)
