"""What tests that hold the simulator to peers' numbers need."""

from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from lab import sim
from lab.figures.points import name_of
from lab.sim import Experiment, run
from lab.sim.engine import program

Rows = list[dict[str, Any]]


@pytest.fixture(scope="session")
def simulator() -> bytes:
    """A digest of all that results follow from beside an experiment: the built engine, and the Python around it."""
    sources = sorted(Path(sim.__file__).parent.rglob("*.py"))
    return sha256(b"".join(path.read_bytes() for path in (program(), *sources))).digest()


@pytest.fixture
def summary_of(request: pytest.FixtureRequest, simulator: bytes) -> Callable[[Experiment], Rows]:
    """`run(experiment).summary()`, run once by each simulator: equal ones give equal bytes. `pytest --cache-clear`
    forgets all."""
    cache = getattr(request.config, "cache", None)

    def summary(experiment: Experiment) -> Rows:
        key = f"simulated/{sha256(simulator + name_of(experiment).encode()).hexdigest()}"
        rows: Rows | None = cache.get(key, None) if cache else None
        if rows is None:
            rows = run(experiment).summary()
            if cache:
                cache.set(key, rows)
        return rows

    return summary
