"""How tests wait: for the condition itself, as long as a busy machine may take."""

import time
from collections.abc import Callable
from typing import Any

import pytest

DEADLINE_S = 120.0
PAUSE_S = 0.01


def wait_until(holds: Callable[[], Any], what: str = "it holds", deadline_s: float = DEADLINE_S) -> Any:
    """The first true answer of `holds`; fails the test, and says until what it waited, when the deadline has passed."""
    end = time.monotonic_ns() + int(deadline_s * 10**9)  # a test may have time.monotonic stand still
    while time.monotonic_ns() < end:
        if answer := holds():
            return answer
        time.sleep(PAUSE_S)
    pytest.fail(f"waited {deadline_s:g} s in vain until {what}")
