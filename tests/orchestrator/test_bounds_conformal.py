"""Calibration: what is promised holds for flows like those it was made with, and what can't be promised is said."""

import numpy as np
import pytest

from orchestrator import conformal
from orchestrator.training import train
from orchestrator.trees import Stretch, Tree

WIDE = Tree(
    feature=np.array([0, 0, 0], np.int32),
    threshold=np.array([1, np.inf, np.inf], np.float32),
    child=np.array([1, 1, 2], np.int32),
    lower=np.array([np.inf, 1000, 1000]),
    upper=np.array([0, 1000, 100_000]),
)
"""Left of 1: exactly 1000 bytes; right: 1,000 to 100,000."""


def test_a_score_is_the_least_stretch_that_covers_the_flow():
    rows = np.array([[0], [0], [5], [5], [5]], np.float32)
    sizes = np.array([1000, 1001, 50_000, 100, 10_000_000], float)
    below, above = conformal.scores([WIDE], rows, sizes, 1)
    assert below.tolist() == pytest.approx([0, 0, 0, 0.5, 0])  # 100 lies half of the width below 1,000
    assert above.tolist() == pytest.approx([0, np.inf, 0, 0, 1])
    for stretch in (0.49, 0.51):
        lower, _ = WIDE.stretched(Stretch(stretch, 0))
        assert (lower[2] <= 100) == (stretch > 0.5)


def test_the_tree_that_needs_least_decides():
    loose = Tree(**{**vars(WIDE), "lower": np.array([np.inf, 10, 10]), "upper": np.array([0, 1e6, 1e6])})
    below, above = conformal.scores([WIDE, loose], np.array([[0]], np.float32), np.array([5000.0]), 1)
    assert (below[0], above[0]) == (0, 0)


@pytest.mark.parametrize(("flows", "k"), [(1999, 1999), (4000, 3999)])
def test_the_quantile_is_the_one_of_split_conformal_prediction(flows, k):
    """k = ceil((n + 1)(1 - alpha)), not n (1 - alpha): the further flow counts, too."""
    assert conformal.quantile(np.arange(1, flows + 1, dtype=float), 0.0005) == k


def test_one_flow_less_than_needed_promises_nothing():
    needed = conformal.needed(0.999)
    assert needed == 1999
    assert conformal.quantile(np.zeros(needed), 0.0005) == 0
    assert conformal.quantile(np.zeros(needed - 1), 0.0005) == np.inf


def test_coverage_of_exchangeable_flows_is_what_was_asked_for():
    """Mean over draws of the share beyond: at most alpha, and not far below, since sizes have no ties here."""
    random = np.random.default_rng(0)
    tree = Tree(**{**vars(WIDE), "lower": np.array([np.inf, 900, 900.0]), "upper": np.array([0, 1100, 1100.0])})
    shares = []
    for _ in range(60):
        rows = np.full((3000, 1), 5, np.float32)
        sizes = np.exp(random.normal(np.log(1000), 0.02, 3000))
        below, above = conformal.scores([tree], rows, sizes, 1)
        alpha = 0.05
        tail = conformal.quantile(np.maximum(below, above)[:500], alpha)
        shares.append(np.mean(np.maximum(below, above)[500:] > tail))
    # Scores inside are all 0, so that beyond may be fewer; here every end is far inside the interval of 10 %.
    assert np.mean(shares) <= 0.05 + 3 * 0.01 / np.sqrt(60)

    sizes_wide = np.exp(random.normal(np.log(1000), 0.3, (60, 3000)))
    shares = []
    for sizes in sizes_wide:
        _, above = conformal.scores([tree], np.full((3000, 1), 5, np.float32), sizes, 1)
        shares.append(np.mean(above[500:] > conformal.quantile(above[:500], 0.05)))
    assert 0.04 < np.mean(shares) < 0.055


def test_what_no_stretch_covers_is_said():
    rows = np.zeros((5000, 1), np.float32)  # left of 1, where the leaf knows 1000 bytes exactly
    sizes = np.full(5000, 1000.0)
    assert conformal.calibrated([WIDE], rows, sizes, 1, 0.999) == Stretch(0, 0)
    sizes[:100] = 2000
    found = conformal.calibrated([WIDE], rows, sizes, 1, 0.999)
    assert found == Stretch(0, 0, reached=(True, False))


def test_what_system_calls_prove_needs_no_stretch():
    rows = np.zeros((5000, 1), np.float32)
    sizes = np.full(5000, 2000.0)
    proven = np.full(5000, 2000, np.uint64)
    assert conformal.calibrated([WIDE], rows, sizes, 1, 0.999, proven) == Stretch(0, 0)


def test_a_report_says_how_many_flows_calibration_needs(records):
    from orchestrator.flows import pack

    made = train(pack(records[:200]), ["h1"] * 200, 1, trees=4, depth=4)
    assert made.report["calibration"]["said"] == "too few flows to calibrate: 32, needs 1999 for 99.9 %"
