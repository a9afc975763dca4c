"""Whom the kernel mode serves, as the operator says it."""

from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path

Network = IPv4Network | IPv6Network


@dataclass(frozen=True)
class Scope:
    """Who is served: sockets opened in these cgroups (v2) or below, at these service ports (none: all)."""

    cgroups: tuple[Path, ...] = ()
    ports: tuple[int, ...] = ()
    #: whose hosts are known to filter (the receiver's half of the tagger): flows climb towards them alone.
    climb_to: tuple[Network, ...] = ()
