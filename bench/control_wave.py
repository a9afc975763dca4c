"""What a large fabric's hosts cost the orchestrator when they all begin at once, and when it was away from them.

N hosts of F flows a second each, which do what qclimb-hostd does: a poll and a delivery each second over a kept TLS
connection, answers awaited for 5 s, a delivery without an answer again as it was under its key, pauses by hostd's own
rule. After `--seconds` the orchestrator is killed (SIGKILL), comes back after `--away` and is watched for as long
again; then hosts see no more flows and deliver what is left. Told for each second: what the process took of a core, its
resident memory, records and deliveries taken, refusals, answers that did not come, polls' times. In the end each host's
flows and records by the orchestrator's statistics are held against what the host counted.

    python bench/control_wave.py --hosts 500 --flows 4096 [--first 4096] [--gathered 5] [--at-once] [--away 10]

`--first 4096`: hosts that know nothing of a first delivery of 64, as hostd was before. The orchestrator is what
`python -m orchestrator.cli` finds. Orchestrator on the last processor, hosts on the others.
"""

import asyncio
import json
import os
import random
import re
import signal
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
import numpy as np
from qclimb.delivery import MEDIA_TYPE, encode_delivery
from tabulate import tabulate

from hostlib.hostd.collected import CAPACITY, FIRST_RECORDS
from hostlib.hostd.daemon import pause_s
from hostlib.hostd.orchestrator import TIMEOUT_S
from lab.pki import Authority

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
from beside import cpu_ns_of, free_port, last_cpu  # noqa: E402
from control import PIN, enrolled, flows_of, orchestrator_argv, rest_of  # noqa: E402

INTERVAL_S = 1.0
SEEDS = 8
DRAIN_S = 40.0


@dataclass
class Second:
    """What happened in a second."""

    polls_s: list[float] = field(default_factory=list)
    deliveries_s: list[float] = field(default_factory=list)
    records: int = 0
    left_out: int = 0
    refused: int = 0
    failed: int = 0
    core: float = 0.0
    resident_mb: float = 0.0
    load_core: float = 0.0

    def row(self, at: int) -> dict[str, Any]:
        """As it is told."""

        def ms(values: list[float], part: float) -> float:
            return round(1000 * statistics.quantiles([*values, values[0]], n=1000)[int(1000 * part) - 1], 1)

        told: dict[str, Any] = {"s": at, "core": round(self.core, 2), "MB": round(self.resident_mb)}
        told |= {"load": round(self.load_core, 2), "polls": len(self.polls_s), "taken": len(self.deliveries_s)}
        told |= {"records": self.records, "left out": self.left_out, "503": self.refused, "no answer": self.failed}
        for name, values in (("poll", self.polls_s), ("delivery", self.deliveries_s)):
            for part in (0.5, 0.99):
                told[f"{name} p{100 * part:.0f} ms"] = ms(values, part) if values else None
        return told


@dataclass
class Watched:
    """The seconds so far; what happens now belongs to the last."""

    seconds: list[Second] = field(default_factory=lambda: [Second()])

    @property
    def now(self) -> Second:
        """This one."""
        return self.seconds[-1]


class Refused(Exception):
    """The answer is no; when to come again."""


class Host:
    """One hostd, without what it reads: so many flows a second since it began, records of some of them."""

    def __init__(
        self, name: str, token: str, port: int, tls: ssl.SSLContext, flows: int, seed: int, first: int
    ) -> None:
        self.name, self._port, self._tls, self._seed = name, port, tls, seed % SEEDS
        self._flows, self._wanted = flows, first
        head = f"Host: 127.0.0.1:{port}\r\nAccept-Encoding: identity\r\nAuthorization: Bearer {token}\r\n"
        self._poll = f'GET /v1/hosts/{name}/policy HTTP/1.1\r\n{head}If-None-Match: "1"\r\n\r\n'.encode()
        self._post = f"POST /v1/hosts/{name}/records HTTP/1.1\r\n{head}Content-Type: {MEDIA_TYPE}\r\n".encode()
        self._writer: asyncio.StreamWriter | None = None
        self._undelivered: tuple[bytes, int, int] | None = None
        self._failures = 0
        self.busy = True
        self.waiting_s = 0
        self.seen = self.sent = self.left_out = 0

    async def live(self, phase_s: float, watched: Watched) -> None:
        """Polls and delivers until it is cancelled."""
        loop = asyncio.get_running_loop()
        await asyncio.sleep(phase_s)
        counted = loop.time()
        while True:
            told_s = 0.0
            if self.busy:
                whole = int(loop.time() - counted + 1e-3)
                counted, self.waiting_s = counted + whole, self.waiting_s + whole
                self.seen += whole * self._flows
            try:
                at = loop.time()
                await self._ask(self._poll)
                watched.now.polls_s.append(loop.time() - at)
                await self._deliver(watched)
                self._failures = 0
            except Refused as error:
                self._failures, told_s = self._failures + 1, float(error.args[0])
                watched.now.refused += 1
            except (OSError, asyncio.IncompleteReadError):  # a TimeoutError is an OSError
                self._failures += 1
                watched.now.failed += 1
                self._close()
            await asyncio.sleep(pause_s(INTERVAL_S, self._failures, told_s))

    async def _deliver(self, watched: Watched) -> None:
        again = self._undelivered is not None
        await self._deliver_one(watched)
        if again:
            await self._deliver_one(watched)

    async def _deliver_one(self, watched: Watched) -> None:
        loop = asyncio.get_running_loop()
        if self._undelivered is None:
            flows, self.waiting_s = self.waiting_s * self._flows, 0
            kept = min(flows, self._wanted, CAPACITY)
            key = b"Idempotency-Key: %032x\r\n" % random.getrandbits(128) if flows else b""
            body = content(self._flows, flows, self._seed, kept)
            request = self._post + key + b"Content-Length: %d\r\n\r\n" % len(body) + body
            self._undelivered = request, kept, flows - kept
        request, kept, left_out = self._undelivered
        at = loop.time()
        answer = await self._ask(request)
        watched.now.deliveries_s.append(loop.time() - at)
        watched.now.records += kept
        watched.now.left_out += left_out
        self._wanted, self._undelivered = answer["next_records"], None
        self.sent, self.left_out = self.sent + kept, self.left_out + left_out

    async def _ask(self, request: bytes) -> Any:
        """Once more at once where a kept connection was gone."""
        kept = self._writer is not None
        try:
            return await self._exchange(request)
        except (ConnectionError, asyncio.IncompleteReadError):
            self._close()
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
            self._close()
            raise
        status = int(head[9:12])
        if status >= 400:
            asked = re.search(rb"(?i)retry-after: *(\d+)", head)
            if status != 503:
                raise click.ClickException(f"{self.name}: {status} {body!r}")
            raise Refused(int(asked[1]) if asked else 0)
        return json.loads(body) if body else None

    def _close(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.transport.abort()


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


def resident_mb(pid: int, name: str = "VmRSS") -> float:
    """Of a process, MB."""
    found = re.search(rf"{name}:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    return int(found[1]) * 1024 / 1e6 if found else 0.0


class Process:
    """The orchestrator's, which may be killed and comes back at its address."""

    def __init__(self, argv: list[str], log: Path) -> None:
        self._argv, self._log = argv, log
        self.start()

    def start(self) -> None:
        """Once more."""
        with self._log.open("ab") as out:
            self.process: subprocess.Popen[bytes] | None = subprocess.Popen([*PIN, *self._argv], stdout=out, stderr=out)

    def end(self, number: int) -> None:
        """By a signal; returns when it is gone."""
        if self.process is not None:
            self.process.send_signal(number)
            self.process.wait()
            self.process = None

    @property
    def pid(self) -> int:
        """Of what runs; 0."""
        return 0 if self.process is None else self.process.pid


@contextmanager
def running(argv: list[str], log: Path) -> Iterator[Process]:
    """An orchestrator that is ended, whatever happens."""
    process = Process(argv, log)
    try:
        yield process
    finally:
        process.end(signal.SIGTERM)


async def tick(process: Process, watched: Watched, seconds: float) -> None:
    """Watches for so long, second by second."""
    loop = asyncio.get_running_loop()
    for _ in range(int(seconds)):
        pid, own = process.pid, time.process_time_ns()
        before, at = cpu_ns_of(pid) if pid else 0, loop.time()
        await asyncio.sleep(1)
        now, took_ns = watched.now, 1e9 * (loop.time() - at)
        now.load_core = (time.process_time_ns() - own) / took_ns
        if pid and pid == process.pid:
            now.core, now.resident_mb = (cpu_ns_of(pid) - before) / took_ns, resident_mb(pid)
        watched.seconds.append(Second())


async def observed(
    process: Process, hosts: list[Host], watched: Watched, seconds: float, away_s: float, phase_s: float
) -> dict[str, Any]:
    """The whole course; at which second what began."""
    tasks = [asyncio.create_task(host.live(phase_s * n / len(hosts), watched)) for n, host in enumerate(hosts)]
    marks: dict[str, Any] = {}
    try:
        await tick(process, watched, seconds)
        marks["peak_mb"] = round(resident_mb(process.pid, "VmHWM"))
        if away_s:
            marks["killed_s"] = len(watched.seconds) - 1
            process.end(signal.SIGKILL)
            await tick(process, watched, away_s)
            marks["back_s"] = len(watched.seconds) - 1
            process.start()
            await tick(process, watched, seconds)
            marks["peak_after_mb"] = round(resident_mb(process.pid, "VmHWM"))
        marks["quiet_s"] = len(watched.seconds) - 1
        for host in hosts:
            host.busy = False
        for _ in range(int(DRAIN_S)):
            await tick(process, watched, 1)
            if all(host.sent + host.left_out == host.seen for host in hosts):
                break
    finally:
        for task in tasks:
            task.cancel()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
    for end in ends:
        if isinstance(end, Exception) and not isinstance(end, asyncio.CancelledError):
            raise end
    return marks


def compared(statistics_: dict[str, Any], hosts: list[Host]) -> dict[str, Any]:
    """What the orchestrator counted beside what hosts did."""
    theirs, records = statistics_["hosts"], statistics_["records"]
    return {
        "flows at hosts": sum(host.seen for host in hosts),
        "flows counted": statistics_["flows"],
        "hosts that differ": sum(theirs.get(host.name, 0) != host.seen for host in hosts),
        "records sent": sum(host.sent for host in hosts),
        "records received": records["received"],
        "left out at hosts": sum(host.left_out for host in hosts),
        "left out as told": records["dropped_at_host"],
    }


def measured(
    hosts: int, flows: int, first: int, seconds: float, away_s: float, phase_s: float, gathered_s: int
) -> tuple[list[Second], dict[str, Any]]:
    """One run."""
    for seed in range(SEEDS):
        flows_of(flows, seed)
    with tempfile.TemporaryDirectory(prefix="qclimb-bench-") as place:
        folder, port, authority = Path(place), free_port(), Authority(Path(place) / "pki")
        with running(orchestrator_argv(folder, port, authority), folder / "log") as process:
            with rest_of(folder, port, authority) as rest:
                tokens = enrolled_when_up(rest, hosts)
            before = resident_mb(process.pid)
            tls = ssl.create_default_context(cafile=str(authority.certificate))
            made = [Host(name, token, port, tls, flows, n, first) for n, (name, token) in enumerate(tokens.items())]
            for host in made:
                host.waiting_s, host.seen = gathered_s, gathered_s * flows
            watched = Watched()
            marks = asyncio.run(observed(process, made, watched, seconds, away_s, phase_s))
            with rest_of(folder, port, authority) as rest:
                found = rest.get("/v1/flows/statistics").raise_for_status().json()
            marks = {"before_mb": round(before), **marks, "database_mb": database_mb(folder), **compared(found, made)}
    return watched.seconds[:-1], marks


def enrolled_when_up(rest: Any, hosts: int) -> dict[str, str]:
    """Tokens, once connections are taken."""
    while True:
        try:
            rest.get("/v1/hosts").raise_for_status()
            return enrolled(rest, hosts)
        except OSError:
            pass
        except Exception as error:
            if type(error).__name__ != "ConnectError":
                raise
        time.sleep(0.05)


def database_mb(folder: Path) -> int:
    """On the disk, the log of writes included."""
    return round(sum(path.stat().st_size for path in folder.glob("store.db*")) / 1e6)


@click.command(epilog="Example: python bench/control_wave.py --hosts 500 --flows 4096")
@click.option("--hosts", default=500, show_default=True)
@click.option("--flows", default=4096, show_default=True, help="Flows a second of each.")
@click.option("--first", default=FIRST_RECORDS, show_default=True, help="Records in a host's first delivery, at most.")
@click.option("--seconds", default=20.0, show_default=True, help="Watched from the begin, and after the return.")
@click.option("--away", default=10.0, show_default=True, help="Seconds for which the orchestrator is gone; 0: never.")
@click.option("--gathered", default=0, show_default=True, help="Seconds of flows that each host has at its first poll.")
@click.option("--at-once", is_flag=True, help="All hosts poll for the first time in one moment, not over a second.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of a table.")
def main(
    hosts: int, flows: int, first: int, seconds: float, away: float, gathered: int, at_once: bool, as_json: bool
) -> None:
    """Let a large fabric begin at once, and lose its orchestrator."""
    others = os.sched_getaffinity(0)
    if len(others) > 1:
        os.sched_setaffinity(0, others - {int(last_cpu())})
    found, marks = measured(hosts, flows, first, seconds, away, 0.0 if at_once else 1.0, gathered)
    rows = [second.row(at) for at, second in enumerate(found)]
    if as_json:
        click.echo(json.dumps({"seconds": rows, **marks}))
    else:
        click.echo(tabulate(rows, headers="keys") + "\n")
        click.echo(tabulate(marks.items(), tablefmt="plain"))


if __name__ == "__main__":
    main()
