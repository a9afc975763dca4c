"""What the switch tells about itself, as STATE_DB rows: QCLIMB_STATUS|global, QCLIMB_CLASS_STATE|<priority>,
QCLIMB_PORT_STATE|<port>, and QCLIMB_ASIC_STATE|<table>|<key>|<field> for each reference that the ASIC does not have.

`show qclimb` and gNMI state read the same rows, so they can't disagree.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Self

from qclimb.intent import SwitchIntent
from qclimb.leaves import CLASS, to_row

from switchd.rows import Row, Rows

STATUS_TABLE, STATUS_KEY = "QCLIMB_STATUS", "global"
CLASS_STATE_TABLE = "QCLIMB_CLASS_STATE"
PORT_STATE_TABLE = "QCLIMB_PORT_STATE"
ASIC_STATE_TABLE = "QCLIMB_ASIC_STATE"
SPINE_STATE_TABLE, PATH_STATE_TABLE = "QCLIMB_SPINE_STATE", "QCLIMB_PATH_STATE"
TABLES = (
    *(STATUS_TABLE, CLASS_STATE_TABLE, PORT_STATE_TABLE, ASIC_STATE_TABLE),
    *(SPINE_STATE_TABLE, PATH_STATE_TABLE),
)
APPLIED, REFUSED, PENDING, FAILED = "applied", "refused", "pending", "failed"
WAITING = "waiting"
NOT_VERIFIED = "written, not verified"


@dataclass(frozen=True)
class Status:
    """Generations are of the intent; None: none ever.

    applied_at   RFC 3339, UTC: when the applied generation was laid over the QoS tables, or was put right there
    last_error   why desired is not applied; empty when it is
    warning      whom the intent may starve; empty: nobody
    verified     how it is known that the applied generation holds: seen in the ASIC, pending, or written, not verified
    schedulers   digest of the queues' schedulers that were last seen in the ASIC (`schedulers.digest`), `none` if none
                 ever were; empty where STATE_DB was lost
    outcome      of what is desired: applied, waiting or refused; empty: not told yet
    """

    applied_generation: int | None = None
    desired_generation: int | None = None
    admin_state: str = "disabled"
    last_error: str = ""
    applied_at: str = ""
    verified: str = ""
    warning: str = ""
    schedulers: str = ""
    outcome: str = ""

    def wants(self, intent: SwitchIntent | None) -> Self:
        """The status once `intent` is desired, before it is applied."""
        if intent is None:
            return replace(self, desired_generation=None, admin_state="disabled")
        return replace(self, desired_generation=intent.generation, admin_state=intent.admin_state)

    def applied(self, now_s: float | None, verified: str = NOT_VERIFIED) -> Self:
        """The status once the desired intent holds; `now_s` (UNIX time) is None when nothing had to be changed."""
        at = self.applied_at
        if now_s is not None or self.applied_generation != self.desired_generation or not at:
            at = timestamp(now_s)
        return replace(
            self,
            applied_generation=self.desired_generation,
            last_error="",
            applied_at=at,
            verified=verified,
            outcome=APPLIED,
        )

    def waits(self, reason: str) -> Self:
        """The status while the rows are written and the ASIC does not have them."""
        return self.held(f"waiting for the ASIC: {reason}")

    def held(self, reason: str) -> Self:
        """The status while nothing is written, as somebody else's patch may be under way."""
        return replace(self, last_error=reason, verified=PENDING, outcome=WAITING)

    def failed(self, error: Exception | str) -> Self:
        """The status when the desired intent can't be applied: the switch keeps what it has."""
        return replace(self, last_error=str(error), outcome=REFUSED)

    def to_row(self) -> Row:
        """Fields without a value are left out."""
        fields = {
            "applied_generation": self.applied_generation,
            "desired_generation": self.desired_generation,
            "admin_state": self.admin_state,
            "last_error": self.last_error or None,
            "applied_at": self.applied_at or None,
            "verified": self.verified or None,
            "warning": self.warning or None,
            "outcome": self.outcome or None,
            "schedulers": self.schedulers if self.schedulers not in ("", "none") else None,
        }
        return {name: str(value) for name, value in fields.items() if value is not None}

    @classmethod
    def from_row(cls, row: Mapping[str, str]) -> Self:
        """The status of a row, also one written by another version: what is missing or no number was never told."""

        def generation(name: str) -> int | None:
            text = row.get(name, "")
            return int(text) if is_number(text) else None

        return cls(
            generation("applied_generation"),
            generation("desired_generation"),
            row.get("admin_state", "disabled"),
            row.get("last_error", ""),
            row.get("applied_at", ""),
            row.get("verified", ""),
            row.get("warning", ""),
            row.get("schedulers", "none" if row else ""),
            row.get("outcome", ""),
        )


def is_number(text: str) -> bool:
    """Whether a text is a whole number that a counter of 64 bits may hold; a database may hold any bytes."""
    return re.fullmatch("[0-9]{1,20}", text) is not None and int(text) < 2**64


def readable(rows: Mapping[str, Row]) -> dict[str, Row]:
    """QCLIMB_CLASS_STATE rows whose numbers are numbers: STATE_DB may hold what another version, or anybody, left."""

    def is_one(priority: str, row: Row) -> bool:
        texts = (priority, row.get("dscp", ""), row.get("queue", ""), row.get("threshold_bytes", "0"))
        return all(is_number(text) for text in texts)

    return {priority: row for priority, row in rows.items() if is_one(priority, row)}


def class_rows(intent: SwitchIntent | None, status: str = APPLIED) -> dict[str, Row]:
    """QCLIMB_CLASS_STATE rows of a written intent; none when it is disabled."""
    if intent is None or intent.admin_state != "enabled":
        return {}
    return {
        str(one.priority): {
            **to_row(CLASS, one),
            "generation": str(intent.generation),
            "status": status,
        }
        for one in intent.classes
    }


def alarmed(rows: Mapping[str, Row], alarms: Mapping[int, str]) -> dict[str, Row]:
    """QCLIMB_CLASS_STATE rows with the alarms of their queues."""
    of_queue = {str(queue): text for queue, text in alarms.items()}
    return {
        priority: {**row, "alarm": of_queue[row["queue"]]} if row.get("queue") in of_queue else row
        for priority, row in ((p, {f: v for f, v in row.items() if f != "alarm"}) for p, row in rows.items())
    }


def refused_class_rows(intent: SwitchIntent, before: Mapping[str, Row], reason: str) -> dict[str, Row]:
    """QCLIMB_CLASS_STATE rows while the switch keeps what it has instead of this intent.

    A class of the intent that is not in force as it is wanted has failed, and says why. What its row tells beside is
    what the switch does: of one that is new, what is wanted of it.
    """
    wanted, told = class_rows(intent, FAILED), {key: dict(row) for key, row in before.items()}
    for priority, row in wanted.items():
        now = told.get(priority)
        if now is None or any(now.get(name) != row[name] for name in ("dscp", "queue", "path")):
            told[priority] = {**(now or row), "status": FAILED, "reason": reason}
    return told


def port_rows(
    ports: Iterable[str],
    refused: Mapping[str, str],
    waiting: Mapping[str, tuple[str, str]] | None = None,
    held: str = APPLIED,
    unshared: Mapping[str, str] | None = None,
    unlimited: Mapping[str, str] | None = None,
) -> dict[str, Row]:
    """QCLIMB_PORT_STATE rows.

    refused  ports that keep what they have, with the reason
    waiting  ports where the ASIC does not have what was written: pending or unverified, and why
    held     what is said of the others: applied, or written, not verified
    unshared ports some of whose queues keep the platform's share of the buffer, with the reason
    unlimited ports some of whose queues do not have their limit, with the reason
    """
    found = {port: {"status": held} for port in ports}
    found |= {port: {"status": status, "reason": reason} for port, (status, reason) in (waiting or {}).items()}
    for name, reasons in (("buffers", unshared), ("limits", unlimited)):
        for port, reason in (reasons or {}).items():
            found[port] = {**found.get(port, {}), name: reason}
    return found | {port: {"status": REFUSED, "reason": reason} for port, reason in refused.items()}


@dataclass(frozen=True)
class Steered:
    """What became of paths, as STATE_DB rows.

    classes  fields of pinned classes' rows, by priority: status, reason, rules that count their packets
    spines   by name: status, reason, interfaces, next_hops, rules
    paths    spines with a share, by name: share, status, reason, frr
    differences  rules that the ASIC does not have though orchagent calls them active
    """

    classes: Mapping[str, Row] = field(default_factory=dict)
    spines: Mapping[str, Row] = field(default_factory=dict)
    paths: Mapping[str, Row] = field(default_factory=dict)
    differences: Mapping[str, Row] = field(default_factory=dict)

    def over(self, rows: Mapping[str, Row]) -> dict[str, Row]:
        """QCLIMB_CLASS_STATE rows with what became of pinned ones; what waits for its queue goes on waiting."""
        return {
            priority: {**row, **told, "status": told["status"] if row.get("status") == APPLIED else row["status"]}
            if (told := self.classes.get(priority))
            else row
            for priority, row in rows.items()
        }


def state_rows(
    status: Status,
    classes: Mapping[str, Row],
    ports: Mapping[str, Row],
    differences: Mapping[str, Row],
    steered: Steered,
) -> Rows:
    """All of it, by table."""
    return {
        STATUS_TABLE: {STATUS_KEY: status.to_row()},
        CLASS_STATE_TABLE: dict(classes),
        PORT_STATE_TABLE: dict(ports),
        ASIC_STATE_TABLE: {**differences, **steered.differences},
        SPINE_STATE_TABLE: dict(steered.spines),
        PATH_STATE_TABLE: dict(steered.paths),
    }


def timestamp(now_s: float | None) -> str:
    """RFC 3339 with seconds' fractions of three digits, UTC."""
    moment = datetime.now(UTC) if now_s is None else datetime.fromtimestamp(now_s, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
