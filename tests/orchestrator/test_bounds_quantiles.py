"""Levels below 1: the weights of Meinshausen's quantile regression forest, with `quantile-forest` as the oracle."""

import numpy as np
import pytest

from orchestrator.errors import TrainingError
from orchestrator.models import bounds, onnx_export, onnx_quantile, quantiles

TREES, DEPTH = 20, 6


@pytest.fixture(scope="module")
def made():
    """Flows in whole sizes with many ties, the oracle's forest on them, and ours of the same trees and samples."""
    oracle = pytest.importorskip("quantile_forest")
    random = np.random.default_rng(4)
    rows = random.uniform(0, 100, (800, 5)).astype(np.float32)
    sizes = np.ceil(np.exp(random.normal(3, 1, 800) + rows[:, 0] / 30))
    theirs = oracle.RandomForestQuantileRegressor(
        n_estimators=TREES, max_depth=DEPTH, min_samples_leaf=5, max_samples_leaf=None, random_state=9
    ).fit(rows, sizes)
    trees = [bounds._flat(each.tree_) for each in theirs.estimators_]
    ours = quantiles.remember(trees, rows, sizes, DEPTH, theirs.estimators_samples_)
    return rows, sizes, theirs, ours


@pytest.fixture(scope="module")
def probes():
    return np.random.default_rng(5).uniform(0, 100, (200, 5)).astype(np.float32)


def test_weights_are_the_oracles(made, probes):
    """Its weighted mean is the sum of weight times size, which nothing but the same weights gives."""
    _, _, theirs, ours = made
    expected = theirs.predict(probes, quantiles="mean", weighted_quantile=True, weighted_leaves=True)
    found = [ours.weights(row) @ ours.sizes for row in probes]
    assert np.allclose(found, np.ravel(expected), rtol=1e-9)


@pytest.mark.parametrize("share", [0.005, 0.05, 0.25, 0.5, 0.9, 0.975, 0.9995])
def test_quantiles_are_the_oracles_up_to_one_rows_weight(made, probes, share):
    """It places shares between the rows' weights, ours where they are reached: at most one row's weight apart."""
    _, _, theirs, ours = made
    settings = {"weighted_quantile": True, "weighted_leaves": True, "interpolation": "nearest"}
    expected = np.ravel(theirs.predict(probes, quantiles=[share], **settings))
    found = ours.predict(probes, [share]).ravel()
    assert (found == expected).mean() > 0.5
    for row, size in zip(probes, expected, strict=True):
        weight = ours.weights(row)
        summed, place = np.cumsum(weight), np.searchsorted(ours.sizes, size)
        assert summed[place] - weight[place] - weight.max() <= share <= summed[place] + weight.max()


def test_weights_sum_to_one_and_lie_where_a_leaf_is_shared(made):
    rows, sizes, _, ours = made
    weight = ours.weights(rows[0])
    assert weight.sum() == pytest.approx(1)
    assert weight[np.searchsorted(ours.sizes, sizes[0])] > 0


def test_a_quantile_is_the_least_size_that_the_weights_reach(made):
    rows, _, _, ours = made
    for row in rows[:20]:
        summed = np.cumsum(ours.weights(row))
        for share in (0.1, 0.5, 0.9):
            expected = ours.sizes[np.flatnonzero(summed >= share - 1e-9)[0]]
            assert ours.predict(row[None, :], [share])[0, 0] == expected


def test_intervals_grow_with_their_level_and_lie_within_the_extremes(made):
    rows, sizes, _, ours = made
    for tree in ours.trees:
        tree.lower[:], tree.upper[:] = np.inf, 0
        tree.learn(rows, sizes, DEPTH)
    extremes = [np.min([t.lower[t.leaves(rows, DEPTH)] for t in ours.trees], axis=0)]
    extremes.append(np.max([t.upper[t.leaves(rows, DEPTH)] for t in ours.trees], axis=0))
    narrow, wide = ours.interval(rows, 0.8), ours.interval(rows, 0.99)
    assert (extremes[0] <= wide[0]).all() and (wide[0] <= narrow[0]).all()
    assert (narrow[1] <= wide[1]).all() and (wide[1] <= extremes[1]).all()


def test_a_level_that_is_none_is_refused(made):
    with pytest.raises(TrainingError, match="beta is 1"):
        made[3].interval(made[0][:1], 1)


@pytest.mark.parametrize("beta", [0.5, 0.9, 0.99, 0.999])
def test_onnx_holds_the_interval_and_is_at_most_a_bucket_wider(made, probes, beta):
    rows, _, _, ours = made
    content = onnx_quantile.to_onnx(ours, beta, range(5), {"generation": "1"})
    both = np.concatenate([probes, rows[:200]])
    found = onnx_export.answers(content, both).astype(float)
    lower, upper = ours.interval(both, beta)
    # A share that is met but for 1e-6 may name a neighbouring size: float32 sums.
    shares = [(1 - beta) / 2, (1 + beta) / 2]
    fair = np.array([np.abs(np.cumsum(ours.weights(row))[:, None] - shares).min() > 4e-6 for row in both])
    assert fair.mean() > 0.5
    assert (found[fair, 0] <= lower[fair]).all()
    assert (found[fair, 1] >= upper[fair]).all()
    assert (lower[fair] <= np.ceil(found[fair, 0] * 1.02) + 1).all()
    assert (found[fair, 1] <= np.ceil(upper[fair] * 1.02) + 1).all()
