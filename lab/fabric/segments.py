"""TCP segments of a capture that tcpdump writes, or has written: Ethernet, IPv4 or IPv6, times in microseconds."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FILE_BYTES = 24
"""Ahead of the first record."""
RECORD = struct.Struct("<IIII")


@dataclass(frozen=True, slots=True)
class Segment:
    """One, as an interface saw it."""

    at_s: float
    addresses: bytes
    """Source's and target's."""
    sport: int
    dport: int
    dscp: int
    ecn: int
    flags: int
    seq: int
    payload: int
    """Bytes on the wire, however many were captured."""


def segments(pcap: Path) -> Iterator[Segment]:
    """Those of a capture in which headers are whole; a last record that is being written is left out."""
    data, at = pcap.read_bytes(), FILE_BYTES
    while at + RECORD.size <= len(data):
        seconds, microseconds, captured, _ = RECORD.unpack_from(data, at)
        frame = data[at + RECORD.size : at + RECORD.size + captured]
        if len(frame) < captured:
            return
        at += RECORD.size + captured
        kind = struct.unpack_from(">H", frame, 12)[0]
        if kind == 0x0800 and frame[23] == 6:
            tos, total = frame[15], struct.unpack_from(">H", frame, 16)[0]
            addresses, tcp = frame[26:34], 14 + (frame[14] & 15) * 4
            length = total - (tcp - 14)
        elif kind == 0x86DD and frame[20] == 6:
            tos = (struct.unpack_from(">H", frame, 14)[0] >> 4) & 255
            addresses, tcp = frame[22:54], 54
            length = struct.unpack_from(">H", frame, 18)[0]
        else:
            continue
        sport, dport, seq = struct.unpack_from(">HHI", frame, tcp)
        payload = length - (frame[tcp + 12] >> 4) * 4
        at_s = seconds + microseconds / 1e6
        yield Segment(at_s, addresses, sport, dport, tos >> 2, tos & 3, frame[tcp + 13], seq, payload)
