"""Subscriptions by the gNMI door: once, on change, poll; bad ones by code and message; how many there may be."""

# ruff: noqa: E501 - tables of requests read better a line each
from collections.abc import Iterator

import grpc
import pytest
from pygnmi.spec.v080 import gnmi_pb2 as pb
from pygnmi.spec.v080 import gnmi_pb2_grpc
from qclimb.config_db import with_digest

from tests.switchd.gnmi.client import BASE, ONCE, STREAM, failure, give, intent, leaf_values, subscription
from tests.switchd.stand import Daemon, Redis, wait_until

# pygnmi's subscription thread raises when its channel is closed
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")


def test_once_gives_leaves_then_one_sync_and_ends(stub: gnmi_pb2_grpc.gNMIStub, server: Redis) -> None:
    give(stub, BASE)
    first, sync = list(stub.Subscribe(iter([subscription("/qclimb/classes", pb.SubscriptionList.ONCE)])))
    assert leaf_values(first)["qclimb/classes/class[1]/config/queue"] == 6
    assert sync.sync_response


def test_on_change_tells_what_changed_and_what_went(
    stub: gnmi_pb2_grpc.gNMIStub, server: Redis, daemon: Daemon
) -> None:
    give(stub, BASE)
    with daemon.client("viewer") as client:
        wanted = {
            "subscription": [
                {"path": "/qclimb/classes", "mode": "on_change"},
                {"path": "/qclimb/config", "mode": "target_defined"},
            ],
            "mode": "stream",
            "encoding": "json_ietf",
        }
        updates = client.subscribe2(wanted)
        first = next(updates)
        assert first["sync_response"]
        assert len(first["update"]["update"]) > 10
        give(stub, intent(2, 7, 6))
        change = updates.get_update(timeout=120)["update"]
        assert {u["path"]: u["val"] for u in change["update"]} == {"qclimb/config/generation": "2"}
        assert len(change["delete"]) > 0
        updates.close()


def test_on_change_of_state_follows_another_door(stub: gnmi_pb2_grpc.gNMIStub, server: Redis) -> None:
    give(stub, BASE)
    call = stub.Subscribe(
        iter_open(subscription("/qclimb/state/applied-generation", pb.SubscriptionList.STREAM, mode=pb.ON_CHANGE)),
        timeout=120,
    )
    assert list(leaf_values(next(call)).values()) == ["1"]
    assert next(call).sync_response
    server.load(with_digest(intent(2, 7, 6, 5).to_config_db()))
    assert list(leaf_values(next(call)).values()) == ["2"]
    call.cancel()


def iter_open(*requests: pb.SubscribeRequest) -> Iterator[pb.SubscribeRequest]:
    """Requests of a client that keeps its side open."""
    import threading

    yield from requests
    threading.Event().wait(600)


def test_poll_answers_each_time(stub: gnmi_pb2_grpc.gNMIStub, server: Redis) -> None:
    give(stub, BASE)
    requests = [
        subscription("/qclimb/config/generation", pb.SubscriptionList.POLL),
        pb.SubscribeRequest(poll=pb.Poll()),
    ]
    messages = list(stub.Subscribe(iter(requests)))
    assert [bool(message.sync_response) for message in messages] == [False, True, False, True]


def test_a_message_that_comes_while_once_is_answered_is_refused(stub: gnmi_pb2_grpc.gNMIStub, server: Redis) -> None:
    """One that comes later finds no call any more. So the answer is long, and the client that was slow tries again."""
    give(stub, intent(1, *range(7, -1, -1)))
    for second in (subscription("/qclimb", ONCE), pb.SubscribeRequest(poll=pb.Poll())):

        def is_refused(second: pb.SubscribeRequest = second) -> bool:
            try:
                list(stub.Subscribe(iter([subscription("/qclimb", ONCE), second]), timeout=120))
            except grpc.RpcError as error:
                assert (error.code().name, "a ONCE subscription takes one" in error.details()) == (
                    "INVALID_ARGUMENT",
                    True,
                ), error.details()
                return True
            return False

        wait_until(is_refused, "the second message is refused")


BAD_SUBSCRIPTIONS: dict[str, tuple[list[pb.SubscribeRequest], str, str]] = {
    "no list first": ([pb.SubscribeRequest(poll=pb.Poll())], "INVALID_ARGUMENT", "must be a SubscriptionList"),
    "an empty list": ([pb.SubscribeRequest(subscribe=pb.SubscriptionList(encoding=4))], "INVALID_ARGUMENT", "without a subscription"),
    "two lists": ([subscription("/qclimb", STREAM, mode=pb.ON_CHANGE)] * 2, "INVALID_ARGUMENT", "takes one SubscriptionList"),
    "a poll of a stream": ([subscription("/qclimb", STREAM, mode=pb.ON_CHANGE), pb.SubscribeRequest(poll=pb.Poll())], "INVALID_ARGUMENT", "a STREAM subscription takes one SubscriptionList"),
    "two lists, poll": ([subscription("/qclimb", pb.SubscriptionList.POLL)] * 2, "INVALID_ARGUMENT", "expects Poll messages"),
    "not in the schema": ([subscription("/colour", ONCE)], "INVALID_ARGUMENT", "/colour: no 'colour'"),
    "a mode that is none": ([subscription("/qclimb", 7)], "INVALID_ARGUMENT", "mode is 7"),
    "a stream's mode that is none": ([subscription("/qclimb", STREAM, mode=7)], "INVALID_ARGUMENT", "/qclimb: mode is 7"),
    "a sample too soon": ([subscription("/qclimb/state", STREAM, mode=pb.SAMPLE, sample_interval=10**6)], "INVALID_ARGUMENT", "/qclimb/state: sample_interval is 1000000 ns, expected at least 1000000000 ns"),
    "TARGET_DEFINED with an interval": ([subscription("/qclimb", STREAM, sample_interval=10**9)], "INVALID_ARGUMENT", "/qclimb: TARGET_DEFINED with a sample_interval, expected none"),
    "a heartbeat too soon": ([subscription("/qclimb", STREAM, mode=pb.ON_CHANGE, heartbeat_interval=1)], "INVALID_ARGUMENT", "/qclimb: heartbeat_interval is 1 ns"),
    "BYTES": ([pb.SubscribeRequest(subscribe=pb.SubscriptionList(encoding=pb.BYTES, subscription=[pb.Subscription()]))], "UNIMPLEMENTED", "encoding BYTES"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_SUBSCRIPTIONS)
def test_a_bad_subscription_is_refused_by_name(case: str, stub: gnmi_pb2_grpc.gNMIStub, server: Redis) -> None:
    requests, code, text = BAD_SUBSCRIPTIONS[case]
    found, said = failure(lambda: list(stub.Subscribe(iter(requests), timeout=120)))
    assert (found, text in said) == (code, True), said
