"""The machine's objects -> queue programs: no root, no redis."""

import copy

import pytest

from lab.control.platform_rows import rows_of
from lab.control.vasic.machine.machine import Machine
from lab.control.vasic.machine.waiting import Task
from lab.control.vasic.program import DEFAULT_BUFFER, programs
from lab.control.vasic.rows import fingerprint
from lab.fabric.queues import Ecn, Service
from lab.fabric.topology import Topology

DSCPS = {47: 7, 43: 6, 39: 5, 35: 4, 31: 3, 27: 2, 23: 1, 19: 0}
ROWS = {
    "PORT": {"Ethernet0": {"speed": "25"}, "Ethernet4": {"speed": "50"}},
    "DSCP_TO_TC_MAP": {"M": {str(dscp): str(tc) for dscp, tc in DSCPS.items()}},
    "TC_TO_QUEUE_MAP": {"M": {str(tc): str(tc) for tc in range(8)}},
    "PORT_QOS_MAP": {"Ethernet0": {"dscp_to_tc_map": "M", "tc_to_queue_map": "M"}},
    "SCHEDULER": {"sp": {"type": "STRICT"}, "wrr": {"type": "DWRR", "weight": "20"}},
    "WRED_PROFILE": {},
    "BUFFER_POOL": {},
    "BUFFER_PROFILE": {},
    "QUEUE": {"Ethernet0|1-7": {"scheduler": "sp"}, "Ethernet0|0": {"scheduler": "wrr"}},
    "BUFFER_QUEUE": {},
}


@pytest.fixture
def rows():
    return copy.deepcopy(ROWS)


def made(rows):
    machine = Machine(rows["PORT"])
    for table, entries in rows.items():
        machine.event(table, [Task("SET", key, row) for key, row in entries.items()])
    return programs(machine, rows["PORT"])


def program(rows, port="Ethernet0"):
    return made(rows).ports[port].queues


def test_dscps_go_through_both_maps_to_their_queue(rows):
    assert [program(rows).queue_of_dscp[dscp] for dscp in DSCPS] == [7, 6, 5, 4, 3, 2, 1, 0]


def test_a_dscp_without_entry_has_traffic_class_0(rows):
    assert program(rows).queue_of_dscp[46] == 0
    rows["TC_TO_QUEUE_MAP"]["M"]["0"] = "2"
    assert program(rows).queue_of_dscp[46] == 2


def test_a_port_without_maps_has_everything_in_queue_0(rows):
    assert set(program(rows, "Ethernet4").queue_of_dscp) == {0}


def test_without_a_queue_map_every_traffic_class_has_queue_0(rows):
    del rows["PORT_QOS_MAP"]["Ethernet0"]["tc_to_queue_map"]
    assert set(program(rows).queue_of_dscp) == {0}


def test_the_switch_level_map_serves_ports_that_name_none(rows):
    rows["PORT_QOS_MAP"]["global"] = {"dscp_to_tc_map": "M"}
    rows["PORT_QOS_MAP"]["Ethernet4"] = {"tc_to_queue_map": "M"}
    assert program(rows, "Ethernet4").queue_of_dscp[47] == 7


def test_a_queue_that_the_port_lacks_is_named_and_its_packets_go_to_queue_0(rows):
    rows["TC_TO_QUEUE_MAP"]["M"]["7"] = "12"
    found = made(rows)
    assert found.ports["Ethernet0"].queues.queue_of_dscp[47] == 0
    assert found.problems == ["Ethernet0: traffic class 7 -> queue 12, expected 0..7"]


def test_queue_ranges_and_port_lists_name_every_queue_they_cover(rows):
    rows["QUEUE"] = {"Ethernet0,Ethernet4|3-5": {"scheduler": "sp"}}
    for port in ("Ethernet0", "Ethernet4"):
        assert [service.strict for service in program(rows, port).services] == [3 <= queue <= 5 for queue in range(8)]


def test_schedulers_carry_type_weight_and_shaper(rows):
    rows["SCHEDULER"]["sp"]["pir"] = "125000"
    services = program(rows).services
    assert services[0] == Service(strict=False, weight=20)
    assert services[7] == Service(strict=True, pir_bytes_per_s=125000)


def test_a_scheduler_without_type_is_not_strict(rows):
    rows["SCHEDULER"]["sp"] = {"weight": "5"}
    assert program(rows).services[7] == Service(strict=False, weight=5)


@pytest.mark.parametrize("weight", ["0", "101"])
def test_a_weight_that_orchagent_takes_and_the_queues_do_not_is_named(rows, weight):
    rows["SCHEDULER"]["wrr"]["weight"] = weight
    found = made(rows)
    assert found.ports["Ethernet0"].queues.services[0] == Service()
    assert [f"weight is {weight}, expected 1..100" in problem for problem in found.problems] == [True]


def test_wred_rows_mark_ecn_only_where_enabled(rows):
    rows["WRED_PROFILE"] = {
        "on": {
            "ecn": "ecn_all",
            "wred_green_enable": "true",
            "green_min_threshold": "3000",
            "green_max_threshold": "9000",
        },
        "off": {"ecn": "ecn_none", "wred_green_enable": "true", "green_min_threshold": "1", "green_max_threshold": "2"},
    }
    rows["QUEUE"]["Ethernet0|0"]["wred_profile"] = "on"
    rows["QUEUE"]["Ethernet0|1-7"]["wred_profile"] = "off"
    assert program(rows).ecn == {0: Ecn(3000, 9000, 100)}


def test_ecn_without_a_maximum_is_named_and_marks_nothing(rows):
    rows["WRED_PROFILE"] = {"W": {"ecn": "ecn_all", "wred_green_enable": "true"}}
    rows["QUEUE"]["Ethernet0|0"]["wred_profile"] = "W"
    found = made(rows)
    assert found.ports["Ethernet0"].queues.ecn == {}
    (problem,) = found.problems
    assert problem.startswith("Ethernet0 queue 0: not programmed: ECN marks from 0 to 0 bytes")


def test_the_buffer_comes_from_the_platform_rows():
    topology = Topology(buffer_bytes=50_000, dynamic_th=1)
    rows = {table: {} for table in ROWS}
    for key, row in rows_of(topology, "l1", {}).items():
        table, _, name = key.partition("|")
        rows.setdefault(table, {})[name] = row
    found = made(rows)
    assert not found.problems
    assert len(found.ports) == 6
    for port in found.ports.values():
        assert port.buffer.total_bytes == 50_000
        assert set(port.buffer.dynamic_th) == {1}


def test_without_buffer_rows_a_port_has_the_default_buffer(rows):
    assert made(rows).ports["Ethernet0"].buffer == DEFAULT_BUFFER


def test_a_static_threshold_is_named(rows):
    rows["BUFFER_POOL"] = {"P": {"type": "egress", "size": "1000"}}
    rows["BUFFER_PROFILE"] = {"S": {"pool": "P", "size": "0", "static_th": "100"}}
    rows["BUFFER_QUEUE"] = {"Ethernet0|3": {"profile": "S"}}
    assert made(rows).problems == ["Ethernet0 queue 3: not programmed: dynamic_th is None, expected -8..8"]


def test_a_port_without_a_speed_is_named(rows):
    rows["PORT"]["Ethernet4"] = {"admin_status": "up"}
    found = made(rows)
    assert list(found.ports) == ["Ethernet0"]
    assert found.problems == ["PORT|Ethernet4: speed is '', expected Mb/s"]


def test_the_fingerprint_changes_with_a_followed_row_and_with_no_other(rows):
    before = fingerprint(rows)
    assert fingerprint({**rows, "QCLIMB": {"global": {"generation": "7"}}}) == before
    rows["QUEUE"]["Ethernet0|0"]["scheduler"] = "sp"
    assert fingerprint(rows) != before
