"""Control groups (v2) of a run's own: programs that are started in one can be opted in to the kernel mode."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from lab.fabric.topology import FabricError

LEAVE_S = 60.0


def path_of(name: str) -> Path:
    """Where one of this name is or would be. Raises: FabricError: there is no cgroup v2."""
    mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    root = next((Path(words[1]) for words in mounts if words[2] == "cgroup2"), None)
    if root is None:
        raise FabricError("no cgroup v2 is mounted; expected one at /sys/fs/cgroup or below")
    return root / name


def make(group: Path) -> None:
    """A new one. Raises: FabricError: it is there, or may not be made."""
    try:
        group.mkdir()
    except OSError as error:
        raise FabricError(f"{group}: {error.strerror}; expected a cgroup v2 that may be written") from error


def remove(group: Path) -> None:
    """Once its programs have ended. Raises: FabricError: one does not end."""
    end = time.monotonic() + LEAVE_S
    while (group / "cgroup.procs").read_text():
        if time.monotonic() > end:
            raise FabricError(f"{group}: its programs did not end within {LEAVE_S:g} s")
        time.sleep(0.01)
    group.rmdir()


@contextmanager
def cgroup(name: str) -> Iterator[Path]:
    """A new one of this name; it goes once its programs have ended.

    Raises:
        FabricError: there is no cgroup v2, it may not be written, or a program does not end.
    """
    group = path_of(name)
    make(group)
    try:
        yield group
    finally:
        remove(group)


def joined(argv: Sequence[str], group: Path) -> list[str]:
    """The command that runs `argv` in it. Joined before `ip netns exec`, which hides /sys."""
    return ["sh", "-c", 'echo $$ > "$0"/cgroup.procs && exec "$@"', str(group), *argv]
