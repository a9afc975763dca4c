"""The command `qclimb model`: train, check and measure forests on recordings, without a running orchestrator."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from qclimb.options import PICTURES, Finite, Output, Refused

from orchestrator.models.forest_size import DEPTH, TREES, UNCALIBRATED_TREES

SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 120}
EXAMPLE = "\b\nExample:\n  qclimb model train lab/recordings/kv.parquet -o models/\n  qclimb model check models/kv.onnx"
RECORDINGS = click.argument("recordings", nargs=-1, required=True, type=click.Path(path_type=Path))
depth_option = click.option(
    "--depth", type=click.IntRange(1, 16), default=DEPTH, show_default=True, help="Of each tree, at most."
)
trees_option = click.option(
    "--trees", type=click.IntRange(1, 1024), default=TREES, show_default=True, help="Of a forest."
)
seed_option = click.option(
    "--seed",
    type=click.IntRange(0, 2**31 - 1),
    default=0,
    show_default=True,
    help="Of what trees choose from; equal seeds, equal forests.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="For programs.")


@click.group(context_settings=SETTINGS, epilog=EXAMPLE)
def model() -> None:
    """Bounds on flow sizes: forests, reports, the ladder."""


@contextmanager
def _one_sentence(about: str = "") -> Iterator[None]:
    """What is wrong, after what it is about, and exit 2, not a traceback."""
    from qclimb.errors import QclimbError

    try:
        yield
    except QclimbError as error:
        raise Refused(f"{about}{error}") from None
    except OSError as error:
        raise Refused(f"{error.filename}: {error.strerror}, expected a place to write to") from None


def _progress() -> Callable[[str], None]:
    begun = time.monotonic()
    return lambda text: click.echo(f"{time.monotonic() - begun:5.0f} s  {text}", err=True)


@model.command(epilog="\b\nExample:\n  qclimb model train lab/recordings/web.parquet --seed 3 --report full -o models/")
@RECORDINGS
@click.option(
    "--trees",
    type=click.IntRange(1, 1024),
    help=f"Default: {TREES}; {UNCALIBRATED_TREES} where too few flows are held back to calibrate.",
)
@depth_option
@seed_option
@click.option("--features", help="Names with commas; default: the paper's, which leaves out first_write_bytes.")
@click.option("--beta", type=Finite(0, 1, min_open=True), default=1.0, show_default=True, help="Level.")
@click.option("--generation", type=click.IntRange(1), default=1, show_default=True, help="Of the model.")
@click.option("--report", "how", type=click.Choice(["short", "full"]), default="short", help="full: + depths, curve.")
@click.option("-o", "--output", type=Output(folder=True), help="Folder for NAME.onnx, .forest.")
@json_option
def train(
    recordings: tuple[Path, ...],
    trees: int | None,
    depth: int,
    seed: int,
    features: str | None,
    beta: float,
    generation: int,
    how: str,
    output: Path | None,
    as_json: bool,
) -> None:
    """Train a forest on RECORDINGS, test it, check it.

    Tested on their later flows, checked by onnxruntime.
    """
    with _one_sentence():
        import numpy as np
        from qclimb import recording

        from lab.models import recorded
        from orchestrator.models.training import train as make

        if output is not None:  # before minutes of training
            output.mkdir(parents=True, exist_ok=True)
        say = _progress()
        rows: list[Any] = []
        hosts: list[str] = []
        refused: dict[str, int] = {}
        for path in recordings:
            found = recording.read(path)
            for sentence in recorded.left_out(path, found):
                say(sentence)  # now: too few may be left to train on
            mine, names = recorded.rows_of(found)
            rows.append(mine)
            # Clocks of different recordings have nothing to do with each other.
            hosts += [f"{path.stem}/{name}" for name in names]
            refused |= {f"{path.name}: {reason}": count for reason, count in found.refused.items()}
        wanted = None if features is None else features.split(",")
        made = make(
            np.concatenate(rows),
            hosts,
            generation,
            trees=trees,
            depth=depth,
            features=wanted,
            seed=seed,
            beta=beta,
            full=how == "full",
            say=say,
        )
        report = {**made.report, "refused": refused}
        if output is not None:
            stem = "-".join(path.stem for path in recordings)
            (output / f"{stem}.onnx").write_bytes(made.onnx)
            if made.quantile_onnx is not None:
                (output / f"{stem}-beta{beta:g}.onnx").write_bytes(made.quantile_onnx)
            (output / f"{stem}.forest").write_bytes(made.forest)
            (output / f"{stem}.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
            say(f"{output}/{stem}.onnx, .forest, .json")
    click.echo(json.dumps(report, indent=1) if as_json else _described(report))


def _described(report: dict[str, Any]) -> str:
    rows = report["rows"]
    lines = [
        f"{rows['total']} flows: {rows['grow']} grow, {rows['calibrate']} calibrate, {rows['test']} test",
        f"{report['trees']} trees of depth {report['depth']}, {report['nodes']} nodes; {report['seconds']} s",
        f"coverage {100 * report['coverage']:.4f} % of the later flows: "
        f"{100 * report['below_lower']:.4f} % below, {100 * report['above_upper']:.4f} % above",
        report["calibration"]["said"],
    ]
    for name, found in report["classes"].items():
        lines.append(
            f"  {name:6} {found['flows']:7} flows, coverage {100 * found['coverage']:.3f} %, mean gap to lower bound "
            f"{found['mean_gap_to_lower_bytes']:.0f} B, U/size {found['median_upper_ratio']:.2f} in the median"
        )
    shares = sorted(report["importance"].items(), key=lambda each: -each[1])
    lines.append("importance: " + ", ".join(f"{name} {share:.3f}" for name, share in shares if share >= 0.001))
    for depth, found in report.get("by_depth", {}).items():
        lines.append(f"depth {depth:>2}: coverage {100 * found['coverage']:.4f} %")
    for found in report.get("learning_curve", []):
        lines.append(f"{found['flows']:7} flows learned: coverage {100 * found['coverage']:.4f} %")
    if "quantile" in report:
        found = report["quantile"]
        lines.append(f"beta {found['beta']}: coverage {100 * found['coverage']:.3f} % (quantile regression forest)")
    lines += [f"left out: {count} flows, {reason}" for reason, count in report["refused"].items()]
    return "\n".join(lines)


@model.command(epilog="\b\nExample:\n  qclimb model ladder lab/recordings/*.parquet -o ladder.json")
@RECORDINGS
@trees_option
@depth_option
@click.option("--seeds", type=click.IntRange(1, 20), default=3, show_default=True, help="How many forests.")
@click.option("-o", "--output", type=Output(), help="For all numbers, as JSON.")
@click.option("--plot", type=Output(endings=PICTURES), help="For a picture, .png or .svg (needs matplotlib).")
@click.option("--markdown", is_flag=True, help="Print a page's tables: rungs, depths, learning curve.")
@json_option
def ladder(
    recordings: tuple[Path, ...],
    trees: int,
    depth: int,
    seeds: int,
    output: Path | None,
    plot: Path | None,
    markdown: bool,
    as_json: bool,
) -> None:
    """Measure each rung of the ladder of bounds on RECORDINGS.

    Every traffic of them is measured by itself.
    """
    with _one_sentence():
        from lab.models import recorded
        from lab.models.ladder import RUNGS, climb

        say = _progress()
        flows, told = recorded.traffics(recordings)
        for sentence in told:
            say(sentence)
        found = [climb(each, trees, depth, range(seeds), say=say) for each in flows]
        if output is not None:
            output.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        if plot is not None:
            from lab.models.ladder_page import draw

            draw(found, plot)
    if as_json:
        click.echo(json.dumps(found, indent=1))
        return
    if markdown:
        from lab.models.ladder_page import curve_table, depth_table, table

        click.echo("\n\n".join(make(found) for make in (table, depth_table, curve_table)))
        return
    for traffic in found:
        counts, calibration = traffic["flows"], traffic["calibration"]
        click.echo(f"{traffic['name']}: {sum(counts.values())} flows, {counts['test']} of them tested")
        if not calibration["enough"]:
            click.echo(f"  too few to calibrate: {calibration['flows']} flows, needs {calibration['needed']}")
        for rung, name in RUNGS.items():
            row = traffic["rungs"][rung]
            small = row["classes"].get("small", {}).get("mean_gap_to_lower_bytes", float("nan"))
            low, high = (100 * end for end in row["coverage_interval"])
            click.echo(
                f"  ({rung}) {name:22} coverage {100 * row['coverage']:8.4f} % [{low:.3f}, {high:.3f}], worst window "
                f"{100 * min(row['windows']):8.4f} %, below {100 * row['below_lower']:.4f} %, above "
                f"{100 * row['above_upper']:.4f} %, small gap {small:8.0f} B, "
                f"U/L {row['median_ratio']:7.2f}, one priority {100 * row['one_priority_share']:5.1f} %"
            )


@model.command(epilog="\b\nExample:\n  qclimb model sources lab/recordings/*.parquet")
@RECORDINGS
@json_option
def sources(recordings: tuple[Path, ...], as_json: bool) -> None:
    """Tell what told sizes, by flows and by bytes.

    Of RECORDINGS, before the first ACK: the first write, the system calls, or the flows' own bytes.
    """
    with _one_sentence():
        from lab.models import recorded
        from lab.models.sources import table, told

        say = _progress()
        flows, left_out = recorded.traffics(recordings)
        for sentence in left_out:
            say(sentence)
        found = [told(each) for each in flows]
    click.echo(json.dumps(found, indent=1) if as_json else table(found))


@model.command(epilog="\b\nExample:\n  qclimb model foretell lab/recordings/web.parquet --depth 5 -o web-bounds.npz")
@click.argument("path", metavar="RECORDING", type=click.Path(path_type=Path))
@trees_option
@depth_option
@seed_option
@click.option("--features", help="Names with commas; default: the paper's, which leaves out first_write_bytes.")
@click.option("-o", "--output", type=Output(parents=True), required=True, help="NumPy's .npz.")
def foretell(path: Path, trees: int, depth: int, seed: int, features: str | None, output: Path) -> None:
    """Write what is said of each flow of a RECORDING before it ends.

    By forests that saw only earlier flows: bounds, and one number.
    """
    with _one_sentence():
        import numpy as np
        from qclimb import recording

        from lab.models import foretell, recorded
        from orchestrator.models import bounds

        output.parent.mkdir(parents=True, exist_ok=True)
        ids = bounds.feature_ids(None if features is None else features.split(","))
        say, read = _progress(), recording.read(path)
        for sentence in recorded.left_out(path, read):
            say(sentence)
        flows = recorded.flows_of(read, path.stem)
        found = foretell.foretell(flows, ids, trees, depth, seed, say=say)
        with output.open("wb") as file:
            np.savez_compressed(file, **vars(found))


@model.command(epilog="\b\nExample:\n  qclimb model drift models/kv.forest tuesday.parquet -o models/kv-2")
@click.argument("forest", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.argument("recording", type=click.Path(path_type=Path))
@click.option("-o", "--output", type=Output(), help="PATH.onnx and PATH.forest of a better model.")
@json_option
def drift(forest: Path, recording: Path, output: Path | None, as_json: bool) -> None:
    """Tell whether the model FOREST still holds for a RECORDING.

    If not, train another and offer it if it is better.
    """
    with _one_sentence():
        from qclimb import recording as recordings
        from qclimb.hostfile import decode_forest

        from lab.models import recorded
        from orchestrator.models.drift import drifted, foretold
        from orchestrator.models.training import train as make

        with _one_sentence(f"{forest}: "):
            old = decode_forest(forest.read_bytes())
        say, read = _progress(), recordings.read(recording)
        for sentence in recorded.left_out(recording, read):
            say(sentence)
        rows, hosts = recorded.rows_of(read)
        windows = foretold(old, rows)
        found: dict[str, Any] = {"windows": [each.to_json() for each in windows], "drifted": drifted(windows)}
        if found["drifted"] is not None:
            names = [_name(feature) for feature in old.feature_ids]
            made = make(
                rows,
                hosts,
                old.generation + 1,
                trees=old.trees,
                depth=old.depth,
                features=names,
                rival=forest.read_bytes(),
                say=say,
            )
            found["offer"] = made.report["offer"]
            if output is not None and made.report["offer"]["offered"]:
                Path(f"{output}.onnx").write_bytes(made.onnx)  # with_suffix would take kv.2 for kv
                Path(f"{output}.forest").write_bytes(made.forest)
    if as_json:
        click.echo(json.dumps(found, indent=1))
        return
    for number, window in enumerate(found["windows"]):
        click.echo(
            f"window {number:3}: {window['flows']} flows, coverage {100 * window['coverage']:.3f} %, "
            f"fallbacks {100 * window['fallback_share']:.1f} %"
        )
    click.echo(f"drift: {found['drifted'] or 'none'}")
    if "offer" in found:
        click.echo(f"new model: {'offered' if found['offer']['offered'] else 'not offered'}; {found['offer']['why']}")


def _name(feature: int) -> str:
    from qclimb.features import FEATURES

    return FEATURES[feature]


@model.command(epilog="\b\nExample:\n  qclimb model check models/kv.onnx models/kv.forest")
@click.argument("onnx", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.argument("forest", type=click.Path(path_type=Path, exists=True, dir_okay=False), required=False)
@json_option
def check(onnx: Path, forest: Path | None, as_json: bool) -> None:
    """Tell what a model is, and whether it fits its host file.

    One whose metadata, checksum or answers do not is refused (exit 2). ONNX is the model's file, FOREST the host's;
    unless given, the one beside it of the same name.
    """
    place = forest or onnx.with_suffix(".forest")
    if not place.exists():
        raise click.UsageError(f"{place} is missing, expected the host file beside {onnx}")
    with _one_sentence(f"{onnx} with {place}: "):
        from orchestrator.models.onnx_export import validated

        told = validated(onnx.read_bytes(), place.read_bytes())
    click.echo(json.dumps(told, indent=1) if as_json else "\n".join(f"{key:18} {value}" for key, value in told.items()))
