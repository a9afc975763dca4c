"""Small block reads beside large ones from real servers: the paper's figures 15 and 16, with nbdkit and fio.

Each of some senders serves a disk in memory by NBD (nbdkit); at the receiver one fio a server reads 4 KB at random
places, and another 4 MB. Both are unmodified programs that keep one connection each.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from shutil import which
from statistics import mean
from tempfile import TemporaryDirectory
from typing import Any

from lab.fabric import FabricError
from lab.fabric.machine import cpu_now
from lab.fabric.star import HOST_DEVICE, Star
from lab.run.optax.tasks import Scheme, variables

PORT = 10809
DISK_BYTES = 256 << 20
RAMP_S, RUN_S, SETTLE_S = 1, 6, 0.5
START_S = 120.0
PROGRAMS = ("nbdkit", "fio")


@dataclass(frozen=True)
class Blocks:
    """What runs at once: a reader of small and one of large blocks for each of `servers`; a depth of 0: none."""

    servers: int = 4
    small_depth: int = 1
    large_depth: int = 1
    small_per_s: int = 50
    """Small reads a second that each reader begins, where it can."""
    small_bytes: int = 4 << 10
    large_bytes: int = 4 << 20
    run_s: int = RUN_S


BLOCK_SCHEMES = ("fair", "optax", "priority", "optax-priority", "priority-64k", "optax-priority-64k")
BLOCK_POINTS = {
    "small reads alone": (Blocks(large_depth=0), ("fair",)),
    "one at a time": (Blocks(), BLOCK_SCHEMES),
    "4 small, 2 large at a time": (Blocks(small_depth=4, large_depth=2), BLOCK_SCHEMES),
}
"""What is measured, by name, and under which schemes."""


@dataclass(frozen=True)
class BlockResult:
    """One run. Means are over readers; nan where there were none."""

    latency_us: float
    """Of a small read, from its submission to its end."""
    p99_us: float
    """The mean of the readers' 99th percentiles."""
    small_per_s: float
    """Small reads a second, of all readers."""
    large_bytes_per_s: float
    """What came in at the receiver but for the small reads, headers included."""
    idle_share: float


def programs() -> list[Path]:
    """The programs. Raises FabricError where one is missing."""
    found = {name: which(name) for name in PROGRAMS}
    missing = [name for name, path in found.items() if not path]
    if missing:
        raise FabricError(f"{' and '.join(missing)} missing; Debian's packages nbdkit and fio have them")
    return [Path(path) for path in found.values() if path]


@contextmanager
def disks(star: Star, scheme: Scheme, count: int) -> Iterator[None]:
    """An nbdkit on each of the first `count` senders."""
    running = []
    with TemporaryDirectory() as folder:
        ready = [Path(folder) / name for name in star.senders[:count]]
        try:
            for name, pidfile in zip(star.senders, ready, strict=False):
                argv = ["nbdkit", "-f", "-P", str(pidfile), "-p", str(PORT), "memory", str(DISK_BYTES)]
                argv = star.argv(name, argv, variables(scheme, scheme.sender))
                running.append(subprocess.Popen(argv, stderr=subprocess.DEVNULL))
            deadline = time.monotonic() + START_S
            while not all(pidfile.exists() for pidfile in ready):
                if time.monotonic() > deadline or any(server.poll() is not None for server in running):
                    raise FabricError("an nbdkit of the experiment did not start")
                time.sleep(0.01)
            yield
        finally:
            for server in running:
                server.terminate()
            for server in running:
                server.wait()


def reader(address: str, block_bytes: int, depth: int, run_s: int, per_s: int = 0) -> list[str]:
    """A fio that reads blocks at random places; per_s: no more than so many a second, 0: as fast as it can."""
    argv = [
        "fio",
        f"--name=read{block_bytes}",
        "--ioengine=nbd",
        f"--uri=nbd://{address}:{PORT}",
        "--rw=randread",
        "--norandommap",
        f"--bs={block_bytes}",
        f"--iodepth={depth}",
        f"--size={DISK_BYTES}",
        "--time_based",
        f"--ramp_time={RAMP_S}",
        f"--runtime={run_s}",
        "--thread",
        "--lat_percentiles=1",
        "--output-format=json",
    ]
    return [*argv, f"--rate_iops={per_s}"] if per_s else argv


def _received_bytes(star: Star) -> int:
    argv = star.argv(star.receiver, ["cat", f"/sys/class/net/{HOST_DEVICE}/statistics/rx_bytes"], {})
    return int(subprocess.run(argv, capture_output=True, text=True, check=True).stdout)


def run_blocks(star: Star, scheme: Scheme, blocks: Blocks) -> BlockResult:
    """Runs the readers; disks are there already. Raises FabricError where one fails."""
    environment = variables(scheme, scheme.receiver)
    kinds = [
        (blocks.small_bytes, blocks.small_depth, blocks.small_per_s),
        (blocks.large_bytes, blocks.large_depth, 0),
    ]
    addresses = [star.address(name) for name in star.senders[: blocks.servers]]
    jobs = [
        (size, reader(to, size, depth, blocks.run_s, per_s))
        for size, depth, per_s in kinds
        if depth
        for to in addresses
    ]
    before = cpu_now()
    with TemporaryDirectory() as folder:
        running = [
            subprocess.Popen(
                star.argv(star.receiver, argv, environment),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                cwd=folder,
            )
            for _, argv in jobs
        ]
        try:
            time.sleep(RAMP_S + SETTLE_S)
            start_s, start_bytes = time.monotonic(), _received_bytes(star)
            time.sleep(blocks.run_s - 2 * SETTLE_S)
            rate = (_received_bytes(star) - start_bytes) / (time.monotonic() - start_s)
            said = [_read(process, blocks.run_s) for process in running]
        finally:
            for process in running:
                process.kill()
                process.wait()
    idle_share = before.idle_share(cpu_now())
    small = [read for (size, _), read in zip(jobs, said, strict=True) if size == blocks.small_bytes]
    small_rate = sum(read["iops"] for read in small)
    return BlockResult(
        _mean([read["lat_ns"]["mean"] / 1e3 for read in small]),
        _mean([read["lat_ns"]["percentile"]["99.000000"] / 1e3 for read in small]),
        small_rate,
        rate - small_rate * blocks.small_bytes,
        idle_share,
    )


def _read(process: subprocess.Popen[str], run_s: int) -> Mapping[str, Any]:
    try:
        out, errors = process.communicate(timeout=10 * (RAMP_S + run_s) + START_S)
    except subprocess.TimeoutExpired:
        raise FabricError("a fio of the experiment did not end") from None
    if process.returncode:
        raise FabricError(f"a fio failed: {errors.strip() or process.returncode}")
    (job,) = json.loads(out[out.index("{") :])["jobs"]
    read: Mapping[str, Any] = job["read"]
    if not read["total_ios"]:
        raise FabricError("a fio of the experiment read nothing")
    return read


def _mean(values: Sequence[float]) -> float:
    return mean(values) if values else float("nan")
