"""Routes, and the groups that routes and ACL rules share (`routeorch`)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network

from qclimb.orchagent import Refused, tokens

from lab.control.vasic.machine.groups import GroupsOrch, add_group, add_member
from lab.control.vasic.machine.next_hops import Hop, HopSet, NextHops, hop_set
from lab.control.vasic.machine.ports import PortsOrch
from lab.control.vasic.machine.sai import NULL, ROUTER, SWITCH, Sai
from lab.control.vasic.machine.waiting import Orch, Retry, Task

NEXT_HOP, ACTION = "SAI_ROUTE_ENTRY_ATTR_NEXT_HOP_ID", "SAI_ROUTE_ENTRY_ATTR_PACKET_ACTION"
DROP, FORWARD = "SAI_PACKET_ACTION_DROP", "SAI_PACKET_ACTION_FORWARD"
DEFAULTS = ("0.0.0.0/0", "::/0")


@dataclass
class SharedGroup:
    """A group by its next hops and weights; members by next hop, also those whose link went down."""

    oid: str
    members: dict[Hop, str] = field(default_factory=dict)
    uses: int = 0


class SharedGroups:
    """Groups that go when nothing needs them."""

    def __init__(self, sai: Sai, next_hops: NextHops) -> None:
        self._sai, self._next_hops = sai, next_hops
        self.groups: dict[HopSet, SharedGroup] = {}
        next_hops.on_hop.append(self._link)

    def add(self, key: HopSet) -> bool:
        """The group, if all its next hops are there and the link of one is up."""
        if any(hop not in self._next_hops.hops for hop, _ in key):
            return False
        up = [(hop, weight) for hop, weight in key if not self._next_hops.is_down(hop)]
        if not up:
            return False
        group = self.groups[key] = SharedGroup(add_group(self._sai))
        for hop, weight in up:
            group.members[hop] = add_member(self._sai, group.oid, self._next_hops.oid_of(hop), weight, bulk=True)
        for hop, _ in key:
            self._next_hops.use(hop)
        return True

    def use(self, key: HopSet, count: int = 1) -> None:
        """A route or rule needs these next hops, or (-1) no longer does; a single one stands for itself."""
        if len(key) == 1:
            self._next_hops.use(key[0][0], count)
        elif key:
            self.groups[key].uses += count

    def remove_unused(self, key: HopSet) -> None:
        """The group, if nothing needs it."""
        group = self.groups.get(key)
        if group is None or group.uses:
            return
        for hop, member in group.members.items():
            if not self._next_hops.is_down(hop):
                self._sai.remove("NEXT_HOP_GROUP_MEMBER", member, bulk=True)
        self._sai.remove("NEXT_HOP_GROUP", group.oid)
        for hop, _ in key:
            self._next_hops.use(hop, -1)
        del self.groups[key]

    def _link(self, hop: Hop, is_up: bool) -> None:
        for key, group in self.groups.items():
            weight = dict(key).get(hop)
            if weight is None:
                continue
            if is_up:
                group.members[hop] = add_member(self._sai, group.oid, self._next_hops.oid_of(hop), weight, bulk=False)
            elif hop in group.members:
                self._sai.remove("NEXT_HOP_GROUP_MEMBER", group.members[hop])


@dataclass
class Route:
    """Where a route goes: its own next hops, or a group by name; `wanted`: of one that stands in for it."""

    key: HopSet = ()
    group: str = ""
    wanted: HopSet | None = None


class RoutesOrch(Orch):
    """APPL_DB's ROUTE_TABLE, of the default VRF."""

    tables = ("ROUTE_TABLE",)

    def __init__(self, sai: Sai, ports: PortsOrch, next_hops: NextHops, groups: GroupsOrch) -> None:
        super().__init__(sai)
        self._ports, self._next_hops, self._named = ports, next_hops, groups
        self.shared = SharedGroups(sai, next_hops)
        self._routes: dict[str, Route] = {}
        self._left: list[HopSet] = []
        for prefix in DEFAULTS:
            self._routes[prefix] = Route()
            sai.create("ROUTE_ENTRY", {ACTION: DROP}, _entry(prefix))

    def ready(self) -> bool:
        """Not before the first ports."""
        return self._ports.is_ready

    def drain(self, table: str) -> None:
        """Written in bulk when all rows were read: a prefix that is none holds all of them back."""
        if all(_prefix(task.key) for task in self.waiting[table].in_order() if not task.key.startswith("Vrf")):
            super().drain(table)

    def finish(self, table: str) -> None:
        """Groups that routes left."""
        for key in self._left:
            self.shared.remove_unused(key)
        self._left.clear()

    def take(self, table: str, task: Task) -> None:
        """A row."""
        if task.key.startswith("Vrf"):
            raise Retry
        prefix = _prefix(task.key)
        if task.op == "DEL":
            self._remove(prefix)
            return
        row = task.row
        if name := row.get("nexthop_group", ""):
            if row.get("nexthop") or row.get("ifname"):
                raise Refused("next hops beside a group")
            if name not in self._named.groups:
                raise Retry
            route = Route(self._named.groups[name].key, name)
        else:
            route = Route(self._key(prefix, row))
        if len(route.key) == 1 and route.key[0][0].is_interface:
            self._check_interface(prefix, route.key[0][0])
        elif prefix in self._routes and (self._routes[prefix].key, self._routes[prefix].group) == (
            route.key,
            route.group,
        ):
            return
        self._add(prefix, route)

    def _key(self, prefix: str, row: Mapping[str, str]) -> HopSet:
        if row.get("blackhole") == "true":
            return ()
        addresses, interfaces = tokens(row.get("nexthop", ""), ","), tokens(row.get("ifname", ""), ",")
        if not interfaces:
            raise Refused("a route without an interface")
        addresses = [*addresses, *[""] * len(interfaces)][: len(interfaces)]
        if any(name in ("eth0", "docker0", "usb0", "lo") or name.startswith("Loopback") for name in interfaces):
            self._remove(prefix)
            raise Refused("a route to an interface of the switch itself")
        none = "::" if ":" in prefix else "0.0.0.0"
        hops = [Hop.of(address or none, name) for address, name in zip(addresses, interfaces, strict=True)]
        return hop_set(hops, row.get("weight", ""))

    def _check_interface(self, prefix: str, hop: Hop) -> None:
        address = ip_address(prefix.partition("/")[0])
        if hop.interface in ("unknown", "tun0") or hop.interface.startswith("Vrf"):
            raise Refused(f"a route to {hop.interface}")
        if address.is_link_local or address.is_multicast:
            raise Refused(f"{prefix} is no global prefix")

    def _add(self, prefix: str, route: Route) -> None:
        """Creates the route or moves it.

        Raises:
            Retry: what it needs is not there; one of its next hops may stand in meanwhile.
        """
        target = self._target(route)
        if target is None:
            standing = self._routes.get(prefix)
            stands_in = standing is not None and len(standing.key) == 1 and standing.wanted == route.key
            if not route.group and len(route.key) > 1 and not stands_in:
                up = [hop for hop, _ in route.key if hop in self._next_hops.hops and not self._next_hops.is_down(hop)]
                if up:  # orchagent takes any of them
                    self._write(prefix, Route(hop_set(up[:1]), wanted=route.key), self._next_hops.oid_of(up[0]))
            raise Retry
        self._write(prefix, route, target)

    def _target(self, route: Route) -> str | None:
        """The object that the route names, NULL to drop; None: not there."""
        if route.group:
            return self._named.groups[route.group].oid or NULL
        if not route.key:
            return NULL
        if len(route.key) == 1:
            ((hop, _),) = route.key
            return None if self._next_hops.is_down(hop) else self._next_hops.oid_of(hop) or None
        if route.key not in self.shared.groups and not self.shared.add(route.key):
            return None
        return self.shared.groups[route.key].oid

    def _write(self, prefix: str, route: Route, target: str) -> None:
        entry, standing, drops = _entry(prefix), self._routes.get(prefix), not (route.group or route.key)
        if standing is None:
            self.sai.create("ROUTE_ENTRY", {ACTION: DROP} if drops else {NEXT_HOP: target}, entry, bulk=True)
        else:
            if not drops and (not standing.key or prefix in DEFAULTS):
                self.sai.set("ROUTE_ENTRY", entry, ACTION, FORWARD, bulk=True)
            self.sai.set("ROUTE_ENTRY", entry, NEXT_HOP, target, bulk=True)
            if drops:
                self.sai.set("ROUTE_ENTRY", entry, ACTION, DROP, bulk=True)
            self._leave(standing)
        if route.group:
            self._named.groups[route.group].uses += 1
        else:
            self.shared.use(route.key)
        self._routes[prefix] = route

    def _leave(self, route: Route) -> None:
        if route.group:
            self._named.groups[route.group].uses -= 1
        else:
            self.shared.use(route.key, -1)
            self._left.append(route.key)

    def _remove(self, prefix: str) -> None:
        route = self._routes.get(prefix)
        if route is None:
            return
        if prefix in DEFAULTS:
            self.sai.set("ROUTE_ENTRY", _entry(prefix), ACTION, DROP, bulk=True)
            self.sai.set("ROUTE_ENTRY", _entry(prefix), NEXT_HOP, NULL, bulk=True)
            self._routes[prefix] = Route()
        else:
            self.sai.remove("ROUTE_ENTRY", _entry(prefix), bulk=True)
            del self._routes[prefix]
        self._leave(route)


def _prefix(text: str) -> str:
    """The prefix as orchagent writes it; "" if it is none."""
    try:
        network = ip_network(text, strict=False)
    except ValueError:
        return ""
    return str(network)


def _entry(prefix: str) -> str:
    """The key of a route in ASIC_DB."""
    return json.dumps({"dest": prefix, "switch_id": SWITCH, "vr": ROUTER}, separators=(",", ":"))
