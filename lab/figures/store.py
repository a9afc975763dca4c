"""Points on disk: NAME.npz in the cache folder, whole or not there at all, and each computed by one sweep at a time.

A sweep claims a point (an exclusive lock on NAME.lock, which the system takes back from whoever dies, however it dies),
computes it, writes NAME.part and renames that. What cannot be read back whole (zip's checksums) counts as not there.
Where the file system knows no locks two sweeps may compute the same point; neither ever leaves half of one.
"""

from __future__ import annotations

import fcntl
import json
import os
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import IO

import numpy as np

from lab.figures.points import Point
from lab.sim import SimulationError


class Store:
    """The points of one folder, as one sweep sees them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._claims: dict[str, IO[bytes]] = {}
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SimulationError(f"cache is {folder}, where no folder can be made: {error.strerror}") from None

    def read(self, name: str) -> Point | None:
        """None unless it is there, whole."""
        try:
            with np.load(self._path(name)) as stored:
                counters = json.loads(str(stored["counters"]))
                return Point(stored["size_bytes"], stored["fct_us"], stored["slowdown"], counters)
        except (OSError, EOFError, KeyError, ValueError, zipfile.BadZipFile):
            return None

    def write(self, name: str, point: Point) -> None:
        """Keeps a point that was claimed, and gives the claim back."""
        part = self._folder / f"{name}.part"
        with part.open("wb") as file:
            np.savez_compressed(
                file,
                size_bytes=point.size_bytes,
                fct_us=point.fct_us,
                slowdown=point.slowdown,
                counters=np.array(json.dumps(dict(point.counters))),
            )
        part.rename(self._path(name))
        self.give_back(name)

    def claim(self, name: str, wait: bool = False) -> bool:
        """False while another sweep has it; `wait`: until it has not. Read again afterwards: it may be there now."""
        path = self._folder / f"{name}.lock"
        while True:
            file = path.open("wb")
            try:
                fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.close()
                return False
            except OSError:  # no locks on this file system
                break
            with suppress(FileNotFoundError):
                if os.path.samestat(path.stat(), os.fstat(file.fileno())):
                    break
            file.close()  # who had it took the file away: a lock on that keeps nobody out
        self._claims[name] = file
        return True

    def holds(self, name: str) -> bool:
        """Whether the claim is this sweep's."""
        return name in self._claims

    def give_back(self, name: str) -> None:
        """The claim."""
        (self._folder / f"{name}.lock").unlink(missing_ok=True)
        self._claims.pop(name).close()

    def close(self) -> None:
        """Gives all claims back."""
        for name in list(self._claims):
            self.give_back(name)

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}.npz"
