"""Routes of APPL_DB as values, and for which destinations a spine is no way; purely."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_network

from switchd.rows import Row

IPNetwork = IPv4Network | IPv6Network
OWN_INTERFACES = ("eth0", "docker0", "usb0", "lo")
"""of the switch itself: orchagent sends no packet there"""


@dataclass(frozen=True, order=True)
class Hop:
    """An address on an interface, and its weight (0: none told)."""

    address: str
    interface: str
    weight: int = 0

    @property
    def is_gateway(self) -> bool:
        """Whether packets go to this address, not to whoever is on the interface."""
        return self.address not in ("", "0.0.0.0", "::")


@dataclass(frozen=True)
class Route:
    """Where packets to a prefix go."""

    hops: tuple[Hop, ...] = ()


@lru_cache(20_000)
def network(text: str) -> IPNetwork | None:
    """A prefix of APPL_DB (`10.0.0.0/24`, `10.0.0.1`); None for one of another VRF."""
    try:
        return ip_network(text, strict=False)
    except ValueError:
        return None


def route_of(row: Mapping[str, str], groups: Mapping[str, Row]) -> Route:
    """A row of ROUTE_TABLE; `groups`: rows of NEXTHOP_GROUP_TABLE by name, which have next hops or groups of such.

    One with both is of two writers, of whom fpmsyncd takes no field away: which counts nobody can tell, so it has none.
    """
    if row.get("nexthop_group") and row.get("ifname"):
        return Route()
    row = groups.get(row["nexthop_group"], {}) if row.get("nexthop_group") else row
    if members := row.get("nexthop_group"):
        names = members.split(",")
        told = zip(names, _weights(row, len(names)), strict=True)
        return Route(
            tuple(replace(hop, weight=w or hop.weight) for name, w in told for hop in _hops(groups.get(name, {})))
        )
    return Route(_hops(row))


def _hops(row: Mapping[str, str]) -> tuple[Hop, ...]:
    interfaces = [each for each in row.get("ifname", "").split(",") if each]
    addresses = [*row.get("nexthop", "").split(","), *[""] * len(interfaces)]
    weights = _weights(row, len(interfaces))
    return tuple(Hop(a, i, w) for a, i, w in zip(addresses, interfaces, weights, strict=False))


def _weights(row: Mapping[str, str], count: int) -> list[int]:
    """One a member; 0 each where there are not as many, as orchagent takes them."""
    weights = row.get("weight", "").split(",")
    is_told = len(weights) == count and all(each.isdecimal() for each in weights)
    return [int(each) for each in weights] if is_told else [0] * count


def exceptions(goes: Mapping[IPNetwork, bool]) -> dict[IPNetwork, bool]:
    """The fewest prefixes that say for every destination whether a spine is a way to it, the longest one counting.

    goes  for each prefix that is routed, whether its route has the spine

    Beside them every destination goes by the spine. A prefix is left out where it says what the next shorter one does.
    """
    lengths = sorted({one.prefixlen for one in goes}, reverse=True)
    found = {}
    for one, is_way in goes.items():
        shorter = (length for length in lengths if length < one.prefixlen)
        covering = next((up for up in (one.supernet(new_prefix=length) for length in shorter) if up in goes), None)
        if is_way != (covering is None or goes[covering]):
            found[one] = is_way
    return found
