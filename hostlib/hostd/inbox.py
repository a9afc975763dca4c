"""The datagram socket on which shims leave their flow records.

It knows of no network but this socket. Its invariant: whatever arrives, reading goes on; what can't be read is
counted and its reason kept.
"""

import contextlib
import socket
import time
from pathlib import Path

import numpy as np
from qclimb.errors import QclimbError
from qclimb.hostfile import RECORD_HEADER, decode_record_header
from qclimb.lengthfile import decode_proposal, is_proposal
from qclimb.record_rows import Rows, decode_rows, flows_of, possible, rows_of

from hostlib.hostd.collected import Collected
from hostlib.hostd.errors import PlaceError
from hostlib.hostd.known import Known
from hostlib.hostd.learning import Learner
from hostlib.hostd.place import SOCKET_MODE

#: Linux lets this many datagrams wait on a Unix socket, 10 by default, whatever SO_RCVBUF says (unix(7)); a shim that
#: finds it full drops its batch.
QUEUE_SYSCTL = Path("/proc/sys/net/unix/max_dgram_qlen")
QUEUE_DATAGRAMS = 1024
#: No datagram of ours is longer; one that is, is told by its cut end.
DATAGRAM_BYTES = 1 << 16
#: Datagrams read in one turn, so that a flood can't keep the loop from its other work.
TURN = 256
#: The number of a process that is over may come again.
RECENT_S = 60.0


class Inbox:
    """The bound socket `records`, and what arrived on it so far.

    Raises:
        PlaceError: the socket can't be bound.
    """

    def __init__(self, path: Path) -> None:
        self.datagrams = 0
        self.records = 0
        self.malformed = 0
        self.dropped_by_shims = 0
        self.known = Known()
        self._seen_at: dict[int, float] = {}
        #: of several that were read in one turn, the last whose flows can't be comes after the others
        self.last_malformed = ""
        #: of the policy in force at the shim that sent last
        self.shim_policy_generation = 0
        self._buffer = bytearray(DATAGRAM_BYTES)
        self._view = memoryview(self._buffer)
        self.queue_datagrams, self.socket = _socket_with_a_long_queue()
        try:
            with contextlib.suppress(FileNotFoundError):
                path.unlink()
            self.socket.bind(str(path))
            path.chmod(SOCKET_MODE)
        except OSError as error:
            self.socket.close()
            raise PlaceError(f"records socket {path}: {error.strerror or error}; expected to bind it") from error

    def fileno(self) -> int:
        """For selectors."""
        return self.socket.fileno()

    def read(self, into: Collected, learner: Learner) -> int:
        """Reads at most `TURN` waiting datagrams without blocking; returns how many there were."""
        found: list[bytes] = []
        with contextlib.suppress(BlockingIOError):
            while len(found) < TURN:
                length = self.socket.recv_into(self._buffer, 0, socket.MSG_TRUNC)  # says what it cuts
                found.append(bytes(self._view[:length]) if length <= DATAGRAM_BYTES else b"")
        self.datagrams += len(found)
        for datagram in filter(is_proposal, found):
            self._propose(datagram, learner)
        whole = [datagram for datagram in found if not is_proposal(datagram) and self._is_whole(datagram)]
        rows = _rows_of(whole)
        if not possible(rows).all():
            whole = [datagram for datagram in whole if self._is_possible(datagram)]
            rows = _rows_of(whole)
        dropped = 0
        for datagram in whole:
            _, drops, self.shim_policy_generation = decode_record_header(datagram)
            dropped += drops
        self.records += len(rows)
        if len(rows):
            now = time.monotonic()
            self._seen_at.update(dict.fromkeys(np.unique(rows["pid"]).tolist(), now))
        self.dropped_by_shims += dropped
        flows = flows_of(rows)
        into.add(rows, dropped, flows)
        learner.count(rows, time.monotonic())
        self.known.add(rows, flows)
        return len(found)

    def recent_pids(self) -> list[int]:
        """Processes whose library told of flows in the last minute."""
        since = time.monotonic() - RECENT_S
        return [pid for pid, at in list(self._seen_at.items()) if at > since]

    def _propose(self, datagram: bytes, learner: Learner) -> None:
        try:
            learner.propose(decode_proposal(datagram))
        except QclimbError as error:
            self._refuse(str(error))

    def _is_whole(self, datagram: bytes) -> bool:
        if not datagram:
            self._refuse(f"a datagram empty or longer than {DATAGRAM_BYTES} bytes; expected a batch of records")
            return False
        try:
            decode_record_header(datagram)
        except QclimbError as error:
            self._refuse(str(error))
            return False
        return True

    def _is_possible(self, datagram: bytes) -> bool:
        try:
            decode_rows(datagram)
        except QclimbError as error:
            self._refuse(str(error))
            return False
        return True

    def close(self) -> None:
        """Closes the socket; its name stays, as everything of hostd's does."""
        self.socket.close()

    def _refuse(self, reason: str) -> None:
        self.malformed += 1
        self.last_malformed = reason


def _rows_of(datagrams: list[bytes]) -> Rows:
    return rows_of(b"".join(datagram[RECORD_HEADER.size :] for datagram in datagrams))


def _socket_with_a_long_queue() -> tuple[int, socket.socket]:
    """A socket takes its queue's length from the sysctl when it is made: raise that (root only) for this moment."""
    before = None
    with contextlib.suppress(OSError, ValueError):
        before = int(QUEUE_SYSCTL.read_text())
        if before < QUEUE_DATAGRAMS:
            QUEUE_SYSCTL.write_text(f"{QUEUE_DATAGRAMS}\n")
    try:
        made = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        length = before or 0
        with contextlib.suppress(OSError, ValueError):
            length = int(QUEUE_SYSCTL.read_text())
    finally:
        if before is not None and before < QUEUE_DATAGRAMS:
            with contextlib.suppress(OSError):
                QUEUE_SYSCTL.write_text(f"{before}\n")
    return length, made
