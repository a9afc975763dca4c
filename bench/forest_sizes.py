"""How small a forest may be: coverage, tightness and nanoseconds by trees and depth, on the shipped recordings.

    python bench/forest_sizes.py grow FOLDER          # forests of three seeds; minutes, the clock does not matter
    python bench/forest_sizes.py time FOLDER          # inference; seconds, on a machine that does nothing else
    python bench/forest_sizes.py show FOLDER --plot forest-sizes.png

Each forest is grown and calibrated as `qclimb model train` does, with the first write as a feature, and tested on the
last 20 % of each traffic's flows. Inference is forest.h's on the tested flows themselves, warm, and cold (64 MB were
written before each: what a host pays that does something else between two flows); rounds of all sizes take turns and
the median counts. Bounds are the forest's own: what system calls prove comes on top of them.

The rule for the default: the smallest forest (trees x depth, the steps of a walk) with a guard for never-seen flows,
which takes a tree and some of the depth (novelty.py), that covers no less than the largest one and is no less tight, on
no traffic and not on all together. Covers less: its share of misses, mean of the seeds, lies above the upper end of
Wilson's 95 % interval of the largest one's. Less tight: mean log10 U/L is larger by more than `WIDER`, or the share of
flows with both bounds in one priority smaller by more than `LESS`, in the mean of the seeds and with each of them.
"""

import importlib.util
import json
import math
import shutil
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "gnmi-models")]

from qclimb.hostfile import decode_forest, encode_forest  # noqa: E402

from orchestrator import bounds, conformal, novelty, recorded, report  # noqa: E402
from orchestrator.ladder import Flows  # noqa: E402
from orchestrator.trees import Stretch, Tree  # noqa: E402

RECORDINGS = sorted((ROOT / "lab" / "recordings").glob("*.parquet"))
TREES, DEPTHS = (1, 3, 10, 30, 100), (5, 10)
LARGEST = max(TREES), max(DEPTHS)
IDS = tuple(range(12))
ROUNDS, WARM_ROWS, COLD_ROWS = 7, 400, 3
WIDER = 0.05
"""Decades: an eighth of the bytes."""
LESS = 0.02
"""Of all flows."""

Row = dict[str, Any]


def core_type() -> Any:
    """bench/forest.py's C side."""
    spec = importlib.util.spec_from_file_location("bench_forest", Path(__file__).parent / "forest.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module.Core


def grow(folder: Path, seeds: int, say: Any = lambda text: None) -> None:
    """Writes sizes.json, going on where it ended; of the first seed also the forests and rows to time them with.

    Shallower forests are the deepest one cut (Tree.cut), smaller ones its first trees.
    """
    told = folder / "sizes.json"
    rows: list[Row] = json.loads(told.read_text(encoding="utf-8")) if told.exists() else []
    done = {(row["traffic"], row["seed"]) for row in rows}
    traffics = recorded.traffics(RECORDINGS)[0]
    for seed in range(seeds):
        for flows in traffics:
            if (flows.name, seed) not in done:
                say(f"{flows.name}: seed {seed}")
                rows += grown_of(flows, seed, folder if seed == 0 else None)
                told.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


def grown_of(flows: Flows, seed: int, folder: Path | None) -> list[Row]:
    """A row a size; the forests and some rows into the folder."""
    rows: list[Row] = []
    parts = bounds.split(flows.start_ns, flows.hosts)
    features = np.ascontiguousarray(flows.features[:, IDS])
    sizes, test = flows.size_bytes[parts.test], features[parts.test]
    name = flows.name.replace(" ", "-")
    if folder is not None:
        picked = parts.test[np.linspace(0, len(test) - 1, WARM_ROWS).astype(int)]
        np.save(folder / f"{name}.npy", flows.features[picked])
    shown = features[parts.grow], flows.size_bytes[parts.grow]
    held = features[parts.calibrate], flows.size_bytes[parts.calibrate]
    edges = report.thresholds_of(np.concatenate([shown[1], held[1]]))
    grown, _ = bounds.grow(*shown, max(TREES), max(DEPTHS), seed, jobs=-1)
    for depth in DEPTHS:
        for some, stretch in calibrated(grown, shown, held, depth, seed):
            ends = [tree.stretched(stretch) for tree in some]
            leaves = [tree.leaves(test, depth) for tree in some]
            lower = np.min([low[leaf] for (low, _), leaf in zip(ends, leaves, strict=True)], axis=0)
            upper = np.max([high[leaf] for (_, high), leaf in zip(ends, leaves, strict=True)], axis=0)
            row = {"traffic": flows.name, "flows": len(test), "trees": len(some), "depth": depth, "seed": seed}
            row |= {"nodes": sum(len(tree.child) for tree in some)}
            row |= {"guard": len(some) > 1 and novelty.guard(*shown, IDS, depth, seed, held[0]) is not None}
            row |= {"fallback_share": float(novelty.is_fallback(upper).mean())}
            rows.append({**row, **report.briefly(lower, upper, sizes), **report.tightness(lower, upper, edges)})
            if folder is not None:
                file = encode_forest(bounds.flat_forest(some, stretch, 1, IDS, depth))
                (folder / f"{name}-{len(some)}-{depth}.forest").write_bytes(file)
    return rows


def calibrated(
    grown: Sequence[Tree], shown: tuple[Any, Any], held: tuple[Any, Any], depth: int, seed: int
) -> list[tuple[list[Tree], Stretch]]:
    """The forests of each number of trees, as `qclimb model train` makes them: learned, with a guard, calibrated."""
    trees = [tree.cut(depth) for tree in grown]
    for tree in trees:
        tree.learn(*shown, depth)
    watch = novelty.guard(*shown, IDS, depth, seed, held[0])
    scores = [conformal.scores([tree], *held, depth) for tree in trees]
    guard = [] if watch is None else [watch]
    scores_of_guard = [conformal.scores([tree], *held, depth) for tree in guard]
    for tree in [*trees, *guard]:
        tree.learn(*held, depth)
    found = []
    for count in TREES:
        first = count - len(guard) if count > 1 else 1
        some, each = [*trees[:first], *guard][:count], (scores[:first] + scores_of_guard)[:count]
        below, above = (np.min([score[end] for score in each], axis=0) for end in (0, 1))
        found.append((some, conformal.least(below, above, bounds.TARGET_COVERAGE)))
    return found


def measure(folder: Path) -> None:
    """Writes times.json: nanoseconds of an inference, warm and cold, by traffic and size."""
    make, cores = core_type(), []
    traffics = sorted(path.stem for path in folder.glob("*.npy"))
    library: Path | None = None
    with tempfile.TemporaryDirectory() as built:
        for name in traffics:
            some = np.ascontiguousarray(np.load(folder / f"{name}.npy").astype(np.uint64))
            for trees in TREES:
                for depth in DEPTHS:
                    place = Path(built) / f"{name}-{trees}-{depth}"
                    place.mkdir()
                    if library is not None:
                        shutil.copy(library, place)  # loaded beside the others, each copy has a forest of its own
                    library = place / "forest.so"
                    file = (folder / f"{place.name}.forest").read_bytes()
                    core, forest = make(place, file), decode_forest(file)
                    lower, _ = forest.predict_bytes(some[:, IDS].astype(np.float32))
                    assert np.array_equal(core.bounds(some)[:, 0], lower)
                    cores.append(((name, trees, depth), core, some))
        times: list[list[tuple[float, float]]] = [[] for _ in cores]
        for number in range(ROUNDS):
            for found, (_, core, some) in zip(times, cores, strict=True):
                cold = some[number * COLD_ROWS % len(some) :][:COLD_ROWS]
                found.append((core.warm_ns(some), core.cold_ns(np.ascontiguousarray(cold))))
    told = [
        [*key, *(round(statistics.median(each[place] for each in found)) for place in (0, 1))]
        for (key, _, _), found in zip(cores, times, strict=True)
    ]
    (folder / "times.json").write_text(json.dumps(told) + "\n", encoding="utf-8")


def summary(folder: Path) -> list[Row]:
    """A row a traffic and size: means over the seeds."""
    rows = json.loads((folder / "sizes.json").read_text(encoding="utf-8"))
    timed = folder / "times.json"
    read = json.loads(timed.read_text(encoding="utf-8")) if timed.exists() else []
    times = {(name, trees, depth): (warm, cold) for name, trees, depth, warm, cold in read}
    found = []
    for traffic in dict.fromkeys(row["traffic"] for row in rows):
        for trees in TREES:
            for depth in DEPTHS:
                mine = [row for row in rows if (row["traffic"], row["trees"], row["depth"]) == (traffic, trees, depth)]
                warm, cold = times.get((traffic.replace(" ", "-"), trees, depth), (None, None))
                found.append(
                    {
                        "traffic": traffic,
                        "trees": trees,
                        "depth": depth,
                        "flows": mine[0]["flows"],
                        "nodes": round(statistics.mean(row["nodes"] for row in mine)),
                        "coverage %": 100 * statistics.mean(row["coverage"] for row in mine),
                        "log10 U/L": statistics.mean(row["mean_log10_ratio"] for row in mine),
                        "one priority %": 100 * statistics.mean(row["one_priority_share"] for row in mine),
                        "fallbacks %": 100 * statistics.mean(row["fallback_share"] for row in mine),
                        "guard": all(row["guard"] for row in mine),
                        "warm ns": warm,
                        "cold ns": cold,
                        "widths": [row["mean_log10_ratio"] for row in mine],
                        "parts": [1 - row["one_priority_share"] for row in mine],
                    }
                )
    return found


def _beyond(row: Row, beside: Row, what: str, most: float) -> bool:
    """Whether the first is larger by more than `most` in the mean of the seeds, and larger with each."""
    apart = [mine - its for mine, its in zip(row[what], beside[what], strict=True)]
    return statistics.mean(apart) > most and min(apart) > 0


def most_misses(misses: float, flows: int) -> float:
    """The upper end of Wilson's 95 % interval of a share of misses."""
    z2 = 1.96**2
    centre = (misses + z2 / (2 * flows)) / (1 + z2 / flows)
    return centre + math.sqrt(misses * (1 - misses) / flows + z2 / (4 * flows**2)) * 1.96 / (1 + z2 / flows)


def _misses(rows: Sequence[Row]) -> tuple[float, int]:
    """Share of misses of some traffics together, and their flows."""
    flows = sum(row["flows"] for row in rows)
    return sum((1 - row["coverage %"] / 100) * row["flows"] for row in rows) / flows, flows


def judged(rows: Sequence[Row]) -> list[Row]:
    """A row a size: where it covers less than the largest, or is less tight; by the number of steps of a walk."""
    largest = {row["traffic"]: row for row in rows if (row["trees"], row["depth"]) == LARGEST}
    found = []
    for trees, depth in sorted({(row["trees"], row["depth"]) for row in rows}, key=lambda size: size[0] * size[1]):
        mine = [row for row in rows if (row["trees"], row["depth"]) == (trees, depth)]
        pairs = [(row["traffic"], row, largest[row["traffic"]]) for row in mine]
        less = [name for name, row, beside in pairs if _misses([row])[0] > most_misses(*_misses([beside]))]
        if _misses(mine)[0] > most_misses(*_misses(list(largest.values()))):
            less.append("all together")
        wide = [name for name, row, beside in pairs if _beyond(row, beside, "widths", WIDER)]
        apart = [name for name, row, beside in pairs if _beyond(row, beside, "parts", LESS)]
        size = {"trees": trees, "depth": depth, "steps": trees * depth}
        size |= {"least coverage %": min(row["coverage %"] for row in mine)}
        size |= {"of all together %": 100 * (1 - _misses(mine)[0])}
        size |= {"mean log10 U/L": statistics.mean(row["log10 U/L"] for row in mine)}
        size |= {"one priority %": statistics.mean(row["one priority %"] for row in mine)}
        for which in ("warm ns", "cold ns"):
            ns = [row[which] for row in mine if row[which] is not None]
            size |= {which: f"{min(ns)} to {max(ns)}" if ns else ""}
        worse = {"covers less": less, "wider": wide, "less in one priority": apart}
        size |= {name: ", ".join(traffics) or "-" for name, traffics in worse.items()}
        found.append({**size, "guard": "yes" if all(row["guard"] for row in mine) else "no"})
    return found


def draw(rows: Sequence[Row], output: Path) -> None:
    """Misses and width by trees, and against nanoseconds; a line a traffic and depth, a point a number of trees."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(2, 3, figsize=(14, 8), layout="constrained")
    styles = dict(zip(DEPTHS, ("--", "-"), strict=True))
    traffics = list(dict.fromkeys(row["traffic"] for row in rows))
    across = ("trees", "warm ns", "cold ns")
    for number, traffic in enumerate(traffics):
        for depth, style in styles.items():
            mine = [row for row in rows if (row["traffic"], row["depth"]) == (traffic, depth)]
            look = {"color": f"C{number}", "ls": style, "marker": "o", "ms": 4}
            for column, name in enumerate(across):
                timed = [row for row in mine if row[name] is not None]
                at = [row[name] for row in timed]
                panels[0, column].plot(at, [max(1 - row["coverage %"] / 100, 1e-5) for row in timed], **look)
                panels[1, column].plot(at, [row["log10 U/L"] for row in timed], **look)
        panels[0, 0].plot([], [], color=f"C{number}", marker="o", label=traffic)
    for depth, style in styles.items():
        panels[0, 0].plot([], [], color="black", ls=style, label=f"depth {depth}")
    for column, name in enumerate(across):
        panels[0, column].set_yscale("log")
        panels[0, column].axhline(1e-3, color="grey", lw=0.8)
        for panel in panels[:, column]:
            panel.set_xscale("log")
            panel.set_xlabel(name if column == 0 else f"{name} an inference")
            panel.grid(alpha=0.3)
    panels[0, 0].set_ylabel("share of later flows outside (1e-05: none)")
    panels[1, 0].set_ylabel("mean log10 U/L")
    figure.legend(loc="outside lower center", ncols=5, fontsize=8)
    figure.savefig(output, dpi=80)
    pyplot.close(figure)


def run() -> list[Row]:
    """All of it with one seed."""
    with tempfile.TemporaryDirectory() as folder:
        grow(Path(folder), 1)
        measure(Path(folder))
        return judged(summary(Path(folder)))


FOLDER = click.argument("folder", type=click.Path(path_type=Path, file_okay=False))


@click.group()
def main() -> None:
    """Coverage, width and nanoseconds by size of forest."""


@main.command("grow")
@FOLDER
@click.option("--seeds", type=click.IntRange(1), default=3, show_default=True)
def grow_command(folder: Path, seeds: int) -> None:
    """Grow and test forests of all sizes."""
    folder.mkdir(parents=True, exist_ok=True)
    grow(folder, seeds, lambda text: click.echo(text, err=True))


@main.command("time")
@FOLDER
def time_command(folder: Path) -> None:
    """Time the grown forests."""
    measure(folder)


@main.command("show")
@FOLDER
@click.option("--plot", type=click.Path(path_type=Path, dir_okay=False))
def show_command(folder: Path, plot: Path | None) -> None:
    """Print the tables as Markdown; the first size with a guard and without a name of a traffic is the rule's."""
    from tabulate import tabulate

    rows = summary(folder)
    told = [{name: value for name, value in row.items() if name not in ("widths", "parts", "guard")} for row in rows]
    for table in (judged(rows), told):
        click.echo(tabulate(table, headers="keys", tablefmt="github", floatfmt=".5g") + "\n")
    if plot is not None:
        draw(rows, plot)


if __name__ == "__main__":
    main()
