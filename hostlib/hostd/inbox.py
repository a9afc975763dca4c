"""The datagram socket on which shims leave their flow records.

Any local user may send. It knows of no network but this socket. Its invariant: whatever arrives, reading goes on in
bounded memory; what can't be read is counted and its reason kept. Who sent, the kernel says (SCM_CREDENTIALS, unix(7)).
"""

import contextlib
import socket
import struct
import time
from collections import Counter
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
from hostlib.hostd.reported import ReportedConnections

#: Linux lets this many datagrams wait on a Unix socket, 10 by default, whatever SO_RCVBUF says (unix(7)); a shim that
#: finds it full drops its batch.
QUEUE_SYSCTL = Path("/proc/sys/net/unix/max_dgram_qlen")
QUEUE_DATAGRAMS = 1024
#: No datagram of ours is longer; one that is, is told by its cut end.
DATAGRAM_BYTES = 1 << 16
#: Datagrams read in one turn, so that a flood can't keep the loop from its other work.
TURN = 256
#: Proposals taken in a second: of one user, and in all. One costs up to 2 ms, and any few teach as much.
PROPOSALS_OF_USER, PROPOSALS_IN_ALL = 50, 200
CREDENTIALS = struct.Struct("3i")
#: Of the first process namespace's file (include/linux/proc_ns.h).
FIRST_PID_NAMESPACE = 0xEFFFFFFC

Datagram = tuple[bytes, int, int]
"""Its bytes, and who sent it: process (0: one that can't be seen from here) and user."""


class Inbox:
    """The bound socket `records`, and what arrived on it so far.

    `beside_kernel`: the kernel mode tells of flows, too, so that it is kept whose libraries do.

    Raises:
        PlaceError: the socket can't be bound.
    """

    def __init__(self, path: Path, *, beside_kernel: bool = False) -> None:
        self.datagrams = 0
        self.records = 0
        self.malformed = 0
        self.dropped_by_shims = 0
        self.known = Known()
        self.reported = ReportedConnections(knows_pids=_is_in_first_pid_namespace()) if beside_kernel else None
        self._proposals: Counter[int] = Counter()
        self._proposals_since_s = 0.0
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
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
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
        found: list[Datagram] = []
        with contextlib.suppress(BlockingIOError):
            while len(found) < TURN:
                found.append(self._receive())
        now = time.monotonic()
        self.datagrams += len(found)
        for datagram, _, user in found:
            if is_proposal(datagram):
                self._propose(datagram, user, learner, now)
        whole = [
            (datagram, pid) for datagram, pid, _ in found if not is_proposal(datagram) and self._is_whole(datagram)
        ]
        rows = _rows_of(whole)
        if not possible(rows).all():
            whole = [each for each in whole if self._is_possible(each[0])]
            rows = _rows_of(whole)
        dropped = 0
        counts = []
        for datagram, _ in whole:
            count, drops, self.shim_policy_generation = decode_record_header(datagram)
            dropped += drops
            counts.append(count)
        self.records += len(rows)
        if self.reported is not None and len(rows):
            self.reported.add(rows, np.repeat(np.array([pid for _, pid in whole], dtype=np.uint32), counts), now)
        self.dropped_by_shims += dropped
        flows = flows_of(rows)
        into.add(rows, dropped, flows)
        learner.count(rows, now)
        self.known.add(rows, flows)
        return len(found)

    def _receive(self) -> Datagram:
        """Raises: BlockingIOError: none waits. There is room for the credentials alone: no descriptor comes in."""
        length, ancillary, _, _ = self.socket.recvmsg_into(
            [self._buffer],
            socket.CMSG_SPACE(CREDENTIALS.size),
            socket.MSG_TRUNC,  # says what it cuts
        )
        pid, user, _ = CREDENTIALS.unpack(ancillary[0][2]) if ancillary else (0, -1, -1)
        return bytes(self._view[:length]) if length <= DATAGRAM_BYTES else b"", pid, user

    def _propose(self, datagram: bytes, user: int, learner: Learner, now_s: float) -> None:
        if now_s - self._proposals_since_s >= 1.0:
            self._proposals.clear()
            self._proposals_since_s = now_s
        try:
            proposal = decode_proposal(datagram)
        except QclimbError as error:
            self._refuse(str(error))
            return
        if self._proposals[user] < PROPOSALS_OF_USER and self._proposals.total() < PROPOSALS_IN_ALL:
            self._proposals[user] += 1
            learner.propose(proposal)

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


def _rows_of(datagrams: list[tuple[bytes, int]]) -> Rows:
    return rows_of(b"".join(datagram[RECORD_HEADER.size :] for datagram, _ in datagrams))


def _is_in_first_pid_namespace() -> bool:
    with contextlib.suppress(OSError):
        return Path("/proc/self/ns/pid").stat().st_ino == FIRST_PID_NAMESPACE
    return False


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
