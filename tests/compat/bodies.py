"""Bytes to send, always the same ones, and how to know them again."""

import random
from collections.abc import Callable, Iterable
from functools import lru_cache, partial
from hashlib import sha256
from pathlib import Path

from tests.compat.outcome import PASSED, verdict

Content = Callable[[], bytes]


@lru_cache(4)
def body(size_bytes: int, seed: int | None = None) -> bytes:
    """Bytes that no compression shortens and of which no two pages are alike."""
    return random.Random(size_bytes if seed is None else seed).randbytes(size_bytes)


def of(size_bytes: int, seed: int | None = None) -> Content:
    """The same, made when they are needed."""
    return partial(body, size_bytes, seed)


def text_of(size_bytes: int) -> Content:
    """The same as hexadecimal digits, twice as many."""
    return lambda: body(size_bytes).hex().encode()


def same(got: bytes, wanted: bytes) -> str:
    """The verdict on a body that came back."""
    if got == wanted:
        return verdict(True)
    at = next((n for n, (a, b) in enumerate(zip(got, wanted, strict=False)) if a != b), min(len(got), len(wanted)))
    return verdict(False, f"{len(got)} bytes, sha256 {digest(got)}, differs at byte {at} of {len(wanted)}")


def same_files(paths: Iterable[Path], wanted: bytes) -> str:
    """The verdict on the first file that differs."""
    return next((word for path in paths if (word := _same_file(path, wanted)) != PASSED), PASSED)


def _same_file(path: Path, wanted: bytes) -> str:
    return same(path.read_bytes(), wanted) if path.exists() else verdict(False, f"no file {path.name}")


def digest(content: bytes) -> str:
    """The first 16 hexadecimal digits of the SHA-256."""
    return sha256(content).hexdigest()[:16]
