"""The queue of what came out of order, rebuilt from captures."""

import struct

import pytest

from lab.fabric.arrivals import Held, Queue, held

ISN = 2**32 - 3
"""Sequence numbers pass 2^32."""


def frame(sequence, payload_bytes, flags=16, sport=1000):
    total = 40 + payload_bytes
    ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0xBC, total, 0, 0, 64, 6, 0, bytes(4), bytes(4))
    tcp = struct.pack(">HHIIBBHHH", sport, 80, sequence % 2**32, 0, 0x50, flags, 0, 0, 0)
    return bytes(12) + b"\x08\x00" + ip + tcp


def capture(path, packets):
    """A file of (milliseconds, frame)."""
    head = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 94, 1)
    lines = [struct.pack("<IIII", 0, 1000 * ms, len(data), len(data)) + data for ms, data in packets]
    path.write_bytes(head + b"".join(lines))
    return path


def test_what_comes_in_order_is_never_held(tmp_path):
    packets = [(0, frame(ISN, 0, 2)), *((n, frame(ISN + 1 + 100 * n, 100)) for n in range(5))]
    assert held(capture(tmp_path / "a", packets)) == Held(packets=5)


def test_a_gap_holds_what_follows_until_it_is_filled(tmp_path):
    at = [ISN + 1 + 100 * n for n in range(5)]
    order = [(1, 0), (2, 2), (4, 3), (8, 1), (9, 4)]
    found = held(capture(tmp_path / "a", [(0, frame(ISN, 0, 2)), *((ms, frame(at[n], 100)) for ms, n in order)]))
    assert (found.packets, found.stored, found.waiting_bytes) == (5, 2, 100 + 200)
    assert found.byte_s == pytest.approx(0.1 * 2 + 0.2 * 4)
    assert found.seconds == pytest.approx(0.006)


def test_what_came_twice_is_held_once(tmp_path):
    packets = [frame(ISN, 0, 2), frame(ISN + 1, 100), frame(ISN + 201, 100), frame(ISN + 201, 100), frame(ISN + 1, 100)]
    found = held(capture(tmp_path / "a", enumerate(packets)))
    assert (found.stored, found.waiting_bytes, found.mean_bytes) == (2, 300, 75)


def test_connections_hold_each_their_own(tmp_path):
    packets = [frame(ISN, 0, 2), frame(7, 0, 2, sport=1001), frame(ISN + 101, 50), frame(108, 70, sport=1001)]
    found = held(capture(tmp_path / "a", enumerate(packets)))
    assert (found.stored, found.waiting_bytes) == (2, 120)
    assert (found + found).packets == 4


def test_overlapping_packets_fill_a_gap():
    queue = Queue(10)
    assert queue.put(30, 10)
    assert queue.put(20, 15)
    assert queue.length_bytes == 20
    assert not queue.put(5, 20)
    assert (queue.next, queue.ranges) == (40, [])
