"""What stands below /run/qclimb-lab/<prefix>: enough to remove a fabric, or a star, whose owner was killed.

`state.json`, a star's `star/record.json`, is written before anything is made and names all that will be; taking down
reads it alone.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from lab.fabric import cgroups, netns
from lab.fabric.congestion import unregister
from lab.fabric.queues import Shaper
from lab.fabric.topology import FabricError, Topology

RUN = Path("/run/qclimb-lab")
_libc = ctypes.CDLL(None, use_errno=True)
MNT_DETACH = 2
STAR_RECORD = "star/record.json"


@dataclass
class State:
    """One fabric's record."""

    prefix: str
    topology: Topology
    namespaces: list[str]
    owner_pid: int
    owner_start: int
    shaper: Shaper = "htb"
    shared_buffer: bool = False
    """Whether BPF holds the ports' buffers."""
    congestion_control: str = ""
    registered: str = ""
    """The congestion control that this fabric brought by BPF."""
    notes: list[str] = field(default_factory=list)
    """What is missing on this machine and what is used instead."""
    control: dict[str, str] = field(default_factory=dict)
    """Addresses and files of the control plane, when there is one."""
    cgroups: dict[str, str] = field(default_factory=dict)
    """By host, where the kernel mode schedules what runs in them; none: libqclimb.so does."""
    kept: bool = False
    """Left up on purpose, without an owner."""

    @property
    def directory(self) -> Path:
        """Where this fabric keeps its files."""
        return directory_of(self.prefix)

    def save(self) -> None:
        """Writes state.json by rename."""
        self.directory.mkdir(parents=True, exist_ok=True)
        beside = self.directory / "state.json.new"
        beside.write_text(json.dumps(asdict(self), indent=1))
        beside.replace(self.directory / "state.json")

    def owner_lives(self) -> bool:
        """Whether the process that made the fabric still runs (and is not another of the same number)."""
        return start_of(self.owner_pid) == self.owner_start


def directory_of(prefix: str) -> Path:
    """The state directory of a prefix.

    Raises:
        FabricError: a prefix that would lead elsewhere.
    """
    if not prefix.replace("_", "").isalnum() or len(prefix) > 24:
        raise FabricError(f"prefix is {prefix!r}, expected 1 to 24 letters, digits or underscores")
    return RUN / prefix


def load(prefix: str) -> State | None:
    """The record of a fabric, None if there is none.

    Raises:
        FabricError: the record can't be read.
    """
    path = directory_of(prefix) / "state.json"
    try:
        raw: dict[str, Any] = json.loads(path.read_text())
        return State(**{**raw, "topology": Topology(**raw["topology"])})
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError) as wrong:
        raise FabricError(f"{path} can't be read ({wrong}); remove the namespaces it names, then the file") from wrong


def prefixes() -> list[str]:
    """Prefixes that have a record."""
    return sorted(
        {path.relative_to(RUN).parts[0] for kind in ("state.json", STAR_RECORD) for path in RUN.glob(f"*/{kind}")}
    )


def start_of(pid: int) -> int:
    """Start time of a process in clock ticks since boot, 0 if it is gone: with the number, an identity."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[19])
    except OSError:
        return 0


@contextmanager
def locked(prefix: str) -> Iterator[None]:
    """One builder or remover of a prefix at a time."""
    directory_of(prefix)
    RUN.mkdir(parents=True, exist_ok=True)
    path = RUN / f"{prefix}.lock"
    while True:
        descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        with contextlib.suppress(FileNotFoundError):
            if path.stat().st_ino == os.fstat(descriptor).st_ino:
                break
        os.close(descriptor)  # its last holder removed the file meanwhile
    try:
        yield
    finally:
        if load(prefix) is None:
            path.unlink(missing_ok=True)
        os.close(descriptor)


def star_directory(prefix: str) -> Path:
    """Where a star of this prefix keeps its files. Raises: FabricError: a prefix that would lead elsewhere."""
    return (directory_of(prefix) / STAR_RECORD).parent


def save_star(prefix: str, namespaces: list[str], group: Path | None = None) -> None:
    """Names a star's namespaces, and the cgroup that the kernel mode is about to serve there."""
    path = directory_of(prefix) / STAR_RECORD
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(".new")
    beside.write_text(json.dumps({"namespaces": namespaces, "cgroup": str(group) if group else None}))
    beside.replace(path)


def take_down_star(prefix: str) -> bool:
    """Removes all that a star's record names; True if there was a record. Again is harmless."""
    path = directory_of(prefix) / STAR_RECORD
    try:
        record = json.loads(path.read_text())
        namespaces, group = list(record["namespaces"]), record["cgroup"]
    except FileNotFoundError:
        return False
    except (ValueError, TypeError, KeyError) as wrong:
        raise FabricError(f"{path} can't be read ({wrong}); remove the namespaces it names, then the file") from wrong
    netns.end_processes(namespaces)
    netns.remove(namespaces)
    unmount(path.parent / "bpf")
    if group and Path(group).exists():
        cgroups.remove(Path(group))
    shutil.rmtree(path.parent)
    with contextlib.suppress(OSError):  # a fabric of this prefix has its files beside
        path.parent.parent.rmdir()
    return True


def take_down(prefix: str) -> bool:
    """Removes all that records of this prefix name; True if there was one. Again is harmless."""
    had_star = take_down_star(prefix)
    return _take_down_fabric(prefix) or had_star


def _take_down_fabric(prefix: str) -> bool:
    state = load(prefix)
    if state is None:
        return False
    netns.end_processes(state.namespaces)
    netns.remove(state.namespaces)
    if state.registered:
        unregister(state.registered)
    for place in (state.directory / "bpf", *state.directory.glob("hosts/*/bpf")):
        unmount(place)
    for group in map(Path, state.cgroups.values()):
        if group.exists():
            cgroups.remove(group)
    shutil.rmtree(state.directory)
    return True


def mount_bpf(directory: Path) -> None:
    """A BPF file system of our own: `ip netns exec` hides the one in /sys.

    Raises:
        FabricError: the kernel refused.
    """
    directory.mkdir(parents=True, exist_ok=True)
    if not directory.is_mount() and _libc.mount(b"bpf", bytes(directory), b"bpf", 0, b"mode=0700"):
        raise FabricError(f"can't mount a BPF file system at {directory}: {os.strerror(ctypes.get_errno())}")


def unmount(directory: Path) -> None:
    """Undoes every mount there."""
    while directory.is_mount():
        if _libc.umount2(bytes(directory), MNT_DETACH):
            raise FabricError(f"can't unmount {directory}: {os.strerror(ctypes.get_errno())}")
