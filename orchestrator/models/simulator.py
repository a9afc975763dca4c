"""Asks the simulator, a program of its own, and remembers what it said."""

import json
import subprocess
import sys
import threading
from collections import OrderedDict
from typing import Any

from ..errors import ForecastError

Json = dict[str, Any]

PROGRAM = (sys.executable, "-m", "lab.sim.shares")
LONGEST_S = 300.0
REMEMBERED = 64


class Simulator:
    """One question at a time; the same one is answered from memory."""

    def __init__(self, program: tuple[str, ...] = PROGRAM, longest_s: float = LONGEST_S) -> None:
        self._program, self._longest_s = program, longest_s
        self._busy, self._known = threading.Lock(), OrderedDict[str, list[Json]]()

    def ask(self, question: Json) -> list[Json]:
        """What `lab/sim/shares.py` answers. Raises ForecastError where it can't be had."""
        text = json.dumps(question, sort_keys=True)
        with self._busy:
            if text not in self._known:
                self._known[text] = self._run(text)
                while len(self._known) > REMEMBERED:
                    self._known.popitem(last=False)
            self._known.move_to_end(text)
            return self._known[text]

    def _run(self, text: str) -> list[Json]:
        try:
            done = subprocess.run(
                self._program, input=text, capture_output=True, text=True, timeout=self._longest_s, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise ForecastError(f"the simulator did not answer: {error}") from None
        if done.returncode:
            said = done.stderr.strip().splitlines()
            raise ForecastError(f"the simulator ended with {done.returncode}: {said[-1] if said else 'no word'}")
        try:
            found = json.loads(done.stdout)
        except ValueError as error:
            raise ForecastError(f"the simulator's answer is no JSON: {error}") from None
        assert isinstance(found, list)
        return found
