"""Flow records on their way from the socket to the orchestrator: what waits, what comes again, what is left out."""

import os
import signal
import socket
from itertools import pairwise
from pathlib import Path

import pytest
from qclimb.delivery import MEDIA_TYPE
from qclimb.histogram import SizeHistogram
from qclimb.hostfile import decode_policy, encode_records
from qclimb.record import FOR_MANY, MANY_FLOWS, RecordBatch

from hostlib.hostd.collected import FIRST_RECORDS
from hostlib.hostd.daemon import GATHER_DATAGRAMS, GATHER_FIRST_S, GATHER_LEAST_S, GATHER_S, gather_s, pause_s
from tests.hostd.bench import Hostd, StandIn, policy, record
from tests.waiting import wait_until


def test_records_arrive_at_the_orchestrator_with_their_sizes(hostd: Hostd, standin: StandIn) -> None:
    sent = tuple(record(size, comm="app", peer_addr="198.19.1.2") for size in (1, 5000, 2**40))
    hostd.send(RecordBatch(sent[:2], dropped=3, generation=4))
    hostd.send(RecordBatch(sent[2:], dropped=2))
    wait_until(lambda: len(standin.records) >= 3)
    assert tuple(standin.records) == sent
    assert sum(post["dropped"] for post in standin.posts) == 5
    total = SizeHistogram()
    for post in standin.posts:
        total = total + SizeHistogram.from_json(post["histogram"])
    assert total == SizeHistogram.of(found.size_bytes for found in sent)
    assert all(post["label"] is None for post in standin.posts)
    assert standin.content_types == {"application/json"}


def test_a_record_that_tells_of_many_flows_counts_as_many(hostd: Hostd, standin: StandIn) -> None:
    hostd.send(RecordBatch((record(700), record(90, flags=FOR_MANY, first_write_bytes=90))))
    wait_until(lambda: len(standin.records) >= 2)
    total = SizeHistogram()
    for post in standin.posts:
        total = total + SizeHistogram.from_json(post["histogram"])
    assert total == SizeHistogram.of([700] + [90] * MANY_FLOWS)
    known = wait_until(lambda: hostd.state()["records"] and hostd.state())["known"]
    assert (known["flows"], known["first_write"]) == (1 + MANY_FLOWS, 90 * MANY_FLOWS)


def test_garbage_on_the_records_socket_is_counted_and_named(hostd: Hostd, standin: StandIn) -> None:
    good = RecordBatch((record(77),))
    foreign = bytearray(encode_records(good))
    foreign[4] = 9
    impossible = bytearray(encode_records(good))
    impossible[24 + 24 : 24 + 32] = bytes(8)  # size_bytes = 0
    garbage = [
        b"",
        b"x",
        bytes(24),
        bytes(60000),
        b"y" * 100_000,
        bytes(foreign),
        encode_records(good)[:-1],
        bytes(impossible),
    ]
    for datagram in garbage:
        hostd.send(datagram)
    hostd.send(good)
    wait_until(lambda: standin.records)
    assert standin.records == [record(77)]
    found = wait_until(lambda: hostd.state()["records"] and hostd.state())
    assert found["malformed"] == len(garbage)
    assert found["last_malformed"].startswith("datagram record 0 size_bytes is 0, expected at least 1")
    hostd.send(bytes(foreign))
    wait_until(lambda: "version is 9, expected 2" in hostd.state()["last_malformed"])


def test_while_the_orchestrator_is_away_records_wait_and_the_policy_stays(hostd: Hostd, standin: StandIn) -> None:
    standin.policy = policy(7)
    wait_until(lambda: standin.heartbeats(7))
    standin.stop()
    wait_until(lambda: "trying again" in hostd.state()["error"])
    for size in range(1, 41):
        hostd.send(RecordBatch((record(size),), dropped=1))
    wait_until(lambda: hostd.state()["waiting"] == 40)
    assert decode_policy((hostd.run_dir / "policy").read_bytes()) == policy(7)
    assert hostd.state()["failures_in_a_row"] > 0
    posts = len(standin.posts)
    standin.start()
    wait_until(lambda: len(standin.records) >= 40)
    assert sorted(found.size_bytes for found in standin.records) == list(range(1, 41))
    assert sum(post["dropped"] for post in standin.posts[posts:]) == 40
    wait_until(lambda: (hostd.state()["error"], hostd.state()["failures_in_a_row"]) == ("", 0))


def test_a_delivery_refused_for_now_comes_again_and_one_refused_for_good_does_not(
    hostd: Hostd, standin: StandIn
) -> None:
    standin.refuse_records_with = 503
    hostd.send(RecordBatch((record(1),)))
    wait_until(lambda: "503 not now" in hostd.state()["error"] and hostd.state()["waiting"] == 1)
    standin.refuse_records_with = None
    wait_until(lambda: standin.records)
    standin.refuse_records_with = 422
    hostd.send(RecordBatch((record(2), record(3))))
    wait_until(lambda: hostd.state()["refused"] == 2)
    standin.refuse_records_with = None
    hostd.send(RecordBatch((record(4),)))
    wait_until(lambda: len(standin.records) == 2)
    assert [found.size_bytes for found in standin.records] == [1, 4]


def test_a_delivery_whose_answer_got_lost_comes_again_as_it_was_under_its_key(hostd: Hostd, standin: StandIn) -> None:
    wait_until(lambda: standin.posts)
    standin.answers_to_lose = 3  # one more than the second try over a new connection hides
    hostd.send(RecordBatch((record(1),)))
    wait_until(lambda: not standin.answers_to_lose)
    hostd.send(RecordBatch((record(2),)))
    wait_until(lambda: any(found.size_bytes == 2 for found in standin.records))
    sent = [
        (key, [each["size_bytes"] for each in post["records"]])
        for post, key in zip(standin.posts, standin.keys, strict=True)
    ]
    with_records = [(key, sizes) for key, sizes in sent if sizes]
    assert [sizes for _, sizes in with_records] == [[1], [1], [1], [1], [2]]
    assert len({key for key, _ in with_records}) == 2
    assert {key for key, sizes in sent if not sizes} == {None}  # a heartbeat needs none


def test_records_go_as_they_lie_where_that_is_taken_and_as_json_where_it_no_longer_is(
    hostd: Hostd, standin: StandIn
) -> None:
    hostd.send(RecordBatch((record(1),)))
    wait_until(lambda: len(standin.records) == 1)
    standin.takes_rows = True
    beats = len(standin.posts)
    wait_until(lambda: len(standin.posts) > beats + 1)
    sent = (record(2, peer_addr="198.19.2.1", comm="b"), record(3, peer_addr="2001:db8::1"))
    hostd.send(RecordBatch(sent, dropped=5))
    wait_until(lambda: len(standin.records) == 3)
    assert tuple(standin.records[1:]) == sent
    standin.takes_rows = False  # an older orchestrator takes its place
    hostd.send(RecordBatch((record(4),)))
    wait_until(lambda: len(standin.records) == 4)
    assert standin.content_types == {"application/json", MEDIA_TYPE}
    assert sum(post["dropped"] for post in standin.posts) == 5
    assert hostd.state()["refused"] == 0


def test_no_more_records_are_delivered_than_the_last_answer_wanted(hostd: Hostd, standin: StandIn) -> None:
    standin.next_records = 3
    beats = len(standin.posts)
    wait_until(lambda: len(standin.posts) > beats + 2)
    hostd.send(RecordBatch(tuple(map(record, range(1, 21)))))
    post = wait_until(lambda: next((post for post in list(standin.posts) if post["records"]), None))
    assert (len(post["records"]), post["dropped"], sum(post["histogram"]["counts"].values())) == (3, 17, 20)


def test_a_delivery_of_too_many_records_comes_again_with_few_and_all_its_sizes(hostd: Hostd, standin: StandIn) -> None:
    standin.next_records = 4096
    beats = len(standin.posts)
    wait_until(lambda: len(standin.posts) > beats + 2)
    standin.refuse_records_with = 413
    hostd.send(RecordBatch(tuple(map(record, range(1, 201)))))
    wait_until(lambda: "413" in hostd.state()["error"])
    standin.refuse_records_with = None
    post = wait_until(lambda: next((post for post in list(standin.posts) if post["histogram"]["counts"]), None))
    told = len(post["records"]), post["dropped"], sum(post["histogram"]["counts"].values())
    assert told == (FIRST_RECORDS, 200 - FIRST_RECORDS, 200)
    assert hostd.state()["refused"] == 0


def test_a_host_that_was_told_nothing_yet_delivers_few_and_counts_the_rest(hostd: Hostd, standin: StandIn) -> None:
    wait_until(lambda: standin.posts)
    hostd.kill()
    standin.stop()
    standin.next_records = 4096
    (hostd.run_dir / "status.json").unlink()
    hostd.restart()
    wait_until(lambda: hostd.state())
    for turn in range(4):
        hostd.send(RecordBatch(tuple(record(1 + 50 * turn + index) for index in range(50))))
    wait_until(lambda: hostd.state()["waiting"] == 200)
    standin.start()
    post = wait_until(lambda: next((post for post in list(standin.posts) if post["records"]), None))
    told = len(post["records"]), post["dropped"], sum(post["histogram"]["counts"].values())
    assert told == (FIRST_RECORDS, 200 - FIRST_RECORDS, 200)
    hostd.send(RecordBatch(tuple(map(record, range(1, 101)))))
    wait_until(lambda: len(standin.records) == FIRST_RECORDS + 100)


def test_a_delivery_refused_with_a_time_comes_again_after_it_and_nothing_is_lost(
    hostd: Hostd, standin: StandIn
) -> None:
    wait_until(lambda: standin.posts)
    standin.retry_after = "2"
    standin.refuse_records_with = 503
    hostd.send(RecordBatch((record(1),), dropped=2))
    wait_until(lambda: "503 not now" in hostd.state()["error"] and hostd.state()["waiting"])
    standin.refuse_records_with = None
    wait_until(lambda: standin.records)
    assert max(later - at for at, later in pairwise(standin.posted_at)) >= 2  # an interval is 0.05 s
    assert [post["dropped"] for post in standin.posts if post["records"]] == [2]


def test_hosts_that_began_in_one_moment_drift_apart_and_poll_as_often_as_they_are_told() -> None:
    at = [sum(pause_s(1.0, 0) for _ in range(400)) for _ in range(100)]
    assert 390 < min(at) < max(at) < 410  # more than eight standard deviations
    assert max(at) - min(at) > 1


def test_hosts_that_were_refused_come_again_at_different_times() -> None:
    found = [pause_s(1.0, 1, 2.0) for _ in range(200)]
    assert 2.0 <= min(found) < 2.2
    assert 2.8 < max(found) <= 3.0
    assert max(pause_s(1.0, 30, 10**6) for _ in range(100)) <= 90


@pytest.mark.parametrize("every_s", [1e-5, 1e-4, 1e-3, 0.01, 0.03])
def test_the_socket_is_left_alone_for_as_long_as_there_is_room_for_what_comes(every_s: float) -> None:
    pause_s = GATHER_FIRST_S
    for _ in range(20):
        found = int(pause_s / every_s)
        if not found:
            break
        pause_s = gather_s(pause_s, found)
    else:
        assert pause_s == pytest.approx(min(GATHER_S, max(GATHER_LEAST_S, GATHER_DATAGRAMS * every_s)), rel=0.1)
    assert gather_s(GATHER_S, 10**6) == GATHER_LEAST_S


def test_a_burst_longer_than_the_kernels_usual_queue_is_not_lost(hostd: Hostd, standin: StandIn) -> None:
    length = Path("/proc/sys/net/unix/max_dgram_qlen")
    if not os.access(length, os.W_OK):
        pytest.skip("the kernel's queue is short, and raising it is not allowed here")
    assert hostd.state()["records_queue_datagrams"] >= 200
    before = length.read_text()
    hostd.process.send_signal(signal.SIGSTOP)
    senders = [socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) for _ in range(10)]
    for index, sender in enumerate(senders):
        sender.connect(str(hostd.run_dir / "records"))
        for turn in range(20):
            sender.send(encode_records(RecordBatch((record(1 + 20 * index + turn),))))
    hostd.process.send_signal(signal.SIGCONT)
    for sender in senders:
        sender.close()
    wait_until(lambda: len(standin.records) >= 200)
    assert sorted(found.size_bytes for found in standin.records) == list(range(1, 201))
    assert int(before) < 200  # else this test shows nothing
    assert length.read_text() == before
