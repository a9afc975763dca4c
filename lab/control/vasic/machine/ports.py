"""Ports, LAGs and router interfaces: what the other tables' rows mean by a name (`portsorch`, `intfsorch`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Literal

from qclimb.orchagent import Blocking, Refused

from lab.control.vasic.machine.sai import ROUTER, InUse, Port, Sai
from lab.control.vasic.machine.waiting import Orch, Retry, Task

OWN_INTERFACES = ("eth0", "docker0", "usb0", "lo")


@dataclass
class Link:
    """A port or a LAG by its name.

    parts  the port's objects; None for a LAG
    lag    name of the LAG that it is a member of
    """

    oid: str
    parts: Port | None
    is_down: bool
    lag: str = ""
    members: dict[str, str] = field(default_factory=dict)
    interface: str = ""
    """Id of its router interface"""

    @property
    def kind(self) -> Literal["PORT", "LAG"]:
        """SAI's type."""
        return "LAG" if self.parts is None else "PORT"


class PortsOrch(Orch):
    """APPL_DB's LAG_TABLE, LAG_MEMBER_TABLE, INTF_TABLE, and port events.

    on_link  told (name, is up) when a link changes
    on_new   told the name of a link that is new
    """

    tables = ("LAG_TABLE", "LAG_MEMBER_TABLE", "INTF_TABLE")

    def __init__(self, sai: Sai) -> None:
        super().__init__(sai)
        self.links: dict[str, Link] = {}
        self.is_ready = False
        self.prefixes: dict[str, set[IPv4Network | IPv6Network]] = {}
        self.on_link: list[Callable[[str, bool], None]] = []
        self.on_new: list[Callable[[str], None]] = []
        self.uses: dict[str, int] = {}
        """How many neighbours, next hops and routes need an interface"""

    def ready(self) -> bool:
        """Not before the first ports."""
        return self.is_ready

    def port(self, name: str) -> Port | None:
        """A port's objects; None if there is no such port, or it is a LAG."""
        link = self.links.get(name)
        return link.parts if link else None

    def add_port(self, name: str) -> None:
        """A port comes, its link down."""
        parts = self.sai.add_port()
        self.links[name] = Link(parts.oid, parts, True)
        for told in self.on_new:
            told(name)

    def remove_port(self, name: str) -> None:
        """A port goes."""
        link = self.links.pop(name)
        if link.parts is not None:
            self.sai.remove_port(link.parts)

    def set_link(self, name: str, is_up: bool) -> None:
        """The link of a port or LAG is up or down."""
        link = self.links.get(name)
        if link is None:
            return
        link.is_down = not is_up
        for told in self.on_link:
            told(name, is_up)

    def take(self, table: str, task: Task) -> None:
        """A row."""
        {"LAG_TABLE": self._lag, "LAG_MEMBER_TABLE": self._member, "INTF_TABLE": self._interface}[table](task)

    def _lag(self, task: Task) -> None:
        name, link = task.key, self.links.get(task.key)
        if task.op == "DEL":
            if link is None:
                return
            if link.members or link.interface:
                raise Retry
            self._remove("LAG", link.oid)
            del self.links[name]
            return
        status = task.row.get("oper_status", "")
        if status not in ("", "up", "down", "unknown"):
            raise Refused(f"oper_status is {status!r}")
        if link is None:
            self.links[name] = Link(self.sai.create("LAG", {}), None, False)
            for told in self.on_new:
                told(name)
        if status in ("up", "down"):
            self.set_link(name, status == "up")

    def _member(self, task: Task) -> None:
        lag_name, separator, name = task.key.partition(":")
        if not separator:
            raise Blocking(f"{task.key} names no LAG")
        lag, port = self.links.get(lag_name), self.links.get(name)
        if lag is None:
            raise Retry
        if port is None or port.parts is None:
            raise Refused(f"no port {name}")
        if task.op == "DEL":
            if name in lag.members:
                self.sai.remove("LAG_MEMBER", lag.members.pop(name))
                port.lag = ""
            return
        if name not in lag.members:
            if port.lag:
                raise Retry
            attributes = {"SAI_LAG_MEMBER_ATTR_LAG_ID": lag.oid, "SAI_LAG_MEMBER_ATTR_PORT_ID": port.oid}
            lag.members[name] = self.sai.create("LAG_MEMBER", attributes)
            port.lag = lag_name
        is_off = "false" if task.row.get("status") == "enabled" else "true"
        for what in ("INGRESS", "EGRESS"):
            self.sai.set("LAG_MEMBER", lag.members[name], f"SAI_LAG_MEMBER_ATTR_{what}_DISABLE", is_off)

    def _interface(self, task: Task) -> None:
        name, _, prefix_text = task.key.partition(":")
        if name in OWN_INTERFACES or name.startswith("Loopback"):
            return
        try:
            prefix = ip_network(prefix_text, strict=False) if prefix_text else None
        except ValueError as wrong:
            raise Blocking(str(wrong)) from None
        prefixes, link = self.prefixes.setdefault(name, set()), self.links.get(name)
        if task.op == "DEL":
            self._remove_interface(name, link, prefix)
            return
        if link is None:
            raise Retry
        if not link.interface:
            what = {"SAI_ROUTER_INTERFACE_ATTR_VIRTUAL_ROUTER_ID": ROUTER}
            what |= {"SAI_ROUTER_INTERFACE_ATTR_TYPE": "SAI_ROUTER_INTERFACE_TYPE_PORT"}
            link.interface = self.sai.create(
                "ROUTER_INTERFACE", {**what, "SAI_ROUTER_INTERFACE_ATTR_PORT_ID": link.oid}
            )
        if prefix is not None:
            prefixes.add(prefix)

    def _remove_interface(self, name: str, link: Link | None, prefix: IPv4Network | IPv6Network | None) -> None:
        if prefix is not None:
            self.prefixes[name].discard(prefix)
            return
        if link is None or not link.interface:
            return
        if self.prefixes[name] or self.uses.get(name):
            raise Retry
        self._remove("ROUTER_INTERFACE", link.interface)
        link.interface = ""

    def _remove(self, kind: str, oid: str) -> None:
        try:
            self.sai.remove(kind, oid)
        except InUse:
            raise Retry from None
