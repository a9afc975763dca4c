"""What hosts cost the orchestrator: CPU time a request beside a server that does nothing; and a wave of them.

`python -m bench control`: N hosts that each second poll and then deliver, no second before the last one's answers. The
orchestrator is the real process with a policy in force; `bare` is uvicorn over TLS with an application that answers at
once (bare.py). Servers on the last processor, the hosts on the others. `python -m bench.control one` measures a case.

poll      the poll alone
idle      a host has nothing to deliver: the poll, and a heartbeat
ordinary  100 flows a second
full      4,096 flows a second; records of as many of them as the last answer asked for

`python -m bench.control wave`: N hosts of F flows a second begin at once and do as qclimb-hostd does, pauses by its own
rule, answers awaited for 5 s, a delivery without an answer again as it was under its key. After `--seconds` the
orchestrator is killed (SIGKILL), comes back after `--away` and is watched for as long again; then hosts see no more
flows and deliver what is left. Told for each second: what the process took of a core, its resident memory, records and
deliveries taken, refusals, answers that did not come, polls' times. In the end each host's flows and records by the
orchestrator's statistics are held against what the host counted. `--first 4096`: hosts that know nothing of a first
delivery of 64, as hostd was before.
"""

import asyncio
import json
import os
import re
import signal
import ssl
import statistics
import tempfile
import time
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
from qclimb.pki import Authority
from tabulate import tabulate

from hostlib.hostd.collected import CAPACITY, FIRST_RECORDS
from hostlib.hostd.daemon import pause_s

from .beside import cpu_ns_of, last_cpu
from .hosts import SEEDS, Host, Process, Refused, Server, bare_server, content, flows_of, orchestrator

KINDS = {"poll": None, "idle": 0, "ordinary": 100, "full": 4096}
CASES = (
    ("poll", 500),
    *(("idle", n) for n in (8, 100, 500)),
    *(("ordinary", n) for n in (8, 100, 500)),
    ("full", 8),
    ("full", 500),
)
SERVERS = {"bare": bare_server, "orchestrator": orchestrator}
SECONDS = 5.0
SETTLE_S = 2.0
INTERVAL_S = 1.0
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

    async def took(self, what: Coroutine[Any, Any, None], into: str) -> None:
        """An answer, and its time in the second in which it came."""
        at = time.monotonic()
        await what
        getattr(self.now, into).append(time.monotonic() - at)


@contextmanager
def processors() -> Iterator[None]:
    """This process leaves the last one to the servers."""
    all_of_them = os.sched_getaffinity(0)
    if len(all_of_them) > 1:
        os.sched_setaffinity(0, all_of_them - {int(last_cpu())})
    try:
        yield
    finally:
        os.sched_setaffinity(0, all_of_them)


@contextmanager
def living(lives: Sequence[Coroutine[Any, Any, None]]) -> Iterator[list[asyncio.Task[None]]]:
    """Hosts that live until it is left."""
    tasks = [asyncio.create_task(life) for life in lives]
    try:
        yield tasks
    finally:
        for task in tasks:
            task.cancel()


async def ended(tasks: list[asyncio.Task[None]]) -> None:
    """Raises what one of them died of."""
    for end in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(end, Exception):
            raise end


# ---- what a request costs


async def steady(host: Host, count: int | None, phase_s: float, watched: Watched) -> None:
    """A poll and a delivery each second, no second before the last one's answers."""
    loop = asyncio.get_running_loop()
    due = loop.time() + phase_s
    while True:
        await asyncio.sleep(max(0.0, due - loop.time()))
        due = max(due + 1, loop.time())
        try:
            await watched.took(host.poll(), "polls_s")
            if count is not None:
                request = host.delivery(count, count, min(host.wanted, count))
                await watched.took(host.deliver(request), "deliveries_s")
        except Refused:
            watched.now.refused += 1


async def load(server: Server, ca: Path, count: int | None, seconds: float) -> tuple[Second, float]:
    """What hosts saw, and the server's CPU seconds a second."""
    tls, watched = ssl.create_default_context(cafile=str(ca)), Watched()
    for seed in range(SEEDS):
        content(count or 0, count or 0, seed, count or 0)
    hosts = [Host(name, token, server.port, tls, n) for n, (name, token) in enumerate(server.tokens.items())]
    for host in hosts:
        await host.poll()
    with living([steady(host, count, n / len(hosts), watched) for n, host in enumerate(hosts)]) as tasks:
        await asyncio.sleep(SETTLE_S)
        watched.seconds.append(Second())
        before_ns, begin = cpu_ns_of(server.process.pid), time.monotonic()
        await asyncio.sleep(seconds)
        share = (cpu_ns_of(server.process.pid) - before_ns) / 1e9 / (time.monotonic() - begin)
        seen = watched.now
        watched.seconds.append(Second())
    await ended(tasks)
    return seen, share


def measured(place: Path, who: str, kind: str, hosts: int, seconds: float = SECONDS) -> dict[str, Any]:
    """One case at one server."""
    authority = Authority(place / "pki")
    with SERVERS[who](place, authority, hosts) as server:
        seen, share = asyncio.run(load(server, authority.certificate, KINDS[kind], seconds))
    requests = len(seen.polls_s) + len(seen.deliveries_s) + seen.refused
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
        "refused": seen.refused,
    }


def run(cases: tuple[tuple[str, int], ...] = CASES) -> list[dict[str, Any]]:
    """Rows of the benchmark; `ratio` is CPU a request over that of `bare`."""
    rows = []
    with processors():
        for kind, hosts in cases:
            with tempfile.TemporaryDirectory(prefix="qclimb-bench-") as place:
                least, ours = (measured(Path(place), who, kind, hosts) for who in SERVERS)
            told = {name: value for name, value in ours.items() if name != "server"}
            rows.append({**told, "bare_cpu_us": least["cpu_us"], "ratio": ours["cpu_us"] / least["cpu_us"]})
    return rows


# ---- a wave


class Waving(Host):
    """One hostd: so many flows a second since it began, records of some of them; `gathered_s` before its first poll."""

    def __init__(self, flows: int, gathered_s: int, *host: Any) -> None:
        super().__init__(*host)
        self._flows, self._waiting_s, self.seen = flows, gathered_s, gathered_s * flows
        self._undelivered: tuple[bytes, int, int] | None = None
        self.busy = True
        self.sent = self.left_out = 0

    async def live(self, phase_s: float, watched: Watched) -> None:
        """Polls and delivers until it is cancelled."""
        loop, failures = asyncio.get_running_loop(), 0
        await asyncio.sleep(phase_s)
        counted = loop.time()
        while True:
            told_s = 0.0
            if self.busy:
                whole = int(loop.time() - counted + 1e-3)
                counted, self._waiting_s = counted + whole, self._waiting_s + whole
                self.seen += whole * self._flows
            try:
                await watched.took(self.poll(), "polls_s")
                for _ in range(1 if self._undelivered is None else 2):
                    await self._deliver_one(watched)
                failures = 0
            except Refused as error:
                failures, told_s = failures + 1, float(error.args[0])
                watched.now.refused += 1
            except (OSError, asyncio.IncompleteReadError):  # a TimeoutError is an OSError
                failures += 1
                watched.now.failed += 1
            await asyncio.sleep(pause_s(INTERVAL_S, failures, told_s))

    async def _deliver_one(self, watched: Watched) -> None:
        if self._undelivered is None:
            flows, self._waiting_s = self._waiting_s * self._flows, 0
            kept = min(flows, self.wanted, CAPACITY)
            self._undelivered = self.delivery(self._flows, flows, kept), kept, flows - kept
        request, kept, left_out = self._undelivered
        await watched.took(self.deliver(request), "deliveries_s")
        watched.now.records += kept
        watched.now.left_out += left_out
        self._undelivered = None
        self.sent, self.left_out = self.sent + kept, self.left_out + left_out


def resident_mb(pid: int, name: str = "VmRSS") -> float:
    """Of a process, MB."""
    found = re.search(rf"{name}:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    return int(found[1]) * 1024 / 1e6 if found else 0.0


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
    process: Process, hosts: list[Waving], watched: Watched, seconds: float, away_s: float, phase_s: float
) -> dict[str, Any]:
    """The whole course; at which second what began."""
    marks: dict[str, Any] = {}
    with living([host.live(phase_s * n / len(hosts), watched) for n, host in enumerate(hosts)]) as tasks:
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
    await ended(tasks)
    return marks


def compared(statistics_: dict[str, Any], hosts: list[Waving]) -> dict[str, Any]:
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


def waved(
    hosts: int, flows: int, first: int, seconds: float, away_s: float, phase_s: float, gathered_s: int
) -> tuple[list[Second], dict[str, Any]]:
    """One run."""
    for seed in range(SEEDS):
        flows_of(flows, seed)
    with tempfile.TemporaryDirectory(prefix="qclimb-bench-") as place:
        authority = Authority(Path(place) / "pki")
        with orchestrator(Path(place), authority, hosts) as server:
            assert server.rest
            before, tls = resident_mb(server.process.pid), ssl.create_default_context(cafile=str(authority.certificate))
            made = [
                Waving(flows, gathered_s, name, token, server.port, tls, n, first)
                for n, (name, token) in enumerate(server.tokens.items())
            ]
            watched = Watched()
            marks = asyncio.run(observed(server.process, made, watched, seconds, away_s, phase_s))
            found = server.rest.get("/v1/flows/statistics").raise_for_status().json()
            database_mb = round(sum(path.stat().st_size for path in server.folder.glob("store.db*")) / 1e6)
    marks = {"before_mb": round(before), **marks, "database_mb": database_mb, **compared(found, made)}
    return watched.seconds[:-1], marks


@click.group(epilog="Example: python -m bench.control one --hosts 500 --kind ordinary")
def main() -> None:
    """What hosts cost the orchestrator."""


@main.command(epilog="Example: python -m bench.control one --hosts 500 --kind ordinary --seconds 10")
@click.option("--hosts", default=500, show_default=True, help="How many there are.")
@click.option("--kind", type=click.Choice(list(KINDS)), default="ordinary", show_default=True, help="What they do.")
@click.option("--server", "who", type=click.Choice(list(SERVERS)), default="orchestrator", help="Whom they ask.")
@click.option("--seconds", default=SECONDS, show_default=True, help="For how long they are watched.")
def one(hosts: int, kind: str, who: str, seconds: float) -> None:
    """Measure one case, without `bare`."""
    with tempfile.TemporaryDirectory(prefix="qclimb-bench-") as place:
        found = measured(Path(place), who, kind, hosts, seconds)
    click.echo(
        json.dumps({name: round(value, 3) if isinstance(value, float) else value for name, value in found.items()})
    )


@main.command(epilog="Example: python -m bench.control wave --hosts 500 --flows 4096")
@click.option("--hosts", default=500, show_default=True, help="How many there are.")
@click.option("--flows", default=4096, show_default=True, help="Flows a second of each.")
@click.option("--first", default=FIRST_RECORDS, show_default=True, help="Records in a host's first delivery, at most.")
@click.option("--seconds", default=20.0, show_default=True, help="Watched from the begin, and after the return.")
@click.option("--away", default=10.0, show_default=True, help="Seconds for which the orchestrator is gone; 0: never.")
@click.option("--gathered", default=0, show_default=True, help="Seconds of flows that each host has at its first poll.")
@click.option("--at-once", is_flag=True, help="All hosts poll for the first time in one moment, not over a second.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of a table.")
def wave(
    hosts: int, flows: int, first: int, seconds: float, away: float, gathered: int, at_once: bool, as_json: bool
) -> None:
    """Let a large fabric begin at once, and lose its orchestrator."""
    with processors():
        found, marks = waved(hosts, flows, first, seconds, away, 0.0 if at_once else 1.0, gathered)
    rows = [second.row(at) for at, second in enumerate(found)]
    if as_json:
        click.echo(json.dumps({"seconds": rows, **marks}))
    else:
        click.echo(tabulate(rows, headers="keys") + "\n")
        click.echo(tabulate(marks.items(), tablefmt="plain"))


if __name__ == "__main__":
    main()
