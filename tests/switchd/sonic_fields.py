"""Fields of tables by SONiC's YANG models of August 2026 (keys' parts, too), and how a plan's rows are held to them.

Where SONiC's own models are to be had (QCLIMB_SONIC_YANG, a folder of .yang files, or where SONiC installs them),
libyang loads the rows by them; elsewhere their ranges are data.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import libyang
from qclimb import orchagent, sonic_ranges

from switchd.rows import Row, Rows

FIELDS = {
    "PORT_QOS_MAP": "dot1p_to_tc_map dscp_to_tc_map ifname pfc_enable pfc_to_pg_map pfc_to_queue_map pfcwd_sw_enable "
    "scheduler tc_to_dot1p_map tc_to_dscp_map tc_to_pg_map tc_to_queue_map",
    "QUEUE": "asic_name hostname ifname qindex scheduler wred_profile",
    "PORT": "admin_status adv_interface_types adv_speeds alias asic_port_name autoneg core_id core_port_id description "
    "dhcp_rate_limit dhcp_servers dhcpv6_servers dom_polling fast_linkup fec index interface_type lanes laser_freq "
    "link_training macsec mode mtu mux_cable name num_voq pfc_asym role speed subport tpid tx_power",
    "BUFFER_PG": "pg_num port profile",
    "BUFFER_QUEUE": "asic_name hostname port profile qindex",
    "BUFFER_PROFILE": "dynamic_th headroom_type name packet_discard_action pool size static_th xoff xon xon_offset",
    "BUFFER_POOL": "mode name percentage size type xoff",
    "BUFFER_PORT_INGRESS_PROFILE_LIST": "port profile_list",
    "BUFFER_PORT_EGRESS_PROFILE_LIST": "port profile_list",
    "SCHEDULER": "cbs cir meter_type name pbs pir priority type weight",
    "WRED_PROFILE": "ecn ecn_green_mark_probability ecn_green_max_threshold ecn_green_min_threshold "
    "ecn_red_mark_probability ecn_red_max_threshold ecn_red_min_threshold ecn_yellow_mark_probability "
    "ecn_yellow_max_threshold ecn_yellow_min_threshold green_drop_probability green_max_threshold green_min_threshold "
    "name red_drop_probability red_max_threshold red_min_threshold wred_green_enable wred_red_enable "
    "wred_yellow_enable yellow_drop_probability yellow_max_threshold yellow_min_threshold",
    "SWITCH_TRIMMING": "dscp_value queue_index size tc_value",
    "DEVICE_METADATA": "anchor_route_source asic_id asic_name bgp_adv_lo_prefix_as_128 bgp_asn bgp_router_id bmc_addr "
    "bmc_if_addr bmc_if_name bmc_net_mask buffer_model chassis_hostname cloudtype cluster "
    "create_only_config_db_buffers default_bgp_status default_pfcwd_status deployment_id dhcp_server "
    "docker_routing_config_mode downstream_subrole dpu_auto_recovery dualatortype frr_mgmt_framework_config "
    "has_sonic_dhcpv4_relay hostname hwsku location_type mac max_cores mgmt_type nexthop_group "
    "orch_northbond_dash_zmq_enabled peer_switch platform rack_mgmt_map region resource_type ring_thread_enabled "
    "slice_type storage_device sub_role subtype supporting_bulk_counter_groups suppress-fib-pending switch_id "
    "switch_type synchronous_mode syslog_counter syslog_with_osversion t2_group_asns timezone type "
    "use_template_render_for_restore yang_config_validation zebra_nexthop",
}
ORCHAGENT_ONLY = {("PORT_QOS_MAP", name) for name in ("dscp_to_fc_map", "exp_to_fc_map", "mpls_tc_to_tc_map")}

MODULES = {
    "PORT": "sonic-port",
    "DSCP_TO_TC_MAP": "sonic-dscp-tc-map",
    "TC_TO_QUEUE_MAP": "sonic-tc-queue-map",
    "SCHEDULER": "sonic-scheduler",
    "WRED_PROFILE": "sonic-wred-profile",
    "BUFFER_POOL": "sonic-buffer-pool",
    "BUFFER_PROFILE": "sonic-buffer-profile",
    "PORT_QOS_MAP": "sonic-port-qos-map",
    "QUEUE": "sonic-queue",
    "BUFFER_QUEUE": "sonic-buffer-queue",
}
KEYS = {"PORT_QOS_MAP": ("ifname",), "QUEUE": ("ifname", "qindex"), "BUFFER_QUEUE": ("port", "qindex")}
MEMBERS = {"DSCP_TO_TC_MAP": ("dscp", "tc"), "TC_TO_QUEUE_MAP": ("tc", "qindex")}
PLACES = [os.environ.get("QCLIMB_SONIC_YANG", ""), "/usr/local/yang-models"]


def models() -> libyang.Context | None:
    """SONiC's models, where they are to be had."""
    place = next((one for one in PLACES if one and (Path(one) / "sonic-queue.yang").is_file()), None)
    if place is None:
        return None
    context = libyang.Context(place)
    for module in ("sonic-device_metadata", "sonic-macsec", *MODULES.values()):
        context.load_module(module)
    return context


def of_models(context: libyang.Context) -> dict[str, dict[str, str | None]]:
    """Each field of the tables of MODULES, and its range."""
    found: dict[str, dict[str, str | None]] = {}
    for module in MODULES.values():
        for top in context.get_module(module).children():
            for table in top.children():
                leaves = [leaf for one in table.children() for leaf in one.children()]
                found[table.name()] = {
                    leaf.name(): leaf.type().range() for leaf in leaves if isinstance(leaf, libyang.SLeaf)
                }
    return found


def complaint(rows: Rows, context: libyang.Context | None) -> str:
    """What SONiC's models or orchagent would refuse of a plan's rows; empty: nothing."""
    for table in MODULES:
        for key, row in rows.get(table, {}).items():
            try:
                orchagent.check(table, key, row)
            except orchagent.Malformed as wrong:
                return f"{table}|{key}: orchagent: {wrong}"
            if said := _out_of_range(table, row):
                return f"{table}|{key} {said}"
    if context is None:
        return ""
    try:
        data = context.parse_data_mem(json.dumps(dict(_trees(rows))), "json", strict=True, validate_present=True)
    except libyang.LibyangError as error:
        return str(error)
    if data is not None:
        data.free()
    return ""


def _out_of_range(table: str, row: Row) -> str:
    of_map = sonic_ranges.MAPS.get(table)
    for field, text in row.items():
        named = sonic_ranges.FIELDS.get((table, field))
        for said, found in [(field, of_map[0]), (text, of_map[1])] if of_map else [(text, named)] if named else []:
            if not found.lowest <= int(said) <= found.highest:
                return f"{field} is {said}, expected {found.lowest}..{found.highest}"
    return ""


def _trees(rows: Rows) -> Any:
    for table, module in MODULES.items():
        if rows.get(table):
            entries = [_entry(table, key, row) for key, row in rows[table].items()]
            yield f"{module}:{module}", {table: {f"{table}_LIST": entries}}


def _entry(table: str, key: str, row: Mapping[str, str]) -> dict[str, Any]:
    names = dict(zip(KEYS.get(table, ("name",)), key.split("|"), strict=True))
    if table in MEMBERS:
        left, right = MEMBERS[table]
        typed = {left: str if left == "dscp" else int, right: str if right == "qindex" else int}
        return {**names, table: [{left: typed[left](one), right: typed[right](two)} for one, two in row.items()]}
    return {**names, **{name: _typed(name, text) for name, text in row.items() if name != "NULL"}}


def _typed(name: str, text: str) -> Any:
    """A leaf's value in JSON_IETF."""
    if name.startswith("wred_") and name.endswith("_enable"):
        return text == "true"
    return int(text) if name in ("dynamic_th", "weight", "speed") else text
