"""Daemons of the control plane: started in a namespace, logged to a file, awaited by condition."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lab.fabric.topology import FabricError

if TYPE_CHECKING:
    from lab.fabric.fabric import Fabric

LAST_LINES = 12


@dataclass(frozen=True)
class Daemon:
    """One that was started."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path

    def last_words(self) -> str:
        """The end of its log."""
        lines = self.log.read_text(errors="replace").splitlines()[-LAST_LINES:]
        return "\n".join(f"  {line}" for line in lines) or "  (its log is empty)"


def command(name: str) -> str:
    """A console command of ours: beside the running Python.

    Raises:
        FabricError: it is not installed.
    """
    path = Path(sys.executable).parent / name
    if not path.exists():
        raise FabricError(f"the command {path} is missing; `make setup` installs it")
    return str(path)


def start(fabric: Fabric, node: str, name: str, argv: Sequence[str]) -> Daemon:
    """Starts a daemon in a node's namespace, in a session of its own; its output goes to <state>/logs/<name>.log."""
    log = fabric.directory / "logs" / f"{name}.log"
    log.parent.mkdir(exist_ok=True)
    env = {key: value for key, value in os.environ.items() if not key.startswith(("LD_PRELOAD", "QCLIMB_"))}
    with log.open("ab") as out:
        process = subprocess.Popen(
            fabric.exec_argv(node, argv),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**env, "PYTHONUNBUFFERED": "1"},
        )
    return Daemon(name, process, log)


def wait_for(what: str, ready: Callable[[], bool], daemons: Sequence[Daemon], deadline_s: float = 300) -> None:
    """Waits until `ready()`.

    Raises:
        FabricError: one of the daemons ended meanwhile, or the deadline passed; shows the end of a log.
    """
    deadline = time.monotonic() + deadline_s
    pause = 0.02
    while not ready():
        for daemon in daemons:
            if daemon.process.poll() is not None:
                raise FabricError(
                    f"{daemon.name} ended with status {daemon.process.returncode} before {what}; "
                    f"{daemon.log} ends with\n{daemon.last_words()}"
                )
        if time.monotonic() > deadline:
            words = "\n".join(f"{daemon.log} ends with\n{daemon.last_words()}" for daemon in daemons[:2])
            raise FabricError(f"{what}: not within {deadline_s:.0f} s; {words}")
        time.sleep(pause)
        pause = min(0.25, pause * 1.5)
