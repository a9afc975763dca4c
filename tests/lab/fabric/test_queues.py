"""Queue programs and their tc lines: no root."""

import re

import pytest

from lab.fabric.queues import Buffer, Ecn, QueueProgram, Service, reshape, shape, u32_filters

STRICT = Service(strict=True)


def htb_prios(program):
    lines = list(reshape("p", 25_000_000, program, "htb"))
    return [int(re.search(r" prio (\d)", line).group(1)) for line in lines]


def test_strict_queues_are_served_larger_index_first():
    assert htb_prios(QueueProgram(services=(STRICT,) * 8)) == [7, 6, 5, 4, 3, 2, 1, 0]


def test_queues_that_are_not_strict_share_the_place_after_the_strict_ones():
    services = (Service(weight=3), Service(), STRICT, STRICT, *(Service(),) * 4)
    program = QueueProgram(services=services)
    assert program.order == (2, 2, 1, 0, 2, 2, 2, 2)
    lines = list(reshape("p", 25_000_000, program, "htb"))
    assert "quantum 4542" in lines[0] and "quantum 1514" in lines[1]


def test_a_shaper_of_one_queue_caps_it_below_the_port():
    services = (STRICT,) * 7 + (Service(strict=True, pir_bytes_per_s=1_000_000),)
    lines = list(reshape("p", 25_000_000, QueueProgram(services=services), "htb"))
    assert "ceil 8000000bit" in lines[7]
    assert all("ceil 25000000bit" in line for line in lines[:7])


def test_ets_bands_follow_the_order_of_service():
    program = QueueProgram(services=(Service(weight=2), *(STRICT,) * 7))
    line = next(iter(reshape("p", 25_000_000, program, "ets")))
    assert "ets bands 8 strict 7 quanta 3028" in line
    assert program.class_of_queue("ets")[7] == 0x10 << 16 | 1
    assert program.class_of_queue("ets")[0] == 0x10 << 16 | 8


def test_a_change_of_order_replaces_no_queue():
    for shaper in ("htb", "ets"):
        for line in reshape("p", 25_000_000, QueueProgram(services=(STRICT,) * 8), shaper):
            assert " change " in line


def test_both_shapers_have_eight_waiting_lines():
    for shaper in ("htb", "ets"):
        assert sum("pfifo" in line for line in shape("p", 25_000_000, QueueProgram(), shaper, 100)) == 8


def test_filters_name_each_dscp_that_leaves_queue_0():
    queue_of_dscp = tuple(7 if dscp == 47 else 0 for dscp in range(64))
    lines = list(u32_filters("p", QueueProgram(queue_of_dscp=queue_of_dscp), "htb", 2))
    assert lines == ["filter add dev p parent 1: protocol ip pref 2 u32 match ip tos 0xbc 0xfc flowid 1:17"]


@pytest.mark.parametrize("wrong", [{"weight": 0}, {"weight": 101}, {"pir_bytes_per_s": -1}])
def test_impossible_services_are_refused(wrong):
    with pytest.raises(ValueError, match="expected"):
        Service(**wrong)


def test_impossible_programs_and_buffers_are_refused():
    with pytest.raises(ValueError, match="64 DSCPs"):
        QueueProgram(queue_of_dscp=(8,) * 64)
    with pytest.raises(ValueError, match="dynamic_th"):
        Buffer(1000, dynamic_th=(9,) * 8)
    with pytest.raises(ValueError, match="ECN"):
        Ecn(2000, 1000)
