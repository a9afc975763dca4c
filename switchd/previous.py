"""What a reference of ours said before qclimb, purely: remembered in QCLIMB_PREVIOUS, or else the platform's default.

Uninstalling the package takes QCLIMB_PREVIOUS away with our tables. A reference to an object of ours that nobody
remembers gets what other ports have in the same place, or what SONiC's own templates write there (`qos_config.j2`,
`buffers_config.j2`); where neither is to be found, nobody can tell, and that is said.
"""

import re
from collections.abc import Iterator
from functools import lru_cache

from switchd.ports import RowsNow, range_over
from switchd.qosmap import Refused
from switchd.references import DANGLING, as_it_was, name_in, row_named
from switchd.rows import Row

PREVIOUS = "QCLIMB_PREVIOUS"
PORT_FIELDS = {"dscp_to_tc_map": "DSCP_TO_TC_MAP", "tc_to_queue_map": "TC_TO_QUEUE_MAP"}
QUEUE_FIELDS = {"scheduler": "SCHEDULER", "wred_profile": "WRED_PROFILE"}
BUFFER_FIELDS = {"profile": "BUFFER_PROFILE"}
FIELDS = {"PORT_QOS_MAP": PORT_FIELDS, "BUFFER_QUEUE": BUFFER_FIELDS, "QUEUE": QUEUE_FIELDS}
"""in the order of reference"""
SHIPPED = {
    "dscp_to_tc_map": ("AZURE",),
    "tc_to_queue_map": ("AZURE",),
    "scheduler": ("scheduler.0",),
    "profile": ("egress_lossy_profile", "q_lossy_profile"),
}
"""what SONiC's templates refer to in a lossy queue, none of ours is lossless; WRED they give to lossless ones"""
_OWN = re.compile(r"QCLIMB_[DQSWB]_[0-9a-f]{8}(_[0-9a-z]+)?")
WHOLE = "z"
"""what a map's tag begins with: sonic-qclimb.yang wants all fields of such a map, and takes earlier ones as they are"""
_EARLIER = re.compile(rf"QCLIMB_[DQ]_[0-9a-f]{{8}}(_(?!{WHOLE})[0-9a-z]+)?")


@lru_cache(1024)
def is_own(name: str) -> bool:
    """Whether a map, scheduler, WRED or buffer profile of this name was made by us."""
    return _OWN.fullmatch(name) is not None


def may_be_emptied(name: str) -> bool:
    """Whether it is a map of ours that SONiC's patcher may take away field by field while ports refer to it: one of
    before 2026-11-28."""
    return _EARLIER.fullmatch(name) is not None


def with_plain_pool(profile: Row) -> Row:
    """A BUFFER_PROFILE whose pool is named by its key: orchagent refuses one in brackets."""
    return {**profile, "pool": name_in(profile["pool"], "BUFFER_POOL")} if "pool" in profile else profile


def before_us(table: str, key: str, field: str, rows: RowsNow) -> str | None:
    """What a field of a row refers to without us; None: nothing. Raises Refused where nobody can tell."""
    now = rows.get(table, {}).get(key, {}).get(field)
    if now and not is_own(now):
        return now
    memory = rows.get(PREVIOUS, {}).get(key)
    if memory is not None or not now:
        return (memory or {}).get(field)
    return _default(table, key, field, now, rows)


def remembered(table: str, key: str, field: str, rows: RowsNow) -> str | None:
    """What is kept of `before_us`: a name that dangles is marked. Raises Refused."""
    value = before_us(table, key, field, rows)
    stands = rows.get(table, {}).get(key, {}).get(field)
    if value and value == stands and row_named(value, FIELDS[table][field], rows) is None:
        return DANGLING + value
    return value


def _default(table: str, key: str, field: str, now: str, rows: RowsNow) -> str | None:
    objects = rows.get(FIELDS[table][field], {})
    foreign = {name for name in objects if not is_own(name)}
    target = FIELDS[table][field]
    alike = {value for value in _elsewhere(table, key, field, rows) if name_in(value, target) in foreign}
    shipped = [name for name in SHIPPED.get(field, ()) if name in foreign]
    ours = objects.get(now, {})
    th = {"dynamic_th": ours.get("dynamic_th", "")}
    copied = {name for name in foreign if {**with_plain_pool(objects[name]), **th} == ours}
    if table == "BUFFER_QUEUE" and range_over(key, rows[table]) is not None:
        return None  # we wrote it over the range (`shares`)
    if table == "BUFFER_QUEUE" and len(copied) == 1:
        return copied.pop()
    if len(alike) == 1:
        return alike.pop()
    if shipped:
        return shipped[0]
    if not foreign or field not in SHIPPED:
        return None
    raise Refused(
        f"{table}|{key} {field}: nobody remembers what it referred to before qclimb, and none of "
        f"{', '.join(sorted(foreign))} is the platform's default; set it by hand"
    )


def _elsewhere(table: str, key: str, field: str, rows: RowsNow) -> Iterator[str]:
    """What the same field says, or said before us, in the same place of other ports."""
    place = key.partition("|")[2]
    for other, row in rows.get(table, {}).items():
        now = row.get(field, "")
        if other != key and other != "global" and other.partition("|")[2] == place:
            yield now if not is_own(now) else as_it_was(rows.get(PREVIOUS, {}).get(other, {}).get(field, ""))
