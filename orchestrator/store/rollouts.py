"""How rollouts are kept: the whole in `rollouts`, each device in a row of its own that is written when it changes."""

from typing import Any

from sqlalchemy import Connection, update

from . import tables
from .upsert import upsert

KINDS = ("switches", "hosts")


def write_rollout(connection: Connection, number: int, phase: str, document: dict[str, Any]) -> None:
    """Writes what `document` has of the whole, and the devices that it names."""
    whole = {key: value for key, value in document.items() if key not in KINDS}
    of_it = tables.rollouts.c.id == number
    connection.execute(update(tables.rollouts).where(of_it).values(phase=phase, document=whole))
    rows = [
        {"rollout": number, "kind": kind, "name": name, "phase": step["phase"], "step": step}
        for kind in KINDS
        for name, step in document.get(kind, {}).items()
    ]
    if rows:
        row = upsert(connection, tables.steps)
        changed = {"phase": row.excluded.phase, "step": row.excluded.step}
        connection.execute(row.on_conflict_do_update(set_=changed, index_elements=list(tables.steps.primary_key)), rows)
