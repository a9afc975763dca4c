"""More of `show qclimb`: queues and policy. Copied beside the first file (show/plugins/qclimb_2.py), loaded after it.

What holds for the first file (`qclimb`) holds here.
"""

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from switchd.show import qclimb as first
else:
    try:
        from show.plugins import qclimb as first
    except ImportError:  # not a switch
        from switchd.show import qclimb as first

QUEUE_FIELDS = (
    *(("Type", "type"), ("Limit (B/s)", "pir"), ("ECN min (bytes)", "green_min_threshold")),
    *(("ECN max (bytes)", "green_max_threshold"), ("Buffer profile", "profile"), ("dynamic_th", "dynamic_th")),
)
POLICY_FIELDS = (
    *(("Begins at (bytes)", "threshold_bytes"), ("DSCP", "dscp"), ("Queue", "queue"), ("Path", "path")),
    *(("Buffer (dynamic_th)", "dynamic_th"), ("Limit", "max_share"), ("Foretold", "foretold_share")),
)


def queue_rows(db: Any, interface: str | None) -> list[dict[str, Any]]:
    """What CONFIG_DB says of each granted queue of each port that holds the intent, served-first order."""
    tables = {table: first.config_rows(db, table) for table in ("QUEUE", "BUFFER_QUEUE")}
    ports = [port for port, row in first.port_rows(db).items() if row.get("status") != "refused"]
    if interface is not None and interface not in ports:
        raise click.BadParameter(f"{interface!r} is no port that holds the intent")
    found = []
    for port in ports if interface is None else [interface]:
        for priority, row in first.class_rows(db).items():
            queue = first.number(row.get("queue"))
            of = {table: covering(rows, port, queue) for table, rows in tables.items()}
            one: dict[str, Any] = {"interface": port, "queue": queue, "priority": first.number(priority)}
            for table, name, field in (
                ("SCHEDULER", "scheduler", "QUEUE"),
                ("WRED_PROFILE", "wred_profile", "QUEUE"),
                ("BUFFER_PROFILE", "profile", "BUFFER_QUEUE"),
            ):
                one[name] = of[field].get(name)
                key = str(one[name]).removeprefix(f"[{table}|").removesuffix("]")  # SONiC before 2021 had brackets
                content = first.config_row(db, f"{table}|{key}") if one[name] else {}
                one |= {key: content[key] for _, key in QUEUE_FIELDS if key in content}
            found.append(one)
    return found


def covering(rows: dict[str, dict[str, str]], port: str, queue: int | None) -> dict[str, str]:
    """The row of a queue: its own, else that of a range of one port which it is in."""
    if f"{port}|{queue}" in rows:
        return rows[f"{port}|{queue}"]
    for key, row in rows.items():
        name, _, span = key.partition("|")
        low, _, high = span.partition("-")
        if (
            name == port
            and None not in (queue, first.number(low), first.number(high))
            and int(low) <= (queue or 0) <= int(high)
        ):
            return row
    return {}


@first.command("queues Ethernet0")
@click.argument("interface", required=False)
def queues(db: Any, interface: str | None) -> first.Answer:
    """Show scheduler, limit, ECN and buffer of each granted queue.

    Of INTERFACE, or of every port that holds the intent; as CONFIG_DB has them.
    """
    rows = queue_rows(db, interface)
    names = ("interface", "queue", "priority", *(name for _, name in QUEUE_FIELDS))
    headers = ["Interface", "Queue", "Priority", *(title for title, _ in QUEUE_FIELDS)]
    return rows, first.table([[row.get(name) for name in names] for row in rows], headers)


@first.command("policy")
def policy(db: Any) -> first.Answer:
    """Show the intent: where each priority begins and goes."""
    whole, shares = first.config_row(db, "QCLIMB|global"), first.config_rows(db, "QCLIMB_PATH")
    classes = first.config_rows(db, "QCLIMB_CLASS")
    lines = [[priority, *(row.get(name) for _, name in POLICY_FIELDS)] for priority, row in classes.items()]
    ecn = f"{whole.get('ecn_min_bytes', 'none')} to {whole.get('ecn_max_bytes', 'none')} bytes"
    text = [
        f"Generation {whole.get('generation', 'none')}, {whole.get('admin_state', 'disabled')}; ECN {ecn}",
        f"Ports: {whole.get('ports') or 'all'}",
        *(f"Share of {name}: {row.get('share', 'N/A')}" for name, row in shares.items()),
    ]
    below = first.table(lines, ["Priority", *(title for title, _ in POLICY_FIELDS)])
    return {"global": whole, "classes": classes, "paths": shares}, "\n".join([*map(first.printable, text), below])


def register(cli: click.Group) -> None:
    """What `show` calls for each of its plug-ins: the commands are the first file's already."""
