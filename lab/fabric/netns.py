"""Being in another network namespace for a moment, and who is in one."""

from __future__ import annotations

import ctypes
import os
import signal
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from lab.fabric.commands import Ip, run_all
from lab.fabric.topology import FabricError

RUN_NETNS = Path("/run/netns")
CLONE_NEWNET = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)


def exists(netns: str) -> bool:
    """Whether a namespace of that name is there."""
    return (RUN_NETNS / netns).exists()


@contextmanager
def entered(netns: str) -> Iterator[None]:
    """The calling thread, and no other, lives in `netns`; sockets made meanwhile stay there for their lives."""
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        _setns(RUN_NETNS / netns)
        try:
            yield
        finally:
            if _libc.setns(home, CLONE_NEWNET):
                # Going on in the wrong namespace could harm the machine's own network.
                os.abort()
    finally:
        os.close(home)


def _setns(path: Path) -> None:
    try:
        there = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        raise FabricError(f"there is no network namespace {path.name}; is the fabric up?") from None
    try:
        if _libc.setns(there, CLONE_NEWNET):
            errno = ctypes.get_errno()
            raise FabricError(f"can't enter the network namespace {path.name}: {os.strerror(errno)}")
    finally:
        os.close(there)


def processes_in(netns: Iterable[str]) -> set[int]:
    """Processes that live in any of these namespaces, ours excepted."""
    inodes = set()
    for name in netns:
        with suppress(OSError):
            inodes.add((RUN_NETNS / name).stat().st_ino)
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                if (entry / "ns/net").stat().st_ino in inodes:
                    found.add(int(entry.name))
    return found - {os.getpid()}


def end_processes(netns: list[str], patience_s: float = 2.0) -> None:
    """Ends whatever lives in these namespaces: asked first, then by force."""
    for sent in (signal.SIGTERM, signal.SIGKILL):
        left = processes_in(netns)
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, sent)
        deadline = time.monotonic() + patience_s
        while left and time.monotonic() < deadline:
            time.sleep(0.01)
            left = {pid for pid in left if _alive(pid)}
        if not left and not processes_in(netns):
            return


def _alive(pid: int) -> bool:
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)  # a child of ours must not stay a zombie that looks alive
    try:
        return (Path("/proc") / str(pid) / "stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def remove(netns: Iterable[str]) -> None:
    """Deletes those of the namespaces that are there; cables go with them."""
    run_all([Ip("", f"netns del {name}") for name in netns if exists(name)])
