"""The flat forest against its trees walked by plain recursion, and the order of its keys."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from qclimb.errors import ModelError
from qclimb.forest import (
    FEATURES,
    Forest,
    feature_rows,
    float_key,
    key_bytes,
    key_float,
    lower_key,
    round_down,
    upper_key,
)
from qclimb.hostfile import decode_forest, encode_forest
from qclimb.record import FlowRecord

from tests.contract.strategies import U64, u
from tests.contract.trees import KEY_MAX, Tree, forest_of, leaf, split

FLOATS = st.floats(width=32, allow_nan=False)
SIZES = u(U64) | st.integers(0, 1 << 25)


@given(FLOATS, FLOATS)
def test_keys_are_ordered_as_their_floats(a: float, b: float) -> None:
    assert (float_key(a) < float_key(b)) == (a < b)
    assert (float_key(a) == float_key(b)) == (a == b)
    assert key_float(float_key(a)) == a


def test_keys_of_the_extremes() -> None:
    smallest, largest = np.finfo(np.float32).smallest_subnormal, np.finfo(np.float32).max
    floats = [-np.inf, -largest, -1.0, -smallest, -0.0, 0.0, smallest, 1.0, largest, np.inf]
    keys = float_key(floats)
    assert keys.dtype == np.int32
    assert list(keys[[4, 5]]) == [0, 0], "-0 is no less than 0"
    assert (np.diff(np.delete(keys, 4)) > 0).all()
    assert list(keys[[6, 7, 9]]) == [1, 0x3F800000, 0x7F800000]
    with pytest.raises(ModelError, match="a float is NaN"):
        float_key([1.0, np.nan])


def test_a_size_that_is_none_has_no_bounds() -> None:
    for wrong in (-1, np.nan):
        with pytest.raises(ModelError, match="a size is negative or no number"):
            lower_key(wrong)


@given(SIZES)
def test_bounds_are_rounded_outwards_and_by_less_than_a_float32s_step(size: int) -> None:
    lower, upper = int(key_bytes(lower_key(size))), int(key_bytes(upper_key(size), up=True))
    assert lower <= size <= upper
    assert (lower == size == upper) or (upper - lower <= size >> 22) or upper == U64


@given(st.integers(0, 0x7F800000) | st.integers(0x3F000000, 0x5F800001))
def test_keys_decode_to_the_whole_bytes_of_their_float(key: int) -> None:
    exact = float(key_float(key))
    if exact >= 2**64:
        down = up = U64
    else:
        down, up = int(exact), -int(-exact // 1)
    assert (int(key_bytes(key)), int(key_bytes(key, up=True))) == (down, up)


@pytest.mark.parametrize(
    ("value", "bytes_"),
    [(-np.inf, 0), (-1, 0), (0, 0), (0.5, 0), (1, 1), (2.0**24, 1 << 24), (2.0**63, 1 << 63), (2.0**64, U64)],
)
def test_sizes_decode_at_the_extremes(value: float, bytes_: int) -> None:
    assert int(key_bytes(float_key(value))) == bytes_


@given(st.floats(allow_nan=False))
def test_round_down_is_the_float32_at_or_below(value: float) -> None:
    found = round_down(value)
    with np.errstate(over="ignore"):
        next_above = float(np.nextafter(found, np.float32(np.inf)))
    assert float(found) <= value
    assert next_above > value or found == np.inf


@given(st.tuples(*[u(U64)] * len(FEATURES)))
def test_features_are_rounded_once_to_even(values: tuple[int, ...]) -> None:
    row = feature_rows([values], [3, 0])[0]
    for column, feature in enumerate((3, 0)):
        exact = values[feature]
        shift = max(exact.bit_length() - 24, 0)
        rest, half = exact & ((1 << shift) - 1), (1 << shift) >> 1
        mantissa = exact >> shift
        mantissa += rest > half or (shift > 0 and rest == half and mantissa & 1)
        assert int(float(row[column])) == mantissa << shift


def test_a_records_features_become_a_row() -> None:
    record = FlowRecord(start_ns=1, last_write_ns=2, size_bytes=3, start_us=9, peer_port=80, first_write_bytes=5)
    assert feature_rows([record.features()], [0, 7, 11]).tolist() == [[9, 80, 5]]
    assert feature_rows([], [0, 7, 11]).shape == (0, 3)


SPLITS = st.sampled_from([-1.0, 0.0, 0.5, 1.0, 3.0, 1e9, 3.4e38])
LEAVES = st.tuples(st.integers(0, 1 << 24), st.integers(0, 1 << 24)).map(lambda two: leaf(*sorted(two)))
TREES = st.recursive(LEAVES, lambda inner: st.builds(split, st.integers(0, 2), SPLITS, inner, inner), max_leaves=8)
ROWS = st.lists(st.lists(SPLITS | FLOATS, min_size=3, max_size=3), min_size=1, max_size=8)


@given(st.lists(TREES, min_size=1, max_size=5), ROWS)
def test_a_forests_bounds_are_the_outermost_of_its_trees(trees: list[Tree], rows: list[list[float]]) -> None:
    forest = forest_of(*trees, depth=8, feature_ids=(0, 7, 8))
    assert decode_forest(encode_forest(forest)) == forest
    lower, upper = forest.predict_bytes(rows)
    for row, low, up in zip(rows, lower, upper, strict=True):
        answers = [tree.answer([float(np.float32(value)) for value in row]) for tree in trees]
        assert (low, up) == (min(each[0] for each in answers), max(each[1] for each in answers))


def test_a_row_on_a_split_goes_below_it() -> None:
    forest = forest_of(split(0, 0.1, leaf(1, 2), leaf(3, 4)), depth=1)
    at = round_down(0.1)
    lower, _ = forest.predict_bytes([[at], [np.nextafter(at, np.float32(1))]])
    assert lower.tolist() == [1, 3]


GOOD = forest_of(split(0, 5.0, leaf(1, 5), leaf(6, 9)), leaf(2, 9), depth=1)
NAN_KEY = 0x7F800001


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"generation": 0}, "generation is 0, expected an integer in 1..2^64-1"),
        ({"trees": 0}, "trees is 0, expected an integer in 1..1024"),
        ({"depth": 33}, "depth is 33, expected an integer in 0..32"),
        ({"depth": 0}, "node_child[0] goes on after 0 steps from a root, expected a leaf there"),
        ({"feature_ids": ()}, "feature_ids is (), expected a tuple of 1..16 ids"),
        ({"feature_ids": (12,)}, "feature_ids[0] is 12, expected an integer in 0..11"),
        ({"feature_ids": (3, 3)}, "feature_ids[1] is 3, expected an id that is not there before it"),
        ({"roots": np.array([0, 1], np.int64)}, "roots is int64 (2,), expected an array of int32 (2,)"),
        ({"roots": [0, 4]}, "roots[1] is 4, expected a node in 0..3"),
        ({"roots": [0, 0]}, "node_child leads to node 0 twice, expected trees that share no node"),
        ({"node_feature": [1, 0, 0, 0]}, "node_feature[0] is 1, expected a column in 0..0"),
        ({"node_child": [3, 1, 2, 3]}, "node_child[0] is 3, expected itself for a leaf, or a pair of nodes in 0..3"),
        ({"node_child": [-1, 1, 2, 3]}, "node_child[0] is -1, expected itself for a leaf"),
        ({"node_child": [1, 1, 2, 3]}, "node_child leads to node 1 twice"),
        ({"node_threshold": [0, 0, KEY_MAX, KEY_MAX]}, "node_threshold[1] is 0, expected 2^31-1 for a leaf"),
        ({"node_threshold": [NAN_KEY, *[KEY_MAX] * 3]}, f"node_threshold[0] is {NAN_KEY}, expected no NaN"),
        ({"leaf_lower": [0, 0, 0, NAN_KEY]}, f"leaf_lower[3] is {NAN_KEY}, expected the key of a size >= 0, no NaN"),
        ({"leaf_lower": [0, 0, 0, -1]}, "leaf_lower[3] is -1, expected the key of a size >= 0, no NaN"),
        ({"leaf_upper": [7, *GOOD.leaf_upper[1:]]}, "leaf_upper[0] is 7, expected 0 for an inner node"),
        ({"leaf_upper": [0, 1, 1, 1]}, "leaf_lower[1] is 1073741824, expected at most leaf_upper"),
    ],
)
def test_a_forest_that_would_not_answer_is_refused(change: dict[str, Any], said: str) -> None:
    tables = {key: np.array(value, np.int32) if isinstance(value, list) else value for key, value in change.items()}
    with pytest.raises(ModelError) as refusal:
        replace(GOOD, **tables)
    assert str(refusal.value).startswith(said)


def test_a_cycle_is_refused() -> None:
    zero, child = np.zeros(3, np.int32), np.array([1, 0, 2], np.int32)
    with pytest.raises(ModelError, match="leads to node 0 twice"):
        Forest(1, (0,), 1, 32, zero, np.array([0, 0, KEY_MAX], np.int32), child, zero, zero, zero[:1])


def test_a_row_of_another_width_is_refused() -> None:
    with pytest.raises(ModelError, match=r"rows has the shape \(1, 2\), expected \(n, 1\)"):
        GOOD.predict_keys([[1.0, 2.0]])
    with pytest.raises(ModelError, match="a float is NaN"):
        GOOD.predict_keys([[np.nan]])
