"""`show qclimb` for SONiC's `show`: copied onto the host (show/plugins/qclimb.py) and run by its Python.

So: only the standard library, click, tabulate, natsort, and what a SONiC host has (swsscommon and utilities_common,
reached through the `Db` object of `show`); nothing of our own packages. One namespace (single-ASIC switches).
Off a switch the same commands read a plain redis: `python -m switchd.show --redis unix:///PATH status`.
"""

import json
import sys
from contextlib import suppress
from typing import Any

import click
from natsort import natsorted
from tabulate import tabulate

Group: type[click.Group] = click.Group
with suppress(ImportError):  # not a switch
    from utilities_common.cli import AliasedGroup

    Group = AliasedGroup

NEVER_RAN = "qclimb has not run on this switch yet: STATE_DB has no QCLIMB_STATUS"
STATUS_FIELDS = (
    ("Admin state", "admin_state"),
    ("Desired generation", "desired_generation"),
    ("Applied generation", "applied_generation"),
    ("Applied at", "applied_at"),
    ("Last error", "last_error"),
)
CLASS_FIELDS = (
    ("DSCP", "dscp"),
    ("Queue", "queue"),
    ("Path", "path"),
    ("Threshold (bytes)", "threshold_bytes"),
    ("Generation", "generation"),
)
COUNTER_FIELDS = (
    ("Packets", "packets", "SAI_QUEUE_STAT_PACKETS"),
    ("Bytes", "bytes", "SAI_QUEUE_STAT_BYTES"),
    ("Dropped packets", "dropped_packets", "SAI_QUEUE_STAT_DROPPED_PACKETS"),
    ("ECN-marked packets", "ecn_marked_packets", "SAI_QUEUE_STAT_WRED_ECN_MARKED_PACKETS"),
)
json_option = click.option("-j", "--json", "as_json", is_flag=True, help="Print JSON.")
help_names = {"help_option_names": ["-h", "--help"]}


class PlainDb:
    """What `show`'s Db gives us, from a redis without SONiC around it.

    It is its own `.db` (SonicV2Connector) and `.cfgdb` (ConfigDBConnector).
    """

    COUNTERS_DB, CONFIG_DB, STATE_DB = 2, 4, 6

    def __init__(self, url: str) -> None:
        import redis

        def connect(number: int) -> Any:
            return redis.Redis.from_url(url, db=number, decode_responses=True)

        self._connect = connect
        self.db = self.cfgdb = self

    def keys(self, number: int, pattern: str) -> list[str]:
        """SonicV2Connector.keys."""
        return list(self._connect(number).keys(pattern))

    def get_all(self, number: int, key: str) -> dict[str, str]:
        """SonicV2Connector.get_all."""
        return dict(self._connect(number).hgetall(key))

    def get_entry(self, table: str, key: str) -> dict[str, Any]:
        """ConfigDBConnector.get_entry: a field `name@` is the list `name`."""
        row = self.get_all(self.CONFIG_DB, f"{table}|{key}")
        return {f.removesuffix("@"): v.split(",") if f.endswith("@") else v for f, v in row.items()}


def database() -> Any:
    """The Db that `show` made, or ours off a switch."""
    context = click.get_current_context()
    plain = context.find_object(PlainDb)
    if plain is not None:
        return plain
    from utilities_common.db import Db

    return context.find_object(Db) or Db()


def status_row(db: Any) -> dict[str, str]:
    """QCLIMB_STATUS|global; {} when the daemon never ran."""
    return dict(db.db.get_all(db.db.STATE_DB, "QCLIMB_STATUS|global") or {})


def class_rows(db: Any) -> dict[str, dict[str, str]]:
    """QCLIMB_CLASS_STATE by priority, in order."""
    keys = natsorted(db.db.keys(db.db.STATE_DB, "QCLIMB_CLASS_STATE|*") or [])
    return {key.partition("|")[2]: dict(db.db.get_all(db.db.STATE_DB, key) or {}) for key in keys}


def counter_rows(db: Any, interface: str | None) -> list[dict[str, Any]]:
    """A row for each granted port and class, ports in natural order; a counter that the platform lacks is None."""
    oids = dict(db.db.get_all(db.db.COUNTERS_DB, "COUNTERS_QUEUE_NAME_MAP") or {})
    present = natsorted({name.rpartition(":")[0] for name in oids})
    granted = db.cfgdb.get_entry("QCLIMB", "global").get("ports") or present
    if interface is not None and interface not in granted:
        raise click.BadParameter(f"{interface!r} is no port that was granted to qclimb and has queue counters")
    found = []
    for port in natsorted(granted) if interface is None else [interface]:
        for priority, row in class_rows(db).items():
            oid = oids.get(f"{port}:{row.get('queue')}")
            counted = dict(db.db.get_all(db.db.COUNTERS_DB, f"COUNTERS:{oid}") or {}) if oid else {}
            one = {"interface": port, "priority": int(priority), "queue": int(row.get("queue", -1))}
            for _, name, sai in COUNTER_FIELDS:
                one[name] = int(counted[sai]) if counted.get(sai, "").isdecimal() else None  # some say "N/A"
            found.append(one)
    return found


def tell(as_json: bool, value: Any, rows: list[list[Any]], headers: list[str]) -> None:
    """One answer, in either form."""
    if as_json:
        click.echo(json.dumps(value, indent=4))
    else:
        click.echo(tabulate(rows, headers, missingval="N/A", disable_numparse=True))


def ran(db: Any, as_json: bool) -> bool:
    """Whether there is something to show; says so if not."""
    if status_row(db):
        return True
    click.echo("{}" if as_json else NEVER_RAN)
    return False


@click.group(
    name="qclimb",
    cls=Group,
    context_settings=help_names,
    invoke_without_command=True,
    epilog="Example: show qclimb counters Ethernet0",
)
@click.pass_context
def qclimb(context: click.Context) -> None:
    """Show what qclimb does on this switch."""
    if context.invoked_subcommand is None:
        context.invoke(status, as_json=False)


@qclimb.command(context_settings=help_names, epilog="Example: show qclimb status --json")
@json_option
def status(as_json: bool) -> None:
    """Show which generation of the intent is applied, or why not."""
    db = database()
    if ran(db, as_json):
        row = status_row(db)
        tell(as_json, row, [[title, row.get(name, "N/A")] for title, name in STATUS_FIELDS], [])


@qclimb.command(context_settings=help_names, epilog="Example: show qclimb classes")
@json_option
def classes(as_json: bool) -> None:
    """Show DSCP and queue of each applied priority; 0 is served first."""
    db = database()
    if ran(db, as_json):
        rows = class_rows(db)
        table = [[priority, *(row.get(name) for _, name in CLASS_FIELDS)] for priority, row in rows.items()]
        tell(as_json, rows, table, ["Priority", *(title for title, _ in CLASS_FIELDS)])


@qclimb.command(context_settings=help_names, epilog="Example: show qclimb paths")
@json_option
def paths(as_json: bool) -> None:
    """Show which priorities travel by which spine."""
    db = database()
    if ran(db, as_json):
        found: dict[str, list[str]] = {}
        for priority, row in class_rows(db).items():
            found.setdefault(row.get("path", "balanced"), []).append(priority)
        tell(as_json, found, [[path, ", ".join(members)] for path, members in found.items()], ["Path", "Priorities"])


@qclimb.command(context_settings=help_names, epilog="Example: show qclimb counters Ethernet0")
@click.argument("interface", required=False)
@json_option
def counters(interface: str | None, as_json: bool) -> None:
    """Show the queue counters of each priority.

    Of INTERFACE, or of every port that was granted to qclimb.
    """
    db = database()
    if ran(db, as_json):
        rows = counter_rows(db, interface)
        headers = ["Interface", "Priority", "Queue", *(title for title, _, _ in COUNTER_FIELDS)]
        tell(as_json, rows, [list(row.values()) for row in rows], headers)


def register(cli: click.Group) -> None:
    """What `show` calls for each of its plug-ins."""
    cli.add_command(qclimb)


@click.group(
    context_settings=help_names, epilog="Example: python -m switchd.show --redis unix:///tmp/redis.sock status"
)
@click.option("--redis", "url", required=True, metavar="URL", help="unix:///PATH or redis://ADDR:PORT.")
@click.pass_context
def plain(context: click.Context, url: str) -> None:
    """`show qclimb` off a switch, from a plain redis."""
    context.obj = PlainDb(url)


for _command in (status, classes, paths, counters):
    plain.add_command(_command)


def main() -> None:
    """The commands off a switch; a redis that can't be reached is one sentence and status 2."""
    import redis

    try:
        plain(prog_name="python -m switchd.show")
    except (redis.RedisError, ValueError) as error:
        click.echo(f"Error: redis: {error}", err=True)
        sys.exit(2)


if __name__ == "__main__":
    main()
