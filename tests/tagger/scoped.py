"""A sending host in kernel mode: its cgroup, programs that know nothing of qclimb, and what left of them."""

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import stand
from hosts import PORTS, Host
from qclimb.policy import Policy
from qclimb.record import FlowRecord
from qclimb.record_rows import to_records

from hostlib.hostd.kernel import KernelMode
from hostlib.hostd.kernel import remove as remove_kernel
from hostlib.hostd.place import Place
from hostlib.hostd.scope import Scope
from hostlib.hostd.tagger import Tagger, remove
from lab.fabric import FabricError, cgroups
from lab.fabric.netns import entered

PROGRAMS = Path(__file__).parent / "programs"
_numbers = count()


@contextmanager
def cgroup() -> Iterator[Path]:
    """A new one; skips where there is no cgroup v2, or it may not be written."""
    with ExitStack() as stack:
        try:
            made = stack.enter_context(cgroups.cgroup(f"qckernel-{os.getpid()}-{next(_numbers)}"))
        except FabricError as error:
            pytest.skip(str(error))
        yield made


@dataclass
class KernelHost:
    host: Host
    cgroup: Path
    tagger: Tagger
    kernel: KernelMode
    records: list[FlowRecord] = field(default_factory=list)
    flows: int = 0
    """That the records stand for."""

    def follow(self, policy: Policy) -> None:
        with entered(self.host.netns):
            self.tagger.follow(policy)
            self.kernel.follow(policy)

    def start(self, *argv: str | Path, is_in: bool = True, **more) -> subprocess.Popen:
        """A program of this host, bare, in the cgroup or not."""
        words = list(map(str, argv))
        command = cgroups.joined(words, self.cgroup) if is_in else words
        command = ["nsenter", f"--net=/run/netns/{self.host.netns}", *command]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **more)

    def told(self, flows: int) -> list[FlowRecord]:
        """The records so far, once they tell of so many."""

        def has_come() -> bool:
            rows, stand_for = self.kernel.read()
            self.records += to_records(rows)
            self.flows += int(stand_for.sum())
            return self.flows >= flows

        stand.wait_until(has_come)
        return self.records


@contextmanager
def kernel_mode(
    host: Host, policy: Policy, *, devices: tuple[str, ...] = ("e0",), **scope: Any
) -> Iterator[KernelHost]:
    """The mode on for programs of a new cgroup; gone afterwards."""
    with cgroup() as group:
        place = Place(host.run_dir)
        stand.put_policy(host.run_dir, policy)
        tagger = Tagger(place, devices, cgroups=(group,))
        made = KernelHost(host, group, tagger, KernelMode(place, Scope((group,), **scope), tagger))
        made.follow(policy)
        if "does not show who writes" in made.kernel.problem:
            pytest.skip(made.kernel.problem)
        assert not made.kernel.problem, made.kernel.problem
        try:
            yield made
        finally:
            made.kernel.close()
            with entered(host.netns):
                remove_kernel(host.run_dir / "bpf")
                remove(place)


def send(a: KernelHost, b: Host, argv, size: int, *, flows=1, chunk=1 << 30, to=stand.B, is_in=True, port=None):
    """What a program of `programs/` sends to the sink on `b`, as captured there."""
    port = port or next(PORTS)
    words = json.dumps({"address": "0.0.0.0" if "." in to else "::", "port": port, "flows": flows})
    with b.bench.capture("b") as pcap:
        sink = b.start([stand.PYTHON, stand.TALK, "sink", words], LD_PRELOAD="")
        assert json.loads(sink.stdout.readline()) == {"ready": True}
        sender = a.start(*argv, to, str(port), str(size), str(min(chunk, size)), str(flows), is_in=is_in)
        assert sender.wait(60) == 0
        assert sink.wait(60) == 0
    return stand.stream(stand.segments(pcap), to_port=port)
