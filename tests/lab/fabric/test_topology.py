"""Topology and plan as values: no root, no processes."""

from ipaddress import ip_address, ip_network

import pytest

from lab.fabric.commands import Ip, Tc, Write
from lab.fabric.plan import MOST_WAITING, build, congestion_control, namespaces
from lab.fabric.topology import FabricError, Topology

SMALL = Topology(leaves=2, spines=2, hosts_per_leaf=4)
LARGE = Topology(leaves=8, spines=8, hosts_per_leaf=12)


def test_the_default_has_two_leaves_two_spines_and_eight_hosts_of_25_mbps():
    assert (SMALL.leaf_names, SMALL.spine_names, len(SMALL.hosts)) == (["l1", "l2"], ["s1", "s2"], 8)
    assert {port.rate_bps for port in SMALL.switch_ports if not port.peer_is_switch} == {25_000_000}
    assert {port.rate_bps for port in SMALL.switch_ports if port.peer_is_switch} == {50_000_000}


def test_management_addresses_are_the_agreed_ones():
    addresses = {name: node.mgmt_address for name, node in SMALL.nodes.items()}
    assert addresses["mgmt"] == "198.18.0.1"
    assert [addresses[name] for name in ("l1", "l2", "s1", "s2")] == [f"198.18.0.{n}" for n in (11, 12, 13, 14)]
    assert [addresses[f"h{n}"] for n in (1, 8)] == ["198.18.0.101", "198.18.0.108"]


@pytest.mark.parametrize("topology", [SMALL, LARGE, Topology(1, 1, 1)])
def test_each_cable_has_two_ends_that_name_each_other(topology):
    by_index = {port.ifindex: port for port in topology.ports}
    assert len(by_index) == len(topology.ports)
    for port in topology.ports:
        other = by_index[port.peer_ifindex]
        assert (other.node, other.name, other.peer_ifindex) == (port.peer_node, port.peer_name, port.ifindex)
        assert port.peer_mac == other.mac


@pytest.mark.parametrize("topology", [SMALL, LARGE])
def test_addresses_are_unique_and_inside_the_benchmark_networks(topology):
    every = [node.mgmt_address for node in topology.nodes.values()] + list(topology.hosts.values())
    assert len(set(every)) == len(every)
    assert all(ip_address(address) in ip_network("198.18.0.0/15") for address in every)
    for leaf in topology.leaf_names:
        assert all(ip_address(topology.hosts[h]) in ip_network(topology.rack_of(leaf)) for h in topology.hosts_of(leaf))


@pytest.mark.parametrize("topology", [SMALL, LARGE])
def test_no_port_name_stands_twice_on_a_switch(topology):
    for switch in topology.switches:
        names = [port.name for port in topology.ports_of(switch)]
        assert len(set(names)) == len(names)
        assert all(len(name) <= 15 for name in names)


@pytest.mark.parametrize(
    ("wrong", "word"),
    [
        ({"leaves": 0}, "leaves"),
        ({"hosts_per_leaf": 60}, "hosts"),
        ({"leaves": 50, "spines": 50, "hosts_per_leaf": 1}, "switches"),
        ({"leaves": 40, "spines": 40, "hosts_per_leaf": 1}, "cables"),
        ({"host_rate_bps": 1_500_000}, "host_rate_bps"),
        ({"buffer_bytes": 1000}, "buffer_bytes"),
        ({"dynamic_th": 9}, "dynamic_th"),
        ({"host_clock_skew": float("nan")}, "host_clock_skew"),
    ],
)
def test_an_impossible_topology_is_refused_by_the_name_of_its_field(wrong, word):
    with pytest.raises(FabricError, match=word):
        Topology(**wrong)


def test_the_plan_touches_nothing_in_the_root_namespace_but_namespaces_and_cables_into_them():
    for command in build(SMALL, "qc", "htb"):
        if not command.netns:
            assert isinstance(command, Ip)
            netns_add = command.line.startswith("netns add qc-")
            cable = command.line.startswith("link add name ") and command.line.count(" netns qc-") == 2
            assert netns_add or cable, command.line


def test_the_plan_uses_only_its_own_namespaces():
    names = set(namespaces(SMALL, "qc"))
    assert {command.netns for command in build(SMALL, "qc", "htb")} == names | {""}


def test_every_port_is_shaped_on_its_own_side_with_eight_queues():
    plan = build(SMALL, "qc", "htb")
    for port in SMALL.ports:
        lines = [
            c.line for c in plan if isinstance(c, Tc) and c.netns == f"qc-{port.node}" and f"dev {port.name} " in c.line
        ]
        assert sum(" pfifo limit " in line for line in lines) == 8
        assert any(f"rate {port.rate_bps}bit ceil {port.rate_bps}bit" in line for line in lines)


def test_every_data_interface_is_pinned_to_one_cpu():
    pinned = [c for c in build(SMALL, "qc", "htb", rps_cpu=1) if isinstance(c, Write) and c.path.endswith("rps_cpus")]
    assert len(pinned) == len(SMALL.ports)
    assert {command.value for command in pinned} == {"2"}


def test_hosts_build_no_super_packets():
    lines = [c.line for c in build(SMALL, "qc", "htb") if c.netns == "qc-h3" and "eth0 up" in c.line]
    assert lines == ["link set eth0 up gso_max_segs 1"]


def test_a_hosts_listener_may_hold_as_many_handshakes_as_it_asks_for():
    written = {(c.netns, c.value) for c in build(SMALL, "qc", "htb") if isinstance(c, Write) and "somaxconn" in c.path}
    assert written == {(f"qc-{host}", str(MOST_WAITING)) for host in SMALL.hosts}


def test_congestion_control_rides_on_routes_and_never_on_a_sysctl():
    lines = [command.line for command in congestion_control(SMALL, "qc", "cubic")]
    assert len(lines) == 8
    assert all("congctl cubic" in line and "quickack 1" in line and "rto_min 10ms" in line for line in lines)
    written = [c.path for c in build(SMALL, "qc", "htb") if isinstance(c, Write)]
    assert not any("congestion" in path for path in written)


def test_leaves_spread_over_all_spines():
    routes = [c.line for c in build(SMALL, "qc", "htb") if c.netns == "qc-l1" and "198.19.2.0/24" in c.line]
    assert len(routes) == 1
    assert routes[0].count("nexthop via") == 2
