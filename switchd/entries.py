"""What ASIC_DB has of our ACL rules and of next-hop groups, by effect and not by name.

A rule is found by its counter: ACL_COUNTER_RULE_MAP tells orchagent's counter of `<table>:<rule>`, and exactly its
entry has that counter. A real ASIC_DB holds every route: it is searched for entries and group members alone, in steps.
"""

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from ipaddress import ip_address, ip_network

from switchd.db import ASIC, COUNTERS, Database
from switchd.readback import PREFIX
from switchd.rows import Row

ENTRY, MEMBER = "SAI_ACL_ENTRY_ATTR_", "SAI_NEXT_HOP_GROUP_MEMBER_ATTR_"
RULE_MAP = "ACL_COUNTER_RULE_MAP"
NAME_MAPS = ("COUNTERS_PORT_NAME_MAP", "COUNTERS_LAG_NAME_MAP")
KEPT = ("TABLE_ID", "ADMIN_STATE", "ACTION_COUNTER", "PRIORITY", "FIELD_ACL_IP_TYPE")
"""attributes that every entry of ours has, and that say nothing of where packets go"""


def difference(rule: Mapping[str, str], entry: Mapping[str, str], hops: Collection[str]) -> str:
    """Why an entry does not do what a row of ACL_RULE_TABLE says, empty where it does.

    entry  its attributes, as ASIC_DB has them
    hops   where its redirect leads, `<address>@<interface>`, or `<address>` where no interface is known by name
    """
    if entry.get(f"{ENTRY}PRIORITY") != rule.get("PRIORITY"):
        return f"its entry has priority {entry.get(f'{ENTRY}PRIORITY')}"
    wanted = {name: value for name, value in rule.items() if name in ("DSCP", "DST_IP", "DST_IPV6")}
    found = {}
    for name, value in entry.items():
        if name.startswith(f"{ENTRY}FIELD_") and name.removeprefix(ENTRY) not in KEPT:
            field = name.removeprefix(f"{ENTRY}FIELD_")
            try:
                found[field] = _matched(field, value)
            except ValueError:
                return f"its entry's {field} can't be read: {value!r}"
    if found != wanted:
        told = ", ".join(f"{name} {value}" for name, value in sorted(found.items())) or "everything"
        return f"its entry matches {told}"
    if "PACKET_ACTION" in rule:
        action = entry.get(f"{ENTRY}ACTION_PACKET_ACTION", "").removeprefix("SAI_PACKET_ACTION_")
        return "" if action == rule["PACKET_ACTION"] else f"its entry does {action or 'something else'}"
    targets = {hop for hop in rule.get("REDIRECT_ACTION", "").split(",") if hop}
    is_same = len(targets) == len(hops) and {hop if "@" in hop else hop.partition("@")[0] for hop in hops} <= (
        targets | {hop.partition("@")[0] for hop in targets}
    )
    return "" if is_same else f"its entry leads to {', '.join(sorted(hops)) or 'nothing that is known'}"


def _matched(field: str, value: str) -> str:
    """An attribute `<value>&mask:<mask>` as ACL_RULE_TABLE says it; ValueError."""
    text, _, mask = value.partition("&mask:")
    if field == "DSCP":
        if int(mask, 0) != 0x3F:
            raise ValueError
        return str(int(text))
    if field in ("DST_IP", "DST_IPV6"):
        ones = f"{int(ip_address(mask)):b}" if mask else ""
        length = ones.count("1") if "01" not in ones else -1
        return str(ip_network(f"{text}/{length}"))
    return value


PAUSE = 20
"""between searches for entries, in times of what the last one took"""


class Entries:
    """Reads them. What was seen is not read again until `forget`, nor are group members."""

    def __init__(self, db: Database, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._db, self._clock_s, self._search_at_s = db, clock_s, 0.0
        self._seen: dict[str, Row] = {}
        self._entries: dict[str, Row] | None = None
        self._members: dict[str, list[Row]] | None = None
        self._weights: list[dict[str, int]] | None = None
        self._names: Row | None = None

    def forget(self) -> None:
        """Everything is read anew from now on."""
        self._seen.clear()
        self._entries = self._members = self._weights = self._names = None

    def unseen(self, rules: Mapping[str, Row]) -> dict[str, str] | None:
        """Of rules as ACL_RULE_TABLE has them those that the ASIC does not have, with the reason. Raises DatabaseLost.

        None: nobody can tell, for there is no ASIC_DB to read.
        """
        open_rules = {key: row for key, row in rules.items() if self._seen.get(key) != row}
        if not open_rules:
            return {}
        begun_s = self._clock_s()
        if begun_s >= self._search_at_s:
            self._entries = self._members = self._names = None
        if not self.interfaces:
            return None
        (counters,) = self._db.hashes(COUNTERS, [RULE_MAP])
        if self._entries is None:
            self._entries = {row.get(f"{ENTRY}ACTION_COUNTER", ""): row for row in self._rows("ACL_ENTRY")}
            self._search_at_s = begun_s + PAUSE * (self._clock_s() - begun_s)
        entries = self._entries
        told = {}
        for key, row in open_rules.items():
            entry = entries.get(counters.get(key, ""))
            reason = "the ASIC has no entry of it" if entry is None else difference(row, entry, self._leads(entry))
            if reason:
                told[key] = reason
            else:
                self._seen[key] = row
        return told

    @property
    def interfaces(self) -> Row:
        """Names of ports and LAGs by object id; empty where COUNTERS_DB has none."""
        if self._names is None:
            maps = self._db.hashes(COUNTERS, NAME_MAPS)
            self._names = {oid: name for found in maps for name, oid in found.items()}
        return self._names

    def groups(self) -> list[dict[str, int]]:
        """Each next-hop group of the ASIC: its members with their weights. Raises DatabaseLost."""
        if self._weights is None:
            self._weights = self._read_groups()
        return self._weights

    def _read_groups(self) -> list[dict[str, int]]:
        weights: list[dict[str, int]] = []
        for rows in self._by_group().values():
            of: dict[str, int] = {}
            for row in rows:
                weight = row.get(f"{MEMBER}WEIGHT", "1")
                for hop in self._hops(row.get(f"{MEMBER}NEXT_HOP_ID", "")):
                    of[hop] = int(weight) if weight.isdecimal() else 0
            weights.append(of)
        return weights

    def _by_group(self) -> dict[str, list[Row]]:
        if self._members is None:
            self._members = {}
            for row in self._rows("NEXT_HOP_GROUP_MEMBER"):
                self._members.setdefault(row.get(f"{MEMBER}NEXT_HOP_GROUP_ID", ""), []).append(row)
        return self._members

    def _rows(self, kind: str) -> list[Row]:
        return self._db.hashes(ASIC, sorted(set(self._db.scan(ASIC, f"{PREFIX}{kind}:*"))))

    def _leads(self, entry: Mapping[str, str]) -> list[str]:
        oid = entry.get(f"{ENTRY}ACTION_REDIRECT", "")
        return sorted(self._hops(oid) or self._of_group(oid)) if oid else []

    def _of_group(self, oid: str) -> Iterator[str]:
        for row in self._by_group().get(oid, ()):
            yield from self._hops(row.get(f"{MEMBER}NEXT_HOP_ID", ""))

    def _hops(self, oid: str) -> list[str]:
        """A next hop as a row names it; none where the object is none."""
        (hop,) = self._db.hashes(ASIC, [f"{PREFIX}NEXT_HOP:{oid}"])
        address = hop.get("SAI_NEXT_HOP_ATTR_IP")
        if address is None:
            return []
        of = hop.get("SAI_NEXT_HOP_ATTR_ROUTER_INTERFACE_ID", "")
        (interface,) = self._db.hashes(ASIC, [f"{PREFIX}ROUTER_INTERFACE:{of}"])
        name = self.interfaces.get(interface.get("SAI_ROUTER_INTERFACE_ATTR_PORT_ID", ""))
        return [f"{address}@{name}" if name else address]
