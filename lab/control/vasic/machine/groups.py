"""Next-hop groups by name (`nhgorch`), and a group's members, which routes and ACL rules share with them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from qclimb.orchagent import Refused, tokens

from lab.control.vasic.machine.next_hops import Hop, HopSet, NextHops, hop_set
from lab.control.vasic.machine.ports import PortsOrch
from lab.control.vasic.machine.sai import InUse, Sai
from lab.control.vasic.machine.waiting import Ended, Orch, Retry, Task

WEIGHT = "SAI_NEXT_HOP_GROUP_MEMBER_ATTR_WEIGHT"


def add_member(sai: Sai, group: str, next_hop: str, weight: int, bulk: bool) -> str:
    """A member of a group; weight 0: not given."""
    attributes = {
        "SAI_NEXT_HOP_GROUP_MEMBER_ATTR_NEXT_HOP_GROUP_ID": group,
        "SAI_NEXT_HOP_GROUP_MEMBER_ATTR_NEXT_HOP_ID": next_hop,
        **({WEIGHT: str(weight)} if weight else {}),
    }
    return sai.create("NEXT_HOP_GROUP_MEMBER", attributes, bulk=bulk)


def add_group(sai: Sai) -> str:
    """A group without members."""
    return sai.create("NEXT_HOP_GROUP", {"SAI_NEXT_HOP_GROUP_ATTR_TYPE": "SAI_NEXT_HOP_GROUP_TYPE_ECMP"})


def hops_of(row: Mapping[str, str]) -> list[Hop]:
    """The next hops of the fields nexthop and ifname.

    Raises:
        Ended: fewer interfaces than addresses end orchagent.
        Blocking: an address is none.
    """
    addresses, interfaces = tokens(row.get("nexthop", ""), ","), tokens(row.get("ifname", ""), ",")
    if len(interfaces) < len(addresses):
        raise Ended(f"{len(addresses)} next hops with {len(interfaces)} interfaces")
    return [Hop.of(address, interface) for address, interface in zip(addresses, interfaces, strict=False)]


@dataclass
class Group:
    """A group by name: what it was asked to be, and what it is.

    oid      its object, or that of its only next hop; "" if there is none
    members  weight and object of each member ("": not there)
    """

    key: HopSet
    is_recursive: bool = False
    oid: str = ""
    members: dict[Hop, tuple[int, str]] = field(default_factory=dict)
    uses: int = 0

    @property
    def is_single(self) -> bool:
        """Whether it is its only next hop, without an object of its own."""
        return not self.is_recursive and len(self.members) == 1


class GroupsOrch(Orch):
    """APPL_DB's NEXTHOP_GROUP_TABLE."""

    tables = ("NEXTHOP_GROUP_TABLE",)

    def __init__(self, sai: Sai, ports: PortsOrch, next_hops: NextHops) -> None:
        super().__init__(sai)
        self._ports, self._next_hops = ports, next_hops
        self.groups: dict[str, Group] = {}
        next_hops.on_hop.append(self._link)

    def ready(self) -> bool:
        """Not before the first ports."""
        return self._ports.is_ready

    def take(self, table: str, task: Task) -> None:
        """A row."""
        standing = self.groups.get(task.key)
        if task.op == "DEL":
            if any(each.op == "SET" for each in self.waiting[table].of_key(task.key)) or standing is None:
                return
            if standing.uses:
                raise Retry
            self._remove(standing)
            del self.groups[task.key]
            return
        key, is_recursive, is_short = self._key(task)
        if standing is None:
            group = self._fresh(key, is_recursive)
            if not self._sync(group):
                self._forget(group)
                raise Retry
            self.groups[task.key] = group
        elif not self._update(standing, key):
            raise Retry
        if is_short:
            raise Retry

    def _key(self, task: Task) -> tuple[HopSet, bool, bool]:
        """Key, whether it is made of other groups, and whether one of these is not there yet."""
        row, names = task.row, tokens(task.row.get("nexthop_group", ""), ",")
        if not names:
            return hop_set(hops_of(row), row.get("weight", "")), False, False
        if row.get("nexthop") or row.get("ifname"):
            raise Refused("next hops beside groups")
        there = [self.groups[name] for name in names if name in self.groups]
        if any(group.is_recursive for group in there):
            raise Refused("a group of groups in a group")
        if not there:
            raise Retry
        hops = [hop for group in there for hop, _ in group.key]
        return hop_set(hops, row.get("weight", "")), True, len(there) < len(names)

    def _fresh(self, key: HopSet, is_recursive: bool) -> Group:
        return Group(key, is_recursive, members={hop: (weight, "") for hop, weight in key})

    def _sync(self, group: Group) -> bool:
        if group.oid:
            return True
        if group.is_single:
            (hop,) = group.members
            group.oid = self._next_hops.oid_of(hop)
            if group.oid:
                self._next_hops.use(hop)
            return bool(group.oid)
        group.oid = add_group(self.sai)
        return self._sync_members(group, group.members)

    def _sync_members(self, group: Group, hops: Iterable[Hop]) -> bool:
        """Members that are not there yet and can be; whether none lacked its next hop."""
        is_whole = True
        for hop in sorted(hops):
            weight, member = group.members[hop]
            if member:
                continue
            oid = self._next_hops.oid_of(hop)
            if not oid:
                is_whole = False
            elif not self._next_hops.is_down(hop):
                group.members[hop] = weight, add_member(self.sai, group.oid, oid, weight, bulk=True)
                self._next_hops.use(hop)
        return is_whole

    def _remove_members(self, group: Group, hops: Iterable[Hop]) -> None:
        for hop in sorted(hops):
            weight, member = group.members[hop]
            if member:
                self.sai.remove("NEXT_HOP_GROUP_MEMBER", member, bulk=True)
                self._next_hops.use(hop, -1)
                group.members[hop] = weight, ""

    def _remove(self, group: Group) -> None:
        if group.is_single:
            self._next_hops.use(next(iter(group.members)), -1)
        elif group.oid:
            self._remove_members(group, group.members)
            self.sai.remove("NEXT_HOP_GROUP", group.oid)
        group.oid = ""

    def _forget(self, group: Group) -> None:
        """A group that could not be made whole, or that became another: an object that routes name stays, empty."""
        with suppress(InUse):
            if group.oid:
                self._remove(group)

    def _update(self, group: Group, key: HopSet) -> bool:
        if not group.is_recursive and (len(group.members) == 1 or len(key) == 1):
            was, was_there = Group(group.key, False, group.oid, group.members), bool(group.oid)
            fresh = self._fresh(key, False)
            group.key, group.oid, group.members = fresh.key, "", fresh.members
            self._forget(was)
            return self._sync(group) if was_there else True
        group.key = key
        wanted = dict(key)
        for hop in sorted(set(group.members) & set(wanted)):
            weight, member = group.members[hop]
            if wanted[hop] and wanted[hop] != weight:
                group.members[hop] = wanted[hop], member
                if member:
                    self.sai.set("NEXT_HOP_GROUP_MEMBER", member, WEIGHT, str(wanted[hop]))
        gone = set(group.members) - set(wanted)
        self._remove_members(group, gone)
        for hop in gone:
            del group.members[hop]
        group.members |= {hop: (weight, "") for hop, weight in key if hop not in group.members}
        return self._sync_members(group, wanted)

    def _link(self, hop: Hop, is_up: bool) -> None:
        for group in self.groups.values():
            if hop in group.members and not group.is_single:
                if is_up:
                    self._sync_members(group, [hop])
                else:
                    self._remove_members(group, [hop])
