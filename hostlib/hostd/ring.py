"""The ring buffer by which the kernel mode tells of finished flows: `struct kernel_record`, one after another.

Read without a call a record: the buffer is mapped, and all its entries have one length, so that those that wait are
columns of one array. Its invariant: each record is handed out once, and room is given back only after.
"""

import mmap
import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from qclimb.record_rows import ROW, Rows

from hostlib.hostd import bpf

PAGE = mmap.PAGESIZE
ENTRY = np.dtype([("record", ROW), ("flows", "<u8")])
HEAD = 8
"""Bytes before an entry: its length, and where its page lies."""
BUSY = 1 << 31
"""Of the length, while the entry is being written."""


class Ring:
    """A mapped ring buffer of `size_bytes`, pinned at `pin`. Raises: BpfError."""

    def __init__(self, pin: Path, size_bytes: int) -> None:
        with bpf.pinned(pin) as fd:
            self._fd = os.dup(fd)
        self._size = size_bytes
        self._mine = mmap.mmap(self._fd, PAGE, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
        # The kernel maps the data twice, one after the other, so that an entry that wraps is whole.
        self._theirs = mmap.mmap(self._fd, PAGE + 2 * size_bytes, mmap.MAP_SHARED, mmap.PROT_READ, offset=PAGE)
        self._consumed = np.frombuffer(self._mine, "<u8", 1)
        self._produced = np.frombuffer(self._theirs, "<u8", 1)
        self._data = np.frombuffer(self._theirs, "u1", 2 * size_bytes, PAGE)

    def read(self) -> tuple[Rows, NDArray[np.uint64]]:
        """What waits, in the order in which flows ended; and how many flows each stands for."""
        from_, to = int(self._consumed[0]), int(self._produced[0])
        stride = HEAD + (ENTRY.itemsize + 7) // 8 * 8
        at = from_ % self._size
        entries = self._data[at : at + (to - from_) // stride * stride].reshape(-1, stride)
        lengths = entries[:, :4].copy().view("<u4")[:, 0]
        unfinished = np.flatnonzero(lengths & BUSY)
        whole = entries[: unfinished[0]] if len(unfinished) else entries
        found = whole[:, HEAD : HEAD + ENTRY.itemsize].copy().view(ENTRY)[:, 0]
        self._consumed[0] = from_ + len(whole) * stride
        return found["record"], found["flows"]

    def close(self) -> None:
        """Lets go of the buffer; it stays pinned."""
        del self._consumed, self._produced, self._data
        self._mine.close()
        self._theirs.close()
        os.close(self._fd)
