"""Starts our programs by forking a process that has imported them: processes as any other, without a second of imports.

How they start from nothing is tested where a test runs their command.
"""

import importlib
import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

HOSTD, ORCHESTRATOR, SWITCHD = "hostlib.hostd.cli", "orchestrator.cli", "switchd.cli"
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(
    ["pytest", "uvicorn", "switchd.daemon", "switchd.door", "orchestrator.rest.app", "orchestrator.fabric.switches"]
    + [f"orchestrator.watch.{name}" for name in ("bounds", "health", "office", "spines", "switches")]
    + ["orchestrator.ingest.stream", "orchestrator.rest.server", "orchestrator.rest.standby", "hostlib.hostd.daemon"]
    + [HOSTD, ORCHESTRATOR, SWITCHD]
)


class Forked:
    """A program of ours that runs: what the tests need of `subprocess.Popen`."""

    def __init__(
        self,
        module: str,
        words: Sequence[str],
        log: Path,
        folder: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        """What it prints is appended to `log`; `env` is added to the environment."""
        log.open("ab").close()  # who waits for a word of it finds it
        place = str(folder or Path.cwd())
        self._process = FORKS.Process(
            target=_run, args=(module, list(words), str(log), place, {**os.environ, **(env or {})}), daemon=True
        )
        self._process.start()
        self.pid: int = self._process.pid or 0

    @property
    def returncode(self) -> int | None:
        """As it was when somebody looked last; -N: signal N ended it."""
        return self._process.exitcode

    def poll(self) -> int | None:
        """How it ended, None while it runs."""
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """How it ended. Raises subprocess.TimeoutExpired."""
        self._process.join(timeout)
        if (code := self._process.exitcode) is None:
            raise subprocess.TimeoutExpired(self._process.name, timeout or 0)
        return code

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL."""
        self.send_signal(signal.SIGKILL)


def _run(module: str, words: list[str], log: str, folder: str, env: dict[str, str]) -> None:
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(file, 1)
    os.dup2(file, 2)
    os.close(file)
    sys.stderr = os.fdopen(2, "w", buffering=1, errors="backslashreplace", closefd=False)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(env)
    importlib.import_module(module).main(words, prog_name=f"python -m {module}")
