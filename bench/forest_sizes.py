"""How small a forest may be: coverage, width and nanoseconds by trees and depth, on the shipped recordings.

    python bench/forest_sizes.py grow FOLDER          # forests of three seeds; minutes, the clock does not matter
    python bench/forest_sizes.py time FOLDER          # inference; seconds, on a machine that does nothing else
    python bench/forest_sizes.py show FOLDER --plot forest-sizes.png

Each forest is grown and calibrated as `qclimb model train` does, with the first write as a feature, and tested on the
last 20 % of each traffic's flows. Inference is forest.h's, warm, on the tested flows themselves; rounds of all sizes
take turns and the median counts. Bounds are the forest's own: what system calls prove comes on top of them.

The rule for the default: the smallest forest (trees x depth, the steps of a walk) that on no traffic covers less than
the largest one, as far as the later flows can tell, nor is wider. Covers less: its share of misses, mean of the seeds,
lies above the upper end of Wilson's 95 % interval of the largest one's. Wider: mean log10 U/L, by more than `WIDER`.
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
TREES, DEPTHS = (10, 25, 50, 100), (5, 8, 10)
LARGEST = max(TREES), max(DEPTHS)
IDS = tuple(range(12))
ROUNDS, WARM_ROWS = 7, 400
WIDER = 0.05
"""Decades: an eighth of the bytes."""

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
    sizes, test = flows.size_bytes[parts.test], flows.features[parts.test]
    name = flows.name.replace(" ", "-")
    if folder is not None:
        np.save(folder / f"{name}.npy", test[np.linspace(0, len(test) - 1, WARM_ROWS).astype(int)])
    shown = flows.features[parts.grow], flows.size_bytes[parts.grow]
    held = flows.features[parts.calibrate], flows.size_bytes[parts.calibrate]
    grown, _ = bounds.grow(*shown, max(TREES), max(DEPTHS), seed, jobs=-1)
    for depth in DEPTHS:
        for some, stretch in calibrated(grown, shown, held, depth, seed):
            ends = [tree.stretched(stretch) for tree in some]
            leaves = [tree.leaves(test, depth) for tree in some]
            lower = np.min([low[leaf] for (low, _), leaf in zip(ends, leaves, strict=True)], axis=0)
            upper = np.max([high[leaf] for (_, high), leaf in zip(ends, leaves, strict=True)], axis=0)
            row = {"traffic": flows.name, "flows": len(test), "trees": len(some), "depth": depth, "seed": seed}
            row |= {"nodes": sum(len(tree.child) for tree in some)}
            rows.append({**row, **report.briefly(lower, upper, sizes)})
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
        first = count - len(guard)
        below, above = (np.min([each[end] for each in scores[:first] + scores_of_guard], axis=0) for end in (0, 1))
        found.append(([*trees[:first], *guard], conformal.least(below, above, bounds.TARGET_COVERAGE)))
    return found


def measure(folder: Path) -> None:
    """Writes times.json: nanoseconds of an inference by traffic and size."""
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
                    lower, _ = forest.predict_bytes(some.astype(np.float32))
                    assert np.array_equal(core.bounds(some)[:, 0], lower)
                    cores.append(((name, trees, depth), core, some))
        times: list[list[float]] = [[] for _ in cores]
        for _ in range(ROUNDS):
            for found, (_, core, some) in zip(times, cores, strict=True):
                found.append(core.warm_ns(some))
    told = [[*key, round(statistics.median(found))] for (key, _, _), found in zip(cores, times, strict=True)]
    (folder / "times.json").write_text(json.dumps(told) + "\n", encoding="utf-8")


def summary(folder: Path) -> list[Row]:
    """A row a traffic and size: means over the seeds."""
    rows = json.loads((folder / "sizes.json").read_text(encoding="utf-8"))
    timed = folder / "times.json"
    times = {tuple(key): ns for *key, ns in json.loads(timed.read_text(encoding="utf-8"))} if timed.exists() else {}
    found = []
    for traffic in dict.fromkeys(row["traffic"] for row in rows):
        for trees in TREES:
            for depth in DEPTHS:
                mine = [row for row in rows if (row["traffic"], row["trees"], row["depth"]) == (traffic, trees, depth)]
                found.append(
                    {
                        "traffic": traffic,
                        "trees": trees,
                        "depth": depth,
                        "flows": mine[0]["flows"],
                        "nodes": round(statistics.mean(row["nodes"] for row in mine)),
                        "coverage %": 100 * statistics.mean(row["coverage"] for row in mine),
                        "log10 U/L": statistics.mean(row["mean_log10_ratio"] for row in mine),
                        "ns": times.get((traffic.replace(" ", "-"), trees, depth)),
                    }
                )
    return found


def most_misses(misses: float, flows: int) -> float:
    """The upper end of Wilson's 95 % interval of a share of misses."""
    z2 = 1.96**2
    centre = (misses + z2 / (2 * flows)) / (1 + z2 / flows)
    return centre + math.sqrt(misses * (1 - misses) / flows + z2 / (4 * flows**2)) * 1.96 / (1 + z2 / flows)


def judged(rows: Sequence[Row]) -> list[Row]:
    """A row a size: where it covers less than the largest, or is wider; by the number of steps of a walk."""
    largest = {row["traffic"]: row for row in rows if (row["trees"], row["depth"]) == LARGEST}
    found = []
    for trees, depth in sorted({(row["trees"], row["depth"]) for row in rows}, key=lambda size: size[0] * size[1]):
        mine = [row for row in rows if (row["trees"], row["depth"]) == (trees, depth)]
        less, wide = [], []
        for row in mine:
            beside = largest[row["traffic"]]
            if 1 - row["coverage %"] / 100 > most_misses(1 - beside["coverage %"] / 100, row["flows"]):
                less.append(row["traffic"])
            if row["log10 U/L"] > beside["log10 U/L"] + WIDER:
                wide.append(row["traffic"])
        ns = [row["ns"] for row in mine if row["ns"] is not None]
        size = {"trees": trees, "depth": depth, "steps": trees * depth}
        size |= {"least coverage %": min(row["coverage %"] for row in mine)}
        size |= {"mean log10 U/L": statistics.mean(row["log10 U/L"] for row in mine)}
        size |= {"ns, least to most": f"{min(ns)} to {max(ns)}" if ns else ""}
        found.append({**size, "covers less": ", ".join(less) or "-", "wider": ", ".join(wide) or "-"})
    return found


def draw(rows: Sequence[Row], output: Path) -> None:
    """Misses and width against nanoseconds; a line a traffic and depth, a point a number of trees."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(1, 2, figsize=(11, 5), layout="constrained")
    styles = dict(zip(DEPTHS, (":", "--", "-"), strict=True))
    traffics = list(dict.fromkeys(row["traffic"] for row in rows))
    for number, traffic in enumerate(traffics):
        for depth, style in styles.items():
            mine = [row for row in rows if (row["traffic"], row["depth"]) == (traffic, depth) and row["ns"]]
            ns = [row["ns"] for row in mine]
            look = {"color": f"C{number}", "ls": style, "marker": "o", "ms": 4}
            panels[0].plot(ns, [max(1 - row["coverage %"] / 100, 1e-5) for row in mine], **look)
            panels[1].plot(ns, [row["log10 U/L"] for row in mine], **look)
        panels[0].plot([], [], color=f"C{number}", marker="o", label=traffic)
    for depth, style in styles.items():
        panels[0].plot([], [], color="black", ls=style, label=f"depth {depth}")
    panels[0].set_yscale("log")
    panels[0].axhline(1e-3, color="grey", lw=0.8)
    panels[0].set_ylabel("share of later flows outside (1e-05: none)")
    panels[1].set_ylabel("mean log10 U/L")
    for panel in panels:
        panel.set_xscale("log")
        panel.set_xlabel(f"ns an inference, warm; from left: {', '.join(map(str, TREES))} trees")
        panel.axvline(1000, color="grey", lw=0.8)
        panel.grid(alpha=0.3)
    figure.legend(loc="outside lower center", ncols=5, fontsize=8)
    figure.savefig(output, dpi=90)
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
    """Print the tables as Markdown; the first size without a name in its last two columns is the rule's."""
    from tabulate import tabulate

    rows = summary(folder)
    for table in (judged(rows), rows):
        click.echo(tabulate(table, headers="keys", tablefmt="github", floatfmt=".5g") + "\n")
    if plot is not None:
        draw(rows, plot)


if __name__ == "__main__":
    main()
