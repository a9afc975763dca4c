"""What was measured, kept on disk: a file a name, whole or not there at all.

A name ends in a key made of all that decides the result, as far as it is ours; a rerun does only what is missing. What
two runs at once must not both compute is claimed: an exclusive lock on NAME.lock, which the system takes back from
whoever dies, however it dies. Where the file system knows no locks both may compute it; neither leaves half of it.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Generic, Protocol, TypeVar

T = TypeVar("T")
UNREADABLE = (OSError, EOFError, KeyError, TypeError, ValueError, zipfile.BadZipFile)
"""What reading half a file, or one of other fields, comes to: it counts as not there."""


def key_of(decides: Any, digits: int = 20, sort_keys: bool = True) -> str:
    """Names a result by everything that decides it; a stored result is found by the same words in the same order."""
    return hashlib.sha256(json.dumps(decides, sort_keys=sort_keys).encode()).hexdigest()[:digits]


def digests(paths: Sequence[Path]) -> dict[str, str]:
    """SHA-256 of files by name; a missing one is `missing`."""
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()[:16] if path.is_file() else "missing" for path in paths
    }


def as_json(of: Callable[[Any], T], to: Callable[[T], Any]) -> tuple[Callable[[Path], T], Callable[[T, Path], None]]:
    """How a store reads and writes results that `of` makes from JSON's values and `to` makes into them."""

    def write(result: T, path: Path) -> None:
        path.write_text(json.dumps(to(result)), encoding="utf-8")

    return lambda path: of(json.loads(path.read_text(encoding="utf-8"))), write


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """A file beside `path` to write to, which takes its place in one step; where that fails, what was there stays.

    Raises: OSError, which names `path`."""
    part = path.with_name(f"{path.stem}.part")
    try:
        yield part
        part.rename(path)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        part.unlink(missing_ok=True)


class Kept(Protocol[T]):
    """Where results are found and kept by name."""

    @property
    def folder(self) -> Path:
        """For people: where they are."""

    def find(self, name: str) -> T | None:
        """None unless it is there, whole."""

    def save(self, name: str, result: T) -> None:
        """For the next run."""


class Store(Generic[T]):
    """A file a result in `folder`/`room`; beside them what a resumed run goes on with."""

    def __init__(
        self,
        folder: Path,
        read: Callable[[Path], T],
        write: Callable[[T, Path], None],
        room: str = "passes",
        suffix: str = ".json",
    ) -> None:
        self.folder, self._room, self._suffix = folder, folder / room, suffix
        self._read, self._write = read, write
        self._claims: dict[str, IO[bytes]] = {}

    def path(self, name: str) -> Path:
        """Where a result is or will be."""
        return self._room / f"{name}{self._suffix}"

    def find(self, name: str) -> T | None:
        """None unless it is there, whole."""
        try:
            return self._read(self.path(name))
        except UNREADABLE:
            return None

    def save(self, name: str, result: T) -> None:
        """Keeps it in one step, and gives a claim of it back. Raises: OSError, which names the file."""
        self._room.mkdir(parents=True, exist_ok=True)
        with whole(self.path(name)) as part:
            self._write(result, part)
        if self.holds(name):
            self.give_back(name)

    def decided(self) -> dict[str, list[int]]:
        """Thresholds that earlier runs used, by whatever the experiment decides them for."""
        path = self.folder / "thresholds.json"
        return dict(json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else {}

    def keep(self, decided: Mapping[str, Sequence[int]]) -> None:
        """For the next run."""
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "thresholds.json").write_text(json.dumps(decided), encoding="utf-8")

    def claim(self, name: str, wait: bool = False) -> bool:
        """False while another run has it; `wait`: until it has not. Find again afterwards: it may be there now."""
        path = self._room / f"{name}.lock"
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
        """Whether the claim is this run's."""
        return name in self._claims

    def give_back(self, name: str) -> None:
        """The claim."""
        (self._room / f"{name}.lock").unlink(missing_ok=True)
        self._claims.pop(name).close()

    def close(self) -> None:
        """Gives all claims back."""
        for name in list(self._claims):
            self.give_back(name)


class Lines:
    """Many short results in one file, a JSON object a line; a line that was cut off counts as not there."""

    def __init__(self, path: Path, name_of: Callable[[Mapping[str, Any]], str]) -> None:
        self.folder, self._path, self._name_of = path.parent, path, name_of
        self._rows = {name_of(row): row for row in self._all()}

    def _all(self) -> list[dict[str, Any]]:
        lines = self._path.read_text(encoding="utf-8").splitlines() if self._path.exists() else []
        return [json.loads(line) for line in lines if line.endswith("}")]

    def find(self, name: str) -> dict[str, Any] | None:
        """None unless it is there."""
        return self._rows.get(name)

    def save(self, name: str, result: dict[str, Any]) -> None:
        """Appends it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(result) + "\n")
        self._rows[name] = result
