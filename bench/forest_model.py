"""A forest of the paper's size on made-up flows, as `qclimb.forest.Forest` and as ONNX: what bench/forest.py and tests/core compare.

Flows of five services whose sizes are log-normal about a level that service and recent sizes set; 100 trees x depth 10 then have about
70,000 nodes, as on the paper's traces. Nothing here is for use: the orchestrator trains and exports the forests that hosts run.
"""

import numpy as np
import onnx
from numpy.typing import NDArray
from qclimb.forest import Forest, lower_key, round_down, upper_key
from sklearn.ensemble import RandomForestRegressor

FEATURES = 11  # the paper's: start, gap, the last five sizes, service port, role, two addresses
Rows = NDArray[np.float32]


def made_up_flows(count: int, seed: int = 0) -> tuple[Rows, NDArray[np.float64]]:
    """(rows [count, 11], sizes in bytes [count]) of whole numbers, as a shim's features are."""
    rng = np.random.default_rng(seed)
    service = rng.integers(0, 5, count)
    recent = np.exp(rng.normal(9, 2.5, (count, 5)))
    columns = [
        rng.uniform(0, 6e7, count),  # start_us
        rng.exponential(1e5, count),  # gap_us
        *recent.T,
        np.array([80, 443, 8080, 9000, 6379])[service],
        rng.integers(0, 2, count),  # role
        rng.integers(0, 8, count) + 0xC6130100,  # 198.19.1.0 and on
        rng.integers(0, 8, count) + 0xC6130200,
    ]
    sizes = np.ceil(np.exp(rng.normal(5, 2, count) + service + 0.3 * np.log1p(recent[:, 0])))
    return np.stack(columns, axis=1).astype(np.uint64).astype(np.float32), sizes


def trained(trees: int, depth: int, flows: int, seed: int = 0) -> tuple[Forest, bytes]:
    """(host forest, the same one as a serialised ONNX model) trained on made-up flows; each leaf is bounded by the flows that reach it."""
    rows, sizes = made_up_flows(flows, seed)
    model = RandomForestRegressor(trees, max_depth=depth, random_state=seed, max_samples=0.9)
    model.fit(rows, np.log(sizes))
    parts = [_tree(estimator.tree_, estimator.apply(rows), sizes) for estimator in model.estimators_]
    return _forest(parts, depth), _onnx(parts)


Part = dict[str, NDArray[np.float64]]


def _tree(tree: object, leaf_of_row: NDArray[np.int64], sizes: NDArray[np.float64]) -> Part:
    """One scikit-learn tree, its nodes in breadth-first order, so that siblings are neighbours; node numbers are the tree's own."""
    left, right, feature, threshold = (
        np.asarray(getattr(tree, name)) for name in ("children_left", "children_right", "feature", "threshold")
    )
    order, at = [0], 0
    while at < len(order):
        if left[order[at]] >= 0:
            order += [left[order[at]], right[order[at]]]
        at += 1
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    lower, upper = np.full(len(order), np.inf), np.full(len(order), -np.inf)
    np.minimum.at(lower, leaf_of_row, sizes)
    np.maximum.at(upper, leaf_of_row, sizes)
    leaf = left[order] < 0
    return {
        "leaf": leaf,
        "feature": np.where(leaf, 0, feature[order]),
        "threshold": np.where(leaf, 0, round_down(threshold[order])),
        "child": np.where(leaf, np.arange(len(order)), place[left[order]]),
        "lower": np.where(leaf, lower[order], 0),
        "upper": np.where(leaf, upper[order], 0),
    }


def _forest(parts: list[Part], depth: int) -> Forest:
    first = np.cumsum([0, *(len(part["leaf"]) for part in parts)])
    joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    leaf = joined["leaf"].astype(bool)
    child = np.concatenate([part["child"] + begin for part, begin in zip(parts, first, strict=False)])
    return Forest(
        generation=1,
        feature_ids=tuple(range(FEATURES)),
        trees=len(parts),
        depth=depth,
        node_feature=joined["feature"].astype(np.int32),
        node_threshold=np.where(leaf, 2**31 - 1, lower_key(joined["threshold"])).astype(np.int32),
        node_child=child.astype(np.int32),
        leaf_lower=lower_key(joined["lower"]),
        leaf_upper=upper_key(joined["upper"]),
        roots=first[:-1].astype(np.int32),
    )


def _onnx(parts: list[Part]) -> bytes:
    """One TreeEnsembleRegressor with the targets (lower, -upper), MIN over the trees, then the sign given back: the best graph measured."""
    ids = [np.full(len(part["leaf"]), tree) for tree, part in enumerate(parts)]
    numbers = [np.arange(len(part["leaf"])) for part in parts]
    joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    leaf = joined["leaf"].astype(bool)
    tree, number = np.concatenate(ids), np.concatenate(numbers)
    ensemble = onnx.helper.make_node(
        "TreeEnsembleRegressor",
        ["rows"],
        ["signed"],
        domain="ai.onnx.ml",
        aggregate_function="MIN",
        n_targets=2,
        post_transform="NONE",
        nodes_treeids=tree.tolist(),
        nodes_nodeids=number.tolist(),
        nodes_featureids=joined["feature"].astype(int).tolist(),
        nodes_values=joined["threshold"].astype(np.float32).tolist(),
        nodes_modes=["LEAF" if is_leaf else "BRANCH_LEQ" for is_leaf in leaf],
        nodes_truenodeids=np.where(leaf, 0, joined["child"]).astype(int).tolist(),
        nodes_falsenodeids=np.where(leaf, 0, joined["child"] + 1).astype(int).tolist(),
        target_treeids=np.repeat(tree[leaf], 2).tolist(),
        target_nodeids=np.repeat(number[leaf], 2).tolist(),
        target_ids=np.tile([0, 1], leaf.sum()).tolist(),
        target_weights=round_down(np.stack([joined["lower"][leaf], -joined["upper"][leaf]], axis=1).ravel()).tolist(),
    )
    sign = onnx.helper.make_node("Mul", ["signed", "signs"], ["bounds"])
    graph = onnx.helper.make_graph(
        [ensemble, sign],
        "forest",
        [onnx.helper.make_tensor_value_info("rows", onnx.TensorProto.FLOAT, [None, FEATURES])],
        [onnx.helper.make_tensor_value_info("bounds", onnx.TensorProto.FLOAT, [None, 2])],
        [onnx.helper.make_tensor("signs", onnx.TensorProto.FLOAT, [2], [1.0, -1.0])],
    )
    opsets = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid("ai.onnx.ml", 3)]
    model: bytes = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()
    return model
