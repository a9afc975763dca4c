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
from collections.abc import Iterator, Mapping
from typing import Any

from .checks import decimal, mapping, only_known, required, shown
from .errors import HalfIntent, IntentError, NewerRows
from .leaves import CLASS, INTENT, PATH, PRIORITY, Leaf, Narrowed, from_row, to_row
from .switch import IntentFields, PathWeights, QueueClass

GLOBAL_TABLE, GLOBAL_KEY = "QCLIMB", "global"
CLASS_TABLE = "QCLIMB_CLASS"
PATH_TABLE = "QCLIMB_PATH"
TABLES = (GLOBAL_TABLE, CLASS_TABLE, PATH_TABLE)
VERSION = 2
"""of the rows' shape: 1 had the ports as a leaf-list, `ports@`"""

Rows = dict[str, dict[str, dict[str, str]]]


def rows_of(intent: IntentFields) -> Rows:
    """Rows by table and key; no empty table, which SONiC's patcher would refuse."""
    rows: Rows = {GLOBAL_TABLE: {GLOBAL_KEY: to_row(INTENT, intent)}}
    if intent.classes:
        rows[CLASS_TABLE] = {str(each.priority): to_row(CLASS, each) for each in intent.classes}
    if intent.path_weights:
        (share,) = PATH
        told = intent.path_weights.share.items()
        rows[PATH_TABLE] = {name: {share.field: share.kind.to_text(part)} for name, part in told}
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
    found = decimal(text, f"{GLOBAL_TABLE}|{GLOBAL_KEY} version", 1, 2**64 - 1, IntentError)
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
    only_known(row, [*(leaf.field for leaf in INTENT), "digest", "version"], place, IntentError)
    classes = [QueueClass(_priority(key), **fields) for key, fields in _entries(rows, CLASS_TABLE, CLASS)]
    share = {name: row["share"] for name, row in _entries(rows, PATH_TABLE, PATH)}
    return {
        **from_row(INTENT, row, place),
        "classes": tuple(sorted(classes, key=lambda each: each.priority)),
        "path_weights": PathWeights(share) if share else None,
    }


def narrowings(rows: Mapping[str, Mapping[str, Mapping[str, object]]]) -> list[str]:
    """Numbers of an earlier version's rows that are read as the nearest of today, one sentence each."""
    found = []
    for table, leaves in ((GLOBAL_TABLE, INTENT), (CLASS_TABLE, CLASS)):
        kinds = [(leaf.field, leaf.kind) for leaf in leaves if isinstance(leaf.kind, Narrowed)]
        for key, row in rows.get(table, {}).items():
            found += [kind.narrowing(row[name], f"{table}|{key} {name}") for name, kind in kinds if name in row]
    return [said for said in found if said]


def _priority(key: str) -> int:
    priority: int = PRIORITY.kind.from_text(key, f"{CLASS_TABLE} key")
    if key != str(priority):
        raise IntentError(f"{CLASS_TABLE} key is {shown(key)}, expected {str(priority)!r}")
    return priority


def _entries(
    rows: Mapping[str, Mapping[str, Mapping[str, object]]], table: str, leaves: tuple[Leaf, ...]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """(key, fields) of each row of a table."""
    for key, fields in rows.get(table, {}).items():
        place = f"{table}|{key}"
        row = _row(fields, place)
        only_known(row, [leaf.field for leaf in leaves], place, IntentError)
        yield key, from_row(leaves, row, place)


def _row(fields: object, place: str) -> dict[str, Any]:
    """Fields by name: `name@` is a list's name in redis; NULL is what redis keeps of a row without fields."""
    found = mapping(fields, place, IntentError)
    lists = {name.removesuffix("@"): value for name, value in found.items() if name.endswith("@")}
    return lists | {name: value for name, value in found.items() if name != "NULL" and not name.endswith("@")}
