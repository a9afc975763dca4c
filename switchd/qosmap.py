"""One port's classification, purely: which traffic class (TC) each DSCP gets and which queue each TC.

The base is what the port's maps say without us. DSCPs that are not ours keep the base's TC, and the TCs they use keep
the base's queue. A DSCP of ours takes a TC that the base already sends to its queue, else a spare one of
TC 0..7; all 64 DSCPs are written. Without a map a port sends every DSCP to TC 0, and every TC to queue 0 (SAI:
saiport.h, saiswitch.h, "default no map").
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from qclimb.errors import QclimbError

from switchd.ports import buffered
from switchd.references import name_in, row_named
from switchd.rows import Row

DSCPS = range(64)
TRAFFIC_CLASSES = range(8)
CONTROL_DSCP = 48  # CS6: routing protocols; must keep its queue


class Refused(QclimbError):
    """The intent can't be laid over what the switch, or one of its ports, has; nothing was changed there.

    `ports`: the reason of each where every port refuses.
    """

    def __init__(self, reason: str, ports: Mapping[str, str] | None = None) -> None:
        super().__init__(reason)
        self.ports = ports or {}


@dataclass(frozen=True)
class Base:
    """A port's classification without us: DSCP -> TC, TC -> queue, and what else limits the choice of both."""

    place: str
    """the port, for messages"""
    tc: Mapping[int, int]
    queue: Mapping[int, int]
    explicit_dscps: frozenset[int]
    """DSCPs that a map names, as opposed to those on TC 0 for want of one"""
    lossless_tcs: frozenset[int]
    lossless_queues: frozenset[int]
    busy_tcs: frozenset[int]
    """TCs that something other than a DSCP leads to (dot1p, MPLS)"""
    group: Mapping[int, int]
    """TC -> priority group"""
    groups: frozenset[int] | None
    """priority groups with a buffer; None: not told"""
    queues: frozenset[int] | None
    """queues with a buffer; None: not told"""

    @property
    def bare_tcs(self) -> frozenset[int]:
        """TCs whose packets find no buffer at the ingress."""
        return frozenset(tc for tc, group in self.group.items() if self.groups is not None and group not in self.groups)


def numbers(table: str, key: str, row: Mapping[str, str]) -> dict[int, int]:
    """A map row as numbers. Refused where a value is none: orchagent would throw on it."""
    try:
        return {int(field): int(value) for field, value in row.items() if field != "NULL"}
    except ValueError as error:
        raise Refused(f"{table}|{key}: a map row holds numbers only ({error})") from error


def base_of(
    port: str,
    row: Mapping[str, str],
    rows: Mapping[str, Mapping[str, Row]],
    keys: Mapping[str, Mapping[str, list[str]]],
) -> Base:
    """The base of `port`, whose PORT_QOS_MAP row without our references is `row`; `keys`: by table and port."""

    def referenced(field: str, table: str) -> dict[int, int] | None:
        name = row.get(field, "")
        found = row_named(name, table, rows)
        return None if found is None else numbers(table, name_in(name, table), found)

    dscps = referenced("dscp_to_tc_map", "DSCP_TO_TC_MAP") or {}
    queues = referenced("tc_to_queue_map", "TC_TO_QUEUE_MAP") or {}
    pfc_queues = referenced("pfc_to_queue_map", "MAP_PFC_PRIORITY_TO_QUEUE") or {}
    dot1p = referenced("dot1p_to_tc_map", "DOT1P_TO_TC_MAP") or {}
    mpls = referenced("mpls_tc_to_tc_map", "MPLS_TC_TO_TC_MAP") or {}
    groups = referenced("tc_to_pg_map", "TC_TO_PRIORITY_GROUP_MAP") or {}
    try:
        lossless = [int(text) for text in row.get("pfc_enable", "").split(",") if text.strip()]
    except ValueError as error:
        raise Refused(f"PORT_QOS_MAP|{port} pfc_enable: expected priorities like 3,4 ({error})") from error
    return Base(
        place=port,
        tc={dscp: dscps.get(dscp, 0) for dscp in DSCPS},
        queue={tc: queues.get(tc, 0) for tc in {*TRAFFIC_CLASSES, *queues, *dscps.values()}},
        explicit_dscps=frozenset(dscps),
        lossless_tcs=frozenset(lossless),
        lossless_queues=frozenset(pfc_queues.get(priority, priority) for priority in lossless),
        busy_tcs=frozenset({*dot1p.values(), *mpls.values()}),
        group={tc: groups.get(tc, 0) for tc in {*TRAFFIC_CLASSES, *queues, *dscps.values()}},
        groups=buffered(port, keys["BUFFER_PG"]),
        queues=buffered(port, keys["BUFFER_QUEUE"]),
    )


def classified(base: Base, queue_of: Mapping[int, int]) -> tuple[Row, Row]:
    """The DSCP_TO_TC_MAP and TC_TO_QUEUE_MAP rows that send our DSCPs to their queues (`queue_of`: DSCP -> queue).

    Raises Refused for a granted queue that has PFC or carries DSCP 48, for DSCPs that are lossless there, and when the
    traffic classes run out.
    """
    _check(base, queue_of)
    kept = {base.tc[dscp] for dscp in DSCPS if dscp not in queue_of} | base.busy_tcs
    tc_of, queue = _allocated(base, queue_of.values(), kept)
    tc = {**base.tc, **{dscp: tc_of[q] for dscp, q in queue_of.items()}}
    return _row(tc), _row(queue)


def protected(base: Base) -> dict[int, str]:
    """Queues that are not ours and must not starve, and what each carries."""
    found = dict.fromkeys(sorted(base.lossless_queues), "lossless")
    if CONTROL_DSCP in base.explicit_dscps:
        found[base.queue[base.tc[CONTROL_DSCP]]] = f"DSCP {CONTROL_DSCP}, routing protocols"
    return found


def _check(base: Base, queue_of: Mapping[int, int]) -> None:
    granted = set(queue_of.values())
    if pfc := sorted(granted & base.lossless_queues):
        raise Refused(f"{base.place}: queue {pfc[0]} has PFC (lossless), it can't be granted to a class")
    if lossless := sorted(d for d in base.explicit_dscps & queue_of.keys() if base.tc[d] in base.lossless_tcs):
        raise Refused(
            f"{base.place}: DSCP {lossless[0]} is lossless (PFC) by the port's present map, a class can't have it"
        )
    if base.queues is not None and (bare := sorted(granted - base.queues)):
        raise Refused(f"{base.place}: queue {bare[0]} has no buffer (no BUFFER_QUEUE row covers it)")
    control = base.queue[base.tc[CONTROL_DSCP]]
    if CONTROL_DSCP in base.explicit_dscps and control in granted:
        raise Refused(
            f"{base.place}: queue {control} carries DSCP {CONTROL_DSCP} by the port's present map, it can't be granted"
        )


def _allocated(base: Base, queues: Iterable[int], kept: set[int]) -> tuple[dict[int, int], dict[int, int]]:
    """Queue -> TC for the granted queues, and TC -> queue for all."""
    queue, tc_of, open_queues = dict(base.queue), dict[int, int](), []
    barred = base.lossless_tcs | base.bare_tcs
    for wanted in sorted(set(queues), reverse=True):
        fitting = [tc for tc in queue if queue[tc] == wanted and tc not in barred]
        if fitting:
            tc_of[wanted] = wanted if wanted in fitting else min(fitting)
        else:
            open_queues.append(wanted)
    for wanted in open_queues:
        closed = kept | set(tc_of.values()) | barred
        spare = [tc for tc in TRAFFIC_CLASSES if tc not in closed]
        if not spare:
            raise Refused(f"{base.place}: no traffic class is left for queue {wanted}: {_why_none(base)}")
        # The queue's own number if it is free, else one that no other open queue would ask for first.
        tc_of[wanted] = min(spare, key=lambda tc: (tc != wanted, tc in open_queues, tc))
        queue[tc_of[wanted]] = wanted
    return tc_of, queue


def _why_none(base: Base) -> str:
    bare = [f"TC {tc} goes to priority group {base.group[tc]}" for tc in sorted(base.bare_tcs & set(TRAFFIC_CLASSES))]
    if bare:
        return f"{', '.join(bare)}, without a buffer (no BUFFER_PG row), and DSCPs that are not ours use the others"
    return "all 8 are used by DSCPs that are not ours"


def _row(numbers: Mapping[int, int]) -> Row:
    return {str(field): str(value) for field, value in sorted(numbers.items())}
