"""What a host's TCP holds out of order, from the packets that arrive there: the length of its queue of payload bytes
above a gap (QCLIMB, NSDI'24, Table 3), rebuilt from sequence numbers. Nothing in the host is asked or changed.
"""

from __future__ import annotations

import re
import signal
import subprocess
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from lab.fabric.segments import segments
from lab.fabric.topology import FabricError

HEADERS_BYTES = 94
"""Of a packet: Ethernet, IPv4 and TCP with options."""
HANDED_OVER_S = 1.2
"""tcpdump is given packets in blocks, a second after the first of one at the latest. One by one (immediate mode) they
would take the processors' time from what is measured."""
SYN = 2
HALF = 1 << 31


@dataclass
class Held:
    """What was held out of order, over all connections."""

    packets: int = 0
    """That brought payload."""
    stored: int = 0
    """Of them, those that were put into a queue, above a gap."""
    waiting_bytes: int = 0
    """The length of the connection's queue after each packet, summed."""
    byte_s: float = 0.0
    """Bytes held, times the seconds for which."""
    seconds: float = 0.0
    """For which connections held anything, summed."""

    @property
    def mean_bytes(self) -> float:
        """What waits beyond a gap, over arrivals: as the simulator counts it (page qclimb-tables)."""
        return self.waiting_bytes / self.packets if self.packets else 0.0

    def __add__(self, other: Held) -> Held:
        """Of both."""
        return Held(
            self.packets + other.packets,
            self.stored + other.stored,
            self.waiting_bytes + other.waiting_bytes,
            self.byte_s + other.byte_s,
            self.seconds + other.seconds,
        )


@dataclass
class Queue:
    """One direction of a connection at its receiver: what lies above the first missing byte."""

    next: int
    """Sequence number of the first missing byte."""
    ranges: list[tuple[int, int]] = field(default_factory=list)
    """Held, relative to `next`, ascending, apart from each other."""
    since_s: float = 0.0

    @property
    def length_bytes(self) -> int:
        """Payload held."""
        return sum(end - start for start, end in self.ranges)

    def put(self, sequence: int, payload_bytes: int) -> bool:
        """A packet comes; whether it was put into the queue, where none of it is the first missing byte."""
        start = (sequence - self.next + HALF) % (2 * HALF) - HALF
        end = start + payload_bytes
        if end <= 0:
            return False  # all of it has come before
        if start > 0:
            self.ranges = _joined([*self.ranges, (start, end)])
            return True
        whole = _joined([(0, end), *self.ranges])
        passed = whole[0][1]
        self.next = (self.next + passed) % (2 * HALF)
        self.ranges = [(low - passed, high - passed) for low, high in whole[1:]]
        return False


def _joined(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        else:
            found.append((start, end))
    return found


def held(capture: Path) -> Held:
    """From a capture of what one host received, from the connections' SYNs on (else from the first packet of each).
    Packets of a retransmission that had come already count as packets alone."""
    found, queues = Held(), dict[tuple[bytes, int, int], Queue]()
    for one in segments(capture):
        connection = one.addresses, one.sport, one.dport
        if one.flags & SYN:
            queues[connection] = Queue((one.seq + 1) % (2 * HALF))
            continue
        if not one.payload:
            continue
        queue = queues.setdefault(connection, Queue(one.seq))
        found.packets += 1
        if queue.ranges:
            found.byte_s += queue.length_bytes * (one.at_s - queue.since_s)
            found.seconds += one.at_s - queue.since_s
        found.stored += queue.put(one.seq, one.payload)
        found.waiting_bytes += queue.length_bytes
        queue.since_s = one.at_s
    return found


@contextmanager
def captured(hosts: Iterable[tuple[str, str, Path]], packets: str) -> Iterator[None]:
    """What comes in at (namespace, device), into the file, while the block runs; `packets`: tcpdump's expression.

    Raises: FabricError: tcpdump did not start, or missed packets.
    """
    running: list[subprocess.Popen[str]] = []
    try:
        for netns, device, file in hosts:
            options = f"-Z root -i {device} -Q in -s {HEADERS_BYTES} -B 32768 -U -w {file}"
            argv = ["ip", "netns", "exec", netns, "tcpdump", *options.split(), packets]
            running.append(subprocess.Popen(argv, stderr=subprocess.PIPE, text=True))
        for dump in running:
            assert dump.stderr
            while "listening" not in (line := dump.stderr.readline()):
                if not line:
                    raise FabricError(f"`{dump.args!r}` did not start")
        yield
        time.sleep(HANDED_OVER_S)
    finally:
        for dump in running:
            dump.send_signal(signal.SIGINT)
        said = [dump.communicate()[1] for dump in running]
    missed = sum(int(number) for words in said for number in re.findall(r"(\d+) packets? dropped by kernel", words))
    if missed:
        raise FabricError(f"tcpdump missed {missed} packets; expected none")
