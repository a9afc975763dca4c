"""What switchd's gNMI server costs, beside one that does nothing: `python -m bench gnmi`.

`probe` is a server of asyncio that keeps what it is given in memory, without access, schema, validation or redis: about
as fast as gRPC from Python gets. Same client, same run, the two in turn; `ratio` is to the probe's time.

Get leaf  so many clients with a connection each, a Get after the other
Set       one leaf, an intent of 8 classes, also by union_replace, and one of 2 classes that is laid over 128 ports
          where there was none (256 rows of QUEUE, and what belongs to them): answered when the rows are written
on change from the Set to the last of so many subscribers that hears of it
idle      CPU time and memory with an intent on 128 ports; what each of a thousand subscriptions adds
"""

import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import grpc
import redis
from google.protobuf.internal.encoder import _VarintBytes
from pygnmi.spec.v080 import gnmi_pb2 as pb
from pygnmi.spec.v080 import gnmi_pb2_grpc
from qclimb.gnmi_ext import union_replace_of
from qclimb.intent import QueueClass, SwitchIntent
from qclimb.pki import Authority

PORTS, CLIENTS, SUBSCRIBERS, STREAMS = 128, (1, 8, 32), (1, 32, 256, 1000), 1000
IDLE_S = 20.0
CONNECTIONS = 32
GETS, SETS, ROUNDS = 300, 20, 3
GENERATION = ("qclimb", "config", "generation")
OPTIONS = (("grpc.use_local_subchannel_pool", 1),)

Row = dict[str, Any]
Open = Callable[[], grpc.aio.Channel]
Measured = TypeVar("Measured")
EMPTY = pb.TypedValue(json_ietf_val=b"{}")


def path(*names: str) -> pb.Path:
    return pb.Path(elem=[pb.PathElem(name=name) for name in names])


class Probe(gnmi_pb2_grpc.gNMIServicer):  # type: ignore[misc]
    """Keeps the last value, and tells it."""

    def __init__(self) -> None:
        self.value = b'"1"'
        self.version, self.changed = 0, asyncio.Condition()

    async def Get(self, request: Any, context: Any) -> Any:
        update = pb.Update(path=request.path[0], val=pb.TypedValue(json_ietf_val=self.value))
        return pb.GetResponse(notification=[pb.Notification(timestamp=time.time_ns(), update=[update])])

    async def Set(self, request: Any, context: Any) -> Any:
        union = map(pb.Update.FromString, union_replace_of(request.SerializeToString()))
        one = [*request.replace, *request.update, *union][0]
        self.value = json.dumps(json.loads(one.val.json_ietf_val)).encode()
        async with self.changed:
            self.version += 1
            self.changed.notify_all()
        return pb.SetResponse(timestamp=time.time_ns(), response=[pb.UpdateResult(path=one.path)])

    async def Subscribe(self, requests: Any, context: Any) -> Any:
        wanted = await anext(aiter(requests))
        where, version = wanted.subscribe.subscription[0].path, -1
        while True:
            update = pb.Update(path=where, val=pb.TypedValue(json_ietf_val=self.value))
            yield pb.SubscribeResponse(update=pb.Notification(timestamp=time.time_ns(), update=[update]))
            if version < 0:
                yield pb.SubscribeResponse(sync_response=True)
            version = self.version
            async with self.changed:
                await self.changed.wait_for(partial(self._is_newer, version))

    def _is_newer(self, version: int) -> bool:
        return self.version != version


async def serve(folder: Path) -> None:
    """Plain and over mTLS until it is killed; prints both ports."""
    server = grpc.aio.server()
    gnmi_pb2_grpc.add_gNMIServicer_to_server(Probe(), server)
    key, certificate, ca = ((folder / name).read_bytes() for name in ("switch.key", "switch.pem", "ca.pem"))
    secure = server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials([(key, certificate)], ca, True))
    plain = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(f" port={secure}\n port={plain}", flush=True)
    await server.wait_for_termination()


@contextmanager
def started(command: list[str], count: int = 2, log: Path | None = None) -> Iterator[tuple[tuple[int, ...], int]]:
    """As many ports as it prints, and its process; what it says goes to the log."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        assert process.stdout
        said: list[int] = []
        while len(said) < count:
            line = process.stdout.readline()
            if not line:
                raise RuntimeError(f"{command[2]} ended")
            said += [int(line.partition(" port=")[2].split()[0])] if " port=" in line else []
        threading.Thread(target=_copied, args=(process.stdout, log), daemon=True).start()
        yield tuple(said), process.pid
    finally:
        process.kill()
        process.wait()


def _copied(lines: Iterable[str], log: Path | None) -> None:
    """A full pipe would stop whoever writes to it."""
    with (log or Path(os.devnull)).open("w") as file:
        for line in lines:
            file.write(line)
            file.flush()


async def gets(opens: Open, clients: int) -> float:
    """Seconds a Get, of all clients together."""

    async def one(channel: grpc.aio.Channel) -> None:
        stub, request = gnmi_pb2_grpc.gNMIStub(channel), pb.GetRequest(path=[path(*GENERATION)], encoding=pb.JSON_IETF)
        for _ in range(GETS // clients):
            await stub.Get(request)

    channels = [opens() for _ in range(clients)]
    await gnmi_pb2_grpc.gNMIStub(channels[0]).Set(whole(1, 1))
    await asyncio.gather(*(channel.channel_ready() for channel in channels))
    begun = time.perf_counter()
    await asyncio.gather(*(one(channel) for channel in channels))
    spent = time.perf_counter() - begun
    await asyncio.gather(*(channel.close() for channel in channels))
    return spent / (GETS // clients * clients)


async def sets(opens: Open, made: Callable[[int], pb.SetRequest]) -> float:
    """Seconds a Set, made for a generation."""
    async with opens() as channel:
        stub, times = gnmi_pb2_grpc.gNMIStub(channel), []
        await stub.Set(whole(1, 1))
        for number in range(2, 2 + SETS):
            request = made(number)
            begun = time.perf_counter()
            await stub.Set(request)
            times.append(time.perf_counter() - begun)
        return statistics.median(times)


async def laid(opens: Open) -> float:
    """Seconds a Set of two classes where there was no intent."""
    async with opens() as channel:
        stub, times = gnmi_pb2_grpc.gNMIStub(channel), []
        for number in range(1, 1 + SETS):
            await stub.Set(pb.SetRequest(replace=[pb.Update(path=path("qclimb"), val=EMPTY)]))
            begun = time.perf_counter()
            await stub.Set(whole(number, 2))
            times.append(time.perf_counter() - begun)
        return statistics.median(times)


async def changes(opens: Open, subscribers: int) -> float:
    """Seconds from a Set to the last of so many that hear of it."""
    heard = asyncio.Semaphore(0)
    async with subscribed(opens, subscribers, heard) as stub:
        times = []
        for number in range(2, 2 + SETS):
            begun = time.perf_counter()
            await stub.Set(leaf(number))
            await all_of(heard, subscribers)
            times.append(time.perf_counter() - begun)
    return statistics.median(times)


@asynccontextmanager
async def subscribed(opens: Open, subscribers: int, heard: asyncio.Semaphore) -> AsyncIterator[Any]:
    """So many that hear of the generation, by 32 connections at most; and a stub of another."""

    async def one(channel: grpc.aio.Channel) -> None:
        listed = pb.SubscriptionList(
            encoding=pb.JSON_IETF, subscription=[pb.Subscription(path=path(*GENERATION), mode=pb.ON_CHANGE)]
        )

        async def requests() -> Any:
            yield pb.SubscribeRequest(subscribe=listed)
            await asyncio.Event().wait()

        is_first = True
        async for message in gnmi_pb2_grpc.gNMIStub(channel).Subscribe(requests()):
            if message.sync_response or not is_first:
                heard.release()
                is_first = False

    channels = [opens() for _ in range(min(subscribers, CONNECTIONS))]
    async with opens() as channel:
        stub = gnmi_pb2_grpc.gNMIStub(channel)
        await stub.Set(whole(1, 1))
        tasks = [asyncio.create_task(one(channels[n % len(channels)])) for n in range(subscribers)]
        await all_of(heard, subscribers)  # synchronised
        yield stub
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await asyncio.gather(*(each.close() for each in channels))


async def all_of(heard: asyncio.Semaphore, count: int) -> None:
    for _ in range(count):
        await heard.acquire()


def leaf(generation: int) -> pb.SetRequest:
    val = pb.TypedValue(json_ietf_val=json.dumps(str(generation)).encode())
    return pb.SetRequest(update=[pb.Update(path=path(*GENERATION), val=val)])


def whole(generation: int, classes: int) -> pb.SetRequest:
    """An intent on all ports."""
    made = tuple(QueueClass(p, 47 - 4 * p, 7 - p) for p in range(classes))
    (tree,) = SwitchIntent(generation, "enabled", made).to_gnmi().values()
    val = pb.TypedValue(json_ietf_val=json.dumps(tree).encode())
    return pb.SetRequest(replace=[pb.Update(path=path("qclimb"), val=val)])


def united(generation: int, classes: int) -> pb.SetRequest:
    """The same by union_replace, field 6 of gNMI 0.10's SetRequest, which our stubs do not know."""
    (one,) = whole(generation, classes).replace
    update = one.SerializeToString()
    return pb.SetRequest.FromString(b"\x32" + _VarintBytes(len(update)) + update)


async def held(opens: Open, process: int, probe: int) -> list[Row]:
    """What the process takes while nothing happens, without and with a thousand subscriptions; beside it the probe."""
    async with opens() as channel:
        await gnmi_pb2_grpc.gNMIStub(channel).Set(whole(1, 8))
    (base_kib, base_share), (probe_kib, probe_share) = await asyncio.gather(idle(process), idle(probe))
    async with subscribed(opens, STREAMS, asyncio.Semaphore(0)):
        full_kib, full_share = await idle(process)
    return [
        {"what": "idle, probe", "MiB": probe_kib / 1024, "CPU %": 100 * probe_share},
        {"what": "idle", "MiB": base_kib / 1024, "CPU %": 100 * base_share},
        {"what": f"idle, {STREAMS} subscriptions", "MiB": full_kib / 1024, "CPU %": 100 * full_share},
        {"what": "a subscription", "MiB": (full_kib - base_kib) / STREAMS / 1024},
    ]


async def idle(process: int) -> tuple[int, float]:
    """Memory in KiB, and the share of a core over some seconds."""
    before_s = cpu_s(process)
    await asyncio.sleep(IDLE_S)
    return resident_kib(process), (cpu_s(process) - before_s) / IDLE_S


def cpu_s(process: int) -> float:
    """Of the threads that live, to the nanosecond: a tick is 10 ms."""
    tasks = Path(f"/proc/{process}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


def resident_kib(process: int) -> int:
    return int(Path(f"/proc/{process}/status").read_text().partition("VmRSS:")[2].split()[0])


def compared(what: str, probe: Open, own: Open, measure: Callable[[Open], Awaitable[float]]) -> Row:
    """Both in turn, the medians."""
    times: dict[str, list[float]] = {"probe": [], "own": []}
    for _ in range(ROUNDS):
        for name, opens in (("probe", probe), ("own", own)):
            times[name].append(asyncio.run(_awaited(measure(opens))))
    base, ours = statistics.median(times["probe"]), statistics.median(times["own"])
    return {"what": what, "probe ms": 1000 * base, "ms": 1000 * ours, "ratio": ours / base}


async def _awaited(measured: Awaitable[Measured]) -> Measured:
    return await measured


def run() -> list[Row]:
    """See above."""
    with tempfile.TemporaryDirectory(prefix="qcb") as place, ExitStack() as stack:
        folder = Path(place)
        authority = Authority(folder)
        authority.server("switch", "127.0.0.1")
        authority.client("orchestrator")
        url = stack.enter_context(switch_redis(folder))
        tls = [f"--tls-{name}={folder / file}" for name, file in TLS_FILES.items()]
        command = [sys.executable, "-m", "switchd.cli", "--redis", url, "--backend", "redis", "--quiet-s", "0", *tls]
        command += ["--listen", "127.0.0.1:0", "--plain-loopback", "127.0.0.1:0"]
        own, process = stack.enter_context(started(command))
        probe, idler = stack.enter_context(started([sys.executable, "-m", "bench.gnmi", place]))
        ca, key, certificate = (
            (folder / f"{n}").read_bytes() for n in ("ca.pem", "orchestrator.key", "orchestrator.pem")
        )
        credentials = grpc.ssl_channel_credentials(ca, key, certificate)

        def secure(ports: tuple[int, ...]) -> Open:
            return lambda: grpc.aio.secure_channel(f"127.0.0.1:{ports[0]}", credentials, OPTIONS)

        def plain(ports: tuple[int, ...]) -> Open:
            return lambda: grpc.aio.insecure_channel(f"127.0.0.1:{ports[1]}", OPTIONS)

        found = []
        for wire, how in (("plain", plain), ("mTLS", secure)):
            for clients in CLIENTS:
                measure = lambda opens, n=clients: gets(opens, n)  # noqa: E731
                found.append(compared(f"Get leaf, {clients} clients, {wire}", how(probe), how(own), measure))
        for what, made in SETS_OF.items():
            measure = lambda opens, one=made: sets(opens, one)  # noqa: E731
            found.append(compared(f"Set of {what}", plain(probe), plain(own), measure))
        what = f"Set of 2 classes where there was none, {PORTS} ports"
        found.append(compared(what, plain(probe), plain(own), laid))
        for subscribers in SUBSCRIBERS:
            measure = lambda opens, n=subscribers: changes(opens, n)  # noqa: E731
            found.append(compared(f"Set to {subscribers} on change", plain(probe), plain(own), measure))
        return found + asyncio.run(_awaited(held(plain(own), process, idler)))


SETS_OF: dict[str, Callable[[int], pb.SetRequest]] = {
    "one leaf": leaf,
    "an intent of 8 classes": partial(whole, classes=8),
    "an intent of 8 classes by union_replace": partial(united, classes=8),
}
TLS_FILES = {"cert": "switch.pem", "key": "switch.key", "ca": "ca.pem"}


@contextmanager
def switch_redis(folder: Path) -> Iterator[str]:
    """A redis with a switch's ports, and a client that may write."""
    socket = folder / "redis.sock"
    flags = ["--port", "0", "--unixsocket", str(socket), "--save", "", "--notify-keyspace-events", "AKE"]
    server = subprocess.Popen(["redis-server", *flags], stdout=subprocess.DEVNULL)
    try:
        connection = redis.Redis(unix_socket_path=str(socket), db=4)
        while not socket.exists():
            time.sleep(0.05)
        for n in range(PORTS):
            connection.hset(f"PORT|Ethernet{4 * n}", "speed", "25000")
        connection.hset("GNMI_CLIENT_CERT|orchestrator", "role@", "gnmi_config_db_readwrite")
        connection.set("CONFIG_DB_INITIALIZED", "1")
        yield f"unix://{socket}"
    finally:
        server.kill()
        server.wait()


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1])))
