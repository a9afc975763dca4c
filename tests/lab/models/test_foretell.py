"""What forests say of later flows, they say without having seen them."""

from dataclasses import replace

import numpy as np
import pytest

from lab.models.flows import Flows
from lab.models.foretell import foretell
from orchestrator.errors import TrainingError

N = 1_000


def made(seed=0):
    random = np.random.default_rng(seed)
    kind = random.integers(0, 4, N)
    features = np.zeros((N, 12), np.float32)
    features[:, 7] = kind
    size = (10.0 ** (2 + kind)) * (1 + random.random(N))
    none, numbers = np.zeros(N, np.uint64), np.arange(N)
    common = ("made", features, np.rint(size), none, numbers.astype(np.uint64), ["h"] * N)
    return Flows(*common, none, none, none, none, np.zeros(N, np.int64))


FLOWS = made()
WORDS = {"ids": [7], "trees": 5, "depth": 5}


def test_flows_of_a_kind_lie_within_the_bounds_of_earlier_ones():
    found = foretell(FLOWS, **WORDS)
    size = FLOWS.size_bytes[found.first :]
    assert found.first == 400 and len(found.lower_bytes) == len(found.forecast_bytes) == 600
    assert ((found.lower_bytes <= size) & (size <= found.upper_bytes)).mean() > 0.97
    assert (found.upper_bytes / found.lower_bytes).max() < 3
    assert np.abs(found.forecast_bytes / size - 1).mean() < 0.3


def test_no_flow_is_foretold_by_itself_or_a_later_one():
    before = foretell(FLOWS, **WORDS)
    later = FLOWS.size_bytes.copy()
    later[800:] = 5e8
    after = foretell(replace(FLOWS, size_bytes=later), **WORDS)
    for name in ("lower_bytes", "upper_bytes", "forecast_bytes"):
        assert (getattr(before, name) == getattr(after, name)).all()
    assert before.threshold_bytes == after.threshold_bytes


@pytest.mark.parametrize(("cuts", "sentence"), [((0.6, 0.4), "ascending"), ((0.01,), "10 flows before"), ((), "cuts")])
def test_cuts_that_cannot_be_are_refused(cuts, sentence):
    with pytest.raises(TrainingError, match=sentence):
        foretell(FLOWS, **WORDS, cuts=cuts)
