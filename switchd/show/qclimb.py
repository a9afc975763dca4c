"""`show qclimb` for SONiC's `show`: copied onto the host (show/plugins/qclimb.py) and run by its Python.

So: only the standard library, click, tabulate, and what a SONiC host has (swsscommon and utilities_common,
reached through the `Db` object of `show`); nothing of our own packages. A `db` here is a SonicV2Connector of one
namespace. Off a switch the same commands read a plain redis (`plain`).
"""

import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import wraps
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
NAMESPACE = "qclimb.namespace"
"""where a command finds which namespace it is asked of, in the meta of its context"""
RUNNING = "running"
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
Answer = tuple[Any, str]
"""what a command says of one namespace: for machines, and for people"""
help_names = {"help_option_names": ["-h", "--help"]}
namespace_option = click.option("-n", "--namespace", metavar="NAME", help="Of several ASICs one, like asic0; or all.")
json_option = click.option("-j", "--json", "as_json", is_flag=True, help="Print JSON.")


@contextmanager
def databases(namespace: str | None) -> Iterator[dict[str, Any]]:
    """The databases by namespace; a redis that can't be reached is one sentence and status 2."""
    context = click.get_current_context()
    try:
        found = context.find_root().obj
        if found is None:
            from utilities_common.db import Db

            found = Db()
        yield of_namespace(found.db_clients, namespace)
    except Exception as error:  # redis-py's, or RuntimeError from SONiC's library
        if isinstance(error, (click.ClickException, ImportError)) or not is_redis(error):
            raise
        click.echo(printable(f"Error: redis: {str(error).splitlines()[0]}"), err=True)
        context.exit(2)


def of_namespace(clients: dict[str, Any], namespace: str | None) -> dict[str, Any]:
    """The connectors that are meant, as SONiC's own commands take -n: all where none is named.

    On several ASICs "" is none of them: there it has the host's databases.
    """
    names = sorted((name for name in clients if name), key=natural) or [""]
    if namespace is not None and namespace not in names:
        expected = f"expected one of {', '.join(names)}" if names[0] else "this switch has no namespaces"
        raise click.UsageError(f"-n: {expected} instead of {namespace!r}")
    return {name: clients[name] for name in (names if namespace is None else [namespace])}


def is_redis(error: Exception) -> bool:
    """Whether an error comes from the database."""
    return type(error) is RuntimeError or "redis" in type(error).__module__


def status_row(db: Any) -> dict[str, str]:
    """QCLIMB_STATUS|global, and whether the daemon lives; {} when it never ran."""
    row = dict(db.get_all(db.STATE_DB, "QCLIMB_STATUS|global") or {})
    if not row:
        return {}
    lives = daemon(row)
    return {**row, "daemon": lives, "gnmi": row.get("gnmi", "open") if lives == RUNNING else "closed: nobody serves it"}


def daemon(row: dict[str, str]) -> str:
    """What the heartbeat says."""
    beat = row.get("heartbeat", "")
    age_s = int(time.time()) - int(beat) if number(beat) is not None else None
    if age_s is None:
        return "not running (it never told that it lives)"
    if age_s < -DEAD_AFTER_S:  # the clock was set back since
        return f"not running (last seen {-age_s} s ahead of the clock; the switch keeps what it has)"
    return RUNNING if age_s <= DEAD_AFTER_S else f"not running (last seen {age_s} s ago; the switch keeps what it has)"


def commit(row: dict[str, str]) -> str:
    """What became of the last commit that had to be confirmed, and whose it is; while it is pending, until when."""
    of = f" of {row['commit_client']}" if row.get("commit_client") else ""
    told = f"{row['commit']}{of} is {row.get('commit_status', 'N/A')}"
    until_s = number(row.get("commit_until"))
    if until_s is None or until_s > 253402300799:  # year 9999
        return told
    until = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(until_s))
    return f"{told}: unless it is confirmed, it is undone at {until}"


def number(text: Any) -> int | None:
    """A whole number of 64 bits; None for whatever else a database may hold."""
    return int(text) if re.fullmatch("[0-9]{1,20}", str(text)) and int(text) < 2**64 else None


def natural(text: str) -> list[tuple[int, str]]:
    """By which names sort as people count: Ethernet4 before Ethernet12. Takes any text, which natsort does not."""
    parts = enumerate(re.split("([0-9]{1,18})", text))
    return [(int(part), "") if at % 2 else (-1, part) for at, part in parts]


def state_rows(db: Any, table: str) -> dict[str, dict[str, str]]:
    """A table of STATE_DB by key, in natural order."""
    keys = sorted(db.keys(db.STATE_DB, f"{table}|*") or [], key=natural)
    return {key.partition("|")[2]: dict(db.get_all(db.STATE_DB, key) or {}) for key in keys}


def config_row(db: Any, key: str) -> dict[str, str]:
    """A row of CONFIG_DB; {} where there is none."""
    return dict(db.get_all(db.CONFIG_DB, key) or {})


def config_rows(db: Any, table: str) -> dict[str, dict[str, str]]:
    """A table of CONFIG_DB by key, in natural order."""
    keys = sorted(db.keys(db.CONFIG_DB, f"{table}|*") or [], key=natural)
    return {key.partition("|")[2]: config_row(db, key) for key in keys}


def port_rows(db: Any) -> dict[str, dict[str, str]]:
    """QCLIMB_PORT_STATE by port."""
    return state_rows(db, "QCLIMB_PORT_STATE")


def class_rows(db: Any) -> dict[str, dict[str, str]]:
    """QCLIMB_CLASS_STATE by priority."""
    return state_rows(db, "QCLIMB_CLASS_STATE")


def table(rows: list[list[Any]], headers: list[str]) -> str:
    """Rows for people."""
    shown = [[cell if cell is None else printable(str(cell)) for cell in row] for row in rows]
    return tabulate(shown, headers, missingval="N/A", disable_numparse=True)


def printable(text: str) -> str:
    """Text of a database as one line for a terminal: it may hold any bytes, and what would steer it is escaped."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def printable_lines(text: str) -> str:
    """The same for text of several lines, which stay."""
    return "\n".join(map(printable, text.split("\n")))


def answers(dbs: dict[str, Any], answer: Callable[..., Answer], words: dict[str, Any]) -> dict[str, Answer]:
    """What a command says of each namespace. A port that one of them has is not missed in the others."""
    context, found, missed = click.get_current_context(), {}, None
    for name, db in dbs.items():
        context.meta[NAMESPACE] = name
        try:
            found[name] = answer(db, **words) if status_row(db) else ({}, NEVER_RAN)
        except click.BadParameter as error:
            missed = error
    if missed and all(text == NEVER_RAN for _, text in found.values()):
        raise missed
    return found


def command(example: str) -> Callable[[Callable[..., Answer]], click.Command]:
    """A sub-command with -n and -j; called with the databases of a namespace where qclimb ever ran."""

    def made(answer: Callable[..., Answer]) -> click.Command:
        @wraps(answer)
        def called(namespace: str | None, as_json: bool, **words: Any) -> None:
            with databases(namespace) as dbs:
                found = answers(dbs, answer, words)
            if as_json:
                values = {name: value for name, (value, _) in found.items()}
                click.echo(json.dumps(values if len(dbs) > 1 else next(iter(values.values())), indent=4))
                return
            for name, (_, text) in found.items():
                click.echo(printable_lines(f"For namespace {name}:\n{text}\n" if len(dbs) > 1 else text))

        with_options = namespace_option(json_option(called))
        return qclimb.command(context_settings=help_names, epilog=f"Example: show qclimb {example}")(with_options)

    return made


@click.group(
    name="qclimb",
    cls=Group,
    context_settings=help_names,
    invoke_without_command=True,
    epilog="Example: show qclimb counters Ethernet0",
)
@namespace_option
@json_option
@click.pass_context
def qclimb(context: click.Context, namespace: str | None, as_json: bool) -> None:
    """Show what qclimb does on this switch.

    Without a command: the status.
    """
    if context.invoked_subcommand is None:
        context.invoke(status, namespace=namespace, as_json=as_json)


@command("status --json")
def status(db: Any) -> Answer:
    """Show which generation of the intent is applied, or why not."""
    row = status_row(db)
    refused = [port for port, one in port_rows(db).items() if "reason" in one]
    lines = [[title, row.get(name, "N/A")] for title, name in STATUS_FIELDS]
    if row.get("commit"):
        lines.append(["Commit", commit(row)])
    alarms = [priority for priority, one in class_rows(db).items() if "alarm" in one]
    if refused:
        lines.append(["Ports not applied", f"{len(refused)}: {', '.join(refused)} (show qclimb ports)"])
    if alarms:
        lines.append(["Alarms", f"of priority {', '.join(alarms)} (show qclimb classes)"])
    return row, table(lines, [])


@command("ports")
def ports(db: Any) -> Answer:
    """Show on which ports the intent holds, and why not on the others."""
    rows = port_rows(db)
    lines = [
        [port, row.get("status"), "; ".join(row[name] for name in ("reason", "buffers", "limits") if row.get(name))]
        for port, row in rows.items()
    ]
    return rows, table(lines, ["Interface", "Status", "Reason"])


@command("asic")
def asic(db: Any) -> Answer:
    """Show where the ASIC lacks what was written."""
    rows = state_rows(db, "QCLIMB_ASIC_STATE")
    names = ("status", "wanted", "found", "reason")
    lines = [[place, *(row.get(name) for name in names)] for place, row in rows.items()]
    if not lines:
        return rows, printable(f"No difference: {status_row(db).get('verified', 'nothing was compared yet')}")
    return rows, table(lines, ["Reference", *(name.capitalize() for name in names)])


@command("classes")
def classes(db: Any) -> Answer:
    """Show DSCP and queue of each applied priority; 0 is served first."""
    rows = class_rows(db)
    lines = [[priority, *(row.get(name) for _, name in CLASS_FIELDS)] for priority, row in rows.items()]
    return rows, table(lines, ["Priority", *(title for title, _ in CLASS_FIELDS)])


def register(cli: click.Group) -> None:
    """What `show` calls for each of its plug-ins."""
    cli.add_command(qclimb)
