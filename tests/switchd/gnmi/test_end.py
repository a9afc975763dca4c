"""What a client keeps when it reads nothing, loses its right or takes too much, and what is left at a daemon's end."""

import asyncio
import gc
import logging
import socket
import threading
from collections import Counter
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grpc
import pytest
from pygnmi.spec.v080 import gnmi_pb2 as pb
from pygnmi.spec.v080 import gnmi_pb2_grpc
from qclimb.config_db import with_digest

from switchd.apply import Switch
from switchd.db import DatabaseLost, NotHolder
from switchd.gnmi import server as gnmi_server
from switchd.gnmi import streams
from switchd.gnmi.access import Client, client_of
from switchd.gnmi.errors import PERMISSION_DENIED, RpcError
from switchd.gnmi.limits import Call, Limits, Places
from switchd.gnmi.loop import READERS, Loop
from switchd.gnmi.server import Servers
from switchd.gnmi.service import Service
from tests.switchd.gnmi.client import (
    BASE,
    STREAM,
    channel,
    failure,
    give,
    got,
    intent,
    leaf_values,
    stored,
    subscription,
)
from tests.switchd.gnmi.test_subscribe import iter_open
from tests.switchd.stand import CONFIG, Pki, Redis, running_daemon, wait_until

WAIT_S = 120


def test_a_revoked_client_that_reads_nothing_loses_its_place(alone: Redis, pki: Pki, tmp_path: Path) -> None:
    alone.load({"PORT": {f"Ethernet{4 * n}": {"speed": "25000"} for n in range(512)}})
    row = alone.db(CONFIG).hgetall("GNMI_CLIENT_CERT|viewer")
    window = (("grpc.http2.lookahead_bytes", 1), ("grpc.http2.bdp_probe", 0), ("grpc.use_local_subchannel_pool", 1))
    request = subscription("/qclimb", STREAM, mode=pb.ON_CHANGE)
    with ExitStack() as end:
        daemon = end.enter_context(running_daemon(alone.url, pki, tmp_path / "log", "--max-client-streams", "1"))
        writing, one, other = (
            end.enter_context(channel(daemon, name, options=options))
            for name, options in (("orchestrator", None), ("viewer", window), ("viewer", window[2:]))
        )
        stub = gnmi_pb2_grpc.gNMIStub(writing)
        give(stub, BASE)
        slow = gnmi_pb2_grpc.gNMIStub(one).Subscribe(iter_open(request), timeout=WAIT_S)
        next(slow)  # and then nothing
        for number in range(1, 21):
            give(stub, intent(number, 7, 6, 5, ports=("Ethernet0",) if number % 2 else ()))
        alone.db(CONFIG).delete("GNMI_CLIENT_CERT|viewer")
        threading.Event().wait(streams.KNOWN_FOR_S + 1)  # it has been seen
        alone.db(CONFIG).hset("GNMI_CLIENT_CERT|viewer", mapping=row)

        def is_free() -> bool:
            call = gnmi_pb2_grpc.gNMIStub(other).Subscribe(iter_open(request), timeout=WAIT_S)
            try:
                next(call)
            except grpc.RpcError as error:
                assert error.code().name == "RESOURCE_EXHAUSTED", error
                return False
            call.cancel()
            return True

        assert not is_free(), "it is stuck, and has its grace"
        wait_until(is_free, "its place is free")
        assert failure(lambda: list(slow)) == ("UNAUTHENTICATED", "no row GNMI_CLIENT_CERT|viewer in CONFIG_DB")


def test_where_a_port_is_taken_no_server_is_made(switch: Switch, monkeypatch: pytest.MonkeyPatch) -> None:
    servers = Servers(switch)
    monkeypatch.setattr(grpc.aio, "server", lambda *_, **__: pytest.fail("made"))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(OSError, match=f"can't listen at {address}: Address already in use"):
            servers.start(address, None)
    servers.close()


def test_a_set_whose_client_lost_its_right_while_it_waited_changes_nothing(switch: Switch, alone: Redis) -> None:
    service = Service(switch)
    switch.edit(lambda _: BASE)
    client = service.client([b"orchestrator"])
    wanted = service.wanted(pb.SetRequest(delete=[pb.Path()]).SerializeToString())
    alone.db(CONFIG).hset("GNMI_CLIENT_CERT|orchestrator", "role@", "gnmi_readonly")
    with pytest.raises(RpcError) as error:
        service.set(client, wanted, Call(), "ipv4:192.0.2.1:1")
    assert (error.value.code, stored(alone)) == (PERMISSION_DENIED, BASE)


def test_a_switch_that_was_left_is_written_no_more(switch: Switch, alone: Redis) -> None:
    switch.edit(lambda _: BASE)
    switch.leave()
    with pytest.raises(NotHolder):
        switch.edit(lambda _: None)
    assert stored(alone) == BASE
    Switch(switch.db).edit(lambda _: intent(2, 7))


def test_a_refusal_stays_told_when_there_is_news_of_the_asic(
    switch: Switch, alone: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    switch.edit(lambda _: BASE)
    alone.load(with_digest(intent(2, 7, 6, 4, ports=("Ethernet99",)).to_config_db()))
    switch.follow()
    refused = switch.snapshot
    assert ("Ethernet99" in refused.status.last_error, refused.classes["2"]["status"]) == (True, "failed")
    monkeypatch.setattr(switch._asic, "look_if_due", lambda _: True)
    switch.look()
    assert (switch.snapshot.status, switch.snapshot.classes) == (refused.status, refused.classes)
    switch.edit(lambda _: intent(3, 7))
    switch.look()
    assert (switch.snapshot.status.last_error, switch.snapshot.classes["0"]["status"]) == ("", "applied")


def test_a_loop_that_closes_begins_nothing_more_and_waits_for_what_runs() -> None:
    loop, inside, done = Loop(), threading.Event(), []

    def act() -> None:
        inside.set()
        threading.Event().wait(0.3)
        done.append("first")

    for one in (act, lambda: done.append("second")):
        loop._writer.submit(one)
    assert inside.wait(WAIT_S)
    loop.close()
    assert done == ["first"]


@pytest.mark.parametrize("error", [ValueError("odd"), DatabaseLost("gone")])
def test_the_watch_goes_on_behind_one_odd_row(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def known(name: str, _: object) -> None:
        raise error if name == "a" else RpcError(PERMISSION_DENIED, name)

    monkeypatch.setattr(streams, "known", known)
    one: Any = SimpleNamespace(_service=SimpleNamespace(switch=SimpleNamespace(host=None)))
    refused = streams.Streams._refused(one, ["a", "b"])  # type: ignore[arg-type]
    assert list(refused) == (["b"] if isinstance(error, ValueError) else [])


def test_a_certificates_name_takes_no_place_of_plain_loopback() -> None:
    none: Any = None
    places = Places(Limits(streams_of_one=1, unary_of_one=1))
    plain, named = client_of(None, none), Client("loopback", True)
    with places.place(plain), places.call(plain), places.place(named), places.call(named):
        for act in (places.place, places.call):
            with pytest.raises(RpcError, match="loopback has 1 "), act(plain):
                pass
    with places.place(plain), places.call(plain):
        pass


def test_one_client_has_so_many_calls_under_way_and_gets_hold_up_no_stream(
    switch: Switch, monkeypatch: pytest.MonkeyPatch
) -> None:
    most, go_on, inside = READERS + 2, threading.Event(), threading.Semaphore(0)
    servers = Servers(switch, Limits(unary_of_one=most))
    answer = servers.service.get

    def slow(message: bytes, call: Call) -> bytes:
        inside.release()
        assert go_on.wait(WAIT_S)
        return answer(message, call)

    monkeypatch.setattr(servers.service, "get", slow)
    listening = servers.start("127.0.0.1:0", None)
    with grpc.insecure_channel(f"127.0.0.1:{listening.port}") as found, ThreadPoolExecutor(most) as at_once:
        stub = gnmi_pb2_grpc.gNMIStub(found)
        gets = [at_once.submit(got, stub, "/qclimb/classes") for _ in range(most)]
        try:
            for _ in range(READERS):
                assert inside.acquire(timeout=WAIT_S)
            wait_until(lambda: servers._places._unary.total() == most, "all are under way")
            assert failure(lambda: stub.Capabilities(pb.CapabilityRequest(), timeout=WAIT_S)) == (
                "RESOURCE_EXHAUSTED",
                f"loopback has {most} calls under way, the most for one client",
            )
            call = stub.Subscribe(iter_open(subscription("/qclimb/config", STREAM)), timeout=WAIT_S)
            assert leaf_values(next(call)) == {"qclimb/config/admin-state": "disabled", "qclimb/config/tier": "leaf"}
            assert next(call).sync_response
            call.cancel()
        finally:
            go_on.set()
        for get in gets:
            get.result(WAIT_S)
        stub.Capabilities(pb.CapabilityRequest())
    listening.stop(0)
    servers.close()


def test_a_client_that_left_is_no_error_of_ours(caplog: pytest.LogCaptureFixture) -> None:
    wire: Any = SimpleNamespace(done=lambda: False)
    with caplog.at_level(logging.INFO), pytest.raises((asyncio.CancelledError, CancelledError)):
        asyncio.run(gnmi_server._abort(wire, grpc.aio.InternalError("failed batch")))
    assert not caplog.records


def test_a_client_that_leaves_while_it_is_told_an_error_is_no_error_of_ours(caplog: pytest.LogCaptureFixture) -> None:
    async def abort(*_: object) -> None:
        raise grpc.aio.InternalError("failed batch")

    wire: Any = SimpleNamespace(done=lambda: False, abort=abort)
    with caplog.at_level(logging.INFO), pytest.raises((asyncio.CancelledError, CancelledError)):
        asyncio.run(gnmi_server._abort(wire, RpcError(PERMISSION_DENIED, "no")))
    assert not caplog.records


def test_whoever_writes_on_hears_why_its_first_message_was_refused(switch: Switch) -> None:
    servers = Servers(switch)
    listening = servers.start("127.0.0.1:0", None)
    with grpc.insecure_channel(f"127.0.0.1:{listening.port}") as found:
        for _ in range(50):
            call = found.stream_stream("/gnmi.gNMI/Subscribe")(iter([b"\xff", b"\xff"]), timeout=WAIT_S)
            text = "the message is no SubscribeRequest: its 1 bytes can't be parsed"
            assert failure(partial(list, call)) == ("INVALID_ARGUMENT", text)
    listening.stop(0)
    servers.close()


def test_calls_that_are_given_up_leave_nothing_behind(switch: Switch) -> None:
    servers = Servers(switch)
    listening = servers.start("127.0.0.1:0", None)
    face = listening._face

    def left() -> Counter[str]:
        gc.collect()
        names = (f"{type(each).__module__}.{type(each).__name__}" for each in gc.get_objects())
        kept = Counter(name for name in names if name.startswith("switchd."))
        return kept + Counter(tasks=len(asyncio.all_tasks(servers._loop._loop)))

    with grpc.insecure_channel(f"127.0.0.1:{listening.port}") as found:
        stub = gnmi_pb2_grpc.gNMIStub(found)

        def give_up() -> None:
            for n in range(60):
                with suppress(grpc.RpcError):
                    stub.Get(pb.GetRequest(path=[pb.Path()], encoding=pb.JSON_IETF), timeout=0.001 * (n % 4))
                call = stub.Subscribe(iter([subscription("/qclimb", STREAM)]), timeout=WAIT_S)
                if n % 2:
                    next(call)
                call.cancel()
            wait_until(lambda: not (face._own or servers._places._open or servers._places._unary), "all have ended")

        give_up()  # what is made once is there
        before = left()
        give_up()
        # what a round made last may share more or less with the snapshot; an object a call would be 60
        wait_until(lambda: (left() - before).total() < 10, "nothing more is kept")
    listening.stop(0)
    servers.close()
