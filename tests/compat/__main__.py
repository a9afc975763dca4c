"""Real programs' own suites and loads, bare and under libqclimb.so, compared result by result: `make compat`.

`programs` is the table of them, `program` runs a row on a `bed`, `outcome` compares. Run from the checkout's root, as
`python -m tests.compat`: nothing here is installed.
"""

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import click
from qclimb.policy import Mode
from rich.console import Console
from rich.table import Table

from hostlib.run import LIBRARY
from tests.compat.bed import Bed, CompatError, Hung, Seen, own_network, shape_loopback
from tests.compat.outcome import FAILED, PASSED, SKIPPED, Comparison, Outcome, compare, verdict
from tests.compat.program import Program
from tests.compat.programs import PROGRAMS
from tests.compat.sanitizer import SANITIZERS, Sanitizer

EXAMPLE = """\b
Examples:
  make compat
  make compat ARGS="redis nginx --mode qclimb"
  make compat ARGS="curl node java postgres --mode pias --optax"
  make compat ARGS="redis memcached --sanitizer thread"
  make compat ARGS="cpython --keep /tmp/compat" COMPAT_SUITES="test_ssl test_socketserver"
"""
SHOWN = 20
"""Differences that are printed of one run; --json has all."""


@dataclass(frozen=True)
class Run:
    """One program under one mode, beside its bare run."""

    program: str
    mode: Mode
    bare: Outcome
    under: Outcome
    seen: Seen
    comparison: Comparison

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "program": self.program,
            "mode": self.mode.value,
            "bare": dict(self.bare.counts()),
            "under": dict(self.under.counts()),
            "failed_bare": list(self.bare.failed()),
            "new_failures": [str(difference) for difference in self.comparison.failures],
            "mended": [str(difference) for difference in self.comparison.mended],
            "rate_ratio": self.comparison.rate_ratio,
            "rate_of": self.under.rate_of,
            "seen": vars(self.seen),
        }


@dataclass
class Report:
    """All that was run, and what was not."""

    own_network: bool
    rate: str | None
    runs: list[Run] = field(default_factory=list)
    missing: dict[str, tuple[str, ...]] = field(default_factory=dict)
    broken: dict[str, str] = field(default_factory=dict)
    """Programs whose bare run failed as a whole: nothing can be said of the library."""

    @property
    def is_good(self) -> bool:
        """Nothing new failed, and whatever was there ran."""
        return not self.broken and not any(run.comparison.failures for run in self.runs)

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "own_network": self.own_network,
            "loopback_rate": self.rate,
            "runs": [run.to_json() for run in self.runs],
            "missing": {name: list(packages) for name, packages in self.missing.items()},
            "broken": self.broken,
            "good": self.is_good,
        }


@click.command(epilog=EXAMPLE, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@click.argument("names", nargs=-1, type=click.Choice([program.name for program in PROGRAMS]))
@click.option(
    "--mode",
    "modes",
    multiple=True,
    type=click.Choice([mode.value for mode in Mode]),
    default=[Mode.PIAS.value, Mode.QCLIMB.value],
    show_default=True,
    help="What the library does; may be given again.",
)
@click.option(
    "--rate",
    default="500mbit",
    show_default=True,
    help="The loopback's rate (as tc writes it) in the namespace, so that queues stand; `none`: as fast as it is.",
)
@click.option(
    "--library",
    "built",
    type=click.Path(path_type=Path, dir_okay=False),
    default=LIBRARY,
    help="Another build of libqclimb.so than `make -C hostlib`'s.",
)
@click.option(
    "--sanitizer",
    "sanitizer_name",
    type=click.Choice(list(SANITIZERS)),
    help="A build with AddressSanitizer and UBSan, or ThreadSanitizer; what it finds is a new failure.",
)
@click.option("--optax", is_flag=True, help="Receivers stand in OPTAX's line (modes pias and qclimb), on loopback too.")
@click.option("--keep", type=click.Path(path_type=Path, file_okay=False), help="Leave each run's folder in this one.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of the table.")
@click.option("--list", "only_list", is_flag=True, help="Only tell which programs there are, and what they need.")
def main(
    names: tuple[str, ...],
    modes: tuple[str, ...],
    rate: str,
    built: Path,
    sanitizer_name: str | None,
    optax: bool,
    keep: Path | None,
    as_json: bool,
    only_list: bool,
) -> None:
    """Run the programs NAMES (all by default) bare and under libqclimb.so; exit 1 when something fails only under it.

    Results, bytes and counts of errors are compared, never times: a ratio of throughput is shown for information. All
    runs lie in a network namespace of their own where that is allowed (root), else on the host's loopback.
    """
    wanted = [program for program in PROGRAMS if not names or program.name in names]
    if only_list:
        for program in wanted:
            click.echo(f"{program.name:10} {program.about}{_install(program.missing())}")
        return
    sanitizer = None if sanitizer_name is None else SANITIZERS[sanitizer_name]
    if sanitizer is not None:
        try:
            built = sanitizer.library()
        except CompatError as error:
            click.echo(f"compat: {error}", err=True)
            sys.exit(2)
    if not built.is_file():
        click.echo(f"compat: {built}: no such file; expected libqclimb.so, which `make -C hostlib` builds", err=True)
        sys.exit(2)
    alone = own_network()
    report = Report(alone, None if rate == "none" or not alone else rate)
    console = Console(stderr=True)
    if not alone:
        console.print("[compat] not root: the host's own loopback, unshaped")
    with _folder(keep) as folder:
        # A copy: one that is built anew meanwhile would change under running programs, and all users may read it here.
        library = folder / LIBRARY.name
        shutil.copyfile(built, library)
        library.chmod(0o755)
        try:
            for program in wanted:
                _run_program(
                    program, [Mode(mode) for mode in modes], folder, library, report, console, sanitizer, optax
                )
        except CompatError as error:
            click.echo(f"compat: {error}", err=True)
            sys.exit(2)
    if as_json:
        click.echo(json.dumps(report.to_json(), indent=2))
    else:
        _print(report)
    sys.exit(0 if report.is_good else 1)


def _run_program(
    program: Program,
    modes: list[Mode],
    folder: Path,
    library: Path,
    report: Report,
    console: Console,
    sanitizer: Sanitizer | None = None,
    optax: bool = False,
) -> None:
    if packages := program.missing():
        report.missing[program.name] = packages
        return
    if report.own_network:
        shape_loopback(report.rate if program.paced else None)
    console.print(f"[compat] {program.name} bare ...", markup=False)
    bare, _, stacks = _run_once(program, None, folder, library)
    if "run" in bare.results:
        report.broken[program.name] = bare.results["run"]
        console.print(stacks, markup=False)
        return
    for mode in modes:
        console.print(f"[compat] {program.name} {mode} ...", markup=False)
        under, seen, stacks = _run_once(program, mode, folder, library, sanitizer, optax)
        if stacks:
            console.print(stacks, markup=False)
        run = Run(program.name, mode, bare, under, seen, compare(bare, under))
        report.runs.append(run)
        for difference in run.comparison.failures[:SHOWN]:
            console.print(f"  new failure: {difference}", markup=False)


def _run_once(
    program: Program,
    mode: Mode | None,
    folder: Path,
    library: Path,
    sanitizer: Sanitizer | None = None,
    optax: bool = False,
) -> tuple[Outcome, Seen, str]:
    """One run; one that could not be carried through has the single result `run`, and its stacks where it hung."""
    bed = Bed(folder / f"{program.name}-{mode or 'bare'}", mode, library, optax)
    reports = bed.folder / "sanitizer"
    if sanitizer is not None:
        bed.environment |= sanitizer.environment(library, reports)
    try:
        outcome = program.run(bed)
    except Hung as error:
        outcome = Outcome({"run": f"{FAILED}: {error}"})
        bed.hangs.append(error.stacks)
    except (CompatError, ValueError, LookupError, OSError, subprocess.SubprocessError) as error:
        outcome = Outcome({"run": f"{FAILED}: {type(error).__name__}: {error}"})
    finally:
        seen = bed.end()
    if sanitizer is not None and (found := sanitizer.found(reports)):
        outcome = replace(outcome, results={**outcome.results, "the sanitizer's word": verdict(False, found)})
    return outcome, seen, "\n".join(bed.hangs)


@contextmanager
def _folder(keep: Path | None) -> Iterator[Path]:
    """Where beds lie; other users may enter it (a database runs as one)."""
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix="run-", dir=keep.absolute()))
        folder.chmod(0o755)
        yield folder
        return
    with tempfile.TemporaryDirectory(prefix="qclimb-compat-") as made:
        Path(made).chmod(0o755)
        yield Path(made)


def _install(packages: tuple[str, ...]) -> str:
    return f" (missing: apt install {' '.join(packages)})" if packages else ""


def _counts(outcome: Outcome) -> str:
    counts = outcome.counts()
    return " / ".join(str(counts[word]) for word in (PASSED, FAILED, SKIPPED))


def _print(report: Report) -> None:
    table = Table(title="programs under libqclimb.so, against the same run without it")
    for title in ("program", "mode", "bare: passed / failed / skipped", "under it", "new failures", "rate / bare"):
        table.add_column(title, justify="left" if title in ("program", "mode") else "right")
    table.add_column("flows, demotions, promotions", justify="right")
    for run in report.runs:
        ratio, seen = run.comparison.rate_ratio, run.seen
        table.add_row(
            run.program,
            run.mode.value,
            _counts(run.bare),
            _counts(run.under),
            str(len(run.comparison.failures)),
            "" if ratio is None else f"{ratio:.2f}",
            f"{seen.flows:,}, {seen.demotions:,}, {seen.promotions:,}",
        )
    for name, packages in report.missing.items():
        table.add_row(name, "", f"missing: apt install {' '.join(packages)}", "", "", "", "")
    for name, reason in report.broken.items():
        table.add_row(name, "", f"does not run bare: {reason}", "", "", "", "")
    Console(width=None if sys.stdout.isatty() else 160).print(table)
    for name, failed in {run.program: run.bare.failed() for run in report.runs}.items():
        for said in failed[:SHOWN]:
            click.echo(f"fails without it too, {name}: {said}")
    for run in report.runs:
        for difference in run.comparison.failures[:SHOWN]:
            click.echo(f"new failure, {run.program} {run.mode}: {difference}")
        for difference in run.comparison.mended[:SHOWN]:
            click.echo(f"passes only under it, {run.program} {run.mode}: {difference}")


if __name__ == "__main__":
    main()
