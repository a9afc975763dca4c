"""Where queues part in theory, for flows of a table: the product's expression (orchestrator/plan/two_queues.py)."""

import numpy as np

from lab.sim.sizes import size_table
from orchestrator.plan import two_queues

CELLS = 50_000


def server(table: str, load: float) -> two_queues.Mg1:
    """The server under flows of a table, at a load in (0, 1)."""
    return two_queues.Mg1(size_table(table).quantile((np.arange(CELLS) + 0.5) / CELLS), load)
