"""The path backend `acl`, purely: classes pinned to spines, what the network is now -> changes of APPL_DB.

A class is pinned by a rule DSCP -> redirect to the spine's next hop, bound where hosts' packets come in. AclOrch takes
the rows from APPL_DB, which no YANG guards. Its traps make the rules here:

- a redirect whose next hop is not resolved is refused and never tried again: written only once it is;
- a redirect does not see its link or neighbour go: deleted at once, and the class goes where routing sends it;
- a redirect does not see the routes: a FORWARD above it for each prefix whose route has not got the spine;
- a rule that is set again is removed first: a rule's name tells its content, a changed one is written beside the old
  one, under another priority, and the old one goes when the new one is active.
"""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from ipaddress import ip_address

from qclimb.intent import QueueClass, SwitchIntent

from switchd.routes import Hop, IPNetwork, Route, exceptions, network
from switchd.rows import Change, Delete, Put, Row, Rows
from switchd.uplinks import Uplinks

TYPES, TABLES, RULES = "ACL_TABLE_TYPE_TABLE", "ACL_TABLE_TABLE", "ACL_RULE_TABLE"
APPL_TABLES = (TYPES, TABLES, RULES)
NAMES = {4: "QCLIMB_V4", 6: "QCLIMB_V6"}
"""type and table by IP version"""
ACTIVE = "Active"
"""orchagent's word for a rule that it took"""
APPLIED, PENDING, FALLEN_BACK = "applied", "pending", "fallen-back"
UP, UNRESOLVED, DOWN = "up", "unresolved", "down"
FIRST_PRIORITY, SLOTS = 1000, 4
"""a rule's priority: by its prefix's length, and a slot, so that two of one match differ"""
MOST_EXCEPTIONS = 256
"""prefixes with a rule of their own a spine: ACL entries are few"""
DESTINATION = {4: "DST_IP", 6: "DST_IPV6"}


@dataclass(frozen=True)
class Network:
    """What APPL_DB and STATE_DB tell.

    up          links (ports, LAGs) that are up
    neighbours  addresses by interface whose neighbour is resolved
    routes      by prefix, interfaces' own prefixes with them
    acl         rows of ours by table and key, also those on their way to orchagent
    status      what orchagent says of them: `<table>` or `<table>|<rule>` -> its word
    unseen      rules of ours that the ASIC does not have, with the reason; None: nobody can tell
    groups      next-hop groups of the ASIC: members (`<address>@<interface>`) with their weights; None: not asked for
    """

    up: frozenset[str] = frozenset()
    neighbours: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    routes: Mapping[IPNetwork, Route] = field(default_factory=dict)
    acl: Rows = field(default_factory=dict)
    status: Mapping[str, str] = field(default_factory=dict)
    unseen: Mapping[str, str] | None = field(default_factory=dict)
    groups: tuple[Mapping[str, int], ...] | None = None

    @cached_property
    def hops(self) -> frozenset[tuple[str, str]]:
        """Next hops of routes: address and interface."""
        return frozenset((hop.address, hop.interface) for route in self.routes.values() for hop in route.hops)


@dataclass(frozen=True)
class Match:
    """What a rule matches beside the IP version; None: any."""

    version: int
    dscp: int | None
    to: IPNetwork | None


@dataclass(frozen=True)
class Way:
    """One spine in one IP version: next hops that can be used; else whether its links are down, and why not."""

    hops: tuple[Hop, ...] = ()
    is_down: bool = False
    reason: str = ""


@dataclass(frozen=True)
class Steering:
    """changes: what to write to APPL_DB, in one step; the rest is for whoever looks.

    classes  pinned ones by priority: status (applied, pending, fallen-back), reason where there is one, and the rules
             that count their packets
    spines   every one that a link leads to: status (up, unresolved, down), reason, interfaces, next hops, rules
    waits    keys of rules that orchagent does not have
    differences  rules that orchagent calls active and the ASIC does not have: status, wanted, found, reason
    """

    changes: tuple[Change, ...] = ()
    classes: Mapping[str, Row] = field(default_factory=dict)
    spines: Mapping[str, Row] = field(default_factory=dict)
    waits: frozenset[str] = frozenset()
    differences: Mapping[str, Row] = field(default_factory=dict)


def is_own(key: str) -> bool:
    """Whether a row of APPL_TABLES was made by us, by its key."""
    return key.partition(":")[0] in NAMES.values()


def steer(intent: SwitchIntent | None, uplinks: Uplinks, now: Network, again: frozenset[str] = frozenset()) -> Steering:
    """What to change so that each pinned class goes by its spine wherever the spine is a way, and by routing elsewhere.

    again  keys of rules that stand in APPL_DB and are to be written once more, as orchagent refused them
    """
    is_on = intent is not None and intent.admin_state == "enabled" and uplinks.edge
    pinned = [one for one in intent.classes if one.path in uplinks.of] if intent is not None and is_on else []
    wanted: dict[Match, Row] = {}
    ways: dict[int, dict[str, Way]] = {}
    for version in NAMES:
        found = {spine: way_of(version, spine, uplinks, now) for spine in uplinks.of}
        if any(way.hops for way in found.values()):
            ways[version] = found
            wanted |= rules_of(version, pinned, found, uplinks, now)
    rules = _named(wanted, now)
    rows = {**_tables(rules, uplinks), RULES: rules}
    changes = (*_swept(now, rows), *_created(rows, now, again))
    waits = frozenset(key for key in rules if _status(key, now) != ACTIVE)
    classes = {str(one.priority): _class_row(one, rules, ways, now) for one in pinned}
    spines = {spine: _spine_row(spine, uplinks, ways, now) for spine in uplinks.of}
    for one in pinned:
        spines[one.path]["rules"] = ",".join(
            filter(None, (spines[one.path].get("rules"), classes[str(one.priority)]["rules"]))
        )
    return Steering(changes, classes, spines, waits, dict(_differences(rules, now)))


def way_of(version: int, spine: str, uplinks: Uplinks, now: Network) -> Way:
    """The next hops by which a spine is reached, one an interface."""
    hops, reasons, links = [], [], uplinks.of[spine]
    for interface in links:
        found = [text for text in now.neighbours.get(interface, ()) if ip_address(text).version == version]
        if interface not in now.up:
            reasons.append(f"{interface} is down")
        elif not found:
            reasons.append(f"{interface} has no resolved IPv{version} neighbour")
        else:
            hops.append(Hop(min(found, key=lambda text: _preferred(text, interface, uplinks, now)), interface))
    if not hops:
        return Way((), not now.up & set(links), ", ".join(reasons))
    goes = goes_by(version, links, now)
    if not any(goes.values()):
        return Way((), False, f"no IPv{version} route goes by {', '.join(links)}")
    if (count := len(exceptions(goes))) > MOST_EXCEPTIONS:
        return Way((), False, f"{count} prefixes would need a rule of their own, expected at most {MOST_EXCEPTIONS}")
    return Way(tuple(hops))


def _preferred(text: str, interface: str, uplinks: Uplinks, now: Network) -> tuple[bool, bool, bool, int]:
    """BGP neighbours first, then next hops of routes, then what is no link-local address."""
    is_hop = (text, interface) in now.hops
    return (text not in uplinks.peers, not is_hop, ip_address(text).is_link_local, int(ip_address(text)))


def goes_by(version: int, links: tuple[str, ...], now: Network) -> dict[IPNetwork, bool]:
    """For each routed prefix, whether its route has one of these links; a link's own prefix does not go by it."""
    return {
        to: any(hop.interface in links and hop.is_gateway for hop in route.hops)
        for to, route in now.routes.items()
        if to.version == version
    }


def rules_of(
    version: int, pinned: list[QueueClass], ways: Mapping[str, Way], uplinks: Uplinks, now: Network
) -> dict[Match, Row]:
    """The rules of one IP version, by what they match; no priority yet."""
    live = [one for one in pinned if ways[one.path].hops]
    odd = {one.path: exceptions(goes_by(version, uplinks.of[one.path], now)) for one in live}
    closed = [{to for to, goes in odd[one.path].items() if not goes and to.prefixlen} for one in live]
    shared = set.intersection(*closed) if closed else set()
    found: dict[Match, Row] = {Match(version, None, to): {"PACKET_ACTION": "FORWARD"} for to in shared}
    for one in live:
        target = ",".join(f"{hop.address}@{hop.interface}" for hop in ways[one.path].hops)
        if not any(to.prefixlen == 0 for to in odd[one.path]):
            found[Match(version, one.dscp, None)] = {"REDIRECT_ACTION": target}
        for to, goes in odd[one.path].items():
            if to not in shared and to.prefixlen:
                action = {"REDIRECT_ACTION": target} if goes else {"PACKET_ACTION": "FORWARD"}
                found[Match(version, one.dscp, to)] = action
    return found


def _fields(match: Match) -> Row:
    found = {"IP_TYPE": f"IPV{match.version}ANY"}
    if match.dscp is not None:
        found["DSCP"] = str(match.dscp)
    if match.to is not None:
        found[DESTINATION[match.version]] = str(match.to)
    return found


def _match_of(key: str, row: Mapping[str, str]) -> Match:
    """What a standing rule of ours matches."""
    version = next((each for each, name in NAMES.items() if name == key.partition(":")[0]), 4)
    dscp, to = row.get("DSCP", ""), row.get(DESTINATION[version])
    return Match(version, int(dscp) if dscp.isdecimal() else None, network(to) if to else None)


def _named(wanted: Mapping[Match, Row], now: Network) -> dict[str, Row]:
    """Each rule under its name, with its priority: that of a standing rule of the same content, else in a free slot."""
    standing: dict[Match, dict[str, Row]] = {}
    for key, row in now.acl.get(RULES, {}).items():
        standing.setdefault(_match_of(key, row), {})[key] = row
    found = {}
    for match, action in wanted.items():
        of_match = standing.get(match, {})
        same = [key for key, row in of_match.items() if _content(row) == {**_fields(match), **action}]
        if same:
            best = min(same, key=lambda key: (_status(key, now) != ACTIVE, key))
            found[best] = dict(of_match[best])
            continue
        least = FIRST_PRIORITY + SLOTS * (match.to.prefixlen if match.to else 0)
        taken = {row.get("PRIORITY") for row in of_match.values()}
        free = next((one for one in range(least, least + SLOTS) if str(one) not in taken), None)
        if free is not None:
            text = repr(sorted({**_fields(match), **action}.items())).encode()
            who = "ANY" if match.dscp is None else f"D{match.dscp}"
            key = f"{NAMES[match.version]}:{who}_{hashlib.sha256(text).hexdigest()[:8]}_{free - least}"
            found[key] = {"PRIORITY": str(free), **_fields(match), **action}
    return found


def _status(key: str, now: Network) -> str:
    """What orchagent says of a rule, by its key in APPL_DB; Active only where the ASIC has it too."""
    said = now.status.get(key.replace(":", "|"), "")
    missing = (now.unseen or {}).get(key) if said == ACTIVE else None
    return f"{said}, but {missing}" if missing else said


def _differences(rules: Mapping[str, Row], now: Network) -> Iterator[tuple[str, Row]]:
    for key, missing in (now.unseen or {}).items():
        if key in rules and now.status.get(key.replace(":", "|")) == ACTIVE:
            wanted = ", ".join(f"{name} {value}" for name, value in sorted(rules[key].items()))
            told = {"status": PENDING, "wanted": wanted, "found": missing, "reason": "STATE_DB says Active"}
            yield f"{RULES}|{key}|entry", told


def _content(row: Mapping[str, str]) -> Row:
    return {name: text for name, text in row.items() if name != "PRIORITY"}


def _tables(rules: Mapping[str, Row], uplinks: Uplinks) -> Rows:
    """Types and tables for the IP versions that have rules."""
    found: Rows = {TYPES: {}, TABLES: {}}
    for version, name in NAMES.items():
        if any(key.startswith(f"{name}:") for key in rules):
            found[TYPES][name] = {
                "MATCHES": f"DSCP,{DESTINATION[version]},IP_TYPE",
                "ACTIONS": "PACKET_ACTION,REDIRECT_ACTION,COUNTER",
                "BIND_POINTS": "PORT,PORTCHANNEL",
            }
            found[TABLES][name] = {
                "policy_desc": "qclimb: classes by spine",
                "type": name,
                "stage": "ingress",
                "ports": ",".join(uplinks.edge),
            }
    return found


def _created(wanted: Rows, now: Network, again: frozenset[str]) -> Iterator[Change]:
    for table in APPL_TABLES:
        for key, row in wanted[table].items():
            if now.acl.get(table, {}).get(key) != row or (table == RULES and key in again):
                yield Put(table, key, row)


def _swept(now: Network, wanted: Mapping[str, Mapping[str, Row]]) -> Iterator[Change]:
    """Rows of ours that are not wanted, but for a redirect that still leads somewhere until its successor is active."""
    rules = wanted.get(RULES, {})
    successors = {_match_of(key, row): key for key, row in rules.items()}
    for key, row in now.acl.get(RULES, {}).items():
        if key in rules:
            continue
        successor = successors.get(_match_of(key, row), "")
        is_followed = "REDIRECT_ACTION" in rules.get(successor, {}) and _leads(row, now)
        if not is_followed or _status(successor, now) == ACTIVE:
            yield Delete(RULES, key)
    for table in (TABLES, TYPES):
        yield from (Delete(table, key) for key in now.acl.get(table, {}) if key not in wanted.get(table, {}))


def kept(now: Network) -> tuple[tuple[str, ...], tuple[Change, ...]]:
    """Where nobody knows which intent holds: the links that standing redirects go by; and what has to go, as it drops.

    A redirect sees neither its link nor its neighbour go.
    """
    redirects = {key: row for key, row in now.acl.get(RULES, {}).items() if row.get("REDIRECT_ACTION")}
    links = {hop.partition("@")[2] for row in redirects.values() for hop in row["REDIRECT_ACTION"].split(",")}
    return tuple(sorted(links)), tuple(Delete(RULES, key) for key, row in redirects.items() if not _leads(row, now))


def _leads(row: Mapping[str, str], now: Network) -> bool:
    """Whether every next hop of a redirect is still there."""
    hops = [part.partition("@") for part in row.get("REDIRECT_ACTION", "").split(",")]
    return all(link in now.up and address in now.neighbours.get(link, ()) for address, _, link in hops)


def _class_row(one: QueueClass, rules: Mapping[str, Row], ways: Mapping[int, Mapping[str, Way]], now: Network) -> Row:
    own = [key for key, row in rules.items() if row.get("DSCP") == str(one.dscp) and "REDIRECT_ACTION" in row]
    waiting = [key for key in own if _status(key, now) != ACTIVE]
    reasons = [f"IPv{version}: {of[one.path].reason}" for version, of in ways.items() if of[one.path].reason]
    status = APPLIED
    if not own:
        status, reasons = FALLEN_BACK, reasons or [f"no next hop of {one.path} is resolved"]
    elif waiting:
        status = PENDING
        reasons.append(f"{RULES}:{waiting[0]}: orchagent says {_status(waiting[0], now) or 'nothing of it yet'}")
    elif now.unseen is None:
        reasons.append("written, not verified: ASIC_DB can't be read")
    return {"status": status, "rules": ",".join(own), **({"reason": "; ".join(reasons)} if reasons else {})}


def _spine_row(spine: str, uplinks: Uplinks, ways: Mapping[int, Mapping[str, Way]], now: Network) -> Row:
    of = {version: found[spine] for version, found in ways.items()} or {4: way_of(4, spine, uplinks, now)}
    hops = [f"{hop.address}@{hop.interface}" for way in of.values() for hop in way.hops]
    reasons = [f"IPv{version}: {way.reason}" for version, way in of.items() if way.reason]
    status = UP if hops else DOWN if all(way.is_down for way in of.values()) else UNRESOLVED
    row = {"interfaces": ",".join(uplinks.of[spine]), "next_hops": ",".join(hops), "status": status}
    return {**row, "reason": "; ".join(reasons)} if reasons else row
