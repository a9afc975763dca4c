"""At which devices of which network namespaces the tagger runs, and how it is put there: tcx, else clsact.

A packet is marked in the namespace of its socket, for there a program runs within TCP's own call. A namespace is
entered by a thread that ends in it, so that hostd's own never leave home.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import os
import socket
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from hostlib.hostd import bpf
from hostlib.hostd.bpf import BpfError
from hostlib.hostd.errors import HostdError
from hostlib.hostd.tools import run

DIRECTIONS = ("egress", "ingress")
FIRST, LATE, HANDLE = "1", "4747", "0x4747"
"""Preferences of our filters at a device's clsact, and their handle. Of one preference the newest filter is asked first
(cls_bpf keeps them so), and ours lets every packet go on to the next: it stands before another's that ends a packet's
way, and that one keeps its place. A preference 1 of another protocol or kind takes no second filter."""
NO_TCX = "by clsact (this kernel has no tcx: Linux 6.6)"
BEHIND = f"by clsact behind another's filter of preference {FIRST}, which may end packets' way before it"
CLONE_NEWNET = 0x40000000
OWN = Path("/proc/thread-self/ns/net")
_libc = ctypes.CDLL(None, use_errno=True)
Told = TypeVar("Told")


class DeviceError(HostdError):
    """A device can't be had."""


def check_device(device: str) -> None:
    """Raises: DeviceError: no such device, or its frames don't begin by an Ethernet header."""
    try:
        kind = Path(f"/sys/class/net/{device}/type").read_text().strip()
    except OSError:
        kind = _ip_link(device)
    if kind not in ("1", "772", "ether", "loopback"):
        raise DeviceError(f"{device} is of type {kind}; expected an Ethernet device")


def _ip_link(device: str) -> str:
    """By `ip`, for a /sys that shows another network namespace."""
    return str(json.loads(run("ip", "-j", "link", "show", "dev", device))[0]["link_type"])


def ethernet_devices() -> tuple[str, ...]:
    """Of this thread's network namespace, loopback not among them."""
    return tuple(found["ifname"] for found in json.loads(run("ip", "-j", "link")) if found["link_type"] == "ether")


def namespaces_of(cgroups: Iterable[Path]) -> dict[int, Path]:
    """The network namespaces, by number, in which processes of these cgroups live, and a path to each."""
    found: dict[int, Path] = {}
    for cgroup in cgroups:
        for listed in (cgroup / "cgroup.procs", *cgroup.glob("**/cgroup.procs")):
            with contextlib.suppress(OSError):
                _namespaces(found, (Path("/proc") / pid for pid in listed.read_text().split()))
    return found


def all_namespaces() -> dict[int, Path]:
    """The network namespaces, by number, in which any process lives, and a path to each."""
    return _namespaces({}, Path("/proc").glob("[0-9]*"))


def _namespaces(found: dict[int, Path], processes: Iterable[Path]) -> dict[int, Path]:
    for process in processes:
        path = process / "ns" / "net"
        with contextlib.suppress(OSError):
            found.setdefault(path.stat().st_ino, path)
    return found


def within(namespace: Path, act: Callable[[], Told]) -> Told:
    """What `act` returns in a thread that lives in another network namespace; what it raises is raised here."""
    told: list[Told] = []
    failed: list[BaseException] = []

    def enter() -> None:
        try:
            there = os.open(namespace, os.O_RDONLY | os.O_CLOEXEC)
            try:
                if _libc.setns(there, CLONE_NEWNET):
                    raise DeviceError(f"{namespace}: {os.strerror(ctypes.get_errno())}")
            finally:
                os.close(there)
            told.append(act())
        except (HostdError, OSError) as error:
            failed.append(error)

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return told[0]


def keep(place: Path, programs: Path, devices: Iterable[str]) -> dict[str, str]:
    """Has the programs at these devices of this thread's namespace; returns the names of the links below `place`, and
    of each what there is to say of it: nothing (tcx), NO_TCX or BEHIND (filters at clsact: there is no link).

    Raises:
        BpfError, DeviceError: refused.
    """
    names = {}
    number = OWN.stat().st_ino
    for device in devices:
        check_device(device)
        index = socket.if_nametoindex(device)
        for direction in DIRECTIONS:
            name = f"{number}-{index}-{direction}"
            names[name] = ""
            try:
                bpf.join_device(programs / direction, index, direction, place / name)
            except BpfError as error:
                if error.errno not in (errno.EINVAL, errno.EOPNOTSUPP):
                    raise
                names[name] = _by_clsact(device, direction, programs / direction)
        if (place / f"{number}-{index}-egress").exists():
            detach(device)  # what an older hostd left
    return names


def _by_clsact(device: str, direction: str, program: Path) -> str:
    if "clsact" not in run("tc", "qdisc", "show", "dev", device):
        run("tc", "qdisc", "add", "dev", device, "clsact")
    filters = ("tc", "filter", "replace", "dev", device, direction)
    ours = ("handle", HANDLE, "protocol", "all", "bpf", "direct-action", "object-pinned", str(program))
    try:
        run(*filters, "pref", FIRST, *ours)
    except HostdError:
        run(*filters, "pref", LATE, *ours)
        return BEHIND
    _remove(device, direction, "pref", LATE)  # of an older hostd's, or of a time when another's was first
    return NO_TCX


def _remove(device: str, direction: str, *what: str) -> None:
    with contextlib.suppress(HostdError):
        run("tc", "filter", "del", "dev", device, direction, *what)


def detach(device: str) -> None:
    """Takes our filters from a device's clsact; one that is gone has none. The qdisc stays: others may use it."""
    with contextlib.suppress(HostdError):
        if "clsact" not in run("tc", "qdisc", "show", "dev", device):
            return
    for direction in DIRECTIONS:
        _remove(device, direction, "pref", FIRST, "handle", HANDLE, "protocol", "all", "bpf")
        _remove(device, direction, "pref", LATE)
