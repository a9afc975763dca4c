"""What forests would have said of each flow of a recording: learned from earlier flows, said of later ones.

The recording is cut at shares of its flows in time. Up to each cut a forest is grown on all flows before it, by the
paper's rule (leaf extremes, beta = 1, no calibration), and says the bounds of the flows up to the next cut, as hosts
would read them. The one number, for schemes that want one (QCLIMB-PP, -FP), is the mean over trees of the leaf's mean
size, as a random forest's prediction is. So no flow is ever foretold by a forest that has seen it or a later one.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from lab.models.flows import Flows
from orchestrator.errors import TrainingError
from orchestrator.models import bounds, report
from orchestrator.models.forest_size import DEPTH, TREES
from orchestrator.models.trees import Float32s, Floats, Tree

CUTS = (0.4, 0.6, 0.8)
"""Three fifths of a recording are foretold, the last of it by the 80/20 split of the paper."""


@dataclass(frozen=True)
class Foretold:
    """Of the flows in order of start, from row `first` on: bounds and one number, in bytes; [n - first] each.

    threshold_bytes     what the orchestrator would choose for the flows before `first`, for 8 priorities
    """

    first: int
    lower_bytes: npt.NDArray[np.uint64]
    upper_bytes: npt.NDArray[np.uint64]
    forecast_bytes: npt.NDArray[np.uint64]
    threshold_bytes: tuple[int, ...]


def foretell(
    flows: Flows,
    ids: Sequence[int],
    trees: int = TREES,
    depth: int = DEPTH,
    seed: int = 0,
    cuts: Sequence[float] = CUTS,
    say: Callable[[str], None] = lambda text: None,
) -> Foretold:
    """Flows must stand in order of start. Raises: TrainingError."""
    n = len(flows.size_bytes)
    if not (cuts and all(0 <= a < b < 1 for a, b in pairwise((0.0, *cuts)))):
        raise TrainingError(f"cuts: {', '.join(map(str, cuts))}: expected ascending shares between 0 and 1")
    edges = [int(n * cut) for cut in cuts] + [n]
    if edges[0] < bounds.LEAST_ROWS:
        raise TrainingError(
            f"{flows.name}: {edges[0]} flows before the first cut, expected at least {bounds.LEAST_ROWS}"
        )
    matrix = np.ascontiguousarray(flows.features[:, list(ids)])
    lower, upper, mean = (np.zeros(n - edges[0]) for _ in range(3))
    for shown, end in pairwise(edges):
        say(f"{flows.name}: {shown} flows tell of the next {end - shown}")
        grown, _ = bounds.grow(matrix[:shown], flows.size_bytes[:shown], trees, depth, seed)
        here = slice(shown - edges[0], end - edges[0])
        lower[here], upper[here] = report.predicted(grown, matrix[shown:end], depth)
        mean[here] = _means(grown, matrix[:shown], flows.size_bytes[:shown], matrix[shown:end], depth)
    return Foretold(
        edges[0],
        _whole(lower),
        _whole(upper),
        _whole(np.rint(mean)),
        report.thresholds_of(flows.size_bytes[: edges[0]]),
    )


def _means(grown: Sequence[Tree], shown: Float32s, sizes: Floats, rows: Float32s, depth: int) -> Floats:
    """Mean over trees of the mean size of what fell into a row's leaf."""
    total = np.zeros(len(rows))
    for tree in grown:
        leaf, nodes = tree.leaves(shown, depth), len(tree.child)
        count = np.maximum(np.bincount(leaf, minlength=nodes), 1)
        total += (np.bincount(leaf, sizes, nodes) / count)[tree.leaves(rows, depth)]
    return total / len(grown)


def _whole(values: Floats) -> npt.NDArray[np.uint64]:
    return np.clip(values, 1, 2.0**62).astype(np.uint64)
