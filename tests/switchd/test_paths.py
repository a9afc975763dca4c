"""The path backend over values, and over orchagent's stand-in: packets go where the intent and the routes say."""

import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from ipaddress import ip_address, ip_network

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from qclimb.intent import BALANCED, PathWeights, QueueClass, SwitchIntent

from lab.control.vasic.forwarding import Member, forwarding
from lab.control.vasic.machine.machine import Machine
from lab.control.vasic.machine.waiting import Task
from switchd.paths import MOST_EXCEPTIONS, RULES, TABLES, TYPES, Network, is_own, steer
from switchd.plan import plan
from switchd.qosmap import Refused
from switchd.routes import Hop, Route, exceptions, route_of
from switchd.rows import Delete, Put, Rows, applied
from switchd.uplinks import Uplinks, check_paths, uplinks_of
from switchd.weights import path_rows
from tests.tiers import examples

SPINES = {"s1": ("Ethernet16",), "s2": ("Ethernet20",), "s3": ("PortChannel1",), "s4": ("Ethernet32", "Ethernet36")}
EDGE = ("Ethernet0", "Ethernet4")
UPLINKS = Uplinks(SPINES, EDGE)
LINKS = tuple(link for links in SPINES.values() for link in links)
ADDRESS = {link: f"10.0.{n}.1" for n, link in enumerate(LINKS)}
ADDRESS6 = {link: f"fc00:{n + 1}::1" for n, link in enumerate(LINKS)}


def intent(*paths: str, **more: object) -> SwitchIntent:
    """Classes by their paths: all pinned ones in queue 6, the last in queue 5."""
    classes = tuple(
        QueueClass(n, 47 - 4 * n, 5 if path == BALANCED else 6, path) for n, path in enumerate((*paths, BALANCED))
    )
    return SwitchIntent(1, "enabled", classes, **more)  # type: ignore[arg-type]


@dataclass
class Bed:
    """A leaf: what its databases tell, and orchagent's stand-in behind the ACL rows."""

    up: set[str] = field(default_factory=lambda: set(LINKS))
    neighbours: dict[str, set[str]] = field(default_factory=dict)
    routes: dict[str, tuple[str, ...]] = field(default_factory=dict)
    acl: Rows = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.machine = Machine([*EDGE, "Ethernet16", "Ethernet20", "Ethernet28", "Ethernet32", "Ethernet36"])
        self.set("LAG_TABLE", "PortChannel1", oper_status="up")
        self.set("LAG_MEMBER_TABLE", "PortChannel1:Ethernet28", status="enabled")
        for link in (*LINKS, *EDGE):
            self.set("INTF_TABLE", link, NULL="NULL")
            if link != "PortChannel1":
                self.machine.port_event(link, True)
        for link in LINKS:
            self.neighbour(link, ADDRESS[link])

    def set(self, table: str, key: str, **row: str) -> None:
        self.machine.event(table, [Task("SET", key, row)])

    def delete(self, table: str, key: str) -> None:
        self.machine.event(table, [Task("DEL", key)])

    def link(self, name: str, is_up: bool) -> None:
        (self.up.add if is_up else self.up.discard)(name)
        if name == "PortChannel1":
            self.set("LAG_TABLE", name, oper_status="up" if is_up else "down")
        else:
            self.machine.port_event(name, is_up)

    def neighbour(self, link: str, address: str, is_there: bool = True) -> None:
        (self.neighbours.setdefault(link, set()).add if is_there else self.neighbours[link].discard)(address)
        if is_there:
            self.set("NEIGH_TABLE", f"{link}:{address}", neigh="00:11:22:33:44:55")
        else:
            self.delete("NEIGH_TABLE", f"{link}:{address}")

    def route(self, prefix: str, *spines: str) -> None:
        """By these spines; by none: to whoever is on the first edge port."""
        self.routes[prefix] = spines

    @property
    def network(self) -> Network:
        found = {}
        for prefix, spines in self.routes.items():
            address = ADDRESS if "." in prefix else ADDRESS6
            hops = [Hop(address[link], link) for spine in spines for link in SPINES[spine]]
            found[ip_network(prefix)] = Route(tuple(hops) or (Hop("0.0.0.0", EDGE[0]),))
        status = {}
        for name, word in self.machine.state_db.items():
            table, _, key = name.partition("|")
            if table in (RULES, TABLES):
                status[key] = word
        neighbours = {link: tuple(sorted(found)) for link, found in self.neighbours.items()}
        return Network(frozenset(self.up), neighbours, found, self.acl, status)

    def step(self, wanted: SwitchIntent | None, again: bool = True) -> int:
        """One look of the daemon; answers how many changes it made."""
        now = self.network
        waits = steer(wanted, UPLINKS, now).waits if again else frozenset()
        changes = steer(wanted, UPLINKS, now, frozenset(waits)).changes
        for table in (TYPES, TABLES, RULES):
            tasks = [
                Task("DEL", one.key) if isinstance(one, Delete) else Task("SET", one.key, dict(one.row))
                for one in changes
                if isinstance(one, Put | Delete) and one.table == table
            ]
            if tasks:
                self.machine.event(table, tasks)
        self.acl = applied(self.acl, changes)
        return len(changes)

    def settle(self, wanted: SwitchIntent | None) -> None:
        for _ in range(6):
            self.step(wanted)

    def goes(self, dscp: int, to: str, port: str = EDGE[0]) -> frozenset[Member] | None:
        """Where ACL rules send a packet; None: where routing does."""
        address = ip_address(to)
        for rule in forwarding(self.machine).rules:
            is_matched = (
                port in rule.ports
                and rule.version in (0, address.version)
                and (rule.dscp is None or dscp & rule.dscp[1] == rule.dscp[0])
                and (rule.to is None or address in ip_network(rule.to))
            )
            if is_matched:
                return None if rule.members is None else frozenset(rule.members)
        return None

    def expected(self, wanted: SwitchIntent | None, dscp: int, to: str) -> frozenset[Member] | None:
        """The same without anything of ours: the class's spine where it is a way to this address."""
        address = ip_address(to)
        of_dscp = {one.dscp: one.path for one in wanted.classes} if wanted and wanted.admin_state == "enabled" else {}
        spine = of_dscp.get(dscp, BALANCED)
        if spine == BALANCED:
            return None
        addresses = ADDRESS if address.version == 4 else ADDRESS6
        live = [link for link in SPINES[spine] if link in self.up and addresses[link] in self.neighbours.get(link, ())]
        fitting = [ip_network(prefix) for prefix in self.routes if address in ip_network(prefix)]
        best = max(fitting, key=lambda one: one.prefixlen, default=None)
        is_way = best is None or spine in self.routes[str(best)]
        some = any(
            spine in spines for prefix, spines in self.routes.items() if (":" in prefix) == (address.version == 6)
        )
        return frozenset(Member(addresses[link], link) for link in live) if live and is_way and some else None


def bed(**more: object) -> Bed:
    found = Bed(**more)  # type: ignore[arg-type]
    found.route("198.19.2.0/24", "s1", "s2", "s3", "s4")
    found.route("198.19.1.0/24")
    return found


FAR, NEAR = "198.19.2.9", "198.19.1.9"


def test_each_class_goes_by_its_spine_and_the_last_where_routing_sends_it() -> None:
    leaf = bed()
    leaf.settle(intent("s1", "s2", "s3", "s4"))
    for dscp, link in ((47, "Ethernet16"), (43, "Ethernet20"), (39, "PortChannel1")):
        assert leaf.goes(dscp, FAR) == {Member(ADDRESS[link], link)}
    assert leaf.goes(35, FAR) == {Member(ADDRESS[link], link) for link in SPINES["s4"]}
    assert leaf.goes(31, FAR) is None
    assert leaf.goes(0, FAR) is None
    assert leaf.goes(47, FAR, port="Ethernet16") is None
    assert all(leaf.goes(dscp, NEAR) is None for dscp in (47, 43, 39, 35))


def test_looking_again_changes_nothing() -> None:
    leaf = bed()
    leaf.settle(intent("s1", "s2"))
    assert leaf.step(intent("s1", "s2")) == 0


def test_every_rule_counts_and_only_own_names_are_written() -> None:
    leaf = bed()
    changes = steer(intent("s1"), UPLINKS, leaf.network).changes
    assert all(is_own(one.key) for one in changes)
    (kind,) = [one for one in changes if one.table == TYPES]
    assert isinstance(kind, Put)
    assert "COUNTER" in kind.row["ACTIONS"]
    leaf.settle(intent("s1"))
    assert all(rule.counter for rule in forwarding(leaf.machine).rules)


def test_disabled_or_gone_leaves_nothing() -> None:
    for off in (None, replace(intent("s1"), admin_state="disabled"), intent()):
        leaf = bed()
        leaf.settle(intent("s1", "s2", "s3", "s4"))
        leaf.step(off)
        assert not any(leaf.acl.values())
        assert not forwarding(leaf.machine).rules


@pytest.mark.parametrize("spine", ["s1", "s3"])
def test_a_rule_goes_with_its_link_at_once_and_comes_back_with_it(spine: str) -> None:
    leaf, wanted = bed(), intent("s1", "s2", "s3")
    leaf.settle(wanted)
    dscp, link = 47 - 4 * (int(spine[1]) - 1), SPINES[spine][0]
    leaf.link(link, False)
    leaf.step(wanted)
    assert leaf.goes(dscp, FAR) is None
    told = steer(wanted, UPLINKS, leaf.network)
    assert told.spines[spine]["status"] == "down"
    assert f"{link} is down" in told.classes[str(int(spine[1]) - 1)]["reason"]
    assert told.classes[str(int(spine[1]) - 1)]["status"] == "fallen-back"
    leaf.link(link, True)
    leaf.settle(wanted)
    assert leaf.goes(dscp, FAR) == {Member(ADDRESS[link], link)}


def test_a_rule_goes_with_its_neighbour_and_is_not_written_before_it() -> None:
    leaf, wanted = bed(), intent("s1", "s2")
    leaf.neighbour("Ethernet16", ADDRESS["Ethernet16"], False)
    leaf.settle(wanted)
    assert leaf.goes(47, FAR) is None
    assert leaf.goes(43, FAR) is not None
    assert steer(wanted, UPLINKS, leaf.network).spines["s1"]["status"] == "unresolved"
    leaf.neighbour("Ethernet16", ADDRESS["Ethernet16"])
    leaf.settle(wanted)
    assert leaf.goes(47, FAR) is not None
    leaf.neighbour("Ethernet16", ADDRESS["Ethernet16"], False)
    leaf.step(wanted)
    assert leaf.goes(47, FAR) is None


def test_a_spine_with_two_links_loses_one_and_keeps_the_other() -> None:
    leaf, wanted = bed(), intent("s4")
    leaf.settle(wanted)
    leaf.link("Ethernet32", False)
    leaf.settle(wanted)
    assert leaf.goes(47, FAR) == {Member(ADDRESS["Ethernet36"], "Ethernet36")}


def test_a_prefix_whose_route_lost_the_spine_is_routed_and_a_longer_one_that_has_it_is_not() -> None:
    leaf, wanted = bed(), intent("s1", "s2")
    leaf.route("198.19.0.0/16", "s2")
    leaf.settle(wanted)
    assert leaf.goes(47, "198.19.3.1") is None
    assert leaf.goes(47, FAR) is not None
    assert leaf.goes(43, "198.19.3.1") is not None
    leaf.route("198.19.2.0/24", "s2")
    leaf.route("198.19.4.0/24", "s1")
    leaf.settle(wanted)
    assert leaf.goes(47, FAR) is None
    assert leaf.goes(43, FAR) is not None


def test_ipv6_has_a_table_of_its_own() -> None:
    leaf, wanted = bed(), intent("s1", "s2")
    leaf.route("2001:db8:2::/64", "s1", "s2")
    leaf.route("2001:db8:1::/64")
    for link in LINKS:
        leaf.neighbour(link, ADDRESS6[link])
    leaf.settle(wanted)
    assert leaf.goes(47, "2001:db8:2::9") == {Member(ADDRESS6["Ethernet16"], "Ethernet16")}
    assert leaf.goes(47, "2001:db8:1::9") is None
    assert leaf.goes(47, FAR) == {Member(ADDRESS["Ethernet16"], "Ethernet16")}


def test_a_new_next_hop_is_redirected_to_before_the_old_rule_goes() -> None:
    leaf, wanted = bed(), intent("s4")
    leaf.link("Ethernet36", False)
    leaf.settle(wanted)
    leaf.link("Ethernet36", True)
    for _ in range(4):
        leaf.step(wanted)
        assert leaf.goes(47, FAR), "there is always a rule"
    assert leaf.goes(47, FAR) == {Member(ADDRESS[link], link) for link in SPINES["s4"]}


def test_too_many_prefixes_beside_a_spine_are_said_and_the_class_falls_back() -> None:
    leaf = bed()
    for n in range(MOST_EXCEPTIONS + 1):
        leaf.route(f"198.{20 + n // 256}.{n % 256}.0/24", "s2")
    told = steer(intent("s1", "s2"), UPLINKS, leaf.network)
    assert told.classes["0"]["status"] == "fallen-back"
    assert "would need a rule of their own, expected at most 256" in told.classes["0"]["reason"]
    assert told.classes["1"]["status"] == "pending"


def test_a_rule_that_orchagent_refused_is_told_and_written_again_when_it_is_time() -> None:
    leaf, wanted = bed(), intent("s1")
    leaf.delete("NEIGH_TABLE", f"Ethernet16:{ADDRESS['Ethernet16']}")  # orchagent is behind APPL_DB
    leaf.step(wanted, again=False)
    told = steer(wanted, UPLINKS, leaf.network)
    assert told.classes["0"]["status"] == "pending"
    assert "orchagent says Inactive" in told.classes["0"]["reason"]
    assert not told.changes
    leaf.neighbour("Ethernet16", ADDRESS["Ethernet16"])
    leaf.settle(wanted)
    assert leaf.goes(47, FAR) is not None
    assert steer(wanted, UPLINKS, leaf.network).classes["0"]["status"] == "applied"


EVENTS = ("link", "neighbour", "route", "intent", "look", "look")
PREFIXES = (
    "0.0.0.0/0",
    "198.19.0.0/16",
    "198.19.2.0/24",
    "198.19.2.8/29",
    "198.19.1.0/24",
    "2001:db8::/32",
    "2001:db8:2::/64",
)
PLACES = ("8.8.8.8", "198.19.7.7", FAR, "198.19.2.200", NEAR, "2001:db8:9::1", "2001:db8:2::1", "2002::1")
INTENTS = (None, intent(), intent("s1"), intent("s2", "s1"), intent("s1", "s2", "s3", "s4"), intent("s4", "s3"))


@settings(max_examples=examples(20), deadline=None)
@given(st.integers(0, 10**9))
def test_after_any_history_packets_go_as_routes_and_intent_say(seed: int) -> None:
    chance, leaf, wanted = random.Random(seed), bed(), INTENTS[4]
    for _ in range(chance.randint(1, 25)):
        happens = chance.choice(EVENTS)
        if happens == "link":
            leaf.link(chance.choice(LINKS), chance.random() < 0.6)
        elif happens == "neighbour":
            link = chance.choice(LINKS)
            address = chance.choice((ADDRESS, ADDRESS6))[link]
            leaf.neighbours.setdefault(link, set())
            leaf.neighbour(link, address, chance.random() < 0.7)
        elif happens == "route":
            leaf.route(chance.choice(PREFIXES), *chance.sample(list(SPINES), chance.randint(0, 4)))
        elif happens == "intent":
            wanted = chance.choice(INTENTS)
        else:
            leaf.step(wanted, again=chance.random() < 0.5)
            targets = {
                one.interface
                for rule in forwarding(leaf.machine).rules
                for one in rule.members or ()
                if rule.members and len(rule.members) == 1
            }
            assert targets <= leaf.up
    leaf.settle(wanted)
    assert leaf.step(wanted) == 0
    for dscp in (0, 31, 35, 39, 43, 47):
        for to in PLACES:
            assert leaf.goes(dscp, to) == leaf.expected(wanted, dscp, to), (dscp, to)
    leaf.step(None)
    assert not any(leaf.acl.values())


@given(st.dictionaries(st.sampled_from([ip_network(p) for p in PREFIXES]), st.booleans()))
def test_exceptions_say_the_same_as_all_prefixes(goes: Mapping[object, bool]) -> None:
    few = exceptions(goes)  # type: ignore[arg-type]
    for place in PLACES:
        said = []
        for of in (goes, few):
            fitting = [one for one in of if ip_address(place) in one]  # type: ignore[operator]
            best = max(fitting, key=lambda one: one.prefixlen, default=None)  # type: ignore[attr-defined]
            said.append(True if best is None else of[best])  # type: ignore[index]
        assert said[0] == said[1]


# uplinks

ROWS: Rows = {
    "PORT": {f"Ethernet{4 * n}": {} for n in range(8)},
    "DEVICE_METADATA": {"localhost": {"hostname": "l1", "type": "LeafRouter"}},
    "DEVICE_NEIGHBOR": {
        "Ethernet0": {"name": "h1"},
        "Ethernet16": {"name": "s1"},
        "Ethernet20": {"name": "s2"},
        "Ethernet24": {"name": "s2"},
        "Ethernet28": {"name": "s3"},
    },
    "DEVICE_NEIGHBOR_METADATA": {
        "h1": {"type": "Server"},
        "s1": {"type": "SpineRouter"},
        "s2": {"type": "SpineRouter"},
    },
    "BGP_NEIGHBOR": {"10.0.3.1": {"name": "s3"}},
    "PORTCHANNEL_MEMBER": {"PortChannel1|Ethernet20": {}, "PortChannel1|Ethernet24": {}},
}


def test_uplinks_are_told_by_neighbours_with_or_without_an_intent() -> None:
    of = {"s1": ("Ethernet16",), "s2": ("PortChannel1",), "s3": ("Ethernet28",)}
    for wanted in (None, intent("s1")):
        found = uplinks_of(wanted, ROWS)
        assert dict(found.of) == of
        assert found.edge == ("Ethernet0", "Ethernet4", "Ethernet8", "Ethernet12")
    granted = intent("s1", ports=("Ethernet4", "Ethernet16"))
    assert uplinks_of(granted, ROWS).edge == ("Ethernet4",)


def test_a_spine_steers_nothing() -> None:
    rows = {**ROWS, "DEVICE_METADATA": {"localhost": {"hostname": "s1"}}}
    assert uplinks_of(intent("s1", "s9"), rows) == Uplinks()
    check_paths(intent("s1", "s9"), rows)


def test_a_path_that_no_uplink_leads_to_is_refused() -> None:
    with pytest.raises(Refused, match="class 1: path 's9': no uplink leads there; expected one of s1, s2, s3"):
        check_paths(intent("s1", "s9"), ROWS)
    with pytest.raises(Refused, match="path 's9': no uplink leads there"):
        check_paths(intent(path_weights=PathWeights({"s1": 0.5, "s9": 0.5})), ROWS)
    with pytest.raises(Refused, match="every granted port leads to a switch"):
        check_paths(intent("s1", ports=("Ethernet16",)), ROWS)


def test_a_leaf_takes_several_classes_in_one_queue_and_without_a_backend_none() -> None:
    wanted = intent("s1", "s2")
    with pytest.raises(Refused, match="class 0: path 's1' needs a path backend"):
        plan(wanted, ROWS)
    after = applied(ROWS, plan(wanted, ROWS, backend="acl").changes)
    refs = after["PORT_QOS_MAP"]["Ethernet0"]
    tc_of, queue_of = after["DSCP_TO_TC_MAP"][refs["dscp_to_tc_map"]], after["TC_TO_QUEUE_MAP"][refs["tc_to_queue_map"]]
    assert [queue_of[tc_of[dscp]] for dscp in ("47", "43", "39")] == ["6", "6", "5"]
    assert not plan(wanted, after, backend="acl").changes
    assert applied(after, plan(None, after, backend="acl").changes) == ROWS
    with pytest.raises(Refused, match="no uplink leads there"):
        plan(intent("s9"), ROWS, backend="acl")


# weights

SHARES = PathWeights({"s1": 0.6, "s2": 0.4})


def rows_with(*weights: int, up: tuple[str, ...] = ("s1", "s2")) -> dict[str, dict[str, str]]:
    hops = tuple(
        Hop(ADDRESS[link], link, weight) for link, weight in zip(("Ethernet16", "Ethernet20"), weights, strict=True)
    )
    spines = {
        s: {"status": "up" if s in up else "down", "reason": "x", "next_hops": "10.0.0.1@Ethernet16"} for s in SPINES
    }
    return path_rows(SHARES, UPLINKS, spines, Network(routes={ip_network("198.19.2.0/24"): Route(hops)}))


def test_weights_are_applied_only_where_routes_have_them() -> None:
    assert {row["status"] for row in rows_with(153, 102).values()} == {"active"}
    found = rows_with(1, 1)["s1"]
    assert found["status"] == "equal-cost"
    assert found["reason"].startswith("weights: not applied (the routes are FRR's, and 198.19.2.0/24 has s1 0.500")
    assert "set extcommunity bandwidth 600" in found["frr"]
    assert "neighbor 10.0.0.1 route-map QCLIMB_s1 in" in found["frr"]
    assert rows_with(153, 102, up=("s1",))["s2"]["status"] == "down"


def test_without_a_route_by_two_spines_nobody_can_tell() -> None:
    spines = {s: {"status": "up"} for s in SPINES}
    found = path_rows(SHARES, UPLINKS, spines, Network())
    assert found["s1"]["reason"] == "weights: not applied (APPL_DB has no route by several of these spines)"


def test_routes_are_read_by_group_and_by_next_hop() -> None:
    row = {"nexthop": "10.0.0.1,10.0.1.1", "ifname": "Ethernet16,Ethernet20", "weight": "3,1"}
    hops = (Hop("10.0.0.1", "Ethernet16", 3), Hop("10.0.1.1", "Ethernet20", 1))
    assert route_of(row, {}).hops == hops
    assert route_of({"nexthop_group": "7"}, {"7": row}).hops == hops
    assert route_of({"nexthop_group": "8"}, {"7": row}).hops == ()
    assert route_of({"nexthop_group": "7", **row}, {"7": row}).hops == (), "of two writers"
    one, other = ({"nexthop": hop.address, "ifname": hop.interface} for hop in hops)
    groups = {"a": one, "b": other, "of both": {"nexthop_group": "a,b", "weight": "3,1"}}
    assert route_of({"nexthop_group": "of both"}, groups).hops == hops
    groups["of both"] = {"nexthop_group": "a,missing"}
    assert route_of({"nexthop_group": "of both"}, groups).hops == (Hop("10.0.0.1", "Ethernet16"),)
    assert route_of({"nexthop": "0.0.0.0", "ifname": "Vlan1000"}, {}).hops == (Hop("0.0.0.0", "Vlan1000"),)
