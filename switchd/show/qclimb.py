"""`show qclimb` for SONiC's `show`: copied onto the host (show/plugins/qclimb.py) and run by its Python.

So: only the standard library, click, tabulate, and what a SONiC host has (swsscommon and utilities_common,
reached through the `Db` object of `show`); nothing of our own packages. One namespace (single-ASIC switches).
Off a switch the same commands read a plain redis: `python -m switchd.show --redis unix:///PATH status`.
"""

import json
import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import click
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
    ("Seen in the ASIC", "verified"),
    ("Warning", "warning"),
    ("Last error", "last_error"),
    ("Daemon", "daemon"),
    ("gNMI", "gnmi"),
)
DEAD_AFTER_S = 20
"""the daemon tells that it lives every 5 s"""
CLASS_FIELDS = (
    ("DSCP", "dscp"),
    ("Queue", "queue"),
    ("Path", "path"),
    ("Threshold (bytes)", "threshold_bytes"),
    ("Buffer (dynamic_th)", "dynamic_th"),
    ("Limit", "max_share"),
    ("Foretold", "foretold_share"),
    ("Generation", "generation"),
    ("Status", "status"),
    ("Alarm", "alarm"),
)
COUNTER_FIELDS = (
    ("Packets", "packets", "SAI_QUEUE_STAT_PACKETS"),
    ("Bytes", "bytes", "SAI_QUEUE_STAT_BYTES"),
    ("Dropped packets", "dropped_packets", "SAI_QUEUE_STAT_DROPPED_PACKETS"),
    ("ECN-marked packets", "ecn_marked_packets", "SAI_QUEUE_STAT_WRED_ECN_MARKED_PACKETS"),
)
PATH_FIELDS = (
    *(("Path", "path"), ("Next hop", "next_hops"), ("Status", "status")),
    *(("Packets", "packets"), ("Bytes", "bytes"), ("Reason", "reason")),
)
SPINE_FIELDS = (
    *(("Interfaces", "interfaces"), ("Status", "status"), ("Share", "share")),
    *(("Balanced class", "balanced"), ("Reason", "reason")),
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
            return redis.Redis.from_url(url, db=number, decode_responses=True, encoding_errors="backslashreplace")

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


@contextmanager
def database() -> Iterator[Any]:
    """The Db that `show` made, or ours off a switch; a redis that can't be reached is one sentence and status 2."""
    context = click.get_current_context()
    try:
        plain = context.find_object(PlainDb)
        if plain is not None:
            yield plain
        else:
            from utilities_common.db import Db

            yield context.find_object(Db) or Db()
    except Exception as error:  # redis-py's, or RuntimeError from SONiC's library
        if isinstance(error, (click.ClickException, ImportError)) or not is_redis(error):
            raise
        click.echo(f"Error: redis: {str(error).splitlines()[0]}", err=True)
        context.exit(2)


def is_redis(error: Exception) -> bool:
    """Whether an error comes from the database."""
    return type(error) is RuntimeError or "redis" in type(error).__module__


def status_row(db: Any) -> dict[str, str]:
    """QCLIMB_STATUS|global, and whether the daemon lives; {} when it never ran."""
    row = dict(db.db.get_all(db.db.STATE_DB, "QCLIMB_STATUS|global") or {})
    return {**row, "daemon": daemon(row), "gnmi": row.get("gnmi", "open")} if row else {}


def daemon(row: dict[str, str]) -> str:
    """What the heartbeat says."""
    beat = row.get("heartbeat", "")
    age_s = int(time.time()) - int(beat) if number(beat) is not None else None
    if age_s is None:
        return "not running (it never told that it lives)"
    return (
        "running" if age_s <= DEAD_AFTER_S else f"not running (last seen {age_s} s ago; the switch keeps what it has)"
    )


def number(text: Any) -> int | None:
    """A whole number of 64 bits; None for whatever else a database may hold."""
    return int(text) if re.fullmatch("[0-9]{1,20}", str(text)) and int(text) < 2**64 else None


def natural(text: str) -> list[tuple[int, str]]:
    """By which names sort as people count: Ethernet4 before Ethernet12. Takes any text, which natsort does not."""
    parts = enumerate(re.split("([0-9]{1,18})", text))
    return [(int(part), "") if at % 2 else (-1, part) for at, part in parts]


def state_rows(db: Any, table: str) -> dict[str, dict[str, str]]:
    """A table of STATE_DB by key, in natural order."""
    keys = sorted(db.db.keys(db.db.STATE_DB, f"{table}|*") or [], key=natural)
    return {key.partition("|")[2]: dict(db.db.get_all(db.db.STATE_DB, key) or {}) for key in keys}


def port_rows(db: Any) -> dict[str, dict[str, str]]:
    """QCLIMB_PORT_STATE by port."""
    return state_rows(db, "QCLIMB_PORT_STATE")


def class_rows(db: Any) -> dict[str, dict[str, str]]:
    """QCLIMB_CLASS_STATE by priority."""
    return state_rows(db, "QCLIMB_CLASS_STATE")


def counter_rows(db: Any, interface: str | None) -> list[dict[str, Any]]:
    """A row for each granted port and class, ports in natural order; a counter that the platform lacks is None."""
    oids = dict(db.db.get_all(db.db.COUNTERS_DB, "COUNTERS_QUEUE_NAME_MAP") or {})
    present = sorted({name.rpartition(":")[0] for name in oids}, key=natural)
    granted = db.cfgdb.get_entry("QCLIMB", "global").get("ports")
    granted = granted if isinstance(granted, list) and granted else present  # without @ it is no list
    if interface is not None and interface not in granted:
        raise click.BadParameter(f"{interface!r} is no port that was granted to qclimb and has queue counters")
    found = []
    for port in sorted(granted, key=natural) if interface is None else [interface]:
        for priority, row in class_rows(db).items():
            oid = oids.get(f"{port}:{row.get('queue')}")
            counted = dict(db.db.get_all(db.db.COUNTERS_DB, f"COUNTERS:{oid}") or {}) if oid else {}
            one = {"interface": port, "priority": number(priority), "queue": number(row.get("queue"))}
            for _, name, sai in COUNTER_FIELDS:
                one[name] = number(counted.get(sai))  # some say "N/A"
            found.append(one)
    return found


def rule_totals(db: Any, rules: str) -> dict[str, Any]:
    """Packets and bytes that ACL rules (with commas) have counted; None where nothing counts them."""
    oids = dict(db.db.get_all(db.db.COUNTERS_DB, "ACL_COUNTER_RULE_MAP") or {}) if rules else {}
    rows = [
        dict(db.db.get_all(db.db.COUNTERS_DB, f"COUNTERS:{oids[rule]}") or {})
        for rule in rules.split(",")
        if rule in oids
    ]
    found: dict[str, Any] = {}
    for name in ("packets", "bytes"):
        texts = [row.get(f"SAI_ACL_COUNTER_ATTR_{name.upper()}", "") for row in rows]
        numbers = [int(text) for text in texts if text.isdecimal()]
        found[name] = sum(numbers) if numbers else None
    return found


def path_rows(db: Any) -> dict[str, dict[str, Any]]:
    """Each priority's path, its next hops, and what its redirect counted."""
    spines, found = state_rows(db, "QCLIMB_SPINE_STATE"), {}
    for priority, row in class_rows(db).items():
        path = row.get("path", "balanced")
        hops = "routes" if path == "balanced" else spines.get(path, {}).get("next_hops", "")
        told = {"path": path, "next_hops": hops, "status": row.get("status"), "reason": row.get("reason", "")}
        found[priority] = {**told, **rule_totals(db, row.get("rules", ""))}
    return found


def spine_rows(db: Any) -> dict[str, dict[str, Any]]:
    """Each spine that an uplink leads to, with its share of the balanced class."""
    shares, found = state_rows(db, "QCLIMB_PATH_STATE"), {}
    for spine, row in state_rows(db, "QCLIMB_SPINE_STATE").items():
        share = shares.get(spine, {})
        reasons = [text for text in (row.get("reason"), share.get("reason")) if text]
        found[spine] = {
            "interfaces": row.get("interfaces", ""),
            "status": row.get("status"),
            "share": share.get("share"),
            "balanced": share.get("status"),
            "reason": "; ".join(dict.fromkeys(reasons)),
        }
    return found


def tell(as_json: bool, value: Any, rows: list[list[Any]], headers: list[str]) -> None:
    """One answer, in either form."""
    if as_json:
        click.echo(json.dumps(value, indent=4))
    else:
        table = tabulate(rows, headers, missingval="N/A", disable_numparse=True)
        click.echo(table.encode(errors="backslashreplace").decode())  # a row may hold any bytes


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
    with database() as db:
        if ran(db, as_json):
            row = status_row(db)
            refused = [port for port, one in port_rows(db).items() if "reason" in one]
            table = [[title, row.get(name, "N/A")] for title, name in STATUS_FIELDS]
            if refused:
                table.append(["Ports not applied", f"{len(refused)}: {', '.join(refused)} (show qclimb ports)"])
            tell(as_json, row, table, [])


@qclimb.command(context_settings=help_names, epilog="Example: show qclimb ports")
@json_option
def ports(as_json: bool) -> None:
    """Show on which ports the intent holds, and why not on the others."""
    with database() as db:
        if ran(db, as_json):
            rows = port_rows(db)
            table = [
                [port, row.get("status"), row.get("reason") or row.get("buffers") or row.get("limits", "")]
                for port, row in rows.items()
            ]
            tell(as_json, rows, table, ["Interface", "Status", "Reason"])


@qclimb.command(context_settings=help_names, epilog="Example: show qclimb asic")
@json_option
def asic(as_json: bool) -> None:
    """Show where the ASIC lacks what was written."""
    with database() as db:
        if ran(db, as_json):
            rows = state_rows(db, "QCLIMB_ASIC_STATE")
            names = ("status", "wanted", "found", "reason")
            table = [[place, *(row.get(name) for name in names)] for place, row in rows.items()]
            if table or as_json:
                tell(as_json, rows, table, ["Reference", *(name.capitalize() for name in names)])
            else:
                click.echo(f"No difference: {status_row(db).get('verified', 'nothing was compared yet')}")


@qclimb.command(context_settings=help_names, epilog="Example: show qclimb classes")
@json_option
def classes(as_json: bool) -> None:
    """Show DSCP and queue of each applied priority; 0 is served first."""
    with database() as db:
        if ran(db, as_json):
            rows = class_rows(db)
            table = [[priority, *(row.get(name) for _, name in CLASS_FIELDS)] for priority, row in rows.items()]
            tell(as_json, rows, table, ["Priority", *(title for title, _ in CLASS_FIELDS)])


@qclimb.command(context_settings=help_names, epilog="Example: show qclimb paths")
@json_option
def paths(as_json: bool) -> None:
    """Show which spine each priority takes, and what the spines are."""
    with database() as db:
        if ran(db, as_json):
            classes, spines = path_rows(db), spine_rows(db)
            table = [[priority, *(row[name] for _, name in PATH_FIELDS)] for priority, row in classes.items()]
            headers = ["Priority", *(title for title, _ in PATH_FIELDS)]
            tell(as_json, {"classes": classes, "spines": spines}, table, headers)
            if spines and not as_json:
                below = [[spine, *(row[name] for _, name in SPINE_FIELDS)] for spine, row in spines.items()]
                click.echo()
                tell(False, None, below, ["Spine", *(title for title, _ in SPINE_FIELDS)])


@qclimb.command(context_settings=help_names, epilog="Example: show qclimb frr")
@json_option
def frr(as_json: bool) -> None:
    """Show what to configure in FRR so that routes share as wanted."""
    with database() as db:
        if ran(db, as_json):
            found = {spine: row.get("frr", "") for spine, row in state_rows(db, "QCLIMB_PATH_STATE").items()}
            click.echo(json.dumps(found, indent=4) if as_json else "\n".join(found.values()) or "No shares are wanted")


@qclimb.command(context_settings=help_names, epilog="Example: show qclimb counters Ethernet0")
@click.argument("interface", required=False)
@json_option
def counters(interface: str | None, as_json: bool) -> None:
    """Show the queue counters of each priority.

    Of INTERFACE, or of every port that was granted to qclimb.
    """
    with database() as db:
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


for _command in (status, ports, asic, classes, paths, frr, counters):
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
