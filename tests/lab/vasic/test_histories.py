"""Histories that are not in the recording, each from a rule of the sources; `rows` writes as one transaction."""

import pytest

from lab.control.vasic.replay import Replay, Write

PORTS = [f"Ethernet{4 * number}" for number in range(8)]
M1, M2 = {"DSCP_TO_TC_MAP|M1": {"8": "1"}}, {"DSCP_TO_TC_MAP|M2": {"8": "2"}}
BIND = {"PORT_QOS_MAP|Ethernet0": {"dscp_to_tc_map": "M1"}}
POOL = {"BUFFER_POOL|pool": {"type": "egress", "mode": "dynamic", "size": "1000000"}}
WIDE = {"BUFFER_PROFILE|wide": {"pool": "pool", "size": "0", "dynamic_th": "3"}}


class Switch:
    """A machine that is written to in few words."""

    def __init__(self, bed=False):
        self.replay = Replay(PORTS)
        if bed:
            self.replay.set_bed()

    def config(self, *rows, delete=(), drop=None):
        """One transaction: deletions, then fields taken away, then rows."""
        writes = [Write("CONFIG_DB", "DEL", key) for key in delete]
        writes += [Write("CONFIG_DB", "HDEL", key, fields) for key, fields in (drop or {}).items()]
        writes += [Write("CONFIG_DB", "HSET", key, row) for each in rows for key, row in each.items()]
        self.replay.write(writes)

    def appl(self, *rows, delete=()):
        for key in delete:
            self.replay.write([Write("APPL_DB", "DEL", key)])
        for key, row in (pair for each in rows for pair in each.items()):
            self.replay.write([Write("APPL_DB", "SET", key, row)])

    def link(self, port, status):
        self.replay.write([Write("LINK", port, status)])

    def __getattr__(self, name):
        return self.replay.seen().get(name)

    def queue(self, port, index, what):
        return (self.ports or {}).get(port, {}).get("queues", {}).get(str(index), {}).get(what)


@pytest.fixture
def switch():
    return Switch()


@pytest.fixture
def steer():
    return Switch(bed=True)


def test_a_map_that_only_the_asic_still_uses_is_kept_and_its_deletion_forgotten(switch):
    """The waiting row has moved orchagent's reference, not the port's map: SAI refuses, the deletion is dropped."""
    switch.config(M1, M2, BIND)
    switch.config({"PORT_QOS_MAP|Ethernet0": {"dscp_to_tc_map": "M2", "tc_to_queue_map": "LATER"}})
    switch.config(delete=["DSCP_TO_TC_MAP|M1"])
    assert switch.ports == {"Ethernet0": {"dscp_to_tc": {"8": 1}}}
    assert switch.pending == ["PORT_QOS_MAP|Ethernet0"]
    switch.config({"PORT_QOS_MAP|Ethernet4": {"dscp_to_tc_map": "M1"}})
    assert switch.ports["Ethernet4"] == {"dscp_to_tc": {"8": 1}}


def test_a_scheduler_that_only_the_asic_still_uses_waits_for_its_removal(switch):
    switch.config({"SCHEDULER|S": {"type": "STRICT"}}, {"QUEUE|Ethernet0|3": {"scheduler": "S", "x": "y"}})
    switch.config({"QUEUE|Ethernet0|3": {"wred_profile": "LATER"}}, drop={"QUEUE|Ethernet0|3": ["scheduler"]})
    switch.config(delete=["SCHEDULER|S"])
    assert switch.pending == ["QUEUE|Ethernet0|3", "SCHEDULER|S|DEL"]
    switch.config({"WRED_PROFILE|LATER": {"ecn": "ecn_none"}})
    assert switch.pending == ["SCHEDULER|S|DEL"]
    switch.config({"SCHEDULER|T": {"type": "DWRR"}}, {"QUEUE|Ethernet0|3": {"scheduler": "T"}})
    switch.config(M1)
    assert switch.pending is None


def test_a_waiting_row_already_names_what_it_could_resolve(switch):
    switch.config({"SCHEDULER|S": {"type": "STRICT"}})
    switch.config({"QUEUE|Ethernet0|3": {"scheduler": "S", "wred_profile": "LATER"}})
    switch.config(delete=["SCHEDULER|S"])
    assert switch.pending == ["QUEUE|Ethernet0|3", "SCHEDULER|S|DEL"]


def test_an_ecn_profile_remembers_the_thresholds_of_one_that_had_its_name(switch):
    on = {"wred_green_enable": "true"}
    switch.config({"WRED_PROFILE|W": {**on, "green_min_threshold": "5000", "green_max_threshold": "9000"}})
    switch.config(delete=["WRED_PROFILE|W"])
    switch.config({"WRED_PROFILE|W": {**on, "green_max_threshold": "4000"}})
    switch.config({"QUEUE|Ethernet0|3": {"wred_profile": "W"}})
    assert switch.pending == ["QUEUE|Ethernet0|3"]


def test_an_empty_reference_drops_a_queue_row_and_ends_the_pass(switch):
    switch.config(
        {"SCHEDULER|S": {"type": "STRICT"}},
        {"QUEUE|Ethernet0|0": {"scheduler": ""}, "QUEUE|Ethernet0|1": {"scheduler": "S"}},
    )
    assert switch.queue("Ethernet0", 1, "scheduler") == {"type": "STRICT"}
    assert switch.pending is None


def test_a_range_that_leaves_the_port_is_applied_as_far_as_it_goes(switch):
    switch.config({"SCHEDULER|S": {"type": "STRICT"}}, {"QUEUE|Ethernet0|6-9": {"scheduler": "S"}})
    assert list(switch.ports["Ethernet0"]["queues"]) == ["6", "7"]


def test_a_port_that_is_not_there_ends_a_list_of_queues_but_not_of_maps(switch):
    switch.config(M1, {"SCHEDULER|S": {"type": "STRICT"}})
    switch.config({"QUEUE|Ethernet0,Ethernet999,Ethernet4|0": {"scheduler": "S"}})
    switch.config({"PORT_QOS_MAP|Ethernet0,Ethernet999,Ethernet4": {"dscp_to_tc_map": "M1"}})
    assert switch.queue("Ethernet4", 0, "scheduler") is None
    assert switch.queue("Ethernet0", 0, "scheduler") == {"type": "STRICT"}
    assert switch.ports["Ethernet4"] == {"dscp_to_tc": {"8": 1}}


def test_a_reference_in_brackets_waits_for_ever(switch):
    switch.config(M1, {"PORT_QOS_MAP|Ethernet0": {"dscp_to_tc_map": "[DSCP_TO_TC_MAP|M1]"}})
    assert switch.pending == ["PORT_QOS_MAP|Ethernet0"]


def test_a_row_that_comes_and_goes_in_one_transaction_leaves_nothing(switch):
    switch.replay.write(
        [Write("CONFIG_DB", "HSET", "DSCP_TO_TC_MAP|M1", {"8": "1"}), Write("CONFIG_DB", "DEL", "DSCP_TO_TC_MAP|M1")]
    )
    assert switch.replay.machine.sai.objects["QOS_MAP"] == {}
    assert switch.pending is None


def test_taking_the_last_field_away_deletes_the_row(switch):
    switch.config(M1, BIND)
    switch.config(drop={"PORT_QOS_MAP|Ethernet0": ["dscp_to_tc_map"]})
    assert switch.ports is None
    switch.config(delete=["DSCP_TO_TC_MAP|M1"])
    assert switch.pending is None


def test_pfc_goes_with_its_field(switch):
    switch.config(M1, {"PORT_QOS_MAP|Ethernet0": {"dscp_to_tc_map": "M1", "pfc_enable": "3,4"}})
    switch.config(drop={"PORT_QOS_MAP|Ethernet0": ["pfc_enable"]})
    assert switch.ports == {"Ethernet0": {"dscp_to_tc": {"8": 1}}}


def test_a_global_map_that_loses_its_field_stays(switch):
    switch.config(M1, {"PORT_QOS_MAP|global": {"dscp_to_tc_map": "M1", "x": "y"}})
    switch.config(drop={"PORT_QOS_MAP|global": ["dscp_to_tc_map"]})
    assert switch.switch == {"dscp_to_tc": {"8": 1}}
    switch.config(delete=["PORT_QOS_MAP|global"])
    assert switch.switch is None


def test_a_malformed_key_of_buffer_queue_holds_back_even_the_rows_before_it(switch):
    switch.config(POOL, WIDE)
    switch.config({"BUFFER_QUEUE|Ethernet0|x": {"profile": "wide"}})
    switch.config({"BUFFER_QUEUE|Ethernet0|3": {"profile": "wide"}})
    assert switch.queue("Ethernet0", 3, "buffer") is None
    assert switch.pending == ["BUFFER_QUEUE_TABLE:Ethernet0:x"]


def test_a_buffer_row_without_a_profile_ends_only_the_first_pass(switch):
    switch.config(POOL, WIDE)
    switch.config(
        {"BUFFER_QUEUE|Ethernet0|3": {"profile": "wide"}, "BUFFER_QUEUE|Ethernet0|4": {"x": "y"}},
        {"BUFFER_QUEUE|Ethernet0|5": {"profile": "wide"}},
    )
    assert switch.queue("Ethernet0", 3, "buffer") is not None
    assert switch.queue("Ethernet0", 5, "buffer") is not None
    assert switch.pending is None


def test_what_a_failed_buffer_row_held_back_is_bound_with_the_next_row_of_its_table(switch):
    switch.config(POOL, WIDE)
    switch.config({"BUFFER_QUEUE|Ethernet0|3": {"profile": "wide"}, "BUFFER_QUEUE|Ethernet0|4": {"x": "y"}})
    assert (switch.queue("Ethernet0", 3, "buffer"), switch.pending) == (None, None)
    switch.config({"BUFFER_QUEUE|Ethernet4|0": {"profile": "wide"}})
    assert switch.queue("Ethernet0", 3, "buffer") is not None


def test_a_buffer_profile_keeps_its_pool_and_its_kind_of_threshold(switch):
    switch.config(POOL, WIDE, {"BUFFER_QUEUE|Ethernet0|3": {"profile": "wide"}})
    switch.config({"BUFFER_PROFILE|wide": {"static_th": "5"}}, drop={"BUFFER_PROFILE|wide": ["dynamic_th"]})
    assert switch.queue("Ethernet0", 3, "buffer") == {"mode": "DYNAMIC", "dynamic_th": 3, "reserved_bytes": 0}


NARROW = {"BUFFER_PROFILE|narrow": {"pool": "pool", "size": "0", "dynamic_th": "0"}}
RANGE = {"BUFFER_QUEUE|Ethernet0|0-2": {"profile": "wide"}}


def shares(switch):
    return [(switch.queue("Ethernet0", index, "buffer") or {}).get("dynamic_th") for index in range(3)]


def test_a_single_row_over_a_range_wins_and_the_platforms_profile_in_it_gives_back(switch):
    switch.config(POOL, WIDE, NARROW, RANGE)
    switch.config({"BUFFER_QUEUE|Ethernet0|1": {"profile": "narrow"}})
    assert shares(switch) == [3, 0, 3]
    switch.config({"BUFFER_QUEUE|Ethernet0|1": {"profile": "wide"}})
    assert shares(switch) == [3, 3, 3]
    assert not any(call.endswith("null") for call in switch.replay.machine.sai.calls)


def test_a_single_buffer_row_that_is_deleted_is_given_back_by_a_range_with_another_profile_only(switch):
    switch.config(POOL, WIDE, NARROW, RANGE)
    switch.config({"BUFFER_QUEUE|Ethernet0|1": {"profile": "narrow"}})
    switch.config(delete=["BUFFER_QUEUE|Ethernet0|1"])
    switch.config(RANGE)
    assert shares(switch) == [3, None, 3]
    switch.config({"BUFFER_QUEUE|Ethernet0|0-2": {"profile": "narrow"}})
    assert shares(switch) == [0, 0, 0]


def test_a_single_queue_row_that_is_deleted_is_given_back_by_the_same_range(switch):
    switch.config({"SCHEDULER|S": {"type": "STRICT"}, "SCHEDULER|T": {"type": "DWRR", "weight": "5"}})
    switch.config({"QUEUE|Ethernet0|0-2": {"scheduler": "S"}})
    switch.config({"QUEUE|Ethernet0|1": {"scheduler": "T"}})
    switch.config(delete=["QUEUE|Ethernet0|1"])
    assert switch.queue("Ethernet0", 1, "scheduler") is None
    switch.config({"QUEUE|Ethernet0|0-2": {"scheduler": "S"}})
    assert switch.queue("Ethernet0", 1, "scheduler") == {"type": "STRICT"}


def test_a_single_queue_row_without_a_profile_leaves_the_one_of_the_range(switch):
    switch.config({"WRED_PROFILE|W": {"ecn": "ecn_all"}, "SCHEDULER|S": {"type": "STRICT"}})
    switch.config({"QUEUE|Ethernet0|0-2": {"wred_profile": "W"}})
    switch.config({"QUEUE|Ethernet0|1": {"scheduler": "S"}})
    assert switch.queue("Ethernet0", 1, "wred") == {"ecn": "ALL"}


def test_a_parked_pool_keeps_new_profiles_waiting(switch):
    switch.config(POOL, WIDE)
    switch.config(delete=["BUFFER_POOL|pool"])
    switch.config({"BUFFER_PROFILE|narrow": {"pool": "pool", "size": "0", "dynamic_th": "0"}})
    assert switch.pending == ["BUFFER_POOL_TABLE:pool|DEL", "BUFFER_PROFILE_TABLE:narrow"]


STEER = {
    "ACL_TABLE_TYPE_TABLE:STEER": {
        "matches": "DSCP,DST_IP",
        "actions": "PACKET_ACTION,REDIRECT_ACTION,COUNTER",
        "bind_points": "PORT",
    },
    "ACL_TABLE_TABLE:T1": {"type": "STEER", "stage": "ingress", "ports": "Ethernet0"},
}
HOP1, HOP2 = "10.0.0.1@Ethernet16", "10.0.1.1@Ethernet20"
BOTH = {"nexthop": "10.0.0.1,10.0.1.1", "ifname": "Ethernet16,Ethernet20"}


def rule(name, dscp, target, priority=10):
    return {f"ACL_RULE_TABLE:T1:{name}": {"PRIORITY": str(priority), "DSCP": str(dscp), "REDIRECT_ACTION": target}}


def test_a_rule_with_a_priority_that_is_no_number_leaves_no_word_in_state_db(steer):
    steer.appl(STEER, {"ACL_RULE_TABLE:T1:A": {"PRIORITY": "ten", "DSCP": "8", "PACKET_ACTION": "DROP"}})
    assert steer.state_db == {"ACL_TABLE_TABLE|T1": "Active"}


def test_a_rule_whose_action_the_type_lacks_is_refused(steer):
    steer.appl(STEER, {"ACL_RULE_TABLE:T1:A": {"DSCP": "8", "PACKET_ACTION": "DO_NOT_NAT"}})
    assert steer.state_db["ACL_RULE_TABLE|T1|A"] == "Inactive"


def test_the_old_form_of_a_redirect_is_taken(steer):
    steer.appl(STEER, {"ACL_RULE_TABLE:T1:A": {"DSCP": "0x8", "PACKET_ACTION": f"REDIRECT:{HOP1}"}})
    assert steer.acl == [{"priority": 0, "counter": True, "redirect": HOP1, "DSCP": "8/0x3f"}]


def test_an_ecmp_redirect_and_a_route_share_one_group_that_goes_with_the_last(steer):
    steer.appl(STEER, rule("A", 8, f"{HOP1},{HOP2}"), {"ROUTE_TABLE:10.9.0.0/24": BOTH})
    assert steer.groups == [f"group:{HOP1},{HOP2}"]
    steer.appl(delete=["ACL_RULE_TABLE:T1:A"])
    assert steer.groups == [f"group:{HOP1},{HOP2}"]
    steer.appl(delete=["ROUTE_TABLE:10.9.0.0/24"])
    assert steer.groups is None


def test_a_refused_rule_keeps_the_group_that_it_made(steer):
    steer.appl(STEER, {"ACL_RULE_TABLE:T1:A": {"DSCP": "8", "REDIRECT_ACTION": f"{HOP1},{HOP2}", "COMMENT": "x"}})
    assert steer.state_db["ACL_RULE_TABLE|T1|A"] == "Inactive"
    assert steer.groups == [f"group:{HOP1},{HOP2}"]


def test_rules_and_tables_of_config_db_count_too(steer):
    steer.config(
        {"ACL_TABLE|C": {"type": "L3", "stage": "ingress", "ports@": "Ethernet0"}},
        {"ACL_RULE|C|R": {"PRIORITY": "7", "DST_IP": "10.0.0.0/8", "PACKET_ACTION": "DROP"}},
    )
    assert steer.state_db == {"ACL_TABLE_TABLE|C": "Active", "ACL_RULE_TABLE|C|R": "Active"}
    assert steer.acl == [{"priority": 7, "counter": True, "packet_action": "DROP", "DST_IP": "10.0.0.0/255.0.0.0"}]


def test_fewer_interfaces_than_next_hops_end_orchagent(steer):
    steer.appl({"NEXTHOP_GROUP_TABLE:g": {"nexthop": "10.0.0.1,10.0.1.1", "ifname": "Ethernet16"}})
    assert steer.replay.machine.has_ended
    steer.config(M1, BIND)
    assert steer.ports is None


def test_a_group_that_a_route_uses_is_not_deleted_until_the_route_goes(steer):
    steer.appl({"NEXTHOP_GROUP_TABLE:g": BOTH, "ROUTE_TABLE:10.9.0.0/24": {"nexthop_group": "g"}})
    steer.appl(delete=["NEXTHOP_GROUP_TABLE:g"])
    assert steer.pending == ["NEXTHOP_GROUP_TABLE:g|DEL"]
    steer.appl({"NEXTHOP_GROUP_TABLE:g": {**BOTH, "weight": "2,1"}})
    assert steer.pending is None
    assert steer.groups == [f"group:{HOP1} x2,{HOP2} x1"]


def test_a_route_before_its_group_waits(steer):
    steer.appl({"ROUTE_TABLE:10.9.0.0/24": {"nexthop_group": "g"}})
    assert steer.pending == ["ROUTE_TABLE:10.9.0.0/24"]
    steer.appl({"NEXTHOP_GROUP_TABLE:g": BOTH})
    assert steer.routes == {"10.9.0.0/24": f"group:{HOP1},{HOP2}"}


def test_one_next_hop_stands_in_while_another_is_not_resolved(steer):
    hops = {"nexthop": "10.0.0.1,10.0.2.1", "ifname": "Ethernet16,Ethernet24"}
    steer.appl({"ROUTE_TABLE:10.9.0.0/24": hops})
    assert steer.routes == {"10.9.0.0/24": HOP1}
    assert steer.pending == ["ROUTE_TABLE:10.9.0.0/24"]
    steer.appl({"NEIGH_TABLE:Ethernet24:10.0.2.1": {"neigh": "00:11:22:33:44:77", "family": "IPv4"}})
    assert steer.routes == {"10.9.0.0/24": f"group:{HOP1},10.0.2.1@Ethernet24"}
    assert steer.pending is None


def test_a_neighbour_that_a_route_uses_goes_after_the_route(steer):
    steer.appl({"ROUTE_TABLE:10.9.0.0/24": {"nexthop": "10.0.0.1", "ifname": "Ethernet16"}})
    steer.appl(delete=["NEIGH_TABLE:Ethernet16:10.0.0.1"])
    assert steer.pending == ["NEIGH_TABLE:Ethernet16:10.0.0.1|DEL"]
    steer.appl({"NEIGH_TABLE:Ethernet16:10.0.0.1": {"neigh": "00:11:22:33:44:55", "family": "IPv4"}})
    assert steer.pending is None
    steer.appl(delete=["ROUTE_TABLE:10.9.0.0/24", "NEIGH_TABLE:Ethernet16:10.0.0.1"])
    assert steer.pending is None


def test_a_next_hop_on_a_link_that_is_down_joins_its_group_when_it_comes_up(steer):
    steer.link("Ethernet20", "down")
    steer.appl({"NEXTHOP_GROUP_TABLE:g": {**BOTH, "weight": "3,1"}})
    assert steer.groups == [f"group:{HOP1} x3"]
    steer.link("Ethernet20", "up")
    assert steer.groups == [f"group:{HOP1} x3,{HOP2} x1"]


def test_a_blackhole_route_drops_and_forwards_again(steer):
    steer.appl({"ROUTE_TABLE:10.9.0.0/24": {"blackhole": "true"}})
    assert steer.routes == {"10.9.0.0/24": "drop"}
    steer.appl({"ROUTE_TABLE:10.9.0.0/24": BOTH})
    assert steer.routes == {"10.9.0.0/24": f"group:{HOP1},{HOP2}"}


def test_the_default_route_is_never_removed(steer):
    steer.appl({"ROUTE_TABLE:0.0.0.0/0": BOTH})
    assert steer.routes == {"0.0.0.0/0": f"group:{HOP1},{HOP2}"}
    steer.appl(delete=["ROUTE_TABLE:0.0.0.0/0"])
    assert (steer.routes, steer.groups) == (None, None)


def test_a_lag_that_comes_later_is_bound_to_the_table_that_waits_for_it(steer):
    steer.appl(STEER, {"ACL_TABLE_TABLE:T2": {"type": "STEER", "stage": "ingress", "ports": "PortChannel2"}})
    bound = steer.replay.machine.sai.objects["ACL_TABLE_GROUP_MEMBER"]
    before = len(bound)
    steer.appl({"LAG_TABLE:PortChannel2": {"oper_status": "up"}})
    assert len(bound) == before + 1


def test_a_lag_that_a_rule_redirects_to_waits_for_its_removal(steer):
    steer.appl({"LAG_TABLE:PortChannel2": {"oper_status": "up"}}, STEER, rule("A", 8, "PortChannel2"))
    steer.appl(delete=["LAG_TABLE:PortChannel2"])
    assert steer.pending == ["LAG_TABLE:PortChannel2|DEL"]
    steer.appl(delete=["ACL_RULE_TABLE:T1:A"])
    steer.config(M1)
    assert steer.pending is None


def test_a_group_of_groups_has_an_object_even_with_one_member(steer):
    steer.appl({"NEXTHOP_GROUP_TABLE:spine1": {"nexthop": "10.0.0.1", "ifname": "Ethernet16"}})
    assert steer.groups is None
    steer.appl({"NEXTHOP_GROUP_TABLE:q": {"nexthop_group": "spine1,spine2"}})
    assert steer.groups == [f"group:{HOP1}"]
    assert steer.pending == ["NEXTHOP_GROUP_TABLE:q"]
    steer.appl({"NEXTHOP_GROUP_TABLE:spine2": {"nexthop": "10.0.1.1", "ifname": "Ethernet20"}})
    assert steer.groups == [f"group:{HOP1},{HOP2}"]
    assert steer.pending is None


def test_a_group_that_shrinks_to_one_next_hop_leaves_its_route_on_an_empty_group(steer):
    steer.appl({"NEXTHOP_GROUP_TABLE:g": BOTH, "ROUTE_TABLE:10.9.0.0/24": {"nexthop_group": "g"}})
    steer.appl({"NEXTHOP_GROUP_TABLE:g": {"nexthop": "10.0.0.1", "ifname": "Ethernet16"}})
    assert steer.routes == {"10.9.0.0/24": "group:"}
    steer.appl({"ROUTE_TABLE:10.9.0.0/24": {"nexthop_group": "g"}})
    assert steer.routes == {"10.9.0.0/24": HOP1}


def test_a_neighbour_waits_for_the_interface_and_its_link(steer):
    steer.appl({"NEIGH_TABLE:Ethernet8:10.0.3.1": {"neigh": "00:11:22:33:44:88", "family": "IPv4"}})
    assert steer.pending == ["NEIGH_TABLE:Ethernet8:10.0.3.1"]
    steer.appl({"INTF_TABLE:Ethernet8": {"NULL": "NULL"}})
    steer.appl({"ROUTE_TABLE:10.9.0.0/24": {"nexthop": "10.0.3.1", "ifname": "Ethernet8"}})
    assert steer.pending == ["ROUTE_TABLE:10.9.0.0/24"]
    steer.link("Ethernet8", "up")
    assert steer.routes == {"10.9.0.0/24": "10.0.3.1@Ethernet8"}


def test_rows_of_ports_that_come_late_are_lost_and_wait_before_the_first_port():
    replay = Replay([])
    replay.write([Write("CONFIG_DB", "HSET", key, row) for key, row in (M1 | BIND).items()])
    replay.machine.start(["Ethernet0"])
    assert replay.seen()["ports"] == {"Ethernet0": {"dscp_to_tc": {"8": 1}}}
    row = {"dscp_to_tc_map": "M1"}
    replay.write([Write("CONFIG_DB", "HSET", "PORT_QOS_MAP|Ethernet4", row)])
    replay.machine.port_comes("Ethernet4")
    assert "Ethernet4" not in replay.seen()["ports"]
    replay.write([Write("CONFIG_DB", "HSET", "PORT_QOS_MAP|Ethernet4", row)])
    assert replay.seen()["ports"]["Ethernet4"] == {"dscp_to_tc": {"8": 1}}
