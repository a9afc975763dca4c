"""The interfaces of this thread's network namespace, as rtnetlink(7) tells of them: known by their numbers.

Their names are whatever bytes somebody chose; a name here is to be shown, never to be looked up.
"""

import os
import socket
import struct
from dataclasses import dataclass

from hostlib.hostd.errors import HostdError

ETHERNET, LOOPBACK = 1, 772
"""ARPHRD_ETHER and ARPHRD_LOOPBACK; frames of both begin by an Ethernet header."""
HEADER, IFINFO, ATTRIBUTE = struct.Struct("=IHHII"), struct.Struct("=BxHiII"), struct.Struct("=HH")
GET_LINK, NEW_LINK = 18, 16
REQUEST_DUMP = 0x301
ERROR, DONE = 2, 3
IFNAME, EXT_MASK = 3, 29
SKIP_STATS = 8
DEADLINE_S = 1.0
"""From one answer of the kernel's to the next."""


class DeviceError(HostdError):
    """A device can't be had."""


@dataclass(frozen=True)
class Interface:
    """`name`: bytes that are no text stand there as `os.fsdecode` has them."""

    index: int
    name: str
    kind: int


def interfaces(most: int | None = None) -> list[Interface]:
    """All of them. Raises: DeviceError: there are more than `most`; OSError."""
    body = IFINFO.pack(0, 0, 0, 0, 0) + ATTRIBUTE.pack(8, EXT_MASK) + struct.pack("=I", SKIP_STATS)
    found: list[Interface] = []
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.NETLINK_ROUTE) as asks:
        asks.settimeout(DEADLINE_S)
        asks.send(HEADER.pack(HEADER.size + len(body), GET_LINK, REQUEST_DUMP, 1, 0) + body)
        while True:
            content = asks.recv(1 << 16)
            at = 0
            while at + HEADER.size <= len(content):
                length, what, *_ = HEADER.unpack_from(content, at)
                if what == DONE or length < HEADER.size:
                    return found
                if what == ERROR:
                    (number,) = struct.unpack_from("=i", content, at + HEADER.size)
                    raise OSError(-number, f"the kernel's interfaces: {os.strerror(-number)}")
                if what == NEW_LINK:
                    found.append(_interface(content[at + HEADER.size : at + length]))
                if most is not None and len(found) > most:
                    raise DeviceError(f"more than {most} interfaces, expected at most so many")
                at += (length + 3) & ~3


def _interface(content: bytes) -> Interface:
    _, kind, index, _, _ = IFINFO.unpack_from(content)
    name, at = b"", IFINFO.size
    while at + ATTRIBUTE.size <= len(content):
        length, what = ATTRIBUTE.unpack_from(content, at)
        if length < ATTRIBUTE.size:
            break
        if what == IFNAME:
            name = content[at + ATTRIBUTE.size : at + length].rstrip(b"\0")
        at += (length + 3) & ~3
    return Interface(index, os.fsdecode(name), kind)
