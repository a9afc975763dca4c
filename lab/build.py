"""`make` in a folder of this checkout, one at a time: a stale build that two start at once is built by one of them."""

from __future__ import annotations

import fcntl
import subprocess
from pathlib import Path


def make(folder: Path, *targets: str) -> str:
    """Brings targets up to date.

    Returns:
        What make said where it failed; empty: they are built.
    """
    with (folder / "Makefile").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = subprocess.run(["make", "-s", "-C", str(folder), *targets], capture_output=True, text=True, check=False)
    return (done.stderr.strip() or f"make ended with {done.returncode}") if done.returncode else ""
