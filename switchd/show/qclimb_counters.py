"""More of `show qclimb`: what queues and redirects carried, and the paths of redirects. Copied beside the first file
(show/plugins/qclimb_1.py), loaded after it.

What holds for the first file (`qclimb`) holds here.
"""

import json
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from switchd.show import qclimb as first
else:
    try:
        from show.plugins import qclimb as first
    except ImportError:  # not a switch
        from switchd.show import qclimb as first

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


def counter_rows(
    db: Any, interface: str | None, before: dict[str, dict[str, str]] | None = None
) -> list[dict[str, Any]]:
    """A row for each granted port and class, ports in natural order; a counter that the platform lacks is None.

    before  what to count from, by object id
    """
    before = before or {}
    oids = dict(db.get_all(db.COUNTERS_DB, "COUNTERS_QUEUE_NAME_MAP") or {})
    present = sorted({name.rpartition(":")[0] for name in oids}, key=first.natural)
    named = first.config_row(db, "QCLIMB|global").get("ports", "")
    granted = named.split(",") if named else present
    if interface is not None and interface not in granted:
        raise click.BadParameter(f"{interface!r} is no port that was granted to qclimb and has queue counters")
    found = []
    for port in sorted(granted, key=first.natural) if interface is None else [interface]:
        for priority, row in first.class_rows(db).items():
            oid = oids.get(f"{port}:{row.get('queue')}")
            counted = dict(db.get_all(db.COUNTERS_DB, f"COUNTERS:{oid}") or {}) if oid else {}
            one = {"interface": port, "priority": first.number(priority), "queue": first.number(row.get("queue"))}
            for _, name, sai in COUNTER_FIELDS:
                one[name] = since(first.number(counted.get(sai)), before.get(str(oid), {}).get(sai))  # some say "N/A"
            found.append(one)
    return found


def since(count: int | None, before: Any) -> int | None:
    """What was counted since `sonic-clear qclimb counters`; a counter that went back began anew."""
    old = first.number(before)
    return count if count is None or old is None or count < old else count - old


def cleared(namespace: str) -> dict[str, dict[str, str]]:
    """The counters by object id when this user cleared them; {} if he did not."""
    with suppress(OSError, ValueError):
        found = json.loads(cleared_file(namespace).read_text())
        rows = found if isinstance(found, dict) else {}
        return {oid: row for oid, row in rows.items() if isinstance(row, dict)}
    return {}


def cleared_file(namespace: str) -> Path:
    """Where `sonic-clear` keeps them, as SONiC's own commands do (utilities_common.cli.UserCache)."""
    directory = Path.home() / ".cache" / "qclimb"
    with suppress(ImportError):
        from utilities_common.cli import UserCache

        directory = Path(UserCache(app_name="qclimb").get_directory())
    return directory / f"counters{namespace}.json"


def rule_totals(db: Any, rules: str) -> dict[str, Any]:
    """Packets and bytes that ACL rules (with commas) have counted; None where nothing counts them."""
    oids = dict(db.get_all(db.COUNTERS_DB, "ACL_COUNTER_RULE_MAP") or {}) if rules else {}
    rows = [
        dict(db.get_all(db.COUNTERS_DB, f"COUNTERS:{oids[rule]}") or {}) for rule in rules.split(",") if rule in oids
    ]
    found: dict[str, Any] = {}
    for name in ("packets", "bytes"):
        texts = [row.get(f"SAI_ACL_COUNTER_ATTR_{name.upper()}", "") for row in rows]
        numbers = [count for text in texts if (count := first.number(text)) is not None]
        found[name] = sum(numbers) if numbers else None
    return found


def path_rows(db: Any) -> dict[str, dict[str, Any]]:
    """Each priority's path, its next hops, and what its redirect counted."""
    spines, found = first.state_rows(db, "QCLIMB_SPINE_STATE"), {}
    for priority, row in first.class_rows(db).items():
        path = row.get("path", "balanced")
        hops = "routes" if path == "balanced" else spines.get(path, {}).get("next_hops", "")
        told = {"path": path, "next_hops": hops, "status": row.get("status"), "reason": row.get("reason", "")}
        found[priority] = {**told, **rule_totals(db, row.get("rules", ""))}
    return found


def spine_rows(db: Any) -> dict[str, dict[str, Any]]:
    """Each spine that an uplink leads to, with its share of the balanced class."""
    shares, found = first.state_rows(db, "QCLIMB_PATH_STATE"), {}
    for spine, row in first.state_rows(db, "QCLIMB_SPINE_STATE").items():
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


@first.command("counters Ethernet0")
@click.argument("interface", required=False)
def counters(db: Any, interface: str | None) -> first.Answer:
    """Show the queue counters of each priority.

    Of INTERFACE, or of every port that was granted to qclimb; since `sonic-clear qclimb counters`.
    """
    rows = counter_rows(db, interface, cleared(click.get_current_context().meta[first.NAMESPACE]))
    headers = ["Interface", "Priority", "Queue", *(title for title, _, _ in COUNTER_FIELDS)]
    return rows, first.table([list(row.values()) for row in rows], headers)


@first.command("paths")
def paths(db: Any) -> first.Answer:
    """Show which spine each priority takes, and what the spines are."""
    classes, spines = path_rows(db), spine_rows(db)
    lines = [[priority, *(row[name] for _, name in PATH_FIELDS)] for priority, row in classes.items()]
    text = first.table(lines, ["Priority", *(title for title, _ in PATH_FIELDS)])
    if spines:
        below = [[spine, *(row[name] for _, name in SPINE_FIELDS)] for spine, row in spines.items()]
        text += "\n\n" + first.table(below, ["Spine", *(title for title, _ in SPINE_FIELDS)])
    return {"classes": classes, "spines": spines}, text


@first.command("frr")
def frr(db: Any) -> first.Answer:
    """Show what to configure in FRR so that routes share as wanted."""
    found = {spine: row.get("frr", "") for spine, row in first.state_rows(db, "QCLIMB_PATH_STATE").items()}
    return found, "\n".join(found.values()) or "No shares are wanted"


def register(cli: click.Group) -> None:
    """What `show` calls for each of its plug-ins: the commands are the first file's already."""
