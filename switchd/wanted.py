"""What the QoS tables should hold for an intent: our own objects, and which port and queue rows refer to them.

Objects are named by their content (`QCLIMB_D_1f00ba5e`), so a changed map is a new name: orchagent changes a map
object in place for all ports at once, and parks a deleted one that is still referenced (sonic-swss qosorch.cpp).
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from qclimb.intent import SwitchIntent

from switchd.qosmap import Refused, base_of, classified
from switchd.rows import Row, Rows

PREVIOUS = "QCLIMB_PREVIOUS"
PORT_FIELDS = {"dscp_to_tc_map": "DSCP_TO_TC_MAP", "tc_to_queue_map": "TC_TO_QUEUE_MAP"}
QUEUE_FIELDS = {"scheduler": "SCHEDULER", "wred_profile": "WRED_PROFILE"}
BUFFER_FIELDS = {"profile": "BUFFER_PROFILE"}
FIELDS = {"PORT_QOS_MAP": PORT_FIELDS, "BUFFER_QUEUE": BUFFER_FIELDS, "QUEUE": QUEUE_FIELDS}
"""in the order of reference"""
OBJECT_TABLES = ("DSCP_TO_TC_MAP", "TC_TO_QUEUE_MAP", "SCHEDULER", "WRED_PROFILE", "BUFFER_PROFILE")
"""in the order of creation"""
READ_TABLES = (
    *("PORT", "PORT_QOS_MAP", "QUEUE", "BUFFER_QUEUE", PREVIOUS, *OBJECT_TABLES),
    *("MAP_PFC_PRIORITY_TO_QUEUE", "DOT1P_TO_TC_MAP", "MPLS_TC_TO_TC_MAP"),
)
_LETTER = {"DSCP_TO_TC_MAP": "D", "TC_TO_QUEUE_MAP": "Q", "SCHEDULER": "S", "WRED_PROFILE": "W", "BUFFER_PROFILE": "B"}
_OWN = re.compile(r"QCLIMB_[DQSWB]_[0-9a-f]{8}")

NARROW_TH = 0
"""dynamic_th of the queues before the last: 2^0, each may hold as much as is free of the buffer (README.md)."""


def is_own(name: str) -> bool:
    """Whether a map, scheduler or WRED profile of this name was made by us."""
    return _OWN.fullmatch(name) is not None


@dataclass
class Wanted:
    """Objects by table and name; references by row: (table, key) -> field -> name."""

    objects: Rows = field(default_factory=lambda: {table: {} for table in OBJECT_TABLES})
    references: dict[tuple[str, str], Row] = field(default_factory=dict)

    def add(self, table: str, row: Row) -> str:
        """Want an object; answers its name."""
        text = json.dumps([table, row], sort_keys=True).encode()
        name = f"QCLIMB_{_LETTER[table]}_{hashlib.sha256(text).hexdigest()[:8]}"
        self.objects[table][name] = row
        return name


def wanted_of(
    intent: SwitchIntent | None, rows: Mapping[str, Mapping[str, Row]], narrow_buffers: bool = False
) -> Wanted:
    """Expand the intent over the rows now. An absent or disabled intent wants nothing. Raises Refused.

    `narrow_buffers`: queues before the last get narrower buffer profiles than the platform's.
    """
    wanted = Wanted()
    if intent is None or intent.admin_state != "enabled" or not intent.classes:
        return wanted
    queue_of = _queues(intent)
    queue_row = {"scheduler": wanted.add("SCHEDULER", {"type": "STRICT"})}
    if intent.ecn_min_bytes is not None and intent.ecn_max_bytes is not None:
        queue_row["wred_profile"] = wanted.add("WRED_PROFILE", _wred(intent.ecn_min_bytes, intent.ecn_max_bytes))
    for port in _ports(intent, rows):
        dscp_map, queue_map = classified(base_of(port, port_row_without_us(port, rows), rows), queue_of)
        wanted.references["PORT_QOS_MAP", port] = {
            "dscp_to_tc_map": wanted.add("DSCP_TO_TC_MAP", dscp_map),
            "tc_to_queue_map": wanted.add("TC_TO_QUEUE_MAP", queue_map),
        }
        for key in _queue_keys(port, frozenset(queue_of.values()), rows.get("QUEUE", {})):
            wanted.references["QUEUE", key] = queue_row
        if narrow_buffers:
            early = frozenset(one.queue for one in intent.classes if one.priority < len(intent.classes) - 1)
            for key, profile in _narrowed(port, early, rows).items():
                wanted.references["BUFFER_QUEUE", key] = {"profile": wanted.add("BUFFER_PROFILE", profile)}
    return wanted


def _narrowed(port: str, early: frozenset[int], rows: Mapping[str, Mapping[str, Row]]) -> dict[str, Row]:
    """BUFFER_QUEUE key -> the profile that its queues, all granted and served before the last one, should have.

    Left alone: rows that cover other queues or ports, too (to split one that the platform wrote would have to be taken
    back exactly), and profiles without a dynamic threshold or with one that is no wider.
    """
    found = {}
    for key in rows.get("BUFFER_QUEUE", {}):
        name, _, span = key.partition("|")
        if name != port or not _is_within(span, early):
            continue
        before = reference_without_us("BUFFER_QUEUE", key, "profile", rows)
        profile = rows.get("BUFFER_PROFILE", {}).get(before or "", {})
        threshold = profile.get("dynamic_th", "")
        if threshold.isdecimal() and int(threshold) > NARROW_TH:
            found[key] = {**profile, "dynamic_th": str(NARROW_TH)}
    return found


def reference_without_us(table: str, key: str, name: str, rows: Mapping[str, Mapping[str, Row]]) -> str | None:
    """What a field of a row referred to before us: what it says now unless that is ours, else what we remembered."""
    now = rows.get(table, {}).get(key, {}).get(name)
    return now if now and not is_own(now) else rows.get(PREVIOUS, {}).get(key, {}).get(name)


def port_row_without_us(port: str, rows: Mapping[str, Mapping[str, Row]]) -> Row:
    """The PORT_QOS_MAP row as it would be without us.

    The switch-level DSCP map counts where the port names none that exists.
    """
    ports = rows.get("PORT_QOS_MAP", {})
    row = {name: value for name, value in ports.get(port, {}).items() if name not in PORT_FIELDS}
    for name, table in PORT_FIELDS.items():
        before = reference_without_us("PORT_QOS_MAP", port, name, rows)
        if before and before in rows.get(table, {}):
            row[name] = before
    switch_level = ports.get("global", {}).get("dscp_to_tc_map")
    if switch_level and not is_own(switch_level):
        row.setdefault("dscp_to_tc_map", switch_level)
    return row


def _queues(intent: SwitchIntent) -> dict[int, int]:
    """DSCP -> queue. Refused: a path that only a later path backend can give, more priorities than queues."""
    for one in intent.classes:
        if one.path != "balanced":
            raise Refused(
                f"class {one.priority}: path {one.path!r} needs a path backend, and this switchd has none yet; "
                "expected 'balanced'"
            )
    if intent.path_weights is not None:
        raise Refused("paths: weights need a path backend, and this switchd has none yet; expected no paths")
    granted = {one.queue for one in intent.classes}
    if len(granted) < len(intent.classes):
        raise Refused(
            f"{len(intent.classes)} priorities on {len(granted)} granted queues: "
            "each needs a queue of its own on one path"
        )
    return {one.dscp: one.queue for one in intent.classes}


def _ports(intent: SwitchIntent, rows: Mapping[str, Mapping[str, Row]]) -> list[str]:
    known = rows.get("PORT", {})
    for port in intent.ports:
        if port not in known:
            raise Refused(f"port {port!r} is not in the table PORT of this switch")
    return sorted(intent.ports or known, key=lambda port: (len(port), port))


def _queue_keys(port: str, granted: frozenset[int], queue_rows: Mapping[str, Row]) -> list[str]:
    """The QUEUE keys that cover the granted queues of a port.

    Rows that exist (a range too, if it covers no other queue), else single ones.
    """
    covering: dict[str, frozenset[int]] = {}
    for key in queue_rows:
        ports, _, span = key.partition("|")
        if port not in ports.split(","):
            continue
        queues = _span(f"QUEUE|{key}", span)
        if not queues & granted:
            continue
        if queues - granted or ports != port:
            raise Refused(
                f"QUEUE|{key} covers granted and other queues in one row; split it into single ports and queues first"
            )
        covering[key] = queues
    singles = {f"{port}|{queue}" for queue in granted - frozenset().union(*covering.values())}
    return sorted({*covering, *singles})


def _is_within(span: str, queues: frozenset[int]) -> bool:
    try:
        found = _span("", span)
    except Refused:  # no row for us to judge
        return False
    return bool(found) and found <= queues


def _span(row: str, span: str) -> frozenset[int]:
    """Queue numbers of "3" or "3-5"; a VOQ key (host|asic|port|queue) is no port's here and is left alone."""
    low, _, high = span.partition("-")
    try:
        return frozenset(range(int(low), int(high or low) + 1))
    except ValueError as error:
        raise Refused(f"{row}: expected <port>|<queue> or <port>|<low>-<high>") from error


def _wred(min_bytes: int, max_bytes: int) -> Row:
    """ECN marking for all three colours: on some ASICs lossy traffic is red (sonic-mgmt issue 14439)."""
    row = {"ecn": "ecn_all"}
    for colour in ("green", "yellow", "red"):
        row[f"wred_{colour}_enable"] = "true"
        row[f"{colour}_min_threshold"] = str(min_bytes)
        row[f"{colour}_max_threshold"] = str(max_bytes)
        row[f"{colour}_drop_probability"] = "100"
    return row
