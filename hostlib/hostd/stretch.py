"""What TCP connections of this host measure now: one look at the kernel's socket table (sock_diag(7)).

Counted is a connection that sent data lately, to another host, and is not marked for a later priority. Any user may
look. In a container the kernel tells of the network namespace's own connections.
"""

import ipaddress
import math
import socket
import struct
from collections.abc import Collection, Iterator

from qclimb.stretch import LOG_MOST, Stretch

NETLINK_SOCK_DIAG, SOCK_DIAG_BY_FAMILY = 4, 20
NLM_F_REQUEST, NLM_F_DUMP = 0x1, 0x300
NLMSG_ERROR, NLMSG_DONE = 2, 3
ESTABLISHED = 1 << 1
INFO, TOS, TCLASS = 2, 5, 6
"""INET_DIAG_INFO, _TOS, _TCLASS; asked for by bit n - 1, and told as attributes of these numbers"""
HEADER = struct.Struct("=IHHII")
REQUEST = struct.Struct("=BBBxI48x")
MESSAGE_BYTES = 72
PEER_AT = 24
"""of struct inet_diag_msg: family, state, timer, retrans, the id's ports, its source"""
ATTRIBUTE = struct.Struct("=HH")
LAST_DATA_SENT_MS = (44, "=I")
RTT_US, MIN_RTT_US = (68, "=I"), (148, "=I")
"""of struct tcp_info"""
CONNECTIONS_MOST = 4096
"""Looked at; of more, those that the kernel tells of first."""
LATELY_MS = 5000
DEADLINE_S = 1.0


def look(later_dscp: Collection[int]) -> Stretch | None:
    """What connections that carry small flows measure; None where there are none. Raises OSError."""
    total, count = 0.0, 0
    for family in (socket.AF_INET, socket.AF_INET6):
        for peer, attributes in _told(family):
            ratio = _ratio(attributes)
            if ratio is None or _is_here(peer):
                continue
            marks = attributes.get(TOS if family == socket.AF_INET else TCLASS, b"\0")
            if marks[0] >> 2 in later_dscp:
                continue
            total, count = total + min(math.log(ratio), LOG_MOST), count + 1
    return Stretch(count, total / count) if count else None


def _told(family: int) -> Iterator[tuple[bytes, dict[int, bytes]]]:
    """(the peer's address, attributes) of each established connection."""
    asked = 1 << (INFO - 1) | 1 << (TOS - 1) | 1 << (TCLASS - 1)
    body = REQUEST.pack(family, socket.IPPROTO_TCP, asked, ESTABLISHED)
    kind = socket.SOCK_RAW | socket.SOCK_CLOEXEC
    with socket.socket(socket.AF_NETLINK, kind, NETLINK_SOCK_DIAG) as asks:
        asks.settimeout(DEADLINE_S)
        asks.send(HEADER.pack(HEADER.size + len(body), SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST | NLM_F_DUMP, 1, 0) + body)
        left = CONNECTIONS_MOST
        while left > 0:
            content = asks.recv(1 << 16)
            at = 0
            while at + HEADER.size <= len(content):
                length, what, _, _, _ = HEADER.unpack_from(content, at)
                if what == NLMSG_DONE or length < HEADER.size:
                    return
                if what == NLMSG_ERROR:
                    (number,) = struct.unpack_from("=i", content, at + HEADER.size)
                    raise OSError(-number, "sock_diag")
                yield _message(content[at + HEADER.size : at + length])
                left -= 1
                at += (length + 3) & ~3


def _message(content: bytes) -> tuple[bytes, dict[int, bytes]]:
    size = 4 if content[0] == socket.AF_INET else 16
    attributes, at = {}, MESSAGE_BYTES
    while at + ATTRIBUTE.size <= len(content):
        length, kind = ATTRIBUTE.unpack_from(content, at)
        if length < ATTRIBUTE.size:
            break
        attributes[kind] = content[at + ATTRIBUTE.size : at + length]
        at += (length + 3) & ~3
    return content[PEER_AT : PEER_AT + size], attributes


def _ratio(attributes: dict[int, bytes]) -> float | None:
    """Of one connection; None where it sent nothing lately, or has measured nothing."""
    info = attributes.get(INFO, b"")
    if len(info) < MIN_RTT_US[0] + 4:
        return None
    sent_ms, rtt_us, least_us = (
        struct.unpack_from(form, info, at)[0] for at, form in (LAST_DATA_SENT_MS, RTT_US, MIN_RTT_US)
    )
    if sent_ms > LATELY_MS or not 0 < least_us <= rtt_us:
        return None
    return float(rtt_us / least_us)


def _is_here(peer: bytes) -> bool:
    address = ipaddress.ip_address(peer)
    mapped = getattr(address, "ipv4_mapped", None)
    return bool((mapped or address).is_loopback)
