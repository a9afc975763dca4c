"""The command `qclimb lab record`: real programs under libqclimb.so, their flows into a Parquet file."""

from __future__ import annotations

import importlib
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import click
from qclimb.options import PICTURES, Finite, Output, Refused

from lab.cli.errors import one_sentence, require_root

EXAMPLE = "\b\nExample:\n  sudo qclimb lab record kv --seconds 120 -o kv.parquet\n  qclimb lab record show kv.parquet"
SHIPPED = Path(__file__).parent.parent / "recordings"


@click.group(epilog=EXAMPLE)
def record() -> None:
    """Record real programs' flows (root), and look at recordings."""


def _sentence(error: Exception) -> NoReturn:
    raise Refused(str(error)) from None


def _options(function: Callable[..., None]) -> Callable[..., None]:
    for option in (
        click.option("--seconds", type=Finite(2, 3600), default=150.0, show_default=True, help="Of traffic."),
        click.option("--seed", type=click.IntRange(0, 9999), default=1, show_default=True, help="Of the traffic."),
        click.option("--prefix", default="qrec", show_default=True, help="Of the network namespaces' names."),
        click.option("--append", is_flag=True, help="To what is in the output already; give it another seed."),
        click.option("-o", "--output", type=Output(), required=True, help="Parquet file."),
    ):
        function = option(function)
    return function


@record.command(epilog="\b\nExample:\n  sudo qclimb lab record web -o web.parquet")
@_options
def web(**options: Any) -> None:
    """Record nginx and a page mix."""
    _record("web", **options)


@record.command(epilog="\b\nExample:\n  sudo qclimb lab record bulk --seconds 120 -o bulk.parquet")
@_options
def bulk(**options: Any) -> None:
    """Record backups of up to 40 MB beside a page mix, by nginx."""
    _record("bulk", **options)


@record.command(epilog="\b\nExample:\n  sudo qclimb lab record kv -o kv.parquet")
@_options
def kv(**options: Any) -> None:
    """Record memcached with Facebook's value sizes."""
    _record("kv", **options)


@record.command(epilog="\b\nExample:\n  sudo qclimb lab record training -o training.parquet")
@_options
def training(**options: Any) -> None:
    """Record training with a parameter server over sockets."""
    _record("training", **options)


@record.command(epilog="\b\nExample:\n  sudo qclimb lab record spark --seconds 300 -o spark.parquet")
@_options
@click.option("--scale", type=Finite(0.1, 10), default=1.0, show_default=True, help="Of the jobs' data.")
@click.option("--python", default=sys.executable, help="One that has pyspark (the extra `spark`); default: this one.")
def spark(**options: Any) -> None:
    """Record Spark: K-Means, PageRank and SGD on a standalone cluster."""
    _record("spark", **options)


def _record(name: str, seconds: float, seed: int, prefix: str, append: bool, output: Path, **more: Any) -> None:
    from qclimb import recording
    from qclimb.errors import RecordError

    from lab.experiment.store import whole
    from lab.fabric import FabricError
    from lab.record.site import TOPOLOGY, site
    from lab.workload.programs import WorkloadError

    with one_sentence():
        require_root()
    traffic = importlib.import_module(f"lab.record.{name}")
    begun = time.monotonic()

    def say(text: str) -> None:
        click.echo(f"{time.monotonic() - begun:5.0f} s  {text}", err=True)

    try:
        with tempfile.TemporaryDirectory(prefix=f"qclimb-record-{name}-") as folder:
            with site(prefix, Path(folder), say) as place:
                settings = traffic.record(place, seconds, seed, **more)
            records, lost = place.collector.end()
        about = {"name": name, "recorded": time.strftime("%Y-%m-%d", time.gmtime()), "seconds": seconds, "seed": seed}
        about |= {"settings": settings, "lost": lost, "kernel": platform.release(), "processors": os.cpu_count()}
        about |= {"host_mbps": TOPOLOGY.host_rate_bps // 10**6, "uplink_mbps": TOPOLOGY.uplink_rate_bps // 10**6}
        with whole(output) as made:
            counts = recording.write(made, records, place.phases, about)
            if append and output.exists():
                recording.join(made, [output, made])
    except OSError as error:
        raise Refused(f"{error.filename}: {error.strerror}, expected a place for a recording") from None
    except (FabricError, WorkloadError, RecordError) as error:
        _sentence(error)
    say(f"{output}: {counts['flows']} flows, {output.stat().st_size} bytes; {counts}, {lost}")


@record.command(epilog=f"\b\nExample:\n  qclimb lab record show lab/{SHIPPED.name}/kv.parquet --json")
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def show(path: Path, as_json: bool) -> None:
    """Tell what is in the recording at PATH."""
    import json

    import numpy as np
    from qclimb import recording
    from qclimb.errors import RecordError

    try:
        found = recording.read(path)
    except RecordError as error:
        _sentence(error)
    size = found.numbers["size_bytes"].astype(float)
    told: dict[str, Any] = {**found.about, "flows": found.flows, "refused": found.refused, "sha256": found.digest()}
    told["quantile_bytes"] = {str(q): float(np.quantile(size, q)) for q in (0.01, 0.1, 0.5, 0.9, 0.99, 1.0)}
    told["share_small_medium_large"] = [
        float(((size > low) & (size <= high)).mean()) for low, high in ((0, 1e5), (1e5, 1e7), (1e7, np.inf))
    ]
    first = found.numbers["first_write_bytes"]
    told["whole_in_first_write"] = float((first >= found.numbers["size_bytes"]).mean())
    told["seconds"] = float(found.numbers["start_ns"].max()) / 1e9
    told["tasks"] = {str(task): int((found.texts["task"] == task).sum()) for task in sorted(set(found.texts["task"]))}
    if as_json:
        click.echo(json.dumps(told, indent=1))
        return
    for name, value in told.items():
        click.echo(f"{name:26} {value}")


@record.command(epilog=f"\b\nExample:\n  qclimb lab record plot lab/{SHIPPED.name}/*.parquet -o sizes.png")
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("-o", "--output", type=Output(endings=PICTURES), required=True, help="A picture: .png, .svg.")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def plot(paths: tuple[Path, ...], output: Path, as_json: bool) -> None:
    """Draw the flow sizes of the recordings at PATHS.

    Beside what was published.
    """
    import json

    from qclimb.errors import RecordError

    from lab.record.plots import draw

    try:
        rows = draw(paths, output)
    except RecordError as error:
        _sentence(error)
    if as_json:
        click.echo(json.dumps(rows, indent=1))
        return
    for row in rows:
        click.echo(
            "  ".join(
                f"{key} {value:.4g}" if isinstance(value, float) else f"{key} {value}" for key, value in row.items()
            )
        )
