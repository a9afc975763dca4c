"""What an ASIC's rules and routes become in the kernel, and what the kernel's routes become in APPL_DB."""

import subprocess
from collections.abc import Iterator

import pytest

from lab.control.routing import bandwidths, best_paths, route_lines, rows_of
from lab.control.vasic.forwarding import Forwarding, Member, Redirect, forwarding
from lab.control.vasic.machine.machine import Machine
from lab.control.vasic.machine.waiting import Task
from lab.control.vasic.router import Router, RouterState, gone_lines, ip_lines, nft_lines, wanted
from lab.fabric import FabricError, Topology, netns
from lab.fabric.commands import Ip, run_all

A, B = Member("10.0.0.1", "Ethernet16"), Member("10.0.1.1", "Ethernet20", 3)
UP = frozenset({"Ethernet0", "Ethernet16", "Ethernet20"})


def rule(number: int, priority: int, *members: Member, **more: object) -> Redirect:
    of = {"ports": ("Ethernet0",), "dscp": (47, 0x3F), "members": members, **more}
    return Redirect(f"T:r{number}", f"oid:0x900000000000{number}", priority, **of)  # type: ignore[arg-type]


def sent(*rules: Redirect) -> Forwarding:
    return Forwarding(rules, {"198.19.2.0/24": (A, B), "198.19.1.1/32": (Member("", "Ethernet0"),), "0.0.0.0/0": ()})


def test_routes_have_their_weights_and_rules_their_marks() -> None:
    found = sent(rule(1, 1100, members=None, to="198.19.1.0/24", dscp=None), rule(2, 1000, A))
    now = wanted(found, UP, RouterState())
    lines = list(ip_lines(now, RouterState()))
    assert "route replace default table 2001 via 10.0.0.1 dev Ethernet16 onlink" in lines
    assert "rule add pref 50 fwmark 1 lookup 2001 protocol 71" in lines
    assert "route replace blackhole 0.0.0.0/0 table 1000" in lines
    ecmp = "nexthop via 10.0.0.1 dev Ethernet16 onlink weight 1 nexthop via 10.0.1.1 dev Ethernet20 onlink weight 3"
    assert f"route replace 198.19.2.0/24 table 1000 {ecmp}" in lines
    rules = [line for line in nft_lines(now, RouterState()) if line.startswith("add rule")]
    begin = 'add rule ip vasic ingress iifname { "Ethernet0" }'
    assert rules == [
        f"{begin} ip daddr 198.19.1.0/24 counter name c9000000000001 accept",
        f"{begin} ip dscp 47 counter name c9000000000002 meta mark set 1 accept",
    ]


def test_a_link_that_is_down_loses_what_is_sent_there() -> None:
    found = sent(rule(1, 1000, A))
    before = wanted(found, UP, RouterState())
    now = wanted(found, UP - {"Ethernet16"}, before)
    lines = list(ip_lines(now, before))
    assert "route replace blackhole default table 2002" in lines
    assert "route replace 198.19.2.0/24 table 1000 via 10.0.1.1 dev Ethernet20 onlink" in lines
    assert list(gone_lines(now, before)) == ["rule del pref 50 fwmark 1 protocol 71", "route flush table 2001"]
    again = wanted(found, UP, now)
    assert again.routes == before.routes


def test_counters_stay_with_rules_that_stay() -> None:
    before = wanted(sent(rule(1, 1000, A), rule(2, 1001, B)), UP, RouterState())
    now = wanted(sent(rule(2, 1001, B), rule(3, 1000, A)), UP, before)
    lines = list(nft_lines(now, before))
    assert "delete counter ip vasic c9000000000001" in lines
    assert not any(line.startswith("delete") and "c9000000000002" in line for line in lines)


def test_what_these_rules_cannot_match_is_said() -> None:
    machine = Machine(["Ethernet0"])
    for table, key, row in (
        (
            "ACL_TABLE_TYPE_TABLE",
            "T",
            {"MATCHES": "DSCP,L4_DST_PORT", "ACTIONS": "PACKET_ACTION,COUNTER", "BIND_POINTS": "PORT"},
        ),
        ("ACL_TABLE_TABLE", "T", {"type": "T", "stage": "ingress", "ports": "Ethernet0"}),
        ("ACL_RULE_TABLE", "T:a", {"PRIORITY": "1", "L4_DST_PORT": "80", "PACKET_ACTION": "DROP"}),
        ("ACL_RULE_TABLE", "T:b", {"PRIORITY": "2", "DSCP": "8/0x38", "PACKET_ACTION": "DROP"}),
    ):
        machine.event(table, [Task("SET", key, row)])
    found = forwarding(machine)
    assert found.problems == ["T:a: not programmed: it matches L4_DST_PORT=80"]
    (one,) = found.rules
    assert (one.dscp, one.members) == ((8, 0x38), ())


@pytest.fixture
def inside() -> Iterator[str]:
    """A namespace with Ethernet0 and Ethernet16, both with somebody at the other end."""
    name = "qc-router-test"
    try:
        subprocess.run(["ip", "netns", "add", name], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as wrong:
        pytest.skip(f"no network namespaces here: {wrong}")
    try:
        for n, port in enumerate(("Ethernet0", "Ethernet16")):
            run_all([Ip(name, f"link add name {port} type veth peer name far{n}")])
            run_all([Ip(name, f"link set dev {port} up"), Ip(name, f"link set dev far{n} up")])
            run_all([Ip(name, f"addr add 10.0.{n}.0/31 dev {port}")])
        yield name
    finally:
        subprocess.run(["ip", "netns", "del", name], check=True)


def test_the_kernel_takes_what_is_written_and_gives_it_back(inside: str) -> None:
    hop = Member("10.0.1.1", "Ethernet16")
    with netns.entered(inside):
        router = Router()
        found = Forwarding(
            (rule(1, 1000, hop),), {"198.19.2.0/24": (hop,), "198.19.1.1/32": (Member("", "Ethernet0"),)}
        )
        assert router.apply(found, UP)
        assert not router.apply(found, UP)
        assert router.counters() == {"oid:0x9000000000001": (0, 0)}
        told = subprocess.run(["ip", "route", "show", "table", "1000"], capture_output=True, text=True, check=True)
        assert "198.19.2.0/24 via 10.0.1.1 dev Ethernet16 onlink" in told.stdout
        assert router.apply(Forwarding((), {}), UP)
        for words in (
            ["route", "show", "table", "1000"],
            ["route", "show", "table", "2001"],
            ["rule", "show", "pref", "50"],
        ):
            assert not subprocess.run(["ip", *words], capture_output=True, text=True, check=False).stdout
        with pytest.raises(FabricError):
            router.apply(Forwarding((), {"198.19.2.0/24": (Member("10.9.9.9", "Ethernet99"),)}), UP | {"Ethernet99"})
        run_all([Ip("", f"rule add pref {pref} to 192.0.2.0/24 lookup 77") for pref in (50, 100)])
        Router()
        rules = subprocess.run(["ip", "rule"], capture_output=True, text=True, check=True).stdout
        assert "lookup 1000" not in rules
        assert rules.count("lookup 77") == 2, "others' of the same preferences"


ROUTES = [
    {"dst": "198.19.1.1", "dev": "Ethernet0", "scope": "link", "flags": []},
    {"dst": "198.18.0.0/24", "dev": "mgmt", "flags": []},
    {
        "dst": "198.19.2.0/24",
        "protocol": "bgp",
        "nexthops": [
            {"gateway": "10.0.0.1", "dev": "Ethernet16", "weight": 1, "flags": []},
            {"gateway": "10.0.1.1", "dev": "Ethernet20", "weight": 1, "flags": []},
            {"gateway": "10.0.2.1", "dev": "Ethernet24", "weight": 1, "flags": ["dead", "linkdown"]},
        ],
    },
]


def test_the_kernels_routes_become_rows() -> None:
    neighbours = [
        {"dst": "10.0.0.1", "dev": "Ethernet16", "lladdr": "00:11:22:33:44:55", "state": ["PERMANENT"]},
        {"dst": "10.0.1.1", "dev": "Ethernet20", "state": ["FAILED"]},
    ]
    addresses = [{"ifname": "Ethernet16", "addr_info": [{"family": "inet", "local": "10.0.0.0", "prefixlen": 31}]}]
    found = rows_of(ROUTES, neighbours, addresses)
    assert found["ROUTE_TABLE:198.19.1.1"] == {"protocol": "static", "nexthop": "0.0.0.0", "ifname": "Ethernet0"}
    assert found["ROUTE_TABLE:198.19.2.0/24"] == {
        "protocol": "bgp",
        "nexthop": "10.0.0.1,10.0.1.1",
        "ifname": "Ethernet16,Ethernet20",
        "weight": "1,1",
    }
    assert found["NEIGH_TABLE:Ethernet16:10.0.0.1"]["neigh"] == "00:11:22:33:44:55"
    assert {"INTF_TABLE:Ethernet16", "INTF_TABLE:Ethernet16:10.0.0.0/31"} < found.keys()
    assert not any("mgmt" in key or "Ethernet20" in key for key in found)


def test_bandwidths_become_weights_where_all_next_hops_have_one() -> None:
    text = "route-map QCLIMB_s1 permit 10\n set extcommunity bandwidth 600\nexit\n"
    text += "router bgp\n  neighbor 10.0.0.1 route-map QCLIMB_s1 in"
    known = bandwidths([text, text.replace("600", "400").replace("10.0.0.1", "10.0.1.1")])
    assert known == {"10.0.0.1": 600, "10.0.1.1": 400}
    hops = [("10.0.0.1", "Ethernet16"), ("10.0.1.1", "Ethernet20")]
    (line,) = route_lines(Topology(), {"198.19.2.0/24": hops}, ROUTES, known)
    assert line == (
        "route replace 198.19.2.0/24 nexthop via 10.0.0.1 dev Ethernet16 weight 255 "
        "nexthop via 10.0.1.1 dev Ethernet20 weight 170"
    )
    (line,) = route_lines(Topology(), {"198.19.2.0/24": hops}, ROUTES, {"10.0.0.1": 600})
    assert line.count("weight 1") == 2
    (line,) = route_lines(Topology(), {"198.19.2.0/24": hops[:1]}, ROUTES, known)
    assert line == "route replace 198.19.2.0/24 via 10.0.0.1 dev Ethernet16"
    assert list(route_lines(Topology(), {}, ROUTES, known)) == ["route flush exact 198.19.2.0/24"]


def test_a_leaf_has_a_rack_by_the_spines_that_reach_it() -> None:
    topology = Topology(leaves=2, spines=2)
    every = {port.name for port in topology.ports}
    of_spines = {spine: best_paths(topology, spine, every, {}) for spine in topology.spine_names}
    assert set(of_spines["s1"]) == {"198.19.1.0/24", "198.19.2.0/24"}
    reach = {spine: set(found) for spine, found in of_spines.items()}
    whole = best_paths(topology, "l1", every, reach)
    assert [port for _, port in whole["198.19.2.0/24"]] == ["Ethernet16", "Ethernet20"]
    assert set(whole) == {"198.19.2.0/24"}
    reach["s1"].discard("198.19.2.0/24")
    assert [port for _, port in best_paths(topology, "l1", every, reach)["198.19.2.0/24"]] == ["Ethernet20"]
    assert best_paths(topology, "l1", every - {"Ethernet20"}, reach) == {}
