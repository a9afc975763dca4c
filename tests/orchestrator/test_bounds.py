"""Forests: what they promise about flows that they saw, and how hosts, numpy and onnxruntime agree."""

import numpy as np
import onnx
import onnxruntime
import pytest
from qclimb.features import DEFAULT_FEATURE_IDS, FEATURES
from qclimb.hostfile import decode_forest
from qclimb.record import PARTLY_UNOBSERVED, FlowRecord

from orchestrator.errors import TrainingError
from orchestrator.ingest.recordings import kept_of
from orchestrator.models import bounds, calibration, forest_size, novelty, onnx_export
from orchestrator.models.training import train
from orchestrator.models.trees import Stretch, Tree

QUICK = {"trees": 12, "depth": 8}


@pytest.fixture(scope="module")
def rows(records):
    return kept_of(records)


@pytest.fixture(scope="module")
def trained(rows):
    return train(rows, ["h1"] * len(rows), 3, **QUICK)


def test_features_are_rounded_once_and_to_even():
    record = FlowRecord(
        start_ns=0,
        last_write_ns=0,
        size_bytes=1,
        start_us=2**24 + 1,
        gap_us=2**24 + 3,
        last_size_bytes=(2**63 + 2**39, 2**63 + 2**39 + 1, 2**64 - 1, 2**54 + 2**30 + 1, 0),
        peer_addr="198.19.2.1",
        local_addr="2001:db8::1",
        local_port=80,
        role=1,
    )
    (row,) = kept_of([record])["features"]
    # Halfway goes to the even neighbour; one more than halfway goes up, also where a double could not hold the one.
    assert row[:6].tolist() == [2.0**24, 2.0**24 + 4, 2.0**63, 2.0**63 + 2**40, 2.0**64, 2.0**54 + 2**31]
    assert row[7:10].tolist() == [80, 1, 0x130201]


def test_each_flow_that_was_learned_from_lies_within_its_bounds(rows, trained):
    forest = decode_forest(trained.forest)
    parts = bounds.split(rows["start_ns"], ["h1"] * len(rows))
    matrix, sizes = bounds.select(rows, DEFAULT_FEATURE_IDS)
    for part in (parts.grow, parts.calibrate):
        lower, upper = forest.predict_bytes(matrix[part])
        assert bounds.coverage(lower, upper, sizes[part]) == 1.0


def test_the_flows_tested_with_are_the_last_of_each_host():
    start = np.array([5, 1, 9, 3, 7, 2, 8, 4, 6, 0] * 2, dtype=np.uint64)
    start[10:] += 1000  # the second host's clock is another
    parts = bounds.split(start, ["a"] * 10 + ["b"] * 10)
    assert sorted(start[parts.test].tolist()) == [8, 9, 1008, 1009]
    assert start[parts.grow].max() == 1005
    assert sorted(np.concatenate([parts.grow, parts.calibrate, parts.test]).tolist()) == list(range(20))


def test_coverage_of_flows_not_shown_and_tightness_where_there_is_something_to_learn(rows):
    assert train(rows, ["h1"] * len(rows), 1, trees=30, depth=10).report["coverage"] >= 0.98  # of 300 flows
    made = train(rows, ["h1"] * len(rows), 1, **QUICK, features=["service_port", "peer_addr"])
    assert made.report["coverage"] >= 0.95
    forest = decode_forest(made.forest)
    matrix, sizes = bounds.select(rows, (7, 9))
    lower, _ = forest.predict_bytes(matrix)
    by_peer = rows["features"][:, 7] == 7002
    assert np.median(lower[by_peer] / sizes[by_peer]) > 0.5  # sizes within 20 % of the peer's
    files = rows["features"][:, 7] == 80
    assert np.median(lower[files] / sizes[files]) < 0.2  # any of five sizes, nothing to tell which


def test_the_host_file_reads_back_and_bounds_are_rounded_outwards(rows, trained):
    forest = decode_forest(trained.forest)
    assert (forest.generation, forest.feature_ids, forest.trees) == (3, DEFAULT_FEATURE_IDS, 12)
    size = 2**30 + 1  # no float32
    tree = Tree(
        feature=np.zeros(1, np.int32),
        threshold=np.array([np.inf], np.float32),
        child=np.zeros(1, np.int32),
        lower=np.array([float(size)]),
        upper=np.array([float(size)]),
    )
    single = bounds.flat_forest([tree], Stretch(), 1, (7,), 3)
    lower, upper = single.predict_bytes(np.array([[80]], np.float32))
    assert lower[0] < size < upper[0]


def test_onnxruntime_agrees_bit_for_bit_also_on_split_values(rows, trained):
    forest = decode_forest(trained.forest)
    matrix, _ = bounds.select(rows, DEFAULT_FEATURE_IDS)
    assert onnx_export.check(forest, trained.onnx, matrix, seed=11) == len(matrix) + 3000
    assert trained.report["checked_rows"] > 2000


def test_the_check_finds_a_single_threshold_that_is_off_by_one(rows):
    trained = train(rows, ["h1"] * len(rows), 3, trees=1, depth=8)  # of many trees another one may hide it
    forest = decode_forest(trained.forest)
    matrix, _ = bounds.select(rows, DEFAULT_FEATURE_IDS)
    model = onnx.load_from_string(trained.onnx)
    (values,) = (each for each in model.graph.node[0].attribute if each.name == "nodes_values")
    root = values.floats[0]
    values.floats[0] = float(np.nextafter(np.float32(root), np.float32(np.inf)))
    with pytest.raises(TrainingError, match="onnxruntime"):
        onnx_export.check(forest, model.SerializeToString(), matrix)


def test_a_forest_that_cannot_be_calibrated_has_more_trees_unless_told(rows):
    assert forest_size.trees_for(1_999, 1_999) == forest_size.TREES
    assert forest_size.trees_for(1_998, 1_999) == forest_size.UNCALIBRATED_TREES
    report = train(rows, ["h1"] * len(rows), 3, depth=2).report
    assert report["rows"]["calibrate"] < calibration.needed(bounds.TARGET_COVERAGE)
    assert report["trees"] == forest_size.UNCALIBRATED_TREES


def test_trees_walk_as_scikit_learn_does(rows):
    from sklearn.ensemble import RandomForestRegressor

    matrix, sizes = bounds.select(rows, DEFAULT_FEATURE_IDS)
    theirs = RandomForestRegressor(n_estimators=3, max_depth=6, random_state=1).fit(matrix, np.log(sizes))
    for each in theirs.estimators_:
        ours = bounds._flat(each.tree_)
        leaf = ours.leaves(matrix, 6)
        apart = each.apply(matrix)
        # The same rows share a leaf in both: the pairs (ours, theirs) are as many as the leaves.
        assert len(set(zip(leaf.tolist(), apart.tolist(), strict=True))) == len(set(leaf)) == len(set(apart))


def test_a_model_tells_what_it_is(trained):
    session = onnxruntime.InferenceSession(trained.onnx, providers=["CPUExecutionProvider"])
    told = session.get_modelmeta().custom_metadata_map
    assert told["generation"] == "3"
    assert told["features"].split(",")[:2] == list(FEATURES[:2])
    assert told["leaf_extremes"] == trained.report["leaf_extremes"] == "all rows learned from"
    assert session.get_outputs()[0].name == "bounds"


def test_equal_flows_and_seed_give_equal_files(rows, trained):
    again = train(rows, ["h1"] * len(rows), 3, **QUICK)
    assert (again.forest, again.onnx) == (trained.forest, trained.onnx)
    assert train(rows, ["h1"] * len(rows), 3, **QUICK, seed=1).forest != trained.forest


def test_flows_all_of_one_size_have_exact_bounds(records):
    rows = kept_of(records[:100])
    rows["size_bytes"] = 4096
    made = train(rows, ["h1"] * 100, 1, **QUICK)
    forest = decode_forest(made.forest)
    lower, upper = forest.predict_bytes(rows["features"][:, :11])
    known = ~novelty.is_fallback(upper)
    assert known.mean() > 0.9
    assert set(lower[known].tolist()) == set(upper[known].tolist()) == {4096}
    assert made.report["coverage"] == 1.0


def test_flows_that_were_observed_in_part_teach_nothing(records):
    rows = kept_of(records[:200])
    rows["size_bytes"], rows["flags"] = 4096, 0
    rows["size_bytes"][::2], rows["flags"][::2] = 1 << 30, PARTLY_UNOBSERVED
    made = train(rows, ["h1", "h2"] * 100, 1, **QUICK)
    assert made.report["rows"]["total"] == 100
    upper = decode_forest(made.forest).predict_bytes(rows["features"][:, :11])[1]
    assert set(upper[~novelty.is_fallback(upper)].tolist()) == {4096}


def test_calibration_widens_only_what_is_wide():
    tree = Tree(
        feature=np.array([0, 0, 0], np.int32),
        threshold=np.array([1, np.inf, np.inf], np.float32),
        child=np.array([1, 1, 2], np.int32),
        lower=np.array([np.inf, 1000, 1000]),
        upper=np.array([0, 1000, 100_000]),
    )
    lower, upper = tree.stretched(Stretch(0.5, 0.5))
    assert (lower[1], upper[1]) == (1000, 1000)
    assert (lower[2], upper[2]) == (100, 1_000_000)


def test_features_by_name_and_a_wrong_one_is_named(rows):
    made = train(rows, ["h1"] * len(rows), 1, **QUICK, features=["service_port", "first_write_bytes"])
    assert decode_forest(made.forest).feature_ids == (7, 11)
    with pytest.raises(TrainingError, match="'port' is unknown"):
        bounds.feature_ids(["port"])
    with pytest.raises(TrainingError, match="each once"):
        bounds.feature_ids(["role", "role"])


def test_too_few_flows_are_refused(rows):
    with pytest.raises(TrainingError, match="49 flows were recorded, expected at least 50 to train on and 12,494 to"):
        train(rows[:49], ["h1"] * 49, 1)


def test_the_flows_needed_to_calibrate_are_no_more_than_needed():
    start_ns = np.arange(12_494, dtype=np.uint64)
    for flows, held in ((bounds.rows_needed(1999), 1999), (bounds.rows_needed(1999) - 7, 1998)):
        assert len(bounds.split(start_ns[:flows], ["h1"] * flows).calibrate) == held


def test_a_tree_cut_at_a_depth_is_the_tree_grown_to_it():
    random = np.random.default_rng(3)
    rows = random.normal(size=(3000, 4)).astype(np.float32)
    sizes = np.exp(10 + rows[:, 0] * rows[:, 1] + rows[:, 2] + random.normal(0, 0.3, 3000))
    deep, _ = bounds.grow(rows, sizes, 3, 9, 5)
    shallow, _ = bounds.grow(rows, sizes, 3, 4, 5)
    for whole, wanted in zip(deep, shallow, strict=True):
        cut = whole.cut(4)
        cut.learn(rows, sizes, 4)
        for name, part in vars(wanted).items():
            assert np.array_equal(getattr(cut, name), part), name
    assert len(deep[0].cut(99).child) == len(deep[0].child)
