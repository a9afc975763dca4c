"""What the QoS tables should hold for an intent: content of our own objects, and which port and queue rows refer to it.

Under which names the objects stand, `plan` decides. What can't be laid over one port is that port's refusal; only what
is wrong with the intent itself, or with every port, refuses the switch.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from qclimb.config_db import narrowings
from qclimb.intent import SwitchIntent

from switchd.fields import PortInPlan, caution, why_refused, why_refused_switch
from switchd.limits import limits_of, scheduled, starved, strict_queues
from switchd.ports import RowsNow, buffered, keys_by_port, numbers_in, ports_meant, range_over
from switchd.previous import FIELDS, PORT_FIELDS, before_us, is_own, remembered
from switchd.qosmap import Refused, base_of, classified, protected
from switchd.references import DANGLING, as_it_was, name_in, row_named
from switchd.rows import Row
from switchd.shares import bared, shared
from switchd.uplinks import check_paths

PathBackend = Literal["acl", "none"]


KEYED_BY_PORT = ("PORT_QOS_MAP", "QUEUE", "BUFFER_QUEUE", "BUFFER_PG")


@dataclass(frozen=True)
class Thing:
    """An object of ours by its content: table and row."""

    table: str
    fields: tuple[tuple[str, str], ...]

    @property
    def row(self) -> Row:
        """The row."""
        return dict(self.fields)


def thing(table: str, row: Mapping[str, str]) -> Thing:
    """A row as a value."""
    return Thing(table, tuple(sorted(row.items())))


References = dict[tuple[str, str], dict[str, Thing]]
"""(table, key) of a row -> field -> what it should refer to"""

Memo = dict[tuple[object, ...], tuple[dict[str, Thing], dict[int, str]]]
"""by what a port's classification depends on: its maps, and which queues carry what must not starve"""


@dataclass
class Wanted:
    """What is to hold.

    references  to objects of ours
    back        fields that refer to objects of ours no longer: what they said before; None: nothing
    refused     ports on which nothing is changed, each with the reason
    unshared    ports some of whose queues keep the platform's share of the buffer, each with the reason
    unlimited   ports some of whose queues do not have the limit that is asked for, each with the reason
    warning     whom the intent may starve, names of rows that are not there, what else changes its meaning; or empty
    is_partial  planning again, once this is in the ASIC, gives the rest
    """

    references: References = field(default_factory=dict)
    back: dict[tuple[str, str], dict[str, str | None]] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    unshared: dict[str, str] = field(default_factory=dict)
    unlimited: dict[str, str] = field(default_factory=dict)
    warning: str = ""
    is_partial: bool = False


def wanted_of(intent: SwitchIntent | None, rows: RowsNow, backend: PathBackend = "none") -> Wanted:
    """Expand the intent over the rows now. An absent or disabled intent wants nothing. Raises Refused.

    backend  what pins classes to spines; none: an intent with paths is refused
    """
    wanted = Wanted()
    why_not, is_enabled = why_refused_switch(rows), intent is not None and intent.admin_state == "enabled"
    if why_not and is_enabled and not any(ours(rows)):
        raise Refused(why_not)
    if not why_not and intent is not None and is_enabled and intent.classes:
        queue_of = _queues(intent, rows, backend)
        keys = {table: keys_by_port(rows.get(table, {})) for table in KEYED_BY_PORT}
        memo: Memo = {}
        hungry: dict[str, str] = {}
        cautions: dict[str, str] = {}
        th_of = {one.queue: one.dynamic_th for one in intent.classes if one.dynamic_th is not None}
        for port in ports_meant(intent.ports, rows):
            try:
                of_port = _of_port(port, intent, queue_of, rows, keys, memo)
                wanted.references |= of_port.references
                found, reason = shared(port, th_of, rows, keys["BUFFER_QUEUE"].get(port, ()))
                profiles = {key: {"profile": thing("BUFFER_PROFILE", row)} for key, row in found.items()}
                wanted.references |= {("BUFFER_QUEUE", key): row for key, row in profiles.items()}
                wanted.unshared |= {port: reason} if reason else {}
                wanted.unlimited |= {port: of_port.unlimited} if of_port.unlimited else {}
                hungry |= {port: of_port.starved} if of_port.starved else {}
                cautions |= {port: of_port.caution} if of_port.caution else {}
            except Refused as error:
                wanted.refused[port] = str(error)
        if wanted.refused and not wanted.references:
            first = next(iter(wanted.refused.values()))
            reason = first if len(wanted.refused) == 1 else f"every port refuses it, the first because {first}"
            raise Refused(reason, wanted.refused)
        warnings = [_dangling(wanted.references, rows)]
        if hungry:
            port, told = next(iter(hungry.items()))
            warnings.append(f"{port}: {told}; give its classes a max_share ({len(hungry)} ports)")
        warnings += [f"{port}: {said} ({len(cautions)} ports)" for port, said in list(cautions.items())[:1]]
        wanted.warning = "; ".join(filter(None, (*warnings, *narrowings(rows)[:1])))
    for table, key in ours(rows):
        _give_back(table, key, wanted, rows)
    if why_not and intent is not None and is_enabled:  # what an earlier version wrote there goes all the same
        wanted.refused |= dict.fromkeys(ports_meant(intent.ports, rows), why_not)
    for key, profile in bared(wanted.back, wanted.references, rows).items():
        wanted.references["BUFFER_QUEUE", key] = {"profile": thing("BUFFER_PROFILE", profile)}
        wanted.is_partial = True
        for single in [one for _, one in wanted.back if range_over(one, rows["BUFFER_QUEUE"]) == key]:
            wanted.back.pop(("BUFFER_QUEUE", single), None)
    return wanted


def _dangling(references: References, rows: RowsNow) -> str:
    """The first row that named what is not there before us, and how many did; empty where none."""
    found = {}
    for (table, key), row in references.items():
        for name in row:
            if (old := remembered(table, key, name, rows) or "").startswith(DANGLING):
                found[table, key, name] = as_it_was(old)
    if not found:
        return ""
    (table, key, name), old = next(iter(found.items()))
    target = FIELDS[table][name]
    return f"{table}|{key} {name} was {old!r}, expected a row of {target}: read as none ({len(found)} fields)"


@dataclass(frozen=True)
class OfPort:
    """What one port gets; why a queue has no limit, whom it may starve, what else changes its classes."""

    references: References
    unlimited: str
    starved: str
    caution: str


def _of_port(
    port: str,
    intent: SwitchIntent,
    queue_of: Mapping[int, int],
    rows: RowsNow,
    keys: Mapping[str, Mapping[str, list[str]]],
    memo: Memo,
) -> OfPort:
    """What one port should refer to; `keys`: of rows, by table (KEYED_BY_PORT) and port. Raises Refused."""
    if port not in rows.get("PORT", {}):
        raise Refused(f"port {port!r} is not in the table PORT of this switch")
    queue_row: dict[str, Thing] = {}
    if intent.ecn_min_bytes is not None and intent.ecn_max_bytes is not None:
        queue_row["wred_profile"] = thing("WRED_PROFILE", _wred(intent.ecn_min_bytes, intent.ecn_max_bytes))
    granted, limits = frozenset(queue_of.values()), limits_of(intent)

    def classify() -> tuple[Row, Row]:
        maps, _ = _maps_of(port, queue_of, rows, keys, memo)
        return maps["dscp_to_tc_map"].row, maps["tc_to_queue_map"].row

    row, buffer_keys = port_row_without_us(port, rows), keys["BUFFER_QUEUE"].get(port, ())
    judged = PortInPlan(port, row, rows, queue_of, limits, classify, buffer_keys)
    if said := why_refused(judged):
        raise Refused(said)
    maps, guarded = _maps_of(port, queue_of, rows, keys, memo)
    found: References = {("PORT_QOS_MAP", port): maps}
    schedulers, why = scheduled(port, _queue_keys(port, granted, keys["QUEUE"].get(port, ())), limits, rows)
    for key, scheduler in schedulers.items():
        found["QUEUE", key] = {"scheduler": thing("SCHEDULER", scheduler), **queue_row}
        for name in found["QUEUE", key]:
            before_us("QUEUE", key, name, rows)  # refused where it could not be given back
    strict = strict_queues(port, keys["QUEUE"].get(port, ()), rows)
    return OfPort(found, why, starved(granted, {} if why else limits, guarded, strict), caution(judged))


def _maps_of(
    port: str,
    queue_of: Mapping[int, int],
    rows: RowsNow,
    keys: Mapping[str, Mapping[str, list[str]]],
    memo: Memo,
) -> tuple[dict[str, Thing], dict[int, str]]:
    """One port's maps, and its queues that must not starve; ports that are alike share both. Raises Refused.

    orchagent takes a row of several ports (`Ethernet0,Ethernet4`), SONiC's YANG does not: what it gives is not read.
    """
    for key in keys["PORT_QOS_MAP"].get(port, ()):
        if key != port:
            raise Refused(f"PORT_QOS_MAP|{key} names several ports; split it into a row for each first")
    row = port_row_without_us(port, rows)
    alike = (frozenset(row.items()), *(buffered(port, keys[table]) for table in ("BUFFER_PG", "BUFFER_QUEUE")))
    if alike not in memo:
        base = base_of(port, row, rows, keys)
        dscp_map, queue_map = classified(base, queue_of)
        maps = {
            "dscp_to_tc_map": thing("DSCP_TO_TC_MAP", dscp_map),
            "tc_to_queue_map": thing("TC_TO_QUEUE_MAP", queue_map),
        }
        memo[alike] = maps, protected(base)
    return memo[alike]


def ours(rows: RowsNow) -> Iterator[tuple[str, str]]:
    """Rows that refer to objects of ours now."""
    for table, fields in FIELDS.items():
        for key, row in rows.get(table, {}).items():
            if any(is_own(row.get(name, "")) for name in fields):
                yield table, key


def _give_back(table: str, key: str, wanted: Wanted, rows: RowsNow) -> None:
    """What becomes of references of ours that the intent does not want.

    A port that refuses keeps what it has; one that is gone from PORT loses them, for what stood there went with it. A
    previous object that is gone meanwhile is not restored: the reference would dangle, and orchagent keep ours. One
    that dangled before us is written when ours is gone from the ASIC (`plan`).
    """
    port = key.partition("|")[0]
    is_gone = port not in rows.get("PORT", {})
    if port in wanted.refused and not is_gone:
        return
    row, keep = rows[table][key], wanted.references.get((table, key), {})
    back: dict[str, str | None] = {}
    try:
        for name, target in FIELDS[table].items():
            if is_own(row.get(name, "")) and name not in keep:
                old = None if is_gone else before_us(table, key, name, rows)
                back[name] = None if row_named(old, target, rows) is None else as_it_was(old or "")
    except Refused as error:
        wanted.refused[port] = str(error)
        for found in (wanted.references, wanted.back):
            for place in [place for place in found if place[1].partition("|")[0] == port]:
                del found[place]
    else:
        if back:
            wanted.back[table, key] = back


def port_row_without_us(port: str, rows: RowsNow) -> Row:
    """The PORT_QOS_MAP row as it would be without us. Raises Refused where nobody can tell.

    The switch-level DSCP map counts where the port names none that exists.
    """
    ports = rows.get("PORT_QOS_MAP", {})
    row = {name: value for name, value in ports.get(port, {}).items() if name not in PORT_FIELDS}
    for name, table in PORT_FIELDS.items():
        before = before_us("PORT_QOS_MAP", port, name, rows)
        if before and row_named(before, table, rows) is not None:
            row[name] = name_in(before, table)
    switch_level = ports.get("global", {}).get("dscp_to_tc_map")
    if switch_level and not is_own(switch_level):
        row.setdefault("dscp_to_tc_map", switch_level)
    return row


def _queues(intent: SwitchIntent, rows: RowsNow, backend: PathBackend) -> dict[int, int]:
    """DSCP -> queue. Refused: a path that this backend can't give, more priorities than queues on one path."""
    if backend == "acl":
        check_paths(intent, rows)
        unpinned = intent.unpinned_dscp
        rest = {} if unpinned is None else {unpinned: intent.classes[0].queue}
        return {one.dscp: one.queue for one in intent.classes} | rest
    for one in intent.classes:
        if one.path != "balanced":
            raise Refused(
                f"class {one.priority}: path {one.path!r} needs a path backend, and this switchd has none; "
                "expected 'balanced'"
            )
    if intent.path_weights is not None:
        raise Refused("paths: weights need a path backend, and this switchd has none; expected no paths")
    granted = {one.queue for one in intent.classes}
    if len(granted) < len(intent.classes):
        raise Refused(
            f"{len(intent.classes)} priorities on {len(granted)} granted queues: "
            "each needs a queue of its own on one path"
        )
    return {one.dscp: one.queue for one in intent.classes}


def _queue_keys(port: str, granted: frozenset[int], keys: Iterable[str]) -> list[str]:
    """The QUEUE keys that cover the granted queues of a port, whose present ones are `keys`.

    Rows that exist (a range too, if it covers no other queue), else single ones. Raises Refused.
    """
    covering: dict[str, frozenset[int]] = {}
    for key in keys:
        ports, _, span = key.partition("|")
        queues = numbers_in(span)
        if queues is None:
            raise Refused(f"{port}: QUEUE|{key} is no key, expected <port>|<queue> or <port>|<low>-<high>")
        if not queues & granted:
            continue
        if queues - granted or ports != port:
            raise Refused(
                f"QUEUE|{key} covers granted and other queues in one row; split it into single ports and queues first"
            )
        covering[key] = queues
    singles = {f"{port}|{queue}" for queue in granted - frozenset().union(*covering.values())}
    return sorted({*covering, *singles})


def _wred(min_bytes: int, max_bytes: int) -> Row:
    """ECN marking for all three colours: on some ASICs lossy traffic is red (sonic-mgmt issue 14439)."""
    row = {"ecn": "ecn_all"}
    for colour in ("green", "yellow", "red"):
        row[f"wred_{colour}_enable"] = "true"
        row[f"{colour}_min_threshold"] = str(min_bytes)
        row[f"{colour}_max_threshold"] = str(max_bytes)
        row[f"{colour}_drop_probability"] = "100"
    return row
