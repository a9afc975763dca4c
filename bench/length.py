"""Nanoseconds a flow of length.h, beside what it costs to get the bytes: process_vm_readv of the own process.

Short rounds take turns and the median round counts, in CPU time of the thread.

  rule    a learned rule on 64 bytes: the size, and the walk on
  http    Content-Length in an answer of nginx (the header's bytes stand in the table)
  propose what a process does for a flow that hostd is to learn from: which numbers in 64 bytes foretell its size
  read    the bytes that either looks at, read in a way that can fail
"""

import ctypes
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .beside import LIBRARY_FLAGS, ROOT, built

ROUNDS, RULES, HEADERS, PROPOSALS, READS = 51, 50_000, 20_000, 2_000, 2_000
ANSWER = (
    b"HTTP/1.1 200 OK\r\nServer: nginx/1.22.1\r\nDate: Mon, 23 Nov 2026 12:00:00 GMT\r\nContent-Type: image/png\r\n"
    b"Content-Length: 171591\r\nLast-Modified: Mon, 23 Nov 2026 11:00:00 GMT\r\nConnection: keep-alive\r\n"
    b'ETag: "6745b1c0-29e47"\r\nAccept-Ranges: bytes\r\n\r\n'
)
HEAD_BYTES = 64


def run() -> list[dict[str, Any]]:
    """The rows of the table."""
    with tempfile.TemporaryDirectory() as folder:
        library = built(
            Path(folder), "length.c", *LIBRARY_FLAGS, f"-I{ROOT / 'hostlib/core/include'}", name="length.so"
        )
        c = ctypes.CDLL(str(library))
        for name in ("bench_rule_ns", "bench_http_ns", "bench_propose_ns", "bench_read_ns"):
            getattr(c, name).restype = ctypes.c_double
        measures: dict[str, tuple[int, float | None, Callable[[], float]]] = {
            "rule": (HEAD_BYTES, 8, lambda: c.bench_rule_ns(RULES)),
            "http": (len(ANSWER), 50, lambda: c.bench_http_ns(ANSWER, HEADERS)),
            "propose": (HEAD_BYTES, 500, lambda: c.bench_propose_ns(PROPOSALS)),
            "read for a rule": (HEAD_BYTES, None, lambda: c.bench_read_ns(HEAD_BYTES, READS)),
            "read for http": (len(ANSWER), None, lambda: c.bench_read_ns(len(ANSWER), READS)),
        }
        rounds = [{name: measure() for name, (_, _, measure) in measures.items()} for _ in range(ROUNDS)]
    return [
        {"case": name, "bytes": count, "ns": statistics.median(each[name] for each in rounds), "goal ns": goal}
        for name, (count, goal, _) in measures.items()
    ]
