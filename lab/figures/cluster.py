"""joblib's tasks on a Ray cluster (`pip install 'qclimb[cluster]'`).

Ray's own backend for joblib hands results back when all are there. Its pool calls back for each, so this one, which
differs from it in a single word, hands each back as it comes: a sweep can then store it. Ray deals tasks out to workers
in turn: one that got a long point may hold a short one behind it while another is idle.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from joblib import parallel_config, register_parallel_backend

from lab.sim import SimulationError

LOCAL = "local"
"""The address that starts a Ray on this machine for as long as the sweep lasts."""


@contextmanager
def on_cluster(address: str, jobs: int) -> Iterator[Any]:
    """Within, joblib's tasks run on the Ray at `address`: LOCAL, auto (the one that runs on this machine), HOST:PORT,
    or ray://HOST:PORT from outside it. Each node needs this package. Raises: SimulationError."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # a sweep reports nothing to anybody
    try:
        import ray
        from ray.util.joblib.ray_backend import RayBackend
    except ImportError:
        raise SimulationError("--cluster needs Ray, which is not installed: pip install 'qclimb[cluster]'") from None

    class AsTheyCome(RayBackend):  # type: ignore[misc]  # Ray has no types
        supports_return_generator = True

    _must_listen(address)
    options: dict[str, Any] = {"logging_level": "error", "log_to_driver": False}
    if address == LOCAL:
        options |= {"num_cpus": jobs if jobs > 0 else None, "include_dashboard": False}
    try:
        ray.init(address, **options)
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise _no_ray(address, error) from None
    try:
        register_parallel_backend("ray", AsTheyCome)
        with parallel_config(backend="ray", n_jobs=jobs) as config:
            yield config
    finally:
        ray.shutdown()


def _must_listen(address: str) -> None:
    """Ray itself would try for minutes. Raises: SimulationError."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not colon:  # a word of Ray's
        return
    try:
        socket.create_connection((host, int(port)), timeout=10).close()
    except (OSError, ValueError, OverflowError) as error:
        raise _no_ray(address, error) from None


def _no_ray(address: str, error: Exception) -> SimulationError:
    first = str(error).partition("\n")[0]
    return SimulationError(f"--cluster is {address!r}, where no Ray answers: {first}")
