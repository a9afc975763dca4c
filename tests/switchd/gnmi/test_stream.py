"""Streams: what is told when, first without a clock or a wire, then by the door."""

from collections.abc import Iterator
from typing import Any

import pytest
from pygnmi.spec.v080 import gnmi_pb2 as pb
from pygnmi.spec.v080 import gnmi_pb2_grpc

from switchd.gnmi.model import Model
from switchd.gnmi.paths import Place, Step
from switchd.gnmi.stream import COUNTERS_EVERY_S, Leaves, Part, Steps, Watched, part_of, told_by, watched
from tests.switchd.gnmi.client import BASE, STREAM, give, leaf_values, subscription
from tests.switchd.gnmi.test_subscribe import iter_open
from tests.switchd.stand import COUNTERS, Redis

ROOT = Model().root
TOP = Place((Step("qclimb"),), (ROOT, ROOT.children["qclimb"]))
NODES = {name: node for node in ROOT.walk() for name, node in node.children.items()}


def leaves(**values: Any) -> Leaves:
    return {(Step(name),): ((ROOT, NODES[name]), value) for name, value in values.items()}


def names(told: dict[Steps, Any]) -> list[str]:
    return sorted(steps[0].name for steps in told)


def one_of(part: Part, **now: Any) -> Watched:
    (found,) = watched([part]) if part.every_s is not None else watched([part])[:1]
    found.begin(leaves(**now), 0.0)
    return found


def looked(one: Watched, now_s: float, **now: Any) -> tuple[list[str], list[str]]:
    update, delete = told_by([(one, leaves(**now))], now_s)
    return names(update), names(delete)


def test_a_sample_tells_all_at_each_interval() -> None:
    one = one_of(Part(TOP, every_s=2.0), queue=1, packets=5)
    assert not one.is_due(1.9, is_newer=True)
    assert one.is_due(2.0, is_newer=False)
    assert looked(one, 2.0, queue=1, packets=5) == (["packets", "queue"], [])
    assert one.due_s() == 4.0
    assert looked(one, 9.0, queue=1) == (["queue"], ["packets"])
    assert one.due_s() == 10.0, "what was missed is not made up for"


def test_a_redundant_leaf_is_left_out_alone_and_comes_with_its_heartbeat() -> None:
    one = one_of(Part(TOP, every_s=2.0, heartbeat_s=5.0, is_sparse=True), queue=1, packets=5)
    assert looked(one, 2.0, queue=1, packets=6) == (["packets"], [])
    assert looked(one, 4.0, queue=1, packets=6) == ([], [])
    assert one.due_s() == 5.0
    assert looked(one, 5.0, queue=1, packets=6) == (["queue"], [])
    assert looked(one, 7.0, queue=1, packets=6) == (["packets"], [])


def test_a_heartbeat_comes_between_samples_that_are_further_apart() -> None:
    one = one_of(Part(TOP, every_s=5.0, heartbeat_s=2.0), queue=1, packets=5)
    assert one.due_s() == 2.0
    assert looked(one, 2.0, queue=1, packets=6) == (["packets", "queue"], [])
    assert looked(one, 4.0, queue=1, packets=6) == (["packets", "queue"], [])
    assert looked(one, 5.0, queue=1, packets=6) == (["packets", "queue"], [])
    assert one.due_s() == 7.0


def test_on_change_tells_no_counter_with_a_snapshot_and_samples_them_sparsely() -> None:
    state, counters = watched([Part(TOP)])
    for one in (state, counters):
        one.begin(leaves(queue=1, packets=5, bytes=9), 0.0)
    assert (state.needs_counters, counters.needs_counters) == (False, True)
    assert state.is_due(1.0, is_newer=True)
    assert not counters.is_due(1.0, is_newer=True)
    assert looked(state, 1.0, queue=2) == (["queue"], [])
    assert looked(counters, COUNTERS_EVERY_S, queue=2, packets=6, bytes=9) == (["packets"], [])


def test_what_cant_be_read_is_tried_with_the_next_interval() -> None:
    one = one_of(Part(TOP, every_s=2.0), packets=5)
    one.put_off(2.0)
    assert one.due_s() == 4.0


@pytest.mark.parametrize(
    ("asked", "part"),
    [
        (pb.Subscription(mode=pb.SAMPLE), Part(TOP, every_s=1.0)),
        (
            pb.Subscription(
                mode=pb.SAMPLE, sample_interval=3 * 10**9, suppress_redundant=True, heartbeat_interval=9 * 10**9
            ),
            Part(TOP, every_s=3.0, heartbeat_s=9.0, is_sparse=True),
        ),
        (pb.Subscription(heartbeat_interval=4 * 10**9), Part(TOP, heartbeat_s=4.0)),
        (pb.Subscription(mode=pb.ON_CHANGE, sample_interval=5), Part(TOP)),  # which says nothing there
        (
            pb.Subscription(mode=pb.SAMPLE, sample_interval=3 * 10**9, heartbeat_interval=2 * 10**9),
            Part(TOP, every_s=3.0, heartbeat_s=2.0),
        ),
        (pb.Subscription(mode=pb.SAMPLE, sample_interval=3 * 10**9, heartbeat_interval=3 * 10**9), Part(TOP, 3.0)),
    ],
)
def test_intervals_are_read_as_the_specification_has_them(asked: pb.Subscription, part: Part) -> None:
    assert part_of(asked, TOP) == part


def counted(server: Redis, packets: int) -> None:
    counters = server.db(COUNTERS)
    counters.hset("COUNTERS_QUEUE_NAME_MAP", "Ethernet0:6", "oid:0x1")
    counters.hset("COUNTERS:oid:0x1", mapping={"SAI_QUEUE_STAT_PACKETS": packets, "SAI_QUEUE_STAT_BYTES": 100})


PACKETS = "qclimb/classes/class[1]/state/packets"


def until(call: Iterator[pb.SubscribeResponse], name: str, value: Any) -> None:
    """Read on until this leaf is told with this value."""
    for message in call:
        if leaf_values(message).get(name) == value:
            return
    raise AssertionError(f"{name} was never {value}")


def test_counters_come_with_the_first_message_and_with_samples(stub: gnmi_pb2_grpc.gNMIStub, server: Redis) -> None:
    give(stub, BASE)
    counted(server, 3)
    request = subscription("/qclimb/classes", STREAM, mode=pb.SAMPLE, sample_interval=10**9, suppress_redundant=True)
    sampled = stub.Subscribe(iter_open(request), timeout=120)
    on_change = stub.Subscribe(iter_open(subscription("/qclimb", STREAM, mode=pb.ON_CHANGE)), timeout=120)
    for call in (sampled, on_change):
        assert leaf_values(next(call))[PACKETS] == "3"
        assert next(call).sync_response
    counted(server, 4)
    until(sampled, PACKETS, "4")
    until(on_change, PACKETS, "4")
    sampled.cancel()
    on_change.cancel()


def test_a_heartbeat_tells_again_what_did_not_change(stub: gnmi_pb2_grpc.gNMIStub, server: Redis) -> None:
    give(stub, BASE)
    where = "/qclimb/config/generation"
    request = subscription(where, STREAM, mode=pb.ON_CHANGE, heartbeat_interval=10**9)
    call = stub.Subscribe(iter_open(request), timeout=120)
    told = [leaf_values(next(call)), next(call).sync_response, leaf_values(next(call)), leaf_values(next(call))]
    assert told == [{where[1:]: "1"}, True, {where[1:]: "1"}, {where[1:]: "1"}]
    call.cancel()
