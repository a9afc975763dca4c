"""pFabric (SIGCOMM'13), Figs. 17a to 17c: what a few priority queues by flow size reach beside pFabric itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from lab.figures.intervals import over_seeds, shown
from lab.figures.mg1 import Mg1
from lab.figures.page import FULL_FROM, Page, Panel, Points, Runs, Scale, Series, Story
from lab.figures.pfabric_queues import LONG, SETTINGS, TABLE, by_size, experiment
from lab.sim import Pfabric
from lab.sim.schemes import Scheme
from lab.sim.sizes import size_table

QUEUES = (2, 4, 8)
EQUAL, DCTCP = "4 queues, equal counts", "8 queues, DCTCP"
OPTIMAL = [f"{n} queues" for n in QUEUES]
LONG_WINDOWS = ", long windows"
JUMP = 1.5
"""A rise this many times pFabric's is called one."""
UNBOUND = [f"{n} queues{LONG_WINDOWS}" for n in (2, 8)]
SCALES = {
    "quick": Scale("quick", 500, (1,), (0.4, 0.8)),
    "medium": Scale("medium", 1_500, (1, 2, 3), (0.4, 0.8)),
    "full": Scale("full", FULL_FROM, (1, 2, 3), (0.4, 0.8)),
}


def scheme_of(name: str, load: float) -> Scheme:
    """By its name on the page."""
    if name == "pFabric":
        return Pfabric()
    if name == EQUAL:
        return by_size(tuple(int(size) for size in size_table(TABLE).quantile([0.25, 0.5, 0.75])))
    ends = Mg1(TABLE, load).best_ends(int(name.split()[0]))
    return by_size(ends, name == DCTCP, LONG if name.endswith(LONG_WINDOWS) else 23)


def runs_of(names: Sequence[str]) -> Callable[[Scale], Runs]:
    """A point a scheme, load and seed."""
    return lambda scale: {
        (name, load, seed): experiment(scheme_of(name, load), load, seed, scale)
        for name in names
        for load in scale.loads
        for seed in scale.seeds
    }


class Ratio:
    """Of two schemes' statistics, seed by seed over the same flows."""

    def __init__(self, scale: Scale, points: Points) -> None:
        self._scale, self._points = scale, points

    def of(self, name: str, load: float, statistic: str, size_class: str, what: str) -> list[float]:
        """A value a seed."""
        return [self._points[name, load, seed].statistic(statistic, size_class, what) for seed in self._scale.seeds]

    def __call__(
        self,
        name: str,
        base: str,
        load: float,
        statistic: str = "mean",
        size_class: str = "all",
        what: str = "slowdown",
    ) -> tuple[float, float]:
        """Mean over seeds, and half its interval."""
        pair = [np.array(self.of(each, load, statistic, size_class, what)) for each in (name, base)]
        return over_seeds(list(pair[0] / pair[1]))


def panel(
    title: str, y: str, scale: Scale, names: Sequence[str], value: Callable[[str, float], tuple[float, float]]
) -> Panel:
    """A line a scheme over load."""
    lines = []
    for name in names:
        each = [value(name, load) for load in scale.loads]
        lines.append(Series(name, scale.loads, [v for v, _ in each], [float(np.nan_to_num(h)) for _, h in each]))
    return Panel(title, "load", y, lines)


THRESHOLDS = (
    "Where queues part: the exact minimum of the M/G/1 model's mean normalised FCT for each load and number of queues "
    "(lab/figures/mg1.py). The paper's own thresholds are not known to us beyond Fig. 16's two."
)
OTHERS: tuple[str, ...] = (
    f"`{DCTCP}`: the same queues under DCTCP (marks from 15 packets on in a 10G port, 60 at 40G, least timeout 2 ms).",
    "pFabric: YAPS's parameters (36,864 B a port, windows 12 to 15 packets, timeout 45 us), ECMP as the others.",
)


def tell_a(scale: Scale, points: Points) -> Story:
    """Fig. 17a."""
    ratio, names = Ratio(scale, points), [*OPTIMAL, DCTCP]
    rows = [
        {
            "load": f"{load}",
            "scheme": name,
            "mean normalised FCT": shown(*over_seeds(ratio.of(name, load, "mean", "all", "slowdown"))),
            "over pFabric's": shown(*ratio(name, "pFabric", load)),
            "mean FCT over pFabric's": shown(*ratio(name, "pFabric", load, what="fct_us")),
            "small mean FCT over": shown(*ratio(name, "pFabric", load, size_class="small", what="fct_us")),
            "large mean FCT over": shown(*ratio(name, "pFabric", load, size_class="large", what="fct_us")),
        }
        for load in scale.loads
        for name in [*names, "pFabric"]
    ]
    panels = [
        panel(
            "17a: mean normalised FCT",
            "FCT / alone",
            scale,
            [*names, "pFabric"],
            lambda name, load: over_seeds(ratio.of(name, load, "mean", "all", "slowdown")),
        ),
        panel(
            "mean FCT over pFabric's",
            "ratio",
            scale,
            names,
            lambda name, load: ratio(name, "pFabric", load, what="fct_us"),
        ),
    ]
    top = max(scale.loads)
    over = {name: [ratio(name, "pFabric", load)[0] for load in scale.loads] for name in names}
    falls = all(a >= b for a, b in zip(over["2 queues"], over["8 queues"], strict=True))
    last = max(over["8 queues"])
    found = [
        "Claim: with 8 queues the average comes close to pFabric's. Here mean normalised FCT over pFabric's, "
        + "; ".join(
            f"{name} {', '.join(f'{value:.2f} at {load}' for value, load in zip(over[name], scale.loads, strict=True))}"
            for name in names
        )
        + ".",
        f"More queues are {'nowhere worse' if falls else 'not always better'} (2 against 8).",
    ]
    word = "reproduced" if falls and last < 1.25 else "direction reproduced" if falls else "not reproduced"
    return Story(
        rows,
        panels,
        found,
        f"{word}: 8 queues reach {last:.2f} times pFabric's mean normalised FCT (2 queues: "
        f"{over['2 queues'][-1]:.2f} at {top})",
    )


def tell_b(scale: Scale, points: Points) -> Story:
    """Fig. 17b."""
    ratio, names = Ratio(scale, points), [*OPTIMAL, DCTCP, *UNBOUND, "pFabric"]
    rows = [
        {
            "load": f"{load}",
            "scheme": name,
            "p99 normalised FCT, small": shown(*over_seeds(ratio.of(name, load, "p99", "small", "slowdown"))),
            "p99 FCT, small, us": shown(*over_seeds(ratio.of(name, load, "p99", "small", "fct_us")), 0),
            "over 2 queues'": shown(*ratio(name, "2 queues", load, "p99", "small")),
            "dropped, % of packets": f"{100 * dropped(scale, points, name, load):.2f}",
        }
        for load in scale.loads
        for name in names
    ]
    panels = [
        panel(
            "17b: p99 normalised FCT of small flows",
            "FCT / alone",
            scale,
            names,
            lambda name, load: over_seeds(ratio.of(name, load, "p99", "small", "slowdown")),
        )
    ]
    top, low = max(scale.loads), min(scale.loads)

    def rise(name: str) -> float:
        """The p99 at the highest load over that at the lowest."""
        high, base = (np.mean(ratio.of(name, load, "p99", "small", "slowdown")) for load in (top, low))
        return float(high / base)

    over_two = {name: ratio(name, f"2{name[1:]}", top, "p99", "small")[0] for name in ("8 queues", UNBOUND[1])}
    lost = {name: f"{dropped(scale, points, name, top):.2%}" for name in ("8 queues", *UNBOUND)}
    found = [
        "Claim: with 8 queues 80 of the 150 packets are reserved and 70 shared, and the p99 of small flows jumps at "
        f"high load. Here it rises from {low} to {top} by a factor of {rise('8 queues'):.2f} with 8 queues, "
        f"{rise('2 queues'):.2f} with 2 and {rise('pFabric'):.2f} with pFabric; at {top} 8 queues have "
        f"{over_two['8 queues']:.2f} of 2 queues' p99 and drop {lost['8 queues']} of packets.",
        "With windows that nothing bounds, so that ports fill: the rise is "
        f"{rise(UNBOUND[1]):.2f} with 8 queues and {rise(UNBOUND[0]):.2f} with 2; at {top} 8 queues have "
        f"{over_two[UNBOUND[1]]:.2f} of 2 queues' p99 and drop {lost[UNBOUND[1]]} of packets (2 queues "
        f"{lost[UNBOUND[0]]}).",
    ]

    def jumps(name: str) -> bool:
        return rise(name) > JUMP * rise("pFabric") and over_two[name] > 1

    word = "reproduced" if jumps("8 queues") else "not reproduced"
    other = "jumps" if jumps(UNBOUND[1]) else "does not jump either"
    return Story(
        rows,
        panels,
        found,
        f"{word}: from {low} to {top} the p99 of small flows rises by {rise('8 queues'):.2f} with 8 queues, by "
        f"{rise('pFabric'):.2f} with pFabric ({over_two['8 queues']:.2f} of 2 queues' at {top}); with windows that "
        f"nothing bounds it {other} ({rise(UNBOUND[1]):.2f})",
    )


def dropped(scale: Scale, points: Points, name: str, load: float) -> float:
    """Share of the data packets sent."""
    counters = [points[name, load, seed].counters for seed in scale.seeds]
    return float(sum(one["drops"] for one in counters) / sum(one["data_packets"] for one in counters))


def tell_c(scale: Scale, points: Points) -> Story:
    """Fig. 17c."""
    ratio, best = Ratio(scale, points), "4 queues"
    rows = [
        {
            "load": f"{load}",
            "optimal part at, KB": ", ".join(f"{end / 1000:.0f}" for end in Mg1(TABLE, load).best_ends(4)),
            "mean normalised FCT": shown(*over_seeds(ratio.of(best, load, "mean", "all", "slowdown"))),
            "equal counts": shown(*over_seeds(ratio.of(EQUAL, load, "mean", "all", "slowdown"))),
            "optimal / equal": shown(*ratio(best, EQUAL, load)),
            "mean FCT, optimal / equal": shown(*ratio(best, EQUAL, load, what="fct_us")),
            "small": shown(*ratio(best, EQUAL, load, size_class="small")),
            "medium": shown(*ratio(best, EQUAL, load, size_class="medium")),
            "large": shown(*ratio(best, EQUAL, load, size_class="large")),
        }
        for load in scale.loads
    ]
    panels = [
        panel(
            "17c: mean normalised FCT",
            "FCT / alone",
            scale,
            [best, EQUAL],
            lambda name, load: over_seeds(ratio.of(name, load, "mean", "all", "slowdown")),
        )
    ]
    top = max(scale.loads)
    normal, plain = 1 - ratio(best, EQUAL, top)[0], 1 - ratio(best, EQUAL, top, what="fct_us")[0]
    equal = ", ".join(f"{size / 1000:.0f}" for size in size_table(TABLE).quantile([0.25, 0.5, 0.75]))
    found = [
        "Claim: at load 0.8 the optimal split's average FCT is more than 30 % lower than that of equal counts "
        f"(parts at {equal} KB). "
        f"Here at {top}: {normal:.0%} lower as mean normalised FCT, {plain:.0%} as mean FCT.",
    ]
    word = "reproduced" if normal > 0.3 else "direction reproduced" if normal > 0 else "not reproduced"
    return Story(
        rows,
        panels,
        found,
        f"{word}: optimal thresholds are {normal:.0%} below equal counts at {top} (the paper: more than 30 %)",
    )


LONG_SAID = (
    f"`{LONG_WINDOWS[2:]}`: the same TCP with windows of up to {LONG:,} packets in place of 23: only losses hold it "
    "back."
)


def page(letter: str, title: str, schemes: Sequence[str], tell: Callable[[Scale, Points], Story]) -> Page:
    """One of the three."""
    settings = [*SETTINGS, THRESHOLDS, *(OTHERS if DCTCP in schemes else ())]
    settings += [LONG_SAID] if UNBOUND[0] in schemes else []
    return Page(f"pfabric-17{letter}", f"pFabric Fig. 17{letter}: {title}", settings, SCALES, runs_of(schemes), tell)


SCHEMES = [*OPTIMAL, DCTCP, "pFabric"]
A = page("a", "average FCT with 2, 4 and 8 queues", SCHEMES, tell_a)
B = page("b", "small flows' p99 with 2, 4 and 8 queues", [*SCHEMES, *UNBOUND], tell_b)
C = page("c", "four queues, optimal against equal counts", ["4 queues", EQUAL], tell_c)
