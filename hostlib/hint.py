"""What a Python application may tell libqclimb.so where it is loaded; without the library each call does nothing.

    flow_size(connection, len(head) + file_bytes)  # before the first write of a message
    flow_deadline(connection, 20_000)  # which is of use only within the next 20 ms
    connection.sendall(head)
    for piece in pieces:
        connection.sendall(piece)

The twin of hostlib/include/qclimb.h, which says what a word means. Nothing raises, and errno is left alone. With
asyncio, tell `transport.get_extra_info("socket")` when nothing of an earlier message waits in the transport's buffer.
"""

import ctypes
from collections.abc import Callable
from typing import Any, Protocol


class HasFileno(Protocol):
    """A socket, or what stands for one."""

    def fileno(self) -> int:
        """Its descriptor."""


def _symbol(name: str, *argument_types: Any) -> Callable[..., int]:
    """The library's function, or one that does nothing; looked up once, for preloading happens before Python starts."""
    try:
        found = ctypes.CDLL(None)[name]
    except AttributeError:
        return lambda *_: 0
    found.argtypes, found.restype = argument_types, ctypes.c_int
    return found


_flow_size = _symbol("qclimb_flow_size", ctypes.c_int, ctypes.c_uint64)
_flow_deadline = _symbol("qclimb_flow_deadline", ctypes.c_int, ctypes.c_uint32)
_flow_end = _symbol("qclimb_flow_end", ctypes.c_int)


def flow_size(connection: HasFileno | int, size_bytes: int) -> bool:
    """The next write begins a flow of exactly `size_bytes` bytes, 1 to 2^64 - 2; whether the library took the word."""
    return 0 < size_bytes < 2**64 - 1 and _flow_size(_descriptor(connection), size_bytes) == 1


def flow_deadline(connection: HasFileno | int, left_us: int) -> bool:
    """The next write begins a flow that should have arrived within `left_us`, 1 to 300,000,000; whether taken."""
    return 0 < left_us <= 300_000_000 and _flow_deadline(_descriptor(connection), left_us) == 1


def flow_end(connection: HasFileno | int) -> bool:
    """The flow under way is over, the next write begins another one; whether the library took the word."""
    return _flow_end(_descriptor(connection)) == 1


def _descriptor(connection: HasFileno | int) -> int:
    return connection if isinstance(connection, int) else connection.fileno()
