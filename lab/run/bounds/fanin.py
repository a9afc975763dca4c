"""Queries to memcached over a replay as background: the paper's Figure 12.

Paper: a client asks seven servers at once, some 140,000 GETs, over web-search traffic at loads 0.3 to 0.9. Here every
one of the eight hosts runs memcached and a client that asks the seven others; nine queries in ten get a value of
Facebook's ETC pool from each server (2 KB in all), one in ten 20,000 bytes from each (140 KB). They add a twentieth to
the load of the background, which is a window of a recording.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from lab.run.programs.fanin_client import LARGE_BYTES, LARGE_SHARE, value_bytes
from lab.workload import programs
from lab.workload.ground import Ground
from lab.workload.passes import PassResult

PORT = 11211
CLIENT = Path(__file__).parents[1] / "programs" / "fanin_client.py"
QUERY_LOAD = 0.05


def queries_per_s(host_rate_bps: float, servers: int) -> float:
    """Of each client, so that answers are QUERY_LOAD of its link."""
    small = sum(size for key, size in value_bytes().items() if key != "large") / (len(value_bytes()) - 1)
    mean = servers * (LARGE_SHARE * LARGE_BYTES + (1 - LARGE_SHARE) * small)
    return QUERY_LOAD * host_rate_bps / 8 / mean


class Fanin:
    """memcached on every host and a client on every host; they wait for `begin`. A context: all end with it."""

    def __init__(self, ground: Ground, folder: Path, seed: int, seconds: float) -> None:
        self.ground, self.folder, self.seed, self.seconds = ground, folder.absolute(), seed, seconds
        self._running: list[subprocess.Popen[bytes]] = []
        self.clients: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Fanin:
        memcached = shutil.which("memcached")
        if memcached is None:
            raise programs.WorkloadError("memcached is missing: `apt-get install memcached`")
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        hosts = self.ground.hosts
        try:
            for host, address in hosts.items():
                argv = [memcached, "-u", "root", "-l", address, "-p", str(PORT), "-m", "64", "-t", "1"]
                output = self.folder / f"memcached-{host}.txt"
                self._running.append(self.ground.start(host, argv, output))
                programs.wait_listening(self._running[-1], address, PORT, output)
            names = list(hosts)
            for n, host in enumerate(names):
                others = ",".join(f"{hosts[name]}:{PORT}" for name in names if name != host)
                argv = [sys.executable, str(CLIENT), "--servers", others, "--log", str(self.log(host))]
                argv += [
                    "--fill",
                    f"{hosts[names[(n + 1) % len(names)]]}:{PORT}",
                    "--start",
                    str(self.folder / "start"),
                ]
                argv += ["--seed", str(100 * self.seed + n), "--seconds", str(self.seconds)]
                argv += ["--rate", str(queries_per_s(self.ground.host_rate_bps, len(names) - 1))]
                self.clients.append(self.ground.start(host, argv, self._output(host)))
            self._wait_filled()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        programs.end([*self.clients, *self._running])

    def _output(self, host: str) -> Path:
        return self.folder / f"client-{host}.txt"

    def _wait_filled(self) -> None:
        """Until each server has its values: a query that comes before finds nothing."""
        until = time.monotonic() + programs.LISTEN_DEADLINE_S
        while not all("ready" in self._output(host).read_text() for host in self.ground.hosts):
            if time.monotonic() > until or any(client.poll() is not None for client in self.clients):
                raise programs.WorkloadError(f"memcached's values were not laid; see {self.folder}")
            time.sleep(0.05)

    def log(self, host: str) -> Path:
        """Where a client writes."""
        return self.folder / f"queries-{host}.tsv"

    def begin(self, start_ns: int) -> Sequence[subprocess.Popen[bytes]]:
        """Tells the clients the time 0; returns them, to be waited for."""
        partial = self.folder / "partial"
        partial.write_text(str(start_ns), encoding="ascii")
        partial.rename(self.folder / "start")
        return self.clients

    def result(self, background: PassResult) -> PassResult:
        """The queries as flows, in the pass of their background."""
        rows = []
        for host in self.ground.hosts:
            for line in self.log(host).read_text(encoding="ascii").splitlines():
                due, late, size, took, status = line.split("\t")
                rows.append((host, int(due), int(late), int(size), float(took) if status == "ok" else float("nan")))
        failed = sum(row[4] != row[4] for row in rows)
        return replace(
            background,
            id=list(range(1, len(rows) + 1)),
            service=["query"] * len(rows),
            client=[row[0] for row in rows],
            server=["all others"] * len(rows),
            due_us=[row[1] for row in rows],
            late_us=[row[2] for row in rows],
            bytes=[row[3] for row in rows],
            fct_us=[row[4] for row in rows],
            alone_us=[1.0] * len(rows),
            failures=background.failures | ({"queries": failed} if failed else {}),
        )
