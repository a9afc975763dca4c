"""What tests of several experiments need."""

from collections.abc import Callable

import pytest

from lab.workload.passes import PassResult

Make = Callable[..., PassResult]


@pytest.fixture
def make_result() -> Make:
    """Makes a pass by hand: sizes, FCTs in us; arrivals 10 ms apart, alone 1 us a byte."""

    def make(scheme: str, sizes: list[int], fct_us: list[float], **more: object) -> PassResult:
        count = len(sizes)
        columns: dict[str, object] = {
            "scheme": scheme,
            "load": 0.6,
            "seed": 1,
            "trace_digest": "same",
            "seconds": count / 100,
            "id": list(range(1, count + 1)),
            "service": ["search"] * count,
            "client": ["h1"] * count,
            "server": ["h2"] * count,
            "bytes": sizes,
            "due_us": [10_000 * n for n in range(count)],
            "late_us": [0] * count,
            "fct_us": fct_us,
            "alone_us": [float(size) for size in sizes],
            "tcp": {"OutSegs": 1000, "RetransSegs": 5},
            "idle_share": 0.5,
        }
        return PassResult(**{**columns, **more})  # type: ignore[arg-type]

    return make
