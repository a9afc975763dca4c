"""An intent as a JSON patch for SONiC's own door: `config apply-patch`.

The patch has the intent's rows alone, and switchd writes what follows: the patcher takes a port down and up around any
change of its PORT_QOS_MAP, QUEUE or BUFFER_QUEUE (sonic-utilities, patch_sorter.py, RequiredValueIdentifier). With
`--with-rows` the patch has these, too, as `plan` is pure: for switches that carry no traffic.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from qclimb.checks import json_value
from qclimb.config_db import TABLES as INTENT_TABLES
from qclimb.errors import IntentError, QclimbError
from qclimb.extras import named
from qclimb.intent import SwitchIntent

with named():
    from switchd.backend import open_database
    from switchd.configuration import WATCHED_TABLES
    from switchd.intents import intent_changes, intent_of
    from switchd.migrations import check_not_newer
    from switchd.names import Tags
    from switchd.namespaces import several
    from switchd.plan import plan
    from switchd.rows import EMPTY, Change, Row, Rows, applied
    from switchd.wanted import PathBackend

URL = "unix:///PATH or redis://ADDR:PORT."
BACKENDS = ("auto", "swsscommon", "redis")
Changed = Mapping[tuple[str, str], Row | None]
"""rows by table and key as they are to be; None: none"""


def with_what_follows(intent: SwitchIntent | None, rows: Rows, backend: PathBackend = "acl") -> Changed:
    """What has to change for the intent and its rows. Raises Refused where no port can take it."""
    planned = plan(intent, rows, tag=Tags().next(), backend=backend)
    return changed((*intent_changes(intent, rows), *(planned.transactions[0] if planned.transactions else ())), rows)


def intent_alone(intent: SwitchIntent | None, rows: Rows, backend: PathBackend = "acl") -> Changed:
    """What has to change for the intent's own rows. Raises Refused where no port can take it."""
    plan(intent, rows, tag=Tags().next(), backend=backend)
    return changed(intent_changes(intent, rows), rows)


def changed(changes: Sequence[Change], rows: Rows) -> Changed:
    """The rows that differ after the changes. Objects that nothing refers to any more are left to switchd."""
    after = applied(rows, changes)
    keys = sorted({(one.table, one.key) for one in changes})
    return {
        (table, key): after.get(table, {}).get(key)
        for table, key in keys
        if after.get(table, {}).get(key) != rows.get(table, {}).get(key)
    }


def json_patch(changed: Changed, rows: Rows, namespace: str = "") -> list[dict[str, Any]]:
    """The changes as RFC 6902 over CONFIG_DB's JSON, which has no empty tables; `namespace`: of several ASICs."""
    found: list[dict[str, Any]] = []
    for table in sorted({table for table, _ in changed}):
        entries = {key: row for (of, key), row in changed.items() if of == table}
        left = {key for key in rows.get(table, {}) if key not in entries} | {k for k, row in entries.items() if row}
        if not left:
            found.append({"op": "remove", "path": f"/{table}"})
        elif not rows.get(table):
            value = {key: _json_row(row) for key, row in entries.items() if row}
            found.append({"op": "add", "path": f"/{table}", "value": value})
        else:
            found += [_operation(table, key, row) for key, row in entries.items()]
    return [{**one, "path": f"/{namespace}{one['path']}"} for one in found] if namespace else found


def _operation(table: str, key: str, row: Row | None) -> dict[str, Any]:
    path = f"/{table}/{key.replace('~', '~0').replace('/', '~1')}"
    return {"op": "remove", "path": path} if row is None else {"op": "add", "path": path, "value": _json_row(row)}


def _json_row(row: Row) -> dict[str, Any]:
    """A row as ConfigDBConnector has it: `name@` is the list `name`, a row without fields is {}."""
    if row == EMPTY:
        return {}
    return {f.removesuffix("@"): v.split(",") if f.endswith("@") else v for f, v in row.items()}


def intent_of_file(text: str, place: str) -> SwitchIntent:
    """An intent as JSON of qclimb.yang, or as rows of CONFIG_DB. Raises IntentError."""
    obj = json_value(text, place, IntentError)
    if isinstance(obj, dict) and "QCLIMB" in obj:
        return SwitchIntent.from_config_db(obj)
    return SwitchIntent.from_gnmi(obj)


def admitted(rows: Rows, state: str) -> SwitchIntent:
    """The present intent with another admin state, as a generation of its own. Raises IntentError."""
    intent = intent_of(rows)
    if intent is None:
        raise IntentError(f"CONFIG_DB has no {', '.join(INTENT_TABLES)}: there is no intent to make {state}")
    fields = {name: getattr(intent, name) for name in intent.__dataclass_fields__}
    return SwitchIntent(**{**fields, "admin_state": state, "generation": intent.generation + 1})


@click.command(
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Example: python -m switchd.patch intent.json >patch.json && config apply-patch patch.json",
)
@click.argument("file", required=False, type=click.Path(dir_okay=False, allow_dash=True))
@click.option("--admin-state", type=click.Choice(["enabled", "disabled"]), help="Of the present intent, without FILE.")
@click.option("--redis", "url", default="unix:///var/run/redis/redis.sock", show_default=True, metavar="URL", help=URL)
@click.option("-n", "--namespace", default="", metavar="NAME", help="Of several ASICs one: asic0, ...")
@click.option("--backend", type=click.Choice(BACKENDS), default="auto", show_default=True, help="As switchd.")
@click.option(
    "--paths", type=click.Choice(["acl", "none"]), default="acl", show_default=True, help="As switchd has it."
)
@click.option("--with-rows", is_flag=True, help="All that follows, too: the patcher then takes ports down and up.")
@named()
def main(
    file: str | None,
    admin_state: str | None,
    url: str,
    namespace: str,
    backend: str,
    paths: PathBackend,
    with_rows: bool,
) -> None:
    """Print the JSON patch that writes an intent into CONFIG_DB; an intent that no port can take is refused.

    FILE has the intent as JSON of qclimb.yang or as rows of CONFIG_DB; - is standard input. Nothing is written here.
    """
    if (file is None) == (admin_state is None):
        raise click.UsageError("give either FILE or --admin-state")
    if not namespace and (names := several()):
        raise click.UsageError(f"-n: expected one of {', '.join(names)}: each ASIC has an intent of its own")
    try:
        db = open_database(backend, url, namespace)
        rows = db.get_tables(WATCHED_TABLES)
        check_not_newer(rows)
        db.close()
        if file is None:
            intent = admitted(rows, str(admin_state))
        else:
            text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
            intent = intent_of_file(text, file)
        found = (with_what_follows if with_rows else intent_alone)(intent, rows, paths)
        click.echo(json.dumps(json_patch(found, rows, namespace), indent=4))
    except (OSError, UnicodeDecodeError, QclimbError) as error:
        raise click.UsageError(str(error)) from error


if __name__ == "__main__":
    main()
