"""Coflow traces in the format of coflow-benchmark (Facebook, 2010: FB2010-1Hr-150-0.txt).

The first line has the racks and the coflows; each other one a coflow: its number, its arrival in ms, how many mappers
there are and their racks, how many reducers and each one's rack:MB. Each mapper sends a reducer its part of the MB.
"""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

import numpy as np

from lab.sim.coflow.coflows import Coflows
from lab.sim.errors import ExperimentError

MB = 2.0**20
"""As CoflowSim counts."""
MOST_RACKS = 2**19


def read_trace(path: Path, mb_bytes: float = MB) -> Coflows:
    """Raises: ExperimentError, with the place of what can't be read."""
    try:
        lines = path.read_text(encoding="ascii").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "is no text"
        raise ExperimentError(f"coflows: {path} can't be read: {why}") from None
    line = _Line(path, 1, lines[0] if lines else "")
    racks, count = line.whole("racks", 1, MOST_RACKS), line.whole("coflows", 1, 10**7)
    line.end()
    rows = [(number, text) for number, text in enumerate(lines[1:], 2) if text.strip()]
    if len(rows) != count:
        raise ExperimentError(f"coflows: {path}, line 1: {count} coflows, expected {len(rows)}, as lines follow")
    start: list[int] = []
    size, source, target = [], [], []
    for number, text in rows:
        line = _Line(path, number, text)
        line.whole("coflow", 0, 2**62)
        arrival_ms = line.whole("arrival in ms", start[-1] if start else 0, 10**9)
        start.append(arrival_ms)
        mappers = np.array([line.whole("mapper's rack", 0, racks - 1) for _ in range(line.whole("mappers", 1, 10**6))])
        reducers = [line.reducer(racks) for _ in range(line.whole("reducers", 1, 10**6))]
        line.end()
        each = np.array([max(1, round(mb * mb_bytes / len(mappers))) for _, mb in reducers], np.int64)
        size.append(np.repeat(each, len(mappers)))
        source.append(np.tile(mappers, len(reducers)))
        target.append(np.repeat([rack for rack, _ in reducers], len(mappers)))
    return Coflows(
        racks,
        np.array(start, np.int64) * 10**9,
        np.repeat(np.arange(count), [len(each) for each in size]),
        np.concatenate(size),
        np.concatenate(source).astype(np.int64),
        np.concatenate(target).astype(np.int64),
    )


class _Line:
    """Words of a line, one after another."""

    def __init__(self, path: Path, number: int, text: str) -> None:
        self._place, self._words, self._at = f"{path}, line {number}", text.split(), 0

    def whole(self, what: str, least: int, most: int) -> int:
        """A whole number. Raises: ExperimentError."""
        word = self._next(what)
        if not (word.isdigit() and least <= int(word) <= most):
            self._refuse(what, word, f"a whole number, {least} to {most}")
        return int(word)

    def reducer(self, racks: int) -> tuple[int, float]:
        """Its rack and MB. Raises: ExperimentError."""
        word = self._next("reducer")
        rack, _, mb = word.partition(":")
        try:
            found = int(rack), float(mb)
        except ValueError:
            found = -1, 0.0
        if not (0 <= found[0] < racks and 0 < found[1] < 1e12):
            self._refuse("reducer", word, f"rack:MB, a rack from 0 to {racks - 1} and MB above 0")
        return found

    def end(self) -> None:
        """Raises: ExperimentError, where there are more words."""
        if self._at < len(self._words):
            self._refuse(f"word {self._at + 1}", self._words[self._at], "the line's end")

    def _next(self, what: str) -> str:
        if self._at == len(self._words):
            raise ExperimentError(f"coflows: {self._place}: it ends before its {what}")
        self._at += 1
        return self._words[self._at - 1]

    def _refuse(self, what: str, word: str, expected: str) -> NoReturn:
        raise ExperimentError(f"coflows: {self._place}: {what} is {word}, expected {expected}")
