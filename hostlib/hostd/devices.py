"""At which devices of which network namespaces the tagger runs, and how it is put there: tcx, else clsact.

A packet is marked in the namespace of its socket, for there a program runs within TCP's own call. A namespace is
entered by a thread that ends in it, so that hostd's own never leave home.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeVar

from hostlib.hostd import bpf
from hostlib.hostd.bpf import BpfError
from hostlib.hostd.interfaces import ETHERNET, LOOPBACK, DeviceError, Interface, interfaces

DIRECTIONS = ("egress", "ingress")
FIRST, LATE, HANDLE, HANDLE_BEFORE = 1, 4747, 0x4747, 1
"""Preferences of our filters at a device's clsact, and their handles (an older hostd's had the kernel's first). Of one
preference the newest filter is asked first (cls_bpf keeps them so), and ours lets every packet go on to the next: it
stands before another's that ends a packet's way, and that one keeps its place. A preference 1 of another protocol or
kind takes no second filter."""
NO_TCX = "by clsact (this kernel has no tcx: Linux 6.6)"
BEHIND = f"by clsact behind another's filter of preference {FIRST}, which may end packets' way before it"
CLONE_NEWNET = 0x40000000
OWN = Path("/proc/thread-self/ns/net")
_libc = ctypes.CDLL(None, use_errno=True)
Told = TypeVar("Told")
INTERFACES_MOST = 256
"""Of another user's namespace; one with more is left as it is."""
UNREADABLE = 0
"""In place of the numbers of namespaces that may not be looked at; to enter one says why."""
CGROUPS_MOST = 16_384
"""Looked at; of more, those that lie deepest are left out."""


def named_interfaces(names: Iterable[str]) -> list[Interface]:
    """Of this thread's network namespace, as an operator names them.

    Raises:
        DeviceError: no such device, or its frames don't begin by an Ethernet header.
    """
    there = {each.name: each for each in interfaces()}
    found = []
    for name in names:
        if name not in there:
            raise DeviceError(f"{name}: no such device; expected an Ethernet device")
        if there[name].kind not in (ETHERNET, LOOPBACK):
            raise DeviceError(f"{name} is of type {there[name].kind}; expected an Ethernet device (type {ETHERNET})")
        found.append(there[name])
    return found


def ethernet_devices(most: int | None = None) -> list[Interface]:
    """Of this thread's network namespace, loopback not among them. Raises: DeviceError: it has more than `most`."""
    return [each for each in interfaces(most) if each.kind == ETHERNET]


def cgroups_below(cgroups: Iterable[Path]) -> Iterator[Path]:
    """These and those below, the upper ones first; CGROUPS_MOST at most."""
    waiting = deque(cgroups)
    for _ in range(CGROUPS_MOST):
        if not waiting:
            return
        cgroup = waiting.popleft()
        yield cgroup
        with contextlib.suppress(OSError), os.scandir(cgroup) as listed:
            waiting.extend(
                cgroup / each.name
                for each in listed
                if len(waiting) < CGROUPS_MOST and each.is_dir(follow_symlinks=False)
            )


def namespaces_of(cgroups: Iterable[Path]) -> dict[int, Path]:
    """The network namespaces, by number, in which processes of these cgroups live, and a path to each."""
    found: dict[int, Path] = {}
    for cgroup in cgroups_below(cgroups):
        with contextlib.suppress(OSError):
            _namespaces(found, (Path("/proc") / pid for pid in (cgroup / "cgroup.procs").read_text().split()))
    return found


def all_namespaces() -> dict[int, Path]:
    """The network namespaces, by number, in which any process lives, and a path to each."""
    return _namespaces({}, Path("/proc").glob("[0-9]*"))


def _namespaces(found: dict[int, Path], processes: Iterable[Path]) -> dict[int, Path]:
    for process in processes:
        path = process / "ns" / "net"
        try:
            found.setdefault(path.stat().st_ino, path)
        except PermissionError:
            found.setdefault(UNREADABLE, path)
        except OSError:
            continue  # it ended
    return found


def within(namespace: Path, act: Callable[[], Told]) -> Told:
    """What `act` returns in a thread that lives in another network namespace; what it raises is raised here."""
    told: list[Told] = []
    failed: list[BaseException] = []

    def enter() -> None:
        try:
            try:
                there = os.open(namespace, os.O_RDONLY | os.O_CLOEXEC)
            except PermissionError as error:
                raise DeviceError(f"{namespace}: {error.strerror}; expected the right CAP_SYS_PTRACE") from error
            try:
                if _libc.setns(there, CLONE_NEWNET):
                    raise DeviceError(f"{namespace}: {os.strerror(ctypes.get_errno())}")
            finally:
                os.close(there)
            told.append(act())
        except Exception as error:
            failed.append(error)

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return told[0]


def keep(place: Path, programs: Path, found: Iterable[Interface], until_s: float | None = None) -> dict[str, str]:
    """Has the programs at these interfaces of this thread's namespace; returns the names of the links below `place`,
    and of each what there is to say of it: nothing (tcx), NO_TCX or BEHIND (filters at clsact: there is no link). One
    that is gone by now has none.

    Raises:
        BpfError, DeviceError: refused, or not all was done by `until_s` of time.monotonic().
    """
    names: dict[str, str] = {}
    number = OWN.stat().st_ino
    for interface in found:
        if until_s is not None and time.monotonic() > until_s:
            raise DeviceError("its interfaces take too long")
        try:
            how = {direction: _join(place, programs, number, interface, direction) for direction in DIRECTIONS}
        except BpfError as error:
            if error.errno != errno.ENODEV:
                raise
            continue
        names |= {link_name(number, interface, direction): said for direction, said in how.items()}
        if not any(how.values()):
            detach(interface)  # what an older hostd left
    return names


def link_name(namespace: int, interface: Interface, direction: str) -> str:
    """Of the pinned link of a program there."""
    return f"{namespace}-{interface.index}-{direction}"


def namespace_of_link(name: str) -> int | None:
    """Whose interface a link is at, by its name; None: it is at none."""
    number = name.partition("-")[0]
    return int(number) if number.isdigit() else None


def _join(place: Path, programs: Path, number: int, interface: Interface, direction: str) -> str:
    try:
        bpf.join_device(
            programs / direction, interface.index, direction, place / link_name(number, interface, direction)
        )
    except BpfError as error:
        if error.errno not in (errno.EINVAL, errno.EOPNOTSUPP):
            raise
        return _by_clsact(interface, direction, programs / direction)
    return ""


def _by_clsact(interface: Interface, direction: str, program: Path) -> str:
    try:
        bpf.join_clsact(program, interface.index, direction, FIRST, HANDLE)
    except BpfError as error:
        if error.errno == errno.ENODEV:
            raise
        bpf.join_clsact(program, interface.index, direction, LATE, HANDLE)
        return BEHIND
    for handle in (HANDLE, HANDLE_BEFORE):  # of an older hostd's, or of a time when another's was first
        bpf.leave_clsact(interface.index, direction, LATE, handle)
    return NO_TCX


def detach(interface: Interface) -> None:
    """Takes our filters from its clsact; one that is gone has none. The qdisc stays: others may use it."""
    for direction in DIRECTIONS:
        bpf.leave_clsact(interface.index, direction, FIRST, HANDLE)
        for handle in (HANDLE, HANDLE_BEFORE):
            bpf.leave_clsact(interface.index, direction, LATE, handle)
