"""A quantile regression forest as ONNX: what a level below 1 needs, since no aggregate over trees is a quantile.

Sizes are counted in buckets of 2 %. A leaf's targets are its share of rows in each bucket, divided by the trees, so
that the ensemble's SUM is the flow's distribution over buckets: QRF's weights, added up. CumSum, a comparison with the
two quantiles' shares and a sum over buckets then name a bucket each, and Gather its lower edge for the lower bound, its
upper edge for the upper one: never inside the interval of `quantiles`, and at most 2 % wider at each end. Sums are
float32: a share that is met to within 1e-6 counts as met.

For onnxruntime alone: hosts walk beta = 1.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper
from qclimb.features import FEATURES

from .onnx_export import VERSION
from .quantiles import QuantileForest

GAMMA = 1.02
SPARE = 1e-6


def to_onnx(forest: QuantileForest, beta: float, ids: Sequence[int], metadata: Mapping[str, str]) -> bytes:
    """From `features`, float32 [rows, columns], to `bounds`, float32 [rows, 2] in bytes: lower, upper."""
    exponent = np.ceil(np.log(np.maximum(forest.sizes, 1)) / np.log(GAMMA) - 1e-9).astype(int)
    buckets, bucket_of = np.unique(exponent, return_inverse=True)
    nodes: dict[str, list[np.ndarray]] = {name: [] for name in ("tree", "node", "feature", "mode", "value", "child")}
    targets: dict[str, list[np.ndarray]] = {name: [] for name in ("tree", "node", "id", "weight")}
    for number, (tree, place, begin) in enumerate(zip(forest.trees, forest.place, forest.begin, strict=True)):
        node = np.arange(len(tree.child))
        leaf = tree.child == node
        nodes["tree"].append(np.full(len(node), number))
        nodes["node"].append(node)
        nodes["feature"].append(tree.feature)
        nodes["mode"].append(leaf)
        nodes["value"].append(np.where(leaf, np.float32(0), tree.threshold))
        nodes["child"].append(np.where(leaf, 0, tree.child))
        at = np.repeat(node, np.diff(begin))
        pairs, count = np.unique(np.stack([at, bucket_of[place]]), axis=1, return_counts=True)
        targets["tree"].append(np.full(pairs.shape[1], number))
        targets["node"].append(pairs[0])
        targets["id"].append(pairs[1])
        targets["weight"].append(count / (np.diff(begin)[pairs[0]] * len(forest.trees)))
    all_nodes = {name: np.concatenate(parts) for name, parts in nodes.items()}
    all_targets = {name: np.concatenate(parts) for name, parts in targets.items()}
    leaf, child = all_nodes["mode"].astype(bool), all_nodes["child"]
    ensemble = helper.make_node(
        "TreeEnsembleRegressor",
        ["features"],
        ["share"],
        domain="ai.onnx.ml",
        n_targets=len(buckets),
        aggregate_function="SUM",
        post_transform="NONE",
        nodes_treeids=all_nodes["tree"].tolist(),
        nodes_nodeids=all_nodes["node"].tolist(),
        nodes_featureids=all_nodes["feature"].tolist(),
        nodes_modes=["LEAF" if is_leaf else "BRANCH_LEQ" for is_leaf in leaf],
        nodes_values=all_nodes["value"].tolist(),
        nodes_truenodeids=child.tolist(),
        nodes_falsenodeids=np.where(leaf, 0, child + 1).tolist(),
        target_treeids=all_targets["tree"].tolist(),
        target_nodeids=all_targets["node"].tolist(),
        target_ids=all_targets["id"].tolist(),
        target_weights=all_targets["weight"].tolist(),
    )
    # The lowest edge of a bucket is not in it: a size above it is at least the next whole byte.
    edges = {
        "lower": np.where(buckets > 0, np.floor(GAMMA ** (buckets - 1)), 1),
        "upper": np.ceil(GAMMA**buckets * (1 + 1e-6)),
    }
    shares = {"lower": (1 - beta) / 2 - SPARE, "upper": (1 + beta) / 2 - SPARE}
    graph = [ensemble, helper.make_node("CumSum", ["share", "axis"], ["reached"])]
    constants = [
        helper.make_tensor("axis", TensorProto.INT64, [], [1]),
        helper.make_tensor("axes", TensorProto.INT64, [1], [1]),
        helper.make_tensor("last", TensorProto.INT64, [], [len(buckets) - 1]),
    ]
    for end in ("lower", "upper"):
        constants.append(helper.make_tensor(f"{end}_share", TensorProto.FLOAT, [], [shares[end]]))
        constants.append(helper.make_tensor(f"{end}_edge", TensorProto.FLOAT, [len(buckets)], edges[end].tolist()))
        graph += [
            helper.make_node("Less", ["reached", f"{end}_share"], [f"{end}_short"]),
            helper.make_node("Cast", [f"{end}_short"], [f"{end}_one"], to=TensorProto.INT64),
            helper.make_node("ReduceSum", [f"{end}_one", "axes"], [f"{end}_count"], keepdims=1),
            helper.make_node("Min", [f"{end}_count", "last"], [f"{end}_bucket"]),
            helper.make_node("Gather", [f"{end}_edge", f"{end}_bucket"], [f"{end}_bound"]),
        ]
    graph.append(helper.make_node("Concat", ["lower_bound", "upper_bound"], ["bounds"], axis=1))
    made = helper.make_graph(
        graph,
        "qclimb-quantiles",
        [helper.make_tensor_value_info("features", TensorProto.FLOAT, [None, len(ids)])],
        [helper.make_tensor_value_info("bounds", TensorProto.FLOAT, [None, 2])],
        initializer=constants,
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    model = helper.make_model(made, opset_imports=opsets, ir_version=8, producer_name="qclimb")
    names = ",".join(FEATURES[feature] for feature in ids)
    told = {"features": names, "unit": "bytes", "version": str(VERSION), "gamma": str(GAMMA), **metadata}
    helper.set_model_props(model, {**told, "beta": str(beta)})
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString())
