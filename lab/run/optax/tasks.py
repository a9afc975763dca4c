"""Runs tasks on a star and tells when each was complete."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean
from typing import Any

from qclimb.policy import Policy

from lab.build import make
from lab.fabric import FabricError
from lab.fabric.machine import cpu_now, library
from lab.fabric.star import Star
from lab.run.optax.kernel import Join, served

APP = Path(__file__).parents[1] / "programs" / "optax"
PORT = 7100
LEAD_S = 0.7
"""Processes start this long before the first task does."""
DEADLINE_S = 300.0


@dataclass(frozen=True)
class Task:
    """One client process: a flow of `flow_bytes` from each of `width` senders, from `start_s` on."""

    start_s: float
    width: int = 8
    flow_bytes: int = 256 * 1024
    mode: str = "threads"
    name: str = "small"
    pace_kbs: int = 0
    """Each of its senders sends no faster than so many 1000 bytes a second; 0: as fast as it can."""


@dataclass(frozen=True)
class Scheme:
    """How the applications run: bare, under libqclimb.so with these variables at receivers and at senders, or bare with
    hostd's kernel mode at the receiver."""

    name: str
    library: bool = False
    receiver: Mapping[str, str] = field(default_factory=dict)
    sender: Mapping[str, str] = field(default_factory=dict)
    policy: Policy | None = None
    """By which the kernel mode serves the receiver's programs; None: it is not there."""


@dataclass(frozen=True)
class Done:
    """A task that is complete: seconds since the run's start."""

    task: Task
    end_s: float
    samples: tuple[tuple[float, int], ...]
    """Of long tasks: seconds since its start, bytes so far."""

    @property
    def duration_s(self) -> float:
        """Task completion time."""
        return self.end_s - self.task.start_s


@dataclass(frozen=True)
class Result:
    """One run."""

    done: tuple[Done, ...]
    idle_share: float

    def of(self, name: str) -> list[Done]:
        """The tasks of a name."""
        return [each for each in self.done if each.task.name == name]

    @property
    def mean_s(self) -> float:
        """Mean task completion time of the small tasks."""
        return mean(each.duration_s for each in self.of("small"))

    @property
    def makespan_s(self) -> float:
        """From the first small task's start to the last one's end."""
        small = self.of("small")
        return max(each.end_s for each in small) - min(each.task.start_s for each in small)

    def to_json(self) -> dict[str, Any]:
        """For the store."""
        return {
            "idle_share": self.idle_share,
            "done": [{"task": vars(each.task), "end_s": each.end_s, "samples": each.samples} for each in self.done],
        }

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Result:
        """Of to_json."""
        done = tuple(
            Done(Task(**each["task"]), each["end_s"], tuple((at, size) for at, size in each["samples"]))
            for each in found["done"]
        )
        return cls(done, found["idle_share"])


def build_application() -> Path:
    """Compiles the program if its source is newer."""
    if failure := make(APP):
        raise FabricError(f"building {APP} failed: {failure}")
    return APP / "build" / "task"


def variables(scheme: Scheme, own: Mapping[str, str]) -> dict[str, str]:
    """What a process of a scheme is started with."""
    if not scheme.library:
        return {}
    return {"LD_PRELOAD": str(library()), "QCLIMB_RUN": "/nonexistent", **own}


@contextmanager
def senders(star: Star, scheme: Scheme) -> Iterator[None]:
    """A server on each sender."""
    program = str(build_application())
    running = []
    try:
        for name in star.senders:
            argv = star.argv(name, [program, "serve", str(PORT)], variables(scheme, scheme.sender))
            running.append(subprocess.Popen(argv, stdout=subprocess.PIPE, text=True))
        for server in running:
            assert server.stdout
            if server.stdout.readline().strip() != "ready":
                raise FabricError("a sender of the experiment did not start")
        yield
    finally:
        for server in running:
            server.terminate()
        for server in running:
            server.wait()
            if server.stdout:
                server.stdout.close()


def run(star: Star, scheme: Scheme, tasks: Sequence[Task]) -> Result:
    """Runs the tasks; senders are there already.

    Raises:
        FabricError: a task failed or did not end.
    """
    with served(star, scheme.policy) as join:
        return _run(star, scheme, tasks, join)


def _run(star: Star, scheme: Scheme, tasks: Sequence[Task], join: Join) -> Result:
    program = str(build_application())
    lead_s = LEAD_S + 0.02 * len(tasks)
    start_ns = time.monotonic_ns() + int(lead_s * 1e9)
    addresses = [star.address(name) for name in star.senders]
    environment = variables(scheme, scheme.receiver)
    running = []
    before = cpu_now()
    try:
        for number, task in enumerate(tasks):
            from_ = [f"{addresses[(number + n) % len(addresses)]}:{PORT}" for n in range(task.width)]
            at_ns = start_ns + int(task.start_s * 1e9)
            asked = f"{task.flow_bytes}@{task.pace_kbs}" if task.pace_kbs else str(task.flow_bytes)
            argv = [program, "fetch", task.mode, str(at_ns), asked, *from_]
            running.append(
                subprocess.Popen(
                    join(star.argv(star.receiver, argv, environment)),
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                )
            )
        if time.monotonic_ns() > start_ns:
            raise FabricError(f"{len(tasks)} processes took longer to start than {lead_s:.1f} s; is the machine busy?")
        done = tuple(_ended(process, task, start_ns) for process, task in zip(running, tasks, strict=True))
    finally:
        for process in running:
            process.kill()
            process.wait()
            for pipe in (process.stdout, process.stderr):
                if pipe:
                    pipe.close()
    return Result(done, before.idle_share(cpu_now()))


def _ended(process: subprocess.Popen[str], task: Task, start_ns: int) -> Done:
    try:
        out, errors = process.communicate(timeout=DEADLINE_S)
    except subprocess.TimeoutExpired:
        raise FabricError(
            f"a task of {task.width} x {task.flow_bytes} bytes did not end in {DEADLINE_S:.0f} s"
        ) from None
    if process.returncode:
        raise FabricError(f"a task failed: {errors.strip() or process.returncode}")
    told = json.loads(out)
    if told["bytes"] != task.width * task.flow_bytes:
        raise FabricError(f"a task got {told['bytes']} of {task.width * task.flow_bytes} bytes")
    samples = tuple((at / 1e9, size) for at, size in told["samples"])
    return Done(task, (told["end_ns"] - start_ns) / 1e9, samples)
