"""Every field of SONiC's port, queue and buffer rows, and what it is to qclimb; purely.

A field that changes what a class means on a port is judged here, port by port: it refuses the port, or is warned of.
The table holds all fields of SONiC's models of August 2026 and those that orchagent takes beside them; a field of
PORT_QOS_MAP that stands in neither is warned of.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cached_property

from switchd.ports import RowsNow, numbers_in
from switchd.previous import before_us
from switchd.rows import Row


class Use(Enum):
    """What a field is to qclimb."""

    OURS = "written by qclimb"
    READ = "part of the plan"
    IGNORED = "no matter to a class"
    WARNED = "named in the status"
    REFUSED = "the port is refused where a class can't be what it says"


_TABLE = (
    ("PORT_QOS_MAP", Use.OURS, "", "dscp_to_tc_map tc_to_queue_map"),
    ("PORT_QOS_MAP", Use.READ, "the base of a port's classification", "tc_to_pg_map pfc_enable pfc_to_queue_map"),
    ("PORT_QOS_MAP", Use.READ, "TCs that packets without a DSCP of ours use", "mpls_tc_to_tc_map"),
    ("PORT_QOS_MAP", Use.READ, "shapes the port: a limit is a share of that rate", "scheduler"),
    ("PORT_QOS_MAP", Use.IGNORED, "of lossless queues alone, which no class gets", "pfc_to_pg_map pfcwd_sw_enable"),
    ("PORT_QOS_MAP", Use.IGNORED, "the key", "ifname"),
    ("PORT_QOS_MAP", Use.IGNORED, "of MPLS packets alone", "exp_to_fc_map"),
    ("PORT_QOS_MAP", Use.REFUSED, "classifies by 802.1p; rewrites DSCPs", "dot1p_to_tc_map tc_to_dscp_map"),
    ("PORT_QOS_MAP", Use.WARNED, "rewrites 802.1p; picks next hops", "tc_to_dot1p_map dscp_to_fc_map"),
    ("QUEUE", Use.OURS, "", "scheduler wred_profile"),
    ("QUEUE", Use.READ, "the key", "ifname qindex"),
    ("QUEUE", Use.IGNORED, "the key on a VOQ chassis, which is refused", "hostname asic_name"),
    ("PORT", Use.READ, "which ports are meant, and their speed", "name role speed"),
    ("PORT", Use.WARNED, "the link may be slower; PFC of all queues; a peer's tunnel", "autoneg pfc_asym mux_cable"),
    ("PORT", Use.READ, "beside autoneg", "adv_speeds"),
    ("PORT", Use.IGNORED, "the cable, the transceiver and the link", "admin_status adv_interface_types alias"),
    ("PORT", Use.IGNORED, "the same", "asic_port_name description dom_polling fast_linkup fec index interface_type"),
    ("PORT", Use.IGNORED, "the same", "lanes laser_freq link_training macsec mtu subport tx_power"),
    ("PORT", Use.IGNORED, "switching and DHCP", "mode tpid dhcp_rate_limit dhcp_servers dhcpv6_servers"),
    ("PORT", Use.IGNORED, "of a VOQ chassis, which is refused", "core_id core_port_id num_voq"),
    ("BUFFER_PG", Use.READ, "the key: which groups have a buffer", "port pg_num"),
    ("BUFFER_PG", Use.IGNORED, "the size of an ingress buffer", "profile"),
    ("BUFFER_QUEUE", Use.OURS, "", "profile"),
    ("BUFFER_QUEUE", Use.READ, "the key: which queues have a buffer", "port qindex"),
    ("BUFFER_QUEUE", Use.IGNORED, "the key on a VOQ chassis, which is refused", "hostname asic_name"),
    ("BUFFER_PROFILE", Use.OURS, "", "dynamic_th"),
    ("BUFFER_PROFILE", Use.READ, "copied", "name pool size static_th xon xoff xon_offset headroom_type"),
    ("BUFFER_PROFILE", Use.WARNED, "trims a class's packets", "packet_discard_action"),
    ("BUFFER_POOL", Use.IGNORED, "what all queues share", "name type mode size xoff percentage"),
    ("BUFFER_PORT_INGRESS_PROFILE_LIST", Use.IGNORED, "what a port's queues share", "port profile_list"),
    ("BUFFER_PORT_EGRESS_PROFILE_LIST", Use.IGNORED, "what a port's queues share", "port profile_list"),
    ("SCHEDULER", Use.OURS, "", "type cir pir meter_type"),
    ("SCHEDULER", Use.IGNORED, "of queues that are not ours, or of a shaped port's bursts", "name weight cbs pbs"),
    ("SCHEDULER", Use.IGNORED, "orchagent takes no scheduler that has it", "priority"),
    ("WRED_PROFILE", Use.OURS, "", "ecn wred_green_enable wred_yellow_enable wred_red_enable"),
    ("WRED_PROFILE", Use.OURS, "", "green_min_threshold green_max_threshold green_drop_probability"),
    ("WRED_PROFILE", Use.OURS, "", "yellow_min_threshold yellow_max_threshold yellow_drop_probability"),
    ("WRED_PROFILE", Use.OURS, "", "red_min_threshold red_max_threshold red_drop_probability"),
    ("WRED_PROFILE", Use.IGNORED, "a granted queue has a profile of ours, without them", "name"),
    ("WRED_PROFILE", Use.IGNORED, "the same", "ecn_green_min_threshold ecn_green_max_threshold"),
    ("WRED_PROFILE", Use.IGNORED, "the same", "ecn_green_mark_probability ecn_yellow_min_threshold"),
    ("WRED_PROFILE", Use.IGNORED, "the same", "ecn_yellow_max_threshold ecn_yellow_mark_probability"),
    ("WRED_PROFILE", Use.IGNORED, "the same", "ecn_red_min_threshold ecn_red_max_threshold ecn_red_mark_probability"),
    ("SWITCH_TRIMMING", Use.REFUSED, "trimmed packets among a class's", "queue_index dscp_value"),
    ("SWITCH_TRIMMING", Use.READ, "beside both", "tc_value"),
    ("SWITCH_TRIMMING", Use.IGNORED, "how short a packet gets", "size"),
    ("DEVICE_METADATA", Use.REFUSED, "a VOQ chassis has other keys of QUEUE", "switch_type"),
    ("DEVICE_METADATA", Use.IGNORED, "of the ports' rows: dot1p_to_tc_map, mux_cable", "storage_device type subtype"),
    ("DEVICE_METADATA", Use.IGNORED, "orchagent takes the same rows", "buffer_model create_only_config_db_buffers"),
    ("DEVICE_METADATA", Use.IGNORED, "names, roles and addresses", "asic_id asic_name chassis_hostname cloudtype"),
    (
        "DEVICE_METADATA",
        Use.IGNORED,
        "the same",
        "cluster deployment_id downstream_subrole dualatortype hostname hwsku",
    ),
    ("DEVICE_METADATA", Use.IGNORED, "the same", "location_type mac max_cores mgmt_type peer_switch platform region"),
    ("DEVICE_METADATA", Use.IGNORED, "the same", "rack_mgmt_map resource_type slice_type sub_role switch_id timezone"),
    ("DEVICE_METADATA", Use.IGNORED, "routing", "anchor_route_source bgp_adv_lo_prefix_as_128 bgp_asn bgp_router_id"),
    ("DEVICE_METADATA", Use.IGNORED, "routing", "default_bgp_status docker_routing_config_mode nexthop_group"),
    ("DEVICE_METADATA", Use.IGNORED, "routing", "frr_mgmt_framework_config suppress-fib-pending t2_group_asns"),
    ("DEVICE_METADATA", Use.IGNORED, "routing", "zebra_nexthop"),
    ("DEVICE_METADATA", Use.IGNORED, "the software's own", "bmc_addr bmc_if_addr bmc_if_name bmc_net_mask dhcp_server"),
    ("DEVICE_METADATA", Use.IGNORED, "the same", "default_pfcwd_status dpu_auto_recovery has_sonic_dhcpv4_relay"),
    ("DEVICE_METADATA", Use.IGNORED, "the same", "orch_northbond_dash_zmq_enabled ring_thread_enabled syslog_counter"),
    ("DEVICE_METADATA", Use.IGNORED, "the same", "supporting_bulk_counter_groups synchronous_mode"),
    ("DEVICE_METADATA", Use.IGNORED, "the same", "syslog_with_osversion use_template_render_for_restore"),
    ("DEVICE_METADATA", Use.IGNORED, "the same", "yang_config_validation"),
)
USES = {(table, name): use for table, use, _, names in _TABLE for name in names.split()}
"""(table, field) -> what it is; a key's parts by their names in SONiC's models"""
READ_TABLES = ("DEVICE_METADATA", "SWITCH_TRIMMING", "DSCP_TO_FC_MAP")
"""that the judgements need beside those of the plan"""


@dataclass(frozen=True)
class PortInPlan:
    """What a port's fields are judged by.

    row       of PORT_QOS_MAP without qclimb
    queue_of  DSCP -> queue, of the classes
    limits    queues that have a limit
    classify  the port's DSCP_TO_TC_MAP and TC_TO_QUEUE_MAP with the classes; raises Refused
    keys      of BUFFER_QUEUE that name the port
    """

    port: str
    row: Row
    rows: RowsNow
    queue_of: Mapping[int, int]
    limits: Iterable[int]
    classify: Callable[[], tuple[Row, Row]]
    keys: Iterable[str]

    @cached_property
    def maps(self) -> tuple[Row, Row]:
        """Of `classify`."""
        return self.classify()

    def referenced(self, field: str, table: str) -> Row:
        """The row of a map that the port refers to; empty where there is none."""
        return self.rows.get(table, {}).get(self.row.get(field, ""), {})

    @cached_property
    def link(self) -> Row:
        """The row of PORT."""
        return self.rows.get("PORT", {}).get(self.port, {})

    @cached_property
    def trimming_queues(self) -> frozenset[int]:
        """Queues whose packets are trimmed where they do not fit."""
        entries, profiles = self.rows.get("BUFFER_QUEUE", {}), self.rows.get("BUFFER_PROFILE", {})
        trimming = [
            key
            for key in self.keys
            if profiles.get(entries[key].get("profile", ""), {}).get("packet_discard_action") == "trim"
        ]
        return frozenset().union(*(numbers_in(key.partition("|")[2]) or () for key in trimming))

    @property
    def trimming(self) -> Row:
        """SWITCH_TRIMMING|GLOBAL where some queue of the port trims; else empty."""
        return self.rows.get("SWITCH_TRIMMING", {}).get("GLOBAL", {}) if self.trimming_queues else {}


def why_refused_switch(rows: RowsNow) -> str:
    """Why no port of this switch can have classes; empty where one may."""
    if rows.get("DEVICE_METADATA", {}).get("localhost", {}).get("switch_type") != "voq":
        return ""
    return (
        "DEVICE_METADATA|localhost switch_type is 'voq', expected another: rows of QUEUE have other keys on a VOQ "
        "chassis, which qclimb does not write"
    )


def _by_dot1p(port: PortInPlan) -> str:
    """The switch-level DSCP map counts for nothing here: SKUs have one on storage back ends, too."""
    if not port.row.get("dot1p_to_tc_map") or before_us("PORT_QOS_MAP", port.port, "dscp_to_tc_map", port.rows):
        return ""
    return (
        f"PORT_QOS_MAP|{port.port} has dot1p_to_tc_map and no dscp_to_tc_map, expected both or the latter: "
        "it classifies packets by 802.1p priority, and a DSCP map would take that away"
    )


def _rewritten_dscp(port: PortInPlan) -> str:
    found = port.referenced("tc_to_dscp_map", "TC_TO_DSCP_MAP")
    for dscp in sorted(port.queue_of) if found else ():
        tc = port.maps[0][str(dscp)]
        if found.get(tc) != str(dscp):
            to = f"to DSCP {found[tc]}" if tc in found else "to none that is told"
            return (
                f"PORT_QOS_MAP|{port.port} tc_to_dscp_map {port.row['tc_to_dscp_map']!r} rewrites class DSCP {dscp} "
                f"(TC {tc}) {to}, expected {dscp} or no such map"
            )
    return ""


def _trimmed_into_class(port: PortInPlan) -> str:
    found = port.trimming
    text, dscp, tc = found.get("queue_index", ""), found.get("dscp_value", ""), found.get("tc_value", "")
    if text == "dynamic":
        tc = tc if dscp == "from-tc" else port.maps[0].get(dscp, "")
        text = port.maps[1].get(tc, "")
    if text in map(str, port.queue_of.values()):
        return f"packets that {port.port} trims go on in queue {text} (SWITCH_TRIMMING|GLOBAL), which a class has"
    return ""


def _trimmed_as_class(port: PortInPlan) -> str:
    dscp = port.trimming.get("dscp_value", "")
    if dscp in map(str, port.queue_of):
        return f"packets that {port.port} trims get DSCP {dscp} (SWITCH_TRIMMING|GLOBAL dscp_value), which a class has"
    return ""


def _rewritten_dot1p(port: PortInPlan) -> str:
    found = port.referenced("tc_to_dot1p_map", "TC_TO_DOT1P_MAP")
    for dscp in sorted(port.queue_of) if found else ():
        if (tc := port.maps[0][str(dscp)]) in found:
            return f"tagged packets of DSCP {dscp} leave with 802.1p priority {found[tc]} (tc_to_dot1p_map)"
    return ""


def _next_hop_by_class(port: PortInPlan) -> str:
    found = port.referenced("dscp_to_fc_map", "DSCP_TO_FC_MAP")
    of_class = next((dscp for dscp in sorted(port.queue_of) if str(dscp) in found), None)
    return "" if of_class is None else f"packets of DSCP {of_class} may get next hops by dscp_to_fc_map, too"


def _slower_link(port: PortInPlan) -> str:
    speeds = port.link.get("adv_speeds", port.link.get("adv_speeds@", "")).split(",")
    speed = port.link.get("speed", "")
    if port.link.get("autoneg") != "on" or not port.limits or not set(speeds) - {speed, ""}:
        return ""
    return f"autoneg may choose another speed than {speed} Mb/s, of which limits are a share"


def _paused(port: PortInPlan) -> str:
    return "its neighbour may pause queues of classes (pfc_asym is on)" if port.link.get("pfc_asym") == "on" else ""


def _tunnelled(port: PortInPlan) -> str:
    is_mux = port.link.get("mux_cable") == "true"
    return "packets that reach it by the peer switch's tunnel are queued by the tunnel's maps" if is_mux else ""


def _trimmed_class(port: PortInPlan) -> str:
    queues = sorted(port.trimming_queues & set(port.queue_of.values()))
    return f"packets of queue {queues[0]}, which a class has, are trimmed where they do not fit" if queues else ""


Judge = Callable[[PortInPlan], str]
JUDGES: Mapping[tuple[str, str], Judge] = {
    ("PORT_QOS_MAP", "dot1p_to_tc_map"): _by_dot1p,
    ("PORT_QOS_MAP", "tc_to_dscp_map"): _rewritten_dscp,
    ("SWITCH_TRIMMING", "queue_index"): _trimmed_into_class,
    ("SWITCH_TRIMMING", "dscp_value"): _trimmed_as_class,
    ("PORT_QOS_MAP", "tc_to_dot1p_map"): _rewritten_dot1p,
    ("PORT_QOS_MAP", "dscp_to_fc_map"): _next_hop_by_class,
    ("PORT", "autoneg"): _slower_link,
    ("PORT", "pfc_asym"): _paused,
    ("PORT", "mux_cable"): _tunnelled,
    ("BUFFER_PROFILE", "packet_discard_action"): _trimmed_class,
}
"""one sentence where a field is against a class; in this order, so that what classifies otherwise is said first"""


def why_refused(port: PortInPlan) -> str:
    """Why a port can't have classes; empty where it can. Raises Refused."""
    return next((said for place, judge in JUDGES.items() if USES[place] is Use.REFUSED and (said := judge(port))), "")


def caution(port: PortInPlan) -> str:
    """What changes the meaning of classes on a port that has them; empty: nothing."""
    said = (judge(port) for place, judge in JUDGES.items() if USES[place] is Use.WARNED)
    unknown = next((name for name in port.row if ("PORT_QOS_MAP", name) not in USES and name != "NULL"), None)
    of_unknown = "" if unknown is None else f"PORT_QOS_MAP has {unknown}, which qclimb does not know"
    return next((one for one in (*said, of_unknown) if one), "")
