"""The forest as the kernel walks it: `struct kernel_forest` of hostlib/tagger/forecast.h, whose twin this is.

Its invariant: what is packed was checked (qclimb.forest), so that every walk ends in a leaf.
"""

import numpy as np
from qclimb.forest import MAX_TREES, Forest

from hostlib.hostd.errors import HostdError

NODES = 1 << 18
FEATURES = 16
KERNEL_FOREST = np.dtype(
    [
        ("trees", "<u4"),
        ("depth", "<u4"),
        ("features", "<u4"),
        ("reserved", "<u4"),
        ("feature_id", "u1", FEATURES),
        ("root", "<u4", MAX_TREES),
        ("node", [("threshold", "<u4"), ("link", "<u4")], NODES),
        ("leaf", [("lower", "<i4"), ("upper", "<i4")], NODES),
    ]
)


class ForecastError(HostdError):
    """A model that the kernel can't hold."""


def kernel_forest(forest: Forest) -> bytes:
    """The value of the map `forests` for this model. Raises: ForecastError: it has too many nodes."""
    if forest.nodes > NODES:
        raise ForecastError(
            f"model {forest.generation} has {forest.nodes} nodes; expected at most {NODES} in the kernel"
        )
    made = np.zeros((), dtype=KERNEL_FOREST)
    made["trees"], made["depth"], made["features"] = forest.trees, forest.depth, len(forest.feature_ids)
    made["feature_id"][: len(forest.feature_ids)] = forest.feature_ids
    made["root"][: forest.trees] = forest.roots
    nodes = slice(0, forest.nodes)
    made["node"]["threshold"][nodes] = forest.node_threshold.view("<u4") ^ np.uint32(1 << 31)
    made["node"]["link"][nodes] = forest.node_child.astype("<u4") << np.uint32(8) | forest.node_feature.astype("<u4")
    made["leaf"]["lower"][nodes], made["leaf"]["upper"][nodes] = forest.leaf_lower, forest.leaf_upper
    return made.tobytes()
