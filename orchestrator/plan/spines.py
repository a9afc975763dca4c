"""Demotion thresholds for K spines with N queues a port (MP-MLFQ, HPSR'24), purely. qclimb.bigspine has the table.

The cost is the mean slowdown of MP-MLFQ's model: processor sharing in each queue, a later queue has what the earlier
ones at its spine leave. With G and H of `sizes` (the share of all bytes, and of a flow, before a byte), class k between
the thresholds a_k and a_(k+1) at spine s = k mod K, whose part of the capacity is c_s,

    cost = sum_k (H(a_(k+1)) - H(a_k)) / K / (c_s - load * S_k)  +  (1 - H(a_(P-1))) / (1 - load)

S_k is the share of all bytes that classes at spine s up to row k div K carry. The last term has no spine in it: with
`weights`, every spine has the same load, thus each last queue the same rate.

N = 2: each spine has one such class, so S_k is G(a_(k+1)) - G(a_k): a sum over neighbours, and the least is a shortest
path with K edges, found exactly on a grid of bytes; the grid is then made finer around it.
N > 2: classes of one spine are coupled, K classes in a row never are. So thresholds of K classes in a row are moved at
once, by the same shortest path with all others held, window after window until nothing falls, from several starts.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..errors import ThresholdError
from .sizes import Floats, SizeDistribution
from .thresholds import LAST_SHARE, LOAD, OBJECTIVE, SEGMENT_BYTES, Objective, Thresholds, check_wishes

CELLS, CELLS_COUPLED = 384, 64
"""Of the first grid, with two queues and with more; three a threshold where that is more."""
FINER, FINER_CELLS = 3, 33
"""How often the grid is made finer, and its points around each threshold then."""
SWEEPS = 50
STARTS = (1.0, 2.0, 3.0)
"""Exponents: thresholds at (number / all of them) ** exponent of the bytes."""
RANDOM_STARTS, FEW = 13, 20
"""And so many that are drawn, where thresholds are so few; with more it would take a minute."""
CLOSE = 1e-9
"""Of all bytes: more than that beyond what is allowed is forbidden."""
FORBIDDEN = 1e6
"""Above any cost, and more where more is beyond: a start that is not allowed then falls to one that is."""


@dataclass(frozen=True)
class BigSpine:
    """K spines, each with its part of the capacity (> 0, in sum 1), and N queues at each port."""

    capacity: tuple[float, ...]
    queues: int = 2

    def __post_init__(self) -> None:
        if not all(0 < part < np.inf for part in self.capacity) or not abs(sum(self.capacity) - 1) < 1e-9:
            raise ThresholdError(f"capacity: {self.capacity}, expected parts above 0 that sum to 1")
        if not self.queues >= 2:
            raise ThresholdError(f"queues: {self.queues}, expected at least 2 on several spines")

    @classmethod
    def equal(cls, spines: int, queues: int = 2) -> "BigSpine":
        """Spines of one rate."""
        return cls((1 / spines,) * spines, queues)

    @property
    def spines(self) -> int:
        """K."""
        return len(self.capacity)

    @property
    def pinned(self) -> int:
        """P - 1: the classes that have a spine, and the thresholds."""
        return self.spines * (self.queues - 1)


@dataclass(frozen=True)
class Problem:
    """What is looked for: all of it but the thresholds."""

    sizes: SizeDistribution
    shape: BigSpine
    load: float
    objective: Objective
    last_share: float = 0.0

    def cost(self, thresholds: Floats) -> float:
        """Of any ascending thresholds, term by term; infinite where a spine would carry more than its part."""
        flows, before, part = self.sizes.at(np.concatenate([[0.0], thresholds]))
        carried = np.diff(before)
        total = 0.0
        for spine, capacity in enumerate(self.shape.capacity):
            upto = 0.0
            for k in range(spine, self.shape.pinned, self.shape.spines):
                upto += carried[k]
                if upto > capacity + CLOSE:
                    return float("inf")
                weight = part[k + 1] - part[k] if self.objective is Objective.SLOWDOWN else 1 - flows[k]
                total += weight / self.shape.spines / (capacity - self.load * upto)
        last = 1 - (part if self.objective is Objective.SLOWDOWN else flows)[-1]
        return float(total + last / (1 - self.load))

    def judged(self, thresholds: Floats) -> float:
        """The same; infinite, too, where they do not ascend, or leave the last class less than its share."""
        kept = 1 - self.sizes.at(thresholds[-1:])[1][0]
        is_allowed = bool(np.all(np.diff(thresholds) > 0)) and kept >= self.last_share - CLOSE
        return self.cost(thresholds) if is_allowed else float("inf")


def cost(
    sizes: SizeDistribution, shape: BigSpine, load: float, threshold_bytes: Sequence[int], objective: Objective
) -> float:
    """The cost of P - 1 ascending thresholds; infinite where a spine would carry more than its part."""
    return Problem(sizes, shape, load, objective).cost(np.array(threshold_bytes, dtype=np.float64))


def optimise_spines(
    sizes: SizeDistribution,
    shape: BigSpine,
    load: float = LOAD,
    objective: Objective = OBJECTIVE,
    last_share: float = LAST_SHARE,
    segment_bytes: int = SEGMENT_BYTES,
) -> Thresholds:
    """The thresholds of least cost; see thresholds.optimise for what the words mean. All P - 1 are used.

    No spine's classes carry more than its part of the bytes, so that weights exist. Raises ThresholdError: also where
    no thresholds do that, for flows that are as small as a segment all take the first spine.
    """
    check_wishes(load, last_share, segment_bytes)
    problem = Problem(sizes, shape, load, objective, last_share)
    cells = CELLS if shape.queues == 2 else max(CELLS_COUPLED, 3 * shape.pinned)
    grid = _grid(sizes, cells, segment_bytes)
    tried = [_descend(problem, start, [grid] * shape.pinned) for start in _starts(problem, grid)]
    found = min(tried, key=problem.judged, default=None)
    if found is None or not np.isfinite(problem.judged(found)):
        raise ThresholdError(
            f"flow sizes: {shape.spines} spines with {shape.queues} queues need {shape.pinned} thresholds in steps of "
            f"{segment_bytes} bytes, none of whose classes fills its spine; the largest flow has "
            f"{int(sizes.upper_bytes[-1])} bytes"
        )
    step = (grid[-1] / grid[0]) ** (1 / cells)
    for _ in range(FINER):
        around = [_near(place, step, segment_bytes) for place in found]
        found = min(found, _descend(problem, found, around), key=problem.judged)
        step = step ** (4 / FINER_CELLS)
    return Thresholds(tuple(int(place) for place in found), shape.pinned, problem.cost(found))


def _grid(sizes: SizeDistribution, cells: int, segment_bytes: int) -> Floats:
    """Bytes where a threshold may lie: spread by logarithms, and sizes that occur, where they are few; ascending."""
    least, most = float(sizes.mean_bytes[0]), float(sizes.upper_bytes[-1])
    spread = np.geomspace(min(least, segment_bytes, most), most, cells)
    own = sizes.upper_bytes[: None if len(sizes.upper_bytes) <= cells else 0]
    return np.unique(np.ceil(np.concatenate([spread, own]) / segment_bytes) * segment_bytes)


def _near(place: float, step: float, segment_bytes: int) -> Floats:
    """The same, from a step below a threshold to one above it, and itself."""
    spread = place * np.geomspace(1 / step**2, step**2, FINER_CELLS)
    whole = np.maximum(np.rint(spread / segment_bytes), 1) * segment_bytes
    return np.unique(np.append(whole, place))


def _starts(problem: Problem, grid: Floats) -> list[Floats]:
    """Thresholds to begin from: bytes split by powers of their number, and any others. One where one will do."""
    pinned = problem.shape.pinned
    if len(grid) < pinned:
        return []
    before = problem.sizes.at(grid)[1]
    places = []
    for exponent in STARTS:
        wanted = (np.arange(1, pinned + 1) / (pinned + 1)) ** exponent * (1 - problem.last_share)
        place = np.searchsorted(before, wanted)
        for index in range(pinned):  # strictly ascending, with room for those that follow
            least = place[index - 1] + 1 if index else 0
            place[index] = min(max(place[index], least), len(grid) - pinned + index)
        places.append(place)
    random = np.random.default_rng(0)
    others = RANDOM_STARTS if pinned <= FEW else 0
    places += [np.sort(random.choice(len(grid), pinned, replace=False)) for _ in range(others)]
    return [grid[place] for place in places[: 1 if problem.shape.queues == 2 else None]]


def _descend(problem: Problem, start: Floats, candidates: Sequence[Floats]) -> Floats:
    """Window after window, each a quarter of a row further, until nothing falls.

    Where no thresholds of these candidates will do, some that do not: `judged` tells.
    """
    shape, now = problem.shape, start
    last = shape.pinned - shape.spines
    windows = [*range(0, last, max(1, shape.spines // 4)), last]
    for _ in range(1 if len(windows) == 1 else SWEEPS):
        before = now
        for first in windows:
            now = _window(problem, now, first, candidates)
        if np.array_equal(before, now):
            break
    return now


def _window(problem: Problem, now: Floats, first: int, candidates: Sequence[Floats]) -> Floats:
    """The best thresholds of classes `first` to `first` + K - 1, all others held; the last window ends at the last
    class, whose threshold is free, too."""
    shape = problem.shape
    is_last = first + shape.spines == shape.pinned
    places: list[Floats] = [np.array([0.0 if first == 0 else now[first - 1]])]
    free = range(first, first + shape.spines - (0 if is_last else 1))
    places += [candidates[index] for index in free]
    if not is_last:
        places.append(now[first + shape.spines - 1 : first + shape.spines])
    held = np.diff(problem.sizes.at(np.concatenate([[0.0], now]))[1])
    reach, came = np.zeros(1), []
    edges = np.zeros(0)
    for number in range(shape.spines):
        if number < 2 or not _is_as_before(shape, first + number, places[number - 1 : number + 2]):
            edges = _edges(problem, now, held, first + number, places[number], places[number + 1])
        through = reach[:, None] + edges
        best = through.argmin(axis=0)
        came.append(best)
        reach = through[best, np.arange(len(best))]
    if is_last:
        flows, before, part = problem.sizes.at(places[-1])
        last = 1 - (part if problem.objective is Objective.SLOWDOWN else flows)
        over = np.maximum(before - (1 - problem.last_share), 0)
        reach = reach + last / (1 - problem.load) + np.where(over > CLOSE, FORBIDDEN * (1 + over), 0)
    here = int(reach.argmin())
    if not np.isfinite(reach[here]):
        return now
    passed = []
    for number in range(shape.spines - 1, -1, -1):
        passed.append(places[number + 1][here])
        here = int(came[number][here])
    moved = now.copy()
    moved[first : first + shape.spines] = passed[::-1]
    return moved


def _is_as_before(shape: BigSpine, k: int, places: Sequence[Floats]) -> bool:
    """Whether class k costs what the class before it costs: one grid for both, and spines alike, in the one row."""
    alike = shape.capacity[k % shape.spines] == shape.capacity[(k - 1) % shape.spines]
    return shape.queues == 2 and alike and places[0] is places[1] is places[2]


def _edges(problem: Problem, now: Floats, held: Floats, k: int, begins: Floats, ends: Floats) -> Floats:
    """What class k costs from each of `begins` to each of `ends`, with what later classes at its spine cost then.

    held   shares of bytes by class, of the thresholds `now`
    """
    shape = problem.shape
    capacity = shape.capacity[k % shape.spines]
    flows, before, part = problem.sizes.at(begins)
    _, before_end, part_end = problem.sizes.at(ends)
    upto = before_end[None, :] - before[:, None] + float(held[k % shape.spines : k : shape.spines].sum())
    is_slowdown = problem.objective is Objective.SLOWDOWN
    weight = part_end[None, :] - part[:, None] if is_slowdown else np.broadcast_to(1 - flows[:, None], upto.shape)
    found = weight / np.maximum(capacity - problem.load * upto, 1e-12)
    if k + shape.spines < shape.pinned:
        of_all, _, part_of_all = problem.sizes.at(np.concatenate([[0.0], now]))
        for later in range(k + shape.spines, shape.pinned, shape.spines):
            upto = upto + held[later]
            rest = part_of_all[later + 1] - part_of_all[later] if is_slowdown else 1 - of_all[later]
            found = found + rest / np.maximum(capacity - problem.load * upto, 1e-12)
    over = np.maximum(upto - capacity, 0)
    found = found / shape.spines + np.where(over > CLOSE, FORBIDDEN * (1 + over), 0)
    return np.where(ends[None, :] > begins[:, None], found, np.inf)
