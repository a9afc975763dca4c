"""Which flows of the kernel mode's a library tells of, too: they count once, as the library tells them.

A flow is known by its cookie, and by who sent the record, as the kernel says it (SCM_CREDENTIALS): nobody speaks
for another process's sockets. Pure: values in, values out; the time is handed in.
"""

from collections import deque
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray
from qclimb.record_rows import ROW, Rows

CONNECTIONS_MOST = 16_384
"""Of a generation; two are kept. Where more come, the older generation goes early."""
GENERATION_S = 30.0
HOLD_S = 1.0
"""A library's datagram comes up to 200 ms after the kernel's record of the flow, and hostd gathers both."""
HELD_MOST = 32_768
"""Rows; where more come, the first ones wait for a shorter time."""


class ReportedConnections:
    """(cookie, process) of sockets whose flows libraries told of lately.

    `knows_pids`: whether the kernel mode's numbers of processes are those by which this process knows them.
    """

    def __init__(self, *, knows_pids: bool) -> None:
        self._knows_pids = knows_pids
        self._new: set[tuple[int, int]] = set()
        self._old: set[tuple[int, int]] = set()
        self._since_s = 0.0

    def add(self, rows: Rows, pids: NDArray[np.uint32], now_s: float) -> None:
        """Rows that libraries sent, and who sent each; 0: a process that can't be seen from here."""
        if now_s - self._since_s > GENERATION_S or len(self._new) >= CONNECTIONS_MOST:
            self._old, self._new, self._since_s = self._new, set(), now_s
        self._new.update(self._keys(rows[:CONNECTIONS_MOST], pids[:CONNECTIONS_MOST]))

    def covers(self, rows: Rows) -> NDArray[np.bool_]:
        """Which of the kernel mode's rows are of such a socket."""
        keys = self._keys(rows, rows["pid"])
        return np.fromiter((key in self._new or key in self._old for key in keys), dtype=np.bool_, count=len(rows))

    def _keys(self, rows: Rows, pids: NDArray[np.uint32]) -> Iterable[tuple[int, int]]:
        whose = pids if self._knows_pids else np.zeros_like(pids)
        return zip(rows["connection"].tolist(), whose.tolist(), strict=True)


class HeldRows:
    """The kernel mode's rows, and how many flows each stands for, until a library had time to tell of them."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[float, Rows, NDArray[np.uint64]]] = deque()
        self._count = 0

    def add(self, rows: Rows, flows: NDArray[np.uint64], now_s: float) -> None:
        """Takes some."""
        if len(rows):
            self._waiting.append((now_s, rows, flows))
            self._count += len(rows)

    def take(self, now_s: float) -> tuple[Rows, NDArray[np.uint64]]:
        """Those that waited long enough."""
        ripe: list[tuple[float, Rows, NDArray[np.uint64]]] = []
        while self._waiting and (now_s - self._waiting[0][0] >= HOLD_S or self._count > HELD_MOST):
            ripe.append(self._waiting.popleft())
            self._count -= len(ripe[-1][1])
        if not ripe:
            return np.empty(0, dtype=ROW), np.empty(0, dtype=np.uint64)
        return np.concatenate([rows for _, rows, _ in ripe]), np.concatenate([flows for _, _, flows in ripe])
