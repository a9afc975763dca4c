"""What experiments share of the machine: its processors' time, and the library as built."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from hostlib.hostd.tagger import BUILD
from hostlib.run import LIBRARY
from lab.fabric.topology import FabricError


@dataclass(frozen=True)
class Cpu:
    """Jiffies of all CPUs since boot."""

    idle: int
    total: int
    steal: int
    softirq: int

    def softirq_s(self, later: Cpu) -> float:
        """Seconds in soft interrupts until then, of all CPUs together."""
        return (later.softirq - self.softirq) / os.sysconf("SC_CLK_TCK")

    def idle_share(self, later: Cpu) -> float:
        """The idle part of the time until then."""
        return (later.idle - self.idle) / max(1, later.total - self.total)

    def steal_share(self, later: Cpu) -> float:
        """The part of it that the machine's own host took."""
        return (later.steal - self.steal) / max(1, later.total - self.total)


def cpu_now() -> Cpu:
    """From /proc/stat; waiting for disks counts as idle."""
    fields = [int(text) for text in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    return Cpu(fields[3] + fields[4], sum(fields), fields[7], fields[6])


def library() -> Path:
    """libqclimb.so as built; FabricError where it is not, or where LD_PRELOAD can't name it."""
    if not LIBRARY.is_file():
        raise FabricError(f"{LIBRARY} is missing; `make -C hostlib` builds it")
    if set(str(LIBRARY)) & {" ", ":"}:  # ld.so would go on without it, and plain TCP be measured for ours
        raise FabricError(f"{LIBRARY}: LD_PRELOAD can't name a path with a blank or a colon; expected another place")
    return LIBRARY


def tagger_objects() -> list[Path]:
    """The kernel mode's programs as built; FabricError where they are not."""
    found = sorted(BUILD.glob("*.bpf.o"))
    if not found:
        raise FabricError(f"{BUILD} has no *.bpf.o; `make -C hostlib tagger` builds them (it needs clang)")
    return found


def process_cpu_s(pid: int) -> float:
    """CPU seconds of a process so far, in user space and in its system calls (proc(5), stat)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
