"""A forest as ONNX, for everyone who has a runtime; and the check that both answer alike.

One TreeEnsembleRegressor with two targets, the leaf's lower bound and minus its upper one, aggregated by MIN over the
trees, then times (1, -1): the least of the lower bounds and the largest of the upper ones in a single walk. The same
float32 thresholds and bounds as in the host file, so that answers are equal bit for bit, also on a split value.
"""

import hashlib
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
from onnx import TensorProto, helper
from qclimb.errors import ModelError
from qclimb.features import FEATURES
from qclimb.forest import Forest, float_key, key_float
from qclimb.hostfile import decode_forest

from ..errors import TrainingError

VERSION = 1
"""Of the metadata."""

TOLD = ("generation", "features", "unit", "beta", "split", "leaf_extremes", "seed", "target_coverage", "coverage")
"""What a model tells of itself, beside the two hashes and the version."""

RANDOM_ROWS = 1000
EDGE_ROWS = 1000
"""Rows of the check that lie on a threshold, or on the next float32 above it, in every column."""


def to_onnx(forest: Forest, metadata: Mapping[str, str]) -> bytes:
    """A model from `features`, float32 [rows, columns], to `bounds`, float32 [rows, 2] in bytes: lower, upper."""
    end = np.append(forest.roots[1:], forest.nodes)
    tree = np.repeat(np.arange(forest.trees), end - forest.roots)
    begin = forest.roots[tree]
    node = np.arange(forest.nodes)
    leaf = forest.node_child == node
    child = np.where(leaf, 0, forest.node_child - begin)
    leaves = np.flatnonzero(leaf)
    weights = np.stack([key_float(forest.leaf_lower[leaves]), -key_float(forest.leaf_upper[leaves])], axis=1)
    ensemble = helper.make_node(
        "TreeEnsembleRegressor",
        ["features"],
        ["signed"],
        domain="ai.onnx.ml",
        n_targets=2,
        aggregate_function="MIN",
        post_transform="NONE",
        nodes_treeids=tree.tolist(),
        nodes_nodeids=(node - begin).tolist(),
        nodes_featureids=forest.node_feature.tolist(),
        nodes_modes=["LEAF" if is_leaf else "BRANCH_LEQ" for is_leaf in leaf],
        nodes_values=np.where(leaf, np.float32(0), key_float(np.where(leaf, 0, forest.node_threshold))).tolist(),
        nodes_truenodeids=child.tolist(),
        nodes_falsenodeids=np.where(leaf, 0, child + 1).tolist(),
        target_treeids=np.repeat(tree[leaves], 2).tolist(),
        target_nodeids=np.repeat(leaves - begin[leaves], 2).tolist(),
        target_ids=[0, 1] * len(leaves),
        target_weights=weights.ravel().tolist(),
    )
    sign = helper.make_tensor("sign", TensorProto.FLOAT, [2], [1.0, -1.0])
    graph = helper.make_graph(
        [ensemble, helper.make_node("Mul", ["signed", "sign"], ["bounds"])],
        "qclimb",
        [helper.make_tensor_value_info("features", TensorProto.FLOAT, [None, len(forest.feature_ids)])],
        [helper.make_tensor_value_info("bounds", TensorProto.FLOAT, [None, 2])],
        initializer=[sign],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8, producer_name="qclimb")
    names = ",".join(FEATURES[feature] for feature in forest.feature_ids)
    told = {"generation": str(forest.generation), "features": names, "unit": "bytes", **metadata}
    helper.set_model_props(model, told)
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString())


def answers(content: bytes, rows: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """What onnxruntime makes of rows: float32 [rows, 2]; refuses NaN, which has no order, as hosts' keys do."""
    if np.isnan(rows).any():
        raise ModelError("a float is NaN, expected a number that has an order")
    return np.asarray(_session(content).run(["bounds"], {"features": rows})[0])


def _session(content: bytes) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


def check(forest: Forest, content: bytes, seen: npt.NDArray[np.float32], seed: int = 0) -> int:
    """Compares onnxruntime with the forest on `seen`, random and split-value rows; returns how many.

    Raises TrainingError at the first row that is not equal bit for bit.
    """
    rows = np.concatenate([seen, *_probes(forest, seen, np.random.default_rng(seed))]).astype(np.float32)
    lower, upper = forest.predict_keys(rows)
    found = answers(content, rows)
    wrong = np.flatnonzero((float_key(found[:, 0]) != lower) | (float_key(found[:, 1]) != upper))
    if len(wrong):
        row = int(wrong[0])
        expected = (float(key_float(lower[row])), float(key_float(upper[row])))
        raise TrainingError(
            f"models: onnxruntime's bounds of the row {rows[row].tolist()} are {found[row].tolist()}, not {expected}"
        )
    return len(rows)


def validated(content: bytes, file: bytes) -> dict[str, str]:
    """A model's metadata, once everything fits: before a model is kept, and again before it is rolled out.

    The host file is whole, both are of one making (generation, features, hash of the host file), and onnxruntime
    answers as the host file does on split values and random rows. Raises ModelError or TrainingError.
    """
    forest = decode_forest(file)
    try:
        session = _session(content)
        told = dict(session.get_modelmeta().custom_metadata_map)
        columns = session.get_inputs()[0].shape[1]
    except Exception as error:  # onnxruntime's own exceptions have no common ancestor of their own
        raise ModelError(f"model: onnxruntime can't read the ONNX file: {str(error).splitlines()[0]}") from error
    missing = [name for name in (*TOLD, "version", "training_sha256", "forest_sha256") if name not in told]
    if missing:
        raise ModelError(f"model: its metadata lack {', '.join(missing)}")
    names = ",".join(FEATURES[feature] for feature in forest.feature_ids)
    wanted = {
        "version": str(VERSION),
        "generation": str(forest.generation),
        "features": names,
        "unit": "bytes",
        "forest_sha256": hashlib.sha256(file).hexdigest(),
    }
    for name, value in wanted.items():
        if told[name] != value:
            raise ModelError(f"model: its metadata's {name} is {told[name]!r}, expected {value!r} as in the host file")
    if columns != len(forest.feature_ids):
        raise ModelError(f"model: the ONNX file takes {columns} columns, expected {len(forest.feature_ids)}")
    rows = np.zeros((EDGE_ROWS, len(forest.feature_ids)), np.float32)
    check(forest, content, rows)
    return told


def _probes(
    forest: Forest, seen: npt.NDArray[np.float32], random: np.random.Generator
) -> list[npt.NDArray[np.float32]]:
    """Random rows over the seen range, and rows made of thresholds and their upper neighbours."""
    low, high = seen.min(axis=0), seen.max(axis=0)
    probes = [random.uniform(low, np.maximum(high, low + 1), (RANDOM_ROWS, len(low))).astype(np.float32)]
    inner = forest.node_child != np.arange(forest.nodes)
    edges = seen[random.integers(len(seen), size=EDGE_ROWS)]
    for column in range(len(low)):
        thresholds = key_float(forest.node_threshold[inner & (forest.node_feature == column)])
        if len(thresholds):
            edges[:, column] = random.choice(thresholds, EDGE_ROWS)
    return [*probes, edges, np.nextafter(edges, np.float32(np.inf))]
