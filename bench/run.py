"""Runs the benchmarks and prints each beside its reference: `python bench/run.py [--json] [NAME ...]`.

A benchmark is a module of this folder with `run() -> list[Row]`; it measures its reference in the same run,
interleaved, because the absolute times of a shared machine mean little.
"""

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import click
from tabulate import tabulate

from lab.fabric.sigterm import exits_on_sigterm

HERE = Path(__file__).parent
NAMES = ("shim", "shim_connections", "shim_programs", "shim_inside", "shim_link", "hostd", "forest", "sim", "control")
LONG = ("sim_growth", "drain", "forest_sizes")
"""Run when they are named."""

Row = dict[str, Any]


def module_of(name: str) -> ModuleType:
    """Imports one benchmark file."""
    spec = importlib.util.spec_from_file_location(f"bench_{name}", HERE / f"{name}.py")
    if spec is None or spec.loader is None:
        raise click.ClickException(f"no benchmark file {name}.py in {HERE}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@click.command(epilog="Example: python bench/run.py shim --json")
@click.argument("names", nargs=-1, type=click.Choice([*NAMES, *LONG]))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of tables.")
@click.option("--plot", type=click.Path(path_type=Path), help="Draw what can be drawn (sim_growth) as NAME.svg here.")
def main(names: tuple[str, ...], as_json: bool, plot: Path | None) -> None:
    """Run the benchmarks NAMES (by default all but the long ones)."""
    results: dict[str, list[Row]] = {}
    for name in names or NAMES:
        click.echo(f"[bench] {name} ...", err=True)
        module = module_of(name)
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
