"""`qclimb lab demo`, `run`, and `trace`. Heavy imports wait until needed."""

from __future__ import annotations

import dataclasses
import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import click
from qclimb.options import Finite, Output

from lab.cli.errors import one_sentence, require_root, written
from lab.run import settings

EXPERIMENTS: dict[str, tuple[Any, str, str]] = {
    "demo": (settings.Demo, "lab.run.demo", "qclimb lab demo --keep"),
    "fct": (
        settings.Fct,
        "lab.run.fct",
        "qclimb lab run fct --seeds 3 --loads 0.4,0.6,0.8 --schemes tcp,pias,qclimb",
    ),
    "bounds": (
        settings.Bounds,
        "lab.run.bounds.report",
        "qclimb lab run bounds --quick\n  qclimb lab run bounds --traces web --figures 7,14",
    ),
    "optax": (
        settings.Optax,
        "lab.run.optax.report",
        "qclimb lab run optax --quick\n  qclimb lab run optax --only base,fig10 --runs 5",
    ),
    "deadline": (
        settings.Deadline,
        "lab.run.deadline.run",
        "qclimb lab run deadline --trials 30 --flows 4,8,12,16,20,24,32",
    ),
    "tagger": (
        settings.Tagger,
        "lab.run.tagger.run",
        "qclimb lab run tagger --seeds 3 --flows 100 --document docs/results/tagger.md",
    ),
    "bigspine": (
        settings.BigSpine,
        "lab.run.bigspine.run",
        "sudo qclimb lab run bigspine\n  sudo qclimb lab run bigspine --spines 4 --seeds 1, --at-most 280",
    ),
    "spineloss": (settings.SpineLoss, "lab.run.bigspine.loss", "sudo qclimb lab run spineloss --trials 10"),
    "control": (settings.Control, "lab.run.control.report", "sudo qclimb lab run control --document control.md"),
    "drift": (
        settings.Drift,
        "lab.run.drift.report",
        "sudo qclimb lab run drift\n  sudo qclimb lab run drift --on-drift offer --document drift.md",
    ),
}
"""By name: settings, the module whose `main` takes them, an example."""


def command(name: str) -> click.Command:
    """The command of an experiment: its options are its settings' fields."""
    kind, module, example = EXPERIMENTS[name]

    def body(**given: Any) -> None:
        with one_sentence():
            if not given.get("stored"):  # what reports old results builds no fabric
                require_root()
            code = import_module(module).main(kind(**given))
        sys.exit(code)

    options: list[click.Parameter] = [_option(each) for each in dataclasses.fields(kind) if each.metadata]
    epilog = f"\b\nExample:\n  {example}"
    return click.Command(name, params=options, callback=body, help=kind.__doc__, epilog=epilog)


def _option(setting: dataclasses.Field[Any]) -> click.Option:
    said, default = setting.metadata, setting.default
    words = said["option"] or f"--{setting.name.replace('_', '-')}"
    if isinstance(default, bool):
        return click.Option([setting.name, words], is_flag=True, default=default, help=said["help"])
    text = ",".join(map(str, default)) if isinstance(default, tuple) else default
    return click.Option(
        [setting.name, words], type=said["kind"], default=text, show_default=text not in (None, ""), help=said["help"]
    )


demo = command("demo")


@click.group(epilog="\b\nExample:\n  qclimb lab run fct --seeds 1 --loads 0.6\n  qclimb lab run optax --quick")
def run() -> None:
    """Longer measurements; resumable."""


for _name in EXPERIMENTS:
    if _name != "demo":
        run.add_command(command(_name))


@click.group(epilog="\b\nExample:\n  qclimb lab trace make --load 0.6 --seed 1 -o trace.txt")
def trace() -> None:
    """Arrival traces."""


@trace.command(epilog="\b\nExample:\n  qclimb lab trace make --load 0.6 --seed 1 --seconds 25 -o trace.txt")
@click.option("--load", type=Finite(0.05, 0.95), required=True, help="Of the hosts' links.")
@click.option("--seed", type=click.IntRange(0), required=True, help="Equal seeds, equal traces.")
@click.option("--seconds", type=Finite(1, 600), default=25.0, show_default=True, help="Of arrivals.")
@click.option("--hosts", type=click.IntRange(2, 100), default=8, show_default=True, help="That send to each other.")
@click.option("--host-rate-mbps", type=Finite(0.1, 1000), default=25.0, show_default=True, help="Of hosts' links.")
@click.option("-o", "--output", type=Output(), required=True, help="Text file.")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def make(
    load: float, seed: int, seconds: float, hosts: int, host_rate_mbps: float, output: Path, as_json: bool
) -> None:
    """Write a trace: Poisson arrivals over uniform pairs of hosts.

    The same options give the same file.
    """
    from lab.workload.trace import describe, make_trace

    made = make_trace(load, seed, seconds, [f"h{n + 1}" for n in range(hosts)], host_rate_mbps * 1e6)
    written(output, made.to_text())
    classes = describe(made.flows)
    if as_json:
        told = {"output": str(output), "flows": len(made.flows), "seconds": made.seconds, "shares": classes}
        click.echo(json.dumps(told))
        return
    click.echo(f"{output}: {len(made.flows)} flows over {made.seconds:.2f} s")
    for name, shares in classes.items():
        click.echo(f"  {name:8} {shares['flows']:6.1%} of flows  {shares['bytes']:6.1%} of bytes")
