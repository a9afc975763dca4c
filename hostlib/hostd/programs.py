"""Which of this host's programs qclimb serves, by what, and why not: of those that hold a TCP socket now.

Read from /proc; changes nothing. A program of another user is seen by root only.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from qclimb.text import program_name

from hostlib.program import read_elf

PROC = Path("/proc")
LIBRARY = "libqclimb.so"
KERNEL, BY_LIBRARY, NOT = "kernel", "library", "not at all"


@dataclass(frozen=True)
class Program:
    """Processes of one name that are served in one way."""

    name: str
    pids: tuple[int, ...]
    by: str
    why: str


def is_within(cgroup: str, scope: Iterable[Path]) -> bool:
    """Whether a cgroup, by its path below the mount (/proc/PID/cgroup), is one of these directories or below one."""
    return any(str(below) == cgroup or cgroup.startswith(f"{below}/") for below in map(_below_mount, scope))


def _below_mount(directory: Path) -> Path:
    mounts = [line.split()[1] for line in _text(PROC / "mounts").splitlines() if " cgroup2 " in line]
    found = next((mount for mount in mounts if directory.is_relative_to(mount)), "/")
    relative = directory.relative_to(found)
    return Path("/") / relative


def _text(path: Path) -> str:
    """Of a file in which names of others' files and cgroups stand, as `os.fsdecode` has them."""
    return path.read_text(errors="surrogateescape")


def cgroup_of(pid: int | str) -> str:
    """The process's place in cgroup v2; raises OSError."""
    lines = _text(PROC / str(pid) / "cgroup").splitlines()
    return next((line.removeprefix("0::") for line in lines if line.startswith("0::")), "/")


def programs(scope: tuple[Path, ...]) -> list[Program]:
    """All that hold a TCP socket, by name; `scope`: the kernel mode's cgroups."""
    found: dict[tuple[str, str, str], list[int]] = defaultdict(list)
    for pid in _with_tcp():
        with suppress(OSError):
            name = program_name((PROC / str(pid) / "comm").read_bytes().rstrip(b"\n"))
            found[(name, *_served(pid, scope))].append(pid)
    return [Program(name, tuple(pids), by, why) for (name, by, why), pids in sorted(found.items())]


def _served(pid: int, scope: tuple[Path, ...]) -> tuple[str, str]:
    has_library = LIBRARY in _text(PROC / str(pid) / "maps")
    cgroup = cgroup_of(pid)
    if is_within(cgroup, scope):
        return KERNEL, "the library tells it what it knows" if has_library else "its cgroup is opted in"
    if has_library:
        return BY_LIBRARY, "libqclimb.so is loaded"
    return NOT, f"{_without_library(pid)}, and its cgroup {cgroup} is not opted in"


def _without_library(pid: int) -> str:
    try:
        elf = read_elf(PROC / str(pid) / "exe")
    except Exception:  # what is no ELF file, or may not be read
        return "libqclimb.so is not loaded"
    if elf.go:
        return "Go makes its system calls without libc"
    return "libqclimb.so is not loaded" if elf.interpreter else "it is linked statically"


def _with_tcp() -> Iterator[int]:
    sockets: dict[int, set[str]] = {}
    for place in PROC.iterdir():
        with suppress(OSError, ValueError):
            pid = int(place.name)
            namespace = (place / "ns" / "net").stat().st_ino
            if namespace not in sockets:
                sockets[namespace] = _tcp_inodes(place / "net")
            if sockets[namespace] and _holds(place / "fd", sockets[namespace]):
                yield pid


def _tcp_inodes(net: Path) -> set[str]:
    found = set()
    for name in ("tcp", "tcp6"):
        with suppress(OSError):
            found |= {line.split()[9] for line in _text(net / name).splitlines()[1:]}
    return found - {"0"}


def _holds(descriptors: Path, inodes: set[str]) -> bool:
    for descriptor in descriptors.iterdir():
        with suppress(OSError):
            target = str(descriptor.readlink())
            if target.startswith("socket:[") and target[8:-1] in inodes:
                return True
    return False
