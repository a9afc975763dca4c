"""What hosts cost the orchestrator: CPU time a request, beside the same server with an application that does nothing.

N hosts, each with a kept TLS connection and a token of its own, do each second what qclimb-hostd does: ask for the
policy by its ETag (304), then deliver what it saw, with an Idempotency-Key. The orchestrator is the real process with
a policy in force; `bare` is uvicorn over TLS, of which an application reads each body and answers at once. Servers on
the last processor, the hosts on the others.

poll      the poll alone
idle      a host has nothing to deliver: the poll, and a heartbeat
ordinary  100 flows a second
full      4,096 flows a second; records of as many of them as the last answer asked for

`python bench/control.py one --hosts 500 --kind ordinary --seconds 10` measures one of them, without `bare`.
"""

import asyncio
import json
import os
import random
import re
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import click
import httpx
import uvicorn
from qclimb.delivery import ACCEPT_POST, MEDIA_TYPE, encode_delivery
from qclimb.histogram import SizeHistogram
from qclimb.policy import Mode
from qclimb.record import HAD_FOREST_BOUNDS, FlowRecord
from qclimb.record_rows import Rows, from_records

from hostlib.hostd.collected import FIRST_RECORDS
from lab.pki import Authority, Pair

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
from beside import cpu_ns_of, free_port, last_cpu  # noqa: E402

KINDS = {"poll": None, "idle": 0, "ordinary": 100, "full": 4096}
CASES = (
    ("poll", 500),
    *(("idle", n) for n in (8, 100, 500)),
    *(("ordinary", n) for n in (8, 100, 500)),
    ("full", 8),
    ("full", 500),
)
SECONDS = 5.0
SETTLE_S = 2.0
PIN = ["taskset", "-c", last_cpu()]


@dataclass
class Seen:
    """What a load saw: answers by status, and the seconds that each took."""

    statuses: dict[int, int] = field(default_factory=dict)
    polls_s: list[float] = field(default_factory=list)
    deliveries_s: list[float] = field(default_factory=list)

    def took(self, status: int, seconds: float, into: list[float]) -> None:
        """An answer came."""
        self.statuses[status] = self.statuses.get(status, 0) + 1
        into.append(seconds)


@dataclass(frozen=True)
class Server:
    """Where it listens, whose CPU counts, and each host's token."""

    port: int
    pid: int
    tokens: dict[str, str]


def records(count: int, seed: int) -> list[FlowRecord]:
    """Flows of a busy host: some services, sizes over seven decades."""
    drawn = random.Random(seed)
    found = []
    for index in range(count):
        start = 10**12 + index * 10**6
        found.append(
            FlowRecord(
                start_ns=start,
                last_write_ns=start + drawn.randrange(10**6),
                size_bytes=int(10 ** drawn.uniform(1, 8)),
                lower_bytes=drawn.randrange(100),
                upper_bytes=10**9,
                first_write_bytes=drawn.randrange(1, 65536),
                footprint_lower_bytes=drawn.randrange(1, 65536),
                start_us=index * 1000,
                gap_us=drawn.randrange(10**6),
                last_size_bytes=tuple(drawn.randrange(10**6) for _ in range(5)),  # type: ignore[arg-type]
                connection=index % 50,
                pid=drawn.randrange(1, 30),
                flow_index=index,
                local_addr=f"198.19.{seed % 200}.1",
                peer_addr=f"198.19.{drawn.randrange(200)}.1",
                local_port=7000 + drawn.randrange(4),
                peer_port=drawn.randrange(30_000, 60_000),
                role=1,
                mode=Mode.QCLIMB,
                flags=HAD_FOREST_BOUNDS,
                comm="redis-server",
            )
        )
    return found


class Host:
    """One host's connection."""

    def __init__(self, name: str, token: str, port: int, tls: ssl.SSLContext, count: int | None, seed: int) -> None:
        self._port, self._tls = port, tls
        self._count, self._seed, self._wanted = count, seed, FIRST_RECORDS
        head = f"Host: 127.0.0.1:{port}\r\nAccept-Encoding: identity\r\nAuthorization: Bearer {token}\r\n"
        self._poll = f'GET /v1/hosts/{name}/policy HTTP/1.1\r\n{head}If-None-Match: "1"\r\n\r\n'.encode()
        self._post = f"POST /v1/hosts/{name}/records HTTP/1.1\r\n{head}Content-Type: {MEDIA_TYPE}\r\n".encode()

    async def connect(self) -> None:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port, ssl=self._tls)

    async def _ask(self, request: bytes) -> int:
        self._writer.write(request)
        await self._writer.drain()
        head = await self._reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"(?i)content-length: *(\d+)", head)
        body = await self._reader.readexactly(int(length[1])) if length else b""
        if body:
            self._wanted = json.loads(body)["next_records"]
        return int(head[9:12])

    def _delivery(self, count: int) -> bytes:
        body = content_of(count, self._seed, min(self._wanted, count))
        key = b"Idempotency-Key: %032x\r\n" % random.getrandbits(128) if count else b""
        return self._post + key + b"Content-Length: %d\r\n\r\n" % len(body) + body

    async def live(self, phase_s: float, seen: Seen) -> None:
        """A poll and a delivery each second, no second before the last one's answers."""
        loop = asyncio.get_running_loop()
        due = loop.time() + phase_s
        while True:
            await asyncio.sleep(max(0.0, due - loop.time()))
            due = max(due + 1, loop.time())
            at = loop.time()
            status = await self._ask(self._poll)
            between = loop.time()
            seen.took(status, between - at, seen.polls_s)
            if self._count is None:
                continue
            status = await self._ask(self._delivery(self._count))
            seen.took(status, loop.time() - between, seen.deliveries_s)


@cache
def flows_of(count: int, seed: int) -> tuple[Rows, dict[str, Any]]:
    """A host's flows of a second, and the histogram of their sizes."""
    found = records(count, seed)
    return from_records(found), SizeHistogram.of(record.size_bytes for record in found).to_json()


@cache
def content_of(count: int, seed: int, kept: int) -> bytes:
    """The body of a delivery, as hostd makes it, with records of some of its flows."""
    rows, histogram = flows_of(count, seed)
    told = {
        "histogram": histogram,
        "dropped": count - kept,
        "unobserved": 0,
        "policy_generation": 1,
        "label": None,
    }
    return encode_delivery(told, rows[:kept])


async def load(server: Server, ca: Path, count: int | None, seconds: float) -> tuple[Seen, float]:
    """What hosts saw, and the server's CPU seconds a second."""
    tls, loop, seen = ssl.create_default_context(cafile=str(ca)), asyncio.get_running_loop(), Seen()
    for seed in range(8):
        content_of(count or 0, seed, count or 0)
    hosts = [Host(name, token, server.port, tls, count, n % 8) for n, (name, token) in enumerate(server.tokens.items())]
    for host in hosts:
        await host.connect()
    tasks = [asyncio.create_task(host.live(n / len(hosts), seen)) for n, host in enumerate(hosts)]
    try:
        await asyncio.sleep(SETTLE_S)
        seen.statuses, seen.polls_s, seen.deliveries_s = {}, [], []
        before_ns, begin = cpu_ns_of(server.pid), loop.time()
        await asyncio.sleep(seconds)
        share = (cpu_ns_of(server.pid) - before_ns) / 1e9 / (loop.time() - begin)
        for task in tasks:
            if task.done():
                task.result()
        return Seen(dict(seen.statuses), list(seen.polls_s), list(seen.deliveries_s)), share
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def bare(scope: Any, receive: Any, send: Any) -> None:
    """Reads a request and answers as the orchestrator would, knowing nothing."""
    if scope["type"] != "http":
        return
    while (await receive()).get("more_body"):
        pass
    get = scope["method"] == "GET"
    body = b"" if get else b'{"label":"default","records":0,"next_records":4096}'
    headers = [(b"etag", b'"1"')]
    if not get:
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        headers.append((b"accept-post", ACCEPT_POST.encode()))
    await send({"type": "http.response.start", "status": 304 if get else 202, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def serve_bare(port: int, pair: Pair) -> None:
    """Serves `bare` as the orchestrator is served."""
    uvicorn.run(
        bare,
        host="127.0.0.1",
        port=port,
        ssl_certfile=pair.certificate,
        ssl_keyfile=pair.key,
        access_log=False,
        log_config=None,
        server_header=False,
        lifespan="off",
        timeout_keep_alive=60,
    )


@contextmanager
def started(argv: list[str], port: int, log: Path) -> Iterator[int]:
    """A server's pid, once it takes connections; ended by SIGTERM."""
    with log.open("wb") as out:
        process = subprocess.Popen([*PIN, *argv], stdout=out, stderr=out)
    try:
        end = time.monotonic() + 30
        while True:
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except ConnectionRefusedError:
                if process.poll() is not None or time.monotonic() > end:
                    raise click.ClickException(log.read_text()[-2000:]) from None
                time.sleep(0.05)
        yield process.pid
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextmanager
def bare_server(place: Path, authority: Authority, hosts: int) -> Iterator[Server]:
    """The reference."""
    pair, port = authority.server("bare", "127.0.0.1"), free_port()
    argv = [sys.executable, __file__, "bare", str(port), str(pair.certificate), str(pair.key)]
    with started(argv, port, place / "bare.log") as pid:
        yield Server(port, pid, {f"h{n}": "none" for n in range(hosts)})


def orchestrator_argv(folder: Path, port: int, authority: Authority) -> list[str]:
    """The command of an orchestrator whose database and first token lie in a folder."""
    server, client = authority.server("orchestrator", "127.0.0.1"), authority.client("to-switches")
    argv = [sys.executable, "-m", "orchestrator.cli", "serve", "--listen", f"127.0.0.1:{port}"]
    argv += ["--database", f"sqlite:///{folder / 'store.db'}", "--bootstrap-token-file", str(folder / "admin.token")]
    argv += ["--tls-cert", str(server.certificate), "--tls-key", str(server.key)]
    argv += ["--switch-cert", str(client.certificate), "--switch-key", str(client.key)]
    return [*argv, "--switch-ca", str(authority.certificate)]


def rest_of(folder: Path, port: int, authority: Authority) -> httpx.Client:
    """Its REST as its admin, once it has written the token."""
    while not (folder / "admin.token").exists() or not (folder / "admin.token").read_text().strip():
        time.sleep(0.05)
    return httpx.Client(
        base_url=f"https://127.0.0.1:{port}",
        verify=ssl.create_default_context(cafile=str(authority.certificate)),
        headers={"Authorization": f"Bearer {(folder / 'admin.token').read_text().strip()}"},
        timeout=60,
    )


def enrolled(rest: httpx.Client, hosts: int) -> dict[str, str]:
    """Brings a policy into force and registers so many hosts; their tokens."""

    def said(method: str, path: str, body: object = None) -> Any:
        return rest.request(method, path, json=body).raise_for_status().json()

    said("POST", "/v1/revisions", {"priorities": 3, "thresholds": [10_000, 100_000]})
    said("POST", "/v1/rollouts", {"revision": 1})
    while said("GET", "/v1/rollouts/1")["phase"] == "running":  # no host is awaited: none is there yet
        time.sleep(0.05)
    tokens = {}
    for name in (f"h{n}" for n in range(hosts)):
        said("PUT", f"/v1/hosts/{name}")
        tokens[name] = said("POST", "/v1/tokens", {"role": "host", "name": name})["token"]
    return tokens


@contextmanager
def orchestrator(place: Path, authority: Authority, hosts: int) -> Iterator[Server]:
    """A new orchestrator with so many hosts and a policy in force."""
    folder, port = Path(tempfile.mkdtemp(dir=place)), free_port()
    with started(orchestrator_argv(folder, port, authority), port, folder / "log") as pid:
        with rest_of(folder, port, authority) as rest:
            tokens = enrolled(rest, hosts)
        yield Server(port, pid, tokens)


SERVERS = {"bare": bare_server, "orchestrator": orchestrator}


def measured(place: Path, who: str, kind: str, hosts: int, seconds: float = SECONDS) -> dict[str, Any]:
    """One case at one server."""
    authority = Authority(place / "pki")
    with SERVERS[who](place, authority, hosts) as server:
        seen, share = asyncio.run(load(server, authority.certificate, KINDS[kind], seconds))
    requests = sum(seen.statuses.values())
    return {
        "hosts": hosts,
        "kind": kind,
        "server": who,
        "requests_per_s": requests / seconds,
        "cpu_us": 1e6 * share * seconds / requests,
        "core_share": share,
        "poll_p50_ms": 1000 * statistics.median(seen.polls_s),
        "poll_p99_ms": 1000 * statistics.quantiles(seen.polls_s, n=100)[98],
        "delivery_p50_ms": 1000 * statistics.median(seen.deliveries_s or [0]),
        "delivery_p99_ms": 1000 * statistics.quantiles(seen.deliveries_s or [0, 0], n=100)[98],
        "refused": requests - seen.statuses.get(304, 0) - seen.statuses.get(202, 0),
    }


def run(cases: tuple[tuple[str, int], ...] = CASES) -> list[dict[str, Any]]:
    """Rows of the benchmark; `ratio` is CPU a request over that of `bare`."""
    others = os.sched_getaffinity(0)
    if len(others) > 1:
        os.sched_setaffinity(0, others - {int(last_cpu())})
    rows = []
    try:
        for kind, hosts in cases:
            with tempfile.TemporaryDirectory(prefix="qclimb-bench-") as place:
                least, ours = (measured(Path(place), who, kind, hosts) for who in SERVERS)
            told = {name: value for name, value in ours.items() if name != "server"}
            rows.append({**told, "bare_cpu_us": least["cpu_us"], "ratio": ours["cpu_us"] / least["cpu_us"]})
    finally:
        os.sched_setaffinity(0, others)
    return rows


@click.group()
def main() -> None:
    """What hosts cost the orchestrator."""


@main.command("bare", hidden=True)
@click.argument("port", type=int)
@click.argument("certificate", type=click.Path(path_type=Path))
@click.argument("key", type=click.Path(path_type=Path))
def bare_command(port: int, certificate: Path, key: Path) -> None:
    serve_bare(port, Pair(certificate, key))


@main.command()
@click.option("--hosts", default=500, show_default=True)
@click.option("--kind", type=click.Choice(list(KINDS)), default="ordinary", show_default=True)
@click.option("--server", "who", type=click.Choice(list(SERVERS)), default="orchestrator", show_default=True)
@click.option("--seconds", default=SECONDS, show_default=True)
def one(hosts: int, kind: str, who: str, seconds: float) -> None:
    """One case."""
    with tempfile.TemporaryDirectory(prefix="qclimb-bench-") as place:
        found = measured(Path(place), who, kind, hosts, seconds)
    click.echo(
        json.dumps({name: round(value, 3) if isinstance(value, float) else value for name, value in found.items()})
    )


if __name__ == "__main__":
    main()
