"""What hosts are told of their next delivery, as a model of a fabric: everybody delivers once a second, in turn."""

from collections.abc import Callable, Iterator
from itertools import pairwise

import pytest

from hostlib.hostd.collected import FIRST_RECORDS
from orchestrator.ingest.quota import RECORDS_MOST, RECORDS_PER_S, Quota


def seconds(share: Quota, hosts: int, flows: Callable[[int, int], int]) -> Iterator[list[int]]:
    """The records that each host delivers in each second; `flows`: of a host in a second."""
    wanted = [FIRST_RECORDS] * hosts
    second = 0
    while True:
        sent = []
        for host in range(hosts):
            count = flows(host, second)
            sent.append(min(count, wanted[host]))
            share.came([(sent[-1], count - sent[-1])], second + host / hosts)
            wanted[host] = share.next_of(sent[-1], count - sent[-1])
        yield sent
        second += 1


def test_a_fabric_whose_hosts_all_begin_to_be_busy_at_once_sends_about_its_share_from_the_first_second_on():
    told = seconds(Quota(RECORDS_PER_S, 500), 500, lambda host, second: 4096)
    totals = [sum(next(told)) for _ in range(20)]
    assert totals[0] == 500 * FIRST_RECORDS
    assert max(totals[1:]) <= RECORDS_PER_S


@pytest.mark.parametrize("quiet_s", [3, 60, 600])
def test_nor_does_one_that_was_quiet_before(quiet_s):
    told = seconds(Quota(RECORDS_PER_S, 500), 500, lambda host, second: 4096 * (second >= quiet_s))
    totals = [sum(next(told)) for _ in range(quiet_s + 20)]
    assert max(totals[quiet_s:]) <= 2 * RECORDS_PER_S
    assert max(totals[quiet_s + 4 :]) <= RECORDS_PER_S


def test_the_only_busy_host_of_many_soon_sends_all_it_has():
    told = seconds(Quota(RECORDS_PER_S, 500), 500, lambda host, second: 4096 * (host == 7))
    sent = [next(told)[7] for _ in range(40)]
    assert sent[-20:] == [RECORDS_MOST] * 20
    assert all(late <= 2 * max(soon, FIRST_RECORDS) for soon, late in pairwise(sent))


def test_a_small_fabric_sends_all_it_has_after_a_few_deliveries():
    told = seconds(Quota(RECORDS_PER_S, 8), 8, lambda host, second: 2000)
    totals = [sum(next(told)) for _ in range(10)]
    assert totals[0] == 8 * FIRST_RECORDS
    assert totals[3:] == [8 * 2000] * 7


@pytest.mark.parametrize("flows", [90, 99, 101, 110, 200])
def test_what_fits_is_sent_and_what_does_not_is_cut_by_no_more_than_it_must(flows):
    told = seconds(Quota(RECORDS_PER_S, 200), 200, lambda host, second: flows)
    last = [sum(next(told)) for _ in range(30)][-10:]
    assert all(0.97 * min(200 * flows, RECORDS_PER_S) <= total <= RECORDS_PER_S for total in last)


def test_a_flow_has_the_same_chance_on_a_busy_host_as_on_a_less_busy_one():
    told = seconds(Quota(RECORDS_PER_S, 100), 100, lambda host, second: 400 if host < 50 else 2000)
    last = [next(told) for _ in range(40)][-1]
    assert {round(sent / 400, 2) for sent in last[:50]} == {round(sent / 2000, 2) for sent in last[50:]} == {0.17}


def test_hosts_of_few_flows_leave_none_out_beside_busy_ones():
    told = seconds(Quota(RECORDS_PER_S, 500), 500, lambda host, second: 30 if host % 2 else 300)
    last = [next(told) for _ in range(40)][-1]
    assert set(last[1::2]) == {30}
    assert sum(last) == pytest.approx(RECORDS_PER_S, rel=0.02)


def test_what_small_hosts_leave_over_goes_to_the_busy_ones_and_no_more():
    told = seconds(Quota(RECORDS_PER_S, 300), 300, lambda host, second: 10 if host < 250 else 1000)
    last = [next(told) for _ in range(60)][-1]
    assert last[:250] == [10] * 250
    assert set(last[250:]) == {(RECORDS_PER_S - 2500) // 50}


def test_hosts_that_come_back_one_by_one_after_an_outage_do_not_send_more_than_all_of_them_may():
    share = Quota(RECORDS_PER_S, 500)
    back = [host // 25 for host in range(500)]  # over 20 s
    wanted, totals = [40] * 500, []
    for second in range(40):
        total = 0
        for host in range(500):
            if back[host] > second:
                continue
            sent = min(4096, wanted[host])
            share.came([(sent, 4096 - sent)], second + host / 500)
            wanted[host] = share.next_of(sent, 4096 - sent)
            total += sent
        totals.append(total)
    assert max(totals) <= 1.5 * RECORDS_PER_S
    assert totals[-1] == pytest.approx(RECORDS_PER_S, rel=0.03)  # whole records of each
