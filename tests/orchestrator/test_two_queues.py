"""Where queues part by size: on recorded sizes as on a table's, and what has no such place."""

import re

import numpy as np
import pytest

from orchestrator.errors import ThresholdError
from orchestrator.plan.sizes import SizeDistribution
from orchestrator.plan.two_queues import Mg1

SIZES = np.sort([int(100 * (1 - u) ** -0.9) for u in np.linspace(0, 0.9999, 500)]).astype(float)


def test_recorded_sizes_part_where_the_flows_themselves_do() -> None:
    recorded = Mg1.of(SizeDistribution.from_sizes(SIZES.astype(int).tolist()), 0.7)
    (ours,), (exact,) = recorded.best_ends(2), Mg1(SIZES, 0.7).best_ends(2)
    assert Mg1(SIZES, 0.7).cost((ours,)) == pytest.approx(Mg1(SIZES, 0.7).cost((exact,)), rel=0.01)


def test_no_size_that_occurs_is_a_better_end() -> None:
    model = Mg1(SIZES, 0.8)
    assert model.cost(model.best_ends(2)) == pytest.approx(min(model.cost((size,)) for size in SIZES), rel=1e-3)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: Mg1(SIZES, 1.0), "load: 1.0, must lie strictly between 0 and 1"),
        (lambda: Mg1(SIZES[::-1], 0.5), "flow sizes: expected at least one, all > 0 and ascending"),
        (lambda: Mg1(SIZES[:0], 0.5), "flow sizes: expected at least one"),
        (lambda: Mg1(SIZES[:1], 0.5).best_ends(2), "queues: 2, expected 2 to 1 for so many sizes"),
    ],
)
def test_what_cannot_part_is_refused(call, said):
    with pytest.raises(ThresholdError, match=re.escape(said)):
        call()
