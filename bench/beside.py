"""What the shim's benchmarks share: runs under the library beside bare ones, and the ratio with its interval."""

import os
import random
import shutil
import socket
import statistics
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
from qclimb.hostfile import encode_policy
from qclimb.policy import Mode, Policy, default_dscp

from lab.build import make

ROOT = Path(__file__).parent.parent
LIBRARY = ROOT / "hostlib" / "build" / "libqclimb.so"
PROGRAMS = Path(__file__).parent / "programs"
LIBRARY_FLAGS = ("-shared", "-fPIC", "-ldl")
RESAMPLES = 2000


def is_skipped(name: str, *programs: str) -> bool:
    """Says so where a benchmark that needs root and these programs can't run here."""
    missing = [program for program in programs if not shutil.which(program)]
    why = f"{', '.join(missing)} not installed" if missing else "needs root: makes network namespaces"
    if missing or os.geteuid():
        click.echo(f"[bench] {name} skipped: {why}", err=True)
    return bool(missing or os.geteuid())


def build(target: str) -> None:
    """Brings a target of hostlib up to date; ends the benchmark where it can't."""
    if failure := make(ROOT / "hostlib", target):
        raise SystemExit(f"make -C hostlib {target}: {failure}")


def built(place: Path, source: str, *flags: str | Path, name: str = "") -> Path:
    """A program of PROGRAMS, compiled into `place`."""
    compiler, made = "cc" if source.endswith(".c") else "c++", place / (name or Path(source).stem)
    subprocess.run([compiler, "-O2", "-o", made, PROGRAMS / source, *flags], check=True)
    return made


def policy(mode: Mode) -> Policy:
    """Web search's thresholds of PIAS; what matters here is that small messages cross none."""
    packets = (46, 1084, 1717, 1943, 1989, 1999, 2001)
    return Policy(
        generation=1,
        mode=mode,
        threshold_bytes=tuple(1460 * n for n in packets),
        dscp=default_dscp(8),
        slack_bytes=0,
    )


@contextmanager
def environments(
    modes: Sequence[Mode], policy_of: Callable[[Mode], Policy] = policy
) -> Iterator[dict[str | None, dict[str, str]]]:
    """The environment of a program under each mode, and under None that of a bare one; the library as it stands."""
    build("lib")
    with TemporaryDirectory(prefix="qclimb-bench-") as place:
        found: dict[str | None, dict[str, str]] = {None: dict(os.environ)}
        for mode in modes:
            run_dir = Path(place) / mode
            run_dir.mkdir()
            (run_dir / "policy").write_bytes(encode_policy(policy_of(mode)))
            found[mode] = {**os.environ, "LD_PRELOAD": str(LIBRARY), "QCLIMB_RUN": str(run_dir)}
        yield found


SPLIT = "split"
"""Where a mode stands: the server splits and marks by itself (shim_split.c), the least that exact boundaries cost."""


FORWARD, COUNT = "forward", "count"
"""The same: a library that hands calls on (shim_forward.c), or counts their bytes too: the least to be there at all."""

REFERENCES = {SPLIT: ("shim_split.c",), FORWARD: ("shim_forward.c",), COUNT: ("shim_forward.c", "-DCOUNT")}


def reference_environment(place: Path, reference: str) -> dict[str, str]:
    """The environment of a server under one of REFERENCES, which is built into `place`."""
    source, *flags = REFERENCES[reference]
    library = built(place, source, *LIBRARY_FLAGS, *flags, name=f"{reference}.so")
    return {**os.environ, "LD_PRELOAD": str(library)}


@contextmanager
def two_hosts(net: str) -> Iterator[tuple[str, str]]:
    """Two network namespaces and a link, `e0` at either end, with .1 and .2 of a network such as 198.19.249 (root)."""
    names = (f"qcbench{os.getpid()}a", f"qcbench{os.getpid()}b")
    try:
        for name in names:
            do("ip", "netns", "add", name)
        do("ip", "link", "add", "e0", "netns", names[0], "type", "veth", "peer", "name", "e0", "netns", names[1])
        for number, name in enumerate(names, 1):
            do("ip", "-n", name, "addr", "add", f"{net}.{number}/24", "dev", "e0")
            do("ip", "-n", name, "link", "set", "e0", "up")
        yield names
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


def do(*argv: str) -> None:
    """A command that says nothing."""
    subprocess.run(argv, check=True, capture_output=True)


def run_in(namespace: str, *argv: str) -> list[str]:
    """A command of that host."""
    return ["ip", "netns", "exec", namespace, *argv]


def cpu_ns_of(pid: int) -> int:
    """CPU time that a process and its children ran so far, by the scheduler's clock (interrupts that hit them too)."""
    total = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        total += int((task / "schedstat").read_text().split()[0])
        total += sum(cpu_ns_of(int(child)) for child in (task / "children").read_text().split())
    return total


def in_turns(modes: Sequence[str], repeats: int, measure: Callable[[Any], float]) -> dict[Any, list[float]]:
    """`measure` of a bare program (None) and of each mode, `repeats` times, their order turned by one each time."""
    order: list[str | None] = [None, *modes]
    values: dict[str | None, list[float]] = {mode: [] for mode in order}
    for turn in range(repeats):
        for n in range(len(order)):
            mode = order[(turn + n) % len(order)]
            values[mode].append(measure(mode))
    return values


def compared(values: dict[Any, list[float]], mode: str, together: int = 1) -> dict[str, Any]:
    """The median of the ratios to the bare run of the same turn, with a 95 % bootstrap interval.

    together: so many turns in a row are of the same processes, and are drawn together.
    """
    ratios = [ours / bare for ours, bare in zip(values[mode], values[None], strict=True)]
    drawn = random.Random(1)
    blocks = [ratios[at : at + together] for at in range(0, len(ratios), together)]
    medians = sorted(
        statistics.median(ratio for block in drawn.choices(blocks, k=len(blocks)) for ratio in block)
        for _ in range(RESAMPLES)
    )
    low, high = medians[round(0.025 * RESAMPLES)], medians[round(0.975 * RESAMPLES) - 1]
    return {"ratio": statistics.median(ratios), "95 %": f"{low:.3f} .. {high:.3f}"}


def row_ns(values: dict[Any, list[float]], mode: str, goal: str) -> dict[str, Any]:
    """A line of a benchmark whose values are nanoseconds: the medians, and how they compare."""
    return {
        "mode": str(mode),
        "bare_ns": statistics.median(values[None]),
        "ns": statistics.median(values[mode]),
        **compared(values, mode),
        "goal": goal,
    }


def row_per_s(
    rates: dict[Any, list[float]], cpu_ns: dict[Any, list[float]], mode: str, goal: str, together: int = 1
) -> dict[str, Any]:
    """A line of a benchmark of servers: requests a second, the processor's ns a request, and how both compare."""
    return {
        "mode": str(mode),
        "bare_per_s": statistics.median(rates[None]),
        "per_s": statistics.median(rates[mode]),
        **compared(rates, mode, together),
        "goal": goal,
        "bare_cpu_us": statistics.median(cpu_ns[None]) / 1000,
        "cpu_us": statistics.median(cpu_ns[mode]) / 1000,
        **{f"cpu {name}": value for name, value in compared(cpu_ns, mode, together).items()},
    }


def last_cpu() -> str:
    """The processor that programs are bound to."""
    return str(max(os.sched_getaffinity(0)))


def free_port() -> int:
    """One that was free a moment ago."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])
