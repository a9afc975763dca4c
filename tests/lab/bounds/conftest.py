"""A recording made by hand."""

from collections.abc import Callable

import numpy as np
import pytest
from qclimb.features import FEATURES
from qclimb.recording import Recording

HOSTS = ("198.19.1.1", "198.19.1.2", "198.19.2.1", "198.19.2.2")
Make = Callable[..., Recording]


@pytest.fixture
def make_recording() -> Make:
    """Flows from (task, start_ms, sender, receiver, connection, role, size, first write, footprint)."""

    def make(*rows: tuple[str, float, int, int, int, int, int, int, int]) -> Recording:
        task, start_ms, sender, receiver, connection, role, size, first, asked = zip(*rows, strict=True)
        role_ = np.array(role)
        numbers = {
            "start_ns": np.array(start_ms) * 1e6,
            "connection": connection,
            "role": role,
            "size_bytes": size,
            "first_write_bytes": first,
            "footprint_bytes": asked,
            "local_port": np.where(role_ == 1, 80, 40_000),
            "peer_port": np.where(role_ == 1, 40_000, 80),
        }
        texts = {"task": task, "local_addr": [HOSTS[n] for n in sender], "peer_addr": [HOSTS[n] for n in receiver]}
        return Recording(
            {name: np.asarray(values).astype(np.uint64) for name, values in numbers.items()},
            {name: np.array(values, dtype=object) for name, values in texts.items()},
            np.zeros((len(rows), len(FEATURES)), np.float32),
        )

    return make
