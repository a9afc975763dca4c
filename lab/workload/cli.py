"""Commands that `qclimb lab` gets from here: `demo`, `run fct`, `run deadline`, `trace make`, `trace show`. Heavy
imports wait until needed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from qclimb.options import Finite

SCHEME_NAMES = "tcp,pias,qclimb,qclimb-no-forest,qclimb-no-footprint"
"""Compared unless told otherwise."""
MORE_SCHEMES = "qclimb-paper-slack"


@contextmanager
def one_sentence() -> Iterator[None]:
    """What is wrong with the machine or the request: a sentence and exit 2, not a traceback."""
    from lab.fabric import FabricError
    from lab.workload.programs import WorkloadError

    try:
        yield
    except (FabricError, WorkloadError) as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(2)


def written(path: Path, text: str) -> None:
    """Writes a file, or says why not and exits with 2."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        click.echo(f"Error: {path}: {error.strerror}, expected a place to write to", err=True)
        sys.exit(2)


class Numbers(click.ParamType[Any]):
    """A list of numbers with commas; when `ordinal`, one without a comma is how many (`3`: 1,2,3; `3,`: only 3)."""

    name = "NUMBERS"

    def __init__(self, kind: type[int] | type[float], ordinal: bool = False) -> None:
        self._kind, self._ordinal = kind, ordinal

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[float, ...]:
        """The numbers, none twice."""
        if isinstance(value, tuple):
            return value
        try:
            found = tuple(self._kind(part) for part in str(value).removesuffix(",").split(","))
        except ValueError:
            self.fail(f"{value!r} is not a list of numbers with commas, like 1,2,3", param, ctx)
        if self._ordinal and "," not in str(value):
            found = tuple(range(1, int(found[0]) + 1))
        if not found or len(set(found)) != len(found) or not all(number > 0 for number in found):
            self.fail(f"{value!r}: expected numbers above 0, none twice", param, ctx)
        return found


seeds_option = click.option(
    "--seeds",
    type=Numbers(int, ordinal=True),
    default="3",
    show_default=True,
    help="How many, or a list; `31,` is one.",
)


class SchemeList(click.ParamType[Any]):
    """Names of schemes with commas."""

    name = "SCHEMES"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        """The names, in order."""
        if isinstance(value, tuple):
            return value
        names = tuple(str(value).split(","))
        for name in names:
            known = f"{SCHEME_NAMES},{MORE_SCHEMES}"
            if name not in known.split(","):
                self.fail(f"{name!r} is no scheme; known: {known}", param, ctx)
        if len(set(names)) != len(names):
            self.fail(f"{value!r}: a scheme stands there twice", param, ctx)
        return names


schemes_option = click.option(
    "--schemes",
    type=SchemeList(),
    default=SCHEME_NAMES,
    show_default=True,
    help=f"What is compared, with commas; there is also {MORE_SCHEMES}.",
)


def results_option(folder: str, name: str = "folder") -> Callable[[Callable[..., None]], Callable[..., None]]:
    """`--results`, whose default is `folder`."""
    return click.option(
        "--results",
        name,
        type=click.Path(path_type=Path),
        default=Path(folder),
        show_default=True,
        help="Folder for what is measured and reported.",
    )


LOAD = Finite(0.05, 0.95)
SECONDS = Finite(1, 600)


@click.command(epilog="\b\nExample:\n  qclimb lab demo --keep")
@click.option("--keep", is_flag=True, help="Leave the fabric up and print commands to look around.")
@click.option("--load", type=LOAD, default=0.6, show_default=True, help="Of the hosts' links.")
@click.option("--seed", type=click.IntRange(1, 999), default=1, show_default=True, help="Of the replayed trace.")
@click.option("--seconds", type=SECONDS, default=25.0, show_default=True, help="Of arrivals in a pass.")
@schemes_option
@click.option("--prefix", default="qc", show_default=True, help="Of the network namespaces' names.")
@results_option("lab-results", "results")
def demo(**options: Any) -> None:
    """Short flows finish first in a fabric of real TCP: see it.

    Plain TCP, PIAS and QCLIMB over one trace, and a report.
    """
    with one_sentence():
        from lab.console import console_for_tables
        from lab.demo import DemoSettings, run_demo

        run_demo(DemoSettings(**options), console_for_tables())


@click.group(epilog="\b\nExample:\n  qclimb lab run fct --seeds 1 --loads 0.6\n  qclimb lab run optax --quick")
def run() -> None:
    """Longer measurements; resumable."""


@run.command(epilog="\b\nExample:\n  qclimb lab run fct --seeds 3 --loads 0.4,0.6,0.8 --schemes tcp,pias,qclimb")
@seeds_option
@click.option("--loads", type=Numbers(float), default="0.4,0.6,0.8", show_default=True, help="Of the hosts' links.")
@schemes_option
@click.option("--seconds", type=SECONDS, default=25.0, show_default=True, help="Of arrivals in a pass.")
@click.option(
    "--host-rate-mbps",
    type=click.IntRange(1, 500),
    default=25,
    show_default=True,
    help="Of hosts' links; uplinks have twice that. Slower links ask less of the machine.",
)
@click.option("--prefix", default="qc", show_default=True, help="Of the network namespaces' names.")
@results_option("lab-results/fct")
@click.option("--json", "as_json", is_flag=True, help="Print results.json instead of tables.")
def fct(as_json: bool, host_rate_mbps: int, **options: Any) -> None:
    """Flow completion times over seeds and loads.

    With bootstrap intervals. A rerun goes on where it stopped.
    """
    if any(load >= 1 for load in options["loads"]):
        raise click.BadParameter("a load must be below 1", param_hint="--loads")
    with one_sentence():
        from rich.console import Console

        from lab.console import console_for_tables
        from lab.fabric import Topology
        from lab.run_fct import FctSettings, run_fct

        settings = FctSettings(**options)
        topology = Topology(host_rate_bps=host_rate_mbps * 10**6, uplink_rate_bps=2 * host_rate_mbps * 10**6)
        run_fct(settings, Console(stderr=True, width=150) if as_json else console_for_tables(), topology)
        if as_json:
            click.echo((settings.folder / "results.json").read_text(encoding="utf-8"))


@run.command(epilog="\b\nExample:\n  qclimb lab run deadline --trials 30 --flows 4,8,12,16,20,24,32")
@click.option("--trials", type=click.IntRange(1, 1000), default=30, show_default=True, help="Of each number of flows.")
@click.option("--flows", type=Numbers(int), default="4,8,12,16,20,24,32", show_default=True, help="At once, to 64.")
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True, help="Of sizes and deadlines.")
@click.option("--rate-mbps", type=click.IntRange(1, 200), default=50, show_default=True, help="Of the receiver's port.")
@click.option("--step-us", type=click.IntRange(1), default=25_000, show_default=True, help="deadline_step_us.")
@click.option("--prefix", default="qcdl", show_default=True, help="Of the network namespaces' names.")
@results_option("lab-results/deadline")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def deadline(as_json: bool, **options: Any) -> None:
    """Share of deadlines met by flows that meet at one port.

    Earliest deadline first by priorities, against none. PDQ's query aggregation (SIGCOMM'12): sizes U[2, 198] KB,
    deadlines exponential of mean 20 ms and 3 ms at the least, at 1 Gb/s; at a slower port times are longer by as much.
    A rerun goes on where it stopped.
    """
    with one_sentence():
        from lab.deadline.run import run_and_report

        run_and_report(options, as_json)


@run.command(epilog="\b\nExample:\n  qclimb lab run tagger --seeds 3 --flows 100 --document docs/results/tagger.md")
@seeds_option
@click.option("--flows", type=click.IntRange(1, 10_000), default=100, show_default=True, help="In each cell.")
@results_option("lab-results/tagger")
@click.option("--document", type=click.Path(path_type=Path, dir_okay=False), help="The Markdown file to write.")
@click.option("--seconds", type=Finite(0), default=0.0, help="Stop after so long; the next run goes on.")
def tagger(**options: Any) -> None:
    """Flows that climb, by the library and by the tagger.

    Default kernel, drain, tagger, tagger and filter; without loss and with real drops.
    """
    with one_sentence():
        from lab.console import console_for_tables
        from lab.tagger.run import Settings, run_tagger

        run_tagger(Settings(**options), console_for_tables())


FIGURES = ("base", "bulk", "slow", "fig10", "fig11", "fig12", "fig13", "blocks")


@run.command(epilog="\b\nExample:\n  qclimb lab run optax --quick\n  qclimb lab run optax --only base,fig10 --runs 5")
@click.option("--runs", type=click.IntRange(1, 100), help="Of every point; default: base 5, bulk and slow 3, others 2.")
@click.option("--only", default=",".join(FIGURES), show_default=True, help="Which of the figures.")
@click.option("--quick", is_flag=True, help="A minute: the base case, two runs.")
@click.option(
    "--rate-mbps", type=click.IntRange(1, 500), default=100, show_default=True, help="Of the receiver's port."
)
@click.option("--stored", is_flag=True, help="Measure nothing: report what earlier runs left.")
@click.option("--prefix", default="ox", show_default=True, help="Of the network namespaces' names.")
@results_option("lab-results/optax")
def optax(runs: int | None, only: str, quick: bool, stored: bool, rate_mbps: int, prefix: str, folder: Path) -> None:
    """Task completion with OPTAX, against fair sharing.

    OPTAX stands at the receiver alone. A rerun goes on where it stopped.
    """
    names = ("base",) if quick else tuple(only.split(","))
    for name in names:
        if name not in FIGURES:
            raise click.BadParameter(f"{name!r} is none of {', '.join(FIGURES)}", param_hint="--only")
    with one_sentence():
        from rich.console import Console

        from lab.optax.report import write_report
        from lab.optax.run import OptaxSettings, run_all_blocks, run_optax

        settings = OptaxSettings(2 if quick else runs, names, prefix, rate_mbps, folder, stored)
        found = run_optax(settings, Console(stderr=True))
        read = run_all_blocks(settings, Console(stderr=True))
        how = f"One port of {rate_mbps} Mb/s; `qclimb lab run optax`."
        click.echo(write_report(found, folder / "optax.md", how, read))


@click.group(epilog="\b\nExample:\n  qclimb lab trace make --load 0.6 --seed 1 -o trace.txt")
def trace() -> None:
    """Arrival traces."""


@trace.command(epilog="\b\nExample:\n  qclimb lab trace make --load 0.6 --seed 1 --seconds 25 -o trace.txt")
@click.option("--load", type=LOAD, required=True, help="Of the hosts' links.")
@click.option("--seed", type=click.IntRange(0), required=True, help="Equal seeds, equal traces.")
@click.option("--seconds", type=SECONDS, default=25.0, show_default=True, help="Of arrivals.")
@click.option("--hosts", type=click.IntRange(2, 100), default=8, show_default=True, help="That send to each other.")
@click.option("--host-rate-mbps", type=Finite(0.1, 1000), default=25.0, show_default=True, help="Of hosts' links.")
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), required=True, help="Text file.")
def make(load: float, seed: int, seconds: float, hosts: int, host_rate_mbps: float, output: Path) -> None:
    """Write a trace: Poisson arrivals over uniform pairs of hosts.

    The same options give the same file.
    """
    from lab.workload.trace import describe, make_trace

    made = make_trace(load, seed, seconds, [f"h{n + 1}" for n in range(hosts)], host_rate_mbps * 1e6)
    written(output, made.to_text())
    click.echo(f"{output}: {len(made.flows)} flows over {made.seconds:.2f} s")
    for name, shares in describe(made.flows).items():
        click.echo(f"  {name:8} {shares['flows']:6.1%} of flows  {shares['bytes']:6.1%} of bytes")
