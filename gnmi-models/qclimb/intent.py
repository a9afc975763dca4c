"""What one switch is to do: which queue and DSCP each priority has there, and how balanced traffic is spread.

The values and their rules are in `switch`; here they get their two forms on the wire.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from .config_db import Rows, fields_of_rows, rows_of
from .gnmi import fields_of_tree, of_today, tree_of
from .leaves import BALANCED, AdminState, Tier
from .switch import IntentFields, PathWeights, QueueClass

__all__ = ["BALANCED", "AdminState", "PathWeights", "QueueClass", "SwitchIntent", "Tier"]


@dataclass(frozen=True)
class SwitchIntent(IntentFields):
    """One generation of what a switch is to do, and its forms as gNMI JSON and as CONFIG_DB rows."""

    def to_gnmi(self) -> dict[str, Any]:
        """JSON_IETF of qclimb.yang: `{"qclimb:qclimb": {...}}`, configuration only."""
        return tree_of(self)

    @classmethod
    def from_gnmi(cls, obj: object) -> Self:
        """The intent in JSON_IETF, with or without the outer `qclimb:qclimb`; state is passed over."""
        return cls(**fields_of_tree(obj))

    def to_config_db(self) -> Rows:
        """Rows by table and key: QCLIMB, QCLIMB_CLASS, QCLIMB_PATH; no empty table."""
        return rows_of(self)

    @classmethod
    def from_stored(cls, obj: object) -> Self:
        """The intent in JSON_IETF as an earlier version may have stored it: a number that was valid then and is not
        now is taken as the nearest that is."""
        return cls.from_gnmi(of_today(obj))

    @classmethod
    def from_config_db(cls, rows: Mapping[str, Mapping[str, Mapping[str, object]]]) -> Self:
        """The intent of rows as redis or ConfigDBConnector gives them; other tables are passed over."""
        return cls(**fields_of_rows(rows))
