"""Fields of ACL tables' types and of ACL rules: what each is in SAI, and its value as ASIC_DB has it (`aclorch`)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from qclimb.orchagent import Refused, tokens

MATCHES = {
    **{"IN_PORTS": "IN_PORTS", "OUT_PORT": "OUT_PORT", "OUT_PORTS": "OUT_PORTS", "SRC_IP": "SRC_IP"},
    **{"DST_IP": "DST_IP", "SRC_IPV6": "SRC_IPV6", "DST_IPV6": "DST_IPV6", "L4_SRC_PORT": "L4_SRC_PORT"},
    **{"L4_DST_PORT": "L4_DST_PORT", "ETHER_TYPE": "ETHER_TYPE", "VLAN_ID": "OUTER_VLAN_ID"},
    **{"IP_PROTOCOL": "IP_PROTOCOL", "NEXT_HEADER": "IPV6_NEXT_HEADER", "TCP_FLAGS": "TCP_FLAGS"},
    **{"IP_TYPE": "ACL_IP_TYPE", "DSCP": "DSCP", "TC": "TC", "ICMP_TYPE": "ICMP_TYPE", "ICMP_CODE": "ICMP_CODE"},
    **{"ICMPV6_TYPE": "ICMPV6_TYPE", "ICMPV6_CODE": "ICMPV6_CODE", "TUNNEL_VNI": "TUNNEL_VNI"},
    **{"L4_SRC_PORT_RANGE": "ACL_RANGE_TYPE", "L4_DST_PORT_RANGE": "ACL_RANGE_TYPE"},
}
"""field of a rule, or word in a type's `matches` -> SAI's field"""

ACTIONS = {
    **{"PACKET_ACTION": "PACKET_ACTION", "REDIRECT_ACTION": "REDIRECT", "DO_NOT_NAT_ACTION": "NO_NAT"},
    **{"DISABLE_TRIM_ACTION": "PACKET_TRIM_DISABLE", "POLICER_ACTION": "SET_POLICER", "COUNTER": "COUNTER"},
    **{"MIRROR_INGRESS_ACTION": "MIRROR_INGRESS", "MIRROR_EGRESS_ACTION": "MIRROR_EGRESS"},
    **{"DSCP_ACTION": "SET_DSCP", "META_DATA_ACTION": "SET_ACL_META_DATA"},
    "INNER_SRC_MAC_REWRITE_ACTION": "SET_INNER_SRC_MAC",
}
"""word in a type's `actions` -> SAI's action"""
PACKET_RULE = ("PACKET_ACTION", "REDIRECT_ACTION", "DO_NOT_NAT_ACTION", "DISABLE_TRIM_ACTION", "POLICER_ACTION")
BIND_POINTS = {"PORT": "SAI_ACL_BIND_POINT_TYPE_PORT", "PORTCHANNEL": "SAI_ACL_BIND_POINT_TYPE_LAG"}

WIDTHS = {
    **dict.fromkeys(("DSCP", "TCP_FLAGS"), (0x3F, 0x3F)),
    **dict.fromkeys(("ETHER_TYPE", "L4_SRC_PORT", "L4_DST_PORT"), (0xFFFF, 0xFFFF)),
    **dict.fromkeys(("IP_PROTOCOL", "NEXT_HEADER", "TC", "ICMP_TYPE", "ICMP_CODE"), (0xFF, 0xFF)),
    **dict.fromkeys(("ICMPV6_TYPE", "ICMPV6_CODE"), (0xFF, 0xFF)),
    "VLAN_ID": (0xFFFF, 0xFFF),
    "TUNNEL_VNI": (2**32 - 1, 2**32 - 1),
}
"""field -> largest value, mask where none is given"""
MASKED = ("DSCP", "TCP_FLAGS")
IP_TYPES = {
    **{"ANY": "ANY", "IP": "IP", "NON_IP": "NON_IP", "IPV4ANY": "IPV4ANY", "NON_IPV4": "NON_IPV4"},
    **{"IPV6ANY": "IPV6ANY", "NON_IPV6": "NON_IPV6", "ARP": "ARP", "ARP_REQUEST": "ARP_REQUEST"},
    "ARP_REPLY": "ARP_REPLY",
}
LARGEST_PRIORITY = 16000


@dataclass(frozen=True)
class Kind:
    """A type of ACL table: SAI's fields, actions (none: any) and bind points."""

    name: str
    matches: frozenset[str]
    actions: frozenset[str]
    bind_points: tuple[str, ...]


def _own(name: str, matches: str) -> Kind:
    return Kind(name, frozenset(matches.split()), frozenset(), tuple(BIND_POINTS.values()))


_BOTH = "OUTER_VLAN_ID ACL_IP_TYPE L4_SRC_PORT L4_DST_PORT TCP_FLAGS"
_L3 = f"{_BOTH} ETHER_TYPE SRC_IP DST_IP ICMP_TYPE ICMP_CODE IP_PROTOCOL"
_L3V6 = f"{_BOTH} SRC_IPV6 DST_IPV6 ICMPV6_CODE ICMPV6_TYPE IPV6_NEXT_HEADER"
OWN_KINDS = {
    "L3": _own("L3", _L3 + " ACL_RANGE_TYPE"),
    "L3V6": _own("L3V6", _L3V6 + " ACL_RANGE_TYPE"),
    "L3V4V6": _own("L3V4V6", f"{_L3} {_L3V6} IN_PORTS"),
}
"""Types that are there without a row, as far as a switch's operator uses them."""


def kind_of(name: str, row: Mapping[str, str]) -> Kind:
    """A row of ACL_TABLE_TYPE.

    Raises:
        Refused: an unknown field, match, action or bind point.
    """
    found: dict[str, list[str]] = {"MATCHES": [], "ACTIONS": [], "BIND_POINTS": []}
    known: dict[str, Mapping[str, str]] = {"MATCHES": MATCHES, "ACTIONS": ACTIONS, "BIND_POINTS": BIND_POINTS}
    for field, text in row.items():
        words = tokens(text.upper(), ",")
        if field.upper() not in known or not set(words) <= set(known[field.upper()]):
            raise Refused(f"{field} is {text!r}")
        found[field.upper()] += [known[field.upper()][word] for word in words]
    return Kind(
        name, frozenset(found["MATCHES"]), frozenset(found["ACTIONS"]), tuple(dict.fromkeys(found["BIND_POINTS"]))
    )


def whole(text: str, largest: int) -> int:
    """`to_uint`: the whole text, decimal, octal or hexadecimal."""
    if not re.fullmatch(r"[ \t\n\v\f\r]*[+]?(0[xX][0-9a-fA-F]+|[0-9]+)", text):
        raise Refused(f"{text!r} is no number")
    digits = text.strip().lstrip("+").lower()
    base = 16 if digits.startswith("0x") else 8 if digits.startswith("0") and len(digits) > 1 else 10
    if base == 8 and not set(digits) <= set("01234567"):
        raise Refused(f"{text!r} is no octal number")
    if not int(digits, base) <= largest:
        raise Refused(f"{text!r} is above {largest}")
    return int(digits, base)


def priority(text: str) -> int:
    """The priority of a rule."""
    found = whole(text, 2**63 - 1)
    if found > LARGEST_PRIORITY:
        raise Refused(f"priority is {found}, expected 0..{LARGEST_PRIORITY}")
    return found


def number_match(field: str, text: str) -> str:
    """A field of WIDTHS, some with `value/mask`."""
    largest, mask = WIDTHS[field]
    parts = tokens(text, "/") if field in MASKED else [text]
    if not parts:
        raise Refused(f"{field} is empty")
    value = whole(parts[0], largest)
    if len(parts) == 2:
        mask = whole(parts[1], largest)
    if field == "VLAN_ID" and not 1 <= value <= 4095:
        raise Refused(f"{field} is {value}")
    return f"{value}&mask:{mask:#x}"


def address_match(field: str, text: str, mask: str | None) -> str:
    """An address or prefix; `mask`: of the field `<field>_MASK`."""
    wanted = 6 if field.endswith("V6") else 4
    try:
        if "/" in text:
            network = ip_network(text, strict=False)
            if network.version != wanted or mask is not None:
                raise Refused(f"{field} is {text!r}")
            host = ip_address(text.partition("/")[0])
            return f"{host}&mask:{_mask_text(network)}"
        host, of = ip_address(text), ip_address(mask if mask is not None else ("::" if wanted == 6 else "0.0.0.0"))
    except ValueError as wrong:
        raise Refused(str(wrong)) from None
    if host.version != wanted:
        raise Refused(f"{field} is {text!r}")
    if mask is None:
        return f"{host}&mask:" + ("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff" if wanted == 6 else "255.255.255.255")
    return f"{host}&mask:{of}"


def _mask_text(network: IPv4Network | IPv6Network) -> str:
    return str(network.netmask) if network.version == 4 else str(IPv6Address(int(network.netmask)))


def ports_match(text: str, oid_of: Callable[[str], str]) -> str:
    """A list of ports; `oid_of` answers "" for what is no port."""
    oids = [oid_of(name) for name in tokens(text, ",")]
    if not oids or not all(oids):
        raise Refused(f"ports are {text!r}")
    return f"{len(oids)}:{','.join(oids)}"


def ip_type_match(text: str) -> str:
    """IP_TYPE."""
    if text.upper() not in IP_TYPES:
        raise Refused(f"IP_TYPE is {text!r}")
    return f"SAI_ACL_IP_TYPE_{IP_TYPES[text.upper()]}&mask:0xffffffffffffffff"
