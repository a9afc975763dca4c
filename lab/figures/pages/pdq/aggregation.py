"""PDQ (SIGCOMM'12), Figs. 3a, 3b, 3d and 3e: many hosts answer one at a moment, with deadlines and without."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from lab.experiment.claims import AsPaper, Claim, said
from lab.experiment.intervals import Interval, over_runs
from lab.figures.page import Page, Panel, Points, Runs, Scale, Series, Story
from lab.figures.points import Point
from lab.sim import NAMED, Experiment, FlowList, Tcp, single_rooted_tree
from lab.sim.optimum import most_in_time, shortest_first
from lab.sim.scheme import Scheme

TREE = single_rooted_tree()
RATE_BPS = 10**9
SENDERS = np.arange(1, TREE.hosts)
RENO = Tcp(
    "tcp",
    dctcp=False,
    initial_window=2,
    least_timeout_us=1_000.0,
    first_timeout_us=1_000.0,
    buffer_bytes=4_000_000,
    host_buffer_bytes=4_000_000,
)
EDF_8 = replace(RENO, name="deadline", tagging="deadline", reordering="drain", again_first=True, initial_window=10)
SCHEMES: dict[str, Scheme] = {
    "PDQ(Full)": NAMED["pdq"],
    "PDQ(ES+ET)": NAMED["pdq-es-et"],
    "PDQ(ES)": NAMED["pdq-es"],
    "PDQ(Basic)": NAMED["pdq-basic"],
    "D3": NAMED["d3"],
    "RCP": NAMED["rcp"],
    "TCP": RENO,
    "8 priorities": EDF_8,
}
OPTIMUM = "optimum"
MEAN_DEADLINE_MS, LEAST_DEADLINE_MS = 20.0, 3.0


def flows(count: int, mean_bytes: int, seed: int, deadlines: bool) -> FlowList:
    """Sizes uniform up to twice the mean (2 KB at least), dealt out to the senders; deadlines exponential."""
    random = np.random.default_rng([seed, count, mean_bytes])
    size = random.integers(2_000, 2 * mean_bytes - 2_000, count, endpoint=True)
    due_ms = np.maximum(LEAST_DEADLINE_MS, random.exponential(MEAN_DEADLINE_MS, count))
    source = random.permutation(SENDERS)[np.arange(count) % len(SENDERS)]
    nothing = np.zeros(count, np.int64)
    due = np.rint(due_ms * 1e9).astype(np.int64) if deadlines else None
    return FlowList(nothing, size, source, nothing, deadline_ps=due)


def in_time(point: Point) -> float:
    """Application throughput: the share of flows that met their deadlines."""
    return float(point.counters["in_time"])


def mean_ms(point: Point) -> float:
    """Mean FCT."""
    return point.statistic("mean") / 1000


def most(found: FlowList) -> float:
    """The share that can be in time."""
    assert found.deadline_ps is not None
    return float(most_in_time(found.size_bytes, found.deadline_ps / 1e12, RATE_BPS).mean())


def least_ms(found: FlowList) -> float:
    """The least mean FCT."""
    return 1000 * float(shortest_first(found.size_bytes, RATE_BPS).mean())


@dataclass(frozen=True)
class Figure:
    """One of 3a, 3b, 3d, 3e: what grows along it, what is measured, and the optimum of the same flows."""

    x: str
    values: tuple[int, ...]
    made: Callable[[int, int], FlowList]
    """From a value and a seed."""
    y: str
    measure: Callable[[Point], float]
    optimum: Callable[[FlowList], float]
    schemes: tuple[str, ...]
    claims: tuple[tuple[str, AsPaper, int], ...]
    """PDQ(Full) beside whom, what the paper has, and from which value on."""

    def runs(self, scale: Scale) -> Runs:
        """A point a value, scheme and seed."""
        return {
            (value, name, seed): Experiment(
                TREE, SCHEMES[name], self.made(value, seed), header_bytes=56 if SCHEMES[name].can.rated else 40
            )
            for value in self.values
            for name in self.schemes
            for seed in scale.seeds
        }

    def tell(self, scale: Scale, points: Points) -> Story:
        """A row a value, a line a scheme."""
        lines: dict[str, list[Interval]] = {name: [] for name in (OPTIMUM, *self.schemes)}
        for value in self.values:
            best = [self.optimum(self.made(value, seed)) for seed in scale.seeds]
            lines[OPTIMUM].append(over_runs(best))
            for name in self.schemes:
                lines[name].append(over_runs(self.measure(points[value, name, seed]) for seed in scale.seeds))
        rows = [
            {self.x: f"{value:,}", **{name: line[at].text() for name, line in lines.items()}}
            for at, value in enumerate(self.values)
        ]
        panel = Panel(self.y, self.x, self.y, [Series(name, self.values, line) for name, line in lines.items()])
        verdicts = [self._beside(scale, points), *(self._judged(scale, points, *claim) for claim in self.claims)]
        return Story(rows, [panel], verdicts, " ".join(verdicts[1:]))

    def _ratio(self, scale: Scale, points: Points, value: int, base: str) -> Interval:
        """PDQ(Full) over another one, or the optimum: the same flows, seed by seed."""
        pairs = []
        for seed in scale.seeds:
            is_best = base == OPTIMUM
            best = self.optimum(self.made(value, seed)) if is_best else self.measure(points[value, base, seed])
            pairs.append((self.measure(points[value, "PDQ(Full)", seed]), best))
        return over_runs((ours / theirs for ours, theirs in pairs if ours > 0 and theirs > 0), ratios=True)

    def _beside(self, scale: Scale, points: Points) -> str:
        value = self.values[-1]
        each = ", ".join(f"{name} {self._ratio(scale, points, value, name)}" for name in (OPTIMUM, *self.schemes[1:]))
        return f"{self.y}, {self.x} {value:,}, PDQ(Full) over: {each}."

    def _judged(self, scale: Scale, points: Points, base: str, needs: AsPaper, least: int) -> str:
        """From the value `least` on."""
        seen = [self._ratio(scale, points, value, base) for value in self.values if value >= least]
        return said(
            Claim("PDQ(Full)", base, "all", self.y, needs, f"{self.x} from {max(least, self.values[0]):,} on"), seen
        )


WITH_DEADLINES = tuple(SCHEMES)
WITHOUT = ("PDQ(Full)", "PDQ(ES)", "PDQ(Basic)", "RCP", "TCP")
NEAR = ((OPTIMUM, AsPaper(0.95, 1.0), 5),)
"""The paper: near-optimal; a number is not given."""
LESS = (("RCP", AsPaper(0.7, 0.7), 5), ("TCP", AsPaper(0.7, 0.7), 5))
"""The paper: some 30 % less."""
COUNTS, SIZES = (1, 3, 5, 10, 15, 20, 25), (100_000, 150_000, 200_000, 250_000, 300_000, 350_000)
SHARE, FCT = "share of flows in time", "mean FCT, ms"
SCALES = {
    name: Scale(name, 25, tuple(range(1, 1 + seeds)), (1.0,))
    for name, seeds in (("quick", 2), ("medium", 10), ("full", 40))
}
SETTINGS = (
    "12 hosts at 1 Gb/s in two tiers below one root (17 nodes); 25.1 us a link one way (0.1 of propagation, 25 of "
    "processing), packets of 1,500 bytes, PDQ's, D3's and RCP's with 16 more for their header; ports of 4 MB, first in "
    "first out. All flows begin at one moment, from eleven hosts to the twelfth, as evenly as they go. No load is set: "
    "the abscissa is how much comes at once, 25 flows at most.",
    "Sizes uniform, 2 to 198 KB unless the abscissa is the mean; deadlines exponential, mean 20 ms, at least 3 ms.",
    "Optimum: all bytes at 1 Gb/s, no headers, no round trips: earliest deadline first with the fewest dropped, or "
    "shortest first (lab/sim/optimum.py).",
    "PDQ: K = 2, X = 0.2, lists of twice the sending flows; what its paper leaves open is said in engine/links/pdq.h "
    "and engine/schemes/rated.h. D3: alpha 0.1, beta 1, with quenching; it wants the last byte a round trip before "
    "the deadline. RCP: by an exact count of flows. TCP: NewReno with selective ACKs, initial window 2, least timeout "
    "1 ms.",
    "8 priorities: what stock switches give. Plain TCP with an initial window of 10 whose packets have the priority of "
    "the time that is left (deadline.h, the rule of this project's hosts: 1 ms for the first, twice as much each), "
    "strict priorities, no marks; before it climbs a flow drains. It drops nobody who is late.",
    "The paper has PDQ(Full) near the optimum, read here as 0.95 of it, and mean FCTs of some 30 % less than RCP's and "
    "TCP's; its curves are not printed as numbers.",
    "Cells: mean over seeds with its 95 % interval (Student's t).",
)


FIGURES = {
    "a": Figure(
        "flows", COUNTS, lambda n, seed: flows(n, 100_000, seed, True), SHARE, in_time, most, WITH_DEADLINES, NEAR
    ),
    "b": Figure(
        "mean bytes", SIZES, lambda b, seed: flows(3, b, seed, True), SHARE, in_time, most, WITH_DEADLINES, NEAR
    ),
    "d": Figure("flows", COUNTS, lambda n, seed: flows(n, 100_000, seed, False), FCT, mean_ms, least_ms, WITHOUT, LESS),
    "e": Figure("mean bytes", SIZES, lambda b, seed: flows(3, b, seed, False), FCT, mean_ms, least_ms, WITHOUT, LESS),
}
TITLES = {
    "a": "deadlines met by number of flows",
    "b": "deadlines met by size, three flows",
    "d": "mean FCT by number of flows",
    "e": "mean FCT by size, three flows",
}
NOTES = (
    "PDQ here is not as near to the optimum as in its paper. A paused flow hears of its turn by the next packet that "
    "it sends, up to a round trip late, and a link accepts one such flow a dampening period. The paper leaves open "
    "what decides that: the period, and what it takes for a round trip (some 150 us, it says; 201 us over these links, "
    "whose 25 us hosts pay too).",
)
PAGES = tuple(
    Page(f"pdq-3{letter}", f"PDQ Fig. 3{letter}: {TITLES[letter]}", SETTINGS, SCALES, figure.runs, figure.tell, NOTES)
    for letter, figure in FIGURES.items()
)
