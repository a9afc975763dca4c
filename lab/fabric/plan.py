"""Topology -> the commands that build it. Pure: tests read the plan, root only runs it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from lab.fabric.bpf import attach
from lab.fabric.commands import Command, Ethtool, Ip, Tc, Write, sysctl
from lab.fabric.queues import NEVER_BINDING_PACKETS, QueueProgram, Service, Shaper, leaf_queues, shape, u32_filters
from lab.fabric.topology import QUEUES, Port, Topology

MGMT_BRIDGE = "br-mgmt"
RTO_MIN_MS = 10
"""RTO minimum on every host route, the QCLIMB testbed's (its section on the testbed: RTOmin 10 ms)."""

MOST_WAITING = 65_535
"""Connections that may wait in a listener. Once half as many handshakes are open there, Linux gives up those whose last
ACK is 7 s late instead of 63 s, and resets them by their first data: 552 of 2,600 by the default, 4,096; none by this.
"""


def netns_of(prefix: str, node: str) -> str:
    """Name of a node's network namespace."""
    return f"{prefix}-{node}"


def namespaces(topology: Topology, prefix: str) -> list[str]:
    """Every namespace of a fabric."""
    return [netns_of(prefix, node) for node in topology.nodes]


def build(topology: Topology, prefix: str, shaper: Shaper, rps_cpu: int = 0) -> list[Command]:
    """Everything up to a fabric that forwards; switch ports have all traffic in queue 0."""
    commands: list[Command] = [Ip("", f"netns add {name}") for name in namespaces(topology, prefix)]
    commands += _sysctls(topology, prefix)
    commands += _cables(topology, prefix)
    commands += _management(topology, prefix)
    for node in topology.nodes:
        commands += _addresses(topology, prefix, node)
    for port in topology.ports:
        commands += _port(prefix, port, shaper)
    commands += _offloads(topology, prefix, rps_cpu)
    return commands


def _sysctls(topology: Topology, prefix: str) -> Iterator[Command]:
    for node in topology.nodes.values():
        netns = netns_of(prefix, node.name)
        for scope in ("all", "default"):
            yield sysctl(netns, f"net.ipv6.conf.{scope}.disable_ipv6", 1, optional=True)
            yield sysctl(netns, f"net.ipv4.conf.{scope}.rp_filter", 0)
        if node.is_switch:
            yield sysctl(netns, "net.ipv4.ip_forward", 1)
            yield sysctl(netns, "net.ipv4.fib_multipath_hash_policy", 1)
            yield sysctl(netns, "net.ipv4.conf.all.send_redirects", 0)
        elif node.role == "host":
            yield sysctl(netns, "net.ipv4.tcp_no_metrics_save", 1)
            yield sysctl(netns, "net.ipv4.tcp_ecn", 0)
            yield sysctl(netns, "net.ipv4.tcp_rto_min_us", RTO_MIN_MS * 1000, optional=True)
            yield sysctl(netns, "net.ipv4.ip_local_port_range", "10240 65535")
            yield sysctl(netns, "net.core.somaxconn", MOST_WAITING)


def _cables(topology: Topology, prefix: str) -> Iterator[Command]:
    for port in topology.ports[::2]:
        yield Ip(
            "",
            f"link add name {port.name} index {port.ifindex} netns {netns_of(prefix, port.node)} address {port.mac} "
            f"numtxqueues 1 numrxqueues 1 type veth "
            f"peer name {port.peer_name} index {port.peer_ifindex} netns {netns_of(prefix, port.peer_node)} "
            f"address {port.peer_mac} numtxqueues 1 numrxqueues 1",
        )


def _management(topology: Topology, prefix: str) -> Iterator[Command]:
    mgmt = netns_of(prefix, "mgmt")
    yield Ip(mgmt, f"link add name {MGMT_BRIDGE} type bridge")
    yield Ip(mgmt, f"link set {MGMT_BRIDGE} up")
    others = [node for node in topology.nodes.values() if node.role != "mgmt"]
    for node in others:
        yield Ip(
            "", f"link add name {node.name} netns {mgmt} type veth peer name mgmt netns {netns_of(prefix, node.name)}"
        )
    for node in others:
        yield Ip(mgmt, f"link set {node.name} master {MGMT_BRIDGE} up")


def _addresses(topology: Topology, prefix: str, name: str) -> Iterator[Command]:
    node, netns = topology.nodes[name], netns_of(prefix, name)
    yield Ip(netns, "link set lo up")
    device = MGMT_BRIDGE if node.role == "mgmt" else "mgmt"
    yield Ip(netns, f"addr add {node.mgmt_address}/24 dev {device}")
    yield Ip(netns, f"link set {device} up")
    for port in topology.ports_of(name):
        yield Ip(netns, f"link set {port.name} up" + ("" if port.is_switch else " gso_max_segs 1"))
    if node.role == "host":
        yield from _host_routes(topology, netns, name)
    elif node.role == "leaf":
        yield from _leaf_routes(topology, netns, name)
    elif node.role == "spine":
        yield from _spine_routes(topology, netns, name)


def _host_routes(topology: Topology, netns: str, host: str) -> Iterator[Command]:
    """One /32 and a route by the leaf, so that a rack is routed as between racks; cubic by route, for the machine's
    default may be another and namespaces may not change it."""
    gateway = topology.gateway_of(topology.leaf_of(host))
    (port,) = topology.ports_of(host)
    yield Ip(netns, f"addr add {topology.hosts[host]}/32 dev eth0")
    yield Ip(netns, f"neigh replace {gateway} lladdr {port.peer_mac} dev eth0 nud permanent")
    yield Ip(
        netns,
        f"route add 198.19.0.0/16 via {gateway} dev eth0 onlink src {topology.hosts[host]} "
        f"quickack 1 rto_min {RTO_MIN_MS}ms",
    )


def congestion_control(topology: Topology, prefix: str, name: str) -> list[Command]:
    """`congctl` on every host's route; its own step because a kernel may not have `name`."""
    found: list[Command] = []
    for host in topology.hosts:
        gateway = topology.gateway_of(topology.leaf_of(host))
        found.append(
            Ip(
                netns_of(prefix, host),
                f"route replace 198.19.0.0/16 via {gateway} dev eth0 onlink src {topology.hosts[host]} "
                f"quickack 1 rto_min {RTO_MIN_MS}ms congctl {name}",
            )
        )
    return found


def _leaf_routes(topology: Topology, netns: str, leaf: str) -> Iterator[Command]:
    uplinks = []
    for port in topology.ports_of(leaf):
        if port.peer_is_switch:
            yield Ip(netns, f"addr add {link_address(port)}/31 dev {port.name}")
            yield Ip(netns, neighbour_line(port))
            uplinks.append(f"nexthop via {peer_address(port)} dev {port.name}")
        else:
            host = topology.hosts[port.peer_node]
            yield Ip(netns, f"addr add {topology.gateway_of(leaf)}/32 dev {port.name}")
            yield Ip(netns, f"neigh replace {host} lladdr {port.peer_mac} dev {port.name} nud permanent")
            yield Ip(netns, f"route add {host}/32 dev {port.name}")
    for other in topology.leaf_names:
        if other != leaf:
            yield Ip(netns, f"route add {topology.rack_of(other)} " + " ".join(uplinks))


def _spine_routes(topology: Topology, netns: str, spine: str) -> Iterator[Command]:
    for port in topology.ports_of(spine):
        yield Ip(netns, f"addr add {link_address(port)}/31 dev {port.name}")
        yield Ip(netns, neighbour_line(port))
        yield Ip(netns, f"route add {topology.rack_of(port.peer_node)} via {peer_address(port)}")


def link_address(port: Port) -> str:
    """A /31 for each uplink, from its interface indices; 198.19.224.0 and up is clear of the racks' prefixes."""
    return f"198.19.{224 + port.ifindex // 256 % 32}.{port.ifindex % 256}"


def peer_address(port: Port) -> str:
    """The address at the other end of an uplink."""
    return f"198.19.{224 + port.peer_ifindex // 256 % 32}.{port.peer_ifindex % 256}"


def neighbour_line(port: Port) -> str:
    """The line of `ip` that makes the switch at the other end of a cable a neighbour."""
    # Permanent: no ARP between the queues, which would wait behind, or be dropped with, the traffic that it serves.
    return f"neigh replace {peer_address(port)} lladdr {port.peer_mac} dev {port.name} nud permanent"


HOST_PROGRAM = QueueProgram(
    queue_of_dscp=tuple({47 - 4 * p: 7 - p for p in range(QUEUES)}.get(dscp, 0) for dscp in range(64)),
    services=(Service(strict=True),) * QUEUES,
)
"""A host's own egress: strict by the default DSCPs, as a NIC under mqprio is; the same for every scheme."""


def _port(prefix: str, port: Port, shaper: Shaper) -> Iterator[Command]:
    netns = netns_of(prefix, port.node)
    program = QueueProgram() if port.is_switch else HOST_PROGRAM
    for line in shape(port.name, port.rate_bps, program, shaper, NEVER_BINDING_PACKETS):
        yield Tc(netns, line)
    for line in u32_filters(port.name, program, shaper, pref=1):
        yield Tc(netns, line)


def _offloads(topology: Topology, prefix: str, rps_cpu: int) -> Iterator[Command]:
    """No segmentation by the stack, and all packets on one CPU: else packets of one flow overtake each other between
    the CPUs' backlogs (an artefact of the emulation)."""
    for node in topology.nodes:
        for port in topology.ports_of(node):
            netns = netns_of(prefix, node)
            yield Ethtool(netns, f"-K {port.name} tso off gso off gro off")
            yield Write(netns, f"/sys/class/net/{port.name}/queues/rx-0/rps_cpus", f"{1 << rps_cpu:x}")


def attach_shared_buffer(topology: Topology, prefix: str, directory: Path) -> list[Command]:
    """clsact on both ends of every cable that leaves a switch, and the two counting programs."""
    commands: list[Command] = [
        Tc(netns_of(prefix, port.node), f"qdisc add dev {port.name} clsact") for port in topology.ports
    ]
    for port in topology.switch_ports:
        commands += attach(directory, port, netns_of(prefix, port.node), netns_of(prefix, port.peer_node))
    return sorted(commands, key=lambda command: command.netns)


def static_split(topology: Topology, prefix: str, shaper: Shaper) -> list[Command]:
    """Without BPF: every queue of a switch port gets an eighth of the port's buffer, in bytes."""
    share = topology.buffer_bytes // QUEUES
    commands: list[Command] = []
    for port in topology.switch_ports:
        for parent, handle in leaf_queues(shaper):
            line = f"qdisc replace dev {port.name} parent {parent} handle {handle + 8:x}: bfifo limit {share}"
            commands.append(Tc(netns_of(prefix, port.node), line))
    return commands
