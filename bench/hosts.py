"""Hosts of an orchestrator, without what they read, and the servers that they ask: what control.py and hostd.py share.

A host has a kept TLS connection and a token of its own, polls the policy by its ETag and delivers what it saw, with an
Idempotency-Key. Servers run on the last processor.
"""

import asyncio
import json
import random
import re
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import click
import httpx
import numpy as np
from qclimb.delivery import MEDIA_TYPE, encode_delivery
from qclimb.histogram import SizeHistogram
from qclimb.pki import Authority
from qclimb.policy import Mode
from qclimb.record import HAD_FOREST_BOUNDS, FlowRecord
from qclimb.record_rows import Rows, from_records
from qclimb.rest import build_path, client_tls

from hostlib.hostd.collected import FIRST_RECORDS
from hostlib.hostd.orchestrator import TIMEOUT_S

from .beside import ROOT, free_port, last_cpu

SEEDS = 8


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


@cache
def flows_of(count: int, seed: int) -> tuple[Rows, dict[str, Any]]:
    """A host's flows of a second, and the histogram of their sizes."""
    found = records(count, seed)
    return from_records(found), SizeHistogram.of(record.size_bytes for record in found).to_json()


@lru_cache(64)
def content(flows_per_s: int, flows: int, seed: int, kept: int) -> bytes:
    """A delivery of some whole seconds' flows."""
    rows, histogram = flows_of(flows_per_s, seed)
    times = flows // flows_per_s if flows_per_s else 0
    counts = {bucket: count * times for bucket, count in histogram["counts"].items()} if times else {}
    told = {
        "histogram": {**histogram, "counts": counts, "total_bytes": histogram["total_bytes"] * times},
        "dropped": flows - kept,
        "unobserved": 0,
        "policy_generation": 1,
        "label": None,
    }
    sample = rows[np.arange(kept) % max(len(rows), 1)]
    return encode_delivery(told, sample)


class Refused(Exception):
    """The answer is no; when to come again."""


class Host:
    """One host's connection; `wanted`: records of how many flows the last answer asked for."""

    def __init__(
        self, name: str, token: str, port: int, tls: ssl.SSLContext, seed: int, first: int = FIRST_RECORDS
    ) -> None:
        self.name, self.seed, self.wanted = name, seed % SEEDS, first
        self._port, self._tls = port, tls
        head = f"Host: 127.0.0.1:{port}\r\nAccept-Encoding: identity\r\nAuthorization: Bearer {token}\r\n"
        self._poll = f'GET {build_path("hosts", name, "policy")} HTTP/1.1\r\n{head}If-None-Match: "1"\r\n\r\n'.encode()
        self._post = (
            f"POST {build_path('hosts', name, 'records')} HTTP/1.1\r\n{head}Content-Type: {MEDIA_TYPE}\r\n".encode()
        )
        self._writer: asyncio.StreamWriter | None = None

    async def poll(self) -> None:
        """Asks for the policy."""
        await self._ask(self._poll)

    def delivery(self, flows_per_s: int, flows: int, kept: int) -> bytes:
        """A delivery of so many flows, with records of some."""
        body = content(flows_per_s, flows, self.seed, kept)
        key = b"Idempotency-Key: %032x\r\n" % random.getrandbits(128) if flows else b""
        return self._post + key + b"Content-Length: %d\r\n\r\n" % len(body) + body

    async def deliver(self, request: bytes) -> None:
        """Sends it."""
        self.wanted = (await self._ask(request))["next_records"]

    async def _ask(self, request: bytes) -> Any:
        """Once more at once where a kept connection was gone. Raises Refused (503), ClickException (other refusals)."""
        kept = self._writer is not None
        try:
            return await self._exchange(request)
        except (ConnectionError, asyncio.IncompleteReadError):
            if not kept:
                raise
        return await self._exchange(request)

    async def _exchange(self, request: bytes) -> Any:
        try:
            if self._writer is None:
                async with asyncio.timeout(TIMEOUT_S):
                    self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port, ssl=self._tls)
            self._writer.write(request)
            async with asyncio.timeout(TIMEOUT_S):
                await self._writer.drain()
            async with asyncio.timeout(TIMEOUT_S):
                head = await self._reader.readuntil(b"\r\n\r\n")
                length = re.search(rb"(?i)content-length: *(\d+)", head)
                body = await self._reader.readexactly(int(length[1])) if length else b""
        except BaseException:
            writer, self._writer = self._writer, None
            if writer is not None:
                writer.transport.abort()
            raise
        status = int(head[9:12])
        if status == 503:
            asked = re.search(rb"(?i)retry-after: *(\d+)", head)
            raise Refused(int(asked[1]) if asked else 0)
        if status >= 400:
            raise click.ClickException(f"{self.name}: {status} {body!r}")
        return json.loads(body) if body else None


class Process:
    """A server's, which may be killed and comes back at its address."""

    def __init__(self, argv: list[str], port: int, log: Path) -> None:
        self._argv, self._port, self._log = argv, port, log
        self.start()

    def start(self) -> None:
        """Once more."""
        with self._log.open("ab") as out:
            argv = ["taskset", "-c", last_cpu(), *self._argv]
            self.process: subprocess.Popen[bytes] | None = subprocess.Popen(argv, cwd=ROOT, stdout=out, stderr=out)

    def wait(self) -> None:
        """Until it takes connections."""
        end = time.monotonic() + 30
        while True:
            try:
                socket.create_connection(("127.0.0.1", self._port)).close()
                return
            except ConnectionRefusedError:
                if self.process is None or self.process.poll() is not None or time.monotonic() > end:
                    raise click.ClickException(self._log.read_text()[-2000:]) from None
                time.sleep(0.05)

    def end(self, number: int = signal.SIGTERM) -> None:
        """By a signal; returns when it is gone."""
        if self.process is not None:
            self.process.send_signal(number)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
            self.process = None

    @property
    def pid(self) -> int:
        """Of what runs; 0."""
        return 0 if self.process is None else self.process.pid


@contextmanager
def running(argv: list[str], port: int, log: Path) -> Iterator[Process]:
    """A server that takes connections, and is ended, whatever happens."""
    process = Process(argv, port, log)
    try:
        process.wait()
        yield process
    finally:
        process.end()


@dataclass(frozen=True)
class Server:
    """Where it listens, its process, each host's token, and its REST for its admin; the folder of what it keeps."""

    port: int
    process: Process
    tokens: dict[str, str]
    folder: Path
    rest: httpx.Client | None = None


@contextmanager
def bare_server(place: Path, authority: Authority, hosts: int) -> Iterator[Server]:
    """The reference, served as the orchestrator is."""
    pair, port = authority.server("bare", "127.0.0.1"), free_port()
    argv = [sys.executable, "-m", "uvicorn", "bench.bare:bare", "--port", str(port), "--no-access-log"]
    argv += ["--ssl-certfile", str(pair.certificate), "--ssl-keyfile", str(pair.key), "--log-level", "error"]
    argv += ["--no-server-header", "--lifespan", "off", "--timeout-keep-alive", "60"]
    with running(argv, port, place / "bare.log") as process:
        yield Server(port, process, {f"h{n}": "none" for n in range(hosts)}, place)


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
        verify=client_tls(authority.certificate),
        trust_env=False,
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
        said("PUT", build_path("hosts", name))
        tokens[name] = said("POST", "/v1/tokens", {"role": "host", "name": name})["token"]
    return tokens


@contextmanager
def orchestrator(place: Path, authority: Authority, hosts: int, more: Sequence[str] = ()) -> Iterator[Server]:
    """A new orchestrator with so many hosts and a policy in force; `more`: options of `serve`."""
    folder, port = Path(tempfile.mkdtemp(dir=place)), free_port()
    argv = [*orchestrator_argv(folder, port, authority), *more]
    with running(argv, port, folder / "log") as process, rest_of(folder, port, authority) as rest:
        yield Server(port, process, enrolled(rest, hosts), folder, rest)
