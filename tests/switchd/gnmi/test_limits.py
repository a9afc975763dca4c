"""What one client can't do to the others, and what happens to a request that nobody waits for any more."""

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, ExitStack, contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from pygnmi.create_gnmi_path import gnmi_path_generator as path
from pygnmi.spec.v080 import gnmi_pb2 as pb
from pygnmi.spec.v080 import gnmi_pb2_grpc

from switchd.apply import Switch
from switchd.db_redis import RedisDatabase
from switchd.gnmi.limits import MAX_OPERATIONS, MAX_PATHS, Limits
from switchd.gnmi.server import Servers
from tests.switchd.gnmi.client import (
    BASE,
    STREAM,
    channel,
    credentials,
    failure,
    give,
    got,
    ietf,
    intent,
    stored,
    subscription,
    update,
)
from tests.switchd.gnmi.test_subscribe import iter_open
from tests.switchd.stand import CONFIG, Daemon, Pki, Redis, running_daemon, wait_until

WAIT_S = 120


@contextmanager
def serving(switch: Switch, limits: Limits | None = None) -> Iterator[int]:
    """A plain port of this process."""
    servers = Servers(switch, limits)
    listening = servers.start("127.0.0.1:0", None)
    yield listening.port
    listening.stop(0)
    servers.close()


@pytest.fixture
def plain(switch: Switch) -> Iterator[gnmi_pb2_grpc.gNMIStub]:
    """A port in this process that takes one stream, and a silent one for a moment only."""
    limits = Limits(streams=1, first_message_s=0.2, poll_idle_s=0.2)
    with serving(switch, limits) as port, grpc.insecure_channel(f"127.0.0.1:{port}") as found:
        yield gnmi_pb2_grpc.gNMIStub(found)


def test_sets_at_two_ports_at_once_are_all_kept(alone: Redis, pki: Pki, tmp_path: Path) -> None:
    with (
        running_daemon(alone.url, pki, tmp_path / "log", "--plain-loopback", "127.0.0.1:0") as daemon,
        ExitStack() as end,
    ):
        stubs = [
            gnmi_pb2_grpc.gNMIStub(end.enter_context(one))
            for one in (channel(daemon, "orchestrator"), grpc.insecure_channel(f"127.0.0.1:{daemon.plain_port}"))
        ]
        give(stubs[0], BASE)
        first, second = (f"/qclimb/classes/class[priority={one}]/config/threshold-bytes" for one in (1, 2))
        stubs[0].Set(pb.SetRequest(update=[update(first, ietf("1")), update(second, ietf("1000"))]))
        with ThreadPoolExecutor(2) as at_once:
            for number in range(2, 32):
                sets = [update(first, ietf(str(number))), update(second, ietf(str(1000 + number)))]
                list(at_once.map(lambda n, s=sets: stubs[n].Set(pb.SetRequest(update=[s[n]])), range(2)))
                kept = [one.threshold_bytes for one in stored(alone).classes]
                assert kept == [0, number, 1000 + number]


class Interrupted(RedisDatabase):
    """Somebody else writes between our reading and our writing, `times` times."""

    times = 0
    act: Callable[[Any], None]

    def get_whole_tables(self, tables: Any) -> Any:
        rows = super().get_whole_tables(tables)
        if self.times:
            self.times -= 1
            self.act(self._clients[CONFIG])
        return rows


@pytest.mark.parametrize("times", [1, 3, 99])
def test_what_others_write_while_a_set_is_planned_is_not_overwritten(alone: Redis, times: int) -> None:
    db = Interrupted(alone.url)
    switch = Switch(db)
    switch.edit(lambda _: BASE)
    count = iter(range(8, 60))
    db.act = lambda config: config.hset("QCLIMB_CLASS|2", "dscp", str(next(count)))
    db.times = times
    with serving(switch) as port, grpc.insecure_channel(f"127.0.0.1:{port}") as found:
        stub = gnmi_pb2_grpc.gNMIStub(found)
        request = pb.SetRequest(update=[update("/qclimb/classes/class[priority=1]/config/dscp", ietf(60))])
        if times == 99:
            code, text = failure(lambda: stub.Set(request))
            assert (code, "QCLIMB_CLASS|2 changed after it was read" in text) == ("ABORTED", True), text
        else:
            stub.Set(request)
    written = next(count) - 1
    assert [one.dscp for one in stored(alone).classes] == [47, 43 if times == 99 else 60, written]
    db.close()


def test_a_map_that_others_edit_while_it_is_followed_is_read_again(alone: Redis) -> None:
    alone.load(intent(3, 7, 6).to_config_db())
    db = Interrupted(alone.url)
    db.act = lambda config: config.hset("PORT_QOS_MAP|Ethernet0", "tc_to_queue_map", "THEIRS")
    db.times = 1
    Switch(db).follow()
    assert alone.rows("QCLIMB_PREVIOUS")["QCLIMB_PREVIOUS"]["Ethernet0"]["tc_to_queue_map"] == "dangling:THEIRS"
    db.close()


def test_a_set_whose_deadline_has_passed_does_not_happen_later(
    switch: Switch, plain: gnmi_pb2_grpc.gNMIStub, alone: Redis
) -> None:
    give(plain, BASE)
    inside, go_on = threading.Event(), threading.Event()

    def slow(before: Any) -> Any:
        inside.set()
        assert go_on.wait(WAIT_S)
        return before

    other = threading.Thread(target=switch.edit, args=(slow,))
    other.start()
    assert inside.wait(WAIT_S)
    code, _ = failure(
        lambda: plain.Set(pb.SetRequest(update=[update("/qclimb/config/generation", ietf(9))]), timeout=0.3)
    )
    assert code == "DEADLINE_EXCEEDED"
    go_on.set()
    other.join(WAIT_S)
    give(plain, intent(5, 7))  # comes after the one that was given up, by the same lock
    plain.Set(pb.SetRequest(update=[update("/qclimb/config/ports", ietf(["Ethernet4"]))]))
    assert (stored(alone).generation, len(stored(alone).classes)) == (5, 1)


def test_more_paths_or_operations_than_anybody_needs_are_refused(stub: gnmi_pb2_grpc.gNMIStub, server: Redis) -> None:
    give(stub, BASE)
    many = pb.GetRequest(path=[pb.Path()] * 300_000, encoding=pb.JSON_IETF)
    assert failure(lambda: stub.Get(many)) == (
        "INVALID_ARGUMENT",
        f"300000 paths in one request, expected at most {MAX_PATHS}",
    )
    listed = pb.SubscriptionList(mode=pb.SubscriptionList.ONCE, encoding=pb.JSON_IETF)
    listed.subscription.extend([pb.Subscription(path=pb.Path())] * (MAX_PATHS + 1))
    code, _ = failure(lambda: list(stub.Subscribe(iter([pb.SubscribeRequest(subscribe=listed)]))))
    assert code == "INVALID_ARGUMENT"
    code, _ = failure(lambda: stub.Set(pb.SetRequest(delete=[path("/qclimb")] * (MAX_OPERATIONS + 1))))
    assert (code, stored(server)) == ("INVALID_ARGUMENT", BASE)
    assert len(got(stub, *["/qclimb/config/generation"] * MAX_PATHS)) == MAX_PATHS


def unparsed(found: grpc.Channel, method: str) -> Callable[..., bytes]:
    call: Callable[..., bytes] = found.unary_unary(f"/gnmi.gNMI/{method}")
    return call


@pytest.mark.parametrize("method", ["Capabilities", "Get", "Set"])
def test_bytes_that_are_no_message_are_refused_after_the_caller_is_known(daemon: Daemon, method: str) -> None:
    with channel(daemon, "stranger") as found:
        assert failure(lambda: unparsed(found, method)(b"\xff" * 9))[0] == "UNAUTHENTICATED"
    with channel(daemon, "orchestrator") as found:
        code, text = failure(lambda: unparsed(found, method)(b"\xff" * 9))
    assert (code, "its 9 bytes can't be parsed" in text) == ("INVALID_ARGUMENT", True), text


def resident_kib(process: int) -> int:
    status = Path(f"/proc/{process}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0])


def test_bytes_that_are_no_message_leave_nothing_in_memory(daemon: Daemon) -> None:
    with channel(daemon, "stranger") as found:
        call = unparsed(found, "Get")

        def calls(count: int) -> int:
            for _ in range(count):
                failure(lambda: call(b"\xff" * 9))
            return resident_kib(daemon.process.pid)

        before = calls(300)
        assert calls(1500) - before < 8 * 1500, "KiB; grpcio kept 16 of each"


def silent(stub: gnmi_pb2_grpc.gNMIStub, end: threading.Event) -> Any:
    def requests() -> Iterator[pb.SubscribeRequest]:
        end.wait(WAIT_S)
        yield from ()

    return stub.Subscribe(requests())


def test_a_stream_that_says_nothing_ends_and_makes_room(plain: gnmi_pb2_grpc.gNMIStub, alone: Redis) -> None:
    end = threading.Event()
    calls = [silent(plain, end) for _ in range(3)]
    said = sorted(failure(lambda one=one: next(one)) for one in calls)
    assert said[0] == ("DEADLINE_EXCEEDED", "no SubscriptionList came within 0.2 s")
    assert said[-1][0] in ("DEADLINE_EXCEEDED", "RESOURCE_EXHAUSTED")
    end.set()
    wait_until(lambda: next(plain.Subscribe(iter([subscription("/qclimb", STREAM)]))), "there is room again")


def test_a_poller_that_polls_no_more_is_ended(plain: gnmi_pb2_grpc.gNMIStub, alone: Redis) -> None:
    give(plain, BASE)
    end = threading.Event()

    def requests() -> Iterator[pb.SubscribeRequest]:
        yield subscription("/qclimb/config/generation", pb.SubscriptionList.POLL)
        yield pb.SubscribeRequest(poll=pb.Poll())
        end.wait(WAIT_S)

    call = plain.Subscribe(requests())
    assert [next(call).WhichOneof("response") for _ in range(4)] == ["update", "sync_response"] * 2
    assert failure(lambda: next(call)) == ("DEADLINE_EXCEEDED", "no Poll came within 0.2 s")
    end.set()


@pytest.fixture
def narrow(alone: Redis, pki: Pki, tmp_path: Path) -> Iterator[Daemon]:
    """A daemon that takes ten streams, of each client six."""
    flags = ("--max-streams", "10", "--max-client-streams", "6")
    alone.db(CONFIG).hset("GNMI_CLIENT_CERT|stranger", "role@", "gnmi_readonly")
    with running_daemon(alone.url, pki, tmp_path / "log", *flags) as found:
        yield found


def test_one_client_leaves_room_for_the_others_and_readers_for_writers(narrow: Daemon) -> None:
    with ExitStack() as opened:

        def stub(name: str) -> gnmi_pb2_grpc.gNMIStub:
            return gnmi_pb2_grpc.gNMIStub(opened.enter_context(channel(narrow, name)))

        def subscribed(by: gnmi_pb2_grpc.gNMIStub) -> Any:
            call = by.Subscribe(iter_open(subscription("/qclimb", STREAM)), timeout=WAIT_S)
            next(call)
            return call

        viewer, stranger, orchestrator = stub("viewer"), stub("stranger"), stub("orchestrator")
        calls = [subscribed(viewer) for _ in range(6)]
        assert failure(lambda: subscribed(viewer)) == (
            "RESOURCE_EXHAUSTED",
            "viewer has 6 subscriptions open, the most for one client",
        )
        calls += [subscribed(stranger) for _ in range(3)]
        assert failure(lambda: subscribed(stranger)) == (
            "RESOURCE_EXHAUSTED",
            "9 subscriptions are open already, the most for all clients",
        )
        calls.append(subscribed(orchestrator))
        assert got(viewer, "/qclimb/state/admin-state") == [["disabled"]]
        calls.pop(0).cancel()

        def is_free_again() -> bool:
            try:
                calls.append(subscribed(orchestrator))
            except grpc.RpcError:
                return False
            return True

        wait_until(is_free_again, "a place is free again")
        for call in calls:
            call.cancel()


def wordless(found: grpc.Channel, method: str, end: threading.Event) -> grpc.Future:
    """A call of one request that never comes."""

    def nothing() -> Iterator[bytes]:
        end.wait(WAIT_S)
        yield from ()

    call: grpc.Future = found.stream_unary(f"/gnmi.gNMI/{method}").future(nothing())
    return call


@pytest.mark.parametrize("method", ["Capabilities", "Get", "Set"])
def test_a_call_whose_request_never_comes_ends_and_makes_room(switch: Switch, method: str) -> None:
    end = threading.Event()
    with (
        serving(switch, Limits(unary_of_one=2, first_message_s=0.3)) as port,
        grpc.insecure_channel(f"127.0.0.1:{port}") as found,
    ):
        calls = [wordless(found, method, end) for _ in range(4)]
        said = [failure(one.result) for one in calls]
        assert said.count(("DEADLINE_EXCEEDED", "no request came within 0.3 s")) >= 2
        assert {code for code, _ in said} <= {"DEADLINE_EXCEEDED", "RESOURCE_EXHAUSTED"}
        end.set()
        gnmi_pb2_grpc.gNMIStub(found).Capabilities(pb.CapabilityRequest())
        assert failure(wordless(found, method, end).result) == (
            "INVALID_ARGUMENT",
            "the call ended without a request",
        )


def test_calls_without_a_request_keep_nobody_else_out(narrow: Daemon, alone: Redis) -> None:
    """More of them than all calls that may be open; their client may only read."""
    count, most = 600, Limits().unary_of_one

    def set_by_another() -> None:
        with channel(narrow, "orchestrator") as found:
            give(gnmi_pb2_grpc.gNMIStub(found), BASE)

    async def flooded() -> Counter[grpc.StatusCode]:
        async with AsyncExitStack() as opened:
            own = (("grpc.use_local_subchannel_pool", 1),)
            channels = [
                await opened.enter_async_context(
                    grpc.aio.secure_channel(f"127.0.0.1:{narrow.port}", credentials(narrow, "viewer"), own)
                )
                for _ in range(6)
            ]
            calls = [channels[n % 6].stream_unary("/gnmi.gNMI/Get")() for n in range(count)]
            ends = {asyncio.create_task(call.code()) for call in calls}
            async with asyncio.timeout(WAIT_S):
                while len(waiting := {one for one in ends if not one.done()}) > most:
                    await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.to_thread(set_by_another)
            return Counter(one.result() for one in ends if one.done())

    refused = asyncio.run(flooded())
    assert refused[grpc.StatusCode.RESOURCE_EXHAUSTED] > 0
    assert refused.total() >= count - most, "others: refused by HTTP/2, or late on a slow machine"
    assert stored(alone) == BASE


ROLES = {
    "gnmi_noaccess": "PERMISSION_DENIED",
    "gnmi_config_db_readwrite, gnmi_noaccess": "PERMISSION_DENIED",
    "gnmi_readonly , gnmi_config_db_noaccess": "PERMISSION_DENIED",
    "gnmi_readonly, gnmi_config_db_readwrite ": "OK",
    "gnmi_readwrite": "PERMISSION_DENIED to write",
}


@pytest.mark.parametrize("roles", ROLES)
def test_roles_are_read_as_sonics_server_reads_them(daemon: Daemon, server: Redis, roles: str) -> None:
    row = server.db(CONFIG).hgetall("GNMI_CLIENT_CERT|viewer")
    server.db(CONFIG).hset("GNMI_CLIENT_CERT|viewer", "role@", roles)
    try:
        with channel(daemon, "viewer") as found:
            stub = gnmi_pb2_grpc.gNMIStub(found)
            if ROLES[roles] == "PERMISSION_DENIED":
                code, text = failure(lambda: stub.Capabilities(pb.CapabilityRequest()))
                assert (code, "viewer has no access: role@ gnmi_" in text) == ("PERMISSION_DENIED", True), text
                return
            stub.Capabilities(pb.CapabilityRequest())
            if ROLES[roles] == "OK":
                give(stub, BASE)
            else:
                assert failure(lambda: give(stub, BASE))[0] == "PERMISSION_DENIED"
    finally:
        server.db(CONFIG).hset("GNMI_CLIENT_CERT|viewer", mapping=row)
