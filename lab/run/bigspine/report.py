"""What the passes of `qclimb lab run bigspine` say, beside the fluid model, the packet simulator and the paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from lab.experiment.intervals import Interval, over_blocks
from lab.experiment.page import rewrite, table
from lab.run.bigspine import simulated
from lab.run.bigspine.traffic import MEDIUM_BYTES, SCHEMES, SMALL_BYTES, alone_us
from lab.run.settings import BigSpine
from lab.workload import guards
from lab.workload.passes import PassResult, column

BLOCK_S = 2.5
"""Flows that begin so near to each other share queues: they are drawn together."""
CLASSES = {
    "all": (0, 1 << 62),
    "small": (0, SMALL_BYTES),
    "medium": (SMALL_BYTES, MEDIUM_BYTES),
    "large": (MEDIUM_BYTES, 1 << 62),
}
ELSEWHERE = {
    (0.8, 4): "fluid model 1.18, packet simulator 1.07, the paper about 1.15",
    (0.8, 2): "the authors' own code 1.15 (K = 2)",
}
"""MLFQ / MP-MLFQ with N = 2, mean nFCT by load and spines."""
RATIOS = (
    ("mlfq-2", "mp-2"),
    ("mp-2", "mp-2-drain"),
    ("mlfq-5", "mp-2"),
    ("qclimb-2", "mp-qclimb-2"),
    ("qclimb-5", "mp-qclimb-2"),
    ("mp-2", "mp-qclimb-2"),
)
"""What the spines give, without bounds and with them; last, what the bounds give on spines."""
BEGIN, END = "<!-- measured -->", "<!-- end of what was measured -->"

Key = tuple[tuple[float, int], str, int]
"""Point (load, spines), scheme, seed."""
Results = Mapping[Key, PassResult]


def slowdown(results: Sequence[PassResult], spines: int) -> NDArray[np.float64]:
    """nFCT of all flows; NaN for one that did not end."""
    each = [column(one, "fct_us") / alone_us(column(one, "bytes"), spines) for one in results]
    return np.concatenate(each).astype(float)


def blocks(results: Sequence[PassResult]) -> NDArray[np.int64]:
    """Of each flow, by seed and time."""
    found, first = [], 0
    for one in results:
        number = (column(one, "due_us") / 1e6 // BLOCK_S).astype(np.int64)
        found.append(number + first)
        first += int(number.max()) + 1
    return np.concatenate(found)


def figure(results: Sequence[PassResult], spines: int, name: str, of: str, base: Sequence[PassResult] = ()) -> Interval:
    """Mean or p99 of nFCT of a class, or its ratio to `base`'s over the flows that ended under both."""
    low, high = CLASSES[name]
    size = np.concatenate([column(one, "bytes") for one in results])
    values, block = slowdown(results, spines), blocks(results)
    good = (size > low) & (size <= high) & np.isfinite(values)
    if base:
        other = slowdown(base, spines)
        good &= np.isfinite(other)
        return over_blocks(other[good], block[good], of, values[good])
    return over_blocks(values[good], block[good], of)


def lines(settings: BigSpine, found: Results) -> list[str]:
    """The page's measured part."""
    out = [
        f"`qclimb lab run bigspine`, {settings.seconds:g} s a pass; mean of nFCT with 95 % intervals over blocks.",
        "",
    ]
    for point in dict.fromkeys(key[0] for key in found):
        load, spines = point
        of = {
            name: {seed: one for (at, scheme, seed), one in found.items() if at == point and scheme == name}
            for name in SCHEMES
        }
        of = {name: passes for name, passes in of.items() if passes}
        seeds = sorted(set.intersection(*(set(passes) for passes in of.values())))
        if not seeds:
            continue
        chosen = {name: [passes[seed] for seed in seeds] for name, passes in of.items()}
        out += [f"## Load {load:g}, K = {spines}, seeds {', '.join(map(str, seeds))}", ""]
        if wrong := guards.all_trouble(one for each in chosen.values() for one in each):
            out += [
                "No times are told: the machine was too busy for them. What packets did is not a matter of time.",
                "",
            ]
            out += [*(f"- {sentence}" for sentence in wrong), ""]
        else:
            out += [_times(chosen, spines), "", _ratios(chosen, point), *_uneven(chosen, seeds), ""]
        out += [_counts(chosen), "", _carried(chosen, point), ""]
        out += [*_simulated(settings, chosen, point, seeds), ""]
    return out


def _times(chosen: Mapping[str, Sequence[PassResult]], spines: int) -> str:
    head = ["scheme", *(f"{name}, mean" for name in CLASSES), "all, p99"]
    rows = [
        [
            SCHEMES[name].title,
            *(str(figure(passes, spines, group, "mean")) for group in CLASSES),
            str(figure(passes, spines, "all", "p99")),
        ]
        for name, passes in chosen.items()
    ]
    return table(head, rows)


def _ratios(chosen: Mapping[str, Sequence[PassResult]], point: tuple[float, int]) -> str:
    _, spines = point
    told = []
    for name, of in RATIOS:
        if {name, of} <= chosen.keys():
            each = [f"{group} {figure(chosen[of], spines, group, 'mean', chosen[name])}" for group in CLASSES]
            each.append(f"all, p99 {figure(chosen[of], spines, 'all', 'p99', chosen[name])}")
            told.append(f"- {SCHEMES[name].title} / {SCHEMES[of].title}, same flows: {'; '.join(each)}.")
    if point in ELSEWHERE:
        told.append(f"- Elsewhere, N = 2, all, mean: {ELSEWHERE[point]}.")
    return "\n".join(told)


def _uneven(chosen: Mapping[str, Sequence[PassResult]], seeds: Sequence[int]) -> list[str]:
    """What makes passes of a seed unlike beside their scheme."""
    alike = [{name: passes[n] for name, passes in chosen.items()} for n in range(len(seeds))]
    return [f"- {sentence}." for each in alike for sentence in guards.uneven(each)]


def _simulated(
    settings: BigSpine, chosen: Mapping[str, Sequence[PassResult]], point: tuple[float, int], seeds: Sequence[int]
) -> list[str]:
    """The same arrivals in the packet simulator, for schemes without bounds."""
    load, spines = point
    plain = [name for name in chosen if not SCHEMES[name].has_bounds and not SCHEMES[name].drains]
    found = {name: simulated.slowdowns(name, load, spines, seeds, settings.seconds) for name in plain}
    rows = [[SCHEMES[name].title, *(f"{value:.2f}" for value in each.values())] for name, each in found.items()]
    if not rows:
        return []
    head = ["packet simulator, the same arrivals, rates and buffers", *(f"{name}, mean" for name in CLASSES)]
    return [table(head, rows)]


def _counts(chosen: Mapping[str, Sequence[PassResult]]) -> str:
    head = ["scheme", "flows", "unfinished", "segments", "retransmitted", "spurious", "timeouts", "drops", "CPU idle"]
    rows = []
    for name, passes in chosen.items():
        total = {key: sum(one.tcp.get(key, 0) for one in passes) for key in passes[0].tcp}
        flows = sum(len(one.id) for one in passes)
        sent = max(1, total["OutSegs"])
        spurious = total["TCPDSACKRecv"] + total["TCPDSACKOfoRecv"]
        rows.append(
            [
                SCHEMES[name].title,
                str(flows),
                str(sum(sum(one.failures.values()) for one in passes)),
                str(total["OutSegs"]),
                f"{total['RetransSegs']} ({total['RetransSegs'] / sent:.2%})",
                f"{spurious} ({spurious / sent:.2%})",
                str(total["TCPTimeouts"]),
                str(sum(sum(one.queue_drops.values()) for one in passes)),
                f"{np.mean([one.idle_share for one in passes]):.0%}",
            ]
        )
    return table(head, rows)


def _carried(chosen: Mapping[str, Sequence[PassResult]], point: tuple[float, int]) -> str:
    """Bytes at the first leaf's uplinks, as shares of all of them, beside what was foretold."""
    load, spines = point
    rows = []
    for name, passes in chosen.items():
        told = [one.settings.get("uplink_bytes", {}) for one in passes]
        if not all(told):
            continue
        total = sum(sum(map(sum, one.values())) for one in told)
        for number, foretold in enumerate(SCHEMES[name].carried(spines, load)):
            spine = f"s{number + 1}"
            queues = [sum(one[spine][queue] for one in told) for queue in range(8)]
            seen = [sum(part) / total for part in (queues[1:], queues[:1], queues)]
            if SCHEMES[name].has_bounds:  # how much the bounds leave to each class is not foretold
                cells = [f"{share:.3f}" for share in seen]
            else:
                cells = [f"{share:.3f} ({at:.3f})" for share, at in zip(seen, (*foretold, sum(foretold)), strict=True)]
            rows.append([SCHEMES[name].title, spine, *cells])
    return table(["scheme", "spine", "before the last queue (foretold)", "last queue", "together"], rows)


def report(settings: BigSpine, found: Results, console: Console) -> None:
    """Prints it, and writes the page that was asked for."""
    text = "\n".join(lines(settings, found))
    console.print(text, markup=False, highlight=False, soft_wrap=True)
    if settings.document is not None:
        rewrite(settings.document, "Big-Spine", BEGIN, END, text)
