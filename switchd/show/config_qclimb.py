"""`config qclimb` for SONiC's `config`: copied onto the host (config/plugins/qclimb.py) and run by its Python.

So: only the standard library and click. The patch is made in the container (`switchd.patch`), which refuses an intent
that no port can take; SONiC's own patcher checks it by YANG and writes it. Then switchd writes what follows.
"""

import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import IO, Any

import click

CONTAINER = "qclimb"
WRITTEN = """\
The intent is written. switchd follows once CONFIG_DB has been left alone for some seconds (10 by default).
Until then another patch may fail: see `show qclimb`.\
"""
SILENT = """\
The intent is written, but switchd does not answer: {}. The switch keeps what it has until it does.
See `systemctl status qclimb`; `systemctl restart qclimb` starts it anew.\
"""
WAIT_S = 60
BEAT_S = 5
"""how often switchd writes its heartbeat"""
help_names = {"help_option_names": ["-h", "--help"]}


namespace_option = click.option(
    "-n", "--namespace", metavar="NAME", help="Of several ASICs one has to be named: asic0, ..."
)
rows_option = click.option(
    "--with-rows",
    is_flag=True,
    help="Patch in all that follows, too, at once. SONiC's patcher then takes every port that changes down and up.",
)


def apply_patch(words: list[str], namespace: str | None, with_rows: bool, given: bytes = b"") -> None:
    """Patch CONFIG_DB with what the container makes of `words`; what went wrong is said, and the status 2."""
    words = [*words, *(["--namespace", namespace] if namespace else []), *(["--with-rows"] if with_rows else [])]
    try:
        made = subprocess.run(
            ["docker", "exec", "-i", CONTAINER, "python3", "-m", "switchd.patch", *words],
            input=given,
            capture_output=True,
            check=False,
        )
        if made.returncode:
            said = made.stderr.decode(errors="replace").strip().splitlines() or ["no word from the container"]
            click.echo(printable(said[-1]), err=True)
            if made.returncode != 2:  # docker's own words, not ours
                click.echo("Nothing is written. See `systemctl status qclimb`.", err=True)
            sys.exit(2)
        if made.stdout.strip() == b"[]":
            click.echo("Nothing to change.")
            return
        with tempfile.NamedTemporaryFile(suffix=".json") as patch:
            patch.write(made.stdout)
            patch.flush()
            done = subprocess.run(["config", "apply-patch", patch.name], check=False)
    except OSError as error:
        click.echo(f"Error: {error.filename}: {error.strerror}", err=True)
        sys.exit(2)
    if done.returncode:
        sys.exit(done.returncode)
    if not with_rows:
        tell(namespace)


def tell(namespace: str | None) -> None:
    """Say what the switch made of the intent, once it has; where it can't take it or is silent, the status is 1.

    Whoever patches CONFIG_DB right after this patch would find other rows after his writing than before it, and SONiC's
    patcher says then that it failed.
    """
    connections = click.get_current_context().find_root().obj
    write_no_more(connections)
    db: Any = getattr(connections, "db_clients", {}).get(namespace or "")
    beat, silent_s = "", 0
    for _ in range(WAIT_S if db else 0):
        try:
            wanted = dict(db.get_all(db.CONFIG_DB, "QCLIMB|global") or {}).get("generation")
            row = dict(db.get_all(db.STATE_DB, "QCLIMB_STATUS|global") or {})
        except Exception:  # swsscommon's or redis's own; what is written stays written
            break
        why = silence(row)
        if row.get("desired_generation") == wanted and row.get("outcome") in ("applied", "refused") and not why:
            is_refused = row["outcome"] == "refused"
            became = f"not applied: {row.get('last_error')}" if is_refused else "applied"
            click.echo(printable(f"Generation {wanted} is {became}"))
            sys.exit(1 if is_refused else 0)
        silent_s = silent_s + 1 if row.get("heartbeat", "") == beat else 0
        beat = row.get("heartbeat", "")
        if why and silent_s > BEAT_S:
            click.echo(SILENT.format(why), err=True)
            sys.exit(1)
        time.sleep(1)
    click.echo(WRITTEN)


def printable(text: str) -> str:
    """Text for a terminal: a database may hold any bytes, and what would steer it is escaped."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def silence(row: Mapping[str, str]) -> str:
    """Why switchd counts as silent, by its row of STATE_DB; empty where it may be well."""
    try:
        age_s = time.time() - float(row["heartbeat"])
    except (KeyError, ValueError):
        return "STATE_DB has no heartbeat of it"
    if age_s < -3 * BEAT_S:  # the clock was set back since
        return f"its last heartbeat is {-age_s:.0f} s ahead of the clock"
    return f"its last heartbeat is {age_s:.0f} s old" if age_s > 3 * BEAT_S else ""


def write_no_more(connections: Any) -> None:
    """Give `config`'s connections our name: switchd waits for those that may be a patch's, while this waits for it."""
    clients = [*getattr(connections, "cfgdb_clients", {}).values(), getattr(connections, "cfgdb_pipe", None)]
    for client in clients:
        with suppress(Exception):  # swsscommon's own, or a library without it
            client.get_redis_client("CONFIG_DB").setClientName("qclimb")


@click.group(name="qclimb", context_settings=help_names, epilog="Example: config qclimb apply intent.json")
def qclimb() -> None:
    """Tell qclimb what to do on this switch."""


@qclimb.command(context_settings=help_names, epilog="Example: config qclimb apply intent.json")
@click.argument("file", type=click.File("rb"))
@namespace_option
@rows_option
def apply(file: IO[bytes], namespace: str | None, with_rows: bool) -> None:
    """Write an intent in one patch; switchd follows.

    FILE has it as JSON of qclimb.yang or as rows of CONFIG_DB; - is standard input.
    """
    apply_patch(["-"], namespace, with_rows, file.read())


@qclimb.command(context_settings=help_names, epilog="Example: config qclimb enable")
@namespace_option
@rows_option
def enable(namespace: str | None, with_rows: bool) -> None:
    """Lay the present intent over the switch's queues."""
    apply_patch(["--admin-state", "enabled"], namespace, with_rows)


@qclimb.command(context_settings=help_names, epilog="Example: config qclimb disable")
@namespace_option
@rows_option
def disable(namespace: str | None, with_rows: bool) -> None:
    """Give back what stood before; the intent's rows stay."""
    apply_patch(["--admin-state", "disabled"], namespace, with_rows)


def register(cli: click.Group) -> None:
    """What `config` calls for each of its plug-ins."""
    cli.add_command(qclimb)
