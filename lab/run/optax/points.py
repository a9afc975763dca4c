"""What is measured, as data: the paper's figures 10 to 13 and our own two questions, each point a set of tasks.

Sizes that the paper does not state (classes of Table 1, arrival process) are chosen here and said in the
report. Rates are the lab's: one port of 100 Mb/s instead of 10 Gb/s.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from lab.run.optax.tasks import Task
from lab.scheduler import Scheduler
from lab.workload.schemes import name_by

KB, MB = 1024, 1024 * 1024
PORT_BYTES_PER_S = 100e6 / 8 * 1448 / 1514
BULK_BYTES = 100 * 1000 * 1000
SLOW_KBS = 2400
"""All senders together, to a task that cannot fill the link: 19 Mb/s."""

MIXES = {
    "Normal": (52, 16, 15, 17),
    "Mix-N": (48, 40, 2, 10),
    "Mix-W": (22, 15, 24, 39),
    "Mix-S": (50, 17, 10, 23),
    "Mix-L": (39, 27, 3, 31),
}
"""The paper's Table 1: per cent of tasks that are short and narrow, short and wide, long and narrow, long and wide."""
SHORT_BYTES, LONG_BYTES, NARROW, WIDE = 128 * KB, 2 * MB, 2, 8
MIX_TASKS = 20
ARRIVALS, ARRIVAL_FLOW_BYTES = 40, 64 * KB
BY_KERNEL = name_by("optax", "kernel")


@dataclass(frozen=True)
class Point:
    """One place of one figure: its tasks come from the run's number, the same for every scheme."""

    figure: str
    x: str
    schemes: tuple[str, ...]
    kind: str
    numbers: tuple[float, ...] = ()
    mode: str = "threads"

    def tasks(self, run: int) -> list[Task]:
        """The tasks of a run."""
        if self.kind == "arrivals":
            return self._arrivals(random.Random(f"{self.x} {run}"))
        if self.kind == "mix":
            return self._mix(random.Random(f"{self.x} {run}"))
        count, width, flow_bytes = (int(number) for number in self.numbers)
        small = [Task(0.001 * n, width, flow_bytes, self.mode) for n in range(count)]
        if self.kind == "slow":
            first = Task(0, width, 2 * flow_bytes, self.mode, "slow", SLOW_KBS // width)
            return [first, *(replace(task, start_s=0.2 + task.start_s) for task in small)]
        if self.kind == "bulk":
            return [Task(0, 1, BULK_BYTES, self.mode, "large")] + [
                Task(1 + task.start_s, width, flow_bytes, self.mode) for task in small
            ]
        return small

    def _arrivals(self, draw: random.Random) -> list[Task]:
        (load,) = self.numbers
        gap_s = 8 * ARRIVAL_FLOW_BYTES / PORT_BYTES_PER_S / load
        at, tasks = 0.0, []
        for _ in range(ARRIVALS):
            tasks.append(Task(at, 8, ARRIVAL_FLOW_BYTES, self.mode))
            at += draw.expovariate(1 / gap_s)
        return tasks

    def _mix(self, draw: random.Random) -> list[Task]:
        shapes = [(SHORT_BYTES, NARROW), (SHORT_BYTES, WIDE), (LONG_BYTES, NARROW), (LONG_BYTES, WIDE)]
        shares = MIXES[self.x]
        counts = [round(MIX_TASKS * share / 100) for share in shares]
        wanted = [shape for shape, count in zip(shapes, counts, strict=True) for _ in range(count)]
        draw.shuffle(wanted)
        gap_s = sum(size * width for size, width in wanted) / PORT_BYTES_PER_S / len(wanted) / 0.9
        at, tasks = 0.0, []
        for size, width in wanted:
            tasks.append(Task(at, width, size, self.mode, "small" if size == SHORT_BYTES else "large"))
            at += draw.expovariate(1 / gap_s)
        return tasks


def scheduled(point: Point, by: Sequence[Scheduler]) -> Point:
    """The point under the schemes that these schedule, beside fair sharing. The kernel mode has OPTAX alone: it does
    not learn a rate, and the senders' priorities are the library's here."""
    schemes = point.schemes if "library" in by else point.schemes[:1]
    return replace(point, schemes=schemes + (BY_KERNEL,) * ("kernel" in by and "optax" in point.schemes))


FAIR_AND_OPTAX = ("fair", "optax")


def points() -> Iterator[Point]:
    """All of them, the most telling first."""
    for mode in ("threads", "epoll"):
        yield Point("base", mode, ("fair", "observe", "optax", "optax-learned"), "tasks", (4, 8, 256 * KB), mode)
    yield Point("bulk", "threads", FAIR_AND_OPTAX, "bulk", (4, 8, 256 * KB))
    yield Point("slow", "threads", FAIR_AND_OPTAX, "slow", (3, 8, 256 * KB))
    for count in (2, 4, 6, 8, 10):
        yield Point("fig10", str(count), FAIR_AND_OPTAX, "tasks", (count, 8, 256 * KB), "epoll")
    for mix in MIXES:
        yield Point("fig13", mix, ("fair", "priority", "optax-priority"), "mix", (), "epoll")
    for load in (0.1, 0.3, 0.5, 0.7, 0.9):
        yield Point("fig12", str(load), FAIR_AND_OPTAX, "arrivals", (load,), "epoll")
    for volume in (1, 2, 4):
        for width in (2, 6, 10, 14):
            yield Point(
                "fig11", f"{volume} MB x {width}", FAIR_AND_OPTAX, "tasks", (8, width, volume * MB // width), "epoll"
            )
