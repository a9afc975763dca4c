"""How many hosts that deliver every 10 s one orchestrator carries: `python -m bench ingest`.

The real process over TLS on the last processor; hosts on the others, each with a kept connection and a token of its
own, paced by hostd's own rule. They begin one after the other, and are watched once all have delivered twice.

hosts      that deliver
flows/s    of each of them; a delivery has those of 10 s, and records of as many as the last answer asked for
core       of the orchestrator's process, and of its host's generator
us/host    CPU time of the process for each host and second
MB         resident
delivery   from request to answer, ms
503        answers that refused; such a delivery comes again
20,000     what so many hosts would take of a core, extrapolated from `us/host`

In the end every host's flows by the orchestrator's statistics are held against what was acknowledged: `differ`.
"""

import asyncio
import ssl
import statistics
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from qclimb.pki import Authority

from hostlib.hostd.daemon import pause_s
from orchestrator.rest import tokens
from orchestrator.store.store import Store

from .beside import cpu_ns_of
from .control import ended, living, processors, resident_mb
from .hosts import Host, Refused, Server, orchestrator

INTERVAL_S = 10.0
ASK_S = 30.0
"""A host asks for its policy so often; what a delivery's answer says does not need it sooner."""
SECONDS = 15.0
HANDSHAKES_PER_S = 400
FABRIC = 20_000
CASES = ((2000, 20, 20_000), (8000, 20, 20_000), (14_000, 20, 20_000), (2000, 50, 100_000))
"""Hosts, flows of each a second, records that the orchestrator asks for a second."""


@dataclass
class Seen:
    """By all hosts, while they are watched."""

    deliveries_s: list[float] = field(default_factory=list)
    records: int = 0
    refused: int = 0
    unanswered: int = 0


@dataclass
class Delivering:
    """One hostd: delivers what it saw since it delivered last; what was not acknowledged, again as it was."""

    host: Host
    flows_per_s: int
    seen: Seen
    ends: asyncio.Event
    acknowledged: int = 0
    deliveries: int = 0

    async def live(self, phase_s: float) -> None:
        """Until `ends`, and until what is under way then is acknowledged."""
        await asyncio.sleep(phase_s)
        now = asyncio.get_running_loop().time
        counted, asked, failures, told_s = now() - INTERVAL_S, now() - ASK_S, 0, 0.0
        waiting: tuple[bytes, int, int] | None = None
        while waiting is not None or not self.ends.is_set():
            try:
                if now() - asked >= ASK_S:
                    asked = now()
                    await self.host.poll()
                if waiting is None:
                    whole_s = round(now() - counted)
                    flows, counted = whole_s * self.flows_per_s, counted + whole_s
                    kept = min(flows, self.host.wanted)
                    waiting = self.host.delivery(self.flows_per_s, flows, kept), flows, kept
                await self._deliver(*waiting)
                waiting, failures, told_s = None, 0, 0.0
            except Refused as error:
                self.seen.refused, failures, told_s = self.seen.refused + 1, failures + 1, float(error.args[0])
            except (OSError, asyncio.IncompleteReadError):  # a TimeoutError is an OSError
                self.seen.unanswered, failures, told_s = self.seen.unanswered + 1, failures + 1, 0.0
            with suppress(TimeoutError):
                pause = pause_s(INTERVAL_S, failures, told_s)
                await asyncio.wait_for(asyncio.sleep(pause) if failures else self.ends.wait(), pause)

    async def _deliver(self, request: bytes, flows: int, kept: int) -> None:
        at = time.monotonic()
        await self.host.deliver(request)
        self.seen.deliveries_s.append(time.monotonic() - at)
        self.seen.records += kept
        self.acknowledged += flows
        self.deliveries += 1


def enrolled(server: Server, hosts: int) -> dict[str, str]:
    """Registers so many while the orchestrator is away; their tokens."""
    server.process.end()
    store = Store(f"sqlite:///{server.folder / 'store.db'}")
    with store.writing():
        for number in range(hosts):
            store.put_host(f"h{number}")
        found = {f"h{number}": tokens.issue(store, f"h{number}", tokens.Role.HOST) for number in range(hosts)}
    store.close()
    server.process.start()
    server.process.wait()
    return found


async def watched(
    server: Server, found: dict[str, str], ca: Path, flows_per_s: int
) -> tuple[dict[str, Any], list[Delivering]]:
    """A row, and the hosts."""
    tls, seen, ends = ssl.create_default_context(cafile=str(ca)), Seen(), asyncio.Event()
    hosts = [
        Delivering(Host(name, token, server.port, tls, n), flows_per_s, seen, ends)
        for n, (name, token) in enumerate(found.items())
    ]
    spread_s = max(INTERVAL_S, len(hosts) / HANDSHAKES_PER_S)
    with living([host.live(spread_s * n / len(hosts)) for n, host in enumerate(hosts)]) as tasks:
        while not all(host.deliveries >= 2 for host in hosts):
            await asyncio.sleep(0.5)
            for task in tasks:
                if task.done():
                    task.result()
        seen.deliveries_s, seen.records, seen.refused, seen.unanswered = [], 0, 0, 0
        pid, at = server.process.pid, time.monotonic()
        ns, own = cpu_ns_of(pid), time.process_time()
        await asyncio.sleep(SECONDS)
        took_s = time.monotonic() - at
        core, generator = (cpu_ns_of(pid) - ns) / 1e9 / took_s, (time.process_time() - own) / took_s
        parts = statistics.quantiles(seen.deliveries_s, n=100)
        row = {
            "hosts": len(hosts),
            "flows/s": flows_per_s,
            "deliveries/s": len(seen.deliveries_s) / took_s,
            "records/s": seen.records / took_s,
            "core": core,
            "generator": generator,
            "us/host": 1e6 * core / len(hosts),
            "MB": resident_mb(pid),
            "p50 ms": 1000 * parts[49],
            "p99 ms": 1000 * parts[98],
            "503": seen.refused,
            "no answer": seen.unanswered,
            f"{FABRIC:,}": core / len(hosts) * FABRIC,
        }
        ends.set()
        await ended(tasks)
    return row, hosts


def measured(place: Path, hosts: int, flows_per_s: int, records_per_s: int) -> dict[str, Any]:
    """One case."""
    authority = Authority(place / "pki")
    more = ("--records-per-s", str(records_per_s))
    with orchestrator(place, authority, 0, more) as server:
        assert server.rest
        found = enrolled(server, hosts)
        row, made = asyncio.run(watched(server, found, authority.certificate, flows_per_s))
        counted = server.rest.get("/v1/flows/statistics").raise_for_status().json()["hosts"]
    differ = sum(counted.get(each.host.name, 0) != each.acknowledged for each in made)
    return {**row, "differ": differ}


def run(cases: tuple[tuple[int, int, int], ...] = CASES) -> list[dict[str, Any]]:
    """Rows of the benchmark."""
    rows = []
    with processors():
        for case in cases:
            with tempfile.TemporaryDirectory(prefix="qclimb-bench-") as place:
                rows.append(measured(Path(place), *case))
    return rows
