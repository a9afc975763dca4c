"""Many open streams, and what comes in their midst: slow readers, a revoked client, redis or the daemon going away."""

import asyncio
import signal
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from pygnmi.spec.v080 import gnmi_pb2 as pb
from pygnmi.spec.v080 import gnmi_pb2_grpc
from qclimb.config_db import with_digest

from switchd.db import HOLDER
from tests.switchd.gnmi.client import (
    BASE,
    GENERATION,
    ONCE,
    STREAM,
    channel,
    failure,
    give,
    got,
    intent,
    leaf_values,
    subscription,
)
from tests.switchd.gnmi.test_subscribe import iter_open
from tests.switchd.stand import CONFIG, PLATFORM, STATE, Daemon, Pki, Redis, running_daemon, running_redis, wait_until

STREAMS = 400
WAIT_S = 120
PLAIN = ("--plain-loopback", "127.0.0.1:0")


@contextmanager
def own_daemon(pki: Pki, tmp_path: Path, *flags: str) -> Iterator[tuple[Redis, Daemon]]:
    with running_redis() as server:
        server.load(PLATFORM)
        with running_daemon(server.url, pki, tmp_path / "log", *flags) as daemon:
            yield server, daemon


async def heard(call: Any, is_it: Callable[[pb.SubscribeResponse], bool]) -> None:
    async for message in call:
        if is_it(message):
            return
    raise AssertionError("the stream ended")


def tells(value: str) -> Callable[[pb.SubscribeResponse], bool]:
    return lambda message: leaf_values(message).get(GENERATION[1:]) == value


def test_hundreds_of_streams_hear_of_each_change_and_the_door_stays_open(pki: Pki, tmp_path: Path) -> None:
    async def all_of_it(port: int) -> None:
        async def request() -> AsyncIterator[pb.SubscribeRequest]:
            yield subscription("/qclimb", STREAM, mode=pb.ON_CHANGE)
            await asyncio.Event().wait()

        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as found:
            stub = gnmi_pb2_grpc.gNMIStub(found)
            calls = [stub.Subscribe(request()) for _ in range(STREAMS)]
            await asyncio.gather(*(heard(call, lambda message: message.sync_response) for call in calls))
            for number in (2, 3):
                wanted = pb.TypedValue(json_ietf_val=str(number).encode())
                change = pb.SetRequest(update=[pb.Update(path=GENERATION_PATH, val=wanted)])
                hear = [asyncio.create_task(heard(call, tells(str(number)))) for call in calls]
                await stub.Set(change)
                answer = await stub.Get(pb.GetRequest(path=[GENERATION_PATH], encoding=pb.JSON_IETF))
                assert answer.notification[0].update[0].val.json_ietf_val == f'"{number}"'.encode()
                await asyncio.gather(*hear)
            for call in calls:
                call.cancel()

    with own_daemon(pki, tmp_path, *PLAIN) as (_, daemon):
        with channel(daemon, "orchestrator") as found:
            give(gnmi_pb2_grpc.gNMIStub(found), BASE)
        asyncio.run(asyncio.wait_for(all_of_it(daemon.plain_port or 0), WAIT_S))


GENERATION_PATH = pb.Path(elem=[pb.PathElem(name=name) for name in GENERATION[1:].split("/")])


def test_who_reads_nothing_holds_up_nobody_and_hears_the_newest_in_the_end(pki: Pki, tmp_path: Path) -> None:
    window = (("grpc.http2.lookahead_bytes", 1), ("grpc.http2.bdp_probe", 0), ("grpc.use_local_subchannel_pool", 1))
    with own_daemon(pki, tmp_path) as (server, daemon), channel(daemon, "orchestrator") as writing:
        server.load({"PORT": {f"Ethernet{4 * n}": {"speed": "25000"} for n in range(128)}})
        with channel(daemon, "viewer", options=window) as one, channel(daemon, "viewer", options=window[2:]) as other:
            request = subscription("/qclimb", STREAM, mode=pb.ON_CHANGE)
            slow, quick = (
                gnmi_pb2_grpc.gNMIStub(each).Subscribe(iter_open(request), timeout=WAIT_S) for each in (one, other)
            )
            next(slow)  # and then nothing for a while
            stub, last = gnmi_pb2_grpc.gNMIStub(writing), 20
            for number in range(1, last + 1):  # some 10 KB that change, each time
                give(stub, intent(number, 7, 6, 5, ports=("Ethernet0",) if number % 2 else ()))
                assert any(leaf_values(message).get(GENERATION[1:]) == str(number) for message in quick)
            read = 0
            for message in slow:
                read += 1
                if leaf_values(message).get(GENERATION[1:]) == str(last):
                    break
            assert read < last, "what was overtaken is not kept for it"
            slow.cancel()
            quick.cancel()


def test_the_streams_of_a_revoked_client_end_and_those_of_others_go_on(daemon: Daemon, server: Redis) -> None:
    row = server.db(CONFIG).hgetall("GNMI_CLIENT_CERT|viewer")
    request = subscription("/qclimb", STREAM, mode=pb.ON_CHANGE)
    try:
        with channel(daemon, "viewer") as revoked, channel(daemon, "orchestrator") as other:
            stub = gnmi_pb2_grpc.gNMIStub(other)
            give(stub, BASE)
            calls = [gnmi_pb2_grpc.gNMIStub(revoked).Subscribe(iter_open(request), timeout=WAIT_S) for _ in range(20)]
            goes_on = stub.Subscribe(iter_open(request), timeout=WAIT_S)
            for call in (*calls, goes_on):
                next(call)
            server.db(CONFIG).hset("GNMI_CLIENT_CERT|viewer", "role@", "gnmi_noaccess")
            for call in calls:
                assert failure(lambda call=call: list(call))[0] == "PERMISSION_DENIED"
            give(stub, intent(2, 7))
            assert any(leaf_values(message).get(GENERATION[1:]) == "2" for message in goes_on)
            goes_on.cancel()
    finally:
        server.db(CONFIG).hset("GNMI_CLIENT_CERT|viewer", mapping=row)


def test_redis_away_is_unavailable_not_a_crash_and_streams_outlive_it(pki: Pki, tmp_path: Path) -> None:
    with own_daemon(pki, tmp_path) as (server, daemon), channel(daemon, "orchestrator") as found:
        stub = gnmi_pb2_grpc.gNMIStub(found)
        give(stub, BASE)
        calls = [
            stub.Subscribe(iter_open(subscription("/qclimb", STREAM, **mode)), timeout=WAIT_S)
            for mode in ({"mode": pb.ON_CHANGE}, {"mode": pb.SAMPLE, "sample_interval": 10**9})
        ]
        for call in calls:
            next(call)
        server.kill()
        code, text = failure(lambda: give(stub, intent(2, 7)))
        assert (code, "redis" in text) == ("UNAVAILABLE", True)
        time.sleep(2.5)  # longer than streams go on before their client's row is read, and than a sample
        server.start()
        wait_until(lambda: got(stub, "/qclimb/state/applied-generation") == [["1"]], "the switch answers again")
        give(stub, intent(2, 7))
        for call in calls:
            assert any(leaf_values(message).get(GENERATION[1:]) == "2" for message in call)
            call.cancel()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_daemon_that_is_told_to_end_ends_its_streams_by_saying_so(
    pki: Pki, tmp_path: Path, number: signal.Signals
) -> None:
    with own_daemon(pki, tmp_path) as (_, daemon), channel(daemon, "orchestrator") as found:
        stub = gnmi_pb2_grpc.gNMIStub(found)
        give(stub, BASE)
        calls = [
            stub.Subscribe(iter_open(subscription("/qclimb", STREAM, mode=pb.ON_CHANGE)), timeout=WAIT_S)
            for _ in range(50)
        ]
        for call in calls:
            next(call)
        daemon.process.send_signal(number)
        for call in calls:
            assert failure(lambda call=call: list(call)) == ("UNAVAILABLE", "this server ends")
        assert daemon.process.wait(WAIT_S) == 0


REASONS = {
    "another daemon's lock": "another switchd writes here",
    "no redis": "redis: ",
    "half an intent": "waiting for a whole intent",
}


@pytest.mark.parametrize("why", REASONS)
def test_until_the_rows_were_read_no_client_is_told_that_there_is_no_intent(why: str, pki: Pki, tmp_path: Path) -> None:
    with running_redis() as server:
        rows = with_digest(intent(4, 7, 6).to_config_db())
        late = {"QCLIMB_CLASS": rows.pop("QCLIMB_CLASS")} if why == "half an intent" else {}
        server.load({**PLATFORM, **rows})
        if why == "no redis":
            server.kill()
        elif not late:
            server.db(STATE).set(HOLDER, "another host:1:1:abc", px=600_000)
        with (
            running_daemon(server.url, pki, tmp_path / "log", *PLAIN) as daemon,
            grpc.insecure_channel(f"127.0.0.1:{daemon.plain_port}") as plain,
        ):
            stub = gnmi_pb2_grpc.gNMIStub(plain)
            for ask in (
                lambda: got(stub, "/qclimb/config"),
                lambda: got(stub, GENERATION),
                lambda: list(stub.Subscribe(iter([subscription("/qclimb", ONCE)]))),
                lambda: list(stub.Subscribe(iter_open(subscription("/qclimb", STREAM)))),
            ):
                assert failure(ask)[0] == "UNAVAILABLE"
            wait_until(lambda: REASONS[why] in failure(lambda: got(stub, GENERATION))[1], "the reason is told")
            if why == "no redis":
                server.start()
            elif late:
                server.load(late)
            else:
                server.db(STATE).delete(HOLDER)

            def told() -> bool:
                try:
                    return bool(got(stub, GENERATION) == [["4"]])
                except grpc.RpcError:
                    return False

            wait_until(told, "the intent is told")
