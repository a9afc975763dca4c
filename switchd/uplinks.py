"""Which of this switch's links lead to which spine, and by which links hosts' packets come in; purely, of CONFIG_DB.

SONiC tells who is at the other end of a port in DEVICE_NEIGHBOR, of what kind he is in DEVICE_NEIGHBOR_METADATA, and at
which addresses he speaks BGP in BGP_NEIGHBOR. A port that is a member of a LAG stands for the LAG.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from qclimb.intent import BALANCED, SwitchIntent

from switchd.ports import RowsNow, is_front_panel
from switchd.qosmap import Refused

UPLINK_TABLES = (
    *("DEVICE_METADATA", "DEVICE_NEIGHBOR", "DEVICE_NEIGHBOR_METADATA", "BGP_NEIGHBOR", "PORTCHANNEL_MEMBER"),
)


@dataclass(frozen=True)
class Uplinks:
    """What CONFIG_DB tells of the way to the spines.

    of     interfaces (ports or LAGs) by spine, every spine that a link leads to
    edge   granted interfaces that lead to no spine
    peers  addresses of BGP neighbours
    """

    of: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    edge: tuple[str, ...] = ()
    peers: frozenset[str] = frozenset()


def uplinks_of(intent: SwitchIntent | None, rows: RowsNow) -> Uplinks:
    """The spines that a link of this switch leads to; none on a switch that is one of them.

    A neighbour is a spine if the intent names it, or if it is a switch by its kind, or by a BGP session where no kind
    is told.
    """
    named = spines_of(intent)
    if is_spine(intent, named, rows):
        return Uplinks()
    lag_of = {key.partition("|")[2]: key.partition("|")[0] for key in rows.get("PORTCHANNEL_MEMBER", {})}
    kinds, peers = rows.get("DEVICE_NEIGHBOR_METADATA", {}), rows.get("BGP_NEIGHBOR", {})
    speakers = {row.get("name", "") for row in peers.values()}
    links: dict[str, set[str]] = {}
    ports = {port for port, row in rows.get("PORT", {}).items() if is_front_panel(port, row)}
    for port in ports:
        name = rows.get("DEVICE_NEIGHBOR", {}).get(port, {}).get("name", "")
        kind = kinds.get(name, {}).get("type", "" if name in speakers else "Server")
        if name and (name in named or kind != "Server"):
            links.setdefault(name, set()).add(lag_of.get(port, port))
    leading = set().union(*links.values())
    granted = {port for port in ports if intent is None or not intent.ports or port in intent.ports}
    edge = {lag_of.get(port, port) for port in granted} - leading
    addresses = frozenset(key.rpartition("|")[2] for key in peers)
    return Uplinks({name: _natural(found) for name, found in sorted(links.items())}, _natural(edge), addresses)


def check_paths(intent: SwitchIntent, rows: RowsNow) -> None:
    """Raises Refused for a spine that no link leads to, and where no granted link is left for hosts."""
    spines = spines_of(intent)
    if not spines or is_spine(intent, spines, rows):
        return
    uplinks = uplinks_of(intent, rows)
    known = ", ".join(uplinks.of) or "none: DEVICE_NEIGHBOR names no switch"
    for one in intent.classes:
        if one.path != BALANCED and one.path not in uplinks.of:
            raise Refused(f"class {one.priority}: path {one.path!r}: no uplink leads there; expected one of {known}")
    for spine in spines:
        if spine not in uplinks.of:
            raise Refused(f"path {spine!r}: no uplink leads there; expected one of {known}")
    if not uplinks.edge and any(one.path != BALANCED for one in intent.classes):
        raise Refused("paths: every granted port leads to a switch, so no host's packet could be steered")


def spines_of(intent: SwitchIntent | None) -> tuple[str, ...]:
    """The spines that an intent names, its classes' first; none where it is disabled."""
    if intent is None or intent.admin_state != "enabled":
        return ()
    pinned = (one.path for one in intent.classes if one.path != BALANCED)
    return tuple(dict.fromkeys((*pinned, *(intent.path_weights.share if intent.path_weights else ()))))


def is_spine(intent: SwitchIntent | None, named: tuple[str, ...], rows: RowsNow) -> bool:
    """Whether this switch is one of the spines: it queues their packets, and sends them where its routes go."""
    row = rows.get("DEVICE_METADATA", {}).get("localhost", {})
    is_told = intent is not None and intent.tier == "spine"
    return is_told or row.get("hostname") in named or row.get("type") == "SpineRouter"


def _natural(names: set[str]) -> tuple[str, ...]:
    return tuple(sorted(names, key=lambda name: (len(name), name)))
