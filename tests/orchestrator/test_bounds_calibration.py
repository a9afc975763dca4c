"""Calibration: what is promised holds for flows like those it was made with, and what can't be promised is said."""

import numpy as np
import pytest

from orchestrator.models import calibration
from orchestrator.models.training import train
from orchestrator.models.trees import Stretch, Tree

WIDE = Tree(
    feature=np.array([0, 0, 0], np.int32),
    threshold=np.array([1, np.inf, np.inf], np.float32),
    child=np.array([1, 1, 2], np.int32),
    lower=np.array([np.inf, 1000, 1000]),
    upper=np.array([0, 1000, 100_000]),
)
"""Left of 1: exactly 1000 bytes; right: 1,000 to 100,000."""


def alone(trees, row, size):
    """Scores of a flow that is the only one held back."""
    below, above = calibration.scores(trees, np.array([[row]], np.float32), np.array([size], float), 1)
    return below[0], above[0]


def test_a_score_is_the_least_stretch_that_covers_the_flow():
    assert alone([WIDE], 0, 1000) == (0, 0)
    assert alone([WIDE], 0, 1001) == (0, np.inf)
    assert alone([WIDE], 5, 50_000) == (0, 0)
    assert alone([WIDE], 5, 100) == pytest.approx((0.5, 0))  # half of the width below 1,000
    assert alone([WIDE], 5, 10_000_000) == pytest.approx((0, 1))
    for stretch in (0.49, 0.51):
        lower, _ = WIDE.stretched(Stretch(stretch, 0))
        assert (lower[2] <= 100) == (stretch > 0.5)


def test_a_flow_is_scored_against_leaves_that_know_the_others_held_back():
    rows = np.array([[5], [5], [5], [0], [0]], np.float32)
    sizes = np.array([100, 10, 1_000_000, 2000, 2000], float)
    below, above = calibration.scores([WIDE], rows, sizes, 1)
    assert below[0] == 0, "10 bytes are learned, too, so 100 lie within"
    assert below[1] == pytest.approx(1 / 4), "10 lie a decade below 100, the others reach over four"
    assert above[2] == pytest.approx(1 / 4), "10^6 lie a decade above 10^5; the others reach from 10"
    assert above.tolist()[3:] == [0, 0], "each of two equal sizes is known by the other"
    assert WIDE.upper[2] == 100_000, "the tree itself learns nothing"


def test_the_scores_are_those_of_learning_all_others_one_by_one():
    random = np.random.default_rng(4)
    rows = random.choice([0, 5], (60, 1)).astype(np.float32)
    sizes = np.ceil(np.exp(random.normal(np.log(5000), 3, 60)))
    found = calibration.scores([WIDE], rows, sizes, 1)
    for flow in range(60):
        tree = Tree(**{name: part.copy() for name, part in vars(WIDE).items()})
        others = np.arange(60) != flow
        tree.learn(rows[others], sizes[others], 1)
        assert (found[0][flow], found[1][flow]) == pytest.approx(alone([tree], rows[flow, 0], sizes[flow]))


def test_the_tree_that_needs_least_decides():
    loose = Tree(**{**vars(WIDE), "lower": np.array([np.inf, 10, 10]), "upper": np.array([0, 1e6, 1e6])})
    below, above = calibration.scores([WIDE, loose], np.array([[0]], np.float32), np.array([5000.0]), 1)
    assert (below[0], above[0]) == (0, 0)


@pytest.mark.parametrize(("flows", "k"), [(1999, 1999), (4000, 3999)])
def test_the_quantile_is_the_one_of_split_conformal_prediction(flows, k):
    """k = ceil((n + 1)(1 - alpha)), not n (1 - alpha): the further flow counts, too."""
    assert calibration.quantile(np.arange(1, flows + 1, dtype=float), 0.0005) == k


def test_one_flow_less_than_needed_promises_nothing():
    needed = calibration.needed(0.999)
    assert needed == 1999
    assert calibration.quantile(np.zeros(needed), 0.0005) == 0
    assert calibration.quantile(np.zeros(needed - 1), 0.0005) == np.inf


def test_coverage_of_exchangeable_flows_is_what_was_asked_for():
    """Of leaves that know few flows each: mean share beyond at most alpha, not far below, for sizes have no ties."""
    random = np.random.default_rng(0)
    leaves, held, later, alpha = 64, 640, 6400, 0.03
    depth = leaves.bit_length() - 1
    inner = leaves - 1
    feature, child = np.zeros(2 * leaves - 1, np.int32), np.arange(2 * leaves - 1, dtype=np.int32)
    child[:inner] = 2 * np.arange(inner) + 1
    threshold = np.full(2 * leaves - 1, np.inf, np.float32)
    edges = [(0.0, float(leaves))]
    for node in range(inner):
        low, high = edges[node]
        threshold[node] = (low + high) / 2
        edges += [(low, (low + high) / 2), ((low + high) / 2, high)]
    shares = []
    for _ in range(25):
        tree = Tree(feature, threshold, child, np.full(2 * leaves - 1, np.inf), np.zeros(2 * leaves - 1))
        rows = random.uniform(0, leaves, (held + later, 1)).astype(np.float32)
        sizes = np.exp(random.normal(10, 1, held + later))
        tree.learn(*(part[: held // 2] for part in (rows, sizes)), depth)
        mine = slice(held // 2, held)
        stretch = calibration.calibrated([tree], rows[mine], sizes[mine], depth, 1 - 2 * alpha)
        assert stretch.reached == (True, True)
        assert stretch.upper > 0
        tree.learn(rows[mine], sizes[mine], depth)
        _, upper = tree.stretched(stretch)
        shares.append(np.mean(sizes[held:] > upper[tree.leaves(rows[held:], depth)]))
    error = np.std(shares) / np.sqrt(len(shares))
    assert alpha / 2 < np.mean(shares) <= alpha + 2 * error


def test_what_no_stretch_covers_is_said():
    rows = np.zeros((1999, 1), np.float32)  # left of 1, where the leaf knows 1000 bytes exactly
    sizes = np.full(1999, 1000.0)
    assert calibration.calibrated([WIDE], rows, sizes, 1, 0.999) == Stretch(0, 0)
    sizes[7] = 2000  # the one that counts: the largest score of 1,999
    found = calibration.calibrated([WIDE], rows, sizes, 1, 0.999)
    assert found == Stretch(0, 0, reached=(True, False))


def test_what_system_calls_prove_needs_no_stretch():
    rows = np.zeros((5000, 1), np.float32)
    sizes = np.full(5000, 2000.0)
    proven = np.full(5000, 2000, np.uint64)
    assert calibration.calibrated([WIDE], rows, sizes, 1, 0.999, proven) == Stretch(0, 0)


def test_a_report_says_how_many_flows_calibration_needs(records):
    from orchestrator.ingest.recordings import kept_of

    made = train(kept_of(records[:200]), ["h1"] * 200, 1, trees=4, depth=4)
    assert made.report["calibration"]["said"] == "too few flows to calibrate: 32, needs 1999 for 99.9 %"
