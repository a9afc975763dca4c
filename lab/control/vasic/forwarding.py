"""The ASIC's objects -> where packets go: ACL rules of the ports, and routes. Pure.

What orchagent takes and this ASIC can't match (a field other than DSCP, destination and IP version) is left out, and
said.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network

from lab.control.vasic.machine.acl import Table
from lab.control.vasic.machine.acl_rules import Rule
from lab.control.vasic.machine.groups import WEIGHT
from lab.control.vasic.machine.machine import Machine
from lab.control.vasic.machine.sai import NULL

VERSIONS = {"IPV4ANY": 4, "IPV6ANY": 6}
ETHER_TYPES = {0x0800: 4, 0x86DD: 6}


@dataclass(frozen=True, order=True)
class Member:
    """A next hop: an address on an interface ("" for whoever is on it), and its share of a group."""

    address: str
    interface: str
    weight: int = 1


@dataclass(frozen=True)
class Redirect:
    """One ACL rule.

    key      `<table>:<rule>`, as COUNTERS_DB's ACL_COUNTER_RULE_MAP has it
    ports    whose packets it looks at as they come in
    version  4, 6, or 0 for both; dscp: value and mask; to: a prefix; None: any
    members  where packets go; none of them: they are dropped; None: where routing sends them
    """

    key: str
    counter: str
    priority: int
    ports: tuple[str, ...]
    version: int = 0
    dscp: tuple[int, int] | None = None
    to: str | None = None
    members: tuple[Member, ...] | None = None


@dataclass
class Forwarding:
    """rules: the one that counts first stands first; routes by prefix, no member: dropped."""

    rules: tuple[Redirect, ...] = ()
    routes: dict[str, tuple[Member, ...]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def forwarding(machine: Machine) -> Forwarding:
    """Where this ASIC sends packets."""
    found = Forwarding()
    reader = _Reader(machine)
    rules = []
    for table, rule in machine.acl.standing():
        try:
            rules.append(reader.rule(table, rule))
        except ValueError as wrong:
            found.problems.append(f"{table.name}:{rule.name}: not programmed: {wrong}")
    found.rules = tuple(sorted(rules, key=lambda one: (-one.priority, one.key)))
    found.routes = dict(reader.routes())
    return found


class _Reader:
    def __init__(self, machine: Machine) -> None:
        self._objects, self._hops = machine.sai.objects, machine.next_hops
        self._names = {link.oid: name for name, link in machine.ports.links.items()}
        self._interfaces = {link.interface: name for name, link in machine.ports.links.items() if link.interface}
        self._members: dict[str, list[Mapping[str, str]]] = {}
        for row in self._objects["NEXT_HOP_GROUP_MEMBER"].values():
            of = "SAI_NEXT_HOP_GROUP_MEMBER_ATTR_NEXT_HOP_GROUP_ID"
            self._members.setdefault(row[of], []).append(row)

    def rule(self, table: Table, rule: Rule) -> Redirect:
        """One rule; ValueError for what can't be matched here."""
        if table.stage != "ingress":
            raise ValueError(f"stage {table.stage}, expected ingress")
        version, dscp, to = 0, None, None
        for name, text in rule.matches.items():
            value, _, mask = text.partition("&mask:")
            if name == "DSCP":
                dscp = int(value), int(mask, 16)
            elif name in ("DST_IP", "DST_IPV6"):
                to = str(ip_network(f"{value}/{_length(mask)}", strict=False))
            elif name == "ACL_IP_TYPE" and value.removeprefix("SAI_ACL_IP_TYPE_") in VERSIONS:
                version = VERSIONS[value.removeprefix("SAI_ACL_IP_TYPE_")]
            elif name == "ETHER_TYPE" and int(value) in ETHER_TYPES:
                version = ETHER_TYPES[int(value)]
            else:
                raise ValueError(f"it matches {name}={value}")
        if rule.ranges:
            raise ValueError("it matches a range of ports")
        action = rule.actions.get("PACKET_ACTION", "")
        if "REDIRECT" in rule.actions:
            members: tuple[Member, ...] | None = self.members(rule.actions["REDIRECT"])
        elif action.endswith(("FORWARD", "DROP")):
            members = () if action.endswith("DROP") else None
        else:
            raise ValueError(f"it does {', '.join(rule.actions)}")
        key = f"{table.name}:{rule.name}"
        return Redirect(key, rule.counter, rule.priority, tuple(sorted(table.ports)), version, dscp, to, members)

    def members(self, oid: str) -> tuple[Member, ...]:
        """Where an object leads: a port, a LAG, a next hop, an interface, a group."""
        if oid in self._objects["NEXT_HOP_GROUP"]:
            found: list[Member] = []
            for row in self._members.get(oid, ()):
                weight = int(row.get(WEIGHT, "1"))
                for one in self.members(row["SAI_NEXT_HOP_GROUP_MEMBER_ATTR_NEXT_HOP_ID"]):
                    found.append(Member(one.address, one.interface, weight))
            return tuple(sorted(found))
        if oid in self._names or oid in self._interfaces:
            return (Member("", self._names.get(oid) or self._interfaces[oid]),)
        name = self._hops.name_of(oid)
        if name is None:
            return ()
        address, _, interface = name.partition("@")
        return (Member(address, interface),)

    def routes(self) -> Iterator[tuple[str, tuple[Member, ...]]]:
        """Every route."""
        for key, row in self._objects["ROUTE_ENTRY"].items():
            oid = row.get("SAI_ROUTE_ENTRY_ATTR_NEXT_HOP_ID", NULL)
            drops = row.get("SAI_ROUTE_ENTRY_ATTR_PACKET_ACTION") == "SAI_PACKET_ACTION_DROP"
            yield json.loads(key)["dest"], () if drops or oid == NULL else self.members(oid)


def _length(mask: str) -> int:
    """The length of a prefix by its mask."""
    address = ip_address(mask)
    bits = f"{int(address):0{address.max_prefixlen}b}"
    if not re.fullmatch("1*0*", bits):
        raise ValueError(f"mask {mask}, expected a prefix's")
    return bits.count("1")
