"""The run directory that shims read: `policy`, `model`, `lengths`, `records`; and hostd's own files there.

Its invariant: a file there is whole at every moment, the power switch included; a reader sees the old one or the new
one.
"""

import contextlib
import fcntl
import os
import stat
import time
from pathlib import Path

from hostlib.hostd.errors import PlaceError

RUN_DIR = Path("/run/qclimb")
FILE_MODE = 0o644
DIR_MODE = 0o755
# Write permission is what a sender needs; reading the socket's file gives nothing to anybody.
SOCKET_MODE = 0o622


class Place:
    """The run directory, made if it is missing.

    Raises:
        PlaceError: it is no directory, or somebody else could write into it.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.policy = directory / "policy"
        self.model = directory / "model"
        self.lengths = directory / "lengths"
        self.lengths_scores = directory / "lengths.json"
        self.records = directory / "records"
        self.status = directory / "status.json"
        self.lock = directory / "hostd.lock"

    def prepare(self) -> None:
        """Makes the directory, 0755, and refuses one that others could write: a policy steers every program here."""
        try:
            self.directory.mkdir(mode=DIR_MODE, parents=True, exist_ok=True)
            found = self.directory.stat()
        except OSError as error:
            raise PlaceError(f"run directory {self.directory}: {error.strerror}; expected a directory") from error
        if found.st_uid not in (0, os.geteuid()):
            raise PlaceError(
                f"run directory {self.directory} belongs to user {found.st_uid}; expected root or {os.geteuid()}"
            )
        if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise PlaceError(
                f"run directory {self.directory} has mode {stat.S_IMODE(found.st_mode):04o}; "
                "expected 0755: not writable by group or others"
            )

    def take(self) -> int:
        """Takes the lock that only one hostd may hold; it lasts as long as the returned descriptor, or the process.

        Raises:
            PlaceError: another hostd serves this directory.
        """
        # 0600: flock works on a file that one may only read, so that anybody could keep hostd from starting.
        lock = os.open(self.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        for attempt in range(3):
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return lock
            if attempt < 2:
                time.sleep(0.05)  # `is_served` of a status command may have it for a moment
        os.close(lock)
        raise PlaceError(f"another qclimb-hostd serves {self.directory}; expected one a run directory")

    def is_served(self) -> bool | None:
        """Whether a living hostd holds the lock; None where the caller may not look (only hostd's user may)."""
        try:
            lock = os.open(self.lock, os.O_RDONLY | os.O_CLOEXEC)
        except PermissionError:
            return None
        except OSError:
            return False
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(lock)
        return False


def write_whole(path: Path, content: bytes, *, durable: bool = True) -> tuple[int, int]:
    """Replaces a file by rename, so that no reader ever sees half of it.

    Returns:
        its identity (inode, modification time in ns), by which `is_same` knows it again.

    Raises:
        PlaceError: the file system refused; the old file is untouched.
    """
    # One fixed name a file: what a killed hostd left is overwritten by the next, never piled up. `Place.take` keeps
    # the name ours alone.
    unfinished = path.with_name(f".{path.name}.new")
    try:
        with contextlib.suppress(FileNotFoundError):
            unfinished.unlink()
        file = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, FILE_MODE)
        try:
            os.fchmod(file, FILE_MODE)  # whatever the umask says: shims of every user read it
            view = memoryview(content)
            while view:
                view = view[os.write(file, view) :]
            if durable:
                os.fsync(file)
            written = os.fstat(file)
        finally:
            os.close(file)
        unfinished.rename(path)
        if durable:
            _sync_directory(path.parent)
    except OSError as error:
        raise PlaceError(f"{path}: {error.strerror}; kept what was there") from error
    return written.st_ino, written.st_mtime_ns


def is_same(path: Path, identity: tuple[int, int] | None) -> bool:
    """Whether the file is still the one that `write_whole` left."""
    try:
        found = path.stat()
    except OSError:
        return False
    return identity == (found.st_ino, found.st_mtime_ns)


def _sync_directory(directory: Path) -> None:
    entry = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(entry)
    finally:
        os.close(entry)
