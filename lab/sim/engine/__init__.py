"""The C++ engine as a program: finds or builds it, feeds it flows, reads its results.

A program and not a shared library: a broken invariant ends the program and not Python, Ctrl-C ends it at once, a sweep
runs as many as there are cores, and flows and results stream through pipes of fixed size (docs/design/simulator.md).
"""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import IO, Any

import numpy as np

from lab.build import make
from lab.sim.errors import EngineError, SimulationError
from lab.sim.wire import LAST_INDEX, RESULT

HERE = Path(__file__).parent
READ_RECORDS = 65_536
Records = np.ndarray[Any, np.dtype[np.void]]


@cache
def program(checked: bool = False) -> Path:
    """The engine's path; in a checkout, built if it is older than its sources. `checked`: the build with invariants,
    and with sanitizers where QCLIMB_SANITIZED is set. Raises: EngineError."""
    target = ("sanitized" if os.environ.get("QCLIMB_SANITIZED") else "checked") if checked else "sim"
    path = HERE / "build" / ("qclimb-sim" if target == "sim" else f"qclimb-sim-{target}")
    if (HERE / "Makefile").exists() and (failure := make(HERE, target)):
        raise EngineError(f"the simulator's engine does not build (make -C {HERE}): {failure[-500:]}")
    if not path.exists():
        raise EngineError(f"the simulator's engine is not there: {path}; it needs a C++ compiler at installation")
    return path


class Process:
    """One run of the engine: iterate over it for results, then ask `counters`."""

    def __init__(
        self, settings: Mapping[str, int | str], flows: Iterable[Records], checked: bool = False, ahead: bytes = b""
    ) -> None:
        """`ahead`: what the engine reads before flows, a wired fabric's links and paths."""
        words = [f"{key}={value}" for key, value in settings.items()]
        self.counters: dict[str, Any] = {}
        self._flows = flows
        self._ahead = ahead
        self._failure: BaseException | None = None
        self._process = subprocess.Popen(
            [str(program(checked)), *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        self._stderr = b""

    def __iter__(self) -> Iterator[Records]:
        """Results in the order in which flows end. Raises: SimulationError."""
        threads = [threading.Thread(target=self._feed), threading.Thread(target=self._listen)]
        for thread in threads:
            thread.start()
        try:
            yield from self._read(_pipe(self._process.stdout))
            self._process.wait()
        finally:
            if self._process.poll() is None:
                self._process.kill()
            self._process.wait()
            for thread in threads:
                thread.join()
            _pipe(self._process.stdout).close()
        if self._failure:
            raise self._failure
        if self._process.returncode:
            self._fail()

    def _read(self, out: IO[bytes]) -> Iterator[Records]:
        left = b""
        while block := out.read(READ_RECORDS * RESULT.itemsize):
            left += block
            whole = len(left) // RESULT.itemsize
            records = np.frombuffer(left, RESULT, whole)
            last = np.flatnonzero(records["index"] == LAST_INDEX)
            if last.size:
                at = int(last[0])
                yield records[:at]
                text = left[(at + 1) * RESULT.itemsize :] + out.read()
                self.counters = json.loads(text[: int(records["start_ps"][at])])
                return
            yield records
            left = left[whole * RESULT.itemsize :]

    def _feed(self) -> None:
        try:
            with _pipe(self._process.stdin) as into:
                into.write(self._ahead)
                for chunk in self._flows:
                    into.write(chunk.data)
        except BrokenPipeError:
            pass  # the engine is gone; its exit says why
        except Exception as error:  # a bad list: told by the reader, once the engine has stopped
            self._failure = error
            self._process.kill()

    def _listen(self) -> None:
        with _pipe(self._process.stderr) as err:
            self._stderr = err.read()

    def _fail(self) -> None:
        code, said = self._process.returncode, self._stderr.decode(errors="replace").strip()
        if code == 2:
            raise SimulationError(said)
        raise EngineError(f"the engine stopped with exit {code}: {said[-2000:]}")


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None
    return pipe
