"""PDQ (SIGCOMM'12), Figs. 6 and 7: rates and the queue over time, at the link that all flows share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from lab.experiment.claims import TOLERANCE
from lab.experiment.intervals import Interval
from lab.figures.page import Page, Panel, Paper, Points, Runs, Scale, Series, Story
from lab.figures.pages.pdq.settings import over
from lab.sim import FlowList, Watch, star

RATE_BPS = 10**9
PACKET = 1516
NAN = float("nan")


@dataclass(frozen=True)
class Dynamics:
    """Some flows, from host 1 on to host 0, whose link is watched."""

    flows: Callable[[], FlowList]
    hosts: int
    step_us: float
    shown: Callable[[Any], dict[str, list[int]]]
    """Lines of the first panel: sums of flows' bytes by step."""
    said: Callable[[Any, float, Any], tuple[list[dict[str, str]], list[str]]]
    """Table and verdicts, from what was watched, the step in ms, and the point."""
    until_ms: float

    def runs(self, scale: Scale) -> Runs:
        """One."""
        fabric = star(self.hosts, RATE_BPS, 25_100)
        return {("PDQ(Full)",): over(fabric, "PDQ(Full)", self.flows(), watch=Watch(self.hosts, self.step_us))}

    def tell(self, scale: Scale, points: Points) -> Story:
        """Rates of flows, utilisation, the queue."""
        point = points["PDQ(Full)",]
        watched = point.counters["watched"]
        step_ms = self.step_us / 1000
        steps = int(self.until_ms / step_ms)
        full = RATE_BPS / 8 * step_ms / 1000
        x = [(n + 0.5) * step_ms for n in range(steps)]

        def line(title: str, values: list[int], unit: float) -> Series:
            padded = (list(values) + [0] * steps)[:steps]
            return Series(title, x, [Interval(value / unit, NAN, NAN) for value in padded])

        rates = [line(title, values, full / 1.0) for title, values in self.shown(watched).items()]
        rows, verdicts = self.said(watched, step_ms, point)
        panels = [
            Panel("rates", "ms", "Gb/s at the shared link", rates),
            Panel("utilisation", "ms", "share of the link", [line("PDQ(Full)", watched["sent_bytes"], full)]),
            Panel(
                "queue, the most in each step",
                "ms",
                "packets",
                [line("PDQ(Full)", watched["queue_bytes"], PACKET)],
                papers=[Paper("PDQ(Full)", [10.0, 19.0], 5, 10)] if self.until_ms < 30 else (),
            ),
        ]
        return Story(rows, panels, verdicts, " ".join(verdicts))


def five() -> FlowList:
    """Of about 1 MB, the first the smallest."""
    nothing = np.zeros(5, np.int64)
    return FlowList(nothing, 1_000_000 + 20_000 * np.arange(-2, 3), np.arange(1, 6), nothing)


def said_of_five(watched: Any, step_ms: float, point: Any) -> tuple[list[dict[str, str]], list[str]]:
    """Ends of flows, utilisation until the last, the queue."""
    ends = point.fct_us / 1000
    sent = np.array(watched["sent_bytes"])[: int(ends.max() / step_ms)]
    busy = sent[round(1 / step_ms) :].mean() / (RATE_BPS / 8 * step_ms / 1000)
    most = max(watched["queue_bytes"]) / PACKET
    rows = [{"flow": f"{n + 1}", "ends, ms": f"{end:.2f}"} for n, end in enumerate(ends)]
    lost = point.counters["drops"]
    is_as = abs(ends.max() / 42 - 1) <= TOLERANCE and busy > 0.97 and not lost
    verdict = (
        f"The last of five flows ends at {ends.max():.1f} ms (the paper: about 42; 40 of data alone), the link is busy "
        f"{busy:.1%} of the time from 1 ms on (near 100 %), {lost} packets are lost (none): "
        f"{'as in the paper' if is_as else 'not as in the paper'}."
    )
    queue = (
        f"At most {most:.1f} packets wait (the paper: a very small queue): {'as' if most <= 10 else 'not as'} in "
        "the paper, "
        "by its ten packets of Fig. 7."
    )
    return rows, [verdict, queue]


def burst() -> FlowList:
    """A long one, then fifty of 20 KB."""
    start = np.r_[0, np.full(50, 10 * 10**9)]
    size = np.r_[20_000_000, 20_000 + np.random.default_rng(7).integers(0, 400, 50)]
    return FlowList(start, size, np.arange(1, 52), np.zeros(51, np.int64))


def said_of_burst(watched: Any, step_ms: float, point: Any) -> tuple[list[dict[str, str]], list[str]]:
    """While the short ones are there."""
    over_ms = 10 + point.fct_us[1:].max() / 1000
    during = slice(round(10 / step_ms), int(over_ms / step_ms))
    full = RATE_BPS / 8 * step_ms / 1000
    queue = np.array(watched["queue_bytes"])[during] / PACKET
    busy = np.array(watched["sent_bytes"])[during].mean() / full
    short = sum(sum(flow[during]) for flow in watched["of_flow"][1:])
    rows = [
        {"": "short flows over at, ms", "here": f"{over_ms:.1f}", "the paper": "19"},
        {"": "utilisation until then", "here": f"{busy:.1%}", "the paper": "91.7 %"},
        {"": "of it by short flows", "here": f"{short / full / len(queue):.1%}", "the paper": "not stated"},
        {
            "": "queue, packets: median, most",
            "here": f"{np.median(queue):.1f}, {queue.max():.1f}",
            "the paper": "5 to 10",
        },
        {"": "packets lost", "here": f"{point.counters['drops']}", "the paper": "not stated"},
    ]
    is_busy = abs(busy / 0.917 - 1) <= TOLERANCE and abs((over_ms - 10) / 9 - 1) <= TOLERANCE
    verdict = (
        f"While fifty short flows preempt a long one the link is busy {busy:.1%} of the time (the paper: 91.7 %), "
        "they end "
        f"at {over_ms:.1f} ms (19): {'as in the paper' if is_busy else 'not as in the paper'}."
    )
    waits = (
        f"Meanwhile {np.median(queue):.0f} packets wait (median of the most in each step), at most "
        f"{queue.max():.0f} (the "
        f"paper: 5 to 10): {'as' if queue.max() <= 11 else 'not as'} in the paper."
    )
    return rows, [verdict, waits]


FIVE = Dynamics(
    five,
    6,
    500.0,
    lambda watched: {f"flow {n + 1}": values for n, values in enumerate(watched["of_flow"])},
    said_of_five,
    44.0,
)


def of_two_kinds(watched: Any) -> dict[str, list[int]]:
    """The long one, and all short ones together."""
    longest = max(map(len, watched["of_flow"]))
    padded = np.array([flow + [0] * (longest - len(flow)) for flow in watched["of_flow"]])
    return {"long flow": padded[0].tolist(), "fifty short ones": padded[1:].sum(0).tolist()}


BURST = Dynamics(burst, 52, 500.0, of_two_kinds, said_of_burst, 28.0)
FABRIC_SAID = (
    "Hosts on one switch, all sending to one (the paper's single bottleneck); 1 Gb/s, 25.1 us a link, PDQ(Full). "
    "A step is "
    "0.5 ms; a packet counts where it begins to leave."
)
SCALE = {name: Scale(name, 1, (1,), (1.0,)) for name in ("quick", "medium", "full")}
PAGE_6 = Page(
    "pdq-6",
    "PDQ Fig. 6: five flows follow each other",
    (FABRIC_SAID, "Five flows of 0.96, 0.98, 1.00, 1.02 and 1.04 MB begin at once."),
    SCALE,
    FIVE.runs,
    FIVE.tell,
)
PAGE_7 = Page(
    "pdq-7",
    "PDQ Fig. 7: fifty short flows preempt a long one",
    (FABRIC_SAID, "A flow of 20 MB begins at 0, fifty of 20.0 to 20.4 KB at 10 ms, each from a host of its own."),
    SCALE,
    BURST.runs,
    BURST.tell,
    (
        "Where the link's 10.4 ms go: 8.4 to the short flows' packets, 1.1 to the long one's, 0.6 to questions of "
        "those that wait, 0.3 to nobody. The paper's 9 ms leave 0.6 for the last three together. The long flow sends "
        "while no more than two short ones do, for early start counts flows that are nearly done for nothing. Tried: "
        "dampening of half a round trip to four (over at 20.0 to 21.1 ms), K of 1 to 3 (20.8 to 20.0), X of 0 to 1 "
        "(20.4 to 22.0), links of 12.5 us (19.6). None gives 19; which rule of the paper's holds its long flow back "
        "is not known.",
        "More than 34 packets wait in the first 1.2 ms alone: all fifty ask at one moment, and of flows that come anew "
        "each that is more critical than those before it begins at once. With sizes that grow with flows' numbers, as "
        "the paper says of Fig. 6, at most 36 wait, and with dampening of two round trips besides 9, as in the paper; "
        "the link is busy 88 % of the time then, and the short flows are over at 21.0 ms.",
    ),
)
