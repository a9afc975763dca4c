"""The report: Markdown tables and one plot a figure, beside what the paper claims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean

import click
import matplotlib.pyplot as plt
from rich.console import Console

from lab.experiment.claims import AtLeast, AtMost, Need, NotWorse, judge
from lab.experiment.intervals import over_runs
from lab.experiment.page import table
from lab.experiment.plots import colours, svg_of
from lab.experiment.store import replace_text
from lab.run.optax.points import BY_KERNEL, Point
from lab.run.optax.run import BlocksFound, Found, run_all_blocks, run_optax
from lab.run.optax.tasks import Result
from lab.run.settings import Optax

PAPER = {
    "fig10": "1.43 with 2 tasks, 1.59 with 10",
    "fig11": "within [1.47, 1.77]",
    "fig12": "up to 1.46 at the highest rate, none at the lowest",
    "fig13": "small tasks 2 to 3.9 over fair sharing, about 1.2 over priority alone; large ones lose < 0.1 %",
    "blocks": "small reads more than 5 times sooner, large ones as fast",
}
TITLES = {
    "base": "4 tasks x 8 flows x 256 KB",
    "bulk": "A flow of 100 MB beside them",
    "slow": "A head that can't fill the link: 8 flows x 512 KB at 19 Mb/s, then 3 tasks of 8 x 256 KB",
    "fig10": "Figure 10: number of tasks, 8 flows x 256 KB each",
    "fig11": "Figure 11: 8 tasks, volume x number of flows",
    "fig12": "Figure 12: load by tasks of 8 flows x 64 KB that arrive at random (40 a run)",
    "fig13": "Figure 13: small tasks mixed with large ones, by Table 1",
}
WANTED_GAIN, WANTED_MAKESPAN, WANTED_BULK, WANTED_BESIDE = 1.3, 1.02, 0.9, 1.2


def completion_s(results: Sequence[Result], name: str = "small") -> float:
    """Mean task completion time over all runs."""
    return mean(done.duration_s for result in results for done in result.of(name))


def gain(runs: Mapping[str, Sequence[Result]], scheme: str, against: str = "fair", name: str = "small") -> float:
    """How many times sooner tasks are complete on average."""
    return completion_s(runs[against], name) / completion_s(runs[scheme], name)


def single_gains(runs: Mapping[str, Sequence[Result]], scheme: str, against: str = "fair") -> list[float]:
    """The gain of each run against the run of the same number."""
    return [a.mean_s / b.mean_s for a, b in zip(runs[against], runs[scheme], strict=True)]


def spread(runs: Mapping[str, Sequence[Result]], scheme: str, against: str = "fair") -> str:
    """The smallest and largest gain of one run."""
    each = single_gains(runs, scheme, against)
    return f"{min(each):.2f} to {max(each):.2f}"


def number_of(runs: Sequence[int]) -> str:
    """How often points were measured, in words: `2 runs`, `1 to 3 runs`."""
    least, most = min(runs), max(runs)
    return f"{least} run{'s' * (most > 1)}" if least == most else f"{least} to {most} runs"


def makespan(runs: Mapping[str, Sequence[Result]], scheme: str) -> float:
    """Mean makespan over fair sharing's."""
    return mean(r.makespan_s for r in runs[scheme]) / mean(r.makespan_s for r in runs["fair"])


def bulk_rates(result: Result) -> tuple[float, float, float]:
    """Bytes a second of the large flow before the small tasks, in the first second after them, and in the next."""
    (large,) = result.of("large")
    end_s = max(done.end_s for done in result.of("small"))
    samples = ((0.0, 0), *large.samples)

    def between(start: float, end: float) -> float:
        inside = [(at, size) for at, size in samples if start <= at <= end]
        return (inside[-1][1] - inside[0][1]) / (inside[-1][0] - inside[0][0]) if len(inside) > 1 else float("nan")

    return between(0.3, 1.0), between(end_s, end_s + 1), between(end_s + 1, end_s + 2)


def said(claim: str, need: Need, seen: Sequence[float], digits: int = 2) -> str:
    """One line: a claim about a ratio that each run has, judged by the interval over runs."""
    found = over_runs(seen, ratios=True)
    return f"- **{judge(need, [found])}**: {claim} ({found.text(digits)})"


def judged(runs: Mapping[str, Sequence[Result]]) -> list[str]:
    """The schemes of which the claims are: OPTAX, by what schedules."""
    return [scheme for scheme in ("optax", BY_KERNEL) if scheme in runs]


def _base(by_point: Mapping[Point, Mapping[str, Sequence[Result]]]) -> str:
    lines, claims = [], []
    for point, runs in by_point.items():
        for scheme in point.schemes:
            lines.append(
                [
                    point.x,
                    scheme,
                    str(len(runs[scheme])),
                    f"{completion_s(runs[scheme]) * 1e3:.0f}",
                    f"{gain(runs, scheme):.2f}",
                    spread(runs, scheme),
                    f"{makespan(runs, scheme):.3f}",
                    f"{mean(result.idle_share for result in runs[scheme]):.0%}",
                ]
            )
        for scheme in judged(runs):
            case = f"{point.x}, {scheme}"
            claim = f"{case}: mean task completion at least {WANTED_GAIN} times better than fair sharing"
            claims.append(said(claim, AtLeast(WANTED_GAIN), single_gains(runs, scheme)))
            spans = [ours.makespan_s / fair.makespan_s for ours, fair in zip(runs[scheme], runs["fair"], strict=True)]
            claims.append(said(f"{case}: makespan within 2 %", AtMost(WANTED_MAKESPAN), spans, 3))
    head = ["application", "scheme", "runs", "mean ms", "gain", "single runs", "makespan / fair", "CPU idle"]
    return table(head, lines) + "\n\n" + "\n".join(claims)


def _bulk(by_point: Mapping[Point, Mapping[str, Sequence[Result]]]) -> str:
    lines, claims = [], []
    for runs in by_point.values():
        for scheme, results in runs.items():
            rates = [bulk_rates(result) for result in results]
            before, first, later = (mean(rate[n] for rate in rates) * 8 / 1e6 for n in range(3))
            lines.append(
                [
                    scheme,
                    str(len(results)),
                    f"{completion_s(results) * 1e3:.0f}",
                    f"{gain(runs, scheme):.2f}",
                    spread(runs, scheme),
                    f"{before:.1f}",
                    f"{first:.1f}",
                    f"{later:.1f}",
                    f"{completion_s(results, 'large'):.2f}",
                ]
            )
            if scheme in judged(runs):
                claim = (
                    f"{scheme}: the large flow is back at its rate (90 % of before) within 1 s after the small tasks"
                )
                claims.append(said(claim, AtLeast(WANTED_BULK), [rate[2] / rate[0] for rate in rates]))
                gains = single_gains(runs, scheme)
                claims.append(said(f"{scheme}: tasks gain at least {WANTED_BESIDE}", AtLeast(WANTED_BESIDE), gains))
    head = [
        "scheme",
        "runs",
        "small tasks mean ms",
        "gain",
        "single runs",
        "large Mb/s before",
        "first second after",
        "then",
        "large s",
    ]
    return table(head, lines) + "\n\n" + "\n".join(claims)


def _slow(by_point: Mapping[Point, Mapping[str, Sequence[Result]]]) -> str:
    lines, claims = [], []
    for runs in by_point.values():
        for scheme, results in runs.items():
            each = [f"{completion_s(results, name) * 1e3:.0f}" for name in ("small", "slow")]
            lines.append(
                [scheme, str(len(results)), *each, f"{gain(runs, scheme):.2f}", f"{makespan(runs, scheme):.3f}"]
            )
        for scheme in judged(runs):
            later = [1 / each for each in single_gains(runs, scheme)]
            claim = f"{scheme}: those behind the slow head are no later than with fair sharing"
            claims.append(said(claim, NotWorse(), later))
    head = ["scheme", "runs", "behind, mean ms", "the slow one ms", "gain of those behind", "makespan / fair"]
    return table(head, lines) + "\n\n" + "\n".join(claims)


def _gains(by_point: Mapping[Point, Mapping[str, Sequence[Result]]]) -> str:
    lines = []
    for point, runs in by_point.items():
        for name in judged(runs):
            lines.append(
                [
                    point.x,
                    name,
                    str(len(runs[name])),
                    *(f"{completion_s(runs[scheme]) * 1e3:.0f}" for scheme in ("fair", name)),
                    f"{gain(runs, name):.2f}",
                    spread(runs, name),
                    f"{makespan(runs, name):.3f}",
                ]
            )
    return table(["point", "scheme", "runs", "fair ms", "OPTAX ms", "gain", "single runs", "makespan / fair"], lines)


def _mixes(by_point: Mapping[Point, Mapping[str, Sequence[Result]]]) -> str:
    lines = []
    for point, runs in by_point.items():
        for scheme in point.schemes:
            lines.append(
                [
                    point.x,
                    scheme,
                    str(len(runs[scheme])),
                    *(f"{completion_s(runs[scheme], name) * 1e3:.0f}" for name in ("small", "large")),
                    *(f"{gain(runs, scheme, 'fair', name):.2f}" for name in ("small", "large")),
                    *(f"{gain(runs, scheme, 'priority', name):.3f}" for name in ("small", "large")),
                ]
            )
    head = ["mix", "scheme", "runs", "small ms", "large ms", "small / fair", "large / fair"]
    return table([*head, "small / priority", "large / priority"], lines)


def _blocks(read: BlocksFound) -> str:
    lines, claims = [], []
    for name, runs in read.items():
        fair = runs.get("fair")
        for scheme, results in runs.items():
            latency, p99 = mean(r.latency_us for r in results), mean(r.p99_us for r in results)
            large = mean(r.large_bytes_per_s for r in results)
            gain = mean(r.latency_us for r in fair) / latency if fair else float("nan")
            rates = [f"{mean(r.small_per_s for r in results):.0f}", f"{large * 8e-6:.1f}"]
            both = [f"{latency / 1e3:.2f}", f"{p99 / 1e3:.1f}"]
            lines.append([name, scheme, str(len(results)), *both, f"{gain:.2f}", *rates])
            if scheme.startswith("optax-priority") and fair:
                pairs = list(zip(results, fair, strict=False))
                sooner = [theirs.latency_us / ours.latency_us for ours, theirs in pairs]
                kept = [ours.large_bytes_per_s / theirs.large_bytes_per_s for ours, theirs in pairs]
                claims.append(said(f"{name}, {scheme}: small reads at least 5 times sooner", AtLeast(5), sooner, 1))
                claims.append(said(f"{name}, {scheme}: large reads as fast, within 5 %", AtLeast(0.95), kept, 3))
    head = ["reads", "scheme", "runs", "small, mean ms", "p99 ms", "gain", "small a second", "large Mb/s"]
    return table(head, lines) + "\n\n" + "\n".join(claims)


def plot(figure: str, by_point: Mapping[Point, Mapping[str, Sequence[Result]]]) -> str:
    """A figure of gains over fair sharing, as SVG: a bar at a point spans its single runs, where there are several."""
    drawing, axes = plt.subplots(figsize=(6, 3.2))
    try:
        names = [point.x for point in by_point]
        colour = colours(next(iter(by_point)).schemes)
        for scheme in next(iter(by_point)).schemes[1:]:
            gains = [gain(runs, scheme) for runs in by_point.values()]
            singles = [single_gains(runs, scheme) for runs in by_point.values()]
            below = [max(0.0, mid - min(each)) for mid, each in zip(gains, singles, strict=True)]
            above = [max(0.0, max(each) - mid) for mid, each in zip(gains, singles, strict=True)]
            label = f"{scheme} ({number_of([len(each) for each in singles])})"
            axes.errorbar(
                names, gains, (below, above), fmt="o-", capsize=3, elinewidth=1, label=label, color=colour[scheme]
            )
        for value in {"fig10": (1.43, 1.59), "fig11": (1.47, 1.77), "fig12": (1.0, 1.46), "fig13": (2.0, 3.9)}[figure]:
            axes.axhline(value, color="#888888", ls=":", lw=1)
        axes.plot([], [], color="#888888", ls=":", label="the paper's range (10 Gb/s, against ICTCP)")
        axes.set_ylabel("gain over fair sharing")
        axes.set_title(TITLES[figure], loc="left", fontsize=9)
        axes.tick_params(axis="x", labelsize=6 if len(names) > 8 else 8)
        axes.legend(fontsize=7, frameon=False)
        drawing.tight_layout()
        return svg_of(drawing)
    finally:
        plt.close(drawing)


def write_report(found: Found, path: Path, how: str, read: BlocksFound | None = None) -> str:
    """Writes `path` and its plots beside it; returns the Markdown."""
    parts = ["# OPTAX at receivers against fair sharing", how]
    path.parent.mkdir(parents=True, exist_ok=True)
    for figure in dict.fromkeys(point.figure for point in found):
        by_point = {point: runs for point, runs in found.items() if point.figure == figure}
        parts.append(f"## {TITLES[figure]}")
        if figure in PAPER:
            parts.append(f"The paper: {PAPER[figure]}.")
            replace_text(path.parent / f"{path.stem}-{figure}.svg", plot(figure, by_point))
            parts.append(f"![{TITLES[figure]}]({path.stem}-{figure}.svg)")
        show = {"base": _base, "bulk": _bulk, "slow": _slow, "fig13": _mixes}.get(figure, _gains)
        parts.append(show(by_point))
    if read:
        parts += [
            "## Figures 15 and 16: reads of 4 KB beside reads of 4 MB (nbdkit, fio)",
            f"The paper: {PAPER['blocks']}.",
        ]
        parts.append(_blocks(read))
    text = "\n\n".join(parts) + "\n"
    replace_text(path, text)
    return text


def main(settings: Optax) -> int:
    """Measures what is missing, writes the page and shows it."""
    console = Console(stderr=True)
    found, read = run_optax(settings, console), run_all_blocks(settings, console)
    how = f"One port of {settings.rate_mbps} Mb/s; `qclimb lab run optax`."
    click.echo(write_report(found, settings.folder / "optax.md", how, read))
    return 0
