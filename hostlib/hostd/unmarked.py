"""Which sockets in scope carry no DSCP of ours where sockets carry it (no device has the tagger), and why.

Read from the sockets themselves, by an iterator of the kernel's (tagger/unmarked.bpf.c); changes nothing.
"""

from __future__ import annotations

import struct
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

from hostlib.hostd import bpf, devices
from hostlib.hostd.errors import HostdError
from hostlib.hostd.visits import ROUND_S

SOCKET = struct.Struct("=QQ")
"""`struct unmarked`: the cgroup's number, and why."""
WHY = {
    4: "SYN-ACKs of listeners",
    1: "connections that began before it",
    2: "connections whose application chose a DSCP",
    3: "connections of IPv6 sockets to IPv4 peers, for this kernel refuses IP_TOS there",
}
"""enum unmarked_why, in the order in which a status tells them."""


def unmarked(program: Path, cgroups: Iterable[Path]) -> tuple[str, ...]:
    """A clause with a number for each reason that holds for a socket now: of these cgroups and those below, in the
    network namespaces of their processes and in this thread's. Never raises: a clause says why nothing can be told."""
    ours = set(_numbers(cgroups))
    told, refused, is_whole = _told(program, cgroups)
    if not told and refused:
        return (f"can't be told ({refused})",)
    found = Counter(why for cgroup, why in SOCKET.iter_unpack(b"".join(told)) if cgroup in ours)
    clauses = tuple(f"{words} ({found[why]})" for why, words in WHY.items() if found[why])
    return clauses if is_whole else (*clauses, "not all network namespaces were looked at")


def _numbers(cgroups: Iterable[Path]) -> Iterator[int]:
    """Of these and of those below."""
    for cgroup in devices.cgroups_below(cgroups):
        with suppress(OSError):  # it is gone by now
            yield cgroup.stat().st_ino


def _told(program: Path, cgroups: Iterable[Path]) -> tuple[list[bytes], str, bool]:
    """Of each namespace that could be asked in time, this thread's first; why others could not; whether all were."""
    told: list[bytes] = []
    refused = ""
    until = time.monotonic() + ROUND_S
    for namespace in {devices.OWN.stat().st_ino: devices.OWN, **devices.namespaces_of(cgroups)}.values():
        if told and time.monotonic() > until:
            return told, refused, False
        try:
            told.append(devices.within(namespace, partial(bpf.walk, program)))
        except OSError:
            continue  # its last process ended
        except HostdError as error:
            refused = str(error)
    return told, refused, True
