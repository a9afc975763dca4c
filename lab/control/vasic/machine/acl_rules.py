"""ACL rules as `aclorch` reads their fields, and the objects that they become."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from qclimb.orchagent import Blocking, Refused, tokens

from lab.control.vasic.machine.acl_fields import (
    MATCHES,
    WIDTHS,
    Kind,
    address_match,
    ip_type_match,
    number_match,
    ports_match,
    priority,
    whole,
)
from lab.control.vasic.machine.next_hops import Hop, HopSet, NextHops, hop_set
from lab.control.vasic.machine.ports import PortsOrch
from lab.control.vasic.machine.routes import SharedGroups
from lab.control.vasic.machine.sai import Sai

ENTRY = "SAI_ACL_ENTRY_ATTR_"
MASKS = ("SRC_IP_MASK", "DST_IP_MASK", "SRC_IPV6_MASK", "DST_IPV6_MASK")
ADDRESSES = ("SRC_IP", "DST_IP", "SRC_IPV6", "DST_IPV6")
RANGES = {f"L4_{side}_PORT_RANGE": f"SAI_ACL_RANGE_TYPE_L4_{side}_PORT_RANGE" for side in ("SRC", "DST")}


@dataclass
class Rule:
    """A rule, wanted or standing.

    hop, group  the next hop or group that its redirect needs
    """

    name: str
    priority: int = 0
    matches: dict[str, str] = field(default_factory=dict)
    ranges: list[tuple[str, int, int]] = field(default_factory=list)
    actions: dict[str, str] = field(default_factory=dict)
    hop: Hop | None = None
    group: HopSet | None = None
    entry: str = ""
    counter: str = ""
    range_oids: list[str] = field(default_factory=list)


class Rules:
    """Reads rules, and makes and removes what they are in the ASIC."""

    def __init__(self, sai: Sai, ports: PortsOrch, next_hops: NextHops, shared: SharedGroups) -> None:
        self.sai = sai
        self._ports, self._next_hops, self._shared = ports, next_hops, shared

    def read(self, name: str, kind: Kind, row: Mapping[str, str]) -> Rule:
        """A rule of a table of this type; fields count in their order.

        Raises:
            Refused: orchagent does not take it. What a redirect needs stays needed when a later field is refused.
        """
        rule = Rule(name)
        fields = {label.upper(): text for label, text in row.items()}
        used = set()
        for label, text in fields.items():
            if label == "PRIORITY":
                rule.priority = priority(text)
            elif label in MASKS:
                used.add(label.removesuffix("_MASK"))
            elif label in MATCHES:
                self._match(kind, rule, label, text, fields.get(f"{label}_MASK"))
            else:
                self._action(kind, rule, label, text)
        if "TCP_FLAGS" in fields and not {"IP_PROTOCOL", "NEXT_HEADER"} & set(fields):
            protocol = "IPV6_NEXT_HEADER" if kind.name == "L3V6" else "IP_PROTOCOL"
            if protocol in kind.matches:
                rule.matches[protocol] = "6&mask:0xff"
        is_mixed = any(each in fields for each in ADDRESSES[:2]) and any(each in fields for each in ADDRESSES[2:])
        if not used <= set(fields) or (is_mixed and kind.name == "L3V4V6"):
            raise Refused("a mask without its address, or both families in one rule")
        if not (rule.matches or rule.ranges) or len(rule.actions) != 1:
            raise Refused("expected a match and one action")
        return rule

    def _match(self, kind: Kind, rule: Rule, label: str, text: str, mask: str | None) -> None:
        if MATCHES[label] not in kind.matches and label not in ADDRESSES:
            raise Refused(f"{kind.name} matches no {label}")
        if label in RANGES:
            least, _, most = text.partition("-")
            ends = whole(least, 65535), whole(most, 65535)
            if ends[0] > ends[1]:
                raise Refused(f"{label} is {text!r}")
            rule.ranges.append((RANGES[label], *ends))
        elif label in WIDTHS:
            sai_field = MATCHES[label]
            if label == "IP_PROTOCOL" and kind.name == "L3V6":
                sai_field = "IPV6_NEXT_HEADER"
            rule.matches[sai_field] = number_match(label, text)
        elif label in ADDRESSES:
            rule.matches[MATCHES[label]] = address_match(label, text, mask)
            if MATCHES[label] not in kind.matches:
                raise Refused(f"{kind.name} matches no {label}")
        elif label == "IP_TYPE":
            rule.matches[MATCHES[label]] = ip_type_match(text)
        else:
            rule.matches[MATCHES[label]] = ports_match(text, self._port_oid)

    def _port_oid(self, name: str) -> str:
        port = self._ports.port(name)
        return port.oid if port else ""

    def _action(self, kind: Kind, rule: Rule, label: str, text: str) -> None:
        if label == "PACKET_ACTION" and text.upper().startswith("REDIRECT:"):
            label, text = "REDIRECT_ACTION", text.partition(":")[2]
        if label == "PACKET_ACTION" and text.upper() in ("FORWARD", "DROP", "COPY"):
            action, value = "PACKET_ACTION", f"SAI_PACKET_ACTION_{text.upper()}"
        elif label == "PACKET_ACTION" and text.upper() in ("DO_NOT_NAT", "DISABLE_TRIM"):
            action, value = ("NO_NAT" if text.upper() == "DO_NOT_NAT" else "PACKET_TRIM_DISABLE"), "true"
        elif label == "REDIRECT_ACTION":
            action, value = "REDIRECT", self._redirect(rule, text)
        else:
            raise Refused(f"{label} is {text!r}")
        if kind.actions and action not in kind.actions:
            raise Refused(f"{kind.name} does no {action}")
        rule.actions[action] = value

    def _redirect(self, rule: Rule, text: str) -> str:
        """The object of a port, a LAG, a next hop or a set of them; the two last are needed from here on."""
        if text in self._ports.links:
            return self._ports.links[text].oid
        try:
            if "," not in text and (hop := self._next_hops.parse(text)) in self._next_hops.hops:
                rule.hop = hop
                self._next_hops.use(hop)
                return self._next_hops.oid_of(hop)
            key = hop_set(self._next_hops.parse(part) for part in tokens(text, ","))
        except Blocking as wrong:
            raise Refused(str(wrong)) from None
        if key not in self._shared.groups and not self._shared.add(key):
            raise Refused(f"{text} is not resolved")
        rule.group = key
        self._shared.use(key)
        return self._shared.groups[key].oid

    def create(self, table_oid: str, rule: Rule) -> None:
        """The rule's counter, ranges and entry."""
        counted = {f"SAI_ACL_COUNTER_ATTR_ENABLE_{what}_COUNT": "true" for what in ("BYTE", "PACKET")}
        rule.counter = self.sai.create("ACL_COUNTER", {"SAI_ACL_COUNTER_ATTR_TABLE_ID": table_oid, **counted})
        attributes = {"TABLE_ID": table_oid, "PRIORITY": str(rule.priority), "ADMIN_STATE": "true"}
        attributes["ACTION_COUNTER"] = rule.counter
        for range_type, least, most in rule.ranges:
            of = {"SAI_ACL_RANGE_ATTR_TYPE": range_type, "SAI_ACL_RANGE_ATTR_LIMIT": f"{least},{most}"}
            rule.range_oids.append(self.sai.create("ACL_RANGE", of))
        if rule.range_oids:
            attributes["FIELD_ACL_RANGE_TYPE"] = f"{len(rule.range_oids)}:{','.join(rule.range_oids)}"
        attributes |= {f"FIELD_{name}": value for name, value in sorted(rule.matches.items())}
        attributes |= {f"ACTION_{name}": value for name, value in rule.actions.items()}
        rule.entry = self.sai.create("ACL_ENTRY", {ENTRY + name: value for name, value in attributes.items()})

    def remove(self, rule: Rule) -> None:
        """The rule's objects, and what its redirect needed."""
        self.sai.remove("ACL_ENTRY", rule.entry)
        for each in rule.range_oids:
            self.sai.remove("ACL_RANGE", each)
        self.sai.remove("ACL_COUNTER", rule.counter)
        if rule.hop is not None:
            self._next_hops.use(rule.hop, -1)
        if rule.group is not None:
            self._shared.use(rule.group, -1)
            self._shared.remove_unused(rule.group)
