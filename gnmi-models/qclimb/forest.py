"""The forest that bounds a flow's size, in the flat layout that hosts walk; numpy's answer is the reference for C's.

Training (orchestrator) makes one, `hostfile` writes it, forest.h walks it. Only this module of the contract uses numpy.

Beta = 1 (QCLIMB section 4): the lower bound is the minimum, over trees, of the leaves' smallest training size, the
upper bound the maximum of their largest. Order is all that counts, so floats travel as *keys*: int32 that sort as
the float32 do (the bits, for negatives all but the sign inverted). A host needs no floating point.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .checks import UINT64_MAX, integer, shown
from .errors import ModelError
from .features import DEFAULT_FEATURE_IDS, FEATURES

__all__ = [
    "DEFAULT_FEATURE_IDS",
    "FEATURES",
    "Forest",
    "feature_rows",
    "float_key",
    "key_bytes",
    "lower_key",
    "round_down",
    "upper_key",
]

KEY_MAX = 2**31 - 1
KEY_INFINITY = 0x7F800000
MAX_TREES = 1024
MAX_DEPTH = 32
MAX_NODES = 1 << 24

Keys = NDArray[np.int32]


def float_key(value: ArrayLike) -> Keys:
    """Ordered int32 keys of float32 values: a < b exactly when key(a) < key(b), and -0 counts as +0; refuses NaN."""
    floats = np.asarray(value, dtype=np.float32) + np.float32(0)  # -0 + 0 is +0
    if np.isnan(floats).any():
        raise ModelError("a float is NaN, expected a number that has an order")
    bits = floats.view(np.int32)
    return np.where(bits >= 0, bits, bits ^ np.int32(KEY_MAX)).astype(np.int32)


def key_float(keys: ArrayLike) -> NDArray[np.float32]:
    """The float32 values of keys, the inverse of `float_key`."""
    bits = np.asarray(keys, dtype=np.int32)
    return np.where(bits >= 0, bits, bits ^ np.int32(KEY_MAX)).astype(np.int32).view(np.float32)


def key_bytes(keys: ArrayLike, *, up: bool = False) -> NDArray[np.uint64]:
    """Keys of sizes as whole bytes, by integers alone as forest.h does: fractions cut, or rounded `up`.

    0 for negatives, 2^64-1 from 2^64 on.
    """
    bits = np.asarray(keys, dtype=np.int32).astype(np.int64)
    exponent = (bits >> 23) - 127
    mantissa = ((bits & 0x7FFFFF) | 0x800000).astype(np.uint64)
    left = np.clip(exponent - 23, 0, 40).astype(np.uint64)
    right = np.clip(23 - exponent, 0, 24).astype(np.uint64)
    whole = (mantissa >> right) << left
    if up:
        whole += (mantissa >> right) << right != mantissa
    whole = np.where(exponent >= 64, np.uint64(UINT64_MAX), whole)
    return np.where(bits <= 0, np.uint64(0), whole).astype(np.uint64)


def feature_rows(values: Sequence[Sequence[int]], feature_ids: Sequence[int]) -> NDArray[np.float32]:
    """Rows for `predict_keys` from values by feature id (`FlowRecord.features()`), rounded once, to even."""
    by_id = np.array(values, dtype=np.uint64).reshape(len(values), len(FEATURES))
    return by_id[:, list(feature_ids)].astype(np.float32)


def round_down(value: ArrayLike) -> NDArray[np.float32]:
    """The largest float32 that is not above each float64."""
    exact = np.asarray(value, dtype=np.float64)
    with np.errstate(over="ignore"):
        near = exact.astype(np.float32)
        return np.where(near > exact, np.nextafter(near, np.float32(-np.inf)), near).astype(np.float32)


def lower_key(size_bytes: ArrayLike) -> Keys:
    """Keys of lower bounds: the largest float32 that is not above each size, a whole number of bytes in 0..2^64-1."""
    size, near = _nearest(size_bytes)
    return near - (key_bytes(near) > size).astype(np.int32)


def upper_key(size_bytes: ArrayLike) -> Keys:
    """Keys of upper bounds: the smallest float32 that is not below each size, a whole number of bytes in 0..2^64-1."""
    size, near = _nearest(size_bytes)
    return near + (key_bytes(near, up=True) < size).astype(np.int32)


def _nearest(size_bytes: ArrayLike) -> tuple[NDArray[np.uint64], Keys]:
    """Sizes as integers, and the keys of the float32 next to them, on either side."""
    given = np.asarray(size_bytes)
    if not (given >= 0).all():  # refuses NaN too
        raise ModelError("a size is negative or no number, expected whole bytes >= 0")
    size = given.astype(np.uint64)
    return size, float_key(size.astype(np.float32))


@dataclass(frozen=True, eq=False)
class Forest:
    """All trees in one set of tables; node indices count over the whole forest.

    generation      of the model, >= 1
    feature_ids     ids of `FEATURES` in the order of the columns that the nodes name
    trees, depth    the trees share no node; `depth` steps from a root always end in a leaf
    node_feature    [nodes] column, i.e. index into feature_ids
    node_threshold  [nodes] key; a row goes to child where its key <= this, else to child + 1
    node_child      [nodes]; a leaf is its own child, with feature 0 and threshold 2^31-1
    leaf_lower, leaf_upper   [nodes] keys of the bounds in bytes (rounded down, up); 0 at inner nodes
    roots           [trees]
    """

    generation: int
    feature_ids: tuple[int, ...]
    trees: int
    depth: int
    node_feature: NDArray[np.int32]
    node_threshold: Keys
    node_child: NDArray[np.int32]
    leaf_lower: Keys
    leaf_upper: Keys
    roots: NDArray[np.int32]

    def __post_init__(self) -> None:
        integer(self.generation, "generation", 1, UINT64_MAX, ModelError)
        integer(self.trees, "trees", 1, MAX_TREES, ModelError)
        integer(self.depth, "depth", 0, MAX_DEPTH, ModelError)
        check_feature_ids(self.feature_ids)
        integer(len(self.node_child), "nodes", 1, MAX_NODES, ModelError)
        for name in ("node_feature", "node_threshold", "node_child", "leaf_lower", "leaf_upper", "roots"):
            self._check_table(name, self.trees if name == "roots" else self.nodes)
        leaf = self.node_child == np.arange(self.nodes)
        self._check_nodes(leaf)
        self._check_bounds(leaf)
        self._check_depth(leaf)

    @property
    def nodes(self) -> int:
        """Inner nodes and leaves of all trees."""
        return len(self.node_child)

    def predict_keys(self, rows: ArrayLike) -> tuple[Keys, Keys]:
        """Bounds as keys, ([n], [n]), for rows [n, features] of float32 in the order of `feature_ids`; refuses NaN."""
        keys = float_key(rows)
        if keys.ndim != 2 or keys.shape[1] != len(self.feature_ids):
            raise ModelError(f"rows has the shape {keys.shape}, expected (n, {len(self.feature_ids)})")
        row = np.arange(len(keys))[:, None]
        at = np.broadcast_to(self.roots, (len(keys), self.trees))
        for _ in range(self.depth):
            right = keys[row, self.node_feature[at]] > self.node_threshold[at]
            at = self.node_child[at] + right
        return self.leaf_lower[at].min(axis=1), self.leaf_upper[at].max(axis=1)

    def predict_bytes(self, rows: ArrayLike) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        """The bounds of `predict_keys` in bytes, as hosts use them."""
        lower, upper = self.predict_keys(rows)
        return key_bytes(lower), key_bytes(upper, up=True)

    def to_tables(self) -> bytes:
        """roots[trees], (threshold, feature, child)[nodes], lower[nodes], upper[nodes], each a little-endian int32."""
        nodes = np.stack([self.node_threshold, self.node_feature, self.node_child], axis=1)
        return b"".join(
            table.astype("<i4").tobytes() for table in (self.roots, nodes, self.leaf_lower, self.leaf_upper)
        )

    @classmethod
    def from_tables(
        cls, generation: int, feature_ids: tuple[int, ...], trees: int, depth: int, nodes: int, tables: bytes
    ) -> Self:
        """The forest of `to_tables`, which has 4 * (trees + 5 * nodes) bytes."""
        numbers = np.frombuffer(tables, dtype="<i4").astype(np.int32)
        roots, node, lower, upper = np.split(numbers, np.cumsum([trees, 3 * nodes, nodes]))
        threshold, feature, child = node.reshape(nodes, 3).T.copy()
        return cls(generation, feature_ids, trees, depth, feature, threshold, child, lower, upper, roots)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Forest):
            return NotImplemented
        return all(np.array_equal(value, vars(other)[name]) for name, value in vars(self).items())

    __hash__ = None  # type: ignore[assignment]

    def _check_table(self, name: str, length: int) -> None:
        table = getattr(self, name)
        if not isinstance(table, np.ndarray) or table.dtype != np.int32 or table.shape != (length,):
            described = f"{table.dtype} {table.shape}" if isinstance(table, np.ndarray) else shown(table)
            raise ModelError(f"{name} is {described}, expected an array of int32 ({length},)")

    def _check_nodes(self, leaf: NDArray[np.bool_]) -> None:
        check = self._first_wrong
        check("roots", (self.roots >= 0) & (self.roots < self.nodes), f"a node in 0..{self.nodes - 1}")
        check(
            "node_feature",
            (self.node_feature >= 0) & (self.node_feature < len(self.feature_ids)),
            f"a column in 0..{len(self.feature_ids) - 1}",
        )
        inside = (self.node_child >= 0) & (self.node_child < self.nodes - 1)
        check("node_child", leaf | inside, f"itself for a leaf, or a pair of nodes in 0..{self.nodes - 1}")
        check("node_feature", ~leaf | (self.node_feature == 0), "0 for a leaf")
        check("node_threshold", ~leaf | (self.node_threshold == KEY_MAX), "2^31-1 for a leaf")
        check("node_threshold", leaf | (np.abs(self.node_threshold.astype(np.int64)) <= KEY_INFINITY), "no NaN")

    def _check_bounds(self, leaf: NDArray[np.bool_]) -> None:
        for name in ("leaf_lower", "leaf_upper"):
            keys = getattr(self, name)
            self._first_wrong(name, (keys >= 0) & (keys <= KEY_INFINITY), "the key of a size >= 0, no NaN")
            self._first_wrong(name, leaf | (keys == 0), "0 for an inner node")
        self._first_wrong("leaf_lower", self.leaf_lower <= self.leaf_upper, "at most leaf_upper")

    def _check_depth(self, leaf: NDArray[np.bool_]) -> None:
        """Walks all trees at once, by levels: nothing is met twice, and after `depth` steps only leaves are left."""
        met = np.zeros(self.nodes, dtype=np.uint8)
        level = self.roots
        for step in range(self.depth + 1):
            np.add.at(met, level, 1)
            twice = level[met[level] > 1]
            if len(twice):
                raise ModelError(f"node_child leads to node {twice[0]} twice, expected trees that share no node")
            inner = level[~leaf[level]]
            if len(inner) and step == self.depth:
                raise ModelError(
                    f"node_child[{inner[0]}] goes on after {self.depth} steps from a root, expected a leaf there"
                )
            child = self.node_child[inner]
            level = np.concatenate([child, child + 1])

    def _first_wrong(self, name: str, good: NDArray[np.bool_], expected: str) -> None:
        wrong = np.flatnonzero(~good)
        if len(wrong):
            raise ModelError(f"{name}[{wrong[0]}] is {getattr(self, name)[wrong[0]]}, expected {expected}")


def check_feature_ids(feature_ids: tuple[int, ...]) -> None:
    """Refuses anything but 1 to 16 distinct ids of `FEATURES`."""
    if not isinstance(feature_ids, tuple) or not 1 <= len(feature_ids) <= 16:
        raise ModelError(f"feature_ids is {shown(feature_ids)}, expected a tuple of 1..16 ids")
    for index, feature in enumerate(feature_ids):
        integer(feature, f"feature_ids[{index}]", 0, len(FEATURES) - 1, ModelError)
        if feature in feature_ids[:index]:
            raise ModelError(f"feature_ids[{index}] is {feature}, expected an id that is not there before it")
