"""A switch intent as CONFIG_DB rows of sonic-qclimb.yang: every value a string, ports joined by commas.

QCLIMB|global            generation, admin_state, ports, ecn_min_bytes, ecn_max_bytes, unpinned_dscp, tier, digest,
                         version
QCLIMB_CLASS|<priority>  dscp, queue, path, threshold_bytes, dynamic_th, max_share, foretold_share
QCLIMB_PATH|<spine>      share

SONiC's patcher writes one row after another, seconds apart. `digest`, where it is there, is that of all rows of a whole
intent: until they make it, some are still to come. `version` is that of the rows' shape; without it they are of version
2 or older. Whoever changes the shape raises VERSION and writes it, so that an older switchd leaves such rows alone.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from .checks import mapping, only_known, required, shown
from .errors import HalfIntent, IntentError, NewerRows
from .gnmi import LEAF, dynamic_th, number, share_of_text, share_text, share_texts, shares_of
from .policy import MAX_PRIORITIES
from .switch import BALANCED, LAST_QUEUE, SHARES, IntentFields, PathWeights, QueueClass

GLOBAL_TABLE, GLOBAL_KEY = "QCLIMB", "global"
CLASS_TABLE = "QCLIMB_CLASS"
PATH_TABLE = "QCLIMB_PATH"
TABLES = (GLOBAL_TABLE, CLASS_TABLE, PATH_TABLE)
VERSION = 2
"""of the rows' shape: 1 had the ports as a leaf-list, `ports@`"""

Rows = dict[str, dict[str, dict[str, str]]]


def rows_of(intent: IntentFields) -> Rows:
    """Rows by table and key; no empty table, which SONiC's patcher would refuse."""
    first = {"generation": str(intent.generation), "admin_state": intent.admin_state}
    if intent.ports:
        first["ports"] = ",".join(intent.ports)
    if intent.ecn_min_bytes is not None:
        first |= {"ecn_min_bytes": str(intent.ecn_min_bytes), "ecn_max_bytes": str(intent.ecn_max_bytes)}
    if intent.unpinned_dscp is not None:
        first["unpinned_dscp"] = str(intent.unpinned_dscp)
    if intent.tier != LEAF:
        first["tier"] = intent.tier
    rows: Rows = {GLOBAL_TABLE: {GLOBAL_KEY: first}}
    if intent.classes:
        rows[CLASS_TABLE] = {
            str(each.priority): {
                "dscp": str(each.dscp),
                "queue": str(each.queue),
                "path": each.path,
                "threshold_bytes": str(each.threshold_bytes),
                **({} if each.dynamic_th is None else {"dynamic_th": str(each.dynamic_th)}),
                **share_texts(each),
            }
            for each in intent.classes
        }
    if intent.path_weights:
        rows[PATH_TABLE] = {name: {"share": share_text(share)} for name, share in intent.path_weights.share.items()}
    return rows


def with_digest(rows: Rows) -> Rows:
    """The rows of a whole intent, marked as such."""
    row = {**rows[GLOBAL_TABLE][GLOBAL_KEY], "digest": digest_of(rows)}
    return {**rows, GLOBAL_TABLE: {GLOBAL_KEY: row}}


def digest_of(rows: Mapping[str, Mapping[str, Mapping[str, object]]]) -> str:
    """16 hexadecimal digits of the intent's rows, the same in whatever form they are read. Raises IntentError."""
    found = []
    for table in TABLES:
        for key, fields in rows.get(table, {}).items():
            row = _row(fields, f"{table}|{key}")
            texts = {name: ",".join(value) if isinstance(value, list) else value for name, value in row.items()}
            found.append([table, key, sorted((name, str(text)) for name, text in texts.items() if name != "digest")])
    return hashlib.sha256(json.dumps(sorted(found)).encode()).hexdigest()[:16]


def version_of(rows: Mapping[str, Mapping[str, Mapping[str, object]]]) -> int | None:
    """The version that the rows tell of themselves; None: 2 or older. Raises NewerRows, IntentError."""
    text = rows.get(GLOBAL_TABLE, {}).get(GLOBAL_KEY, {}).get("version")
    if text is None:
        return None
    found = number(text, f"{GLOBAL_TABLE}|{GLOBAL_KEY} version", 255)
    if found > VERSION:
        raise NewerRows(
            f"{GLOBAL_TABLE}|{GLOBAL_KEY} version is {found}, expected at most {VERSION}: a newer qclimb wrote these "
            "rows, so nothing is changed; upgrade this one"
        )
    return found


def is_marked(rows: Mapping[str, Mapping[str, Mapping[str, object]]]) -> bool:
    """Whether the rows carry a digest."""
    return "digest" in rows.get(GLOBAL_TABLE, {}).get(GLOBAL_KEY, {})


def check_whole(rows: Mapping[str, Mapping[str, Mapping[str, object]]]) -> None:
    """Raises HalfIntent where the rows carry a digest and do not make it."""
    wanted = rows.get(GLOBAL_TABLE, {}).get(GLOBAL_KEY, {}).get("digest")
    if wanted is not None and wanted != (found := digest_of(rows)):
        raise HalfIntent(
            f"{GLOBAL_TABLE}|{GLOBAL_KEY} digest is {shown(wanted)}, and the rows of {', '.join(TABLES)} make "
            f"{found!r}: some are still to come, or were changed by hand (then take the digest away)"
        )


def fields_of_rows(rows: Mapping[str, Mapping[str, Mapping[str, object]]]) -> dict[str, Any]:
    """The arguments of SwitchIntent; raises IntentError with table, key and field."""
    version_of(rows)
    table = rows.get(GLOBAL_TABLE, {})
    only_known(table, [GLOBAL_KEY], GLOBAL_TABLE, IntentError)
    place = f"{GLOBAL_TABLE}|{GLOBAL_KEY}"
    row = _row(required(table, GLOBAL_KEY, GLOBAL_TABLE, IntentError), place)
    known = ["generation", "admin_state", "ports", "ecn_min_bytes", "ecn_max_bytes", "unpinned_dscp", "tier"]
    only_known(row, [*known, "digest", "version"], place, IntentError)
    fields: dict[str, Any] = {
        "generation": number(required(row, "generation", place, IntentError), f"{place} generation"),
        "admin_state": row.get("admin_state", "disabled"),
        "tier": row.get("tier", LEAF),
        "ports": _names(row.get("ports", []), f"{place} ports"),
        "classes": _classes(rows.get(CLASS_TABLE, {})),
        "path_weights": _paths(rows.get(PATH_TABLE, {})),
    }
    for name in ("ecn_min_bytes", "ecn_max_bytes"):
        if name in row:
            fields[name] = number(row[name], f"{place} {name}")
    if "unpinned_dscp" in row:
        fields["unpinned_dscp"] = number(row["unpinned_dscp"], f"{place} unpinned_dscp", 63)
    return fields


def _classes(table: Mapping[str, Mapping[str, object]]) -> tuple[QueueClass, ...]:
    found = []
    for key, fields in table.items():
        place = f"{CLASS_TABLE}|{key}"
        row = _row(fields, place)
        only_known(row, ["dscp", "queue", "path", "threshold_bytes", "dynamic_th", *SHARES], place, IntentError)
        found.append(
            QueueClass(
                priority=number(key, f"{CLASS_TABLE} key", MAX_PRIORITIES - 1),
                dscp=number(required(row, "dscp", place, IntentError), f"{place} dscp", 63),
                queue=number(required(row, "queue", place, IntentError), f"{place} queue", LAST_QUEUE),
                path=row.get("path", BALANCED),
                threshold_bytes=number(row.get("threshold_bytes", 0), f"{place} threshold_bytes"),
                dynamic_th=dynamic_th(row.get("dynamic_th"), f"{place} dynamic_th"),
                **shares_of(row, place),
            )
        )
    return tuple(sorted(found, key=lambda each: each.priority))


def _paths(table: Mapping[str, Mapping[str, object]]) -> PathWeights | None:
    share = {}
    for name, fields in table.items():
        place = f"{PATH_TABLE}|{name}"
        row = _row(fields, place)
        only_known(row, ["share"], place, IntentError)
        share[name] = share_of_text(required(row, "share", place, IntentError), f"{place} share")
    return PathWeights(share) if share else None


def _row(fields: object, place: str) -> dict[str, Any]:
    """Fields by name: `name@` is a list's name in redis; NULL is what redis keeps of a row without fields."""
    found = mapping(fields, place, IntentError)
    lists = {name.removesuffix("@"): value for name, value in found.items() if name.endswith("@")}
    return lists | {name: value for name, value in found.items() if name != "NULL" and not name.endswith("@")}


def _names(value: object, place: str) -> tuple[str, ...]:
    """A list of names: "a,b" in redis, a list from ConfigDBConnector."""
    if isinstance(value, str):
        return tuple(value.split(",")) if value else ()
    if isinstance(value, list | tuple):
        return tuple(value)
    raise IntentError(f"{place} is {shown(value)}, expected names joined by commas, or a list of them")
