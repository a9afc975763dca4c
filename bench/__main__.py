"""Runs the benchmarks and prints each beside its reference: `python -m bench [--json] [NAME ...]`, `make bench`.

A benchmark is a module of this package with `run() -> list[Row]`; it measures its reference in the same run,
interleaved, because the absolute times of a shared machine mean little.
"""

import importlib
import json
from pathlib import Path
from typing import Any

import click
from tabulate import tabulate

from lab.fabric.sigterm import exits_on_sigterm

NAMES = (
    "shim",
    "shim_connections",
    "shim_programs",
    "shim_inside",
    "shim_link",
    "hostd",
    "kernel",
    "forest",
    "length",
    "sim",
    "sim_pdq",
    "coflow",
    "control",
    "rollout",
    "switch",
    "gnmi",
    "spines",
)
LONG = ("sim_growth", "drain", "nginx", "shares", "ingest", "gnmi_fuzz")
"""Run when they are named."""

Row = dict[str, Any]


@click.command(epilog="Example: python -m bench shim --json")
@click.argument("names", nargs=-1, type=click.Choice([*NAMES, *LONG]))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of tables.")
@click.option("--plot", type=click.Path(path_type=Path), help="Draw what can be drawn (sim_growth) as NAME.svg here.")
def main(names: tuple[str, ...], as_json: bool, plot: Path | None) -> None:
    """Run the benchmarks NAMES (by default all but the long ones)."""
    results: dict[str, list[Row]] = {}
    for name in names or NAMES:
        click.echo(f"[bench] {name} ...", err=True)
        module = importlib.import_module(f"bench.{name}")
        with exits_on_sigterm():  # namespaces and servers go with it
            results[name] = module.run()
        if plot and hasattr(module, "plot"):
            module.plot(results[name], plot / f"{name}.svg")
        if not as_json:
            click.echo(tabulate(results[name], headers="keys", floatfmt=".4g") + "\n")
    if as_json:
        click.echo(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
