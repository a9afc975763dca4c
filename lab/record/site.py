"""Where recordings are made: a fabric of four hosts in two racks, whose shims observe and tell a collector.

Links are four times the lab's usual rate, for here nothing is compared: only what programs send counts.
"""

from __future__ import annotations

import selectors
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from qclimb.hostfile import encode_policy
from qclimb.policy import Mode, Policy
from qclimb.record import FlowRecord

from hostlib.hostd.collected import Collected
from hostlib.hostd.errors import PlaceError
from hostlib.hostd.inbox import Inbox
from hostlib.hostd.lengths import Lengths
from hostlib.hostd.place import Place
from lab.fabric import Fabric, Topology
from lab.workload.ground import FabricGround
from lab.workload.programs import WorkloadError

TOPOLOGY = Topology(leaves=2, spines=2, hosts_per_leaf=2, host_rate_bps=100_000_000, uplink_rate_bps=200_000_000)
POLICY = Policy(generation=1, mode=Mode.OBSERVE, threshold_bytes=(10_000,), dscp=(47, 43), slack_bytes=0)
ALL_OF_THEM = 1 << 30
GRACE_S = 0.5


class Collector:
    """Reads the record sockets of all hosts in a thread of its own, as hostd does, and keeps every record.

    Each host learns for itself how its services' messages tell their size, from nothing on.
    """

    def __init__(self, places: Mapping[str, Path]) -> None:
        self.inboxes = {host: Inbox(place / "records") for host, place in places.items()}
        self.lengths = {host: Lengths(Place(place)) for host, place in places.items()}
        self._kept = {host: Collected(capacity=ALL_OF_THEM) for host in places}
        for kept in self._kept.values():
            kept.limit = ALL_OF_THEM  # no orchestrator says how many it takes
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._read, name="collector", daemon=True)
        self._thread.start()

    def _read(self) -> None:
        with selectors.DefaultSelector() as ready:
            for host, inbox in self.inboxes.items():
                ready.register(inbox, selectors.EVENT_READ, host)
            while not self._ends.is_set():
                for key, _ in ready.select(0.1):
                    self._read_one(key.data)
                for lengths in self.lengths.values():
                    with suppress(PlaceError):  # at the end the fabric takes the folders away
                        lengths.follow(lengths.learner.known, lengths.learner.changes, time.monotonic())
            for host in self.inboxes:
                while self._read_one(host):
                    pass

    def _read_one(self, host: str) -> int:
        return self.inboxes[host].read(self._kept[host], self.lengths[host].learner)

    @property
    def flows(self) -> int:
        """Records so far."""
        return sum(kept.waiting.offered for kept in self._kept.values())

    def end(self) -> tuple[list[tuple[str, FlowRecord]], dict[str, int]]:
        """All (host, record) pairs, and what was lost on the way."""
        self._ends.set()
        self._thread.join()
        lost = {
            "dropped_by_shims": sum(inbox.dropped_by_shims for inbox in self.inboxes.values()),
            "malformed_datagrams": sum(inbox.malformed for inbox in self.inboxes.values()),
        }
        for inbox in self.inboxes.values():
            inbox.close()
        return [(host, record) for host, kept in self._kept.items() for record in kept.take().records], lost


@dataclass
class Site:
    """A fabric in which programs are recorded."""

    fabric: Fabric
    collector: Collector
    say: Callable[[str], None]
    folder: Path
    phases: list[tuple[int, str]] = field(default_factory=list)
    _running: list[subprocess.Popen[Any]] = field(default_factory=list)

    @property
    def hosts(self) -> Mapping[str, str]:
        """IPv4 address of each host by name."""
        return self.fabric.hosts

    @property
    def ground(self) -> FabricGround:
        """The same hosts as workload knows them."""
        return FabricGround(self.fabric)

    def task(self, name: str) -> None:
        """Flows that start from now on belong to this task."""
        self.phases.append((time.monotonic_ns(), name))
        self.say(f"{name} ({self.collector.flows} flows so far)")

    def start(
        self, host: str, argv: Sequence[str], name: str, extra: Mapping[str, str] | None = None
    ) -> subprocess.Popen[Any]:
        """Starts a program on a host under the library; its output goes to `name`.log in the site's folder."""
        with (self.folder / f"{name}.log").open("ab") as log:
            process = self.fabric.popen(
                host,
                argv,
                is_scheduled=True,
                env=self.fabric.host_env(host, extra=extra),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
            )
        self._running.append(process)
        return process

    def wait(self, process: subprocess.Popen[Any], name: str, deadline_s: float) -> None:
        """Waits for a program's good end; WorkloadError, with its last words, for another one."""
        try:
            status: int | None = process.wait(deadline_s)
        except subprocess.TimeoutExpired:
            status = None
        if status != 0:
            words = (self.folder / f"{name}.log").read_text(errors="replace").strip()[-800:]
            how = f"did not end within {deadline_s:.0f} s" if status is None else f"ended with status {status}"
            raise WorkloadError(f"{name} {how}: {words}")

    def await_listening(self, process: subprocess.Popen[Any], name: str, host: str, port: int) -> None:
        """Waits until a server takes connections; WorkloadError when it ends, or after 20 s."""
        until = time.monotonic() + 20
        while process.poll() is None and time.monotonic() < until:
            with suppress(OSError), self.fabric.entered(host):
                socket.create_connection((self.hosts[host], port), timeout=1).close()
                return
            time.sleep(0.05)
        words = (self.folder / f"{name}.log").read_text(errors="replace").strip()[-800:]
        raise WorkloadError(f"{name} does not listen on {self.hosts[host]}:{port}: {words or 'it said nothing'}")

    def end(self) -> None:
        """SIGTERM to what still runs, so that libraries hand over their last records; then SIGKILL."""
        for process in reversed(self._running):
            if process.poll() is None:
                with suppress(ProcessLookupError):
                    process.send_signal(signal.SIGTERM)
        until = time.monotonic() + 5
        for process in self._running:
            try:
                process.wait(max(0.0, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        time.sleep(GRACE_S)


@contextmanager
def site(prefix: str, folder: Path, say: Callable[[str], None]) -> Iterator[Site]:
    """A site for the length of a block; everything in it ends with the block."""
    folder.mkdir(parents=True, exist_ok=True)
    with Fabric(TOPOLOGY, prefix, progress=say) as fabric:
        places = {host: fabric.run_directory(host) for host in fabric.hosts}
        for place in places.values():
            (place / "policy").write_bytes(encode_policy(POLICY))
        made = Site(fabric, Collector(places), say, folder)
        try:
            yield made
        finally:
            made.end()
