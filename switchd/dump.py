"""All that tells why a switch does what it does, as JSON: for `show techsupport` and for whoever reports a fault.

No secret is among it: rows of CONFIG_DB that qclimb reads, what it tells in STATE_DB, its redirects in APPL_DB, and how
the ASIC's objects are named. `python3 -m switchd.dump` in the container; on several ASICs once for each.
"""

import json
from typing import Any

import click
from qclimb.config_db import TABLES as INTENT_TABLES
from qclimb.errors import QclimbError
from qclimb.extras import named
from qclimb.options import version_option

with named():
    from switchd.backend import open_database
    from switchd.db import APPL, COUNTERS, Database, DatabaseLost
    from switchd.namespaces import several
    from switchd.plan import READ_TABLES
    from switchd.status import TABLES as STATE_TABLES

OTHERS = ("FEATURE", "FLEX_COUNTER_TABLE", "GNMI")
"""what decides with whom and how it runs: no rows of users or keys"""
ACL_KEYS = ("ACL_TABLE_TYPE_TABLE:QCLIMB*", "ACL_TABLE_TABLE:QCLIMB*", "ACL_RULE_TABLE:QCLIMB*")
QUEUE_FIELDS = ("SAI_QUEUE_STAT_PACKETS", "SAI_QUEUE_STAT_BYTES", "SAI_QUEUE_STAT_DROPPED_PACKETS")


def dumped(db: Database) -> dict[str, Any]:
    """By database, table and key. Raises DatabaseLost."""
    keys = sorted(key for pattern in ACL_KEYS for key in db.scan(APPL, pattern))
    queues = db.counters("COUNTERS_QUEUE_NAME_MAP")
    counts = db.many_counters([f"COUNTERS:{oid}" for oid in queues.values()])
    return {
        "CONFIG_DB": db.get_tables((*INTENT_TABLES, *READ_TABLES, *OTHERS)),
        "STATE_DB": {table: db.get_state(table) for table in (*STATE_TABLES, "WARM_RESTART_TABLE")},
        "APPL_DB": dict(zip(keys, db.hashes(APPL, keys), strict=True)),
        "COUNTERS_DB": {
            name: {field: row[field] for field in QUEUE_FIELDS if field in row}
            for name, row in zip(queues, counts, strict=True)
        },
        "ports": db.hashes(COUNTERS, ["COUNTERS_PORT_NAME_MAP"])[0],
    }


@click.command(
    context_settings={"help_option_names": ["-h", "--help"]}, epilog="Example: python3 -m switchd.dump >qclimb.json"
)
@click.option(
    "--redis", "url", default="unix:///var/run/redis/redis.sock", show_default=True, metavar="URL", help="As switchd."
)
@click.option(
    "--backend",
    type=click.Choice(["auto", "swsscommon", "redis"]),
    default="auto",
    show_default=True,
    help="As switchd.",
)
@click.option("-n", "--namespace", multiple=True, metavar="NAME", help="Of several ASICs; default: all. Repeatable.")
@version_option
@named()
def main(url: str, backend: str, namespace: tuple[str, ...]) -> None:
    """Print what qclimb reads and tells on this switch, as JSON."""
    found: dict[str, Any] = {}
    for name in namespace or several() or [""]:
        try:
            db = open_database(backend, url, name)
            found[name or "switch"] = dumped(db)
            db.close()
        except (QclimbError, DatabaseLost) as error:
            found[name or "switch"] = {"error": str(error)}
    click.echo(json.dumps(found, indent=4, sort_keys=True))
    if all("error" in one for one in found.values()):
        raise SystemExit(2)


if __name__ == "__main__":
    main()
