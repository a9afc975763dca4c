"""SIGTERM as an exception, so that what was built is taken down on the way out."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def exits_on_sigterm() -> Iterator[None]:
    """While the block runs, SIGTERM raises SystemExit(143); in other threads than the main one nothing changes."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, _exit)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL if before is None else before)


def _exit(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)
