"""Reads what `paths` decides by: links, neighbours, routes, our own ACL rows, and what the ASIC has of them.

A real APPL_DB holds every route: it is searched for what is new only once in a while, in steps; what is known is read
again by its keys each time.
"""

import time
from collections.abc import Callable, Iterable
from ipaddress import ip_address

from switchd.db import APPL, STATE, Database
from switchd.entries import Entries
from switchd.paths import APPL_TABLES, RULES, TABLES, Network, is_own
from switchd.routes import OWN_INTERFACES, Hop, IPNetwork, Route, network, route_of
from switchd.rows import Row, Rows, applied
from switchd.uplinks import Uplinks

SEARCHED = ("NEIGH_TABLE", "ROUTE_TABLE", "INTF_TABLE", "NEXTHOP_GROUP_TABLE", *APPL_TABLES)
PATTERN = "[NRIA]*_TABLE:*"
"""of keys of SEARCHED, and few others"""


MOST_ROUTES = 500
"""by uplinks, that are read again at each look; more of them are read at each search"""


class NetworkReader:
    """Remembers the keys that were found, and the routes that have no uplink."""

    def __init__(self, db: Database, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._db = db
        self._keys: dict[str, set[str]] = {table: set() for table in SEARCHED}
        self._others: dict[IPNetwork, Route] = {}
        self._searched: dict[IPNetwork, Route] = {}
        self._entries = Entries(db, clock_s)

    def search(self, uplinks: Uplinks) -> int:
        """Look for keys that are new; how many there are. What the ASIC has is read anew. Raises DatabaseLost."""
        self._entries.forget()
        links = {link for of in uplinks.of.values() for link in of}
        self._keys = {table: set() for table in SEARCHED}
        for found in self._db.scan(APPL, PATTERN):
            table, _, key = found.partition(":")
            if table not in self._keys or (table in APPL_TABLES and not is_own(key)):
                continue
            if table != "NEIGH_TABLE" or key.partition(":")[0] in links:
                self._keys[table].add(key)
        count = sum(len(keys) for keys in self._keys.values())
        routes = self._searched = self._routes()
        self._others = {to: route for to, route in routes.items() if not _interfaces(route) & links}
        self._keys["ROUTE_TABLE"] = {
            key for key in self._keys["ROUTE_TABLE"] if (to := network(key)) is not None and to not in self._others
        }
        return count

    def read(self, uplinks: Uplinks, has_shares: bool = False) -> Network:
        """What is now; next-hop groups where there are shares to be compared. Raises DatabaseLost."""
        links = sorted({link for of in uplinks.of.values() for link in of})
        lags, ports = (self._rows(table, links) for table in ("LAG_TABLE", "PORT_TABLE"))
        up = {name for name in links if (lags.get(name) or ports.get(name, {})).get("oper_status") == "up"}
        acl = self._own_rows()
        names = [*acl.get(TABLES, {}), *(key.replace(":", "|") for key in acl.get(RULES, {}))]
        keys = [f"{RULES if '|' in name else TABLES}|{name}" for name in names]
        told = self._db.hashes(STATE, keys)
        return Network(
            frozenset(up),
            self._neighbours(),
            {**self._others, **self._routes()} if self._is_few else self._searched,
            acl,
            {name: row.get("status", "") for name, row in zip(names, told, strict=True) if row},
            self._entries.unseen(acl.get(RULES, {})),
            tuple(self._entries.groups()) if has_shares and self._entries.interfaces else None,
        )

    @property
    def _is_few(self) -> bool:
        """Whether the routes by uplinks can be read each time."""
        return len(self._keys["ROUTE_TABLE"]) <= MOST_ROUTES

    def wrote(self, keys: Iterable[tuple[str, str]]) -> None:
        """These rows are ours, by table and key."""
        for table, key in keys:
            self._keys[table].add(key)

    def _rows(self, table: str, keys: Iterable[str]) -> dict[str, Row]:
        wanted = sorted(keys)
        found = self._db.hashes(APPL, [f"{table}:{key}" for key in wanted])
        return {key: row for key, row in zip(wanted, found, strict=True) if row}

    def _neighbours(self) -> dict[str, tuple[str, ...]]:
        found: dict[str, list[str]] = {}
        for key, row in self._rows("NEIGH_TABLE", self._keys["NEIGH_TABLE"]).items():
            interface, _, address = key.partition(":")
            if row.get("neigh", "").strip("0:-") and _is_address(address):
                found.setdefault(interface, []).append(address)
        return {interface: tuple(addresses) for interface, addresses in found.items()}

    def _routes(self) -> dict[IPNetwork, Route]:
        """Interfaces' own prefixes, and over them what routing says."""
        found: dict[IPNetwork, Route] = {}
        for key in self._keys["INTF_TABLE"]:
            interface, _, prefix = key.partition(":")
            if prefix and interface not in OWN_INTERFACES and (to := network(prefix)) is not None:
                found[to] = Route((Hop("", interface),))
        groups = self._rows("NEXTHOP_GROUP_TABLE", self._keys["NEXTHOP_GROUP_TABLE"])
        for key, row in self._rows("ROUTE_TABLE", self._keys["ROUTE_TABLE"]).items():
            route, to = route_of(row, groups), network(key)
            if to is not None and not _interfaces(route) & set(OWN_INTERFACES):
                found[to] = route
        return {to: route for to, route in found.items() if not (to.is_link_local or to.is_multicast)}

    def _own_rows(self) -> Rows:
        """Rows of ours, those on their way to orchagent as if they had arrived."""
        rows = {table: self._rows(table, self._keys[table]) for table in APPL_TABLES}
        return applied(rows, [change for change in self._db.produced(APPL_TABLES) if is_own(change.key)])


def _interfaces(route: Route) -> set[str]:
    return {hop.interface for hop in route.hops}


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True
