"""The CONFIG_DB rows that a platform brings with it before anybody configures QoS: ports, buffers, who may use gNMI."""

from __future__ import annotations

from collections.abc import Mapping

from lab.fabric.plan import link_address, peer_address
from lab.fabric.topology import QUEUES, Topology

Rows = dict[str, dict[str, str]]
"""`TABLE|key` -> field -> value"""

KINDS = {"leaf": "LeafRouter", "spine": "SpineRouter", "host": "Server"}
POOL, PROFILE = "egress_lossy_pool", "egress_lossy_profile"


def rows_of(topology: Topology, switch: str, gnmi_roles: Mapping[str, str]) -> Rows:
    """Rows of one switch; `gnmi_roles`: role by common name of a client's certificate."""
    role = topology.nodes[switch].role
    rows: Rows = {
        "DEVICE_METADATA|localhost": {
            "hostname": switch,
            "hwsku": "qclimb-lab",
            "platform": "x86_64-qclimb_lab-r0",
            "type": KINDS[role],
        },
        f"BUFFER_POOL|{POOL}": {"type": "egress", "mode": "dynamic", "size": str(topology.buffer_bytes)},
        f"BUFFER_PROFILE|{PROFILE}": {"pool": POOL, "size": "0", "dynamic_th": str(topology.dynamic_th)},
    }
    for number, port in enumerate(topology.ports_of(switch)):
        rows[f"PORT|{port.name}"] = {
            "admin_status": "up",
            "alias": f"eth{number}",
            "description": f"{port.peer_node}:{port.peer_name}",
            "index": str(number),
            "lanes": str(number),
            "mtu": "1500",
            "speed": str(port.rate_bps // 1_000_000),
        }
        peer = topology.nodes[port.peer_node]
        rows[f"DEVICE_NEIGHBOR|{port.name}"] = {"name": peer.name, "port": port.peer_name}
        rows[f"DEVICE_NEIGHBOR_METADATA|{peer.name}"] = {"type": KINDS[peer.role], "mgmt_addr": peer.mgmt_address}
        if port.peer_is_switch:
            rows[f"BGP_NEIGHBOR|{peer_address(port)}"] = {"name": peer.name, "local_addr": link_address(port)}
        for queue in range(QUEUES):  # a row each: switchd splits no row that the platform wrote
            rows[f"BUFFER_QUEUE|{port.name}|{queue}"] = {"profile": PROFILE}
    for common_name, granted in gnmi_roles.items():
        rows[f"GNMI_CLIENT_CERT|{common_name}"] = {"role@": granted}
    return rows
