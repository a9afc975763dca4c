"""forest.h against numpy and onnxruntime, bit for bit, and model.h against damage."""

import errno
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from qclimb.errors import ModelError
from qclimb.forest import KEY_MAX, Forest, float_key, key_float, lower_key, upper_key
from qclimb.hostfile import decode_forest, encode_forest

from bench import forest as bench
from orchestrator.models.onnx_export import answers, to_onnx
from tests.core.core import FEATURES, UNKNOWN, Core
from tests.tiers import examples

WHOLE = st.one_of(st.integers(0, UNKNOWN), st.integers(0, 63).map(lambda bit: 1 << bit), st.integers(0, 2**25))


@st.composite
def forests(draw: st.DrawFn) -> Forest:
    """Any few trees over two columns: the nodes of all trees in any order that keeps siblings side by side."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    depth, trees = draw(st.integers(0, 5)), draw(st.integers(1, 45))
    split_share = draw(st.sampled_from([0.3, 0.8, 1.0]))
    # Nodes come in pairs, 2i and 2i + 1: first a pair for each root, then the children as they are made.
    pairs = trees
    level = [2 * tree for tree in range(trees)]
    inner: dict[int, int] = {}
    for _ in range(depth):
        parents = [node for node in level if rng.random() < split_share]
        inner |= {node: 2 * (pairs + i) for i, node in enumerate(parents)}
        level = [2 * (pairs + i) + side for i in range(len(parents)) for side in (0, 1)]
        pairs += len(parents)
    nodes = 2 * pairs  # a root's neighbour is a leaf that nothing leads to
    order = rng.permutation(pairs)
    place = np.stack([2 * order, 2 * order + 1], axis=1).ravel()
    child = np.arange(nodes)
    for node, to in inner.items():
        child[place[node]] = place[to]
    leaf = child == np.arange(nodes)
    feature = np.where(leaf, 0, rng.integers(0, 2, nodes))
    threshold = float_key(rng.choice([0, 1, 2.5, 80, 2**24, 2.0**32, 2.0**63, -1], nodes).astype(np.float32))
    sizes = np.sort(np.exp(rng.uniform(0, 44, (nodes, 2))), axis=1)
    return Forest(
        generation=draw(st.integers(1, UNKNOWN)),
        feature_ids=tuple(draw(st.permutations(range(FEATURES)))[:2]),
        trees=trees,
        depth=depth,
        node_feature=feature.astype(np.int32),
        node_threshold=np.where(leaf, KEY_MAX, threshold).astype(np.int32),
        node_child=child.astype(np.int32),
        leaf_lower=np.where(leaf, lower_key(sizes[:, 0]), 0).astype(np.int32),
        leaf_upper=np.where(leaf, upper_key(sizes[:, 1]), 0).astype(np.int32),
        roots=place[0 : 2 * trees : 2].astype(np.int32),
    )


@given(forests(), st.lists(st.tuples(WHOLE, WHOLE), min_size=1, max_size=20))
@settings(max_examples=examples(50), deadline=None)
def test_any_forest_answers_as_numpy_does(core: Core, forest: Forest, pairs: list[tuple[int, int]]) -> None:
    rows = np.array(pairs, dtype=np.uint64).astype(np.float32)
    lower, upper = forest.predict_keys(rows)
    found = core.predict_keys(forest, rows)
    assert np.array_equal(found[0], lower)
    assert np.array_equal(found[1], upper)


@given(forests(), st.lists(WHOLE, min_size=FEATURES, max_size=FEATURES))
@settings(max_examples=examples(16), deadline=None)
def test_features_find_their_columns_by_id(core: Core, forest: Forest, values: list[int]) -> None:
    row = np.array([[values[feature] for feature in forest.feature_ids]], dtype=np.uint64).astype(np.float32)
    lower, upper = (int(keys[0]) for keys in forest.predict_keys(row))
    bounds = core.predict_bytes(forest, np.array([values], dtype=np.uint64))[0].tolist()
    assert bounds == [exact_bytes(lower, up=False), exact_bytes(upper, up=True)]


def exact_bytes(key: int, up: bool) -> int:
    """Python's own exact arithmetic on the float that the key stands for."""
    value = float(key_float(np.int32(key)))
    if value >= 2**64:
        return UNKNOWN
    whole = int(value)
    return max(0, whole + (up and whole < value))


@given(WHOLE)
def test_whole_numbers_become_floats_as_numpy_has_them(core: Core, value: int) -> None:
    assert core.c.probe_float_key_of_u64(bench.ctypes.c_uint64(value)) == int(float_key(np.uint64(value)))


@given(st.floats(0, width=32, allow_nan=False), st.booleans())
def test_keys_become_bytes_by_floor_and_ceiling(core: Core, value: float, up: bool) -> None:
    key = int(float_key(np.float32(value)))
    assert core.c.probe_key_to_bytes(key, int(up)) == exact_bytes(key, up)


@pytest.fixture(scope="module")
def grown() -> Forest:
    return bench.made_up_forest(trees=30, depth=8, flows=600)


def probes(forest: Forest) -> NDArray[np.float32]:
    """Rows of flows, on split values and right above, and at the extremes of each column."""
    values, _ = bench.made_up_flows(300, seed=3)
    rows = bench.as_rows(values)
    split = rows.copy()
    inner = forest.node_child != np.arange(forest.nodes)
    rng = np.random.default_rng(0)
    for column in range(rows.shape[1]):
        at = key_float(forest.node_threshold[inner & (forest.node_feature == column)])
        if len(at):
            split[:, column] = rng.choice(at, len(split))
    above = np.nextafter(split, np.float32(np.inf))
    extremes = [np.full((1, rows.shape[1]), x, np.float32) for x in (0, 1, 2.0**24, 2.0**32, 2.0**64, np.inf)]
    return np.concatenate([rows, split, above, *extremes])


def test_a_trained_forest_answers_as_numpy_and_onnxruntime_do(core: Core, grown: Forest) -> None:
    rows = probes(grown)
    lower, upper = core.predict_keys(grown, rows)
    reference = grown.predict_keys(rows)
    onnx = answers(to_onnx(grown, {}), rows)
    assert np.array_equal(lower, reference[0])
    assert np.array_equal(upper, reference[1])
    assert np.array_equal(lower, float_key(onnx[:, 0]))
    assert np.array_equal(upper, float_key(onnx[:, 1]))
    assert len(np.unique(lower)) > 10, "a forest that always answers alike shows nothing"


def test_flows_that_were_learned_lie_in_their_bounds(core: Core, grown: Forest) -> None:
    values, sizes = bench.made_up_flows(600)
    bounds = core.predict_bytes(grown, values)
    assert ((bounds[:, 0] <= sizes) & (sizes <= bounds[:, 1])).all()


@given(forests())
@settings(max_examples=examples(16), deadline=None)
def test_a_truncated_or_longer_model_is_refused(core: Core, forest: Forest) -> None:
    data = encode_forest(forest)
    for length in (0, 10, 55, 56, 60, len(data) // 2, len(data) - 1):
        assert core.load_error(data[:length]) == -errno.EMSGSIZE
    assert core.load_error(data + b"\0") == -errno.EMSGSIZE


def test_a_damaged_model_is_refused(core: Core, grown: Forest) -> None:
    data = encode_forest(grown)
    rng = random.Random(1)
    for _ in range(300):
        at = rng.randrange(len(data))
        assert core.load_error(data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]) != 0


@given(forests(), st.data())
@settings(max_examples=examples(66), deadline=None)
def test_a_changed_model_with_the_right_checksum_answers_as_python_says_or_not_at_all(
    core: Core, forest: Forest, data: st.DataObject
) -> None:
    body = bytearray(encode_forest(forest)[:-4])
    for _ in range(data.draw(st.integers(1, 3))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    changed = bytes(body) + core.crc32(bytes(body)).to_bytes(4, "little")
    error = core.load_error(changed)
    try:
        decoded = decode_forest(changed)
    except ModelError:
        return  # C may load it where the fault is in a node that no walk reaches; that walks stay inside: model_test.c
    if error == 0:
        rows = np.zeros((1, len(decoded.feature_ids)), np.float32)
        assert core.predict_keys(decoded, rows) == decoded.predict_keys(rows)
    else:
        assert is_shared(decoded), "Python loads a model that C refuses"


def is_shared(forest: Forest) -> bool:
    """Whether a node has two parents, or is the root of two trees: C loads only trees."""
    leaf = forest.node_child == np.arange(forest.nodes)
    inner = forest.node_child[~leaf]
    reached = np.concatenate([forest.roots, inner, inner + 1])
    return len(np.unique(reached)) < len(reached)


@given(st.binary(max_size=800))
def test_random_bytes_are_no_model(core: Core, data: bytes) -> None:
    assert core.load_error(data) < 0
    assert core.load_error(b"QCM1\x01\x00\x38\x00" + data) < 0
