"""How commands say what is wrong."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from qclimb.options import Refused


@contextmanager
def one_sentence() -> Iterator[None]:
    """What is wrong with the machine or the request: a sentence and exit 2, not a traceback."""
    from lab.fabric import FabricError
    from lab.workload.programs import WorkloadError

    try:
        yield
    except (FabricError, WorkloadError) as error:
        raise Refused(str(error)) from None


def require_root() -> None:
    """Asked before anything is built. Raises: FabricError: not root."""
    if os.geteuid() != 0:
        from lab.fabric import FabricError

        raise FabricError("this makes network namespaces, which needs root; run it with sudo")


def written(path: Path, text: str) -> None:
    """Writes a file, or says why not and exits with 2."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise Refused(f"{path}: {error.strerror}, expected a place to write to") from None
