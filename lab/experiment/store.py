"""What was measured, kept on disk: a file a name, whole or not there at all.

A name ends in a key made of all that decides the result, as far as it is ours; a rerun does only what is missing. What
two runs at once must not both compute is claimed: an exclusive lock on NAME.lock, which the system takes back from
whoever dies, however it dies. Where the file system knows no locks both may compute it; neither leaves half of it.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import logging
import os
import secrets
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Generic, Protocol, TypeVar

log = logging.getLogger(__name__)

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


class NoLocksError(OSError):
    """The file system knows no locks."""


def locked(path: Path, wait: bool) -> IO[bytes] | None:
    """The file there, made where it is not, open and locked; None while another has it, where not to `wait`.

    Who has it may take it away, by another name or for good. Raises: NoLocksError, OSError."""
    while True:
        file = path.open("ab")
        try:
            fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            return None
        except OSError as error:
            file.close()
            raise NoLocksError(error.errno, error.strerror) from error
        with suppress(FileNotFoundError):
            if os.path.samestat(path.stat(), os.fstat(file.fileno())):
                return file
        file.close()  # a lock on what was taken away keeps nobody out


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """A file beside `path` to write to, which takes its place in one step; where that fails, what was there stays.

    Who writes the same file meanwhile waits. A device, as /dev/null, is written to itself. Raises: OSError, which names
    `path`."""
    if path.exists() and not path.is_file():
        yield path
        return
    part, lock = path.with_name(f".{path.name}.part"), None
    try:
        try:
            lock = locked(part, wait=True)
        except NoLocksError:
            part = part.with_suffix(f".{secrets.token_hex(4)}.part")
        yield part
        part.rename(path)
    except BaseException as error:
        with suppress(OSError):
            part.unlink()
        if isinstance(error, OSError):
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise
    finally:
        if lock is not None:
            lock.close()


def replace_text(path: Path, text: str) -> None:
    """Writes a file in one step, in UTF-8. Raises: OSError, which names it; then what was there stays."""
    with whole(path) as part:
        part.write_text(text, encoding="utf-8")


def append_line(path: Path, line: str) -> None:
    """Appends a line, whole or not at all; behind half a line that is there it begins a new one.

    Raises: OSError, which names the file."""
    try:
        with path.open("ab+", buffering=0) as file:
            with suppress(OSError):  # no locks on this file system
                fcntl.flock(file, fcntl.LOCK_EX)
            end = file.seek(0, os.SEEK_END)
            is_torn = end > 0 and os.pread(file.fileno(), 1, end - 1) != b"\n"
            content = memoryview((("\n" if is_torn else "") + line + "\n").encode())
            try:
                while content:
                    content = content[file.write(content) :]
            except OSError:
                file.truncate(end)
                raise
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


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
        try:
            return dict(json.loads((self.folder / "thresholds.json").read_text(encoding="utf-8")))
        except UNREADABLE:
            return {}

    def keep(self, decided: Mapping[str, Sequence[int]]) -> None:
        """For the next run."""
        self.folder.mkdir(parents=True, exist_ok=True)
        replace_text(self.folder / "thresholds.json", json.dumps(decided))

    def claim(self, name: str, wait: bool = False) -> bool:
        """False while another run has it; `wait`: until it has not. Find again afterwards: it may be there now."""
        path = self._room / f"{name}.lock"
        try:
            file = locked(path, wait)
        except NoLocksError:
            file = path.open("ab")
        if file is None:
            return False
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
    """Many short results in one file, a JSON object a line; a line that can't be read counts as not there."""

    def __init__(self, path: Path, name_of: Callable[[Mapping[str, Any]], str]) -> None:
        self.folder, self._path = path.parent, path
        self._rows: dict[str, dict[str, Any]] = {}
        lines = path.read_bytes().split(b"\n") if path.exists() else []
        for number, line in enumerate(lines, 1):
            try:
                if line:
                    row = json.loads(line)
                    self._rows[name_of(row)] = row
            except UNREADABLE:
                log.warning("%s:%d: is no whole result and counts as not there", path, number)

    def find(self, name: str) -> dict[str, Any] | None:
        """None unless it is there."""
        return self._rows.get(name)

    def save(self, name: str, result: dict[str, Any]) -> None:
        """Appends it. Raises: OSError, which names the file."""
        self.folder.mkdir(parents=True, exist_ok=True)
        append_line(self._path, json.dumps(result))
        self._rows[name] = result
