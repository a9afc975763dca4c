"""Never-seen flows fall back to PIAS (QCLIMB 5.2.2), by one tree of the forest that knows what training saw.

That tree first asks for the service (port of the listening side), and whether the last size and the first write are no
larger than any seen there; then it goes on as any tree. Where the answer is no, its leaf says (1, 2^63): the least of
the lower bounds and the largest of the upper ones are then those, and such bounds are PIAS. So hosts, ONNX and numpy
need nothing new.

Start time, ports of clients and addresses don't count as novel: a process's start, and who asks, are new all the time.
More services than the tree has levels for are taken together by the smallest gaps between their ports: then an unknown
port between two known ones goes unnoticed, and no known one is taken for novel.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import numpy.typing as npt
from qclimb.features import FEATURES

from .bounds import MIN_SAMPLES_LEAF, plain
from .trees import LARGEST, Float32s, Floats, Tree

PORT, LAST_SIZE, FIRST_WRITE = (
    FEATURES.index(name) for name in ("service_port", "last_size_bytes_1", "first_write_bytes")
)
UNKNOWN = (1.0, LARGEST)
"""Bounds in bytes of a flow that nothing is known of."""

LEVELS_LEFT = 3
"""Of the tree's depth at least so many are left for splits by what tells sizes."""


def is_fallback(upper_bytes: npt.ArrayLike) -> npt.NDArray[np.bool_]:
    """Whether bounds are those of a never-seen flow."""
    return np.asarray(upper_bytes, np.float64) >= UNKNOWN[1]


@dataclass
class _Nodes:
    """A tree while it is built: pairs of children side by side."""

    feature: list[int] = field(default_factory=lambda: [0])
    threshold: list[float] = field(default_factory=lambda: [np.inf])
    child: list[int] = field(default_factory=lambda: [0])
    lower: list[float] = field(default_factory=lambda: [np.inf])
    upper: list[float] = field(default_factory=lambda: [0.0])

    def split(self, node: int, feature: int, threshold: float) -> tuple[int, int]:
        """Makes a leaf an inner node; returns its children."""
        left = len(self.child)
        self.feature[node], self.threshold[node], self.child[node] = feature, threshold, left
        for place in (left, left + 1):
            self.feature.append(0)
            self.threshold.append(np.inf)
            self.child.append(place)
            self.lower.append(np.inf)
            self.upper.append(0.0)
        return left, left + 1

    def unknown(self, node: int) -> None:
        """A leaf for what was never seen."""
        self.lower[node], self.upper[node] = UNKNOWN

    def graft(self, node: int, tree: Tree) -> None:
        """Puts a whole tree where a leaf is."""
        place = {0: node}
        for at, child in enumerate(tree.child):
            if child != at:
                left, right = self.split(place[at], int(tree.feature[at]), float(tree.threshold[at]))
                place[int(child)], place[int(child) + 1] = left, right

    def tree(self) -> Tree:
        """The tree as it is now."""
        return Tree(
            np.array(self.feature, np.int32),
            np.array(self.threshold, np.float32),
            np.array(self.child, np.int32),
            np.array(self.lower),
            np.array(self.upper),
        )


def known_ranges(ports: npt.ArrayLike, most: int) -> list[tuple[int, int]]:
    """At most so many ranges (first, last) that hold every port; the smallest gaps are closed first."""
    ranges = [(int(port), int(port)) for port in np.unique(np.asarray(ports, np.int64))]
    while len(ranges) > max(most, 1):
        gaps = [after[0] - before[1] for before, after in pairwise(ranges)]
        place = int(np.argmin(gaps))
        ranges[place : place + 2] = [(ranges[place][0], ranges[place + 1][1])]
    return ranges


def guard(
    rows: Float32s, size_bytes: Floats, ids: Sequence[int], depth: int, seed: int, seen: Float32s | None = None
) -> Tree | None:
    """The tree, grown on rows [n, columns]; None where ports are no feature or the depth has no room for it.

    `seen`: further rows that are not novel.
    """
    if PORT not in ids:
        return None
    limits = [ids.index(feature) for feature in (LAST_SIZE, FIRST_WRITE) if feature in ids]
    room = depth - len(limits) - LEVELS_LEFT
    if room < 2:
        return None
    port = ids.index(PORT)
    both = rows if seen is None else np.concatenate([rows, seen])
    # 2 n + 1 intervals, known and unknown ones in turns, take the levels of a balanced search.
    ranges = known_ranges(both[:, port], (2**room - 1) // 2)
    nodes = _Nodes()

    def known(node: int, low: int, high: int, level: int) -> None:
        mine = (rows[:, port] >= low) & (rows[:, port] <= high)
        ever = (both[:, port] >= low) & (both[:, port] <= high)
        for column in limits:
            node, beyond = nodes.split(node, column, float(both[ever, column].max()))
            nodes.unknown(beyond)
            level += 1
        if mine.any():
            nodes.graft(node, plain(rows[mine], size_bytes[mine], depth - level, seed, MIN_SAMPLES_LEAF))

    _search(nodes, port, ranges, known)
    tree = nodes.tree()
    tree.learn(rows, size_bytes, depth)
    return tree


def _search(
    nodes: _Nodes, port: int, ranges: Sequence[tuple[int, int]], known: Callable[[int, int, int, int], None]
) -> None:
    """A balanced search of the port among known ranges and the gaps around them."""
    edges: list[tuple[float, tuple[int, int] | None]] = []  # upper edge of an interval, and the range that it is
    for low, high in ranges:
        edges += [(low - 0.5, None), (float(high), (low, high))]
    edges.append((np.inf, None))

    def build(node: int, first: int, last: int, level: int) -> None:
        if first == last:
            found = edges[first][1]
            if found is None:
                nodes.unknown(node)
            else:
                known(node, *found, level)
            return
        middle = (first + last) // 2
        left, right = nodes.split(node, port, edges[middle][0])
        build(left, first, middle, level + 1)
        build(right, middle + 1, last, level + 1)

    build(0, 0, len(edges) - 1, 0)
