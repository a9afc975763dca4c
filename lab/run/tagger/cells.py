"""One cell of the table: a variant, with or without real drops, a seed; what it measured, as a value that is kept.

The flows under test have a known size (one write, so that their footprint is exact) and climb from the last priority
to the first in four chunks. Others' flows go at fixed priorities 1 and 2 past them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from qclimb.hostfile import encode_policy
from qclimb.policy import Mode, Policy, default_dscp

from hostlib.hostd.kernel import remove as remove_kernel_mode
from hostlib.hostd.place import Place
from hostlib.hostd.tagger import read_counts
from lab.experiment.passes import Pass
from lab.fabric.arrivals import captured, held
from lab.fabric.cgroups import cgroup
from lab.fabric.machine import cpu_now, library, process_cpu_s
from lab.fabric.marking import load
from lab.fabric.star import HOST_DEVICE
from lab.fabric.topology import FabricError
from lab.run.tagger.bed import Bed, bed

TRAFFIC = Path(__file__).parents[1] / "programs" / "tagger.py"
PRIORITIES = 4
DSCPS = default_dscp(PRIORITIES)
DEADLINE_S = 300.0
BPF_STATS = Path("/proc/sys/kernel/bpf_stats_enabled")


@dataclass(frozen=True)
class Variant:
    """What places the DSCP, and what keeps a flow from overtaking itself, if anything does."""

    name: str
    title: str
    shim: bool = False
    tagger: bool = False
    filter: bool = False
    kernel: bool = False
    """The kernel mode at the sender, and no library: the program is in a cgroup that is opted in."""
    at_writes: bool = False
    """The program sets its own DSCP before each chunk that it writes."""
    climbs: bool = True


VARIANTS = {
    variant.name: variant
    for variant in (
        Variant("stays", "no climb: all at the last priority", climbs=False),
        Variant("writes", "default kernel, DSCP set at writes", at_writes=True),
        Variant("drain", "drain before promote (the library alone)", shim=True),
        Variant("tagger", "tagger alone (all SACKs shown)", shim=True, tagger=True),
        Variant("filter", "tagger and filter", shim=True, tagger=True, filter=True),
        Variant("kernel", "kernel mode (no library) and filter", tagger=True, filter=True, kernel=True),
    )
}


@dataclass(frozen=True)
class Ground:
    """What all variants of a table have in common."""

    rate_mbit: int = 100
    buffer_packets: int = 1000
    flow_bytes: int = 200_000
    flows: int = 100
    gap_ms: float = 10.0
    #: Others: (priority, bytes a flow, share of the rate).
    others: tuple[tuple[int, int, float], ...] = ((1, 50_000, 0.57), (2, 200_000, 0.12))

    @property
    def thresholds(self) -> tuple[int, ...]:
        """A flow's four quarters, each at a priority of its own."""
        return tuple(self.flow_bytes * quarter // PRIORITIES for quarter in range(1, PRIORITIES))

    @property
    def policy(self) -> Policy:
        """Bounds by footprint alone: L = U = the one write."""
        return Policy(1, Mode.QCLIMB, self.thresholds, DSCPS, use_forest=False, slack_bytes=0)

    def climb(self) -> list[list[int]]:
        """[from byte, DSCP] of each chunk, for a program that marks by itself."""
        return [[self.flow_bytes * n // PRIORITIES, DSCPS[PRIORITIES - 1 - n]] for n in range(PRIORITIES)]


NO_LOSS = Ground()
DROPS = Ground(buffer_packets=25, flow_bytes=400_000)
GROUNDS = {"none": NO_LOSS, "drops": DROPS}


@dataclass(frozen=True)
class Outcome:
    """What a cell measured; flows as `traffic.flow` says them."""

    flows: list[dict[str, float]]
    others: list[dict[str, float]]
    dropped: int
    """Packets at the bottleneck."""
    tagger: dict[str, int]
    """Its counters."""
    idle_share: float
    receiver_cpu_s: float
    """Of the program that receives the flows, others' too."""
    softirq_s: float
    """Of all hosts: they share the machine's CPUs."""
    cost_ns: dict[str, float]
    """Mean of each program of the tagger, where the kernel was asked to measure."""
    cost_packets: dict[str, int]
    held: dict[str, Any]
    """What the receiver held out of order of the flows under test: `lab.fabric.arrivals.Held`."""


def run_cell(cell: Pass[str], ground: Ground, prefix: str, directory: Path, *, with_cost: bool = False) -> Outcome:
    """Builds the bed, runs the flows, takes the bed away.

    Raises:
        FabricError: the bed, the tagger or a program failed; says which.
    """
    variant = VARIANTS[cell.scheme]
    with ExitStack() as stack:
        made = stack.enter_context(bed(prefix, directory, ground.rate_mbit, ground.buffer_packets, DSCPS))
        group = stack.enter_context(cgroup(prefix)) if variant.kernel else None
        _put_policy(made.run_dir, ground.policy)
        if variant.tagger:
            if group:
                stack.callback(remove_kernel_mode, made.run_dir / "bpf")
            load(made.star.netns("a"), Place(made.run_dir), ground.policy, group, use_filter=variant.filter)
        if with_cost:
            was = BPF_STATS.read_text()
            BPF_STATS.write_text("1")
            stack.callback(BPF_STATS.write_text, was)
        shim = _environment(made.run_dir) if variant.shim else {}
        address = made.star.address("b")
        server = _start(stack, made, "b", "serve", {"address": address}, {})
        _ready(server)
        streams = [
            {"dscp": DSCPS[priority], "size": size, "per_s": share * ground.rate_mbit * 1e6 / 8 / size}
            for priority, size, share in ground.others
        ]
        others = _start(
            stack, made, "c", "background", {"address": address, "seed": cell.repeat, "streams": streams}, {}
        )
        _ready(others)
        before, received_s = cpu_now(), process_cpu_s(server.pid)
        climb = ground.climb() if variant.at_writes else None
        if not variant.climbs:
            climb = [[0, DSCPS[-1]]]
        asked = {"address": address, "size": ground.flow_bytes, "flows": ground.flows, "seed": cell.repeat}
        asked |= {"gap_ms": ground.gap_ms, "climb": climb}
        arrived = directory / "arrived.pcap"
        at_receiver = [(made.star.netns("b"), HOST_DEVICE, arrived)]
        with captured(at_receiver, f"tcp and src host {made.star.address('a')}"):
            tested = _start(stack, made, "a", "foreground", asked, shim, group)
            flows = [json.loads(line) for line in _say(tested).splitlines()]
        after, received_s = cpu_now(), process_cpu_s(server.pid) - received_s
        heard = json.loads(_say(others, "\n").splitlines()[-1])
        if len(flows) != ground.flows:
            raise FabricError(f"{cell.name}: {len(flows)} of {ground.flows} flows ended; expected all")
        programs = made.run_dir / "bpf"
        costs = _costs(programs)
        return Outcome(
            flows,
            heard,
            _drops(made),
            read_counts(programs) if variant.tagger else {},
            before.idle_share(after),
            received_s,
            before.softirq_s(after),
            {name: ns / packets for name, (ns, packets) in costs.items() if packets},
            {name: packets for name, (_, packets) in costs.items() if packets},
            asdict(held(arrived)),
        )


def _put_policy(run_dir: Path, policy: Policy) -> None:
    path = run_dir / "policy"
    path.write_bytes(encode_policy(policy))
    path.chmod(0o644)


def _environment(run_dir: Path) -> dict[str, str]:
    return {"LD_PRELOAD": str(library()), "QCLIMB_RUN": str(run_dir)}


def _start(
    stack: ExitStack,
    made: Bed,
    host: str,
    role: str,
    options: dict[str, Any],
    env: dict[str, str],
    group: Path | None = None,
) -> subprocess.Popen[str]:
    program = made.start(host, [sys.executable, str(TRAFFIC), role, json.dumps(options)], env, group)
    stack.callback(_end, program)
    return program


def _end(program: subprocess.Popen[str]) -> None:
    program.kill()
    program.communicate()


def _ready(program: subprocess.Popen[str]) -> None:
    assert program.stdout
    if program.stdout.readline().strip() != "ready":
        raise FabricError(f"`{program.args!r}` did not start")


def _say(program: subprocess.Popen[str], line: str | None = None) -> str:
    try:
        said, _ = program.communicate(line, timeout=DEADLINE_S)
    except subprocess.TimeoutExpired:
        raise FabricError(f"`{program.args!r}` did not end within {DEADLINE_S:g} s") from None
    if program.returncode:
        raise FabricError(f"`{program.args!r}` failed with status {program.returncode}")
    return said


def _drops(made: Bed) -> int:
    show = ["tc", "-n", made.star.netns("sw"), "-j", "-s", "qdisc", "show", "dev", made.star.port]
    said = subprocess.check_output(show, text=True)
    return sum(int(qdisc.get("drops", 0)) for qdisc in json.loads(said) if qdisc["kind"] == "pfifo")


def _costs(bpf: Path) -> dict[str, tuple[int, int]]:
    """(nanoseconds, runs) of each program, by the kernel's own clock."""
    found = {}
    for pin in bpf.glob("programs-*/*"):
        shown = json.loads(subprocess.check_output(["bpftool", "-j", "prog", "show", "pinned", str(pin)], text=True))
        found[pin.name] = int(shown.get("run_time_ns", 0)), int(shown.get("run_cnt", 0))
    return found


def prefix_of_process() -> str:
    """Namespaces of this run's own."""
    return f"tg{os.getpid()}"
