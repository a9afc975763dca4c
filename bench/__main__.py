"""Runs the benchmarks and prints each beside its reference: `python -m bench [--json] [NAME ...]`, `make bench`.

A benchmark is a module of this package with `run()`, which gives rows, all at once or one after another; it measures
its reference in the same run, interleaved, because the absolute times of a shared machine mean little. One that has
`loads()` takes those that are wanted: `run(chosen)`.
"""

import importlib
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
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
LONG = ("sim_growth", "drain", "nginx", "shares", "ingest", "gnmi_fuzz", "out_of_order")
"""Run when they are named."""

Row = dict[str, Any]


@click.command(epilog="Example: python -m bench kernel --loads nginx-100k,redis-cubic --json")
@click.argument("names", nargs=-1, type=click.Choice([*NAMES, *LONG]))
@click.option(
    "--loads",
    metavar="LOAD,...",
    help="Only these (kernel): nginx-100k is a load under each congestion control, nginx-100k-bbr under one.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of tables.")
@click.option("--plot", type=click.Path(path_type=Path), help="Draw what can be drawn (sim_growth) as NAME.svg here.")
def main(names: tuple[str, ...], loads: str | None, as_json: bool, plot: Path | None) -> None:
    """Run the benchmarks NAMES (by default all but the long ones).

    Rows that are measured one after another are told at once, on stderr. Tables end with what was measured until then.
    """
    modules = {name: importlib.import_module(f"bench.{name}") for name in names or NAMES}
    chosen = [] if loads is None else chosen_loads(modules, loads.split(","))
    results: dict[str, list[Row]] = {name: [] for name in modules}
    try:
        for name, module in modules.items():
            click.echo(f"[bench] {name} ...", err=True)
            with exits_on_sigterm():  # namespaces and servers go with it
                keep(name, module.run(chosen) if chosen else module.run(), results[name])
            if plot and hasattr(module, "plot"):
                module.plot(results[name], plot / f"{name}.svg")
            if not as_json:
                click.echo(table(results.pop(name)))
    finally:
        if as_json:
            click.echo(json.dumps(results, indent=2))
        else:  # what was measured before it was ended
            for rows in filter(None, results.values()):
                click.echo(table(rows))


def keep(name: str, measured: Iterable[Row], rows: list[Row]) -> None:
    """Puts what is measured into `rows`; tells each at once where they don't come together."""
    for row in measured:
        rows.append(row)
        if not isinstance(measured, Sequence):
            said = ", ".join(
                f"{key} {value:.4g}" if isinstance(value, float) else f"{key} {value}" for key, value in row.items()
            )
            click.echo(f"[bench] {name}: {said}", err=True)


def table(rows: Sequence[Row]) -> str:
    """For people."""
    return tabulate(rows, headers="keys", floatfmt=".4g") + "\n"


def chosen_loads(modules: Mapping[str, ModuleType], wanted: Sequence[str]) -> list[str]:
    """Raises: click.UsageError: no such load."""
    found = {load for module in modules.values() if hasattr(module, "loads") for load in module.loads()}
    if len(modules) != 1 or not found:
        raise click.UsageError("--loads goes with one benchmark that has loads: kernel")
    plain, controls = (sorted({load.rpartition("-")[end] for load in found}) for end in (0, 2))
    for name in wanted:
        if name not in found.union(plain):
            ends = " or ".join(f"-{control}" for control in controls)
            raise click.UsageError(
                f"--loads: no load {name!r}; expected {', '.join(plain)}, as they are or with {ends}"
            )
    return list(wanted)


if __name__ == "__main__":
    main()
