"""Bytes to send, always the same ones, and how to know them again."""

import random
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path

from hostlib.compat.outcome import PASSED, verdict


def body(size_bytes: int) -> bytes:
    """Bytes that no compression shortens and of which no two pages are alike."""
    return random.Random(size_bytes).randbytes(size_bytes)


def write_bodies(folder: Path, sizes: Iterable[int]) -> Path:
    """A new folder `files` with a body a size, named by it; returns it."""
    files = folder / "files"
    files.mkdir()
    for size in sizes:
        (files / str(size)).write_bytes(body(size))
    return files


def nginx_temp_paths(folder: Path) -> str:
    """Directives that keep nginx's temporary files in `folder`, each of which it makes by itself."""
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    return " ".join(f"{kind}_temp_path {folder}/{kind};" for kind in kinds)


def same(got: bytes, wanted: bytes) -> str:
    """The verdict on a body that came back."""
    if got == wanted:
        return verdict(True)
    at = next((n for n, (a, b) in enumerate(zip(got, wanted, strict=False)) if a != b), min(len(got), len(wanted)))
    return verdict(False, f"{len(got)} bytes, sha256 {digest(got)}, differs at byte {at} of {len(wanted)}")


def same_file(path: Path, wanted: bytes) -> str:
    """The same of a file."""
    return same(path.read_bytes(), wanted) if path.exists() else verdict(False, f"no file {path.name}")


def same_files(paths: Iterable[Path], wanted: bytes) -> str:
    """The same of many: the verdict on the first file that differs."""
    return next((word for path in paths if (word := same_file(path, wanted)) != PASSED), PASSED)


def digest(content: bytes) -> str:
    """The first 16 hexadecimal digits of the SHA-256."""
    return sha256(content).hexdigest()[:16]
