"""Neighbours and their next hops (`neighorch`), and keys of next hops and groups of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from ipaddress import ip_address

from qclimb.orchagent import Blocking, Refused, number, tokens

from lab.control.vasic.machine.ports import OWN_INTERFACES, PortsOrch
from lab.control.vasic.machine.sai import SWITCH, InUse, Sai
from lab.control.vasic.machine.waiting import Orch, Retry, Task


@dataclass(frozen=True, order=True)
class Hop:
    """An address on an interface; in orchagent's order: address, then interface."""

    version: int
    address: int
    interface: str

    @classmethod
    def of(cls, text: str, interface: str) -> Hop:
        """Of an address as text.

        Raises:
            Blocking: it is none.
        """
        try:
            found = ip_address(text)
        except ValueError as wrong:
            raise Blocking(str(wrong)) from None
        return cls(found.version, int(found), interface)

    def __str__(self) -> str:
        return f"{ip_address(self.address.to_bytes(4 if self.version == 4 else 16))}@{self.interface}"

    @property
    def is_interface(self) -> bool:
        """Whether it is the interface itself: the address is 0."""
        return not self.address


HopSet = tuple[tuple[Hop, int], ...]
"""Key of a group: its next hops in order, each once, with their weights (0: not given)"""


def hop_set(hops: Iterable[Hop], weights: str = "") -> HopSet:
    """The key of a group; weights count only if there are as many as next hops, the first of equal next hops stands."""
    listed = list(hops)
    texts = tokens(weights, ",")
    found: dict[Hop, int] = {}
    for index, hop in enumerate(listed):
        found.setdefault(hop, number(texts[index], "weight") % 2**32 if len(texts) == len(listed) else 0)
    return tuple(sorted(found.items()))


@dataclass
class NextHop:
    """A next hop's object, how many groups, routes and ACL rules need it, and whether its link is down."""

    oid: str
    uses: int = 0
    is_down: bool = False


class NextHops(Orch):
    """APPL_DB's NEIGH_TABLE.

    on_hop  told (next hop, is up) when the link of one changes
    """

    tables = ("NEIGH_TABLE",)

    def __init__(self, sai: Sai, ports: PortsOrch) -> None:
        super().__init__(sai)
        self._ports = ports
        self.hops: dict[Hop, NextHop] = {}
        self._macs: dict[Hop, str] = {}
        self.on_hop: list[Callable[[Hop, bool], None]] = []
        ports.on_link.append(self._link)

    def ready(self) -> bool:
        """Not before the first ports."""
        return self._ports.is_ready

    def parse(self, text: str) -> Hop:
        """`address@interface`; without an interface, that whose prefix holds the address.

        Raises:
            Blocking: it is neither.
        """
        parts = tokens(text, "@")
        if len(parts) not in (1, 2) or "," in text or "+" in text:
            raise Blocking(f"next hop is {text!r}, expected address@interface")
        if len(parts) == 2:
            return Hop.of(parts[0], parts[1])
        hop = Hop.of(parts[0], "")
        for name, prefixes in self._ports.prefixes.items():
            if any(ip_address(parts[0]) in prefix for prefix in prefixes):
                return replace(hop, interface=name)
        return hop

    def name_of(self, oid: str) -> str | None:
        """`address@interface` of a next hop's object, or the interface of a router interface."""
        for hop, standing in self.hops.items():
            if standing.oid == oid:
                return str(hop)
        return next((name for name, link in self._ports.links.items() if link.interface == oid), None)

    def oid_of(self, hop: Hop) -> str:
        """The object that a route to this next hop names; "" if it is not there."""
        if hop.is_interface:
            link = self._ports.links.get(hop.interface)
            return link.interface if link else ""
        standing = self.hops.get(hop)
        return standing.oid if standing else ""

    def use(self, hop: Hop, count: int = 1) -> None:
        """Something needs the next hop, or (-1) no longer does."""
        if hop.is_interface:
            self._ports.uses[hop.interface] = self._ports.uses.get(hop.interface, 0) + count
        elif hop in self.hops:
            self.hops[hop].uses += count

    def is_down(self, hop: Hop) -> bool:
        """Whether the link of a next hop that is there is down."""
        return hop in self.hops and self.hops[hop].is_down

    def _link(self, name: str, is_up: bool) -> None:
        for hop in sorted(self.hops):
            standing = self.hops[hop]
            if hop.interface == name and standing.is_down == is_up:
                standing.is_down = not is_up
                for told in self.on_hop:
                    told(hop, is_up)

    def take(self, table: str, task: Task) -> None:
        """A neighbour."""
        name, separator, address = task.key.partition(":")
        if not separator or name in OWN_INTERFACES:
            raise Refused(f"{task.key} is no neighbour of a front port")
        hop = Hop.of(address, name)
        if task.op == "DEL":
            self._remove(hop)
            return
        link = self._ports.links.get(name)
        if link is None or not link.interface:
            raise Retry
        mac = task.row.get("neigh", "00:00:00:00:00:00").lower().replace("-", ":")
        if not mac.strip("0:"):
            if hop not in self._macs:
                raise Retry
        elif self._macs.get(hop) != mac:
            self._add(hop, mac, link.interface, link.is_down)
        for old in self.waiting[table].of_key(task.key):
            if old.op == "DEL":
                self.waiting[table].remove(old)

    def _add(self, hop: Hop, mac: str, interface: str, is_down: bool) -> None:
        attribute, entry = "SAI_NEIGHBOR_ENTRY_ATTR_DST_MAC_ADDRESS", self._entry(hop, interface)
        if hop in self.hops:
            self.sai.set("NEIGHBOR_ENTRY", entry, attribute, mac.upper())
        else:
            self.sai.create("NEIGHBOR_ENTRY", {attribute: mac.upper()}, entry)
            created = self.sai.create(
                "NEXT_HOP",
                {
                    "SAI_NEXT_HOP_ATTR_TYPE": "SAI_NEXT_HOP_TYPE_IP",
                    "SAI_NEXT_HOP_ATTR_IP": str(hop).partition("@")[0],
                    "SAI_NEXT_HOP_ATTR_ROUTER_INTERFACE_ID": interface,
                },
            )
            self.hops[hop] = NextHop(created, is_down=is_down)
            self._ports.uses[hop.interface] = self._ports.uses.get(hop.interface, 0) + 2
        self._macs[hop] = mac

    def _remove(self, hop: Hop) -> None:
        standing = self.hops.get(hop)
        if standing is None:
            return
        if standing.uses > 0:
            raise Retry
        try:
            self.sai.remove("NEXT_HOP", standing.oid)
        except InUse:
            raise Retry from None
        self.sai.remove("NEIGHBOR_ENTRY", self._entry(hop, self._ports.links[hop.interface].interface))
        del self.hops[hop], self._macs[hop]
        self._ports.uses[hop.interface] -= 2

    def _entry(self, hop: Hop, interface: str) -> str:
        """The key of a neighbour in ASIC_DB."""
        named = {"ip": str(hop).partition("@")[0], "rif": interface, "switch_id": SWITCH}
        return json.dumps(named, separators=(",", ":"))
