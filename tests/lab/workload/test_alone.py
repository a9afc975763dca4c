"""What a flow takes alone, by formula and as calibrated."""

import math
from dataclasses import replace

import pytest

from lab.workload.alone import Alone, paced_us
from lab.workload.calibration import REPEATS, calibration_of
from lab.workload.programs import WorkloadError

NEAR, FAR = (25.25e6, 25e6), (25.25e6, 50e6, 50e6, 25e6)
CREDIT = 1514
PACKET_US = 1514 * 8 / 25


class Ground:
    """h1 and h2 share a rack; h3 is in another."""

    alone = Alone(CREDIT)

    def path_rates_bps(self, sender, receiver):
        return FAR if "h3" in (sender, receiver) else NEAR


def by_buckets(size, rates, credit):
    """Packet by packet, each port a bucket that is full at first and may have a debt."""
    packets = [1448] * (size // 1448) + ([size % 1448] if size % 1448 else [])
    at = [0.0] * len(packets)
    for rate in rates:
        bits, last = 8.0 * credit, 0.0
        for n, payload in enumerate(packets):
            bits = min(8.0 * credit, bits + (max(at[n], last) - last) * rate)
            last = max(at[n], last) + max(0.0, -bits) / rate
            bits = max(0.0, bits) - (payload + 66) * 8
            at[n] = last
    return at[-1] * 1e6


@pytest.mark.parametrize("credit", [86, CREDIT, 3028])
@pytest.mark.parametrize("rates", [NEAR, FAR, FAR[::-1], (50e6, 60e6)])
def test_links_pace_a_flow_as_token_buckets_do(rates, credit):
    for size in (32, 1448, 1449, 2896, 2897, 5000, 14_480, 50_000, 1_500_000):
        assert paced_us(size, rates, credit) == pytest.approx(by_buckets(size, rates, credit), abs=1e-3), size


def test_two_packets_pass_at_once_and_each_further_one_waits_its_time_at_the_slowest_link():
    assert [paced_us(size, FAR, CREDIT) for size in (500, 2896)] == [0, 0]
    assert [paced_us(1448 * n, FAR, CREDIT) for n in (3, 4, 100)] == pytest.approx(
        [PACKET_US, 2 * PACKET_US, 98 * PACKET_US]
    )


@pytest.fixture
def idle_pass(make_result):
    """The calibration's flows; handling takes 40 us in a rack, 50 between racks, of up to half of each size longer."""

    def idle(late_us=0.0, **more):
        rows = [(size, server, n) for size, count in REPEATS.items() for server in ("h2", "h3") for n in range(count)]
        sizes, servers = [size for size, _, _ in rows], [server for _, server, _ in rows]
        rates = {"h2": NEAR, "h3": FAR}
        fct = [
            paced_us(size, rates[server], CREDIT) + {"h2": 40.0, "h3": 50.0}[server] + (n % 4 > 1) * 500.0 + late_us
            for size, server, n in rows
        ]
        return make_result("idle", sizes, fct, server=servers, **more)

    return idle


def test_a_flow_alone_has_a_slowdown_of_one(idle_pass):
    calibration = calibration_of(idle_pass(), Ground())
    assert calibration.honest
    for rates, handling_us in ((NEAR, 40), (FAR, 50)):
        assert calibration.fct_us[len(rates)][500] == pytest.approx(handling_us)
        for size in (500, 1000, 1448, 1500, 2896, 3000, 20_000, 300_000, 1_500_000, 20_000_000):
            expected = paced_us(size, rates, CREDIT) + handling_us
            assert calibration.alone.fct_us(size, rates) == pytest.approx(expected), size


def test_a_second_packet_costs_what_was_measured_of_two():
    alone = Alone(CREDIT, {2: {1: 30.0, 2: 50.0, 4: 70.0}})
    assert [alone.fct_us(size, NEAR) for size in (100, 1448, 1449, 2896)] == pytest.approx([30, 30, 50, 50])
    assert 50 < alone.fct_us(2897, NEAR) - PACKET_US < 70


def test_a_machine_that_holds_a_bulk_flow_up_is_said_to_be_too_busy(idle_pass):
    calibration = calibration_of(idle_pass(late_us=20_000.0), Ground())
    assert not calibration.honest and "TOO BUSY" in calibration.verdict


def test_a_fabric_on_which_flows_alone_do_not_end_is_refused(idle_pass):
    result = idle_pass(failures={"ECONNRESET": 8})
    fct = [math.nan if size == 50_000 else us for size, us in zip(result.bytes, result.fct_us, strict=True)]
    with pytest.raises(WorkloadError, match="ECONNRESET"):
        calibration_of(replace(result, fct_us=fct), Ground())
