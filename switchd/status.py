"""What the switch tells about itself, as STATE_DB rows: QCLIMB_STATUS|global and QCLIMB_CLASS_STATE|<priority>.

`show qclimb` and gNMI state read the same rows, so they can't disagree.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Self

from qclimb.intent import SwitchIntent

from switchd.rows import Row

STATUS_TABLE, STATUS_KEY = "QCLIMB_STATUS", "global"
CLASS_STATE_TABLE = "QCLIMB_CLASS_STATE"


@dataclass(frozen=True)
class Status:
    """Generations are of the intent; None: none ever.

    applied_at   RFC 3339, UTC: when the applied generation was laid over the QoS tables, or was put right there
    last_error   why desired is not applied; empty when it is
    """

    applied_generation: int | None = None
    desired_generation: int | None = None
    admin_state: str = "disabled"
    last_error: str = ""
    applied_at: str = ""

    def wants(self, intent: SwitchIntent | None) -> Self:
        """The status once `intent` is desired, before it is applied."""
        if intent is None:
            return replace(self, desired_generation=None, admin_state="disabled")
        return replace(self, desired_generation=intent.generation, admin_state=intent.admin_state)

    def applied(self, now_s: float | None) -> Self:
        """The status once the desired intent holds; `now_s` (UNIX time) is None when nothing had to be changed."""
        at = self.applied_at
        if now_s is not None or self.applied_generation != self.desired_generation or not at:
            at = timestamp(now_s)
        return replace(self, applied_generation=self.desired_generation, last_error="", applied_at=at)

    def failed(self, error: Exception | str) -> Self:
        """The status when the desired intent can't be applied: the switch keeps what it has."""
        return replace(self, last_error=str(error))

    def to_row(self) -> Row:
        """Fields without a value are left out."""
        fields = {
            "applied_generation": self.applied_generation,
            "desired_generation": self.desired_generation,
            "admin_state": self.admin_state,
            "last_error": self.last_error or None,
            "applied_at": self.applied_at or None,
        }
        return {name: str(value) for name, value in fields.items() if value is not None}

    @classmethod
    def from_row(cls, row: Mapping[str, str]) -> Self:
        """The status of a row, also one written by another version: what is missing or no number was never told."""

        def number(name: str) -> int | None:
            text = row.get(name, "")
            return int(text) if text.isdecimal() else None

        return cls(
            number("applied_generation"),
            number("desired_generation"),
            row.get("admin_state", "disabled"),
            row.get("last_error", ""),
            row.get("applied_at", ""),
        )


def class_rows(intent: SwitchIntent | None) -> dict[str, Row]:
    """QCLIMB_CLASS_STATE rows of an applied intent; none when it is disabled."""
    if intent is None or intent.admin_state != "enabled":
        return {}
    return {
        str(one.priority): {
            "dscp": str(one.dscp),
            "queue": str(one.queue),
            "path": one.path,
            "threshold_bytes": str(one.threshold_bytes),
            "generation": str(intent.generation),
        }
        for one in intent.classes
    }


def timestamp(now_s: float | None) -> str:
    """RFC 3339 with seconds' fractions of three digits, UTC."""
    moment = datetime.now(UTC) if now_s is None else datetime.fromtimestamp(now_s, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
