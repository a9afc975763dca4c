"""`sonic-clear qclimb` for SONiC's `sonic-clear`: copied onto the host (clear/plugins/qclimb.py).

Nothing in the switch is reset: the counters of now are kept in a file of this user, and `show qclimb counters` tells
what was counted since.
"""

import json
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from switchd.show import qclimb as show
    from switchd.show import qclimb_counters as counted
else:
    try:
        from show.plugins import qclimb as show
        from show.plugins import qclimb_1 as counted
    except ImportError:  # not a switch
        from switchd.show import qclimb as show
        from switchd.show import qclimb_counters as counted


@click.group(name="qclimb", context_settings=show.help_names, epilog="Example: sonic-clear qclimb counters")
def qclimb() -> None:
    """Clear what qclimb shows."""


@qclimb.command(context_settings=show.help_names, epilog="Example: sonic-clear qclimb counters")
@show.namespace_option
def counters(namespace: str | None) -> None:
    """Count anew what `show qclimb counters` tells.

    For this user alone; nothing in the switch is reset.
    """
    with show.databases(namespace) as dbs:
        for name, db in dbs.items():
            keep(name, counts(db))


def counts(db: Any) -> dict[str, dict[str, str]]:
    """The counters of every queue, by object id."""
    oids = set(dict(db.get_all(db.COUNTERS_DB, "COUNTERS_QUEUE_NAME_MAP") or {}).values())
    names = [sai for _, _, sai in counted.COUNTER_FIELDS]
    rows = {oid: dict(db.get_all(db.COUNTERS_DB, f"COUNTERS:{oid}") or {}) for oid in sorted(oids)}
    return {oid: {name: row[name] for name in names if name in row} for oid, row in rows.items()}


def keep(namespace: str, kept: dict[str, dict[str, str]]) -> None:
    """Raises UsageError where the user's files can't be written."""
    file = counted.cleared_file(namespace)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(kept))
    except OSError as error:
        raise click.UsageError(f"{file}: {error.strerror}") from error


def register(cli: click.Group) -> None:
    """What `sonic-clear` calls for each of its plug-ins."""
    cli.add_command(qclimb)
