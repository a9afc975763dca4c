"""What the runner knows of a program: its name, what has to be installed, and how one run of it goes."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from hostlib.compat.bed import Bed
from hostlib.compat.outcome import Outcome

LOADS = Path(__file__).parent / "loads"
"""Loads of our own, for programs that bring none."""


@dataclass(frozen=True)
class Program:
    """One program that real hosts run.

    needs  what must be on PATH (or match, where it begins with a slash), and the Debian package that brings it
    run    one run on a bed: starts what it needs, raises CompatError (Hung) where it can't, tells what it saw
    paced  runs on a loopback with a rate, so that queues stand; False where its own suite takes loopback to be instant
    """

    name: str
    about: str
    needs: tuple[tuple[str, str], ...]
    run: Callable[[Bed], Outcome]
    paced: bool = True

    def missing(self) -> tuple[str, ...]:
        """The packages that would have to be installed here."""
        return tuple(dict.fromkeys(package for command, package in self.needs if not _is_there(command)))


def _is_there(command: str) -> bool:
    if command.startswith("/"):
        return any(Path("/").glob(command.removeprefix("/")))
    return shutil.which(command) is not None
