"""The star of climbing flows: a (the flows under test) and c (others) send to b through one port.

    a ----+
          sw ==== rate, strict priorities ==== b
    c ----+

a has a run directory with a BPF file system, for the tagger.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from lab.fabric.cgroups import joined
from lab.fabric.star import Star, up


@dataclass(frozen=True)
class Bed:
    """A bed that is up."""

    star: Star
    directory: Path

    @property
    def run_dir(self) -> Path:
        """QCLIMB_RUN of a, with a BPF file system in it."""
        return self.directory / "a"

    def start(
        self, host: str, argv: list[str], env: dict[str, str], group: Path | None = None
    ) -> subprocess.Popen[str]:
        """A program on a host, in an environment of its own, and in a cgroup where one is given."""
        words = self.star.argv(host, argv, env)
        if group:
            words = joined(words, group)
        return subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


@contextmanager
def bed(prefix: str, directory: Path, rate_mbit: int, buffer_packets: int, dscps: tuple[int, ...]) -> Iterator[Bed]:
    """Builds it, and takes it away whatever happens. Packets without one of the DSCPs wait with those of the last.

    Raises:
        FabricError: no root, a tool or a kernel feature is missing.
    """
    star = Star(prefix, ("a", "c"), rate_mbit * 1_000_000, buffer_packets, receiver="b", dscps=dscps[:-1])
    with ExitStack() as stack:
        made = Bed(stack.enter_context(up(star)), directory)
        point = made.run_dir / "bpf"
        point.mkdir(parents=True, exist_ok=True)
        # Here, and not by the tagger within a namespace: `ip netns exec` would hide it from the programs.
        subprocess.run(["mount", "-t", "bpf", "-o", "mode=0755", "qclimb", str(point)], check=True)
        stack.callback(subprocess.run, ["umount", "-l", str(point)], check=False)
        yield made
